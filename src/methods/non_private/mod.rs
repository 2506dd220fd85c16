//! Training without privacy: the baseline that says what a private run gave up.

mod config;
mod mechanism;
#[cfg(test)]
mod tests;

pub use config::NonPrivate;
pub use mechanism::MeanGradient;
