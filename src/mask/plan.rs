//! What a plan says about sparsity.

use serde::{Deserialize, Serialize};
use std::fmt;

use super::covered::{Covered, Origin};
use super::rate::{check_pruning, in_percent};
use super::{DpSnip, Dropping, MagnitudeMask, Mask, RandomMask, Synflow};
use crate::Result;
use crate::data::Dataset;
use crate::privacy::{Delta, Epsilon, Event};

/// How the mask of a run comes about: given, or made from the model when the run begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PrePrune {
    /// This mask.
    Given(Given),
    /// A random one.
    Random(RandomMask),
    /// By Synflow.
    Synflow(Synflow),
    /// By the magnitude of the initial parameters.
    Magnitude(MagnitudeMask),
    /// By a noisy release on the training examples, charged with the run.
    DpSnip(DpSnip),
}

/// A mask as a plan keeps it: in the text, what makes it the same as another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Given {
    fingerprint: String,
    origin: Origin,
    kept: usize,
    of: usize,
    #[serde(default)]
    zeroing: bool,
    /// Not in the text of a plan: a stored run has its mask in a file of its own.
    #[serde(skip)]
    mask: Option<Mask>,
}

impl PrePrune {
    /// The mask itself, if it was given.
    pub fn given(&self) -> Option<&Mask> {
        match self {
            Self::Given(given) => given.mask.as_ref(),
            _ => None,
        }
    }

    /// Where a given mask comes from.
    pub fn origin(&self) -> Option<&Origin> {
        match self {
            Self::Given(given) => Some(&given.origin),
            _ => None,
        }
    }

    /// The share of prunable coordinates that is dropped.
    pub fn rate(&self) -> f64 {
        match self {
            Self::Given(given) => 1.0 - given.kept as f64 / given.of as f64,
            Self::Random(recipe) => recipe.rate(),
            Self::Synflow(recipe) => recipe.rate(),
            Self::Magnitude(recipe) => recipe.rate(),
            Self::DpSnip(recipe) => recipe.rate(),
        }
    }

    fn covered(&self) -> &[Covered] {
        self.origin().map_or(&[], |origin| &origin.covered)
    }
}

impl From<&Mask> for PrePrune {
    fn from(mask: &Mask) -> Self {
        Self::Given(Given {
            fingerprint: mask.fingerprint(),
            origin: mask.origin().clone(),
            kept: mask.kept(),
            of: mask.len(),
            zeroing: mask.is_zeroing(),
            mask: Some(mask.clone()),
        })
    }
}

/// Recipes and masks by value, so that both can be said in one line.
macro_rules! from {
    ($($recipe:ident => $kind:ident),*) => {$(
        impl From<$recipe> for PrePrune {
            fn from(recipe: $recipe) -> Self {
                Self::$kind(recipe)
            }
        }
    )*};
}

from!(RandomMask => Random, Synflow => Synflow, MagnitudeMask => Magnitude, DpSnip => DpSnip);

impl From<Mask> for PrePrune {
    fn from(mask: Mask) -> Self {
        Self::from(&mask)
    }
}

impl fmt::Display for PrePrune {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(given) => {
                write!(f, "{} of {} kept: {}", given.kept, given.of, given.origin)
            }
            Self::Random(recipe) => write!(f, "random, {} dropped", in_percent(recipe.rate())),
            Self::Synflow(recipe) => write!(f, "Synflow, {} dropped", in_percent(recipe.rate())),
            Self::Magnitude(recipe) => {
                write!(f, "magnitude, {} dropped", in_percent(recipe.rate()))
            }
            Self::DpSnip(recipe) => write!(f, "{recipe}"),
        }
    }
}

/// What happens to the optimizer's memory of a coordinate that is dropped in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateOfDropped {
    /// Value, momentum and moments stay as they are (eq. 5 of the paper); Adam counts each
    /// coordinate's own steps.
    #[default]
    Lazy,
    /// The step sees a gradient of zero, so that momentum goes on moving the coordinate.
    Zeros,
}

/// Everything a plan says about sparsity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sparsity {
    /// The mask of the whole run, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pre_prune: Option<PrePrune>,
    /// What is dropped in every step, if anything is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropping: Option<Dropping>,
    /// The optimizer's memory of coordinates that are dropped in a step.
    #[serde(default)]
    pub state: StateOfDropped,
}

impl Sparsity {
    /// Refuses rates out of range.
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(mask) = &self.pre_prune {
            check_pruning(mask.rate())?;
        }
        self.dropping.map_or(Ok(()), |dropping| dropping.rate.check())
    }

    /// The same with the noise of a mask that is released within the run settled.
    pub(crate) fn settled(mut self, total: Option<(Epsilon, Delta)>) -> Result<Self> {
        if let Some(PrePrune::DpSnip(recipe)) = self.pre_prune {
            self.pre_prune = Some(PrePrune::DpSnip(recipe.settled(total)?));
        }
        Ok(self)
    }

    /// What was released about these data when the mask was made and is charged already: the
    /// ledger's name of each release, and the release.
    pub(crate) fn released_before(&self, about: &Dataset) -> Vec<(String, Event)> {
        let covered = self.pre_prune.iter().flat_map(|mask| mask.covered());
        let releases = covered.filter_map(|covered| match covered {
            Covered::Released { event, data, run, .. } if about.is_known_as(data) => {
                Some((run.clone(), event.clone()))
            }
            _ => None,
        });
        releases.collect()
    }

    /// What making the mask within the run releases, or what a mask that was made without noise
    /// makes of it.
    pub(crate) fn released_within(&self) -> Result<Option<Event>> {
        if let Some(why) = self.not_private() {
            return Ok(Some(Event::Unaccountable { why: format!("the mask: {why}") }));
        }
        match &self.pre_prune {
            Some(PrePrune::DpSnip(recipe)) => recipe.event().map(Some),
            _ => Ok(None),
        }
    }

    /// Why the mask voids the guarantee, if it does.
    pub(crate) fn not_private(&self) -> Option<&str> {
        let mut covered = self.pre_prune.iter().flat_map(|mask| mask.covered());
        covered.find_map(|covered| match covered {
            Covered::NotPrivate(why) => Some(why.as_str()),
            _ => None,
        })
    }
}

/// What has to hold for a mask to cost no more than is charged, in a run on the data of these
/// names, if they are known.
pub(crate) fn assumptions(covered: &[Covered], names: &[&str]) -> Vec<String> {
    let of = |covered: &Covered| match covered {
        Covered::Assumption(what) => vec![what.clone()],
        Covered::Released { data, assumed, .. } => {
            let elsewhere = !names.is_empty() && !names.contains(&data.as_str());
            let apart = "nobody is in both these data and those it was released on";
            assumed.iter().cloned().chain(elsewhere.then(|| apart.to_owned())).collect()
        }
        _ => Vec::new(),
    };
    covered.iter().flat_map(of).map(|what| format!("of the mask: {what}")).collect()
}

impl fmt::Display for Sparsity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.pre_prune, &self.dropping) {
            (None, None) => f.write_str("every coordinate is trained"),
            (Some(mask), None) => write!(f, "pre-pruned ({mask})"),
            (None, Some(dropping)) => write!(f, "gradient dropping ({dropping})"),
            (Some(mask), Some(dropping)) => {
                write!(f, "pre-pruned ({mask}), gradient dropping ({dropping})")
            }
        }
    }
}
