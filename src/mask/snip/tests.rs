use std::path::PathBuf;

use serde_json::Value;

use super::noise::Noise;
use super::private::own_stream;
use super::sensitivities::{CHUNK, Sensitivities, check};
use super::*;
use crate::data::{self, Dataset, Examples};
use crate::engine::{ClipRule, GaussianNoise, Gradients, Weights};
use crate::mask::{Covered, RandomMask, Saliency};
use crate::nn::{DropoutSpec, LinearSpec, Model, Network, Tanh, models};
use crate::privacy::{Accountant, Delta, Epsilon, Event, Gdp};
use crate::{ErrorKind, Result, layers};

const SEEDS: ([u8; 32], u64) = ([7; 32], 9);

fn summed(model: &Model, examples: &Examples, rule: &ClipRule, chunk: usize) -> Vec<f64> {
    flat(&Sensitivities::of(model, examples, rule, SEEDS.1, chunk).unwrap().sum)
}

fn flat(gradients: &Gradients) -> Vec<f64> {
    gradients.entries.iter().flat_map(|e| e.values.iter().map(|&v| f64::from(v))).collect()
}

/// L2 norm of the difference.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

fn length(a: &[f64]) -> f64 {
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
fn the_reference_values_of_sum_scores_and_mask_come_out() -> Result<()> {
    let root = std::env::var_os("EPSILAB_SHARED")
        .map(PathBuf::from)
        .unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared")));
    let Ok(text) = std::fs::read_to_string(root.join("goldens/per_example_grads.json")) else {
        println!("skipped: no goldens in {}; set EPSILAB_SHARED", root.display());
        return Ok(());
    };
    let all: Value = serde_json::from_str(&text).unwrap();
    let case = &all["snip"];
    fn numbers(value: &Value) -> Vec<f64> {
        match value {
            Value::Array(all) => all.iter().flat_map(numbers).collect(),
            Value::Bool(flag) => vec![f64::from(u8::from(*flag))],
            number => vec![number.as_f64().expect("a number")],
        }
    }
    let single = |value: &Value| numbers(value).into_iter().map(|v| v as f32).collect::<Vec<_>>();
    // [outputs, inputs] there, [inputs, outputs] here; both weights one after the other.
    let turned = |theirs: &[f64], inputs: usize, outputs: usize| -> Vec<f64> {
        (0..inputs * outputs).map(|k| theirs[k % outputs * inputs + k / outputs]).collect()
    };
    let ours = |theirs: &[f64]| [turned(&theirs[..30], 5, 6), turned(&theirs[30..], 6, 3)].concat();
    let specs = layers![LinearSpec::new(5, 6), Tanh, LinearSpec::new(6, 3)];
    let network = Network::build(&[5], &specs, |path, shape, _| match *shape {
        [inputs, outputs] => {
            let theirs = numbers(&case["params"][path]);
            turned(&theirs, inputs, outputs).into_iter().map(|v| v as f32).collect()
        }
        _ => single(&case["params"][path]),
    })?;
    let labels = numbers(&case["y"]).into_iter().map(|y| y as u32).collect();
    let data = data::from_vecs(single(&case["x"]), &[5], labels, 3)?;
    let model = models::mlp(&data, &[6]).seed(1).build()?.with_network(network);

    let clip = case["C"].as_f64().unwrap();
    let sums = Sensitivities::of(&model, data.train(), &ClipRule::flat(clip), 0, CHUNK)?;
    let weights = |sum: &Gradients| -> Vec<f64> {
        let entries = sum.entries.iter().filter(|e| e.shape.len() == 2);
        entries.flat_map(|e| e.values.iter().map(|&v| f64::from(v))).collect()
    };
    let sum = weights(&sums.sum);
    let want = ours(&numbers(&case["clipped_sum"]));
    assert!(distance(&sum, &want) < 1e-5 * length(&want));
    let biases = sums.sum.entries.iter().filter(|e| e.shape.len() == 1);
    assert!(biases.flat_map(|e| &e.values).all(|&v| v == 0.0));

    // The file's noise in place of ours.
    let (xi, std) = (ours(&numbers(&case["xi"])), case["sigma"].as_f64().unwrap() * clip);
    let mut noisy = sums.sum.clone();
    let mut draws = xi.into_iter();
    for entry in noisy.entries.iter_mut().filter(|e| e.shape.len() == 2) {
        let noised = entry.values.iter().zip(draws.by_ref());
        entry.values = noised.map(|(&v, z)| (f64::from(v) + std * z) as f32).collect();
    }
    let scores = Sensitivities::scores(&noisy, &sums.prunable, 6);
    let got: Vec<f64> = scores.iter().flat_map(|s| s.values.clone()).collect();
    let want: Vec<f64> = ours(&numbers(&case["noisy"])).iter().map(|v| v.abs()).collect();
    assert!(distance(&got, &want) < 1e-5 * length(&want));
    let total: f64 = got.iter().sum();
    let shares: Vec<f64> = got.iter().map(|v| v / total).collect();
    assert!(distance(&shares, &ours(&numbers(&case["scores"]))) < 1e-6);
    let kappa = case["kappa"].as_u64().unwrap() as f64;
    let mask = Saliency::new("golden", Covered::DataFree, scores).keep(kappa / 48.0)?;
    let flags: Vec<f64> = mask
        .tensors()
        .iter()
        .flat_map(|t| t.kept.iter().map(|&kept| f64::from(u8::from(kept))))
        .collect();
    assert_eq!(flags, ours(&numbers(&case["mask"])));

    let open = Snip::keep(0.5).saliency(&model, data.train())?;
    let open: Vec<f64> = open.tensors().iter().flat_map(|t| t.values.clone()).collect();
    let total: f64 = open.iter().sum();
    let shares: Vec<f64> = open.iter().map(|v| v / total).collect();
    assert!(distance(&shares, &ours(&numbers(&case["nonprivate_scores"]))) < 1e-6);
    Ok(())
}

#[test]
fn any_chunks_make_the_same_sum_also_with_dropout() -> Result<()> {
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
            assert!(distance(&parts, &whole) < 1e-5 * length(&whole), "chunks of {chunk}");
        }
    }
    // And the masks are those of the seed, not none.
    let sum = |seed| Sensitivities::of(&dropout, data.train(), &rule, seed, CHUNK).unwrap().sum;
    assert!(distance(&flat(&sum(1)), &flat(&sum(2))) > 0.1 * length(&flat(&sum(1))));
    Ok(())
}

