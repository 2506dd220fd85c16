//! Recipes by name: those of [`methods::recipes`](crate::methods::recipes), and the start from a
//! prior that is drawn by code.
//!
//! ```
//! use epsilab::prelude::*;
//! let recipe = recipes::imagenet_dp();
//! assert_eq!(recipe.examples(), 1_281_167);
//! let plan = recipe.plan()?; // at the scale of the paper, without its data
//! assert_eq!((plan.expected_batch_size(), plan.steps()), (65_536, 1_369));
//! # Ok::<(), Error>(())
//! ```

pub use super::drawn_prior::{DrawnPrior, drawn_prior};
pub use crate::methods::recipes::*;
