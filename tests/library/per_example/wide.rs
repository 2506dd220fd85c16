//! Convolutions that the fused executor computes without patches.

use epsilab::engine::{Batch, ClipRule, Executor, FusedExecutor};

use super::clipped_and_reference;
use super::compare::{distance, median, relative_difference, single_example};
use super::networks::{Draw, batch, network, weights, wide_architecture};

#[test]
fn wide_networks_agree_with_the_oracle() {
    let fused = FusedExecutor::default();
    for seed in 0..60 {
        let mut draw = Draw::new(1000 + seed);
        let (specs, shape) = wide_architecture(&mut draw);
        let network = network(&mut draw, &shape, &specs);
        let (n, copies) = (1 + draw.below(4), 1 + draw.below(2));
        let batch = batch(&mut draw, &shape, false, n, copies);
        let weights = weights(&mut draw, &network);
        let (fast, slow) = clipped_and_reference(&fused, &network, &batch, weights.as_ref());
        let context = format!("seed {seed}, {copies} copies, {shape:?}: {specs:?}");
        assert_eq!(fast.excluded_count(), 0, "{context}");
        let norms = distance(&fast.norms, &slow.norms, 0.0);
        assert!(norms < 3e-5, "norms are off by {norms:.1e}: {context}");
        let sums = relative_difference(&fast.sum, &slow.sum);
        assert!(sums < 3e-5, "sums are off by {sums:.1e}: {context}");
    }
}

/// The norm and the sum may be computed in different ways; rounding must not let an example through
/// that is longer than the bound. Constant images make the terms of a gradient cancel.
#[test]
fn no_example_contributes_more_than_the_bound() {
    let fused = FusedExecutor::default();
    let mut largest = 0.0f64;
    for seed in 0..60 {
        let mut draw = Draw::new(2000 + seed);
        let (specs, shape) = wide_architecture(&mut draw);
        let network = network(&mut draw, &shape, &specs);
        let plain = batch(&mut draw, &shape, false, 3, 1);
        for (scale, offset) in [(1.0, 0.0), (1e-2, 1e3), (0.0, 1.0), (1e6, 0.0), (1e-12, 0.0)] {
            let features = (0..3).flat_map(|i| plain.features(i).to_vec());
            let features = features.map(|x| scale * x + offset).collect();
            let moved = Batch::new(features, &shape, plain.labels().to_vec()).unwrap();
            let norms = fused.clipped_sum(&network, &moved, &ClipRule::flat(1.0)).unwrap().norms;
            let bound = 0.5 * median(&norms);
            if !(bound.is_finite() && bound > 0.0) {
                continue;
            }
            for i in 0..3 {
                let one = single_example(&moved, i);
                let rule = ClipRule::flat(bound);
                let sum = fused.clipped_sum(&network, &one, &rule).unwrap().sum;
                let contributed = sum.l2_norm() / bound;
                assert!(contributed <= 1.0 + 1e-4, "{contributed}: seed {seed}, {scale}, {offset}");
                largest = largest.max(contributed);
            }
        }
    }
    // The bound is reached, or nothing would be tested.
    assert!(largest > 1.0 - 1e-4, "{largest}");
}
