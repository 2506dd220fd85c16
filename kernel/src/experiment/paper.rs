//! Results of a paper for a case, shown beside our results.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Results that a paper prints for a case, with the number of examples and the Rényi orders behind
/// them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperResults {
    /// Number of training examples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub examples: Option<usize>,
    /// Rényi orders of the paper's accountant, as `epsilon --orders` takes them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orders: Option<String>,
    /// Test accuracy in percent; if the paper searches over cases, that of the best one.
    #[serde(rename = "accuracy %", skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Epsilon by the paper's accountant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epsilon: Option<f64>,
    /// Training time per epoch in seconds.
    #[serde(rename = "s per epoch", skip_serializing_if = "Option::is_none")]
    pub seconds_per_epoch: Option<f64>,
}

impl PaperResults {
    /// Reads the value of the key `paper`.
    ///
    /// # Errors
    /// A text for a value that is none.
    pub fn from_json(value: Value) -> Result<Self, String> {
        let paper: Self = serde_json::from_value(value).map_err(|e| format!("`paper`: {e}"))?;
        let numbers = [paper.accuracy, paper.epsilon, paper.seconds_per_epoch];
        match numbers.into_iter().flatten().find(|number| *number < 0.0) {
            Some(number) => Err(format!("`paper`: {number} is below 0")),
            None => Ok(paper),
        }
    }

    /// Fills missing values from `all`.
    pub fn merged_with(self, all: &Self) -> Self {
        Self {
            examples: self.examples.or(all.examples),
            orders: self.orders.or_else(|| all.orders.clone()),
            accuracy: self.accuracy.or(all.accuracy),
            epsilon: self.epsilon.or(all.epsilon),
            seconds_per_epoch: self.seconds_per_epoch.or(all.seconds_per_epoch),
        }
    }

    /// Returns a copy without the results; the number of examples and the orders stay.
    pub fn without_results(&self) -> Self {
        Self { examples: self.examples, orders: self.orders.clone(), ..Self::default() }
    }

    /// Returns whether there is a result.
    pub fn has_results(&self) -> bool {
        *self != self.without_results()
    }

    /// Returns the values that are comparable with a run on `examples` training examples: without
    /// the results if the paper has another number of examples.
    pub fn on(&self, examples: usize) -> Self {
        match self.examples {
            Some(of_paper) if of_paper != examples => self.without_results(),
            _ => self.clone(),
        }
    }
}

/// Formats a number as a paper prints it.
pub fn format_as_printed(number: f64) -> String {
    match number {
        large if large >= 1e3 => format!("{large:e}"),
        number => number.to_string(),
    }
}
