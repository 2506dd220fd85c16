//! All kinds of layers against the reference executor, with augmented copies and coordinate
//! weights.

mod large;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::FusedExecutor;
use crate::engine::{Batch, ClipRule, Executor, Gradients, ReferenceExecutor, Weights};
use crate::nn::*;

/// Uniform in ±1/2.
fn unit(rng: &mut ChaCha8Rng) -> f32 {
    (rng.next_u32() >> 8) as f32 / (1 << 24) as f32 - 0.5
}

fn network(shape: &[usize], layers: &[LayerSpec], seed: u64) -> Network {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    Network::build(shape, layers, |path, shape, fan_in| {
        let one = if path.ends_with("gamma") || path.ends_with("gain") { 1.0 } else { 0.0 };
        let scale = if fan_in > 1 { 2.0 / (fan_in as f32).sqrt() } else { 0.6 };
        (0..shape.iter().product()).map(|_| one + scale * unit(&mut rng)).collect()
    })
    .unwrap()
}

fn batch(network: &Network, n: usize, copies: usize, tokens: bool) -> Batch {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let size: usize = network.input_shape().iter().product();
    let value = |rng: &mut ChaCha8Rng| match tokens {
        true => ((unit(rng) + 0.5) * 6.99).floor(),
        false => 2.0 * unit(rng),
    };
    let features = (0..n * copies * size).map(|_| value(&mut rng)).collect();
    let labels = (0..n).map(|i| (i % network.outputs()) as u32).collect();
    Batch::with_copies(features, network.input_shape(), labels, copies).unwrap().seed(3)
}

fn distance(a: &[f32], b: &[f32]) -> (f64, f64) {
    let square = |v: f64| v * v;
    let difference =
        a.iter().zip(b).map(|(&a, &b)| square(f64::from(a) - f64::from(b))).sum::<f64>();
    (difference.sqrt(), b.iter().map(|&b| square(f64::from(b))).sum::<f64>().sqrt())
}

/// Largest relative L2 error over the norms, the losses and the sum of each parameter.
fn max_relative_error(
    network: &Network,
    batch: &Batch,
    weights: Option<&Weights>,
    clip: f64,
) -> f64 {
    let rule = ClipRule::flat(clip);
    let expected = ReferenceExecutor.weighted_sum(network, batch, &rule, weights).unwrap();
    let fast = FusedExecutor::default()
        .with_chunk(3)
        .weighted_sum(network, batch, &rule, weights)
        .unwrap();
    let (off, all) = distance(&fast.norms, &expected.norms);
    let mut worst = off / all;
    let (off, all) = distance(&fast.losses, &expected.losses);
    worst = worst.max(off / all);
    let total = expected.sum.l2_norm();
    for (a, b) in fast.sum.entries.iter().zip(&expected.sum.entries) {
        assert_eq!(a.path, b.path);
        let (off, all) = distance(&a.values, &b.values);
        // The error of a tensor with cancelling gradients is relative to 1e-2 of the total norm.
        let off = off / all.max(1e-2 * total).max(1e-12);
        if off > 1e-5 {
            println!("{}: {off:e}, its own length {all:e} of {total:e}", a.path);
        }
        worst = worst.max(off);
    }
    worst
}

fn assert_agrees(name: &str, shape: &[usize], layers: &[LayerSpec]) {
    let network = network(shape, layers, 11);
    let tokens = matches!(layers[0], LayerSpec::Embedding(_));
    let mut rng = ChaCha8Rng::seed_from_u64(8);
    let mut masks = Gradients::zeros_like(&network);
    let mut squares = masks.clone();
    for (mask, square) in masks.entries.iter_mut().zip(&mut squares.entries) {
        for (mask, square) in mask.values.iter_mut().zip(&mut square.values) {
            *mask = if unit(&mut rng) > 0.0 { 1.0 } else { 0.0 };
            *square = (unit(&mut rng) + 0.5) * 3.0;
        }
    }
    squares.entries[0].values.fill(0.0);
    let weights = [masks, squares].map(|values| Weights::new(&network, values).unwrap());
    for copies in [1, 2] {
        let batch = batch(&network, 5, copies, tokens);
        let median = {
            let all =
                ReferenceExecutor.clipped_sum(&network, &batch, &ClipRule::unclipped()).unwrap();
            f64::from(all.norms[2])
        };
        for weights in [None, Some(&weights[0]), Some(&weights[1])] {
            let off = max_relative_error(&network, &batch, weights, 0.9 * median);
            let weighted = weights.is_some();
            assert!(off < 1e-5, "{name}: {off:e} off (copies {copies}, weighted {weighted})");
        }
    }
}

