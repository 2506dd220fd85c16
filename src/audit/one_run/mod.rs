//! Audits of one whole training run with many canaries.

mod bound;

pub use bound::Guesses;
