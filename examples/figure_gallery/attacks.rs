//! Figures of audits. They read no data: the mechanism is attacked with made-up examples.

use super::Chapter;
use epsilab::prelude::*;

pub const CHAPTER: Chapter = Chapter {
    title: "Audits",
    source: include_str!("attacks.rs"),
    figures: &[("attack_curves", attack_curves), ("epsilon_claims", epsilon_claims)],
};

/// How often attacks succeed, beside what the claim allows.
fn attack_curves() -> Result<()> {
    let options = audit::Options { trials: 2_000, ..audit::Options::default() };
    let sound = audit::by_name("dp-sgd", &options)?.run()?;
    let wrong = audit::by_name("half-noise", &options)?.run()?;
    figures::attack_curves(&[&sound, &wrong])?.show();
    Ok(())
}

/// What is claimed, proved and refuted.
fn epsilon_claims() -> Result<()> {
    let options = audit::Options { trials: 2_000, ..audit::Options::default() };
    let mut reports = Vec::new();
    for name in ["dp-sgd", "half-noise"] {
        reports.push(audit::by_name(name, &options)?.run()?);
    }
    figures::epsilon_claims(&reports)?.show();
    Ok(())
}
