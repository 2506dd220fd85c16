//! Recipes by name: those of [`methods::recipes`](crate::methods::recipes), and the start from a
//! prior that is drawn by code.

pub use super::drawn_prior::{DrawnPrior, drawn_prior};
pub use crate::methods::recipes::*;
