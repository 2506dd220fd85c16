use super::*;
use crate::engine::ReferenceExecutor;
use crate::nn::{LayerSpec, LinearSpec};

fn linear(inputs: usize, outputs: usize) -> LayerSpec {
    LayerSpec::Linear(LinearSpec { inputs, outputs, bias: true })
}

#[test]
fn a_huge_input_with_a_tiny_gradient_is_clipped() {
    // With one feature of 1e19 and logits of 53 and 0, the gradient of the second logit is about
    // 1e-23. Its square underflows in f32, but the weight gradient, its product with the feature,
    // does not.
    let network = Network::build(&[1], &[linear(1, 2)], |path, _, _| {
        if path.ends_with("weight") { vec![5.3e-18, 0.0] } else { vec![0.0, 0.0] }
    })
    .unwrap();
    let batch = Batch::new(vec![1e19], &[1], vec![0]).unwrap();
    let clipped_norm = |clip, weights: Option<&CoordinateWeights>| {
        let rule = ClipRule::flat(clip);
        TapExecutor::default().weighted_sum(&network, &batch, &rule, weights).unwrap().sum.l2_norm()
    };
    let mut mask = Gradients::zeros_like(&network);
    mask.entries[0].values = vec![0.0, 1.0].into();
    let mask = CoordinateWeights::new(&network, mask).unwrap();
    for weights in [None, Some(&mask)] {
        assert!(clipped_norm(1.0, weights) > 1e-5, "the example has something to clip");
        assert!(
            clipped_norm(1e-6, weights) <= 1e-6 * (1.0 + 1e-4),
            "{:e}",
            clipped_norm(1e-6, weights)
        );
    }
}

#[test]
fn instances_whose_squares_leave_f32_have_accurate_norms() {
    let specs = [linear(1, 2)];
    for scale in [1e-25f32, 1e25] {
        // Two copies force instance gradients. The weights are as small as the features are large,
        // so that the loss does not saturate.
        let network = Network::build(&[1], &specs, |path, _, _| {
            if path.ends_with("weight") { vec![0.3 / scale, -0.2 / scale] } else { vec![0.0; 2] }
        });
        let network = network.unwrap();
        let batch = Batch::with_copies(vec![scale, 0.5 * scale], &[1], vec![0], 2).unwrap();
        let mut mask = Gradients::zeros_like(&network);
        mask.entries[0].values = vec![1.0, 1.0].into();
        let mask = CoordinateWeights::new(&network, mask).unwrap();
        let rule = ClipRule::flat(f64::from(scale) / 100.0);
        let tapped =
            TapExecutor::default().weighted_sum(&network, &batch, &rule, Some(&mask)).unwrap();
        let reference =
            ReferenceExecutor.weighted_sum(&network, &batch, &rule, Some(&mask)).unwrap();
        assert!(
            (tapped.norms[0] / reference.norms[0] - 1.0).abs() < 1e-5,
            "{:?} {:?}",
            tapped.norms,
            reference.norms
        );
        let length =
            tapped.sum.entries[0].values.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>();
        assert!((length.sqrt() / (f64::from(scale) / 100.0) - 1.0).abs() < 1e-5);
    }
}
