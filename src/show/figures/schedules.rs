//! Schedules of noise and clip norm.

use super::check_not_empty;
use super::epsilon_panel::POINTS;
use crate::Result;
use crate::privacy::Stages;
use crate::show::{Chart, Coverage, Panel, Series};

/// Plots noise multiplier and factor on the clip norm over the steps of runs, each given by a
/// name and its [`Stages`]. Both are public settings, so the figure costs no privacy.
///
/// ```
/// use epsilab::prelude::*;
/// use epsilab::privacy::Stages;
/// let (noise, clip) = (NoiseSchedule::linear(0.9), ClipSchedule::constant());
/// let (first, rate) = (NoiseMultiplier(2.0), SamplingRate(0.01));
/// let stages = Stages::from_schedules(&noise, &clip, first, rate, 1_000)?; // or plan.stages()?
/// let chart = figures::schedules(&[("linear", &stages)])?;
/// assert_eq!(chart.panels()[0].all_series()[0].points()[0], (0.0, 2.0));
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// Kind `Setting` for an empty list.
pub fn schedules(runs: &[(&str, &Stages)]) -> Result<Chart> {
    check_not_empty("runs", runs, "pass for example &[(\"step\", &stages)]")?;
    let mut noise = Panel::new("noise multiplier").from_zero();
    let mut clip = Panel::new("factor on the clip norm").from_zero();
    for (slot, (name, stages)) in runs.iter().enumerate() {
        let points = |value: &dyn Fn(u64) -> f64| -> Vec<(f64, f64)> {
            sample_steps(stages.steps()).map(|step| (step as f64, value(step))).collect()
        };
        let noises = points(&|step| stages.at(step).noise_multiplier);
        noise = noise.series(Series::line(*name, noises).colour(slot));
        let scales = points(&|step| stages.at(step).clip_scale);
        clip = clip.series(Series::line(*name, scales).colour(slot));
    }
    let chart = Chart::new("Schedules of noise and clip norm")
        .coverage(Coverage::Public)
        .x_label("step")
        .panel(noise);
    let constant = |(_, stages): &(&str, &Stages)| {
        stages.as_slice().iter().all(|stage| stage.clip_scale.to_bits() == 1.0f64.to_bits())
    };
    Ok(if runs.iter().all(constant) { chart } else { chart.panel(clip) })
}

/// Returns about ten times as many evenly spaced steps as there are points in other figures, with
/// both ends: enough to see the steps of a schedule.
fn sample_steps(steps: u64) -> impl Iterator<Item = u64> {
    let last = steps.saturating_sub(1);
    let points = (10 * POINTS as u64).min(last).max(1);
    (0..=points).map(move |i| (u128::from(last) * u128::from(i) / u128::from(points)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privacy::{ClipSchedule, NoiseMultiplier, NoiseSchedule, SamplingRate};

    #[test]
    fn schedules_are_drawn_from_their_first_to_their_last_step() {
        let stages = |noise: &str, clip: ClipSchedule| {
            let noise: NoiseSchedule = noise.parse().unwrap();
            Stages::from_schedules(&noise, &clip, NoiseMultiplier(2.0), SamplingRate(0.01), 1000)
                .unwrap()
        };
        let linear = stages("linear:0.9", ClipSchedule::default());
        let exponential = stages("exp:0.1", ClipSchedule::decay(0.5));
        let chart = schedules(&[("linear", &linear), ("exponential", &exponential)]).unwrap();
        let [noise, clip] = chart.panels() else { panic!("two panels") };
        for (line, stages) in noise.all_series().iter().zip([&linear, &exponential]) {
            let (first, last) = (line.points()[0], line.points()[line.points().len() - 1]);
            assert_eq!((first, last.0), ((0.0, 2.0), 999.0));
            assert_eq!(last.1, stages.at(999).noise_multiplier);
        }
        assert_eq!(clip.all_series()[0].points()[0].1, 1.0);
        assert!(clip.all_series()[1].last().unwrap() < 0.51);
        assert_eq!(schedules(&[("linear", &linear)]).unwrap().panels().len(), 1);
        assert!(schedules(&[]).is_err());
        assert_eq!(sample_steps(1).collect::<Vec<_>>(), [0, 0]);
    }
}
