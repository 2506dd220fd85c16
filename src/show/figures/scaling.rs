//! The scaling laws of plans: larger batches with more noise, longer runs with more noise.

use std::ops::RangeInclusive;

use rayon::prelude::*;

use super::epsilon_panel::{epsilon_panel, geomspace, geomspace_integers};
use crate::data::Population;
use crate::methods::{DpSgd, Method, Plan};
use crate::privacy::digits::RoundedNearest;
use crate::privacy::{Delta, Event, NoiseMultiplier};
use crate::show::{Chart, Coverage, Panel, Series, format};
use crate::{Error, ErrorKind, Result};

/// Number of points of the scaling law; with fewer the bend of the curve shows corners.
const SCALING_POINTS: usize = 49;
/// Number of points of the noise over epochs, each by a calibration.
const EPOCH_POINTS: usize = 13;

/// Plots epsilon over the batch size where the noise multiplier is proportional to the batch size
/// and the number of steps is fixed. Every released gradient keeps its signal-to-noise ratio, but
/// epsilon decreases and flattens at the value of the full batch (De, Berrada, Hayes, Smith,
/// Balle: Unlocking High-Accuracy Differentially Private Image Classification, 2022; Kurakin et
/// al.: Toward Training at ImageNet Scale with Differential Privacy, 2022, Figure 2).
///
/// `noise_multiplier` is that of `batch_size`; a batch of B has `noise_multiplier * B /
/// batch_size`. The curve begins at half of `batch_size`. [`scaling_law_for_plan`] draws it for a
/// plan.
///
/// ```
/// use epsilab::prelude::*;
/// let (examples, batch_size, steps) = (10_000, 256, 100);
/// let noise = NoiseMultiplier(2.0); // of a batch of 256
/// let chart = figures::scaling_law(examples, batch_size, noise, steps, Delta(1e-5))?;
/// let points = chart.panels()[0].all_series()[0].points();
/// assert_eq!(points[0].0, 128.0); // from half of the batch size
/// assert!(points[0].1 > points[points.len() - 1].1);
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// Kind `Setting` for a number outside its range, zero steps, or a batch larger than the data.
pub fn scaling_law(
    examples: u64,
    batch_size: u64,
    noise_multiplier: NoiseMultiplier,
    steps: u64,
    delta: Delta,
) -> Result<Chart> {
    let method = DpSgd::new()
        .noise_multiplier(noise_multiplier.0)
        .delta(delta)
        .batch_size(batch_size as usize)
        .steps(steps);
    scaling_law_for_plan(&method.plan_for(&Population::with_size(examples as usize))?)
}

/// Plots epsilon of a plan and of those that [`Plan::scale`] makes of it, over their batch sizes
/// from half of the plan's to all examples.
///
/// ```
/// use epsilab::prelude::*;
/// # fn main() -> Result<()> {
/// let plan = recipes::imagenet_from_scratch().plan()?;
/// figures::scaling_law_for_plan(&plan)?.show();
/// # Ok(()) }
/// ```
///
/// # Errors
/// `Setting` for a plan without privacy or one that can't be scaled, such as one whose schedule
/// counts epochs; `Accounting` if no accountant supports it.
pub fn scaling_law_for_plan(plan: &Plan) -> Result<Chart> {
    let privacy = plan.privacy().ok_or_else(|| {
        let what = format!("the scaling law of {}", plan.method());
        Error::new(ErrorKind::Setting, what, "without noise there is no epsilon")
            .fix("pass the plan of a private method")
    })?;
    let (examples, batch_size) = (plan.examples() as u64, plan.expected_batch_size() as u64);
    let scaled = |batch: f64| plan.scaled_by(batch / batch_size as f64);
    // No factor between is refused if this one is not.
    scaled(examples as f64)?;
    // Far below the given batch size epsilon is so large that the rest would look flat.
    let low = (batch_size / 2).max(1);
    let batches = geomspace_integers(low, examples, SCALING_POINTS, Some(batch_size));
    let panel = epsilon_panel(&batches, privacy.delta, |batch| match scaled(batch) {
        Ok(plan) => plan.event(),
        Err(error) => Event::Unaccountable { why: error.to_string() },
    })?;
    let full = panel.all_series().first().and_then(|series| series.last());
    let given = format!("batch {}", format::format_count(batch_size));
    let mut panel = panel.log().values_at(batch_size as f64, given);
    if let Some(full) = full {
        panel = panel.reference(full, format!("full batch: epsilon {}", format::eps(full)));
    }
    Ok(Chart::new("Scaling law: batch and noise grow together, epsilon falls")
        .coverage(Coverage::Public)
        .note(format!(
            "{} examples, {} steps, noise multiplier {} at batch {} and in proportion elsewhere",
            format::format_count(examples),
            format::format_count(plan.steps()),
            RoundedNearest(privacy.noise_multiplier),
            format::format_count(batch_size)
        ))
        .panel(panel)
        .x_label("expected batch size")
        .x_log())
}

