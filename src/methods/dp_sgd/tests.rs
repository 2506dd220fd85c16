use super::*;
use crate::data::{self, Dataset};
use crate::engine::{Batch, ClipRule, Executor, Gradients, TapExecutor};
use crate::methods::{DataLoader, Mechanism, Optimizer};
use crate::nn::{Model, models};
use crate::privacy::{
    Accountant, Delta, Epsilon, Event, NoiseMultiplier, Stages, TightestAccountant,
};
use crate::{ErrorKind, Result};

const SEED: [u8; 32] = [7; 32];

/// Creates 40 examples of 6 numbers in 3 classes, of very different sizes.
fn small() -> Dataset {
    let x = (0..240).map(|i| ((i * 37 % 23) as f32 - 11.0) * (1.0 + (i / 60) as f32)).collect();
    let y = (0..40).map(|i| i % 3).collect();
    data::from_vecs(x, &[6], y, 3).unwrap()
}

fn network(data: &Dataset) -> Model {
    models::mlp(data, &[64, 64]).seed(1).build().unwrap()
}

/// Creates the mechanism of 100 steps with an expected batch size.
fn mechanism(clip: f64, noise_multiplier: f64, batch: usize) -> GaussianMechanism {
    let stages = Stages::constant(NoiseMultiplier(noise_multiplier), 100).unwrap();
    GaussianMechanism::new(ClipRule::flat(clip), stages, batch, SEED)
}

fn all(data: &Dataset) -> Batch {
    Batch::from_examples(data.train(), &(0..data.train().len() as u32).collect::<Vec<_>>()).unwrap()
}

fn flat(gradients: &Gradients) -> Vec<f64> {
    gradients.entries.iter().flat_map(|e| e.values.iter().map(|&v| f64::from(v))).collect()
}

/// Computes the distance, in standard errors, of the sample's variance from `std` squared.
fn score(values: &[f64], std: f64) -> f64 {
    let n = values.len() as f64;
    let ratio = values.iter().map(|v| v * v).sum::<f64>() / (n * std * std);
    ((ratio - 1.0) / (2.0 / n).sqrt()).abs()
}

#[test]
fn noise_is_the_multiplier_times_the_clip_over_the_expected_batch_and_nothing_else() {
    let model = network(&small());
    let (clip, multiplier, batch) = (0.5, 2.0, 16);
    let mut mechanism = mechanism(clip, multiplier, batch);
    let released =
        flat(&mechanism.privatise(Gradients::zeros_like(model.network()), None).unwrap());
    let right = multiplier * clip / batch as f64;
    assert!(released.len() > 4000);
    assert!(score(&released, right) < 4.0);
    let wrong = [
        ("not divided by the batch", right * 16.0),
        ("divided by it twice", right / 16.0),
        ("scaled without the clip norm", multiplier / batch as f64),
        ("twice the sensitivity", 2.0 * right),
        ("a tenth too small", 0.9 * right),
    ];
    for (name, std) in wrong {
        assert!(score(&released, std) > 4.0, "{name} was not told from the right noise");
    }
}

#[test]
fn noise_is_new_in_every_step() {
    let data = small();
    let model = network(&data);
    let zeros = || Gradients::zeros_like(model.network());
    let mut mechanism = mechanism(1.0, 1.0, 8);
    let (first, second) =
        (mechanism.privatise(zeros(), None).unwrap(), mechanism.privatise(zeros(), None).unwrap());
    assert_ne!(flat(&first), flat(&second));
    let correlation: f64 = flat(&first).iter().zip(flat(&second)).map(|(a, b)| a * b).sum();
    assert!((correlation * 64.0 / (flat(&first).len() as f64).sqrt()).abs() < 4.0);
}

#[test]
fn the_sum_is_divided_by_the_expected_batch_size_not_by_the_drawn_one() {
    let data = small();
    let model = network(&data);
    let rule = ClipRule::flat(1.0);
    let batch = all(&data);
    let sum = TapExecutor::default().clipped_sum(model.network(), &batch, &rule).unwrap().sum;
    let mut mechanism = mechanism(1.0, 1e-9, 10);
    let released = mechanism.release(model.network(), &batch, None).unwrap().gradient;
    let close = |divisor: f64| {
        flat(&sum).iter().zip(flat(&released)).all(|(s, r)| (s / divisor - r).abs() < 1e-6)
    };
    assert!(close(10.0));
    assert!(!close(40.0), "the drawn size must not be the divisor");
}

#[test]
fn an_empty_batch_releases_noise_alone() {
    let data = small();
    let model = network(&data);
    let mut mechanism = mechanism(1.0, 1.0, 8);
    let empty = Batch::from_examples(data.train(), &[]).unwrap();
    let release = mechanism.release(model.network(), &empty, None).unwrap();
    assert!(release.losses.is_empty());
    assert!(score(&flat(&release.gradient), 1.0 / 8.0) < 4.0);
}