fn conv(input: usize, out: usize, kernel: usize) -> Conv2dSpec {
    Conv2dSpec::new(input, out, kernel)
}

fn linear(inputs: usize, outputs: usize) -> LayerSpec {
    LayerSpec::Linear(LinearSpec { inputs, outputs, bias: true })
}

#[test]
fn convolutions_agree_with_the_reference() {
    let end = |inputs| [LayerSpec::Tanh, LayerSpec::Flatten, linear(inputs, 3)];
    let first = || LayerSpec::Conv2d(Conv2dSpec { padding: [1, 1], ..conv(2, 4, 3) });
    let with = |name: &str, spec: Conv2dSpec| {
        let spec = LayerSpec::Conv2d(spec);
        let shape = spec.output_shape(&[4, 7, 6]).unwrap();
        let layers = [vec![first(), LayerSpec::Selu, spec], end(shape.iter().product()).to_vec()];
        assert_agrees(name, &[2, 7, 6], &layers.concat());
    };
    with("plain", conv(4, 5, 3));
    with("1x1", conv(4, 5, 1));
    with("1x1, stride 2", Conv2dSpec { stride: [2, 2], ..conv(4, 5, 1) });
    with("padded", Conv2dSpec { padding: [1, 2], bias: false, ..conv(4, 5, 3) });
    with("padding beyond the kernel", Conv2dSpec { padding: [3, 4], ..conv(4, 5, 2) });
    with("strided", Conv2dSpec { stride: [2, 3], padding: [1, 0], ..conv(4, 5, 3) });
    with("groups", Conv2dSpec { groups: 2, padding: [1, 1], ..conv(4, 6, 3) });
    with("dilated", Conv2dSpec { dilation: [2, 1], padding: [1, 1], ..conv(4, 5, 3) });
    with("dilated both ways", Conv2dSpec { dilation: [2, 2], stride: [1, 2], ..conv(4, 5, 2) });
    with("wide", conv(4, 40, 3));
    let guards =
        [Guard::Add(1e-4), Guard::AtLeast(1e-4), Guard::AtLeast(1e3), Guard::Unscaled(1e-2)];
    for guard in guards {
        for gain in [false, true] {
            let standardised = Some(Standardisation { gain, guard });
            with("standardised", Conv2dSpec { standardised, ..conv(4, 5, 3) });
            with("standardised, wide", Conv2dSpec { standardised, bias: false, ..conv(4, 60, 4) });
            with("standardised, groups", Conv2dSpec { standardised, groups: 2, ..conv(4, 6, 3) });
        }
    }
}

/// Many channels on few pixels use Gram matrices, of patches or of pixels.
#[test]
fn ghost_norms_of_wide_convolutions_agree_with_the_reference() {
    let with = |gain, guard| Some(Standardisation { gain, guard });
    for standardised in [
        None,
        with(false, Guard::Add(1e-4)),
        with(false, Guard::Unscaled(1e-4)),
        with(true, Guard::Unscaled(1e-4)),
    ] {
        let wide = |input, out, stride| {
            let padding = [1, 1];
            let stride = [stride; 2];
            let bias = standardised.is_none();
            LayerSpec::Conv2d(Conv2dSpec {
                padding,
                stride,
                bias,
                standardised,
                ..conv(input, out, 3)
            })
        };
        // Weights of variance 1 are used with normalisation.
        let norm = |channels| match standardised {
            Some(Standardisation { guard: Guard::Unscaled(_), .. }) => {
                vec![LayerSpec::from(GroupNormSpec::new(4, channels))]
            }
            _ => Vec::new(),
        };
        let layers = [
            [vec![wide(16, 64, 1)], norm(64)].concat(),
            [vec![LayerSpec::Tanh, wide(64, 32, 1)], norm(32)].concat(),
            [vec![wide(32, 40, 2)], norm(40)].concat(),
            vec![LayerSpec::Relu, LayerSpec::Flatten, linear(160, 3)],
        ]
        .concat();
        let norm_methods = FusedExecutor::default().norm_methods(&network(&[16, 3, 3], &layers, 1));
        // Standardised convolutions use them only without an activation.
        assert!(
            norm_methods.iter().filter(|&&method| method == "ghost").count() >= 2,
            "{norm_methods:?}"
        );
        assert_agrees("wide", &[16, 3, 3], &layers);
    }
}

