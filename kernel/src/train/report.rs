//! The report of a run: a line of JSON, or words.

use epsilab::lab::LearningWarning;
use epsilab::privacy::{Badge, NeighbouringRelation};
use epsilab::train::Run;
use epsilab::{Error, ErrorKind, Result};
use serde::Serialize;

/// Report as one line of JSON, in the order of its keys.
#[derive(Serialize)]
struct JsonReport<'a> {
    method: &'a str,
    badge: &'static str,
    /// Assumptions of the guarantee, or the reason why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    epsilon: Option<f64>,
    delta: Option<f64>,
    /// Caveats: sentences on a guarantee that is weaker than it seems.
    caveats: Vec<String>,
    /// Neighbouring relation of epsilon, if it is not "add or remove one".
    #[serde(skip_serializing_if = "Option::is_none")]
    neighbouring: Option<NeighbouringRelation>,
    noise_multiplier: Option<f64>,
    steps: u64,
    accuracy: Option<f64>,
    trained_parameters: usize,
    seconds: f64,
    /// Fraction of the seconds in which training waited for files, if it reads any.
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_share: Option<f64>,
    /// Random name of the run; its id is a hash that depends on private data.
    run: &'a str,
    /// Epsilon that the paper of the method claims without a valid proof.
    #[serde(skip_serializing_if = "Option::is_none")]
    claimed_epsilon: Option<f64>,
    /// Mean clip norm of a method that adapts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    mean_threshold: Option<f64>,
    /// Reasons why the run may have learnt nothing.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    warnings: &'a [LearningWarning],
}

/// Formats the run, with its warnings, as one line of JSON.
///
/// # Errors
/// As [`Run::trained_parameters`].
pub fn to_json(run: &Run, warnings: &[LearningWarning]) -> Result<String> {
    let (record, plan) = (run.record(), run.plan());
    let (badge, why, epsilon) = match run.badge() {
        Badge::Proved => ("proved", None, record.epsilon),
        Badge::Conditional(what) => ("assumption", Some(what), record.epsilon),
        Badge::NoGuarantee(why) => ("none", Some(why), None),
    };
    let report = JsonReport {
        method: plan.descriptor()?.name,
        badge,
        why,
        epsilon,
        delta: plan.privacy().map(|privacy| privacy.delta.0),
        caveats: run.caveats(),
        neighbouring: Some(plan.neighbouring()).filter(|_| !plan.sampling().is_poisson()),
        noise_multiplier: plan.privacy().map(|privacy| privacy.noise_multiplier),
        steps: record.steps,
        accuracy: record.test_accuracy,
        trained_parameters: run.trained_parameters()?,
        seconds: record.seconds,
        wait_share: record.waiting_fraction(),
        run: record.label(),
        claimed_epsilon: record.published_claim().map(|claim| claim.epsilon),
        mean_threshold: record.mean_threshold,
        warnings,
    };
    serde_json::to_string(&report)
        .map_err(|e| Error::new(ErrorKind::Io, "the run as JSON", e.to_string()))
}

/// Describes the run in words.
///
/// # Errors
/// As [`Run::trained_parameters`].
pub fn to_text(run: &Run) -> Result<String> {
    let note = if run.is_restored() { " (trained before and shown again)" } else { "" };
    let (trained, all) = (run.trained_parameters()?, run.model().num_parameters());
    let badge = run.badge();
    let caveats: String =
        run.caveats().iter().map(|caveat| format!("caveat: {caveat}\n")).collect();
    Ok(format!("{run}{note}\nguarantee: {badge}\n{caveats}trained parameters: {trained} of {all}"))
}
