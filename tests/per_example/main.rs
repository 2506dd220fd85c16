//! Per-example gradients: all executors against reference values from PyTorch, and against the
//! reference executor on random networks.

mod backprop_clip;
mod bounds;
mod compare;
mod golden_networks;
mod goldens;
mod modules;
mod networks;
mod random;
mod user_modules;
mod wide;
mod zoo;

use compare::{distance, median, relative_difference, single_example};
use epsilab::engine::{
    AutoExecutor, Batch, ClipRule, ClippedSum, Executor, FusedExecutor, ReferenceExecutor,
    TapExecutor, Weights,
};
use epsilab::nn::Network;

/// The executors that training may use. All tests run on each of them.
fn fast() -> Vec<(&'static str, Box<dyn Executor>)> {
    vec![
        ("TapExecutor", Box::new(TapExecutor::default())),
        ("TapExecutor in chunks", Box::new(TapExecutor::default().with_chunk(3))),
        ("FusedExecutor", Box::new(FusedExecutor::default())),
        ("FusedExecutor in chunks", Box::new(FusedExecutor::default().with_chunk(3))),
    ]
}

/// The executors that accept user modules.
fn for_user_modules() -> Vec<(&'static str, Box<dyn Executor>)> {
    let mut executors: Vec<_> =
        fast().into_iter().filter(|(name, _)| name.starts_with("TapExecutor")).collect();
    executors.push(("AutoExecutor", Box::new(AutoExecutor::default())));
    executors
}

/// The executors of [`fast`] and the reference executor.
fn all() -> Vec<(&'static str, Box<dyn Executor>)> {
    let mut executors = fast();
    executors.push(("ReferenceExecutor", Box::new(ReferenceExecutor)));
    executors
}

/// The sums of the executor and of the reference, clipped at the median norm.
fn clipped_and_reference(
    executor: &dyn Executor,
    network: &Network,
    batch: &Batch,
    weights: Option<&Weights>,
) -> (ClippedSum, ClippedSum) {
    let unclipped = ClipRule::unclipped();
    let norms = ReferenceExecutor.weighted_sum(network, batch, &unclipped, weights).unwrap().norms;
    let rule = ClipRule::flat(median(&norms).max(1e-12));
    let fast = executor.weighted_sum(network, batch, &rule, weights).unwrap();
    (fast, ReferenceExecutor.weighted_sum(network, batch, &rule, weights).unwrap())
}
