//! Data: readers of real files, digits drawn by code, tables of one's own, splits, samplers.
//!
//! A [`Dataset`] is a training part, a test part (maybe empty) and how many classes there are. It
//! is cheap to clone and its [`Dataset::hash`] names the training part in the privacy ledger.
//! Nothing here downloads anything, and nothing is ever scaled by statistics of the data itself:
//! a mean or a maximum of private data would be a release that no accountant sees.

mod dataset;
mod digest;
mod examples;
mod find;
mod glyphs;
mod idx;
mod mnist;
pub mod sampler;
mod table;

pub use dataset::Dataset;
pub use examples::Examples;
pub use find::{Available, available};
pub use glyphs::{glyphs, glyphs_with};
pub use mnist::{fashion_mnist, fashion_mnist_in, mnist, mnist_in};
pub use sampler::PoissonSampler;
pub use table::{csv, from_vecs, idx, idx_with_classes};
