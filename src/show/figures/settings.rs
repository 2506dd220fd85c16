//! Epsilon as a function of the settings of a run: noise, batch size, epochs.

use super::epsilon_panel::{POINTS, epsilon_panel, geomspace, geomspace_integers, rdp_jump_note};
use super::sorted;
use crate::privacy::digits::RoundedNearest;
use crate::privacy::{Delta, Event, NoiseMultiplier, SamplingRate};
use crate::show::{Chart, Coverage, format};
use crate::{Error, Result};

/// Plots the epsilon of `steps` Poisson-sampled steps for noise multipliers from 0.4 to 10; the
/// values beside the names are those at noise multiplier 1.
///
/// ```
/// use epsilab::prelude::*;
/// let chart = figures::epsilon_over_noise(SamplingRate(0.01), 100, Delta(1e-5))?;
/// let points = chart.panels()[0].all_series()[0].points();
/// assert!(points[0].1 > points[points.len() - 1].1); // more noise, less epsilon
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// Kind `Setting` for a number outside its range or zero steps.
pub fn epsilon_over_noise(sampling_rate: SamplingRate, steps: u64, delta: Delta) -> Result<Chart> {
    let sampling_rate = sampling_rate.check()?.0;
    check_positive("steps", steps)?;
    let sigmas = sorted(geomspace(0.4, 10.0, POINTS).into_iter().chain([1.0]));
    let panel = epsilon_panel(&sigmas, delta, |noise| Event::poisson(sampling_rate, noise, steps))?;
    let panel = panel.log().values_at(1.0, "noise multiplier 1").reference(1.0, "epsilon 1");
    Ok(Chart::new("More noise, less epsilon")
        .coverage(Coverage::Public)
        .note(format!(
            "{}, Poisson sampling at rate {}; both axes logarithmic",
            format::pluralise(steps, "step"),
            RoundedNearest(sampling_rate)
        ))
        .panel(panel)
        .x_label("noise multiplier (noise on the sum / clip norm)")
        .x_log())
}

/// Plots epsilon over the expected batch size at fixed epochs and noise multiplier: larger batches
/// mean fewer steps but a higher sampling rate.
///
/// ```
/// use epsilab::prelude::*;
/// let (epochs, noise) = (5.0, NoiseMultiplier(2.0));
/// let chart = figures::epsilon_over_batch_size(2_000, epochs, noise, Delta(1e-5))?;
/// let points = chart.panels()[0].all_series()[0].points();
/// assert_eq!(points[points.len() - 1].0, 2_000.0); // up to the full batch
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// Kind `Setting` for a number outside its range.
pub fn epsilon_over_batch_size(
    examples: u64,
    epochs: f64,
    noise_multiplier: NoiseMultiplier,
    delta: Delta,
) -> Result<Chart> {
    let noise_multiplier = noise_multiplier.check()?.0;
    check_positive("examples", examples)?;
    check_epochs(epochs)?;
    let batches = geomspace_integers((examples / 4096).max(1), examples, POINTS, None);
    let panel = epsilon_panel(&batches, delta, |batch| {
        let rate = compute_sampling_rate(batch, examples);
        Event::poisson(rate, noise_multiplier, steps_for(epochs, rate))
    })?;
    let panel = panel.log().values_at(examples as f64, "full batch");
    Ok(Chart::new("Larger batches, same epochs, same noise multiplier")
        .coverage(Coverage::Public)
        .note(format!(
            "{} examples, {} epochs, noise multiplier {}; both axes logarithmic",
            format::format_count(examples),
            RoundedNearest(epochs),
            RoundedNearest(noise_multiplier)
        ))
        .panel(panel)
        .x_label("expected batch size")
        .x_log())
}

/// Plots epsilon over the number of epochs, from 0 to `epochs`.
///
/// ```
/// use epsilab::prelude::*;
/// let (examples, batch_size, noise) = (60_000, 600, NoiseMultiplier(1.0));
/// let chart = figures::epsilon_over_epochs(examples, batch_size, 3.0, noise, Delta(1e-5))?;
/// let points = chart.panels()[0].all_series()[0].points();
/// assert_eq!(points[0], (0.0, 0.0)); // nothing is released before the first step
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// Kind `Setting` for a number outside its range or a batch larger than the data.
pub fn epsilon_over_epochs(
    examples: u64,
    batch_size: u64,
    epochs: f64,
    noise_multiplier: NoiseMultiplier,
    delta: Delta,
) -> Result<Chart> {
    let noise_multiplier = noise_multiplier.check()?.0;
    let sampling_rate = validated_sampling_rate(batch_size, examples)?;
    check_epochs(epochs)?;
    let at = |i: usize| epochs * i as f64 / (POINTS - 1) as f64;
    // The first epoch costs most; a straight line from 0 would understate it.
    let early = (1..6).map(|halved| at(1) * 0.5f64.powi(halved));
    let xs = sorted((0..POINTS).map(at).chain(early));
    let panel = epsilon_panel(&xs, delta, |epochs| {
        Event::poisson(sampling_rate, noise_multiplier, steps_for(epochs, sampling_rate))
    })?;
    Ok(Chart::new("Longer training, more epsilon")
        .coverage(Coverage::Public)
        .note(format!(
            "batch {} of {} examples, noise multiplier {}{}",
            format::format_count(batch_size),
            format::format_count(examples),
            RoundedNearest(noise_multiplier),
            rdp_jump_note(&panel)
        ))
        .panel(panel)
        .x_label("epochs"))
}

fn compute_sampling_rate(batch: f64, examples: u64) -> f64 {
    (batch / examples as f64).min(1.0)
}

/// Returns the steps of this many epochs, rounded up as in a plan.
fn steps_for(epochs: f64, sampling_rate: f64) -> u64 {
    (epochs / sampling_rate - 1e-9).ceil().max(0.0) as u64
}

fn validated_sampling_rate(batch_size: u64, examples: u64) -> Result<f64> {
    check_positive("examples", examples)?;
    check_positive("batch_size", batch_size)?;
    if batch_size > examples {
        let why = format!("the data has only {}", format::pluralise(examples, "example"));
        return Err(Error::setting("batch_size", batch_size, why)
            .fix(format!("choose a batch size of at most {examples}")));
    }
    Ok(compute_sampling_rate(batch_size as f64, examples))
}

fn check_epochs(epochs: f64) -> Result<()> {
    if epochs > 0.0 && epochs <= 1e6 {
        Ok(())
    } else {
        Err(Error::setting("epochs", epochs, "a run has above 0 and at most 1e6 epochs")
            .fix("choose a positive number of epochs"))
    }
}

fn check_positive(name: &str, value: u64) -> Result<()> {
    match value {
        0 => Err(Error::setting(name, value, "nothing would be released").fix("use at least 1")),
        _ => Ok(()),
    }
}
