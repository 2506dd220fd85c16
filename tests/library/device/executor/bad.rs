//! Examples that are not finite.

use epsilab::burn::prelude::Device;
use epsilab::engine::{Batch, ClipRule, CoordinateWeights, Executor, Gradients, ReferenceExecutor};
use epsilab::nn::{Conv2dSpec, EmbeddingSpec, LayerSpec, LstmSpec, Network};

use super::random::{Draw, batch, network};
use super::{assert_selected, executors, relative_difference, to_device, tolerance};

fn linear(inputs: usize, outputs: usize) -> LayerSpec {
    super::golden_networks::linear(inputs, outputs, true)
}

/// Two networks that use all gradient forms: instances of convolutions and sequences, outer
/// products, and an embedding table. With the shape of their inputs and whether these are tokens.
fn networks(draw: &mut Draw) -> [(Network, Vec<usize>, bool); 2] {
    let images = [
        LayerSpec::Conv2d(Conv2dSpec::new(1, 3, 2)),
        LayerSpec::Tanh,
        LayerSpec::Flatten,
        linear(12, 5),
        LayerSpec::Relu,
        linear(5, 3),
    ];
    let texts = [
        LayerSpec::Embedding(EmbeddingSpec { vocabulary: 6, features: 3 }),
        LayerSpec::Lstm(LstmSpec { inputs: 3, hidden: 3, bidirectional: false }),
        linear(3, 4),
        LayerSpec::MeanOverTime,
        linear(4, 3),
    ];
    [
        (network(draw, &[1, 3, 3], &images), vec![1, 3, 3], false),
        (network(draw, &[5], &texts), vec![5], true),
    ]
}

/// The examples `ids` with all copies; one value of the second copy of example 2 is `poison`.
fn subset(clean: &Batch, ids: &[usize], poison: Option<f32>) -> Batch {
    let mut features: Vec<f32> = ids.iter().flat_map(|&i| clean.features(i).to_vec()).collect();
    let size = features.len() / ids.len();
    poison.into_iter().for_each(|poison| features[2 * size + size / 2 + 1] = poison);
    let labels = ids.iter().map(|&i| clean.label(i)).collect();
    Batch::with_copies(features, clean.shape(), labels, clean.copies()).unwrap()
}

/// Alternating ones and zeros for matrices, ones for biases.
fn mask(network: &Network) -> CoordinateWeights {
    let mut mask = Gradients::zeros_like(network);
    for entry in &mut mask.entries {
        let step = if entry.shape.len() > 1 { 2 } else { 1 };
        entry.values.iter_mut().step_by(step).for_each(|w| *w = 1.0);
    }
    CoordinateWeights::new(network, mask).unwrap()
}

pub fn a_non_finite_example_changes_no_other_contribution(device: &Device) {
    let mut draw = Draw::new(4);
    for (network, shape, tokens) in networks(&mut draw) {
        let clean = batch(&mut draw, &shape, tokens, 5, 2);
        let (mask, rule) = (mask(&network), ClipRule::flat(0.05));
        let network = to_device(&network, device);
        for weights in [None, Some(&mask)] {
            for (name, executor) in executors() {
                let sum =
                    |batch: &Batch| executor.weighted_sum(&network, batch, &rule, weights).unwrap();
                let without = sum(&subset(&clean, &[0, 1, 3, 4], None));
                for poison in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                    let with = sum(&subset(&clean, &[0, 1, 2, 3, 4], Some(poison)));
                    assert_eq!(with.excluded_count(), 1, "{name}");
                    assert!(with.norms[2].is_nan() && with.losses[2].is_nan(), "{name}");
                    for (i, j) in [0, 1, 3, 4].into_iter().enumerate() {
                        let (a, b) = (f64::from(without.norms[i]), f64::from(with.norms[j]));
                        assert!((a - b).abs() < 1e-5 * a, "{name}: {a} {b}");
                    }
                    assert!(
                        relative_difference(&with.sum, &without.sum) < 1e-6,
                        "{name}: {poison}"
                    );
                    weights.iter().for_each(|weights| assert_selected(&with, weights, name));
                }
                let all = sum(&subset(&clean, &[0, 1, 2, 3, 4], None));
                assert!(
                    relative_difference(&all.sum, &without.sum) > 1e-2,
                    "{name}: the example contributes nothing"
                );
            }
        }
    }
}

/// A network of positive weights, whose activations and logits overflow for large features.
fn overflowing(specs: &[LayerSpec], inputs: usize) -> Network {
    let mut draw = Draw::new(7);
    let fill = |_: &str, shape: &[usize], _| {
        (0..shape.iter().product()).map(|_| 2.0 + draw.uniform()).collect()
    };
    Network::build(&[inputs], specs, fill).unwrap()
}

