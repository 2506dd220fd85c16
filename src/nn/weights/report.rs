//! Report of the tensors that were read from a file of weights, and of those that were not.

use std::fmt;

use crate::privacy::digits::{format_count, pluralise};

/// Report of [`Model::load_weights`](crate::nn::Model::load_weights) on each tensor of the file
/// and each parameter of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightReport {
    /// Description of the model, the file, its format and its layout.
    pub(super) heading: String,
    pub(super) matched: Vec<MatchedTensor>,
    pub(super) left: Vec<UnmatchedTensor>,
    pub(super) kept: Vec<UnmatchedTensor>,
    /// Number of BatchNorm layers that were folded into convolutions.
    pub(super) folded: usize,
    pub(super) skipped: Vec<String>,
}

/// A parameter of the model with the values of a tensor of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchedTensor {
    /// Path of the parameter.
    pub path: String,
    /// Name of the tensor.
    pub name: String,
    /// Shape of the tensor.
    pub shape: Vec<usize>,
    /// Type of the tensor's values, such as `float16`. Values of `float64` are rounded to f32.
    pub dtype: String,
}

/// A tensor that stayed in the file, or a parameter that kept its initial values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnmatchedTensor {
    /// Name of the tensor, or path of the parameter.
    pub name: String,
    /// Shape of the tensor or parameter.
    pub shape: Vec<usize>,
    /// Reason why the tensor or parameter has no counterpart.
    pub cause: String,
}

/// Largest number of tensors that are named for each reason.
const SHOWN: usize = 4;

impl WeightReport {
    /// Returns the parameters with values from the file, in the order of the model.
    pub fn matched(&self) -> &[MatchedTensor] {
        &self.matched
    }

    /// Returns the tensors that stayed in the file, by name.
    pub fn left_in_file(&self) -> &[UnmatchedTensor] {
        &self.left
    }

    /// Returns the parameters that kept their initial values, in the order of the model.
    pub fn kept_initial(&self) -> &[UnmatchedTensor] {
        &self.kept
    }

    /// Returns the number of BatchNorm layers that were folded into the convolutions before them,
    /// with the statistics of the file.
    pub fn folded_batch_norms(&self) -> usize {
        self.folded
    }

    /// Returns the Python types of the values beside the tensors, such as `argparse.Namespace`.
    /// They were skipped, and none of them was run.
    pub fn skipped_values(&self) -> &[String] {
        &self.skipped
    }
}

impl fmt::Display for WeightReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = |shape: &[usize]| shape.iter().product::<usize>();
        let values: usize = self.matched.iter().map(|matched| size(&matched.shape)).sum();
        writeln!(f, "{}", self.heading)?;
        let tensors = pluralise(self.matched.len(), "tensor");
        write!(f, "  read: {tensors} with {}", pluralise(values, "value"))?;
        for number in ["float16", "bfloat16", "float64"] {
            let others = self.matched.iter().filter(|matched| matched.dtype == number).count();
            if others > 0 {
                write!(f, "; {} of {number}, converted to float32", format_count(others))?;
            }
        }
        unmatched(f, "left in the file", &self.left)?;
        unmatched(f, "kept initial", &self.kept)?;
        if self.folded > 0 {
            let layers = pluralise(self.folded, "BatchNorm layer");
            write!(
                f,
                "\n  folded: {layers} into convolutions, whose weights and biases are trained; the \
                 running statistics of the file stay fixed"
            )?;
        }
        if self.skipped.is_empty() {
            return Ok(());
        }
        write!(f, "\n  skipped, none of them was run: {}", self.skipped.join(", "))
    }
}

/// Writes a line per reason.
fn unmatched(f: &mut fmt::Formatter<'_>, heading: &str, all: &[UnmatchedTensor]) -> fmt::Result {
    if all.is_empty() {
        return write!(f, "\n  {heading}: nothing");
    }
    let mut reasons: Vec<&str> = Vec::new();
    for UnmatchedTensor { cause: why, .. } in all {
        if !reasons.contains(&why.as_str()) {
            reasons.push(why);
        }
    }
    for reason in reasons {
        let of_reason: Vec<_> = all.iter().filter(|one| one.cause == reason).collect();
        let shown = of_reason.iter().take(SHOWN).map(|one| format!("{} {:?}", one.name, one.shape));
        let shown = shown.collect::<Vec<_>>().join(", ");
        let more = of_reason.len().saturating_sub(SHOWN);
        let more =
            if more > 0 { format!(" and {} more", format_count(more)) } else { String::new() };
        write!(f, "\n  {heading}, {reason}: {shown}{more}")?;
    }
    Ok(())
}
