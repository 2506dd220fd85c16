//! Norms of gradients whose terms cancel, so that little but rounding error is left, or whose
//! squares leave the range of f32.

use super::*;

/// A network in which the gradients of two positions cancel where the inputs are equal, and weights
/// that mask out the linear layer, whose norm would dominate.
fn cancelling() -> (Network, CoordinateWeights) {
    let layers = [
        LayerSpec::Conv2d(Conv2dSpec { bias: false, ..conv(64, 64, 1) }),
        LayerSpec::Flatten,
        linear(128, 2),
    ];
    let network = Network::build(&[64, 1, 2], &layers, |path, shape, _| {
        let n: usize = shape.iter().product();
        // The two positions of a channel are adjacent in the flattened features and have weights of
        // opposite sign, so that gradients cancel where the inputs are equal.
        let number = |i: usize| match path {
            "2.weight" => [0.1, -0.1][(i / 2 + i % 2) % 2] * (1.0 + (i / 4) as f32 / 64.0),
            "0.weight" => ((i * 7919) % 13) as f32 / 130.0,
            _ => 0.0,
        };
        (0..n).map(number).collect()
    })
    .unwrap();
    let mut only = Gradients::zeros_like(&network);
    only.entries[0].values.fill(1.0);
    let only = CoordinateWeights::new(&network, only).unwrap();
    (network, only)
}

/// Inputs of its two positions that differ by `shift`.
fn two_positions(shift: f32, scale: f32) -> Vec<f32> {
    let value = |i: usize| 20.0 + (i / 2 % 7) as f32 + [0.0, shift][i % 2];
    (0..128).map(|i| scale * value(i)).collect()
}

/// Where the gradients of two positions cancel almost exactly, the rest of the Gram matrix is
/// rounding error, and the gradient must be formed.
#[test]
fn ghost_norms_fall_back_to_instances_when_gram_terms_cancel() {
    let (network, only) = cancelling();
    assert_eq!(FusedExecutor::default().norm_methods(&network)[0], "ghost");
    let only = Some(&only);
    for shift in [0.0, 1e-5, 1e-4, 1e-3, 1e-1] {
        let one = Batch::new(two_positions(shift, 1.0), &[64, 1, 2], vec![1]).unwrap();
        let all = ClipRule::unclipped();
        let expected = ReferenceExecutor.weighted_sum(&network, &one, &all, only).unwrap();
        let bound = f64::from(expected.norms[0]) / 10.0;
        let clip = ClipRule::flat(bound.max(1e-9));
        let clipped = FusedExecutor::default().weighted_sum(&network, &one, &clip, only).unwrap();
        let (found, right) = (clipped.norms[0], expected.norms[0]);
        // After cancellation few digits are left, in the reference too; but the value that is added
        // must be the one that is measured.
        assert!((found - right).abs() <= 5e-3 * right, "shift {shift}: {found:e} for {right:e}");
        assert!(clipped.sum.l2_norm() <= bound * (1.0 + 2e-4), "shift {shift}");
    }
}

/// Formed gradients have a sum of their own, also over examples of several segments.
#[test]
fn gradients_that_are_formed_are_in_the_sum() {
    let (network, only) = cancelling();
    let scale = |i: usize| 1.0 + i as f32 / 50.0;
    let features: Vec<f32> = (0..40).flat_map(|i| two_positions(1e-2, scale(i))).collect();
    let batch = Batch::new(features, &[64, 1, 2], vec![1; 40]).unwrap();
    let rule = ClipRule::unclipped();
    let sum = |executor: &dyn Executor| {
        executor.weighted_sum(&network, &batch, &rule, Some(&only)).unwrap().sum
    };
    let (found, expected) = (sum(&FusedExecutor::default()), sum(&ReferenceExecutor));
    let (off, all) = distance(&found.entries[0].values, &expected.entries[0].values);
    assert!(all > 0.0 && off <= 5e-3 * all, "{off:e} of {all:e}");
}

/// L2 norm of the change of the sum when an outlier is added to a batch, and the norm of its
/// gradient.
fn change_by_adding(network: &Network, others: &[f32], outlier: &[f32], clip: f64) -> (f64, f64) {
    let size: usize = network.input_shape().iter().product();
    let sum = |features: &[f32]| {
        let labels = (0..features.len() / size).map(|i| (i % network.outputs()) as u32).collect();
        let batch = Batch::new(features.to_vec(), network.input_shape(), labels).unwrap();
        FusedExecutor::default().clipped_sum(network, &batch, &ClipRule::flat(clip)).unwrap()
    };
    let (without, with) = (sum(others), sum(&[others, outlier].concat()));
    let pairs = with.sum.entries.iter().zip(&without.sum.entries);
    let square = pairs.map(|(a, b)| distance(&a.values, &b.values).0.powi(2)).sum::<f64>();
    (square.sqrt(), f64::from(*with.norms.last().unwrap()))
}

