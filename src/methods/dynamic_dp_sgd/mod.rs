//! DP-SGD whose clip norm and noise multiplier decay exponentially in every step (Du, Li, Chen,
//! Chen,

mod config;

pub use config::DynamicDpSgd;
