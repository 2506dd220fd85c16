//! Clipping of single examples whose gradients are near the limits of f32.

use super::{
    Batch, ClipRule, CoordinateWeights, Executor, FusedExecutor, Gradients, ReferenceExecutor,
    TapExecutor,
};
use crate::nn::*;

/// Name, input shape and layers of each network. The tests look at the first parameter tensor.
fn networks() -> Vec<(&'static str, Vec<usize>, Vec<LayerSpec>)> {
    let linear = |inputs, outputs| LayerSpec::Linear(LinearSpec { inputs, outputs, bias: false });
    let conv = |input, out, kernel| {
        LayerSpec::Conv2d(Conv2dSpec { bias: false, ..Conv2dSpec::new(input, out, kernel) })
    };
    let embedding = LayerSpec::Embedding(EmbeddingSpec { vocabulary: 7, features: 5 });
    let lstm = LayerSpec::Lstm(LstmSpec { inputs: 4, hidden: 3, bidirectional: true });
    vec![
        ("linear", vec![9], vec![linear(9, 8), linear(8, 2)]),
        (
            "linear on a sequence",
            vec![3, 40],
            vec![linear(40, 30), LayerSpec::MeanOverTime, linear(30, 2)],
        ),
        ("convolution", vec![2, 5, 5], vec![conv(2, 3, 3), LayerSpec::Flatten, linear(27, 2)]),
        ("wide", vec![64, 1, 2], vec![conv(64, 64, 1), LayerSpec::Flatten, linear(128, 2)]),
        ("embedding", vec![4], vec![embedding, LayerSpec::MeanOverTime, linear(5, 2)]),
        ("lstm", vec![3, 4], vec![lstm, LayerSpec::MeanOverTime, linear(6, 2)]),
    ]
}

/// A network whose last layer's weights are scaled by `small`, and with them the gradients of the
/// first layer.
fn network(shape: &[usize], layers: &[LayerSpec], small: f32) -> Network {
    let last = format!("{}.", layers.len() - 1);
    Network::build(shape, layers, |path, shape, _| {
        let scale = if path.starts_with(&last) { small } else { 0.3 };
        let number = |i: usize| scale * ((i * 7919 % 13) as f32 / 6.0 - 1.1);
        (0..shape.iter().product()).map(number).collect()
    })
    .unwrap()
}

/// Weights for the first tensor; the other tensors are masked out.
fn first_tensor_weights(network: &Network, weight: impl Fn(usize) -> f32) -> CoordinateWeights {
    let mut values = Gradients::zeros_like(network);
    let len = values.entries[0].values.len();
    values.entries[0].values = (0..len).map(weight).collect::<Vec<_>>().into();
    CoordinateWeights::new(network, values).unwrap()
}

fn executors() -> Vec<(&'static str, Box<dyn Executor>)> {
    vec![
        ("fused", Box::new(FusedExecutor::default())),
        ("tap", Box::new(TapExecutor::default())),
        ("tap, device path", Box::new(TapExecutor::default().with_device_path())),
        ("reference", Box::new(ReferenceExecutor)),
    ]
}

/// √(Σ w v²) of the sum.
fn weighted_norm(sum: &Gradients, weights: &CoordinateWeights) -> f64 {
    let pairs = sum.entries.iter().zip(weights.entries());
    let weighted = pairs.flat_map(|(sum, weights)| sum.values.iter().zip(weights.values.iter()));
    weighted.map(|(&v, &w)| f64::from(w) * f64::from(v).powi(2)).sum::<f64>().sqrt()
}

/// Clips a batch of one example at its norm divided by `ratio`, with every executor, and checks the
/// norm of the result.
fn assert_clipped(
    name: &str,
    network: &Network,
    batch: &Batch,
    weights: &CoordinateWeights,
    ratio: f64,
) {
    let all = ClipRule::unclipped();
    let sum = ReferenceExecutor.weighted_sum(network, batch, &all, Some(weights)).unwrap().sum;
    let norm = weighted_norm(&sum, weights);
    assert!(norm > 0.0, "{name}: the example has something to clip");
    let bound = norm / ratio;
    for (executor, run) in executors() {
        let rule = ClipRule::flat(bound);
        let clipped = run.weighted_sum(network, batch, &rule, Some(weights)).unwrap();
        let norm = weighted_norm(&clipped.sum, weights);
        assert!(norm <= bound * (1.0 + 1e-4), "{name}, {executor}: {:e} C", norm / bound);
    }
}

