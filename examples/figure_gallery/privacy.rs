//! Figures about privacy. They follow from the settings of a run: nothing is trained or spent.

use super::Chapter;
use epsilab::data::Population;
use epsilab::prelude::*;
use epsilab::privacy::Stages;

pub const CHAPTER: Chapter = Chapter {
    title: "Privacy",
    source: include_str!("privacy.rs"),
    figures: &[
        ("epsilon_vs_delta", epsilon_vs_delta),
        ("epsilon_over_steps", epsilon_over_steps),
        ("epsilon_over_noise", epsilon_over_noise),
        ("epsilon_over_batch_size", epsilon_over_batch_size),
        ("epsilon_over_epochs", epsilon_over_epochs),
        ("scaling_law", scaling_law),
        ("noise_over_epochs", noise_over_epochs),
        ("schedules", schedules),
        ("selection_cost", selection_cost),
        ("trade_off", trade_off),
    ],
};

/// The epsilon of a run for every delta, by each accountant. Interactive: a slider chooses delta.
fn epsilon_vs_delta() -> Result<()> {
    let training = Event::poisson(0.01, 1.0, 1000);
    figures::epsilon_vs_delta(&[training])?.show();
    Ok(())
}

/// How epsilon grows from step to step.
fn epsilon_over_steps() -> Result<()> {
    let training = Event::poisson(0.01, 1.0, 1000);
    figures::epsilon_over_steps(&training, Delta(1e-5))?.show();
    Ok(())
}

/// What more noise buys.
fn epsilon_over_noise() -> Result<()> {
    figures::epsilon_over_noise(SamplingRate(0.01), 1000, Delta(1e-5))?.show();
    Ok(())
}

/// Larger batches at the same number of epochs and the same noise multiplier.
fn epsilon_over_batch_size() -> Result<()> {
    figures::epsilon_over_batch_size(60_000, 10.0, NoiseMultiplier(1.0), Delta(1e-5))?.show();
    Ok(())
}

/// Longer training.
fn epsilon_over_epochs() -> Result<()> {
    figures::epsilon_over_epochs(60_000, 600, 30.0, NoiseMultiplier(1.0), Delta(1e-5))?.show();
    Ok(())
}

/// Batch size and noise multiplier grow together: epsilon falls and then flattens.
fn scaling_law() -> Result<()> {
    figures::scaling_law(1_281_167, 1024, NoiseMultiplier(0.56), 12_512, Delta(1e-6))?.show();
    Ok(())
}

/// The noise that a target epsilon needs, over the number of epochs.
fn noise_over_epochs() -> Result<()> {
    let method = DpSgd::new().target(Epsilon(3.0), Delta(1e-5)).batch_size(1024);
    figures::noise_over_epochs(&method, &Population::with_size(60_000), 5.0..=40.0)?.show();
    Ok(())
}

/// Noise multipliers along a run, of several schedules.
fn schedules() -> Result<()> {
    let (clip, noise) = (ClipSchedule::constant(), NoiseMultiplier(1.0));
    let stages = |form: &str| -> Result<Stages> {
        Ok(Stages::from_schedules(&form.parse()?, &clip, noise, SamplingRate(0.01), 1000)?)
    };
    let (linear, step) = (stages("linear:0.99")?, stages("step:0.9:2")?);
    figures::schedules(&[("linear", &linear), ("step", &step)])?.show();
    Ok(())
}

/// What it costs to publish the best of a random number of trials.
fn selection_cost() -> Result<()> {
    let trial = Event::poisson(0.01, 2.0, 1000);
    figures::selection_cost(&trial, Delta(1e-5))?.show();
    Ok(())
}

/// How well the best attacker can tell who was in the data.
fn trade_off() -> Result<()> {
    let training = Event::poisson(0.01, 1.0, 1000);
    figures::trade_off(&[training])?.show();
    Ok(())
}