#[test]
fn an_example_moves_the_sum_by_no_more_than_the_clip() -> Result<()> {
    let data = data::glyphs_with(40, 10, 32)?;
    let model = models::papernot_cnn(&data).seed(1).build()?;
    let clip = 0.1;
    let (clipped, open) = (ClipRule::flat(clip), ClipRule::unclipped());
    let whole = [&clipped, &open].map(|rule| summed(&model, data.train(), rule, CHUNK));
    for i in [0, 17, 39] {
        let data = without(&data, i);
        let moved = [(&clipped, &whole[0]), (&open, &whole[1])]
            .map(|(rule, whole)| distance(whole, &summed(&model, data.train(), rule, CHUNK)));
        assert!(moved[0] <= clip * (1.0 + 1e-5) && moved[0] > 0.9 * clip, "{moved:?}");
        assert!(moved[1] > 1.2 * clip, "without clipping it must be more: {moved:?}");
    }
    Ok(())
}

#[test]
fn clipping_the_aggregate_would_let_one_example_move_it_twice_as_far() -> Result<()> {
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
        let factor = (clip / length(&sum)).min(1.0);
        sum.into_iter().map(|v| v * factor).collect::<Vec<_>>()
    });
    let moved = distance(&aggregate[0], &aggregate[1]);
    assert!((moved - 2.0 * clip).abs() < 1e-5, "{moved}");
    Ok(())
}

/// Standard deviation of the noise on the sum, from the scores of coordinates without a signal.
fn noise_of(scores: &Saliency, silent: &Weights, examples: usize) -> f64 {
    let mut squares = Vec::new();
    for tensor in scores.tensors() {
        let weights = silent.entries().iter().find(|entry| entry.path == tensor.path).unwrap();
        let zero = tensor.values.iter().zip(&weights.values).filter(|(_, w)| **w == 0.0);
        squares.extend(zero.map(|(score, _)| (score * examples as f64).powi(2)));
    }
    assert!(squares.len() > 10_000, "{}", squares.len());
    (squares.iter().sum::<f64>() / squares.len() as f64).sqrt()
}

