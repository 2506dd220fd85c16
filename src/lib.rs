//! Epsilab: private, sparse learning in a notebook.
//!
//! The rooms of the house, from the top (what a cell sees) to the bottom (pure mathematics).
//! Arrows between them only point downwards.
#![warn(missing_docs)]

pub mod lab;
pub mod prelude;
pub mod show;
pub mod train;
pub mod methods;
pub mod engine;
pub mod nn;
pub mod data;
pub mod privacy;
mod error;

pub use burn;
pub use error::{Error, ErrorKind, Result};
