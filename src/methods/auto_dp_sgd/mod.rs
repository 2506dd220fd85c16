//! Auto DP-SGD as published. It has no guarantee.

mod claim;
mod config;
mod mechanism;
#[cfg(test)]
mod tests;

pub use config::{AutoDpSgd, AutoDpSgdSettings};
pub use mechanism::ScaledSum;
