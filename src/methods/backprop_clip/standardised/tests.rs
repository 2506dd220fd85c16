use super::*;
use crate::engine::{Batch, Bound, ClipRule, Executor, ReferenceExecutor};
use crate::methods::backprop_clip::BackpropClipMechanism;
use crate::methods::{BackpropClip, Mechanism, Release};
use crate::nn::{LayerClips, LinearSpec, VarianceGuard};
use crate::privacy::{NeighbouringRelation, NoiseMultiplier, Stages};

const CLIPS: [f64; 2] = [2.0, 0.1];

fn clips() -> LayerClips {
    LayerClips::new(CLIPS[0], CLIPS[1])
}

/// A convolution of 2 to 2 channels with a kernel of 2 x 1, bias and gain, and a linear layer.
fn network(guard: VarianceGuard, frozen: &[bool]) -> Network {
    let rule = Standardisation { gain: true, guard };
    let conv = Conv2dSpec { kernel: [2, 1], ..Conv2dSpec::new(2, 2, 1) }.standardised(rule);
    let head = LinearSpec { inputs: 2, outputs: 3, bias: true };
    let specs = [
        LayerSpec::Conv2d(conv),
        LayerSpec::Tanh,
        LayerSpec::GlobalAvgPool,
        LayerSpec::Linear(head),
    ];
    let mut at = 0;
    let network = Network::build(&[2, 3, 2], &specs, |path, shape, _| {
        let gain = if path.ends_with("gain") { 1.0 } else { 0.0 };
        let value = || {
            at += 1;
            gain + 0.3 * ((at * 37 % 23) as f32 / 11.0 - 1.0)
        };
        std::iter::repeat_with(value).take(shape.iter().product()).collect()
    });
    network.unwrap().with_backprop_clips(&clips(), frozen).unwrap()
}

fn mechanism(noise_multiplier: f64) -> BackpropClipMechanism {
    let stages = Stages::constant(NoiseMultiplier(noise_multiplier), 10_000).unwrap();
    BackpropClipMechanism::new(clips(), stages, 10, [4; 32])
}

fn batch(n: usize) -> Batch {
    let x = (0..12 * n).map(|i| ((i * 53 + i / 12 * 7) % 29) as f32 / 7.0 - 2.0).collect();
    Batch::new(x, &[2, 3, 2], (0..n).map(|i| i as u32 % 3).collect()).unwrap()
}

/// The standardised weight of one channel, in f64.
fn standardise(guard: VarianceGuard, weight: &[f64], gain: f64) -> Vec<f64> {
    let mean = weight.iter().sum::<f64>() / weight.len() as f64;
    let v = weight.iter().map(|w| (w - mean).powi(2)).sum::<f64>();
    let guarded = match guard {
        VarianceGuard::Add(e) => v + e,
        VarianceGuard::AtLeast(e) => v.max(e),
        VarianceGuard::Unscaled(e) => v / weight.len() as f64 + e,
    };
    weight.iter().map(|w| gain * (w - mean) / guarded.sqrt()).collect()
}

