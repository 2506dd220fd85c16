use burn::module::ParamId;
use statrs::distribution::{ContinuousCDF, Normal};

use super::*;
use crate::engine::Gradient;
use crate::nn::{LayerSpec, LinearSpec, Network};
use crate::privacy::NoiseMultiplier;

const SEED: [u8; 32] = [7; 32];

fn zeros(sizes: &[usize]) -> Gradients {
    let entry = |&n: &usize| Gradient {
        path: n.to_string(),
        id: ParamId::new(),
        shape: vec![n],
        values: vec![0.0; n].into(),
    };
    Gradients { entries: sizes.iter().map(entry).collect() }
}

fn sample(n: usize, std: f64) -> Vec<f32> {
    let mut gradients = zeros(&[n]);
    GaussianNoise::new(SEED).add_to(&mut gradients, std).unwrap();
    gradients.entries[0].values.to_vec()
}

/// Kolmogorov–Smirnov test for N(0, std²) at level 1e-3, and a two-sided test of the variance at 4
/// standard errors.
fn looks_normal(values: &[f32], std: f64) -> bool {
    let n = values.len() as f64;
    let normal = Normal::new(0.0, std).unwrap();
    let mut sorted: Vec<f64> = values.iter().map(|&v| f64::from(v)).collect();
    sorted.sort_by(f64::total_cmp);
    let distance = sorted.iter().enumerate().fold(0.0, |worst: f64, (i, &x)| {
        let p = normal.cdf(x);
        worst.max(p - i as f64 / n).max((i + 1) as f64 / n - p)
    });
    let variance = sorted.iter().map(|x| x * x).sum::<f64>() / n / (std * std);
    distance < 1.95 / n.sqrt() && (variance - 1.0).abs() < 4.0 * (2.0 / n).sqrt()
}

#[test]
fn noise_has_the_requested_scale() {
    let std = 0.172;
    let values = sample(100_000, std);
    assert!(looks_normal(&values, std));
    assert!(!looks_normal(&values, 1.05 * std), "5 % too little noise must be detected");
    assert!(!looks_normal(&values, 0.95 * std), "5 % too much noise must be detected");
    assert!(!looks_normal(&values, 2.0 * std), "half the noise must be detected");
    let batch = 2048.0;
    let divided: Vec<f32> = values.iter().map(|v| v / batch).collect();
    assert!(!looks_normal(&divided, std), "noise divided by the batch size must be detected");
}

/// Algorithm 1 as implemented by Kurakin et al. (2022, appendix B): every replica adds noise.
#[test]
fn the_noise_of_replicas_is_that_of_one_draw() {
    let (sigma, clip, n) = (NoiseMultiplier(0.2), 0.7, 100_000);
    let sum = |seed_of: fn(u8) -> [u8; 32]| {
        let mut sum = zeros(&[n]);
        for replica in 0..8 {
            GaussianNoise::new(seed_of(replica)).add_to(&mut sum, sigma.0 * clip).unwrap();
        }
        sum.entries[0].values.to_vec()
    };
    let replicas = sum(|replica| [replica; 32]);
    let std = sigma.for_replicas(8).0 * clip;
    assert!((std - 8f64.sqrt() * 0.2 * 0.7).abs() < 1e-15);
    assert!(looks_normal(&replicas, std));
    assert!(looks_normal(&sample(n, std), std), "as one draw");
    assert!(!looks_normal(&replicas, sigma.0 * clip), "more than the noise of one replica");
    assert!(!looks_normal(&replicas, 8.0 * sigma.0 * clip), "less than eight times as much");
    assert!(!looks_normal(&replicas, sigma.for_replicas(7).0 * clip), "one replica without noise");
    assert!(!looks_normal(&sum(|_| [0; 32]), std), "equal noise in all replicas");
}

#[test]
fn the_normality_test_rejects_uniform_noise_of_the_same_variance() {
    let values = sample(100_000, 1.0);
    let normal = Normal::new(0.0, 1.0).unwrap();
    let half_width = 3f64.sqrt();
    let uniform: Vec<f32> = values
        .iter()
        .map(|&v| ((2.0 * normal.cdf(f64::from(v)) - 1.0) * half_width) as f32)
        .collect();
    assert!(!looks_normal(&uniform, 1.0));
}

