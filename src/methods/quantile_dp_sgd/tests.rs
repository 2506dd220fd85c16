use super::*;
use crate::data::{self, Dataset};
use crate::engine::{Batch, ClipRule, Executor, FusedExecutor};
use crate::methods::{DpSgd, Method, Plan, Release};
use crate::nn::{LayerSpec, LinearSpec, Model, Network, models};
use crate::privacy::{ClipSchedule, Delta, Epsilon, NeighbouringRelation, NoiseSchedule};
use crate::{ErrorKind, Result};

fn small() -> Dataset {
    let x = (0..240).map(|i| (i * 37 % 23) as f32 - 11.0).collect();
    data::from_vecs(x, &[6], (0..40).map(|i| i % 3).collect(), 3).unwrap()
}

fn model(data: &Dataset) -> Model {
    models::mlp(data, &[16]).seed(1).build().unwrap()
}

fn method() -> QuantileDpSgd {
    QuantileDpSgd::new().noise_multiplier(1.5).batch_size(10).steps(30)
}

fn batch(data: &Dataset, ids: impl IntoIterator<Item = u32>) -> Batch {
    Batch::from_examples(data.train(), &ids.into_iter().collect::<Vec<_>>()).unwrap()
}

/// Returns the releases of several steps on the same batch, with frozen parameters.
fn releases(plan: &Plan, model: &Model, batch: &Batch, steps: usize, seed: u8) -> Vec<Release> {
    let mut mechanism = plan.mechanism([seed; 32]).unwrap();
    let release = |_| mechanism.release(model.network(), batch, None).unwrap();
    (0..steps).map(release).collect()
}

fn thresholds(releases: &[Release]) -> Vec<f64> {
    releases.iter().map(|release| release.threshold.unwrap().value).collect()
}

/// Computes the distance, in standard errors, of the sample's variance from `std` squared.
fn score(values: &[f64], std: f64) -> f64 {
    let n = values.len() as f64;
    let ratio = values.iter().map(|v| v * v).sum::<f64>() / (n * std * std);
    ((ratio - 1.0) / (2.0 / n).sqrt()).abs()
}

#[test]
fn the_clip_norm_reaches_the_quantile_of_the_norms() -> Result<()> {
    let data = small();
    let (model, full_batch) = (model(&data), batch(&data, 0..40));
    let plain = ClipRule::unclipped();
    let norms = FusedExecutor::default().clipped_sum(model.network(), &full_batch, &plain)?.norms;
    let mut sorted: Vec<f32> = norms.iter().copied().collect();
    sorted.sort_by(f32::total_cmp);
    for (quantile, from) in [(0.25, 0.01), (0.5, 300.0), (0.75, 1.0)] {
        let method = method().quantile(quantile).clip(from).batch_size(40).noise_multiplier(0.1);
        let plan = method.count_noise(1.0).plan(&data)?;
        let last = *thresholds(&releases(&plan, &model, &full_batch, 400, 1)).last().unwrap();
        let below = sorted.iter().filter(|&&norm| f64::from(norm) <= last).count() as f64 / 40.0;
        assert!((below - quantile).abs() < 0.1, "{below} of {quantile}: {last} in {sorted:?}");
    }
    Ok(())
}

#[test]
fn the_count_has_the_noise_of_its_multiplier() -> Result<()> {
    let data = small();
    let (model, empty) = (model(&data), batch(&data, []));
    let plan = method().count_noise(2.0).rate(0.01).plan(&data)?;
    let releases = releases(&plan, &model, &empty, 2000, 2);
    // ln(C' / C) = -rate (1/2 + noise / 10 - quantile), on an empty batch.
    let moves = thresholds(&releases).windows(2).map(|pair| (pair[1] / pair[0]).ln()).collect();
    let noise: Vec<f64> = <Vec<f64>>::into_iter(moves).map(|m: f64| m / 0.01 * 10.0).collect();
    assert!(score(&noise, 2.0) < 4.0, "{}", score(&noise, 2.0));
    for wrong in [1.0, 1.8, 2.2] {
        assert!(score(&noise, wrong) > 4.0, "{wrong} was accepted");
    }
    // The count has sensitivity 1/2, so its noise multiplier is twice the standard deviation; sum
    // and count together have the multiplier of the ledger.
    let other = releases[0].threshold.unwrap().noise_multiplier.unwrap();
    assert_eq!(other, 4.0);
    let sum = releases[0].noise_std[0] * 10.0 / 1.0;
    let joint = (sum.powi(-2) + other.powi(-2)).powf(-0.5);
    assert!((joint - 1.5).abs() < 1e-9, "{joint}");
    assert!(sum > 1.5, "the sum alone has more noise than DP-SGD's");
    // Noise of sum and count are independent streams: not the same deviates.
    let of_sum: Vec<f64> = releases
        .iter()
        .zip(thresholds(&releases))
        .map(|(release, clip)| f64::from(release.gradient.entries[0].values[0]) / clip)
        .collect();
    let product = noise.iter().zip(&of_sum).map(|(a, b)| a * b).sum::<f64>();
    let size = |values: &[f64]| values.iter().map(|v| v * v).sum::<f64>().sqrt();
    let correlation = product / size(&noise) / size(&of_sum[..noise.len()]);
    assert!(correlation.abs() < 0.1, "{correlation}");
    Ok(())
}

