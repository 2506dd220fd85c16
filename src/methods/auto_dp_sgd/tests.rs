use super::*;
use crate::data::{self, Dataset};
use crate::engine::{Batch, ClipRule, Executor, ReferenceExecutor, finite_mean};
use crate::methods::{DpSgd, Method, Plan, Release};
use crate::nn::{Model, models};
use crate::privacy::{
    Accountant, ClipSchedule, Delta, Epsilon, Gdp, Ledger, NoiseSchedule, Pld, Rdp,
    TightestAccountant,
};
use crate::train::{NoopObserver, fit};
use crate::{ErrorKind, Result, privacy};

const SEED: [u8; 32] = [3; 32];

/// Forty examples of six numbers.
fn features() -> Vec<f32> {
    (0..240).map(|i| (i * 37 % 23) as f32 - 11.0).collect()
}

fn small() -> Dataset {
    data::from_vecs(features(), &[6], (0..40).map(|i| i % 3).collect(), 3).unwrap()
}

/// The examples as a batch, of which the last one is `size` times as large and has this label.
fn with_last(size: f32, label: u32) -> Batch {
    let mut x = features();
    x[234..].iter_mut().for_each(|value| *value *= size);
    let mut labels: Vec<u32> = (0..40).map(|i| i % 3).collect();
    labels[39] = label;
    Batch::new(x, &[6], labels).unwrap()
}

fn model(data: &Dataset) -> Model {
    models::mlp(data, &[16]).seed(1).build().unwrap()
}

fn method() -> AutoDpSgd {
    AutoDpSgd::new().noise_multiplier(0.8).batch_size(10).epochs(4.0)
}

fn batch(data: &Dataset, ids: impl IntoIterator<Item = u32>) -> Batch {
    Batch::from_examples(data.train(), &ids.into_iter().collect::<Vec<_>>()).unwrap()
}

fn released(plan: &Plan, model: &Model, batch: &Batch) -> Release {
    plan.mechanism(SEED).unwrap().release(model.network(), batch, None).unwrap()
}

fn flat(release: &Release) -> Vec<f64> {
    let entries = release.gradient.entries.iter();
    entries.flat_map(|entry| entry.values.iter().map(|&v| f64::from(v))).collect()
}

#[test]
fn a_step_is_that_of_the_published_algorithm() -> Result<()> {
    let data = small();
    let (model, full_batch) = (model(&data), batch(&data, 0..40));
    let plain =
        ReferenceExecutor.clipped_sum(model.network(), &full_batch, &ClipRule::unclipped())?;
    let mean_norm = finite_mean(&plain.norms).unwrap();
    for scale in [1.0, 0.5] {
        let plan = method().gradient_scale(scale).plan(&data)?;
        let release = released(&plan, &model, &full_batch);
        // Algorithm AC: the mean threshold is s times the mean norm.
        let threshold = release.threshold.unwrap();
        assert!((threshold.value / (scale * mean_norm) - 1.0).abs() < 1e-5);
        assert_eq!(threshold.noise_multiplier, None, "no epsilon covers it");
        // What is left without the scaled sum is noise of sigma times the mean threshold.
        let std = 0.8 * threshold.value;
        let sum = plain.sum.entries.iter().flat_map(|entry| entry.values.iter());
        let noise: Vec<f64> = flat(&release)
            .iter()
            .zip(sum)
            .map(|(released, &sum)| (10.0 * released - scale * f64::from(sum)) / std)
            .collect();
        let n = noise.len() as f64;
        let variance = noise.iter().map(|v| v * v).sum::<f64>() / n;
        assert!((variance - 1.0).abs() < 4.0 * (2.0 / n).sqrt(), "{variance}");
        assert!((release.noise_std[0] * 10.0 / std - 1.0).abs() < 1e-12);
    }
    // An empty batch has no threshold: a step of zero.
    let nothing = released(&method().plan(&data)?, &model, &batch(&data, []));
    assert!(flat(&nothing).iter().all(|&value| value == 0.0) && nothing.threshold.is_none());
    Ok(())
}

#[test]
fn one_example_moves_the_release_without_bound_and_the_scale_changes_nothing() -> Result<()> {
    let data = small();
    // The gradients of a linear model grow with the features.
    let model = models::linear(&data).seed(1).build()?;
    let rest = Batch::new(features()[..234].to_vec(), &[6], (0..39).map(|i| i % 3).collect())?;
    // The largest distance over the labels: for some the network is already right.
    let distance = |plan: &Plan, size: f32| {
        let without = released(plan, &model, &rest);
        let distance_of = |label| {
            let with = released(plan, &model, &with_last(size, label));
            let pairs = flat(&with).into_iter().zip(flat(&without));
            // In units of the noise without the example, which an observer of the step compares.
            pairs.map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt() / without.noise_std[0]
        };
        (0..3).map(distance_of).fold(0.0, f64::max)
    };
    let published = method().plan(&data)?;
    let (hundred, thousand) = (distance(&published, 100.0), distance(&published, 1000.0));
    assert!(hundred > 20.0 && thousand > 5.0 * hundred, "{hundred} {thousand}");
    // A step with a real bound moves by at most 1 / 0.8.
    let bounded = distance(&method().sound().plan(&data)?, 1000.0);
    assert!(bounded <= 1.0 / 0.8 + 0.01, "{bounded}");
    let half = distance(&method().gradient_scale(0.5).plan(&data)?, 100.0);
    assert!((hundred / half - 1.0).abs() < 1e-4, "the scale is a change of units: {half}");
    Ok(())
}

