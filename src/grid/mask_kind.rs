//! Methods of making the masks of a grid.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::data::Dataset;
use crate::mask::{DpSnip, MagnitudeMask, PrePrune, RandomMask, Snip, Synflow};
use crate::nn::Model;
use crate::{Error, Result};

/// Method of making the masks of a grid.
///
/// ```
/// use epsilab::prelude::*;
/// let kind: MaskKind = "dp-snip".parse()?;
/// assert_eq!(kind, MaskKind::DpSnip);
/// let grid = Grid::new(DpSsgd::new()).masks(kind).pre_prune([0.0, 0.5]).epsilon([1.0, 3.0]);
/// assert_eq!(grid.len(), 4);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum MaskKind {
    /// [`RandomMask`]: data-free.
    Random,
    /// [`Synflow`]: data-free.
    #[default]
    Synflow,
    /// [`DpSnip`]: one noisy release, part of each run's epsilon.
    DpSnip,
    /// [`Snip`]: made from private examples without noise, so no epsilon covers the run.
    Snip,
    /// [`MagnitudeMask`] of the initial parameters: data-free.
    Magnitude,
}

impl MaskKind {
    const ALL: [Self; 5] = [Self::Random, Self::Synflow, Self::DpSnip, Self::Snip, Self::Magnitude];

    /// Returns the name, as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Synflow => "synflow",
            Self::DpSnip => "dp-snip",
            Self::Snip => "snip",
            Self::Magnitude => "magnitude",
        }
    }

    /// Returns whether the recipe needs the model before the plan is made, so that each seed needs
    /// a plan of its own.
    pub(crate) fn needs_model(self) -> bool {
        self == Self::Snip
    }

    /// Returns the mask, or the recipe of a mask, that prunes this fraction of the weights.
    ///
    /// # Errors
    /// As making a mask by SNIP, which reads the training examples.
    pub fn pre_prune(self, rate: f64, model: &Model, data: &Dataset) -> Result<PrePrune> {
        match self.pre_prune_within_run(rate) {
            Some(recipe) => Ok(recipe),
            None => Ok(Snip::prune(rate).mask(model, data)?.into()),
        }
    }

    /// Returns the recipe of a mask that a run makes when it begins; `None` for SNIP, whose mask
    /// is made from model and data before the plan.
    pub fn pre_prune_within_run(self, rate: f64) -> Option<PrePrune> {
        Some(match self {
            // Its seed is derived from that of the run.
            Self::Random => RandomMask::prune(rate).into(),
            Self::Synflow => Synflow::prune(rate).into(),
            Self::DpSnip => DpSnip::prune(rate).into(),
            Self::Magnitude => MagnitudeMask::prune(rate).into(),
            Self::Snip => return None,
        })
    }
}

impl FromStr for MaskKind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            Error::setting("mask", name, "unknown mask")
                .fix(format!("choose from {}", Self::ALL.map(Self::name).join(", ")))
        })
    }
}

impl fmt::Display for MaskKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
