//! Extreme values of f32, empty batches and invalid input.

use epsilab::burn::prelude::Device;
use epsilab::engine::{
    Batch, ClipRule, CoordinateWeights, Executor, Gradients, ReferenceExecutor, TapExecutor,
};
use epsilab::nn::Network;

use super::golden_networks::linear;
use super::modules::tied;
use super::random::{Draw, batch, network};
use super::{executors, relative_difference, to_device, tolerance};

pub fn tiny_and_huge_gradients_are_clipped(device: &Device) {
    for scale in [1e-25f32, 1e25] {
        // With two copies the layer uses instance gradients, with one an outer product. The weights
        // are scaled against the features, because large logits would saturate the loss.
        let network = Network::build(&[1], &[linear(1, 2, true)], |path, _, _| {
            if path.ends_with("weight") { vec![0.3 / scale, -0.2 / scale] } else { vec![0.0; 2] }
        });
        let network = network.unwrap();
        let mut mask = Gradients::zeros_like(&network);
        mask.entries[0].values = vec![1.0, 0.5].into();
        let mask = CoordinateWeights::new(&network, mask).unwrap();
        let bound = f64::from(scale) / 100.0;
        let rule = ClipRule::flat(bound);
        let gpu = to_device(&network, device);
        for copies in [1, 2] {
            let features = [scale, 0.5 * scale][..copies].to_vec();
            let batch = Batch::with_copies(features, &[1], vec![0], copies).unwrap();
            for (name, executor) in executors() {
                let got = executor.weighted_sum(&gpu, &batch, &rule, Some(&mask)).unwrap();
                let want =
                    ReferenceExecutor.weighted_sum(&network, &batch, &rule, Some(&mask)).unwrap();
                let off = (got.norms[0] / want.norms[0] - 1.0).abs();
                assert!(f64::from(off) < tolerance(device), "{name}, {copies} copies: {off:e}");
                let weights = mask.entries()[0].values.iter().map(|&w| f64::from(w));
                let values = got.sum.entries[0].values.iter().map(|&v| f64::from(v));
                let length = values.zip(weights).map(|(v, w)| v * v * w).sum::<f64>().sqrt();
                assert!(length <= bound * (1.0 + 1e-6), "{name}: {length:e}");
                assert!((length / bound - 1.0).abs() < tolerance(device), "{name}: {length:e}");
            }
        }
    }
}

pub fn a_huge_input_with_a_tiny_gradient_is_clipped(device: &Device) {
    // One feature of 1e19 and logits of 53 and 0. The gradient with respect to the second logit is
    // about 1e-23 and its square underflows, but the example's contribution does not.
    let network = Network::build(&[1], &[linear(1, 2, true)], |path, _, _| {
        if path.ends_with("weight") { vec![5.3e-18, 0.0] } else { vec![0.0, 0.0] }
    });
    let network = network.unwrap();
    let batch = Batch::new(vec![1e19], &[1], vec![0]).unwrap();
    let mut mask = Gradients::zeros_like(&network);
    mask.entries[0].values = vec![0.0, 1.0].into();
    let mask = CoordinateWeights::new(&network, mask).unwrap();
    let network = to_device(&network, device);
    for (name, executor) in executors() {
        let sum_norm = |clip, weights: Option<&CoordinateWeights>| {
            let rule = ClipRule::flat(clip);
            executor.weighted_sum(&network, &batch, &rule, weights).unwrap().sum.l2_norm()
        };
        for weights in [None, Some(&mask)] {
            assert!(sum_norm(1.0, weights) > 1e-5, "{name}: the gradient is not zero");
            let clipped = sum_norm(1e-6, weights);
            assert!(clipped <= 1e-6 * (1.0 + 1e-4), "{name}: {clipped:e}");
        }
    }
}

pub fn an_empty_batch_gives_zeros(device: &Device) {
    let network = to_device(&network(&mut Draw::new(1), &[4], &[linear(4, 3, true)]), device);
    let batch = Batch::new(Vec::new(), &[4], Vec::new()).unwrap();
    for (name, executor) in executors() {
        let clipped = executor.clipped_sum(&network, &batch, &ClipRule::flat(1.0)).unwrap();
        for got in [clipped, executor.unclipped_sum(&network, &batch, None).unwrap()] {
            assert!(got.norms.is_empty() && got.losses.is_empty(), "{name}");
            assert_eq!(got.sum, Gradients::zeros_like(&network), "{name}");
            let entries = &got.sum.entries;
            assert!(entries.iter().all(|entry| entry.values.device().as_ref() == Some(device)));
        }
    }
}

pub fn wrong_shapes_labels_and_clipping_norms_are_refused(device: &Device) {
    let network = to_device(&network(&mut Draw::new(1), &[4], &[linear(4, 3, true)]), device);
    let rule = ClipRule::flat(1.0);
    let batch = |shape: &[usize], label| {
        let size = shape.iter().product();
        Batch::new(vec![0.0; size], shape, vec![label]).unwrap()
    };
    for (name, executor) in executors() {
        assert!(executor.clipped_sum(&network, &batch(&[4], 2), &rule).is_ok(), "{name}");
        for wrong in [batch(&[5], 0), batch(&[4], 3)] {
            assert!(executor.clipped_sum(&network, &wrong, &rule).is_err(), "{name}");
            assert!(executor.unclipped_sum(&network, &wrong, None).is_err(), "{name}");
        }
        let zero = ClipRule::flat(0.0);
        assert!(executor.clipped_sum(&network, &batch(&[4], 0), &zero).is_err(), "{name}");
    }
}

/// A GPU selects its algorithms by shape. With passes of fixed size, the gradient of an example
/// does not depend on the number of other examples.
pub fn fixed_size_passes_give_gradients_independent_of_the_batch(device: &Device) {
    let mut draw = Draw::new(7);
    let (model, _) = tied();
    let network = to_device(model.network(), device);
    let nine = batch(&mut draw, &[2, 4, 5], false, 9, 1);
    let first = |n: usize| {
        let features = (0..n).flat_map(|i| nine.features(i).to_vec()).collect();
        Batch::new(features, nine.shape(), nine.labels()[..n].to_vec()).unwrap()
    };
    let rule = ClipRule::flat(0.1);
    for most in [4, 100] {
        let executor =
            TapExecutor::default().with_device_path().fixed_chunks(12).with_chunk_size(most);
        let of = |n: usize| executor.clipped_sum(&network, &first(n), &rule).unwrap();
        let all = of(9);
        assert!(
            all.losses.iter().all(|loss| loss.is_finite()),
            "an example was treated as padding"
        );
        for n in [1, 4, 5, 8] {
            let some = of(n);
            assert_eq!(some.norms[..], all.norms[..n], "{n} of 9, {most} at a time");
            assert_eq!(some.losses[..], all.losses[..n], "{n} of 9, {most} at a time");
            let want = ReferenceExecutor.clipped_sum(model.network(), &first(n), &rule).unwrap();
            assert!(relative_difference(&some.sum, &want.sum) < tolerance(device), "{n} of 9");
            let plain = executor.unclipped_sum(&network, &first(n), None).unwrap();
            let want = ReferenceExecutor.unclipped_sum(model.network(), &first(n), None).unwrap();
            assert!(
                relative_difference(&plain.sum, &want.sum) < tolerance(device),
                "plain, {n} of 9"
            );
            assert_eq!(plain.losses.len(), n);
        }
    }
}
