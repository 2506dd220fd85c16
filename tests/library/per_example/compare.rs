//! Differences between results.

use epsilab::engine::{Batch, Gradients};

/// Relative L2 difference: ‖a - b‖ / max(‖b‖, floor).
pub fn distance(a: &[f32], b: &[f32], floor: f64) -> f64 {
    assert_eq!(a.len(), b.len());
    let square = |x: f64| x * x;
    let difference: f64 = a.iter().zip(b).map(|(&x, &y)| square(f64::from(x) - f64::from(y))).sum();
    let norm: f64 = b.iter().map(|&y| square(f64::from(y))).sum();
    difference.sqrt() / norm.sqrt().max(floor).max(1e-30)
}

/// A batch of example `i`. Its dropout masks are those of example 0.
pub fn single_example(batch: &Batch, i: usize) -> Batch {
    let features = batch.features(i).to_vec();
    Batch::with_copies(features, batch.shape(), vec![batch.label(i)], batch.copies()).unwrap()
}

/// The median: at this bound, about half of the examples are clipped.
pub fn median(norms: &[f32]) -> f64 {
    let mut sorted = norms.to_vec();
    sorted.sort_by(f32::total_cmp);
    f64::from(sorted[sorted.len() / 2])
}

/// Relative L2 difference over all parameters.
pub fn relative_difference(a: &Gradients, b: &Gradients) -> f64 {
    let all = |g: &Gradients| g.entries.iter().flat_map(|e| e.values.to_vec()).collect::<Vec<_>>();
    distance(&all(a), &all(b), 0.0)
}
