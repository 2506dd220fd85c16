//! DP-SGD with a noise variance that is multiplied by a public factor in every epoch (Zhang et al.
//! 2021).

mod config;

pub use config::{AdaptiveDpSgd, AdaptiveDpSgdSettings};
