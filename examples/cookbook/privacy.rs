use super::Chapter;
use epsilab::prelude::*;

pub const CHAPTER: Chapter = Chapter {
    title: "Privacy and its cost",
    source: include_str!("privacy.rs"),
    answers: &[
        ("... train to an epsilon?", "to_an_epsilon"),
        ("... see the cost before anything is trained?", "preview"),
        ("... read what a run guarantees?", "guarantee"),
        ("... find the noise for an epsilon?", "noise"),
        ("... find how long I may train?", "length"),
        ("... see epsilon for every delta?", "every_delta"),
        ("... understand why accountants differ?", "accountants"),
        ("... say what an epsilon means for one person?", "meaning"),
        ("... set a budget for a data set?", "budget"),
        ("... see what was spent?", "spent"),
        ("... attack a method?", "attack"),
    ],
};

/// The noise is calibrated to the target; the run never spends more.
fn to_an_epsilon(model: Model, data: Dataset) -> Result<()> {
    let method = DpSgd::new().target(Epsilon(3.0), Delta(1e-5)).clip(0.1).learning_rate(4.0);
    let run = method.batch_size(1024).epochs(5).train(&model, &data)?;
    println!("{run}");
    Ok(())
}

/// Steps, noise multiplier, epsilon by each accountant, memory and warnings.
fn preview(data: Dataset) -> Result<()> {
    let method = DpSgd::new().target(Epsilon(3.0), Delta(1e-5)).batch_size(1024).epochs(5);
    method.preview(&data)?.show();
    Ok(())
}

/// Neighbouring relation, sampler, assumptions, and what is not covered.
fn guarantee(run: Run) -> Result<()> {
    run.statement().show();
    Ok(())
}

/// The sampling rate is the expected batch size over the number of examples.
fn noise() -> Result<()> {
    let rate = SamplingRate(1024.0 / 60_000.0);
    let best = privacy::TightestAccountant::default(); // the smallest proved epsilon
    let found = privacy::noise_multiplier_for(Epsilon(3.0), Delta(1e-5), rate, 500, &best)?;
    println!("{found}");
    Ok(())
}

/// The largest number of steps for this noise and this epsilon.
fn length() -> Result<()> {
    let (rate, noise) = (SamplingRate(0.01), NoiseMultiplier(1.1));
    let best = privacy::TightestAccountant::default();
    let found = privacy::steps_for(Epsilon(3.0), Delta(1e-5), rate, noise, &best)?;
    println!("{found}");
    Ok(())
}

/// A slider chooses delta in JupyterLab and VS Code.
fn every_delta(run: Run) -> Result<()> {
    figures::epsilon_vs_delta(&run)?.show();
    Ok(())
}

/// What each accountant uses of the privacy loss, and its epsilon.
fn accountants(run: Run) -> Result<()> {
    figures::accountant_comparison(&run.record().events(), Delta(1e-5))?.show();
    Ok(())
}

/// How well the best attacker can tell whether one person's data were used.
fn meaning(run: Run) -> Result<()> {
    let events = run.record().events();
    println!("{}", privacy::attack_bounds(&events, Delta(1e-5))?);
    figures::trade_off(&events)?.show();
    Ok(())
}

/// From then on, a run that would exceed it is refused before it begins.
fn budget(data: Dataset) -> Result<()> {
    lab::budget(&data, Epsilon(10.0), Delta(1e-5))?.show();
    lab::remaining(&data)?.show();
    Ok(())
}

/// All releases of this project on each data set, and what they cost together.
fn spent() -> Result<()> {
    lab::ledger()?.show();
    Ok(())
}

/// Plays the mechanism many times with and without a canary.
fn attack() -> Result<()> {
    let options = audit::Options { trials: 2_000, ..audit::Options::default() };
    let report = audit::by_name("dp-sgd", &options)?.run()?;
    figures::attack_curves(&[&report])?.show();
    println!("{report}");
    Ok(())
}
