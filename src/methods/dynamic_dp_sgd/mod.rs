//! DP-SGD whose clip norm and noise multiplier decay exponentially in every step (Du et al. 2021).

mod config;

pub use config::{DynamicDpSgd, DynamicDpSgdSettings};
