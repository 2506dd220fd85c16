//! Norms of gradients in a cell.

use crate::Result;
use crate::data::Examples;
use crate::engine::GradientNorms;
use crate::nn::Model;

/// Returns the norms of the gradients of single examples before clipping, at the model's
/// parameters. A cell that ends with them shows their histogram; `.with_clip(1.0)` marks a clip
/// norm.
///
/// # Guarantee
/// None: computed from the examples without noise. Do not publish them, and choose no clip norm of
/// a private run by them, unless the examples are public.
///
/// # Errors
/// `MissingData` without examples; `Model` if they do not fit the model.
pub fn gradient_norms(model: &Model, examples: &Examples) -> Result<GradientNorms> {
    GradientNorms::measure(model, examples)
}
