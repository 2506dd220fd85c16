//! Comparison with the reference executor, on all kinds of networks.

use epsilab::burn::prelude::Device;
use epsilab::data::{self, Dataset};
use epsilab::engine::{
    Batch, ClipRule, CoordinateWeights, Executor, Gradients, ReferenceExecutor, TapExecutor,
};
use epsilab::nn::{DropoutSpec, LayerClips, LayerSpec, LinearSpec, models};

use super::modules::{texts, tied};
use super::random::{Draw, architecture, batch, network, weights};
use super::{
    assert_close, assert_selected, assert_sums, distance, executors, relative_difference,
    to_device, tolerance, weights_on, with_reference, with_reference_and_bound,
};

/// The number of random networks. A GPU has to compile kernels for each.
fn network_count(device: &Device) -> u64 {
    if *device == Device::flex() { 200 } else { 20 }
}

pub fn random_networks_agree_with_the_reference_executor(device: &Device) {
    for seed in 0..network_count(device) {
        let mut draw = Draw::new(seed);
        let (specs, shape, tokens) = architecture(&mut draw);
        let network = network(&mut draw, &shape, &specs);
        let (n, copies) = (1 + draw.below(7), 1 + draw.below(2) * draw.below(3));
        let batch = batch(&mut draw, &shape, tokens, n, copies);
        let weights = weights(&mut draw, &network).map(|weights| match draw.below(2) {
            0 => weights_on(&network, &weights, device),
            _ => weights,
        });
        for (how, executor) in executors() {
            let inputs = (&batch, weights.as_ref());
            let (got, want) = with_reference_and_bound(&executor, &network, device, inputs, seed);
            let about = format!("seed {seed}, {how}, {copies} copies, {shape:?}: {specs:?}");
            assert_close(&got, &want, tolerance(device), &about);
            weights.iter().for_each(|weights| assert_selected(&got, weights, &about));
        }
    }
}

fn images(n: usize, shape: &[usize]) -> Dataset {
    let size: usize = shape.iter().product();
    let features = (0..n * size).map(|i| ((i * 7919 + 3) % 1009) as f32 / 500.0 - 1.0).collect();
    data::from_vecs(features, shape, (0..n as u32).map(|i| i % 3).collect(), 3).unwrap()
}

pub fn zoo_models_agree_with_the_reference_executor(device: &Device) {
    let (grey, small) = (images(5, &[1, 28, 28]), images(3, &[3, 16, 16]));
    let tokens = (0..5 * 20).map(|i| ((i * i * 7 + i / 3) % 30) as f32).collect();
    let texts = data::from_vecs(tokens, &[20], vec![0, 1, 2, 0, 1], 3).unwrap();
    let built = [
        (models::papernot_cnn(&grey).seed(1).build(), &grey),
        (models::mlp(&grey, &[20, 10]).seed(1).build(), &grey),
        (models::stevens_mnist_cnn(&grey).seed(1).build(), &grey),
        (models::stevens_cifar_cnn(&small).seed(1).build(), &small),
        (models::simple_vgg(&small, &[8, 16], 2).seed(1).build(), &small),
        (models::wide_resnet(&small, 10, 1).gain(true).conv_bias(true).seed(1).build(), &small),
        (models::bilstm(&texts, 30, 8, 6).seed(1).build(), &texts),
    ];
    for (model, data) in built {
        let model = model.unwrap();
        let ids: Vec<u32> = (0..data.train().len() as u32).collect();
        let batch = Batch::from_examples(data.train(), &ids).unwrap();
        let (_, executor) = &executors()[0];
        let (got, want) = with_reference(executor, model.network(), device, &batch, None);
        assert_close(&got, &want, 3.0 * tolerance(device), model.name());
    }
}

pub fn gradients_of_tied_parameters_are_added_before_the_norm(device: &Device) {
    for (model, data) in [tied(), texts()] {
        let batch = Batch::from_examples(data.train(), &[0, 1, 2, 3, 4, 5]).unwrap();
        for (_, executor) in executors() {
            let (got, want) = with_reference(&executor, model.network(), device, &batch, None);
            assert_close(&got, &want, tolerance(device), model.name());
        }
    }
}

pub fn plain_sums_agree_with_the_reference_executor(device: &Device) {
    for seed in 0..network_count(device) / 2 {
        let mut draw = Draw::new(seed);
        let (specs, shape, tokens) = architecture(&mut draw);
        let network = network(&mut draw, &shape, &specs);
        let (n, copies) = (1 + draw.below(7), 1 + draw.below(2) * draw.below(3));
        let batch = batch(&mut draw, &shape, tokens, n, copies);
        let want = ReferenceExecutor.unclipped_sum(&network, &batch, None).unwrap();
        for (how, executor) in executors() {
            let got = executor.unclipped_sum(&to_device(&network, device), &batch, None).unwrap();
            let about = format!("seed {seed}, {how}, {copies} copies, {shape:?}: {specs:?}");
            assert!(got.norms.len() == n && got.norms.iter().all(|norm| norm.is_nan()));
            assert!(distance(&got.losses, &want.losses, 0.0) < tolerance(device), "{about}");
            assert_sums(&got, &want, tolerance(device), &about);
        }
    }
}

