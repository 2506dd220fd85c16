//! Epsilab: differentially private, sparse learning in a Jupyter notebook.
//!
//! A notebook starts with `use epsilab::prelude::*;`. The modules, from the top layer to the bottom
//! one; each depends only on those below it:
//!
//! - [`lab`]: notebook functions on plans, runs, budgets and the project's ledger
//! - [`cluster`]: grids on other machines, by Slurm
//! - [`grid`]: accuracy grids of many runs
//! - [`tuning`]: the search for learning rate and clip norm
//! - [`show`]: figures, tables and live charts
//! - [`audit`]: attacks that test the guarantees
//! - [`train`]: the training loop
//! - [`methods`]: training methods: DP-SGD, DP-SSGD and non-private SGD
//! - [`optim`]: optimizers, learning-rate schedules and averages of parameters
//! - [`mask`]: masks, saliencies and gradient dropping
//! - [`engine`]: per-example gradients, clipping and noise
//! - [`nn`]: layers and models
//! - [`data`]: data sets and Poisson sampling
//! - [`privacy`]: accountants, calibration and ledgers
//! - [`device`]: CPU and GPU devices
#![warn(missing_docs)]

pub mod audit;
pub mod cluster;
#[cfg(test)]
mod conformance;
pub mod data;
pub mod device;
pub mod engine;
mod error;
pub mod grid;
pub mod lab;
pub mod mask;
pub mod methods;
pub mod nn;
pub mod optim;
pub mod prelude;
pub mod privacy;
#[doc(hidden)]
pub mod program;
mod runs;
pub mod show;
mod store;
pub mod train;
pub mod tuning;

/// Compiles the examples of the README as doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Compiles what the page on data sets shows.
#[cfg(doctest)]
#[doc = include_str!("../datasets/README.md")]
struct DataReadme;

/// Compiles what the page on audits shows.
#[cfg(doctest)]
#[doc = include_str!("../docs/auditing.md")]
struct AuditingPage;

/// Compiles what the page on the settings of a run shows.
#[cfg(doctest)]
#[doc = include_str!("../docs/training.md")]
struct TrainingPage;

/// Compiles what the page on clusters shows.
#[cfg(doctest)]
#[doc = include_str!("../docs/cluster.md")]
struct ClusterPage;

/// Compiles what the page on transfer shows.
#[cfg(doctest)]
#[doc = include_str!("../docs/reproduction/imagenet-recipe.md")]
struct TransferPage;

/// Compiles what the page on the arithmetic of ImageNet shows.
#[cfg(doctest)]
#[doc = include_str!("../docs/reproduction/imagenet-scaling.md")]
struct ImagenetPage;

/// Folder with the sources that this library was compiled from. The notebook kernel builds the
/// library for cells from it.
#[doc(hidden)]
pub const SOURCE_DIR: &str = env!("CARGO_MANIFEST_DIR");

pub use burn;
pub use error::{Error, ErrorKind, Result};
