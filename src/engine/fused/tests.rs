//! Every kind of layer against the oracle, with copies of examples and weights of coordinates.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::Fused;
use crate::engine::{Batch, ClipRule, Gradients, Oracle, PerExample, Weights};
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
    let apart = a.iter().zip(b).map(|(&a, &b)| square(f64::from(a) - f64::from(b))).sum::<f64>();
    (apart.sqrt(), b.iter().map(|&b| square(f64::from(b))).sum::<f64>().sqrt())
}

/// The largest difference of any parameter's sum, and of the norms, relative to the oracle's.
fn apart(network: &Network, batch: &Batch, weights: Option<&Weights>, clip: f64) -> f64 {
    let rule = ClipRule::flat(clip);
    let right = Oracle.weighted_sum(network, batch, &rule, weights).unwrap();
    let fast = Fused::default().with_chunk(3).weighted_sum(network, batch, &rule, weights).unwrap();
    let (off, all) = distance(&fast.norms, &right.norms);
    let mut worst = off / all;
    let (off, all) = distance(&fast.losses, &right.losses);
    worst = worst.max(off / all);
    let total = right.sum.l2_norm();
    for (a, b) in fast.sum.entries.iter().zip(&right.sum.entries) {
        assert_eq!(a.path, b.path);
        let (off, all) = distance(&a.values, &b.values);
        // A tensor whose gradients cancel is measured against the whole.
        let off = off / all.max(1e-2 * total).max(1e-12);
        if off > 1e-5 {
            println!("{}: {off:e}, its own length {all:e} of {total:e}", a.path);
        }
        worst = worst.max(off);
    }
    worst
}

fn agree(name: &str, shape: &[usize], layers: &[LayerSpec]) {
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
            let all = Oracle.clipped_sum(&network, &batch, &ClipRule::unclipped()).unwrap();
            f64::from(all.norms[2])
        };
        for weights in [None, Some(&weights[0]), Some(&weights[1])] {
            let off = apart(&network, &batch, weights, 0.9 * median);
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
fn convolutions_of_every_kind() {
    let end = |inputs| [LayerSpec::Tanh, LayerSpec::Flatten, linear(inputs, 3)];
    let first = || LayerSpec::Conv2d(Conv2dSpec { padding: [1, 1], ..conv(2, 4, 3) });
    let with = |name: &str, spec: Conv2dSpec| {
        let spec = LayerSpec::Conv2d(spec);
        let shape = spec.output_shape(&[4, 7, 6]).unwrap();
        let layers = [vec![first(), LayerSpec::Selu, spec], end(shape.iter().product()).to_vec()];
        agree(name, &[2, 7, 6], &layers.concat());
    };
    with("plain", conv(4, 5, 3));
    with("one pixel", conv(4, 5, 1));
    with("one pixel, step 2", Conv2dSpec { stride: [2, 2], ..conv(4, 5, 1) });
    with("padded", Conv2dSpec { padding: [1, 2], bias: false, ..conv(4, 5, 3) });
    with("much padded", Conv2dSpec { padding: [3, 4], ..conv(4, 5, 2) });
    with("steps", Conv2dSpec { stride: [2, 3], padding: [1, 0], ..conv(4, 5, 3) });
    with("groups", Conv2dSpec { groups: 2, padding: [1, 1], ..conv(4, 6, 3) });
    with("holes", Conv2dSpec { dilation: [2, 1], padding: [1, 1], ..conv(4, 5, 3) });
    with("holes both", Conv2dSpec { dilation: [2, 2], stride: [1, 2], ..conv(4, 5, 2) });
    with("wide", conv(4, 40, 3));
    for guard in [Guard::Add(1e-4), Guard::AtLeast(1e-4), Guard::AtLeast(1e3)] {
        for gain in [false, true] {
            let standardised = Some(Standardisation { gain, guard });
            with("standardised", Conv2dSpec { standardised, ..conv(4, 5, 3) });
            with("standardised, wide", Conv2dSpec { standardised, bias: false, ..conv(4, 60, 4) });
            with("in groups", Conv2dSpec { standardised, groups: 2, ..conv(4, 6, 3) });
        }
    }
}

#[test]
fn residuals_norms_and_pools() {
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
    agree("residual", &[3, 9, 9], &layers);
}

#[test]
fn text_and_plain_features() {
    let words = || LayerSpec::Embedding(EmbeddingSpec { vocabulary: 7, features: 5 });
    let memory =
        |inputs, bidirectional| LayerSpec::Lstm(LstmSpec { inputs, hidden: 4, bidirectional });
    let norm = |features| LayerSpec::LayerNorm(LayerNormSpec { features, epsilon: 1e-5 });
    let end = |inputs| [LayerSpec::MeanOverTime, linear(inputs, 3)].to_vec();
    agree("words", &[6], &[vec![words()], end(5)].concat());
    agree("memory", &[6], &[vec![words(), memory(5, false)], end(4)].concat());
    agree("one step", &[1], &[vec![words(), memory(5, true)], end(8)].concat());
    let deep = vec![words(), memory(5, true), norm(8), LayerSpec::Relu, memory(8, false)];
    agree("deep", &[6], &[deep, end(4)].concat());
    let wide = vec![words(), linear(5, 30), LayerSpec::Tanh, linear(30, 30)];
    agree("linear at every step", &[3], &[wide, end(30)].concat());
    let dropped = LayerSpec::Dropout(DropoutSpec { rate: 0.5 });
    agree("mlp", &[9], &[linear(9, 8), norm(8), LayerSpec::Selu, dropped, linear(8, 3)]);
}
