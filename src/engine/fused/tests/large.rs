//! Layers with many parameters on few positions, whose sums wait for the end of a segment.

use std::time::Duration;

use super::super::execution_plan::{ExecutionPlan, SumRequest};
use super::super::executor_state::ExecutorState;
use super::super::profile::{LayerProfile, StepProfile};
use super::*;

/// Layers whose sums are so large that they are taken once per segment: minimal filtering, a
/// convolution with a stride, standardised weights, and linear layers.
fn large_layers() -> Vec<LayerSpec> {
    let wide = |input, stride: usize, standardised: Option<Standardisation>| {
        let (padding, stride, bias) = ([1, 1], [stride; 2], standardised.is_none());
        let spec = Conv2dSpec { padding, stride, bias, standardised, ..conv(input, 256, 3) };
        LayerSpec::Conv2d(spec)
    };
    let standardised = Some(Standardisation { gain: true, guard: VarianceGuard::Unscaled(1e-4) });
    vec![
        wide(16, 1, None),
        LayerSpec::Relu,
        wide(256, 1, None),
        LayerSpec::Tanh,
        wide(256, 1, standardised),
        LayerSpec::from(GroupNormSpec::new(4, 256)),
        wide(256, 2, None),
        LayerSpec::Relu,
        LayerSpec::Flatten,
        linear(1024, 300),
        LayerSpec::Tanh,
        linear(300, 3),
    ]
}

#[test]
fn deferred_sums_agree_with_the_reference() {
    let network = network(&[16, 4, 4], &large_layers(), 3);
    for copies in [1, 2] {
        let batch = batch(&network, 10, copies, false);
        let state = ExecutorState::for_network(&network);
        let mut plan = ExecutionPlan::for_request(&state.graph, copies, &SumRequest::default());
        plan.defer_sums(&state.graph, copies, [8, 8]);
        assert!(plan.deferred.iter().all(|&deferred| !deferred), "one chunk: nothing to wait for");
        plan.defer_sums(&state.graph, copies, [8, 3]);
        assert_eq!(plan.deferred.iter().filter(|&&deferred| deferred).count(), 4);
        let norms = ReferenceExecutor.clipped_sum(&network, &batch, &ClipRule::unclipped());
        let clip = 0.9 * f64::from(norms.unwrap().norms[2]);
        let off = max_relative_error(&network, &batch, None, clip);
        assert!(off < 3e-5, "{off:e} off, {copies} copies");
    }
}

#[test]
fn an_excluded_example_leaves_nothing_in_deferred_sums() {
    let network = network(&[16, 4, 4], &large_layers(), 3);
    let full = batch(&network, 9, 1, false);
    let sum_for = |features: Vec<f32>, labels: &[u32]| {
        let batch = Batch::new(features, network.input_shape(), labels.to_vec()).unwrap();
        let executor = FusedExecutor::default().with_chunk_size(2);
        executor.clipped_sum(&network, &batch, &ClipRule::flat(1.0)).unwrap()
    };
    let features = |i: usize| full.features(i).to_vec();
    let eight = sum_for((0..8).flat_map(features).collect(), &full.labels()[..8]);
    // Its outputs overflow; its features are finite.
    let overflowing = features(8).iter().map(|x| 3e38 * x).collect();
    let nine =
        sum_for((0..8).map(features).chain([overflowing]).flatten().collect(), full.labels());
    assert!(nine.norms[8].is_nan() && nine.norms[7].is_finite(), "{:?}", nine.norms);
    assert_eq!(nine.sum, eight.sum);
}

#[test]
fn a_profile_has_the_layers_in_order_and_leaves_the_sum_as_it_is() {
    let network = network(&[16, 4, 4], &large_layers(), 3);
    let batch = batch(&network, 9, 1, false);
    let executor = FusedExecutor::default().with_chunk_size(3);
    let rule = ClipRule::flat(1.0);
    let before = executor.clipped_sum(&network, &batch, &rule).unwrap().sum;
    let (sum, mut profile) = executor.profile(&network, &batch, &rule).unwrap();
    assert_eq!(sum.sum, before);
    let (one, (_, more)) = (profile.clone(), executor.profile(&network, &batch, &rule).unwrap());
    profile.add(&more);
    assert_eq!(profile.elapsed, one.elapsed + more.elapsed);
    let total = |profile: &StepProfile| profile.layers.iter().map(LayerProfile::total).sum();
    let (both, each): (Duration, [Duration; 2]) = (total(&profile), [total(&one), total(&more)]);
    assert_eq!(both, each[0] + each[1]);
    let layers = &profile.layers;
    assert_eq!(executor.clipped_sum(&network, &batch, &rule).unwrap().sum, before);
    let cost = |i: usize| (layers[i].path.as_str(), layers[i].multiplications);
    assert_eq!(cost(0), ("0", 16 * 9 * 16 * 256));
    assert_eq!(cost(1), ("2", 16 * 9 * 256 * 256));
    let threads = crate::nn::worker_pool::worker_count() as u32;
    assert!(!both.is_zero() && both <= threads * profile.elapsed, "{profile:?}");
    let last = layers.last().unwrap();
    assert_eq!((last.path.as_str(), last.multiplications), ("11", 900));
    assert_eq!(last.description, "linear, 300 to 3");
    assert!(layers.iter().all(|layer| !layer.description.is_empty()), "{layers:?}");
    // The first layer needs no input gradient. Minimal filtering takes 16 products in place of 36.
    assert_eq!(layers[0].work.multiplications, (16 + 36) * 4 * 16 * 256);
    assert_eq!(layers[1].work.multiplications, (16 + 16 + 36) * 4 * 256 * 256);
    assert_eq!(last.work.multiplications, 3 * 900);
    assert_eq!((last.work.values, last.work.parameters), (3 * 300 + 3 * 3, 900));
    assert_eq!(profile.chunk, 3);
    // At least the values of all layers, at most those and all their gradients.
    let widths = layers.iter().map(|layer| layer.work.values).sum::<usize>();
    assert!((12 * widths / 8..12 * widths).contains(&profile.buffer_bytes), "{profile:?}");
    for layer in layers.iter().filter(|layer| layer.multiplications > 100_000) {
        assert!(!layer.forward.is_zero() && !layer.backward.is_zero(), "{layer:?}");
        assert!(!(layer.norms + layer.sums).is_zero(), "{layer:?}");
    }
}

/// The gradients of layers without large parameters are in shared buffers. Each goes back, also
/// that of the last layer, or the memory would grow with every chunk.
#[test]
fn shared_gradient_buffers_are_few_and_go_back() {
    let mut specs = large_layers();
    specs.push(LayerSpec::LayerNorm(LayerNormSpec { features: 3, epsilon: 1e-5 }));
    let network = network(&[16, 4, 4], &specs, 3);
    let batch = batch(&network, 24, 1, false);
    let mut state = ExecutorState::for_network(&network);
    state.load_parameters(&network);
    let mut counts = Vec::new();
    for _ in 0..3 {
        let request = SumRequest::default();
        state.sum_batch(&network, &batch, &request, Some(2)).unwrap();
        counts.push(state.spare_gradients());
    }
    assert!((1..=3).contains(&counts[0]) && counts.iter().all(|n| *n == counts[0]), "{counts:?}");
    let plan = ExecutionPlan::for_request(&state.graph, 1, &SumRequest::default());
    let shared = (1..=state.graph.nodes.len()).filter(|&value| !plan.keeps_gradient(value));
    assert!(shared.count() > counts[0], "more gradients than buffers");
}