#[test]
fn the_noise_on_the_sum_is_sigma_times_the_clip_and_nothing_less() -> Result<()> {
    let (n, clip, sigma) = (50, 0.25, 3.0);
    let data = data::glyphs_with(n, 10, 33)?;
    let model = models::papernot_cnn(&data).seed(1).build()?;
    // Half of the weights are zero: their sensitivities are too, but not their noise.
    let half = RandomMask::keep(0.5).seed(1).mask(&model)?;
    let model = half.apply(&model)?;
    let silent = half.weights(model.network())?;
    let recipe = DpSnip::prune(0.7).clip(clip).noise_multiplier(sigma);
    let mask = recipe.release(&model, &data, SEEDS, "run")?;
    let scores = mask.saliency().unwrap().clone();
    // 13,000 draws tell a standard deviation to 0.6 %.
    let right = |scores: &Saliency| {
        let found = noise_of(scores, &silent, n);
        (found / (sigma * clip) - 1.0).abs() < 0.025
    };
    assert!(right(&scores), "{}", noise_of(&scores, &silent, n));

    // The same test finds every mistake that is easily made.
    let clean = Sensitivities::of(&model, data.train(), &ClipRule::flat(clip), SEEDS.1, CHUNK)?;
    let with = |std: f64| -> Result<Saliency> {
        let mut sum = clean.sum.clone();
        GaussianNoise::new([1; 32]).add_to_selected(&mut sum, std, &clean.prunable)?;
        let scores = Sensitivities::scores(&sum, &clean.prunable, n);
        Ok(Saliency::new("wrong", Covered::DataFree, scores))
    };
    assert!(right(&with(sigma * clip)?));
    for (wrong, std) in [
        ("divided by N as well", sigma * clip / n as f64),
        ("without the clip", sigma),
        ("for the mean, not the sum", sigma * clip * n as f64),
        ("of half the multiplier, as for a clipped aggregate", sigma * clip / 2.0),
        ("none", 0.0),
    ] {
        assert!(!right(&with(std)?), "noise {wrong} passes");
    }

    // Biases are not released.
    assert!(scores.tensors().iter().all(|tensor| tensor.shape.len() >= 2));
    assert_eq!(mask.kept(), mask.len() - crate::mask::dropped_of(0.7, mask.len()));
    let [Covered::Released { event, data: origin, run, .. }] = &mask.origin().covered[..] else {
        panic!("{mask}")
    };
    assert_eq!((event, &origin[..], &run[..]), (&Event::gaussian(sigma), data.origin(), "run"));
    Ok(())
}

#[test]
fn training_from_the_same_seed_has_other_noise() -> Result<()> {
    let data = data::glyphs_with(20, 10, 34)?;
    let model = models::mlp(&data, &[8]).seed(1).build()?;
    let recipe = DpSnip::prune(0.5).noise_multiplier(2.0).clip(1.0);
    let (noisy, prunable) = recipe.noisy_sum(&model, data.train(), SEEDS)?;
    let clean = Sensitivities::of(&model, data.train(), &ClipRule::flat(1.0), SEEDS.1, CHUNK)?.sum;
    let ours: Vec<f64> = flat(&noisy).iter().zip(flat(&clean)).map(|(a, b)| a - b).collect();
    let noise = |seed| -> Vec<f64> {
        let mut zeros = Gradients::zeros_like(model.network());
        GaussianNoise::new(seed).add_to_selected(&mut zeros, 2.0, &prunable).unwrap();
        flat(&zeros)
    };
    let same = noise(own_stream(SEEDS.0));
    assert!(distance(&ours, &same) < 1e-4 * length(&same));
    let training = noise(SEEDS.0);
    let product: f64 = ours.iter().zip(&training).map(|(a, b)| a * b).sum();
    let correlation = product / length(&ours) / length(&training);
    assert!(correlation.abs() < 0.05, "{correlation}");
    Ok(())
}

#[test]
fn examples_that_are_no_numbers_add_nothing() -> Result<()> {
    let (mut x, y) = (vec![0.5f32; 30], vec![0u32, 1, 2, 0, 1, 2]);
    x.iter_mut().enumerate().for_each(|(i, v)| *v += 0.1 * i as f32);
    let data = data::from_vecs(x.clone(), &[5], y.clone(), 3)?;
    x[12] = 3e38;
    let broken = data::from_vecs(x, &[5], y, 3)?;
    // Beyond all f32 numbers once it is scaled.
    let (fine, broken) = (data.normalized(0.0, 0.5)?, broken.normalized(0.0, 0.5)?);
    assert!(broken.train().features_flat()[12].is_infinite());
    let model = models::mlp(&data, &[6]).seed(1).build()?;
    let rule = ClipRule::flat(0.1);
    let sum = |data: &Dataset| summed(&model, data.train(), &rule, CHUNK);
    assert!(sum(&broken).iter().all(|v| v.is_finite()));
    assert!(distance(&sum(&broken), &sum(&without(&fine, 2))) < 1e-6 * length(&sum(&fine)));
    assert!(distance(&sum(&broken), &sum(&fine)) > 1e-3 * length(&sum(&fine)));
    let scores = Snip::keep(0.5).saliency(&model, broken.train())?;
    assert!(scores.tensors().iter().flat_map(|t| &t.values).all(|v| v.is_finite()));
    Ok(())
}