#[test]
fn a_step_costs_what_dp_sgd_costs_and_follows_schedules_of_noise() -> Result<()> {
    let data = small();
    let plan = method().noise_schedule(NoiseSchedule::linear(0.5)).plan(&data)?;
    let same = DpSgd::new().noise_multiplier(1.5).batch_size(10).steps(30);
    let same = same.noise_schedule(NoiseSchedule::linear(0.5)).plan(&data)?;
    assert_eq!(plan.event(), same.event());
    let target = QuantileDpSgd::new().target(Epsilon(3.0), Delta(1e-5)).batch_size(10).steps(30);
    let target = target.plan(&data)?;
    assert!(target.epsilon_after(30)?.unwrap() <= 3.0);
    // By default the count takes little from the sum.
    let quantile = target.privacy().unwrap().quantile.unwrap();
    let sigma = target.privacy().unwrap().noise_multiplier;
    assert!(quantile.sum_noise_multiplier(sigma)? < 1.04 * sigma);
    Ok(())
}

/// Counted as a gradient that is not clipped, a zeroed example would move the count by 1 where the
/// other is clipped: batches of 256, noise multiplier 4 and count noise 2.2 would then cost epsilon
/// 6.9 in ten epochs of disjoint batches, and 3.3 would be claimed.
#[test]
fn an_example_that_is_zeroed_out_moves_the_count_as_one_that_is_removed() -> Result<()> {
    let spec = LinearSpec { inputs: 6, outputs: 3, bias: false };
    let network = Network::build(&[6], &[LayerSpec::Linear(spec)], |_, shape, _| {
        (0..shape.iter().product()).map(|i: usize| (i % 5) as f32 * 0.1).collect()
    })?;
    let data = small();
    let all = batch(&data, 0..8);
    let mut features: Vec<f32> = (0..8).flat_map(|i| all.features(i).to_vec()).collect();
    // Without features and bias an example has no gradient.
    features[3 * 6..4 * 6].fill(0.0);
    let zeroed = Batch::new(features, &[6], (0..8).map(|i| i % 3).collect())?;
    let removed = batch(&data, (0..8).filter(|&i| i != 3));
    for relation in [NeighbouringRelation::ZeroOutOne, NeighbouringRelation::ReplaceOne] {
        // A first clip norm far below and far above all norms.
        for clip in [1e-3, 1e3] {
            let plan = method().clip(clip).disjoint_batches(relation).plan(&data)?;
            let after = |batch: &Batch| {
                let mut mechanism = plan.mechanism([1; 32]).unwrap();
                let _ = mechanism.release(&network, batch, None).unwrap();
                mechanism.state()
            };
            assert_eq!(after(&zeroed), after(&removed));
            assert_ne!(after(&all), after(&removed));
        }
    }
    Ok(())
}

#[test]
fn an_example_that_is_not_finite_is_not_counted() -> Result<()> {
    let data = small();
    let model = model(&data);
    let some = batch(&data, 0..12);
    let mut features: Vec<f32> = (0..12).flat_map(|i| some.features(i).to_vec()).collect();
    features[5 * 6] = f32::NAN;
    let poisoned = Batch::new(features, &[6], (0..12).map(|i| i % 3).collect())?;
    let rest = batch(&data, (0..12).filter(|&i| i != 5));
    let plan = method().plan(&data)?;
    let after = |batch: &Batch| thresholds(&releases(&plan, &model, batch, 3, 1));
    assert_eq!(after(&poisoned), after(&rest));
    assert_ne!(after(&poisoned), after(&some));
    Ok(())
}

#[test]
fn settings_out_of_range_are_refused() {
    let data = small();
    let refused = |method: QuantileDpSgd, words: &str| {
        let error = method.plan(&data).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Setting, "{error}");
        assert!(error.to_string().contains(words) && !error.advice().is_empty(), "{error}");
    };
    for quantile in [0.0, 1.0, -0.5, f64::NAN] {
        refused(method().quantile(quantile), "quantile");
    }
    for rate in [0.0, -1.0, f64::INFINITY] {
        refused(method().rate(rate), "rate");
    }
    // At half the noise multiplier, the count alone costs as much as the step.
    for noise in [0.0, 0.75, -1.0, f64::NAN] {
        refused(method().count_noise(noise), "count-noise");
    }
    assert!(method().count_noise(0.76).plan(&data).is_ok());
    refused(method().clip_rule(ClipRule::auto_s(1.0)), "another clip rule");
    refused(method().clip_schedule(ClipSchedule::decay(0.5)), "clip schedule");
    let mut named = method();
    assert!(named.set("quantile", "0.9").is_ok() && named.set("gradient_scale", "1").is_err());
    assert_eq!(named, method().quantile(0.9));
}