pub fn layers_with_clips_agree_with_the_reference_executor(device: &Device) {
    let mut compared = 0;
    for seed in 0..2 * network_count(device) {
        let mut draw = Draw::new(seed);
        let (specs, shape, tokens) = architecture(&mut draw);
        let plain = network(&mut draw, &shape, &specs);
        let (n, copies) = (1 + draw.below(5), 1 + draw.below(2));
        let batch = batch(&mut draw, &shape, tokens, n, copies);
        let clips = LayerClips::new(0.5, 0.02);
        // Others have layers that clips do not bound.
        let Ok(clipped) = plain.with_backprop_clips(&clips, &[]) else { continue };
        compared += 1;
        let rule = ClipRule::Backprop(clips);
        let gpu = to_device(&clipped, device);
        // All parameters, and without the first tensor.
        let mut ones = Gradients::zeros_like(&clipped);
        ones.entries.iter_mut().skip(1).for_each(|entry| entry.values.fill(1.0));
        let selected = CoordinateWeights::new(&clipped, ones).unwrap();
        for weights in [None, Some(&selected)] {
            let want = ReferenceExecutor.weighted_sum(&clipped, &batch, &rule, weights).unwrap();
            for (how, executor) in executors() {
                let about = format!("seed {seed}, {how}, {shape:?}: {specs:?}");
                let sums = [
                    executor.weighted_sum(&gpu, &batch, &rule, weights).unwrap(),
                    executor.unclipped_sum(&gpu, &batch, weights).unwrap(),
                ];
                sums.iter().for_each(|got| assert_sums(got, &want, tolerance(device), &about));
            }
        }
    }
    assert!(compared >= 5, "{compared}");
}

pub fn dropout_masks_depend_on_the_seed(device: &Device) {
    let specs = [
        LayerSpec::Linear(LinearSpec { inputs: 4, outputs: 16, bias: true }),
        LayerSpec::Dropout(DropoutSpec { rate: 0.5 }),
        LayerSpec::Linear(LinearSpec { inputs: 16, outputs: 3, bias: true }),
    ];
    let mut draw = Draw::new(3);
    let network = network(&mut draw, &[4], &specs);
    // Masks depend on the index of an example in the data set, not on its position in the batch.
    let batch = batch(&mut draw, &[4], false, 6, 2).with_indices(&[5, 0, 70_000, 9, 1, 4]).unwrap();
    let (rule, gpu) = (ClipRule::flat(1.0), to_device(&network, device));
    for (name, executor) in executors() {
        let sum = |seed| executor.clipped_sum(&gpu, &batch.clone().seed(seed), &rule).unwrap().sum;
        let plain =
            |seed| executor.unclipped_sum(&gpu, &batch.clone().seed(seed), None).unwrap().sum;
        let one = batch.clone().seed(1);
        let want = ReferenceExecutor.clipped_sum(&network, &one, &rule).unwrap().sum;
        assert!(relative_difference(&sum(1), &want) < tolerance(device), "{name}");
        let want = ReferenceExecutor.unclipped_sum(&network, &one, None).unwrap().sum;
        assert!(relative_difference(&plain(1), &want) < tolerance(device), "{name}");
        assert!(
            relative_difference(&sum(1), &sum(2)) > 1e-2
                && relative_difference(&plain(1), &plain(2)) > 1e-2,
            "{name}"
        );
    }
}

pub fn chunks_change_only_rounding(device: &Device) {
    let mut draw = Draw::new(11);
    let specs = [
        LayerSpec::Conv2d(epsilab::nn::Conv2dSpec::new(2, 3, 3)),
        LayerSpec::Tanh,
        LayerSpec::Flatten,
        LayerSpec::Linear(LinearSpec { inputs: 27, outputs: 3, bias: true }),
    ];
    let network = network(&mut draw, &[2, 5, 5], &specs);
    let batch = batch(&mut draw, &[2, 5, 5], false, 23, 2);
    let want = ReferenceExecutor.clipped_sum(&network, &batch, &ClipRule::flat(0.3)).unwrap();
    let network = to_device(&network, device);
    for chunk in [1, 2, 7, 22, 23, 1000] {
        let executor = TapExecutor::default().with_device_path().with_chunk_size(chunk);
        // Twice: the memory check runs only in the first pass.
        for _ in 0..2 {
            let got = executor.clipped_sum(&network, &batch, &ClipRule::flat(0.3)).unwrap();
            assert_close(&got, &want, tolerance(device), &format!("{chunk} at a time"));
        }
    }
}
