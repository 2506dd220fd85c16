//! Tests of SNIP and DP-SNIP.

use serde_json::Value;

use super::dp_snip::noise_seed;
use super::noise_spec::NoiseSpec;
use super::sensitivities::{CHUNK, ConnectionSensitivities, check_model_and_examples};
use super::*;
use crate::data::{self, Dataset, Examples};
use crate::engine::{ClipRule, CoordinateWeights, GaussianNoise, Gradients};
use crate::mask::{PrivacyStatus, RandomMask, Saliency};
use crate::nn::{DropoutSpec, LinearSpec, Model, Network, Tanh, models};
use crate::privacy::{Accountant, Delta, Epsilon, Event, Gdp};
use crate::{ErrorKind, Result, layers};

const SEEDS: ([u8; 32], u64) = ([7; 32], 9);

fn summed(model: &Model, examples: &Examples, rule: &ClipRule, chunk: usize) -> Vec<f64> {
    flat(&ConnectionSensitivities::compute(model, examples, rule, SEEDS.1, chunk).unwrap().sum)
}

fn flat(gradients: &Gradients) -> Vec<f64> {
    gradients.entries.iter().flat_map(|e| e.values.iter().map(|&v| f64::from(v))).collect()
}

/// The L2 norm of the difference.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

fn norm(a: &[f64]) -> f64 {
    distance(a, &vec![0.0; a.len()])
}

/// The data set without example `i`.
fn without(data: &Dataset, i: usize) -> Dataset {
    let (train, size) = (data.train(), data.shape().iter().product::<usize>());
    let mut x = train.features_flat().to_vec();
    x.drain(i * size..(i + 1) * size);
    let mut y = train.labels().to_vec();
    y.remove(i);
    data::from_vecs(x, data.shape(), y, data.classes()).unwrap()
}

#[test]
fn sum_scores_and_mask_agree_with_the_reference_values() -> Result<()> {
    let text = include_str!("../../../tests/data/snip_reference.json");
    let case: Value = serde_json::from_str(text).expect("JSON");
    fn floats(value: &Value) -> Vec<f64> {
        match value {
            Value::Array(all) => all.iter().flat_map(floats).collect(),
            Value::Bool(flag) => vec![f64::from(u8::from(*flag))],
            value => vec![value.as_f64().expect("a number")],
        }
    }
    let single = |value: &Value| floats(value).into_iter().map(|v| v as f32).collect::<Vec<_>>();
    // The reference has weights [outputs, inputs], the lab [inputs, outputs].
    let transposed = |theirs: &[f64], inputs: usize, outputs: usize| -> Vec<f64> {
        (0..inputs * outputs).map(|k| theirs[k % outputs * inputs + k / outputs]).collect()
    };
    let ours = |theirs: &[f64]| {
        [transposed(&theirs[..30], 5, 6), transposed(&theirs[30..], 6, 3)].concat()
    };
    let specs = layers![LinearSpec::new(5, 6), Tanh, LinearSpec::new(6, 3)];
    let network = Network::build(&[5], &specs, |path, shape, _| match *shape {
        [inputs, outputs] => {
            let theirs = floats(&case["params"][path]);
            transposed(&theirs, inputs, outputs).into_iter().map(|v| v as f32).collect()
        }
        _ => single(&case["params"][path]),
    })?;
    let labels = floats(&case["y"]).into_iter().map(|y| y as u32).collect();
    let data = data::from_vecs(single(&case["x"]), &[5], labels, 3)?;
    let model = models::mlp(&data, &[6]).seed(1).build()?.with_network(network);

    let clip = case["C"].as_f64().unwrap();
    let sums =
        ConnectionSensitivities::compute(&model, data.train(), &ClipRule::flat(clip), 0, CHUNK)?;
    let weights = |sum: &Gradients| -> Vec<f64> {
        let entries = sum.entries.iter().filter(|e| e.shape.len() == 2);
        entries.flat_map(|e| e.values.iter().map(|&v| f64::from(v))).collect()
    };
    let sum = weights(&sums.sum);
    let want = ours(&floats(&case["clipped_sum"]));
    assert!(distance(&sum, &want) < 1e-5 * norm(&want));
    let biases = sums.sum.entries.iter().filter(|e| e.shape.len() == 1);
    assert!(biases.flat_map(|e| &e.values).all(|&v| v == 0.0));

    // The noise of the reference.
    let (xi, std) = (ours(&floats(&case["xi"])), case["sigma"].as_f64().unwrap() * clip);
    let mut noisy = sums.sum.clone();
    let mut draws = xi.into_iter();
    for entry in noisy.entries.iter_mut().filter(|e| e.shape.len() == 2) {
        let noised = entry.values.iter().zip(draws.by_ref());
        entry.values = noised.map(|(&v, z)| (f64::from(v) + std * z) as f32).collect();
    }
    let scores = ConnectionSensitivities::scores(&noisy, &sums.prunable, 6);
    let got: Vec<f64> = scores.iter().flat_map(|s| s.values.clone()).collect();
    let want: Vec<f64> = ours(&floats(&case["noisy"])).iter().map(|v| v.abs()).collect();
    assert!(distance(&got, &want) < 1e-5 * norm(&want));
    let total: f64 = got.iter().sum();
    let normalised: Vec<f64> = got.iter().map(|v| v / total).collect();
    assert!(distance(&normalised, &ours(&floats(&case["scores"]))) < 1e-6);
    let kappa = case["kappa"].as_u64().unwrap() as f64;
    let mask = Saliency::new("golden", PrivacyStatus::DataFree, scores).keep(kappa / 48.0)?;
    let flags: Vec<f64> = mask
        .tensors()
        .iter()
        .flat_map(|t| t.kept.iter().map(|&kept| f64::from(u8::from(kept))))
        .collect();
    assert_eq!(flags, ours(&floats(&case["mask"])));

    let plain = Snip::keep(0.5).saliency(&model, data.train())?;
    let plain: Vec<f64> = plain.tensors().iter().flat_map(|t| t.values.clone()).collect();
    let total: f64 = plain.iter().sum();
    let normalised: Vec<f64> = plain.iter().map(|v| v / total).collect();
    assert!(distance(&normalised, &ours(&floats(&case["nonprivate_scores"]))) < 1e-6);
    Ok(())
}

