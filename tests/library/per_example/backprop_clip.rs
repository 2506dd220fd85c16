//! Networks with the clips of backpropagation clipping, against the reference executor.

use epsilab::engine::{Batch, Bound, ClipRule, Executor, ReferenceExecutor, TapExecutor};
use epsilab::nn::{
    AvgPool2dSpec, Conv2dSpec, EmbeddingSpec, LayerClips, LayerSpec, LinearSpec, LstmSpec, Network,
    ResidualSpec, Standardisation, UpstreamNorm, VarianceGuard,
};
use epsilab::privacy::NeighbouringRelation;
use proptest::test_runner::{RngAlgorithm, TestRng};
use rand::Rng;

use super::{all, distance, single_example};

fn conv(inputs: usize, outputs: usize, kernel: usize, bias: bool) -> Conv2dSpec {
    Conv2dSpec { bias, ..Conv2dSpec::new(inputs, outputs, kernel) }
}

fn linear(inputs: usize, outputs: usize, bias: bool) -> LayerSpec {
    LayerSpec::Linear(LinearSpec { inputs, outputs, bias })
}

/// Networks with every kind of layer that takes clips, and the shape of their examples.
fn networks() -> Vec<(&'static str, Vec<usize>, Vec<LayerSpec>)> {
    use LayerSpec::*;
    let wide = Conv2dSpec { padding: [1, 2], stride: [2, 1], ..conv(2, 4, 3, true) };
    let grouped =
        Conv2dSpec { groups: 2, dilation: [2, 1], padding: [2, 0], ..conv(4, 6, 2, false) };
    let residual = ResidualSpec {
        body: vec![Conv2d(Conv2dSpec { padding: [1, 1], ..conv(6, 6, 3, true) }), Tanh],
        shortcut: Vec::new(),
    };
    let pool = AvgPool2dSpec { kernel: [2, 2], stride: [1, 1] };
    let images = vec![
        Conv2d(wide),
        Tanh,
        Conv2d(grouped),
        Residual(residual),
        AvgPool2d(pool),
        Selu,
        GlobalAvgPool,
        linear(6, 3, true),
    ];
    let embedding = Embedding(EmbeddingSpec { vocabulary: 7, features: 5 });
    let text = vec![embedding, linear(5, 4, true), Relu, MeanOverTime, linear(4, 3, false)];
    let features = vec![linear(6, 9, true), Relu, linear(9, 3, true)];
    let recurrent = |lstm: LstmSpec, outputs| {
        let embedding = Embedding(EmbeddingSpec { vocabulary: 7, features: 5 });
        vec![embedding, Lstm(lstm), Tanh, MeanOverTime, linear(outputs, 3, true)]
    };
    let both = LstmSpec::new(5, 4).bidirectional();
    let rule = |gain, guard| Some(Standardisation { gain, guard });
    let standardised = |inputs, outputs, standardised| {
        let plain = Conv2dSpec { padding: [1, 1], ..conv(inputs, outputs, 3, true) };
        Conv2d(Conv2dSpec { standardised, ..plain })
    };
    let block = ResidualSpec {
        body: vec![standardised(4, 4, rule(true, VarianceGuard::Add(1e-2))), Tanh],
        shortcut: vec![standardised(4, 4, rule(false, VarianceGuard::Unscaled(1e-2)))],
    };
    let wide = vec![
        standardised(2, 4, rule(true, VarianceGuard::AtLeast(1e-2))),
        Tanh,
        Residual(block),
        GlobalAvgPool,
        linear(4, 3, true),
    ];
    vec![
        ("images", vec![2, 7, 6], images),
        ("text", vec![8], text),
        ("features", vec![6], features),
        ("text, both directions", vec![8], recurrent(both, 8)),
        ("text, one direction", vec![6], recurrent(LstmSpec::new(5, 3), 3)),
        ("standardised", vec![2, 5, 4], wide),
    ]
}

fn random(seed: u8) -> TestRng {
    TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32])
}

fn unit(rng: &mut TestRng) -> f32 {
    (rng.next_u32() >> 8) as f32 / (1 << 23) as f32 - 1.0
}

