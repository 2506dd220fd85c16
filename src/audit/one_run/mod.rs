//! Audits of one whole training run with many canaries.

mod bound;
mod crowd;
mod report;
#[cfg(test)]
mod tests;
mod training;

pub use bound::Guesses;
pub use report::OneRunReport;
pub use training::OneRunAudit;