#[test]
fn the_sum_does_not_depend_on_the_chunk_size() -> Result<()> {
    let data = data::glyphs_with(100, 10, 31)?;
    let plain = models::mlp(&data, &[12]).seed(1).build()?;
    let specs = layers![
        crate::nn::Flatten,
        LinearSpec::new(784, 12),
        Tanh,
        DropoutSpec::new(0.5),
        LinearSpec::new(12, 10)
    ];
    let dropout = models::sequential(&data, specs).seed(1).build()?;
    let rule = ClipRule::flat(0.1);
    for model in [&plain, &dropout] {
        let whole = summed(model, data.train(), &rule, CHUNK);
        for chunk in [1, 7, 99] {
            let parts = summed(model, data.train(), &rule, chunk);
            assert!(distance(&parts, &whole) < 1e-5 * norm(&whole), "chunks of {chunk}");
        }
    }
    // Dropout is active: another seed gives another sum.
    let sum = |seed| {
        ConnectionSensitivities::compute(&dropout, data.train(), &rule, seed, CHUNK).unwrap().sum
    };
    assert!(distance(&flat(&sum(1)), &flat(&sum(2))) > 0.1 * norm(&flat(&sum(1))));
    Ok(())
}

#[test]
fn one_example_moves_the_sum_by_at_most_the_clipping_norm() -> Result<()> {
    let data = data::glyphs_with(40, 10, 32)?;
    let model = models::papernot_cnn(&data).seed(1).build()?;
    let clip = 0.1;
    let (clipped, unclipped) = (ClipRule::flat(clip), ClipRule::unclipped());
    let whole = [&clipped, &unclipped].map(|rule| summed(&model, data.train(), rule, CHUNK));
    for i in [0, 17, 39] {
        let data = without(&data, i);
        let moved = [(&clipped, &whole[0]), (&unclipped, &whole[1])]
            .map(|(rule, whole)| distance(whole, &summed(&model, data.train(), rule, CHUNK)));
        assert!(moved[0] <= clip * (1.0 + 1e-5) && moved[0] > 0.9 * clip, "{moved:?}");
        assert!(moved[1] > 1.2 * clip, "without clipping it must be more: {moved:?}");
    }
    Ok(())
}

