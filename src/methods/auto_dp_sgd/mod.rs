//! Auto DP-SGD as published. It has no guarantee.

mod config;
mod mechanism;
mod published_claim;
#[cfg(test)]
mod tests;

pub use config::{AutoDpSgd, AutoDpSgdSettings};
pub use mechanism::AutoDpSgdMechanism;