#[test]
fn tiny_gradients_are_clipped() {
    for (name, shape, layers) in networks() {
        for small in [1e-12, 1e-16, 1e-20, 1e-24] {
            let network = network(&shape, &layers, small);
            let all = first_tensor_weights(&network, |_| 1.0);
            let half = first_tensor_weights(&network, |i| (i / 2 % 2) as f32);
            for copies in [1, 2] {
                let size: usize = shape.iter().product();
                let features = (0..copies * size).map(|i| (i * 5 % 7) as f32).collect();
                let batch = Batch::with_copies(features, &shape, vec![1], copies).unwrap();
                for weights in [&all, &half] {
                    assert_clipped(&format!("{name}, {small:e}"), &network, &batch, weights, 100.0);
                }
            }
        }
    }
}

/// A tiny input with an ordinary gradient at one position, an ordinary input with a tiny gradient
/// at the other: neither inputs nor gradients are small as a whole.
#[test]
fn underflow_beside_a_large_value_does_not_hide_a_gradient() {
    let (_, shape, layers) = networks().remove(3);
    let network = Network::build(&shape, &layers, |path, shape, _| {
        let n: usize = shape.iter().product();
        // Flattened features alternate between the two positions.
        let last = |i: usize| [0.5, 1e-30][i / 2 % 2] * [1.0, -1.0][i % 2];
        (0..n).map(|i| if path.starts_with('2') { last(i) } else { 0.01 }).collect()
    })
    .unwrap();
    assert_eq!(FusedExecutor::default().norm_methods(&network)[0], "ghost");
    let all = first_tensor_weights(&network, |_| 1.0);
    for tiny in [1e-19, 1e-20, 1e-22, 1e-24] {
        let features = (0..128).map(|i| [tiny, 1.0][i % 2]).collect();
        let batch = Batch::new(features, &shape, vec![0]).unwrap();
        assert_clipped(&format!("{tiny:e}"), &network, &batch, &all, 100.0);
    }
}

/// Squared parameters as weights: gradients that are tiny by themselves are not tiny when weighted.
#[test]
fn tiny_gradients_with_huge_weights_are_clipped() {
    let theta = 1.5e19f32;
    for (name, shape, layers) in networks() {
        for small in [1e-18, 1e-21, 1e-24] {
            let network = network(&shape, &layers, small);
            let huge = first_tensor_weights(&network, |i| [0.0, theta * theta, 1.0][i % 3]);
            let wide = first_tensor_weights(&network, |i| [theta * theta, 2e-38, 1e-10][i % 3]);
            let features = (0..shape.iter().product::<usize>()).map(|i| (i % 7) as f32).collect();
            let batch = Batch::new(features, &shape, vec![1]).unwrap();
            for weights in [&huge, &wide] {
                assert_clipped(&format!("{name}, {small:e}"), &network, &batch, weights, 21.0);
            }
        }
    }
    // Here the inputs, not the gradients, are tiny where the weights are huge.
    let (name, shape, layers) = networks().remove(0);
    let network = network(&shape, &layers, 1.0);
    for tiny in [1e-18, 1e-21, 1e-24] {
        let features = (0..9).map(|i| if i == 0 { 1.0 } else { tiny }).collect();
        let batch = Batch::new(features, &shape, vec![1]).unwrap();
        let huge = first_tensor_weights(&network, |i| if i < 8 { 0.0 } else { theta * theta });
        let wide = first_tensor_weights(&network, |i| if i < 8 { 2e-38 } else { theta * theta });
        for weights in [&huge, &wide] {
            assert_clipped(&format!("{name}, inputs {tiny:e}"), &network, &batch, weights, 21.0);
        }
    }
}

/// A huge input times a gradient that becomes tiny by clipping.
#[test]
fn a_tiny_factor_with_a_huge_input_does_not_exceed_the_bound() {
    let (name, shape, layers) = networks().remove(0);
    let network = network(&shape, &layers, 1e-30);
    let features = (0..9).map(|i| 1e24 * (1.0 + i as f32)).collect();
    let batch = Batch::new(features, &shape, vec![1]).unwrap();
    let all = first_tensor_weights(&network, |_| 1.0);
    for k in 0..30 {
        assert_clipped(name, &network, &batch, &all, 1e12 * 1.3f64.powi(k));
    }
}