#[test]
fn clipping_the_aggregate_has_twice_the_sensitivity() -> Result<()> {
    // Two classes with equal columns: every example has probabilities of one half, and the
    // sensitivities of examples of the two classes point in opposite directions.
    let one = data::from_vecs(vec![1.0, 2.0], &[2], vec![0], 2)?;
    let two = data::from_vecs(vec![1.0, 2.0, 5.0, 10.0], &[2], vec![0, 1], 2)?;
    let specs = layers![LinearSpec { inputs: 2, outputs: 2, bias: false }];
    let network = Network::build(&[2], &specs, |_, _, _| vec![1.0, 1.0, -1.0, -1.0])?;
    let model = models::linear(&one).seed(1).build()?.with_network(network);
    let clip = 0.5;
    let sums = |rule: &ClipRule| [&one, &two].map(|d| summed(&model, d.train(), rule, CHUNK));

    let ours = sums(&ClipRule::flat(clip));
    assert!(distance(&ours[0], &ours[1]) <= clip * (1.0 + 1e-5));
    let aggregate = sums(&ClipRule::unclipped()).map(|sum| {
        let factor = (clip / norm(&sum)).min(1.0);
        sum.into_iter().map(|v| v * factor).collect::<Vec<_>>()
    });
    let moved = distance(&aggregate[0], &aggregate[1]);
    assert!((moved - 2.0 * clip).abs() < 1e-5, "{moved}");
    Ok(())
}

/// Standard deviation of the noise on the sum, from the scores of coordinates whose weight is zero.
fn noise_std_of(scores: &Saliency, nonzero: &CoordinateWeights, examples: usize) -> f64 {
    let mut squares = Vec::new();
    for tensor in scores.tensors() {
        let weights = nonzero.entries().iter().find(|entry| entry.path == tensor.path).unwrap();
        let zero = tensor.values.iter().zip(&weights.values).filter(|(_, w)| **w == 0.0);
        squares.extend(zero.map(|(score, _)| (score * examples as f64).powi(2)));
    }
    assert!(squares.len() > 10_000, "{}", squares.len());
    (squares.iter().sum::<f64>() / squares.len() as f64).sqrt()
}

#[test]
fn the_noise_on_the_sum_is_sigma_times_the_clipping_norm() -> Result<()> {
    let (n, clip, sigma) = (50, 0.25, 3.0);
    let data = data::glyphs_with(n, 10, 33)?;
    let model = models::papernot_cnn(&data).seed(1).build()?;
    // Half of the weights are zero, so their sensitivities are zero, but they get noise.
    let half = RandomMask::keep(0.5).seed(1).mask(&model)?;
    let model = half.apply(&model)?;
    let nonzero = half.to_weights(model.network())?;
    let method = DpSnip::prune(0.7).clip(clip).noise_multiplier(sigma);
    let mask = method.release(&model, &data, SEEDS, "run")?;
    let scores = mask.saliency().unwrap().clone();
    // The standard error of a standard deviation of 13,000 samples is 0.6 %.
    let is_right = |scores: &Saliency| {
        let found = noise_std_of(scores, &nonzero, n);
        (found / (sigma * clip) - 1.0).abs() < 0.025
    };
    assert!(is_right(&scores), "{}", noise_std_of(&scores, &nonzero, n));

    // The same check detects the usual mistakes.
    let clean = ConnectionSensitivities::compute(
        &model,
        data.train(),
        &ClipRule::flat(clip),
        SEEDS.1,
        CHUNK,
    )?;
    let with = |std: f64| -> Result<Saliency> {
        let mut sum = clean.sum.clone();
        GaussianNoise::new([1; 32]).add_to_selected(&mut sum, std, &clean.prunable)?;
        let scores = ConnectionSensitivities::scores(&sum, &clean.prunable, n);
        Ok(Saliency::new("wrong", PrivacyStatus::DataFree, scores))
    };
    assert!(is_right(&with(sigma * clip)?));
    for (wrong, std) in [
        ("divided by N as well", sigma * clip / n as f64),
        ("without the clip", sigma),
        ("for the mean, not the sum", sigma * clip * n as f64),
        ("of half the multiplier, as for a clipped aggregate", sigma * clip / 2.0),
        ("none", 0.0),
    ] {
        assert!(!is_right(&with(std)?), "noise {wrong} passes");
    }

    // Biases are not released.
    assert!(scores.tensors().iter().all(|tensor| tensor.shape.len() >= 2));
    assert_eq!(mask.kept_count(), mask.len() - crate::mask::dropped_count(0.7, mask.len()));
    let [PrivacyStatus::Released { event, data: origin, run, .. }] = &mask.origin().privacy[..]
    else {
        panic!("{mask}")
    };
    assert_eq!((event, &origin[..], &run[..]), (&Event::gaussian(sigma), data.origin(), "run"));
    Ok(())
}