#[test]
fn every_accountant_refuses_it_and_the_sound_variant_has_a_finite_epsilon() -> Result<()> {
    let data = small();
    let plan = method().plan(&data)?;
    assert!(plan.epsilon_after(1)?.is_none() && !plan.has_guarantee());
    assert!(plan.not_covered_reason().unwrap().contains("bounds no example"));
    let delta = Delta(1e-5);
    for accountant in [
        Box::new(TightestAccountant::new()) as Box<dyn Accountant>,
        Box::new(Pld::new()),
        Box::new(Rdp::default()),
        Box::new(Gdp::default()),
    ] {
        let refused = accountant.epsilon(&[plan.event_after(1)], delta).unwrap_err();
        assert_eq!(refused.kind(), privacy::ErrorKind::Accounting);
    }
    let sound = method().sound().plan(&data)?;
    assert_eq!(sound.method(), "DP-SGD");
    assert!(sound.epsilon_after(sound.steps())?.unwrap() > 1.0);
    assert_eq!(sound.privacy().unwrap().noise_schedule, plan.privacy().unwrap().noise_schedule);
    Ok(())
}

#[test]
fn the_claim_is_that_of_the_paper_at_the_mean_threshold_of_the_run() -> Result<()> {
    // MNIST's size: section 10 claims 0.24, 0.23, 0.19 and 9.99 at sensitivity 1 and sigma 1.
    let data = data::from_vecs(vec![0.0; 60_000], &[1], (0..60_000).map(|i| i % 2).collect(), 2)?;
    for (schedule, claimed) in [
        (NoiseSchedule::linear(0.99), 0.24),
        (NoiseSchedule::time(0.01), 0.23),
        (NoiseSchedule::step(0.99, 10), 0.19),
        (NoiseSchedule::exponential(0.1), 9.99),
    ] {
        let plan = AutoDpSgd::new().noise_multiplier(1.0).noise_schedule(schedule).plan(&data)?;
        let claim = |threshold| published_claim::claimed_epsilon(&plan, plan.steps(), threshold);
        let found = claim(Some(1.0)).unwrap().epsilon;
        assert!((found - claimed).abs() < 0.005, "{found} {claimed}");
        assert!(claim(Some(2.0)).unwrap().epsilon > 1.9 * found);
        assert!(
            claim(None).is_none()
                && published_claim::claimed_epsilon(&plan, 0, Some(1.0)).is_none()
        );
    }
    Ok(())
}

#[test]
fn targets_clip_bounds_and_impossible_scales_are_refused() -> Result<()> {
    let data = small();
    let refused = |change: &dyn Fn(&mut AutoDpSgd), words: &str| {
        let mut method = method();
        change(&mut method);
        let error = method.plan(&data).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Setting, "{error}");
        assert!(error.to_string().contains(words) && !error.advice().is_empty(), "{error}");
    };
    refused(
        &|method| method.privacy_settings_mut().unwrap().target(Epsilon(1.0), Delta(1e-5)),
        "target",
    );
    refused(&|method| method.privacy_settings_mut().unwrap().set_clip(1.0), "clip norm");
    let rule = || Some(ClipRule::auto_s(1.0));
    refused(&|method| method.privacy_settings_mut().unwrap().clip_rule = rule(), "clip");
    let decay = || ClipSchedule::decay(0.5);
    refused(&|method| method.privacy_settings_mut().unwrap().clip_schedule = decay(), "clip norm");
    for scale in ["0", "-1", "nan", "inf"] {
        refused(&|method| method.set("gradient_scale", scale).unwrap(), "scale");
    }
    assert!(method().set("gradient_scale", "half").is_err());
    let unknown = method().set("quantile", "0.5").unwrap_err();
    assert!(unknown.advice().contains("scale"), "{unknown}");
    // DP-SGD does not take the rule without a bound, nor a file that says so.
    let unbounded =
        DpSgd::new().noise_multiplier(1.0).batch_size(10).clip_rule(ClipRule::unclipped());
    assert_eq!(unbounded.plan(&data).unwrap_err().kind(), ErrorKind::Setting);
    let text = serde_json::to_string(&method().plan(&data)?).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    for (title, accepted) in [("Auto DP-SGD", true), ("DP-SGD", false), ("DP-SSGD", false)] {
        let edited = text.replace("\"method\":\"Auto DP-SGD\"", &format!("\"method\":\"{title}\""));
        std::fs::write(file.path(), edited).unwrap();
        assert_eq!(Plan::load(file.path()).is_ok(), accepted, "{title}");
    }
    Ok(())
}

#[test]
fn a_budget_refuses_it_whatever_it_claims_and_takes_the_sound_variant() -> Result<()> {
    let data = small();
    let model = model(&data);
    let ledger = Ledger::in_memory();
    ledger.set_budget(Epsilon(1e6), Delta(1e-5))?;
    let train = |plan: &Plan| fit("budget", plan, &model, &data, &ledger, &mut NoopObserver);
    // A huge noise multiplier makes the claim tiny.
    let method = method().noise_multiplier(1e3);
    let error = train(&method.plan(&data)?).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Ledger);
    assert!(error.to_string().contains("budget"), "{error}");
    assert!(ledger.events()?.is_empty(), "nothing is charged");
    let run = train(&method.sound().plan(&data)?)?;
    assert!(run.epsilon() < 1.0 && ledger.events()?.len() == 1);
    Ok(())
}
