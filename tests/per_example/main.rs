//! Gradients of single examples: every executor against reference values from PyTorch, and
//! against the oracle on random networks.

mod goldens;
mod known;
mod networks;
mod own;
mod random;
mod zoo;

use epsilab::engine::{
    Batch, Best, ClipRule, ClippedSum, Fused, Gradients, Oracle, PerExample, Taps, Weights,
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

/// L2 norm of the difference over the L2 norm, which counts as at least `floor`.
fn distance(a: &[f32], b: &[f32], floor: f64) -> f64 {
    assert_eq!(a.len(), b.len());
    let square = |x: f64| x * x;
    let difference: f64 = a.iter().zip(b).map(|(&x, &y)| square(f64::from(x) - f64::from(y))).sum();
    let norm: f64 = b.iter().map(|&y| square(f64::from(y))).sum();
    difference.sqrt() / norm.sqrt().max(floor).max(1e-30)
}

/// Example `i` alone, with the same dropout masks only if it is the first.
fn alone(batch: &Batch, i: usize) -> Batch {
    let features = batch.features(i).to_vec();
    Batch::with_copies(features, batch.shape(), vec![batch.label(i)], batch.copies()).unwrap()
}

/// The norm in the middle: half of the examples are clipped.
fn median(norms: &[f32]) -> f64 {
    let mut sorted = norms.to_vec();
    sorted.sort_by(f32::total_cmp);
    f64::from(sorted[sorted.len() / 2])
}

/// How far two sums are apart over all parameters, relatively.
fn apart(a: &Gradients, b: &Gradients) -> f64 {
    let all = |g: &Gradients| g.entries.iter().flat_map(|e| e.values.to_vec()).collect::<Vec<_>>();
    distance(&all(a), &all(b), 0.0)
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
