//! DP-SSGD: pre-pruning and gradient dropping around DP-SGD.

mod config;
#[cfg(test)]
mod tests;

pub use config::{DpSsgd, DpSsgdSettings};
