//! Audits of one whole training run with many canaries. Begin with `OneRunAudit` in `training`,
//! which trains and guesses which canaries were in. `canary_set` has the canaries and their scores,
//! `bound` the lower bound on epsilon that the guesses give, and `report` the result.

mod bound;
mod canary_set;
mod report;
#[cfg(test)]
mod tests;
mod training;

pub use bound::Guesses;
pub use report::OneRunReport;
pub use training::OneRunAudit;
