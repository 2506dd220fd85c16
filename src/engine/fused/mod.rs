//! The CPU executor: every layer by its own kernels, private at the price of a plain step.
//!
//! A network is read once as a [`Graph`] of layers on plain numbers, channels last. A worker takes
//! a few examples at a time through it, forward and back; norms come with the backward pass, large
//! gradients either are never formed for one example ("ghost") or live in the processor's caches
//! for as long as it takes to measure and add them. Memory: the activations of a few examples per
//! worker, one example's gradients, and a few sums (at most one per segment); never batch x
//! parameters.

mod activation;
mod conv;
mod dense;
mod embedding;
mod graph;
mod im2col;
mod layout;
mod lstm;
mod norm;
mod op;
mod outer;
mod pass;
mod pixel_gram;
mod plan;
mod pool;
mod standardise;
mod state;
mod stateless;

use std::sync::{Mutex, PoisonError};

use super::{Batch, ClipRule, ClippedSum, Executor, Weights};
use crate::nn::Network;
use crate::{Error, ErrorKind, Result};
use burn::prelude::Device;
use plan::Request;
use state::State;

/// Per-example gradients by fused kernels on the CPU, for networks made of the lab's own layers.
/// Keeps its buffers from step to step, so hold on to one for a whole training.
///
/// Bit for bit the same whatever the number of threads: examples are split into segments by the
/// batch and the network alone, and the segments' sums are added in order. Another number of
/// examples at a time ([`with_chunk`](Self::with_chunk)) changes f32 rounding only.
///
/// # Guarantee
/// As [`Executor`]. Norms of wide layers on few positions are found without forming the
/// gradient, from products of pairs of positions; where these nearly cancel the gradient is formed
/// after all, so that the norm is good to 1e-4 whatever the example, and to about 1e-6 as a rule.
#[derive(Default)]
pub struct FusedExecutor {
    chunk: Option<usize>,
    state: Mutex<Option<State>>,
}

impl FusedExecutor {
    /// Works on this many examples at a time (at least one); chosen from the sizes of the
    /// activations if not given.
    pub fn with_chunk(self, examples: usize) -> Self {
        Self { chunk: Some(examples.max(1)), ..self }
    }

    /// Whether this executor can take the network: one of the lab's layers, on the CPU.
    pub fn takes(network: &Network) -> bool {
        !network.specs().is_empty() && network.device() == Device::flex()
    }

    fn run(
        &self,
        network: &Network,
        batch: &Batch,
        rule: Option<&ClipRule>,
        weights: Option<&Weights>,
    ) -> Result<ClippedSum> {
        super::check(network, batch, rule.unwrap_or(&ClipRule::unclipped()), weights)?;
        if !Self::takes(network) {
            let why = "the fused executor works on the CPU, on networks of the lab's own layers";
            return Err(Error::new(ErrorKind::Model, "a network it can't take", why)
                .fix("use engine::TapExecutor, which takes any"));
        }
        // A panic elsewhere can't leave the state half-changed: every call sets it up anew.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let matches = state.as_ref().is_some_and(|state| state.matches(network));
        let state = match (&mut *state, matches) {
            (Some(state), true) => state,
            (state, _) => state.insert(State::of(network)),
        };
        state.load(network);
        let packed = weights.map(|weights| state.pack_weights(weights));
        let request = match rule {
            None => Request::PlainSum,
            Some(rule) => Request::ClippedSum { rule, weights: packed.as_ref() },
        };
        let mut result = state.sum(network, batch, &request, self.chunk)?;
        if let Some(weights) = weights {
            weights.select(&mut result.sum);
        }
        Ok(result)
    }
}

impl Executor for FusedExecutor {
    fn weighted_sum(
        &self,
        network: &Network,
        batch: &Batch,
        rule: &ClipRule,
        weights: Option<&Weights>,
    ) -> Result<ClippedSum> {
        self.run(network, batch, Some(rule), weights)
    }

    fn plain_sum(&self, network: &Network, batch: &Batch) -> Result<ClippedSum> {
        let plain = self.run(network, batch, None, None)?;
        let finite = plain.losses.iter().any(|loss| loss.is_finite())
            && plain.sum.entries.iter().flat_map(|entry| &entry.values).all(|v| v.is_finite());
        // A gradient overflowed; only norms tell whose.
        if finite || batch.is_empty() {
            Ok(plain)
        } else {
            self.clipped_sum(network, batch, &ClipRule::unclipped())
        }
    }

    fn norm_methods(&self, network: &Network) -> Vec<&'static str> {
        State::of(network).norm_methods()
    }
}

impl std::fmt::Debug for FusedExecutor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FusedExecutor").field("chunk", &self.chunk).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