fn batch(shape: &[usize], n: usize, copies: usize, tokens: bool, size: f32) -> Batch {
    let mut rng = random(5);
    let len = shape.iter().product::<usize>() * n * copies;
    let value = |rng: &mut TestRng| {
        if tokens { (3.5 * (unit(rng) + 1.0)).floor().min(6.0) } else { size * unit(rng) }
    };
    let x = (0..len).map(|_| value(&mut rng)).collect();
    Batch::with_copies(x, shape, (0..n).map(|i| i as u32 % 3).collect(), copies).unwrap()
}

#[test]
fn executors_agree_and_every_layer_stays_below_its_sensitivity() {
    for (name, shape, specs) in networks() {
        let mut rng = random(3);
        let network = Network::build(&shape, &specs, |path, shape, _| {
            // The clip of the last layer bounds what flows on to the others. Its weights are large
            // here, so that the clips of recurrent layers and standardised weights bind too.
            let is_large =
                path == "4.weight" && (name.contains("direction") || name == "standardised");
            let size = if is_large { 8.0 } else { 1.0 };
            (0..shape.iter().product()).map(|_| size * unit(&mut rng)).collect()
        })
        .unwrap();
        for norm in [UpstreamNorm::L15, UpstreamNorm::SqrtM, UpstreamNorm::Either] {
            // Loose clips, clips of some examples, clips of all.
            for (input, upstream) in [(100.0, 100.0), (3.0, 0.3), (0.5, 1e-3)] {
                let clips = LayerClips { max_input_norm: input, max_upstream_norm: upstream, norm };
                let rule = ClipRule::Backprop(clips);
                let clipped = network.with_backprop_clips(&clips, &[]).unwrap();
                let bounds = rule.groups(&clipped).unwrap();
                let bounds = bounds.sensitivities(NeighbouringRelation::AddOrRemoveOne);
                for (copies, size) in [(1, 1.0), (3, 10.0)] {
                    let batch = batch(&shape, 4, copies, name.starts_with("text"), size);
                    let about = format!("{name} {norm:?} {input} {upstream} {copies}");
                    let want = ReferenceExecutor.clipped_sum(&clipped, &batch, &rule).unwrap();
                    let device = TapExecutor::default().with_device_path();
                    let mut executors = all();
                    executors.push(("device path", Box::new(device)));
                    for (executor, found) in executors {
                        let about = format!("{about}, {executor}");
                        let sum = found.clipped_sum(&clipped, &batch, &rule).unwrap();
                        let plain = found.unclipped_sum(&clipped, &batch, None).unwrap();
                        for sum in [&sum, &plain] {
                            for (a, b) in sum.sum.entries.iter().zip(&want.sum.entries) {
                                let scale = want.sum.l2_norm() as f32;
                                let off = distance(&a.values, &b.values, 1e-2 * f64::from(scale));
                                assert!(off < 1e-5, "{about}: {} is off by {off:.1e}", a.path);
                            }
                        }
                        for (norms, bound) in sum.group_norms.iter().zip(&bounds) {
                            for &norm in norms.iter() {
                                let ratio = f64::from(norm) / bound;
                                assert!(ratio < 1.0 + 1e-4, "{about}: {ratio}");
                            }
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn loose_clips_change_nothing() {
    for (about, shape, specs) in networks() {
        let mut rng = random(4);
        let network = Network::build(&shape, &specs, |_, shape, _| {
            (0..shape.iter().product()).map(|_| unit(&mut rng)).collect()
        })
        .unwrap();
        let batch = batch(&shape, 4, 1, about.starts_with("text"), 1.0);
        let plain = ReferenceExecutor.unclipped_sum(&network, &batch, None).unwrap();
        for (name, executor) in all() {
            let loose = network.with_backprop_clips(&LayerClips::new(1e6, 1e6), &[]).unwrap();
            let sum = executor.unclipped_sum(&loose, &batch, None).unwrap();
            for (a, b) in sum.sum.entries.iter().zip(&plain.sum.entries) {
                let off = distance(&a.values, &b.values, 1e-2 * plain.sum.l2_norm());
                assert!(off < 1e-5, "{about}, {name}: {} is off by {off:.1e}", a.path);
            }
        }
    }
}

#[test]
fn tight_clips_reach_the_bound() {
    let (_, shape, specs) = networks().remove(2);
    let mut rng = random(4);
    let network = Network::build(&shape, &specs, |_, shape, _| {
        (0..shape.iter().product()).map(|_| unit(&mut rng)).collect()
    })
    .unwrap();
    let batch = batch(&shape, 4, 1, false, 1.0);
    for (name, executor) in all() {
        // A dense layer reaches its sensitivity where both clips bind.
        let tight = LayerClips::new(1e-2, 1e-6);
        let rule = ClipRule::Backprop(tight);
        let tight = network.with_backprop_clips(&tight, &[]).unwrap();
        let bounds =
            rule.groups(&tight).unwrap().sensitivities(NeighbouringRelation::AddOrRemoveOne);
        let one = executor.clipped_sum(&tight, &single_example(&batch, 0), &rule).unwrap();
        let ratio = f64::from(one.group_norms[1][0]) / bounds[1];
        assert!((ratio - 1.0).abs() < 1e-3, "{name}: {ratio}");
    }
}

#[test]
fn values_that_overflow_inside_the_network_are_bounded_too() {
    // Activations of about 1e25 between the clips, and features of up to 3e38; pre-activations of
    // an LSTM that are infinite or not a number.
    for (network, size) in [(0, 1e25), (3, 3e38)] {
        check_overflow(networks().remove(network), size);
    }
}

fn check_overflow((name, shape, specs): (&str, Vec<usize>, Vec<LayerSpec>), size: f32) {
    let tokens = name.starts_with("text");
    let mut rng = random(6);
    let network = Network::build(&shape, &specs, |path, shape, _| {
        let large = path.ends_with("weight") && (!tokens || path.contains("transform"));
        let size = if large { size } else { 1.0 };
        (0..shape.iter().product()).map(|_| size * unit(&mut rng)).collect()
    })
    .unwrap();
    let clips = LayerClips::new(1.0, 0.01);
    let rule = ClipRule::Backprop(clips);
    let clipped = network.with_backprop_clips(&clips, &[]).unwrap();
    let bounds = rule.groups(&clipped).unwrap().sensitivities(NeighbouringRelation::AddOrRemoveOne);
    let mut executors = all();
    executors.push(("device path", Box::new(TapExecutor::default().with_device_path())));
    for size in [1.0, 1e15, 3e38] {
        let batch = batch(&shape, 4, 1, tokens, size);
        for (name, executor) in &executors {
            let layer_of = clipped.layer_of_parameters();
            let sum = executor.unclipped_sum(&clipped, &batch, None).unwrap().sum;
            let mut squares = vec![0.0; bounds.len()];
            for (entry, &layer) in sum.entries.iter().zip(&layer_of) {
                squares[layer] += entry.values.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>();
            }
            for (square, bound) in squares.iter().zip(&bounds) {
                assert!(square.sqrt() <= 4.0 * bound * (1.0 + 1e-4), "{name} {size}: {square}");
            }
        }
    }
}

#[test]
fn networks_without_these_clips_are_refused() {
    let (_, shape, specs) = networks().remove(2);
    let network =
        Network::build(&shape, &specs, |_, shape, _| vec![0.1; shape.iter().product()]).unwrap();
    let (clips, others) = (LayerClips::new(1.0, 0.01), LayerClips::new(1.0, 0.02));
    let rule = ClipRule::Backprop(clips);
    let wrong = network.with_backprop_clips(&others, &[]).unwrap();
    for network in [&network, &wrong] {
        let error = rule.groups(network).unwrap_err().to_string();
        assert!(error.contains("has these clips") && error.contains("0.01"), "{error}");
    }
    // Other clips replace those of before.
    let again = wrong.with_backprop_clips(&clips, &[]).unwrap();
    assert!(rule.groups(&again).is_ok());
    assert_eq!(again.paths(), network.paths());
    // A frozen layer gets none, and has no bound.
    let partly = network.with_backprop_clips(&clips, &[true, true, false, false]).unwrap();
    let bounds = rule.groups(&partly).unwrap().sensitivities(NeighbouringRelation::AddOrRemoveOne);
    assert!(bounds[0].is_infinite() && (bounds[1] - 0.01 * 2f64.sqrt()).abs() < 1e-12);
    for (input, upstream) in [(0.0, 1.0), (1.0, -1.0), (f64::NAN, 1.0), (1.0, 1e30)] {
        assert!(network.with_backprop_clips(&LayerClips::new(input, upstream), &[]).is_err());
    }
}
