//! Sampling schemes, by which a run draws its batches.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::data::{PoissonSampler, ShuffledSampler};
use crate::privacy::{Event, NeighbouringRelation, SamplingRate, Stages};
use crate::{Error, Result};

/// Sampling scheme by which a run draws its batches, and with it the neighbouring relation of its
/// guarantee.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Sampling {
    /// Each example is in each batch with the sampling rate, independently. Neighbours: one example
    /// added or removed.
    #[default]
    Poisson,
    /// Every epoch is shuffled and cut into disjoint batches. An epoch is one release (parallel
    /// composition), without amplification by sampling. Neighbours have the same number of
    /// examples.
    DisjointBatches {
        /// The relation: one example zeroed out, or one replaced.
        neighbouring: NeighbouringRelation,
    },
}

impl Sampling {
    /// Returns the neighbouring relation under which the guarantee is stated.
    pub(crate) fn neighbouring(self) -> NeighbouringRelation {
        match self {
            Self::Poisson => NeighbouringRelation::AddOrRemoveOne,
            Self::DisjointBatches { neighbouring } => neighbouring,
        }
    }

    /// Returns whether batches are Poisson samples.
    pub fn is_poisson(&self) -> bool {
        *self == Self::Poisson
    }

    /// Checks that the neighbouring relation suits the sampling.
    ///
    /// # Errors
    /// `Setting` for disjoint batches under "add or remove one".
    pub(in crate::methods) fn check(self) -> Result<()> {
        match self {
            Self::DisjointBatches { neighbouring: NeighbouringRelation::AddOrRemoveOne } => {
                let why = "removing one example moves all later examples to other batches, so an \
                           epoch is not a single release";
                Err(Error::setting("sampling", self, why)
                    .fix("state the guarantee for NeighbouringRelation::ZeroOutOne or ReplaceOne"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the expected fraction of `examples` training examples in a batch: the sampling rate
    /// q of Poisson samples, batch size / examples, and 1 / (number of batches in an epoch) of
    /// disjoint batches. Its inverse is the number of steps in an epoch.
    pub(in crate::methods) fn rate(self, examples: usize, batch_size: usize) -> SamplingRate {
        SamplingRate(match self {
            Self::Poisson => batch_size as f64 / examples as f64,
            Self::DisjointBatches { .. } => 1.0 / examples.div_ceil(batch_size) as f64,
        })
    }

    /// Returns the event of the first steps of a training with these stages.
    ///
    /// # Guarantee
    /// It describes the batches of [`sampler`](Self::sampler) for the same numbers.
    pub(in crate::methods) fn event(
        self,
        stages: &Stages,
        examples: usize,
        batch_size: usize,
        steps: u64,
    ) -> Event {
        match self {
            Self::Poisson => stages.event(self.rate(examples, batch_size), steps),
            Self::DisjointBatches { .. } => {
                stages.shuffled_event(examples.div_ceil(batch_size) as u64, steps)
            }
        }
    }

    /// Returns the sampler of a run.
    ///
    /// # Errors
    /// As [`PoissonSampler::new`] and [`ShuffledSampler::new`].
    pub(in crate::methods) fn sampler(
        self,
        examples: usize,
        batch_size: usize,
        seed: [u8; 32],
    ) -> Result<Box<dyn FnMut() -> Vec<u32> + Send>> {
        Ok(match self {
            Self::Poisson => {
                let rate = self.rate(examples, batch_size).0;
                let mut sampler = PoissonSampler::new(examples, rate, seed)?;
                Box::new(move || sampler.next_batch())
            }
            Self::DisjointBatches { .. } => {
                let mut sampler = ShuffledSampler::new(examples, batch_size, seed)?;
                Box::new(move || sampler.next_batch())
            }
        })
    }
}

impl fmt::Display for Sampling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Poisson => f.write_str("Poisson"),
            Self::DisjointBatches { neighbouring } => {
                write!(f, "disjoint batches ({neighbouring})")
            }
        }
    }
}

#[cfg(test)]
mod tests;