#[test]
fn neighbouring_values_steps_and_tensors_are_uncorrelated() {
    let n = 100_000;
    let correlation = |a: &[f32], b: &[f32]| {
        let sum: f64 = a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum();
        sum / (a.len() as f64).sqrt()
    };
    let mut noise = GaussianNoise::new(SEED);
    let (mut first, mut second) = (zeros(&[n, n]), zeros(&[n, n]));
    noise.add_to(&mut first, 1.0).unwrap();
    noise.add_to(&mut second, 1.0).unwrap();
    let (a, b) = (&first.entries[0].values, &first.entries[1].values);
    let c = &second.entries[0].values;
    // The two values of a Box–Muller pair are 16 positions apart.
    for shifted in [&a[1..], &a[16..], &a[NORMALS_PER_CHUNK..], b, c] {
        let z = correlation(&a[..shifted.len()], shifted);
        assert!(z.abs() < 4.0, "correlation of {z} standard errors");
    }
    assert!(correlation(a, a) > 100.0, "the test detects repeated noise");
}

#[test]
fn the_noise_does_not_depend_on_the_number_of_threads() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let n = (MIN_PARALLEL_CHUNKS + 10) * NORMALS_PER_CHUNK;
    assert_eq!(pool.install(|| sample(n, 1.0)), sample(n, 1.0));
}

/// Number of adjacent pairs of values that occurred before in any tensor. For independent 24-bit
/// values this is almost always zero.
fn repeats(gradients: &Gradients) -> usize {
    let mut seen = std::collections::HashSet::new();
    let each = gradients.entries.iter().flat_map(|entry| entry.values.windows(2));
    each.filter(|pair| !seen.insert([pair[0].to_bits(), pair[1].to_bits()])).count()
}

/// Covers tensors that the calling thread fills and tensors that all threads fill.
#[test]
fn every_chunk_has_independent_noise_for_any_number_of_threads() {
    let few_chunks =
        [3 * NORMALS_PER_CHUNK, NORMALS_PER_CHUNK, 7, NORMALS_PER_CHUNK + 5, 2 * NORMALS_PER_CHUNK];
    let many_chunks =
        [&few_chunks[..], &[2 * MIN_PARALLEL_CHUNKS * NORMALS_PER_CHUNK, 9, NORMALS_PER_CHUNK]]
            .concat();
    for secure in [false, true] {
        let noise = GaussianNoise::new(SEED);
        let noise = if secure { noise.secure() } else { noise };
        let drawn = |sizes: &[usize]| {
            let mut gradients = zeros(sizes);
            noise.clone().add_to(&mut gradients, 1.0).unwrap();
            gradients
        };
        let (serial, parallel) = (drawn(&few_chunks), drawn(&many_chunks));
        for (a, b) in serial.entries.iter().zip(&parallel.entries) {
            assert_eq!(a.values, b.values, "noise does not depend on the number of chunks");
        }
        // Chunks are numbered through all tensors.
        let mut index = 0;
        for entry in &parallel.entries {
            for values in entry.values.chunks(NORMALS_PER_CHUNK) {
                let mut expected = [0.0; NORMALS_PER_CHUNK];
                noise.fill(index, values.len(), &mut expected);
                let same = values.iter().zip(expected).all(|(&v, z)| v == z as f32);
                assert!(same, "chunk {index} does not have its own noise");
                index += 1;
            }
        }
        assert_eq!(repeats(&serial) + repeats(&parallel), 0, "noise is repeated");
        let mut twice = parallel;
        let first = twice.entries[0].values[..NORMALS_PER_CHUNK].to_vec();
        twice.entries[5].values[3..3 + NORMALS_PER_CHUNK].copy_from_slice(&first);
        assert_eq!(repeats(&twice), NORMALS_PER_CHUNK - 1, "a repeated chunk must be detected");
    }
}

