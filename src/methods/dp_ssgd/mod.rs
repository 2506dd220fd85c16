//! DP-SSGD: pre-pruning and gradient dropping around DP-SGD.

mod config;
mod mechanism;
#[cfg(test)]
mod tests;

pub use config::DpSsgd;
pub(crate) use mechanism::{Coordinates, MaskSeeds};
