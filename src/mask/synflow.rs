//! Synflow.
use serde::{Deserialize, Serialize};

use super::Mask;
use crate::Result;
use crate::nn::Model;

/// Synflow (Tanaka et al., 2020; eq. 2 of the pre-pruning paper).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Synflow {
    rate: f64,
    rounds: usize,
}

impl Synflow {
    /// Keeps this share of all weights, over all layers together.
    pub fn keep(share: f64) -> Self {
        Self::prune(1.0 - share)
    }

    /// Drops this share.
    pub fn prune(rate: f64) -> Self {
        Self { rate, rounds: 100 }
    }

    /// Rounds.
    pub fn rounds(self, rounds: usize) -> Self {
        Self { rounds, ..self }
    }

    /// The share that is dropped.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// The mask for a model, from its parameters and the shape of its examples.
    pub fn mask(&self, model: &Model) -> Result<Mask> {
        let _ = model;
        todo!()
    }
}