#[test]
fn a_resumed_run_draws_the_noise_it_would_have_drawn() {
    let mut whole = GaussianNoise::new(SEED);
    let mut gradients = zeros(&[5000]);
    for _ in 0..3 {
        gradients = zeros(&[5000]);
        whole.add_to(&mut gradients, 1.0).unwrap();
    }
    let mut resumed = zeros(&[5000]);
    GaussianNoise::new(SEED).at_step(2).add_to(&mut resumed, 1.0).unwrap();
    assert_eq!(gradients.entries[0].values, resumed.entries[0].values);
}

#[test]
fn an_invalid_scale_is_refused() {
    for std in [f64::INFINITY, f64::NAN, -1.0] {
        assert!(GaussianNoise::new(SEED).add_to(&mut zeros(&[3]), std).is_err());
    }
}

fn secure_sample(n: usize) -> Vec<f32> {
    let mut gradients = zeros(&[n]);
    GaussianNoise::new(SEED).secure().add_to(&mut gradients, 1.0).unwrap();
    gradients.entries[0].values.to_vec()
}

#[test]
fn secure_noise_has_the_same_scale_and_different_values() {
    let (plain, secure) = (sample(100_000, 1.0), secure_sample(100_000));
    assert!(looks_normal(&secure, 1.0));
    assert_ne!(plain, secure);
    let not_halved: Vec<f32> = secure.iter().map(|z| 2.0 * z).collect();
    assert!(!looks_normal(&not_halved, 1.0), "a sum that is not halved must be detected");
    let quartered: Vec<f32> = secure.iter().map(|z| z / 2.0).collect();
    assert!(!looks_normal(&quartered, 1.0), "a mean instead of half the sum must be detected");
}

#[test]
fn a_secure_value_is_half_the_sum_of_four_draws_of_different_pairs() {
    let noise = GaussianNoise::new(SEED);
    let draws: Vec<[f64; NORMALS_PER_CHUNK]> = (0..SECURE_DRAWS as u64)
        .map(|chunk| {
            let mut out = [0.0; NORMALS_PER_CHUNK];
            noise.draw(chunk, NORMALS_PER_CHUNK, &mut out);
            out
        })
        .collect();
    for (i, value) in secure_sample(NORMALS_PER_CHUNK).into_iter().enumerate() {
        let four = (0..SECURE_DRAWS).map(|j| draws[j][(i + 8 * j) % NORMALS_PER_CHUNK]);
        assert!((f64::from(value) - 0.5 * four.sum::<f64>()).abs() < 1e-6);
    }
    // The halves of a block form pairs. Count the pairs that two values have in common.
    let pairs = |i: usize| {
        (0..SECURE_DRAWS)
            .map(move |j| (i + 8 * j) % NORMALS_PER_CHUNK)
            .map(|p| p / 32 * 16 + p % 16)
    };
    for i in 0..NORMALS_PER_CHUNK {
        for other in (0..NORMALS_PER_CHUNK).filter(|&other| other != i) {
            let shared = pairs(i).zip(pairs(other)).filter(|(a, b)| a == b).count();
            assert!(shared <= 2, "{i} and {other} share {shared}");
        }
    }
}

#[test]
fn secure_neighbours_are_uncorrelated() {
    let n = 100_000;
    let values = secure_sample(2 * n);
    for shift in [1, 8, 16, 24, NORMALS_PER_CHUNK - 8, NORMALS_PER_CHUNK, NORMALS_PER_CHUNK + 8, n]
    {
        let pairs = values.iter().zip(&values[shift..]);
        let count = pairs.len() as f64;
        let sum: f64 = pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
        assert!((sum / count.sqrt()).abs() < 4.0, "at a distance of {shift}");
    }
}

#[test]
fn the_first_values_of_a_tensor_do_not_depend_on_its_size() {
    let long = sample(3000, 1.0);
    for n in [1, 31, 32, 33, 2047, 2048, 2049] {
        assert_eq!(sample(n, 1.0), long[..n], "{n} values");
    }
}