#[test]
fn training_with_the_same_seed_has_independent_noise() -> Result<()> {
    let data = data::glyphs_with(20, 10, 34)?;
    let model = models::mlp(&data, &[8]).seed(1).build()?;
    let method = DpSnip::prune(0.5).noise_multiplier(2.0).clip(1.0);
    let (noisy, prunable) = method.noisy_sum(&model, data.train(), SEEDS)?;
    let clean = ConnectionSensitivities::compute(
        &model,
        data.train(),
        &ClipRule::flat(1.0),
        SEEDS.1,
        CHUNK,
    )?
    .sum;
    let ours: Vec<f64> = flat(&noisy).iter().zip(flat(&clean)).map(|(a, b)| a - b).collect();
    let noise = |seed| -> Vec<f64> {
        let mut zeros = Gradients::zeros_like(model.network());
        GaussianNoise::new(seed).add_to_selected(&mut zeros, 2.0, &prunable).unwrap();
        flat(&zeros)
    };
    let same = noise(noise_seed(SEEDS.0));
    assert!(distance(&ours, &same) < 1e-4 * norm(&same));
    let training = noise(SEEDS.0);
    let product: f64 = ours.iter().zip(&training).map(|(a, b)| a * b).sum();
    let correlation = product / norm(&ours) / norm(&training);
    assert!(correlation.abs() < 0.05, "{correlation}");
    Ok(())
}

#[test]
fn examples_that_are_not_finite_contribute_zero() -> Result<()> {
    let (mut x, y) = (vec![0.5f32; 30], vec![0u32, 1, 2, 0, 1, 2]);
    x.iter_mut().enumerate().for_each(|(i, v)| *v += 0.1 * i as f32);
    let data = data::from_vecs(x.clone(), &[5], y.clone(), 3)?;
    x[12] = 3e38;
    let broken = data::from_vecs(x, &[5], y, 3)?;
    // Infinite after scaling.
    let (fine, broken) = (data.normalized(0.0, 0.5)?, broken.normalized(0.0, 0.5)?);
    assert!(broken.train().features_flat()[12].is_infinite());
    let model = models::mlp(&data, &[6]).seed(1).build()?;
    let rule = ClipRule::flat(0.1);
    let sum = |data: &Dataset| summed(&model, data.train(), &rule, CHUNK);
    assert!(sum(&broken).iter().all(|v| v.is_finite()));
    assert!(distance(&sum(&broken), &sum(&without(&fine, 2))) < 1e-6 * norm(&sum(&fine)));
    assert!(distance(&sum(&broken), &sum(&fine)) > 1e-3 * norm(&sum(&fine)));
    let scores = Snip::keep(0.5).saliency(&model, broken.train())?;
    assert!(scores.tensors().iter().flat_map(|t| &t.values).all(|v| v.is_finite()));
    Ok(())
}

#[test]
fn a_budget_fraction_determines_the_noise_multiplier() -> Result<()> {
    let total = (Epsilon(1.0), Delta(1e-5));
    let sigma = |noise: NoiseSpec| noise.resolve(Some(total)).unwrap();
    let cost = |sigma: f64, count| {
        let event = Event::Gaussian { noise_multiplier: sigma, count };
        Gdp::default().epsilon(&[event], total.1).unwrap().epsilon
    };
    let twentieth = sigma(NoiseSpec::BudgetFraction(0.05));
    assert!((twentieth - 16.7).abs() < 0.05, "{twentieth}");
    // Twenty such releases spend the whole budget and no more.
    let total_cost = cost(twentieth, 20);
    assert!(total_cost <= 1.0 && total_cost > 0.9999, "{total_cost}");
    let from_target = sigma(NoiseSpec::Target(Epsilon(0.3), None));
    assert!(cost(from_target, 1) <= 0.3 && cost(from_target, 1) > 0.29999);
    assert_eq!(sigma(NoiseSpec::Multiplier(7.5)), 7.5);
    // The noise multiplier survives a JSON round trip.
    let text = serde_json::to_string(&twentieth).unwrap();
    assert_eq!(serde_json::from_str::<f64>(&text).unwrap(), twentieth);

    let calibrated = DpSnip::keep(0.3).calibrated(Some(total))?;
    assert_eq!(calibrated.event()?, Event::gaussian(twentieth));
    let text = calibrated.to_string();
    assert!(text.contains("0.05 of the budget"), "{text}");
    assert!(text.contains(&twentieth.to_string()), "{text}");
    // Another request resets the calibration.
    let again = calibrated.budget_fraction(0.1);
    assert_eq!(again.event().unwrap_err().kind(), ErrorKind::Setting);
    assert_eq!(
        again.calibrated(Some(total))?,
        DpSnip::keep(0.3).budget_fraction(0.1).calibrated(Some(total))?
    );
    Ok(())
}

