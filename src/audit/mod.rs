//! Auditing: attacks that test whether releases are as private as the ledger says.
//!
//! - [`Audit`] plays the real mechanism of a plan many times, with and without an example whose
//!   gradient the attacker chooses (a canary), and compares the attacker's error rates with the
//!   trade-off curve of the ledger. [`by_name`] audits a method, or a control that is wrong on
//!   purpose.
//! - [`Plan::audit`](crate::methods::Plan::audit) and [`OneRunAudit`] audit a whole training run
//!   with many canaries at once.
//! - [`loss_threshold_attack`] and [`lira_attack`] attack a finished model by its losses alone:
//!   weak evidence.
//!
//! A verdict is [`Refuted`](Verdict::Refuted), [`Consistent`](Verdict::Consistent) or
//! [`Inconclusive`](Verdict::Inconclusive), never "private". Audits train nothing that is kept and
//! are not recorded in a ledger: audit on data that are public, generated, or that you may see.
//!
//! Sources: Nasr, Hayes, Steinke, Balle, Tramèr, Jagielski, Carlini, Terzis, "Tight Auditing of
//! Differentially Private Machine Learning", 2023 (gradient canaries); Dong, Roth, Su, "Gaussian
//! Differential Privacy", 2022 (trade-off functions); Clopper and Pearson, 1934 (intervals);
//! Steinke, Nasr, Jagielski, "Privacy Auditing with One (1) Training Run", 2023; Carlini, Chien,
//! Nasr, Song, Terzis, Tramèr, "Membership Inference Attacks From First Principles", 2022 (LiRA).
//!
//! ```
//! use epsilab::prelude::*;
//! let options = audit::Options { trials: 1_000, dimension: 8, ..Default::default() };
//! // DP-SGD that does not clip, but claims the epsilon of DP-SGD.
//! let report = audit::by_name("no-clip", &options)?.run()?;
//! assert_eq!(report.verdict, audit::Verdict::Refuted);
//! println!("{report}");
//! # Ok::<(), Error>(())
//! ```

mod builder;
mod canary;
mod controls;
mod evaluation;
mod game;
mod membership;
mod one_run;
mod privacy_claim;
mod report;
mod snip_mask_game;
mod statistics;
mod targets;
#[cfg(test)]
mod tests;

pub use builder::Audit;
pub use membership::{
    MembershipReport, ShadowModel, TrainedModel, lira_attack, loss_threshold_attack,
};
pub use one_run::{Guesses, OneRunAudit, OneRunReport};
pub use report::{AuditReport, Statistic, Verdict};
pub use targets::{AuditTarget, Options, by_name, targets};
