//! The example of CONTRIBUTING.md: a private method with a bound and stages of its own. It exists
//! in tests only.

mod config;
mod mechanism;

pub use config::SoftClipSgd;
