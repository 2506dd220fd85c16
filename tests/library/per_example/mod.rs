//! Per-example gradients: all executors against the reference executor on random networks.
//! `tests/reference/per_example.rs` compares them with PyTorch.

mod backprop_clip;
mod bounds;
mod compare;
mod executors;
mod modules;
mod networks;
mod random;
mod user_modules;
mod wide;
mod zoo;

use compare::{distance, median, relative_difference, single_example};
use epsilab::engine::{
    Batch, ClipRule, ClippedSum, CoordinateWeights, Executor, ReferenceExecutor,
};
use epsilab::nn::Network;
use executors::{all, fast, for_user_modules};

/// A clipping rule at the median norm, and the sum of the reference with it.
fn reference(
    network: &Network,
    batch: &Batch,
    weights: Option<&CoordinateWeights>,
) -> (ClipRule, ClippedSum) {
    let unclipped = ClipRule::unclipped();
    let norms = ReferenceExecutor.weighted_sum(network, batch, &unclipped, weights).unwrap().norms;
    let rule = ClipRule::flat(median(&norms).max(1e-12));
    let sum = ReferenceExecutor.weighted_sum(network, batch, &rule, weights).unwrap();
    (rule, sum)
}

/// The sums of the executor and of the reference, clipped at the median norm.
fn clipped_and_reference(
    executor: &dyn Executor,
    network: &Network,
    batch: &Batch,
    weights: Option<&CoordinateWeights>,
) -> (ClippedSum, ClippedSum) {
    let (rule, slow) = reference(network, batch, weights);
    (executor.weighted_sum(network, batch, &rule, weights).unwrap(), slow)
}
