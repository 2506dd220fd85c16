//! Backpropagation clipping (Stevens et al., 2022), with a sound sensitivity and accounting.

mod config;
mod mechanism;
mod standardised;
#[cfg(test)]
mod tests;

pub use config::{BackpropClip, BackpropClipSettings};
pub use mechanism::BackpropClipMechanism;