pub fn non_finite_examples_contribute_exactly_zero(device: &Device) {
    let deep = overflowing(&[linear(4, 4), LayerSpec::Relu, linear(4, 3)], 4);
    let flat = overflowing(&[linear(4, 3)], 4);
    for (network, poison) in [
        (&deep, f32::NAN),
        (&deep, f32::NEG_INFINITY),
        (&deep, 3e38),
        (&flat, f32::INFINITY),
        (&flat, 3e38),
        (&flat, -3e38),
    ] {
        let (mask, gpu) = (mask(network), to_device(network, device));
        for copies in [1, 2] {
            let features = vec![poison; 5 * copies * 4];
            let bad = Batch::with_copies(features, &[4], vec![1, 0, 2, 1, 0], copies).unwrap();
            for (name, executor) in executors() {
                for rule in [ClipRule::flat(0.5), ClipRule::unclipped()] {
                    for got in [
                        executor.weighted_sum(&gpu, &bad, &rule, None).unwrap(),
                        executor.weighted_sum(&gpu, &bad, &rule, Some(&mask)).unwrap(),
                        executor.unclipped_sum(&gpu, &bad, None).unwrap(),
                    ] {
                        assert_eq!(got.excluded_count(), 5, "{name}: {poison}");
                        assert!(got.norms.iter().all(|norm| norm.is_nan()), "{name}: {poison}");
                        let all = got.sum.entries.iter().flat_map(|entry| &entry.values);
                        assert!(all.clone().all(|v| *v == 0.0), "{name}: {poison}");
                    }
                }
            }
        }
    }
}

/// One example has finite logits so far apart that its loss is infinite, and a finite gradient.
pub fn an_infinite_loss_excludes_its_example(device: &Device) {
    let network = Network::build(&[2], &[linear(2, 2)], |path, _, _| {
        if path.ends_with("weight") { vec![3e38, -3e38, 0.3, 0.2] } else { vec![0.0; 2] }
    });
    let network = network.unwrap();
    let good = Batch::new(vec![0.0, 1.0], &[2], vec![1]).unwrap();
    let both = Batch::new(vec![0.0, 1.0, 1.0, 0.0], &[2], vec![1, 1]).unwrap();
    let want = ReferenceExecutor.unclipped_sum(&network, &good, None).unwrap();
    let network = to_device(&network, device);
    for (name, executor) in executors() {
        let clipped = executor.clipped_sum(&network, &both, &ClipRule::unclipped()).unwrap();
        for got in [clipped, executor.unclipped_sum(&network, &both, None).unwrap()] {
            assert!(got.losses[1].is_nan() && !got.losses[0].is_nan(), "{name}");
            assert!(relative_difference(&got.sum, &want.sum) < tolerance(device), "{name}");
        }
    }
}

pub fn plain_sums_exclude_non_finite_examples(device: &Device) {
    let mut draw = Draw::new(4);
    for (network, shape, tokens) in networks(&mut draw) {
        let clean = batch(&mut draw, &shape, tokens, 5, 2);
        let want = ReferenceExecutor
            .unclipped_sum(&network, &subset(&clean, &[0, 1, 3, 4], None), None)
            .unwrap();
        let network = to_device(&network, device);
        for (name, executor) in executors() {
            for poison in [f32::NAN, f32::INFINITY] {
                let bad = subset(&clean, &[0, 1, 2, 3, 4], Some(poison));
                let got = executor.unclipped_sum(&network, &bad, None).unwrap();
                assert!(got.losses[2].is_nan() && got.excluded_count() == 1, "{name}");
                assert!(relative_difference(&got.sum, &want.sum) < tolerance(device), "{name}");
            }
        }
    }
    // An overflow in the logits excludes its example; an overflow in a hidden layer excludes its
    // chunk.
    for (specs, lost) in
        [(vec![linear(4, 3)], 1), (vec![linear(4, 4), LayerSpec::Relu, linear(4, 3)], 2)]
    {
        let network = overflowing(&specs, 4);
        let mut features: Vec<f32> = (0..16).map(|i| 0.1 * i as f32).collect();
        features[8..12].fill(3e38);
        let bad = Batch::new(features.clone(), &[4], vec![0, 1, 2, 1]).unwrap();
        features.drain(if lost == 1 { 8..12 } else { 8..16 });
        let labels = [0, 1, 1][..4 - lost].to_vec();
        let want = ReferenceExecutor
            .unclipped_sum(&network, &Batch::new(features, &[4], labels).unwrap(), None)
            .unwrap();
        let executor =
            epsilab::engine::TapExecutor::default().with_device_path().with_chunk_size(2);
        let got = executor.unclipped_sum(&to_device(&network, device), &bad, None).unwrap();
        assert_eq!(got.excluded_count(), lost);
        assert!(relative_difference(&got.sum, &want.sum) < tolerance(device));
    }
}