#[test]
fn an_outlier_with_cancelling_terms_changes_the_sum_by_at_most_the_bound() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    // Two time steps of opposite sign through the same layer, whose mean is zero.
    let wide = [linear(200, 50), LayerSpec::MeanOverTime, linear(50, 2)];
    let wide = network(&[2, 200], &wide, 3);
    let others: Vec<f32> = (0..12 * 400).map(|_| unit(&mut rng)).collect();
    let pixels = [
        LayerSpec::Conv2d(Conv2dSpec { bias: false, ..conv(100, 60, 1) }),
        LayerSpec::GlobalAvgPool,
        linear(60, 2),
    ];
    let pixels = network(&[100, 1, 2], &pixels, 3);
    for huge in [1e3f32, 1e5, 1e7, 1e8] {
        let outlier: Vec<f32> = (0..400)
            .map(|i| huge * ((i % 200) as f32 / 100.0 - 0.9) * if i < 200 { 1.0 } else { -1.0 })
            .collect();
        let (change, _) = change_by_adding(&wide, &others, &outlier, 0.1);
        assert!(change < 0.1 * 1.01, "steps, {huge:e}: {change}");
        let outlier: Vec<f32> =
            (0..200).map(|i| huge * ((i / 2) as f32 / 50.0 - 0.9) * [1.0, -1.0][i % 2]).collect();
        let (change, _) = change_by_adding(&pixels, &others[..12 * 200], &outlier, 0.1);
        assert!(change < 0.1 * 1.01, "pixels, {huge:e}: {change}");
    }
}

/// The gradient of a standardised weight for a constant image is rounding error only. The value
/// that is added must be the one that is measured and clipped, and the other contributions must not
/// change.
#[test]
fn a_constant_image_changes_the_sum_by_its_clipped_norm() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    for (size, gain, method) in [
        (3, false, "ghost"),
        (3, true, "ghost"),
        (9, false, "instantiated"),
        (9, true, "instantiated"),
    ] {
        let standardised = Some(Standardisation { gain, guard: VarianceGuard::Add(1e-4) });
        let layers = [
            LayerSpec::Conv2d(Conv2dSpec { bias: false, standardised, ..conv(20, 16, 3) }),
            LayerSpec::GlobalAvgPool,
            linear(16, 2),
        ];
        let network = network(&[20, size, size], &layers, 3);
        assert_eq!(FusedExecutor::default().norm_methods(&network)[0], method);
        let len = 20 * size * size;
        let others: Vec<f32> = (0..12 * len).map(|_| unit(&mut rng)).collect();
        for huge in [1e3f32, 1e4, 1e5, 1e6, 1e7, 1e8] {
            let (change, norm) = change_by_adding(&network, &others, &vec![huge; len], 0.1);
            let contribution = norm.min(0.1);
            assert!(
                (change - contribution).abs() < 1e-3 * 0.1,
                "{method}, {gain}, {huge:e}: {change} for {contribution}"
            );
        }
    }
}

/// Norms from the columns of a gradient of standardised weights, where their squares leave the
/// range of f32.
#[test]
fn norms_of_standardised_weights_are_right_at_the_limits_of_f32() {
    let standardised = Some(Standardisation { gain: true, guard: VarianceGuard::Add(1e-4) });
    let layers = [
        LayerSpec::Conv2d(Conv2dSpec { bias: false, standardised, ..conv(4, 3, 3) }),
        LayerSpec::GlobalAvgPool,
    ];
    let network = network(&[4, 12, 12], &layers, 3);
    assert_eq!(FusedExecutor::default().norm_methods(&network)[0], "instantiated");
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    for scale in [1e-30f32, 1e-24, 1e-20, 1e-16, 1.0, 1e16, 1e21, 1e25] {
        let features: Vec<f32> = (0..576).map(|_| scale * unit(&mut rng)).collect();
        let one = Batch::new(features, &[4, 12, 12], vec![1]).unwrap();
        let norms_by = |executor: &dyn Executor| {
            executor.weighted_sum(&network, &one, &ClipRule::unclipped(), None).unwrap()
        };
        let (found, expected) = (norms_by(&FusedExecutor::default()), norms_by(&ReferenceExecutor));
        let (found_norm, right) = (found.norms[0], expected.norms[0]);
        assert!((found_norm - right).abs() <= 2e-4 * right, "{scale:e}: {found_norm:e}, {right:e}");
        let sum = found.sum.l2_norm();
        assert!((sum - f64::from(right)).abs() <= 2e-4 * f64::from(right), "{scale:e}: {sum:e}");
    }
}
