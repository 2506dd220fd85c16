//! The fused CPU executor: per-example clipping in the backward pass of the lab's own kernels.
//!
//! A network is translated once into a [`Graph`](graph::Graph) of operations on channels-last
//! buffers. Each worker runs a few examples at a time forward and backward, and norms are computed
//! along the way. The gradient of a large parameter is either not formed per example (ghost norms)
//! or formed for one example at a time, measured and added while it is in the cache. The choice is
//! made per layer by the number of operations, as in mixed ghost clipping (Bu et al., 2022,
//! arXiv:2205.10683).
//!
//! Memory: the activations of a few examples per worker, the instance gradients of one example, and
//! at most one sum per segment; never batch x parameters.
//!
//! Begin with `graph` and `workspace`. The modules by subject:
//!
//! - the executor: `graph`, `execution_plan`, `executor_state`, `workspace`, `gather_windows`,
//!   `backprop_clip`, `profile`;
//! - layers: `op`, `conv`, `dense`, `lstm`, `embedding`, `norm_layer`, `pool`, `activation`,
//!   `stateless`, `zero_pad`;
//! - convolutions: `conv_standardisation`, `direct_conv`, `winograd`, `pixel_gram`;
//! - parameters: `packed_layout`, `packed_weights`, `binary_mask`;
//! - products of matrices: `small_product`, `outer_product`.

mod activation;
mod backprop_clip;
mod binary_mask;
mod conv;
mod conv_standardisation;
mod dense;
mod direct_conv;
mod embedding;
mod execution_plan;
mod executor_state;
mod gather_windows;
mod graph;
mod lstm;
mod norm_layer;
mod op;
mod outer_product;
mod packed_layout;
mod packed_weights;
mod pixel_gram;
mod pool;
mod profile;
mod small_product;
mod stateless;
mod winograd;
mod workspace;
mod zero_pad;

use std::sync::{Mutex, PoisonError};

use super::{Batch, Bound, ClipRule, ClippedSum, CoordinateWeights, Executor};
use crate::nn::Network;
use crate::{Error, ErrorKind, Result};
use burn::prelude::Device;
use execution_plan::SumRequest;
use executor_state::ExecutorState;
pub use profile::{LayerProfile, StepProfile};

/// Executor that computes per-example gradients with fused CPU kernels, for networks of the lab's
/// own layers. Buffers are reused between calls: use one executor for a whole training run.
///
/// The result is bitwise equal for any number of threads: examples are split into segments that
/// depend on the batch and the network only, and the sums of the segments are added in order.
/// Another chunk size ([`with_chunk_size`](Self::with_chunk_size)) changes the result by f32
/// rounding only.
///
/// # Guarantee
/// As [`Executor`]. Ghost norms of layers on several positions come from Gram matrices, whose terms
/// can cancel. If an a-posteriori bound shows that they nearly do, the gradient is formed instead.
/// Norms are therefore accurate to 1e-4 for every input, and usually to about 1e-6.
#[derive(Default)]
pub struct FusedExecutor {
    chunk: Option<usize>,
    state: Mutex<Option<ExecutorState>>,
}

impl FusedExecutor {
    /// Sets the number of examples per chunk (at least one). The default depends on the sizes of
    /// the activations.
    pub fn with_chunk_size(self, examples: usize) -> Self {
        Self { chunk: Some(examples.max(1)), ..self }
    }

    /// Returns whether this executor can run the network: a list of the lab's layers, on the CPU.
    pub(crate) fn supports(network: &Network) -> bool {
        !network.specs().is_empty() && network.device() == Device::flex()
    }

    /// Computes the clipped sum of a batch and measures its time layer by layer. The first call of
    /// an executor also makes its buffers.
    ///
    /// # Errors
    /// As [`weighted_sum`](Executor::weighted_sum).
    pub fn profile(
        &self,
        network: &Network,
        batch: &Batch,
        bound: &dyn Bound,
    ) -> Result<(ClippedSum, StepProfile)> {
        let groups = super::validated_groups(network, batch, bound, None)?;
        self.with_state(network, |state| {
            let request = SumRequest { groups: Some(&groups), weights: None };
            state.profile(network, batch, &request, self.chunk)
        })
    }

    fn run(
        &self,
        network: &Network,
        batch: &Batch,
        bound: Option<&dyn Bound>,
        weights: Option<&CoordinateWeights>,
    ) -> Result<ClippedSum> {
        let groups = super::validated_groups(
            network,
            batch,
            bound.unwrap_or(&ClipRule::unclipped()),
            weights,
        )?;
        self.with_state(network, |state| {
            if let Some(weights) = weights {
                state.load_weights(weights);
            }
            let packed = weights.and_then(|_| state.packed_weights());
            let request = SumRequest { groups: bound.map(|_| &groups), weights: packed };
            let mut result = state.sum_batch(network, batch, &request, self.chunk)?;
            if let Some(weights) = weights {
                weights.apply_mask(&mut result.sum);
            }
            Ok(result)
        })
    }

    /// Calls `work` with the state for this network, after loading its parameters.
    fn with_state<T>(
        &self,
        network: &Network,
        work: impl FnOnce(&mut ExecutorState) -> Result<T>,
    ) -> Result<T> {
        if !Self::supports(network) {
            let why = "the fused executor runs only on the CPU and only networks of the lab's own \
                       layers";
            return Err(Error::new(
                ErrorKind::Model,
                "the fused executor can't run this network",
                why,
            )
            .fix("use engine::TapExecutor, which runs any network"));
        }
        // Every call loads the parameters and clears its sums, so a poisoned lock is harmless.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let matches = state.as_ref().is_some_and(|state| state.matches(network));
        let state = match (&mut *state, matches) {
            (Some(state), true) => state,
            (state, _) => state.insert(ExecutorState::for_network(network)),
        };
        state.load_parameters(network);
        work(state)
    }
}

impl Executor for FusedExecutor {
    fn weighted_sum(
        &self,
        network: &Network,
        batch: &Batch,
        bound: &dyn Bound,
        weights: Option<&CoordinateWeights>,
    ) -> Result<ClippedSum> {
        self.run(network, batch, Some(bound), weights)
    }

    fn unclipped_sum(
        &self,
        network: &Network,
        batch: &Batch,
        weights: Option<&CoordinateWeights>,
    ) -> Result<ClippedSum> {
        let plain = self.run(network, batch, None, weights)?;
        let finite = plain.losses.iter().any(|loss| loss.is_finite())
            && plain.sum.entries.iter().flat_map(|entry| &entry.values).all(|v| v.is_finite());
        // A gradient overflowed, and only norms tell which example to exclude.
        if finite || batch.is_empty() {
            Ok(plain)
        } else {
            self.weighted_sum(network, batch, &ClipRule::unclipped(), weights)
        }
    }

    fn norm_methods(&self, network: &Network) -> Vec<&'static str> {
        ExecutorState::for_network(network).norm_methods()
    }
}

impl std::fmt::Debug for FusedExecutor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FusedExecutor").field("chunk", &self.chunk).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
