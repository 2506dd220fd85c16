//! Training without privacy, the baseline of the private methods.

mod config;
mod mechanism;
#[cfg(test)]
mod tests;

pub use config::{NonPrivate, NonPrivateSettings};
pub use mechanism::MeanGradient;