/// Gradients of more values than one tile, with and without a projection that is known in advance.
#[test]
fn tiled_instance_gradients_agree_with_the_reference() {
    let gained = |gain| Some(Standardisation { gain, guard: Guard::Add(1e-4) });
    let unscaled = Some(Standardisation { gain: true, guard: Guard::Unscaled(1e-4) });
    let all = [(None, 1), (None, 2), (gained(false), 1), (gained(true), 1), (unscaled, 1)];
    for (standardised, groups) in all {
        let bias = standardised.is_none();
        let channels = 64 * groups;
        let wide =
            Conv2dSpec { padding: [1, 1], bias, standardised, groups, ..conv(channels, 128, 3) };
        let layers = [
            LayerSpec::Conv2d(conv(2, channels, 1)),
            LayerSpec::Tanh,
            LayerSpec::Conv2d(wide),
            LayerSpec::GlobalAvgPool,
            linear(128, 3),
        ];
        assert_agrees("tiled", &[2, 3, 4], &layers);
    }
}

/// A network in which the gradients of two positions cancel where the inputs are equal, and weights
/// that mask out the linear layer, whose norm would dominate.
fn cancelling() -> (Network, Weights) {
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
    let only = Weights::new(&network, only).unwrap();
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

/// The executor keeps the last weights in its own layout.
#[test]
fn other_weights_than_in_the_last_call_are_used() {
    let network = network(&[6], &[linear(6, 5), LayerSpec::Tanh, linear(5, 3)], 3);
    let batch = batch(&network, 9, 1, false);
    let executor = FusedExecutor::default();
    let sum = |executor: &FusedExecutor, weights: Option<&Weights>| {
        executor.weighted_sum(&network, &batch, &ClipRule::flat(0.1), weights).unwrap()
    };
    let every = |n: usize| {
        let mut flags = Gradients::zeros_like(&network);
        for entry in &mut flags.entries {
            entry.values.iter_mut().step_by(n).for_each(|flag| *flag = 1.0);
        }
        Weights::new(&network, flags).unwrap()
    };
    let (halves, without_first) = (every(2), every(2).without(&[true, false, false, false]));
    let mut seen = Vec::new();
    for n in [2, 2, 3] {
        // The allocator may give new weights the place of those that were dropped.
        for weights in [&every(n), &halves, &without_first, &halves] {
            let found = sum(&executor, Some(weights));
            assert_eq!(found.sum, sum(&FusedExecutor::default(), Some(weights)).sum);
            seen.push(found.norms[0]);
        }
        assert_eq!(sum(&executor, None).sum, sum(&FusedExecutor::default(), None).sum);
    }
    assert!(seen[0] == seen[1] && seen[1] != seen[2] && seen[8] != seen[9], "{seen:?}");
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
        let standardised = Some(Standardisation { gain, guard: Guard::Add(1e-4) });
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
    let standardised = Some(Standardisation { gain: true, guard: Guard::Add(1e-4) });
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
        let of = |executor: &dyn Executor| {
            executor.weighted_sum(&network, &one, &ClipRule::unclipped(), None).unwrap()
        };
        let (found, expected) = (of(&FusedExecutor::default()), of(&ReferenceExecutor));
        let (found_norm, right) = (found.norms[0], expected.norms[0]);
        assert!((found_norm - right).abs() <= 2e-4 * right, "{scale:e}: {found_norm:e}, {right:e}");
        let sum = found.sum.l2_norm();
        assert!((sum - f64::from(right)).abs() <= 2e-4 * f64::from(right), "{scale:e}: {sum:e}");
    }
}