#[test]
fn a_share_of_the_budget_becomes_a_multiplier() -> Result<()> {
    let total = (Epsilon(1.0), Delta(1e-5));
    let sigma = |noise: Noise| noise.multiplier(Some(total)).unwrap();
    let cost = |sigma: f64, count| {
        let event = Event::Gaussian { noise_multiplier: sigma, count };
        Gdp::default().epsilon(&[event], total.1).unwrap().epsilon
    };
    let share = sigma(Noise::Share(0.05));
    assert!((share - 16.7).abs() < 0.05, "{share}");
    // Twenty such releases spend the whole total, and never more.
    assert!(cost(share, 20) <= 1.0 && cost(share, 20) > 0.9999, "{}", cost(share, 20));
    let own = sigma(Noise::Target(Epsilon(0.3), None));
    assert!(cost(own, 1) <= 0.3 && cost(own, 1) > 0.29999);
    assert_eq!(sigma(Noise::Multiplier(7.5)), 7.5);
    // Whatever JSON does to a number, it does the same to this one again.
    let text = serde_json::to_string(&share).unwrap();
    assert_eq!(serde_json::from_str::<f64>(&text).unwrap(), share);

    let settled = DpSnip::keep(0.3).settled(Some(total))?;
    assert_eq!(settled.event()?, Event::gaussian(share));
    let said = settled.to_string();
    assert!(said.contains("0.05 of the budget") && said.contains(&share.to_string()), "{said}");
    // Asking for something else unsettles it.
    let again = settled.share(0.1);
    assert_eq!(again.event().unwrap_err().kind(), ErrorKind::Setting);
    assert_eq!(again.settled(Some(total))?, DpSnip::keep(0.3).share(0.1).settled(Some(total))?);
    Ok(())
}

#[test]
fn what_can_not_be_is_refused_in_words() -> Result<()> {
    let total = Some((Epsilon(1.0), Delta(1e-5)));
    let recipe = DpSnip::prune(0.7);
    let refused = |recipe: DpSnip, total, part: &str| {
        let error = recipe.settled(total).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Setting, "{error}");
        assert!(error.to_string().contains(part), "{part}: {error}");
    };
    refused(recipe, None, ".noise_multiplier(");
    refused(recipe.epsilon(Epsilon(0.5)), None, ".epsilon_delta(");
    for share in [0.0, 1.0, -0.1, 2.0, f64::NAN] {
        refused(recipe.share(share), total, "DP-SNIP share");
    }
    for clip in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        refused(recipe.clip(clip), total, "DP-SNIP clip");
    }
    refused(recipe.clip(1e38).noise_multiplier(100.0), total, "beyond");
    refused(recipe.clip(1e-31), total, "below 1e-30");
    for sigma in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        refused(recipe.noise_multiplier(sigma), None, "noise_multiplier");
        assert!(recipe.noise_multiplier(sigma).event().is_err());
    }
    for epsilon in [1.0, 1.5] {
        refused(recipe.epsilon(Epsilon(epsilon)), total, "SNIP budget is above the total");
    }
    // At another delta it is the cost at the run's that counts.
    refused(recipe.epsilon_delta(Epsilon(0.9), Delta(1e-3)), total, "above the total");
    assert!(recipe.epsilon_delta(Epsilon(0.9), Delta(1e-5)).settled(total).is_ok());
    refused(recipe.noise_multiplier(1.0), total, "above the total");
    refused(recipe.epsilon(Epsilon(-1.0)), total, "epsilon");
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
    let unsettled = recipe.release(&model, &data, SEEDS, "run").unwrap_err();
    assert!(unsettled.to_string().contains("settled"), "{unsettled}");
    let none = recipe.noise_multiplier(1.0);
    let none = none.noisy_sum(&model, &data.train().take(0), SEEDS).unwrap_err();
    assert_eq!(none.kind(), ErrorKind::Setting);
    Ok(())
}

/// Squared, such parameters are weights under which f32 does not bound a share: nothing may be
/// charged for them.
#[test]
fn parameters_beyond_reason_are_refused_before_anything_is_charged() -> Result<()> {
    let data = data::from_vecs(vec![0.5; 8], &[2], vec![0, 1, 0, 1], 2)?;
    let model = models::linear(&data).seed(1).build()?;
    for (largest, fine) in [(1e6, true), (-1.1e6, false), (1.5e19, false)] {
        let specs = [crate::nn::LayerSpec::Linear(LinearSpec::new(2, 2))];
        let network = Network::build(&[2], &specs, |_, shape, _| {
            (0..shape.iter().product()).map(|i| if i == 1 { largest } else { 0.1 }).collect()
        })?;
        let found = check(&model.with_network(network), data.train());
        assert_eq!(found.is_ok(), fine, "{largest}: {found:?}");
        if let Err(error) = found {
            assert_eq!(error.kind(), ErrorKind::Model);
            assert!(error.to_string().contains("start from smaller"), "{error}");
        }
    }
    Ok(())
}