#[test]
fn tail_probabilities_are_gaussian() {
    // Of four million values, about 253 exceed 4 standard deviations and 2.3 exceed 5.
    let beyond = |z: f32| sample(4_000_000, 1.0).into_iter().filter(|v| v.abs() > z).count();
    let four = beyond(4.0) as f64;
    assert!((four - 253.4).abs() < 4.0 * 253.4f64.sqrt(), "{four} beyond four");
    assert!((1..12).contains(&beyond(5.0)), "{} beyond five", beyond(5.0));
}

/// A network of 4,100 and 10 parameters, and a mask that selects the even positions of the first
/// tensor.
fn half_selected() -> (Network, CoordinateWeights) {
    let spec = LinearSpec { inputs: 410, outputs: 10, bias: true };
    let network = Network::build(&[410], &[LayerSpec::Linear(spec)], |_, shape, _| {
        vec![0.0; shape.iter().product()]
    });
    let network = network.unwrap();
    let mut mask = Gradients::zeros_like(&network);
    mask.entries[0].values.iter_mut().step_by(2).for_each(|w| *w = 1.0);
    let weights = CoordinateWeights::new(&network, mask).unwrap();
    (network, weights)
}

#[test]
fn selected_coordinates_get_unchanged_noise_and_others_get_none() {
    let (network, weights) = half_selected();
    let (mut all, mut selected) =
        (Gradients::zeros_like(&network), Gradients::zeros_like(&network));
    let mut noise = GaussianNoise::new(SEED);
    noise.clone().add_to(&mut all, 1.0).unwrap();
    noise.add_to_selected(&mut selected, 1.0, &weights).unwrap();
    assert_eq!(noise.step(), 1);
    for (i, value) in selected.entries[0].values.iter().enumerate() {
        let expected = if i % 2 == 0 { all.entries[0].values[i] } else { 0.0 };
        assert_eq!(value.to_bits(), expected.to_bits(), "at {i}");
    }
    assert!(selected.entries[1].values.iter().all(|&v| v == 0.0));
    assert!(all.entries[1].values.iter().all(|&v| v != 0.0));

    // A skipped tensor does not shift the noise of later ones.
    let mut mask = Gradients::zeros_like(&network);
    mask.entries[1].values.fill(1.0);
    let weights = CoordinateWeights::new(&network, mask).unwrap();
    let mut last = Gradients::zeros_like(&network);
    GaussianNoise::new(SEED).add_to_selected(&mut last, 1.0, &weights).unwrap();
    assert_eq!(last.entries[1], all.entries[1]);
}

#[test]
fn unprotected_sums_are_refused_and_left_unchanged() {
    let (network, weights) = half_selected();
    let mut noise = GaussianNoise::new(SEED);
    let mut assert_refused = |sum: &Gradients, weights: &CoordinateWeights, message: &str| {
        let mut tried = sum.clone();
        let error = noise.add_to_selected(&mut tried, 1.0, weights).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
        let bits = |g: &Gradients| -> Vec<u32> {
            g.entries.iter().flat_map(|e| e.values.iter().map(|v| v.to_bits())).collect()
        };
        assert!(
            bits(&tried) == bits(sum) && noise.step() == 0,
            "the sum or the step changed: {message}"
        );
    };
    let zeros_of = Gradients::zeros_like(&network);
    let mut leaking = zeros_of.clone();
    leaking.entries[0].values[1] = 1e-6;
    assert_refused(&leaking, &weights, "without noise");
    let mut not_a_number = zeros_of.clone();
    not_a_number.entries[1].values[0] = f32::NAN;
    assert_refused(&not_a_number, &weights, "without noise");
    let mut shrinking = zeros_of.clone();
    shrinking.entries[0].values.fill(0.25);
    assert_refused(
        &zeros_of,
        &CoordinateWeights::new(&network, shrinking).unwrap(),
        "weight = 0.25",
    );
    assert_refused(&zeros(&[3]), &weights, "different parameters");
}

#[test]
fn debug_output_does_not_contain_the_seed() {
    assert!(!format!("{:?}", GaussianNoise::new(SEED)).contains('7'));
}
