//! DP-SGD whose clip norm follows a quantile of the gradient norms, by noisy counts.

mod config;
mod mechanism;
#[cfg(test)]
mod tests;

pub use config::{QuantileClipping, QuantileDpSgd, QuantileDpSgdSettings};
pub use mechanism::QuantileClipMechanism;
