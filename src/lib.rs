//! Epsilab: private, sparse learning in a notebook.
//!
//! The rooms of the house, from the top (what a cell sees) to the bottom (pure mathematics).
//! Arrows between them only point downwards.
#![warn(missing_docs)]

pub mod data;
pub mod device;
pub mod engine;
mod error;
pub mod grid;
pub mod lab;
pub mod mask;
pub mod methods;
pub mod nn;
pub mod prelude;
pub mod privacy;
pub mod show;
mod store;
pub mod train;

/// Compiles what the README shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Compiles what the page on data sets shows.
#[cfg(doctest)]
#[doc = include_str!("../datasets/README.md")]
struct DataReadme;

pub use burn;
pub use error::{Error, ErrorKind, Result};