#[test]
fn residuals_norms_and_pools_agree_with_the_reference() {
    let norm =
        |channels, groups| LayerSpec::GroupNorm(GroupNormSpec { groups, channels, epsilon: 1e-5 });
    let same = |input, out| {
        LayerSpec::Conv2d(Conv2dSpec { padding: [1, 1], bias: false, ..conv(input, out, 3) })
    };
    let body =
        vec![norm(4, 2), LayerSpec::Relu, same(4, 4), norm(4, 4), LayerSpec::Tanh, same(4, 4)];
    let down =
        |out| LayerSpec::Conv2d(Conv2dSpec { stride: [2, 2], padding: [1, 1], ..conv(4, out, 3) });
    let short = LayerSpec::Conv2d(Conv2dSpec { stride: [2, 2], ..conv(4, 6, 1) });
    let layers = vec![
        same(3, 4),
        LayerSpec::Residual(ResidualSpec { body, shortcut: vec![] }),
        LayerSpec::Dropout(DropoutSpec { rate: 0.3 }),
        LayerSpec::Group(GroupSpec {
            name: "group1".into(),
            layers: vec![
                norm(4, 1),
                LayerSpec::Relu,
                LayerSpec::Residual(ResidualSpec { body: vec![down(6)], shortcut: vec![short] }),
            ],
        }),
        LayerSpec::MaxPool2d(MaxPool2dSpec { kernel: [2, 2], stride: [1, 1] }),
        LayerSpec::AvgPool2d(AvgPool2dSpec { kernel: [2, 1], stride: [1, 1] }),
        LayerSpec::Relu,
        LayerSpec::GlobalAvgPool,
        linear(6, 4),
    ];
    assert_agrees("residual", &[3, 9, 9], &layers);
}

#[test]
fn zero_padding_agrees_with_the_reference() {
    let pad = |before, after| LayerSpec::ZeroPad2d(ZeroPad2dSpec { before, after });
    let pool = |stride| LayerSpec::MaxPool2d(MaxPool2dSpec { kernel: [3, 3], stride });
    // In front of a pooling layer, in a residual block whose shortcut adds to the same gradient,
    // and at the input.
    let block = ResidualSpec {
        body: vec![
            pad([0, 0], [1, 1]),
            LayerSpec::Conv2d(Conv2dSpec { stride: [2, 2], ..conv(4, 4, 3) }),
        ],
        shortcut: vec![pad([1, 0], [0, 2]), pool([2, 2])],
    };
    let layers = vec![
        pad([2, 0], [0, 1]),
        LayerSpec::Conv2d(conv(3, 4, 3)),
        pad([1, 1], [1, 1]),
        pool([1, 1]),
        LayerSpec::Residual(block),
        LayerSpec::GlobalAvgPool,
        linear(4, 4),
    ];
    assert_agrees("zero padding", &[3, 6, 9], &layers);
}

#[test]
fn sequence_and_feature_layers_agree_with_the_reference() {
    let embedding = || LayerSpec::Embedding(EmbeddingSpec { vocabulary: 7, features: 5 });
    let lstm =
        |inputs, bidirectional| LayerSpec::Lstm(LstmSpec { inputs, hidden: 4, bidirectional });
    let norm = |features| LayerSpec::LayerNorm(LayerNormSpec { features, epsilon: 1e-5 });
    let end = |inputs| [LayerSpec::MeanOverTime, linear(inputs, 3)].to_vec();
    assert_agrees("embedding", &[6], &[vec![embedding()], end(5)].concat());
    assert_agrees("lstm", &[6], &[vec![embedding(), lstm(5, false)], end(4)].concat());
    assert_agrees("one step", &[1], &[vec![embedding(), lstm(5, true)], end(8)].concat());
    let deep = vec![embedding(), lstm(5, true), norm(8), LayerSpec::Relu, lstm(8, false)];
    assert_agrees("stacked lstm", &[6], &[deep, end(4)].concat());
    let wide = vec![embedding(), linear(5, 30), LayerSpec::Tanh, linear(30, 30)];
    assert_agrees("linear at every step", &[3], &[wide, end(30)].concat());
    let dropped = LayerSpec::Dropout(DropoutSpec { rate: 0.5 });
    assert_agrees("mlp", &[9], &[linear(9, 8), norm(8), LayerSpec::Selu, dropped, linear(8, 3)]);
}

/// The derivative of SELU at 0 is the left derivative, as in PyTorch. It matters for black pixels
/// with biases that start at 0.
#[test]
fn selu_at_zero_has_the_derivative_of_the_oracle() {
    let layers = [linear(4, 5), LayerSpec::Selu, linear(5, 3)];
    let network = Network::build(&[4], &layers, |path, shape, _| {
        let n: usize = shape.iter().product();
        (0..n).map(|i| if path == "2.weight" { i as f32 / 9.0 - 0.7 } else { 0.0 }).collect()
    });
    let network = network.unwrap();
    let batch = Batch::new(vec![0.0; 8], &[4], vec![0, 0]).unwrap();
    let off = max_relative_error(&network, &batch, None, 0.1);
    assert!(off < 1e-6, "{off:e}");
    let sum = FusedExecutor::default().plain_sum(&network, &batch, None).unwrap().sum;
    assert!(sum.get("0.bias").unwrap().values.iter().any(|&v| v != 0.0));
}
