//! What a plan says about sparsity.

use serde::{Deserialize, Serialize};
use std::fmt;

use super::covered::Origin;
use super::{DpSnip, Dropping, MagnitudeMask, Mask, RandomMask, Synflow};
use crate::Result;
use crate::privacy::Event;

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

    /// What making the mask within the run releases.
    ///
    /// # Errors
    /// If the noise of a [`DpSnip`] is not settled.
    pub(crate) fn event(&self) -> Result<Option<Event>> {
        match self {
            Self::DpSnip(recipe) => recipe.event().map(Some),
            _ => Ok(None),
        }
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
            Self::Random(recipe) => write!(f, "random, {} dropped", recipe.rate()),
            Self::Synflow(recipe) => write!(f, "Synflow, {} dropped", recipe.rate()),
            Self::Magnitude(recipe) => write!(f, "magnitude, {} dropped", recipe.rate()),
            Self::DpSnip(recipe) => write!(f, "DP-SNIP, {} dropped", recipe.rate()),
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