/// Plots the noise multiplier that reaches the target of a method in runs of more or fewer epochs,
/// and the same divided by the root of the number of steps (Kurakin et al., 2022, Figure 1 and
/// Table 8, train such runs).
///
/// More epochs at the same epsilon need more noise per step. In the sum of all steps, the noise of
/// T steps grows with √T and a gradient that stays the same with T, so the second panel is the
/// noise of the whole run relative to such a gradient: it falls.
///
/// ```
/// use epsilab::prelude::*;
/// use epsilab::data::Population;
/// # fn main() -> Result<()> {
/// let method = DpSgd::new().target(Epsilon(3.0), Delta(1e-5)).batch_size(1024);
/// let chart = figures::noise_over_epochs(&method, &Population::with_size(60_000), 5.0..=40.0)?;
/// assert!(chart.text().contains("noise multiplier"));
/// # Ok(()) }
/// ```
///
/// # Errors
/// `Setting` for a method without a target and for epochs that are not positive; as
/// [`Method::plan_for`].
pub fn noise_over_epochs(
    method: &dyn Method,
    population: &Population,
    epochs: RangeInclusive<f64>,
) -> Result<Chart> {
    let (low, high) = (*epochs.start(), *epochs.end());
    if !(low > 0.0 && low < high && high.is_finite()) {
        let why = "both ends are positive and the second is larger";
        return Err(Error::setting("epochs", format!("{low}..={high}"), why).fix("try 5.0..=50.0"));
    }
    let target = method.clone_box().privacy_settings_mut().and_then(|private| private.target);
    let Some(target) = target else {
        let what = format!("noise over epochs of {} without a target", method.descriptor().title);
        return Err(Error::new(ErrorKind::Setting, what, "the target determines the noise")
            .fix("add .target(Epsilon(3.0), Delta(1e-5))"));
    };
    let plan = |epochs: &f64| -> Result<(f64, Plan)> {
        let mut method = method.clone_box();
        let settings = method.settings_mut();
        settings.epochs = *epochs;
        settings.steps = None;
        Ok((*epochs, method.plan_for(population)?))
    };
    let all = geomspace(low, high, EPOCH_POINTS);
    let plans: Vec<(f64, Plan)> = all.par_iter().map(plan).collect::<Result<_>>()?;
    let line = |name, value: &dyn Fn(&Plan, f64) -> f64| {
        let point = |(epochs, plan): &(f64, Plan)| {
            (*epochs, plan.privacy().map_or(f64::NAN, |p| value(plan, p.noise_multiplier)))
        };
        Series::line(name, plans.iter().map(point).collect::<Vec<_>>())
    };
    let each = line("each step", &|_, noise| noise);
    let whole_run = line("whole run", &|plan, noise| noise / (plan.steps() as f64).sqrt());
    let delta = plans[0].1.privacy().map_or(0.0, |privacy| privacy.delta.0);
    Ok(Chart::new("Longer training at the same epsilon")
        .coverage(Coverage::Public)
        .note(format!(
            "epsilon {target} at delta {}, {} examples in batches of {}; whole run: noise of all \
             steps relative to a gradient that stays the same, noise multiplier / √steps",
            format::delta(delta),
            format::format_count(population.examples()),
            format::format_count(plans[0].1.expected_batch_size())
        ))
        .panel(Panel::new("noise multiplier of a step").from_zero().series(each))
        .panel(Panel::new("noise multiplier / √steps").from_zero().series(whole_run))
        .x_label("epochs"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::{AutoDpSgd, NonPrivate};
    use crate::privacy::{Epsilon, NoiseSchedule};

    #[test]
    fn the_law_of_a_plan_is_that_of_its_numbers_and_of_its_scaled_plans() {
        let plan = DpSgd::new().noise_multiplier(0.8).batch_size(128).epochs(4.0);
        let plan = plan.plan_for(&Population::with_size(60_000)).unwrap();
        let of_numbers =
            scaling_law(60_000, 128, NoiseMultiplier(0.8), plan.steps(), Delta(1e-5)).unwrap();
        let chart = scaling_law_for_plan(&plan).unwrap();
        assert_eq!(chart.text(), of_numbers.text());
        let points = chart.panels()[0].all_series()[0].points();
        for &(batch, epsilon) in points.iter().step_by(8) {
            let scaled = plan.scale(batch / 128.0).unwrap().plan();
            assert_eq!(scaled.expected_batch_size() as f64, batch);
            assert_eq!(scaled.epsilon_after(scaled.steps()).unwrap(), Some(epsilon));
        }
        let plain = NonPrivate::new().plan_for(&Population::with_size(60_000)).unwrap();
        assert_eq!(scaling_law_for_plan(&plain).unwrap_err().kind(), ErrorKind::Setting);
        let auto = AutoDpSgd::new().noise_multiplier(1.0);
        let auto = auto.noise_schedule(NoiseSchedule::constant());
        let auto = auto.plan_for(&Population::with_size(60_000)).unwrap();
        let refused = scaling_law_for_plan(&auto).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Accounting, "{refused}");
    }

    #[test]
    fn longer_runs_have_more_noise_in_a_step_and_less_in_all() {
        let population = Population::with_size(50_000);
        let method = DpSgd::new().target(Epsilon(3.0), Delta(1e-5)).batch_size(512);
        let chart = noise_over_epochs(&method, &population, 5.0..=40.0).unwrap();
        let [step, run] = chart.panels() else { panic!("two panels") };
        let points = |panel: &Panel| panel.all_series()[0].points().to_vec();
        assert!(points(step).windows(2).all(|pair| pair[0].1 < pair[1].1));
        assert!(points(run).windows(2).all(|pair| pair[0].1 > pair[1].1));
        let last = method.epochs(40.0).plan_for(&population).unwrap();
        assert_eq!(points(step).last().unwrap(), &(40.0, last.privacy().unwrap().noise_multiplier));
        let given = DpSgd::new().noise_multiplier(1.0);
        let methods: [&dyn Method; 2] = [&given, &NonPrivate::new()];
        for method in methods {
            let error = noise_over_epochs(method, &population, 5.0..=40.0).unwrap_err();
            assert!(error.to_string().contains("target"), "{error}");
        }
        for epochs in [0.0..=1.0, 2.0..=1.0, 1.0..=f64::INFINITY, f64::NAN..=2.0] {
            let method = DpSgd::new().target(Epsilon(3.0), Delta(1e-5));
            assert!(noise_over_epochs(&method, &population, epochs).is_err());
        }
    }
}