#[test]
fn the_noise_has_the_covariance_of_the_map_from_standardised_weights() -> Result<()> {
    const RELEASES: usize = 4000;
    for guard in
        [VarianceGuard::Add(0.01), VarianceGuard::AtLeast(1e3), VarianceGuard::Unscaled(0.01)]
    {
        let network = network(guard, &[]);
        let values: Vec<Vec<f32>> =
            network.values().into_iter().map(|(_, values)| values).collect();
        // The weights of channel 1 and its gain, and the derivatives of its standardised weight.
        let mut theta: Vec<f64> = values[0][4..].iter().map(|&v| f64::from(v)).collect();
        theta.push(f64::from(values[2][1]));
        let standardised = |theta: &[f64]| standardise(guard, &theta[..4], theta[4]);
        let derivative = |i: usize| {
            let moved = |offset: f64| {
                let mut theta = theta.clone();
                theta[i] += offset;
                standardised(&theta)
            };
            let pairs = moved(1e-5).into_iter().zip(moved(-1e-5));
            pairs.map(|(a, b)| (a - b) / 2e-5).collect::<Vec<f64>>()
        };
        let jacobian: Vec<Vec<f64>> = (0..5).map(derivative).collect();
        let std = 1.5 * 2f64.sqrt() * CLIPS[1] * (CLIPS[0].powi(2) + 1.0).sqrt() / 10.0;
        let want = |i: usize, j: usize| {
            let dot: f64 = jacobian[i].iter().zip(&jacobian[j]).map(|(a, b)| a * b).sum();
            std * std * dot
        };
        let (mut mechanism, mut all) = (mechanism(1.5), Vec::new());
        let mut stds = Vec::new();
        for _ in 0..RELEASES {
            let Release { gradient, noise_std, .. } =
                mechanism.release(&network, &batch(0), None)?;
            let weights_and_gain =
                gradient.entries[0].values.iter().chain(&gradient.entries[2].values);
            all.push(weights_and_gain.map(|&v| f64::from(v)).collect::<Vec<f64>>());
            stds = noise_std;
        }
        // The largest distance, in standard errors, of the sample's covariance.
        let score = |want: &dyn Fn(usize, usize) -> f64| {
            let indices = [4, 5, 6, 7, 9];
            let each = (0..25).map(|at| (at / 5, at % 5)).map(|(i, j)| {
                let found = all.iter().map(|v| v[indices[i]] * v[indices[j]]).sum::<f64>()
                    / RELEASES as f64;
                let variance = want(i, i) * want(j, j) + want(i, j).powi(2);
                (found - want(i, j)).abs() / (variance / RELEASES as f64).sqrt().max(1e-12)
            });
            each.fold(0.0, f64::max)
        };
        assert!(score(&want) < 5.0, "{guard:?}: {}", score(&want));
        // Noise on the raw weights and the gain themselves, and other scales.
        let plain = |i: usize, j: usize| if i == j { std * std } else { 0.0 };
        assert!(score(&plain) > 10.0, "{guard:?}: {}", score(&plain));
        for wrong in [0.8, 1.25] {
            assert!(score(&|i, j| wrong * want(i, j)) > 5.0, "{guard:?}: {wrong} was accepted");
        }
        // What the release says of its noise is the root mean square over each tensor.
        assert_eq!(stds.len(), 5);
        assert!((stds[1] / std - 1.0).abs() < 1e-12, "the bias has the noise of the layer");
        for (stated_std, range) in [(stds[0], 0..8), (stds[2], 8..10)] {
            let squares = all.iter().flat_map(|v| &v[range.clone()]).map(|v| v * v);
            let found = squares.sum::<f64>() / (RELEASES * range.len()) as f64;
            assert!(
                (found / stated_std.powi(2) - 1.0).abs() < 0.07,
                "{guard:?}: {found} {stated_std}"
            );
        }
    }
    Ok(())
}

#[test]
fn without_noise_the_release_is_the_gradient_of_the_raw_weights_and_gains() -> Result<()> {
    for guard in
        [VarianceGuard::Add(0.01), VarianceGuard::AtLeast(1e3), VarianceGuard::Unscaled(0.01)]
    {
        let network = network(guard, &[]);
        let release = mechanism(1e-9).release(&network, &batch(8), None)?;
        let want = ReferenceExecutor.unclipped_sum(&network, &batch(8), None)?.sum;
        for (entry, want) in release.gradient.entries.iter().zip(&want.entries) {
            assert_eq!((&entry.path, entry.id), (&want.path, want.id));
            for (a, b) in entry.values.iter().zip(&want.values) {
                assert!((10.0 * a - b).abs() < 1e-5, "{guard:?} {}: {a} {b}", entry.path);
            }
        }
    }
    Ok(())
}

