//! DP-SGD with a noise variance that decays every epoch: each epoch has R times

mod config;

pub use config::AdaptiveDpSgd;