#[test]
fn one_example_moves_the_sum_by_at_most_the_sensitivity() {
    let data = small();
    let model = network(&data);
    let with = all(&data);
    let moved = |rule: &ClipRule| -> f64 {
        let sum = |batch: &Batch| {
            flat(&TapExecutor::default().clipped_sum(model.network(), batch, rule).unwrap().sum)
        };
        (0..40)
            .map(|left_out| {
                let rest: Vec<u32> = (0..40).filter(|&i| i != left_out).collect();
                let without = sum(&Batch::from_examples(data.train(), &rest).unwrap());
                let all = sum(&with);
                all.iter().zip(without).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
            })
            .fold(0.0, f64::max)
    };
    let clip = 0.25;
    assert!(moved(&ClipRule::flat(clip)) <= clip * (1.0 + 1e-4));
    assert!(moved(&ClipRule::unclipped()) > 4.0 * clip, "without clipping the bound must fail");
}

#[test]
fn sampler_noise_and_ledger_read_one_plan() -> Result<()> {
    let data = small();
    let plan =
        DpSgd::new().target(Epsilon(2.0), Delta(1e-3)).batch_size(10).epochs(20).plan(&data)?;
    assert_eq!(plan.steps(), 80);
    let Event::PoissonGaussian { sampling_rate, noise_multiplier, steps } = plan.event() else {
        panic!("not a Poisson-subsampled Gaussian: {}", plan.event());
    };
    assert_eq!((sampling_rate, steps), (0.25, 80));
    assert_eq!(noise_multiplier, plan.privacy().unwrap().noise_multiplier);
    let clip = 0.5;
    let model = network(&data);
    let noisy = DpSgd::new().noise_multiplier(3.0).clip(clip).batch_size(10).plan(&data)?;
    let Event::PoissonGaussian { noise_multiplier, .. } = noisy.event() else { panic!() };
    let empty = Batch::from_examples(data.train(), &[])?;
    let release = noisy.mechanism(SEED)?.release(model.network(), &empty, None)?;
    assert!(score(&flat(&release.gradient), noise_multiplier * clip / 10.0) < 4.0);
    assert!(score(&flat(&release.gradient), 0.9 * noise_multiplier * clip / 10.0) > 4.0);
    let mut batches = DataLoader::new(&plan, data.train(), SEED, SEED)?;
    let drawn: usize = (0..2000).map(|_| batches.draw().unwrap().len()).sum();
    let (expected, spread) = (10.0 * 2000.0, (2000.0f64 * 40.0 * 0.25 * 0.75).sqrt());
    assert!((drawn as f64 - expected).abs() < 4.0 * spread);
    Ok(())
}

#[test]
fn the_target_is_met_and_hardly_undercut() -> Result<()> {
    let plan = DpSgd::new().target(Epsilon(2.0), Delta(1e-3)).batch_size(10).plan(&small())?;
    let spent = TightestAccountant::default().epsilon(&[plan.event()], Delta(1e-3))?.epsilon;
    assert!(spent <= 2.0 && spent > 1.98, "{spent}");
    Ok(())
}

#[test]
fn delta_may_be_set_before_or_after_the_noise() -> Result<()> {
    let before = DpSgd::new().delta(Delta(1e-3)).noise_multiplier(2.0).batch_size(10);
    let after = DpSgd::new().noise_multiplier(2.0).delta(Delta(1e-3)).batch_size(10);
    assert_eq!(before, after);
    assert_eq!(before.plan(&small())?.privacy().unwrap().delta, Delta(1e-3));
    Ok(())
}

#[test]
fn bad_settings_are_refused_with_advice() {
    let data = small();
    let good = || DpSgd::new().target(Epsilon(2.0), Delta(1e-3)).batch_size(10);
    let cases: [(&str, DpSgd); 14] = [
        ("epsilon", good().target(Epsilon(0.0), Delta(1e-5))),
        ("epsilon", good().target(Epsilon(f64::NAN), Delta(1e-5))),
        ("delta", good().target(Epsilon(1.0), Delta(0.0))),
        ("delta", good().target(Epsilon(1.0), Delta(1.0))),
        ("batch_size", good().batch_size(0)),
        ("batch_size", good().batch_size(41)),
        ("epochs", good().epochs(0)),
        ("epochs", good().epochs(f64::INFINITY)),
        ("steps", good().steps(0)),
        ("clip", good().clip(0.0)),
        ("clip", good().clip(-1.0)),
        ("learning_rate", good().learning_rate(f64::NAN)),
        ("momentum", good().optimizer(Optimizer::Sgd { momentum: 1.0 })),
        ("noise_multiplier", DpSgd::new().noise_multiplier(0.0).batch_size(10)),
    ];
    for (name, settings) in cases {
        let error = settings.plan(&data).expect_err(name);
        assert_eq!(error.kind(), ErrorKind::Setting, "{error}");
        assert!(error.to_string().contains(name), "{name}: {error}");
        assert!(!error.advice().is_empty(), "{error}");
    }
    let unset = DpSgd::new().batch_size(10).plan(&data).unwrap_err();
    assert!(unset.advice().contains(".target("));
    let first = good().noise_multiplier(1.5);
    let second = DpSgd::new().noise_multiplier(1.5).target(Epsilon(2.0), Delta(1e-3));
    for both in [first, second.batch_size(10)] {
        let error = both.plan(&data).expect_err("target and noise multiplier");
        assert_eq!(error.kind(), ErrorKind::Setting);
        let message = error.to_string();
        assert!(
            message.contains("target, epsilon 2,") && message.contains("multiplier, 1.5"),
            "{message}"
        );
    }
}