#[test]
fn the_clips_bound_the_gradient_of_the_standardised_weight_but_not_that_of_the_raw_one()
-> Result<()> {
    // Raw weights that are nearly equal: standardisation amplifies their gradient.
    let network = network(VarianceGuard::Add(1e-4), &[]);
    let small: Vec<Tensor<1>> = network
        .tensors()
        .into_iter()
        .enumerate()
        .map(|(i, tensor)| if i == 0 { tensor * 0.01 } else { tensor })
        .collect();
    let network = network.with_tensors(small);
    let plain = PlainConvolutions::for_network(&network, None)?.unwrap();
    let rule = ClipRule::Backprop(clips());
    let bounds = rule.groups(&network)?.sensitivities(NeighbouringRelation::AddOrRemoveOne);
    assert!(bounds[0].is_infinite() && bounds[1].is_finite(), "nothing bounds the raw weight's");
    let of_plain = plain.network(&network);
    let bounds = rule.groups(&of_plain)?.sensitivities(NeighbouringRelation::AddOrRemoveOne);
    let wanted = CLIPS[1] * (CLIPS[0].powi(2) + 1.0).sqrt();
    assert!((bounds[0] - wanted).abs() < 1e-12);
    let norms = |network: &Network| {
        let sum = ReferenceExecutor.weighted_sum(network, &batch(8), &rule, None)?;
        Ok::<_, crate::Error>(sum.group_norms[0].iter().copied().fold(0.0, f32::max))
    };
    assert!(f64::from(norms(&of_plain)?) <= bounds[0] * (1.0 + 1e-4));
    assert!(f64::from(norms(&network)?) > 2.0 * bounds[0]);
    Ok(())
}

#[test]
fn frozen_tensors_get_nothing_and_the_others_what_they_get_without_them() -> Result<()> {
    let release = |frozen: &[usize]| {
        let flags: Vec<bool> = (0..5).map(|entry| frozen.contains(&entry)).collect();
        let network = network(VarianceGuard::Add(0.01), &flags);
        let mut selected = Gradients::zeros_like(&network);
        let entries = selected.entries.iter_mut().zip(&flags).filter(|(_, frozen)| !**frozen);
        entries.for_each(|(entry, _)| entry.values.fill(1.0));
        let selected = CoordinateWeights::new(&network, selected)?;
        let mut mechanism = mechanism(1.5);
        // The second release uses what the first has kept.
        mechanism.release(&network, &batch(4), Some(&selected))?;
        mechanism.release(&network, &batch(4), Some(&selected))
    };
    let everything = release(&[])?.gradient;
    for frozen in [&[0][..], &[1], &[2], &[0, 1], &[1, 2]] {
        let some = release(frozen)?.gradient;
        for (i, (a, b)) in some.entries.iter().zip(&everything.entries).enumerate() {
            if frozen.contains(&i) {
                assert!(a.values.iter().all(|&v| v == 0.0), "{frozen:?}: {}", a.path)
            } else {
                assert_eq!(a.values, b.values, "{frozen:?}: {}", a.path)
            }
        }
    }
    // A frozen convolution keeps its standardised weight, and the head has all of the noise.
    let head = release(&[0, 1, 2])?;
    assert!(head.gradient.entries[..3].iter().all(|entry| entry.values.iter().all(|&v| v == 0.0)));
    let std = 1.5 * CLIPS[1] * (CLIPS[0].powi(2) + 1.0).sqrt() / 10.0;
    assert!((head.noise_std[3] / std - 1.0).abs() < 1e-12 && head.noise_std[0] == 0.0);
    Ok(())
}

#[test]
fn a_wide_resnet_trains_with_frozen_normalisation() -> Result<()> {
    let data = crate::data::patterns_with(24, 0, 1)?;
    let model = crate::nn::models::wide_resnet(&data, 10, 1).gain(true).seed(1).build()?;
    let method = BackpropClip::new().noise_multiplier(1.5).batch_size(4).steps(2);
    let error = method.clone().plan(&data)?.prepare_model(&model).unwrap_err();
    assert!(error.to_string().contains("normalisation") && !error.to_string().contains("standard"));
    let plan = method.freeze("*.gamma").freeze("*.beta").plan(&data)?;
    let ledger = crate::privacy::Ledger::in_memory();
    let run =
        crate::train::fit("run", &plan, &model, &data, &ledger, &mut crate::train::NoopObserver)?;
    assert_eq!(run.model().network().paths(), model.network().paths());
    let moved = |suffix: &str| {
        let pairs = run.model().network().values().into_iter().zip(model.network().values());
        let suffix_pairs = pairs.filter(|((parameter, _), _)| parameter.path.ends_with(suffix));
        suffix_pairs.map(|((_, after), (_, before))| after != before).collect::<Vec<_>>()
    };
    assert!(moved("weight").into_iter().chain(moved("gain")).all(|moved| moved));
    assert!(!moved("gamma").contains(&true));
    Ok(())
}
