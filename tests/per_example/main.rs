//! Gradients of single examples: every executor against reference values from PyTorch, and
//! against the oracle on random networks.

mod compare;
mod goldens;
mod known;
mod modules;
mod networks;
mod own;
mod random;
mod zoo;

use compare::{alone, apart, distance, median};
use epsilab::engine::{
    Batch, Best, ClipRule, ClippedSum, Fused, Oracle, PerExample, Taps, Weights,
};
use epsilab::nn::Network;

/// The executors that training may use. A new one is held to all tests by one line here.
fn fast() -> Vec<(&'static str, Box<dyn PerExample>)> {
    vec![
        ("Taps", Box::new(Taps::default())),
        ("Taps in chunks", Box::new(Taps::default().with_chunk(3))),
        ("Fused", Box::new(Fused::default())),
        ("Fused in chunks", Box::new(Fused::default().with_chunk(3))),
    ]
}

/// Those that take modules of the user's own.
fn for_own() -> Vec<(&'static str, Box<dyn PerExample>)> {
    let mut some: Vec<_> =
        fast().into_iter().filter(|(name, _)| name.starts_with("Taps")).collect();
    some.push(("Best", Box::new(Best::default())));
    some
}

/// These and the oracle.
fn all() -> Vec<(&'static str, Box<dyn PerExample>)> {
    let mut all = fast();
    all.push(("Oracle", Box::new(Oracle)));
    all
}

/// The sum that the executor makes at the median norm, and the oracle's.
fn both(
    executor: &dyn PerExample,
    network: &Network,
    batch: &Batch,
    weights: Option<&Weights>,
) -> (ClippedSum, ClippedSum) {
    let unclipped = ClipRule::unclipped();
    let norms = Oracle.weighted_sum(network, batch, &unclipped, weights).unwrap().norms;
    let rule = ClipRule::flat(median(&norms).max(1e-12));
    let fast = executor.weighted_sum(network, batch, &rule, weights).unwrap();
    (fast, Oracle.weighted_sum(network, batch, &rule, weights).unwrap())
}
