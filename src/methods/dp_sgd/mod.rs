//! DP-SGD: per-example clipping and Gaussian noise (Abadi et al., 2016, Algorithm 1).

mod config;
mod mechanism;
#[cfg(test)]
mod tests;

pub use config::{DpSgd, DpSgdSettings};
pub use mechanism::GaussianMechanism;
pub(crate) use mechanism::{bound, build_mechanism, event};