/// Ids of seeded releases are hashes of this text: with another, a release would be charged again.
#[test]
fn the_text_that_identifies_a_seeded_release_does_not_change() -> Result<()> {
    let method = DpSnip::keep(0.5).noise_multiplier(30.0).seed(3).calibrated(None)?;
    let text = "DpSnip { rate: 0.5, clip: 0.2, asked: Multiplier(30.0), settled: Some(30.0), \
                seed: Some(3) }";
    assert_eq!(format!("{method:?}"), text);
    Ok(())
}

#[test]
fn bad_settings_models_and_examples_are_refused() -> Result<()> {
    let total = Some((Epsilon(1.0), Delta(1e-5)));
    let method = DpSnip::prune(0.7);
    let refused = |method: DpSnip, total, part: &str| {
        let error = method.calibrated(total).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Setting, "{error}");
        assert!(error.to_string().contains(part), "{part}: {error}");
    };
    refused(method, None, ".noise_multiplier(");
    refused(method.epsilon(Epsilon(0.5)), None, ".epsilon_delta(");
    for fraction in [0.0, 1.0, -0.1, 2.0, f64::NAN] {
        refused(method.budget_fraction(fraction), total, "DP-SNIP budget fraction");
    }
    for clip in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        refused(method.clip(clip), total, "DP-SNIP clip");
    }
    refused(method.clip(1e38).noise_multiplier(100.0), total, "beyond");
    refused(method.clip(1e-31), total, "below 1e-30");
    for sigma in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        refused(method.noise_multiplier(sigma), None, "noise_multiplier");
        assert!(method.noise_multiplier(sigma).event().is_err());
    }
    for epsilon in [1.0, 1.5] {
        refused(method.epsilon(Epsilon(epsilon)), total, "SNIP budget is above the total");
    }
    // The cost is compared at the delta of the run.
    refused(method.epsilon_delta(Epsilon(0.9), Delta(1e-3)), total, "above the total");
    assert!(method.epsilon_delta(Epsilon(0.9), Delta(1e-5)).calibrated(total).is_ok());
    refused(method.noise_multiplier(1.0), total, "above the total");
    refused(method.epsilon(Epsilon(-1.0)), total, "epsilon");
    refused(DpSnip::prune(1.0), total, "prune = 1");
    refused(DpSnip::keep(f64::NAN), total, "keep = NaN");

    let data = data::glyphs_with(20, 10, 35)?;
    let model = models::mlp(&data, &[8]).seed(1).build()?;
    let other = data::from_vecs(vec![0.5; 8], &[4], vec![0, 1], 2)?;
    let many = data::from_vecs(vec![0.5; 2 * 784], &[1, 28, 28], vec![0, 11], 12)?;
    let error = |examples: &Examples| Snip::keep(0.5).saliency(&model, examples).unwrap_err();
    assert!(error(&data.train().take(0)).to_string().contains("training examples = 0"));
    assert!(error(other.train()).to_string().contains("shape [4]"));
    assert!(error(many.train()).to_string().contains("label = 11"));
    let error = method.release(&model, &data, SEEDS, "run").unwrap_err();
    assert!(error.to_string().contains("calibrated"), "{error}");
    let method = method.noise_multiplier(1.0);
    let error = method.noisy_sum(&model, &data.train().take(0), SEEDS).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Setting);
    Ok(())
}

/// Their squares are weights with which f32 can't bound the contribution of one example.
#[test]
fn too_large_parameters_are_refused() -> Result<()> {
    let data = data::from_vecs(vec![0.5; 8], &[2], vec![0, 1, 0, 1], 2)?;
    let model = models::linear(&data).seed(1).build()?;
    for (largest, fine) in [(1e6, true), (-1.1e6, false), (1.5e19, false)] {
        let specs = [crate::nn::LayerSpec::Linear(LinearSpec::new(2, 2))];
        let network = Network::build(&[2], &specs, |_, shape, _| {
            (0..shape.iter().product()).map(|i| if i == 1 { largest } else { 0.1 }).collect()
        })?;
        let checked = check_model_and_examples(&model.with_network(network), data.train());
        assert_eq!(checked.is_ok(), fine, "{largest}: {checked:?}");
        if let Err(error) = checked {
            assert_eq!(error.kind(), ErrorKind::Model);
            assert!(error.to_string().contains("start from smaller"), "{error}");
        }
    }
    Ok(())
}
