//! Quality of a model's classification: confusion matrix, accuracy of each class, single
//! predictions.
//!
//! The values are plain data. [`Run`](crate::train::Run) and [`Model`](crate::nn::Model) make them
//! from the test part of a data set, and state what they reveal.

mod class_accuracy;
mod confusion;
mod predictions;

pub use class_accuracy::{ClassAccuracy, ClassCount, class_accuracy};
pub use confusion::{ConfusionMatrix, confusion_matrix};
pub use predictions::{Prediction, Predictions, predictions};

/// Returns the note of a figure that draws at most `limit` of `total` classes; empty if it draws
/// all.
fn left_out(limit: usize, total: usize) -> String {
    if total <= limit {
        return String::new();
    }
    format!("The {limit} of {total} classes with the lowest accuracy.")
}

/// Returns the end of a title that names the data, such as `, MNIST`; empty without a name.
fn name_suffix(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!(", {name}") }
}
