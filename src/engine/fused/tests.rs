//! All kinds of layers against the reference executor, with augmented copies and coordinate
//! weights.

mod cancellation;
mod large;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::FusedExecutor;
use super::op::Convolution;
use crate::engine::{Batch, ClipRule, CoordinateWeights, Executor, Gradients, ReferenceExecutor};
use crate::nn::kernels::product::WriteMode;
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
    let value = |rng: &mut ChaCha8Rng| {
        if tokens { ((unit(rng) + 0.5) * 6.99).floor() } else { 2.0 * unit(rng) }
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
    weights: Option<&CoordinateWeights>,
    clip: f64,
) -> f64 {
    let rule = ClipRule::flat(clip);
    let expected = ReferenceExecutor.weighted_sum(network, batch, &rule, weights).unwrap();
    let fast = FusedExecutor::default()
        .with_chunk_size(3)
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
    let weights = [masks, squares].map(|values| CoordinateWeights::new(&network, values).unwrap());
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
    let guards = [
        VarianceGuard::Add(1e-4),
        VarianceGuard::AtLeast(1e-4),
        VarianceGuard::AtLeast(1e3),
        VarianceGuard::Unscaled(1e-2),
    ];
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
        with(false, VarianceGuard::Add(1e-4)),
        with(false, VarianceGuard::Unscaled(1e-4)),
        with(true, VarianceGuard::Unscaled(1e-4)),
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
            Some(Standardisation { guard: VarianceGuard::Unscaled(_), .. }) => {
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

/// Gradients of more values than one tile.
#[test]
fn tiled_instance_gradients_agree_with_the_reference() {
    let gained = |gain| Some(Standardisation { gain, guard: VarianceGuard::Add(1e-4) });
    let unscaled = Some(Standardisation { gain: true, guard: VarianceGuard::Unscaled(1e-4) });
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

/// The executor keeps the last weights in its own layout.
#[test]
fn other_weights_than_in_the_last_call_are_used() {
    let network = network(&[6], &[linear(6, 5), LayerSpec::Tanh, linear(5, 3)], 3);
    let batch = batch(&network, 9, 1, false);
    let executor = FusedExecutor::default();
    let sum = |executor: &FusedExecutor, weights: Option<&CoordinateWeights>| {
        executor.weighted_sum(&network, &batch, &ClipRule::flat(0.1), weights).unwrap()
    };
    let every = |n: usize| {
        let mut flags = Gradients::zeros_like(&network);
        for entry in &mut flags.entries {
            entry.values.iter_mut().step_by(n).for_each(|flag| *flag = 1.0);
        }
        CoordinateWeights::new(&network, flags).unwrap()
    };
    let (halves, without_first) =
        (every(2), every(2).with_zeroed_tensors(&[true, false, false, false]));
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
    let sum = FusedExecutor::default().unclipped_sum(&network, &batch, None).unwrap().sum;
    assert!(sum.get("0.bias").unwrap().values.iter().any(|&v| v != 0.0));
}

pub(super) fn convolution<'a>(
    images: &'a [f32],
    with: &'a [f32],
    out: &'a mut [f32],
    store: WriteMode,
    scratch: &'a mut Vec<f32>,
) -> Convolution<'a> {
    Convolution { images, with, out, store, scratch }
}

/// Values in [-1, 1).
pub(super) fn random(len: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}
