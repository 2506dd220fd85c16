//! Epsilab: differentially private, sparse learning in a Jupyter notebook.
//!
//! # In six lines
//!
//! ```no_run
//! # fn main() -> epsilab::Result<()> {
//! use epsilab::prelude::*;
//! let digits = data::mnist_or_glyphs()?;
//! let model = models::papernot_cnn(&digits).build()?;
//! let method = DpSgd::new().target(Epsilon(3.0), Delta(1e-5)).clip(0.1).learning_rate(4.0);
//! let run = method.epochs(8).train(&model, &digits)?;
//! run.report()?.save("report.html")?;
//! # Ok(())
//! # }
//! ```
//!
//! The run is charged to the ledger of its data before the first step, stored, and shown again
//! instead of trained again. In a notebook it draws itself while it trains. [`lab::help`] lists
//! what cells use, and [`lab::scaffold`] prints cells to start from.
//!
//! # Ideas
//!
//! **Plans.** The settings of a method make a [`methods::Plan`]: sampler, bound, noise and number
//! of steps together. Training, preview, calibration and ledger read the same plan, so they can't
//! disagree. See [`methods`].
//!
//! **Bounds.** An [`engine::Bound`] says how each example's gradient is rescaled before the sum,
//! and with it the sensitivity that the noise is scaled by. See [`engine`].
//!
//! **Masks.** A [`mask::Mask`] says which coordinates are trained, and what its choice reveals of
//! the data. See [`mask`].
//!
//! **Accounting.** A release is an [`privacy::Event`], inert data. An [`privacy::Accountant`] turns
//! events into an epsilon, or refuses what it can't account for. The [`privacy::Ledger`] of a data
//! set adds up everything that was spent on it. See [`privacy`].
//!
//! **Figures.** Everything shown is a [`show::MimeBundle`] of several formats with a
//! [`show::Coverage`]: what it reveals of private data. See [`show`] and [`show::figures`].
//!
//! **Audits.** An [`audit::Audit`] plays the mechanism that trains against a claim. It can refute a
//! claim and never prove one. See [`audit`].
//!
//! # Modules
//!
//! From the top layer to the bottom one; each depends only on those below it:
//!
//! - [`lab`]: notebook functions: help, runs, reports, budgets and the project's ledger
//! - [`cluster`]: grids on other machines, by Slurm
//! - [`tuning`]: the search for learning rate and clip norm
//! - [`grid`]: accuracy grids of many runs
//! - `runs`: training of a plan, or its stored run
//! - [`show`]: figures, tables and live charts
//! - `store`: runs, checkpoints and ledgers on disk
//! - [`audit`]: attacks that test the guarantees
//! - [`train`]: the training loop
//! - [`methods`]: the training methods, one folder for each
//! - [`optim`]: optimizers, learning-rate schedules and averages of parameters
//! - [`mask`]: masks, saliencies and gradient dropping
//! - [`engine`]: per-example gradients, clipping and noise
//! - [`nn`]: layers and models
//! - [`data`]: data sets and Poisson sampling
//! - [`device`]: CPU and GPU devices
//! - `file`, `clock`, `error`, `program`: file access, time, one error type, names
//! - [`privacy`]: accountants, calibration and ledgers
#![warn(missing_docs)]

/// A clean environment for the unit tests, and processes of a test's own.
#[cfg(test)]
#[macro_use]
#[path = "../tests/support/mod.rs"]
mod support;

pub mod audit;
mod clock;
pub mod cluster;
pub mod data;
pub mod device;
pub mod engine;
mod error;
#[doc(hidden)]
pub mod file;
pub mod grid;
pub mod lab;
pub mod mask;
pub mod methods;
pub mod nn;
pub mod optim;
pub mod prelude;
#[doc(hidden)]
pub mod program;
mod runs;
pub mod show;
mod store;
#[cfg(test)]
mod tests;
pub mod train;
pub mod tuning;

/// Compiles the examples of the README as doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Compiles what the page on data sets shows.
#[cfg(doctest)]
#[doc = include_str!("../book/src/how-to/data.md")]
struct DataPage;

/// Compiles what the page on models shows.
#[cfg(doctest)]
#[doc = include_str!("../book/src/how-to/models.md")]
struct ModelsPage;

/// Compiles what the page on masks shows.
#[cfg(doctest)]
#[doc = include_str!("../book/src/how-to/masks.md")]
struct MasksPage;

/// Compiles what the page on audits shows.
#[cfg(doctest)]
#[doc = include_str!("../book/src/understanding/auditing.md")]
struct AuditingPage;

/// Compiles what the page on the settings of a run shows.
#[cfg(doctest)]
#[doc = include_str!("../book/src/reference/training.md")]
struct TrainingPage;

/// Compiles what the page on clusters shows.
#[cfg(doctest)]
#[doc = include_str!("../book/src/how-to/cluster.md")]
struct ClusterPage;

/// Compiles what the page on transfer shows.
#[cfg(doctest)]
#[doc = include_str!("../book/src/evidence/imagenet-recipe.md")]
struct TransferPage;

/// Compiles what the page on the arithmetic of ImageNet shows.
#[cfg(doctest)]
#[doc = include_str!("../book/src/evidence/imagenet-scaling.md")]
struct ImagenetPage;

/// Folder with the sources that this library was compiled from. The notebook kernel builds the
/// library for cells from it.
#[doc(hidden)]
pub const SOURCE_DIR: &str = env!("EPSILAB_SOURCE_DIR");

pub use burn;
#[doc(inline)]
pub use epsilab_accounting as privacy;
pub use error::{Error, ErrorKind, Result};
