//! Freezing: whole parameter tensors that a run does not train, chosen by their paths.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::engine::{CoordinateWeights, Gradients};
use crate::nn::{Network, path_matches};
use crate::privacy::digits::pluralise;
use crate::{Error, ErrorKind, Result};

/// Configuration of freezing: the parameter tensors that a run does not train.
///
/// A pattern is the path of a parameter (`"head.1.weight"`), the path of a layer or group that
/// contains it (`"head"`, `"group1.0"`), or either with wildcards: `*` stands for any characters,
/// also dots (`"*.bias"`, `"group*.body"`).
///
/// # Guarantee
/// The choice is public: it depends on names only. Frozen tensors are in neither norm, sum, noise
/// nor update, so each step is a Gaussian mechanism of the same sensitivity on the others, and the
/// accounting does not change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FreezeConfig {
    /// Patterns of frozen parameters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub freeze: Vec<String>,
    /// Patterns of trained parameters; if there are any, all other parameters are frozen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub train_only: Vec<String>,
    /// Number of stages that are frozen, counted from the input: the stem and groups of a residual
    /// network, the layers before each pooling layer of another convolutional network. If all
    /// stages are frozen, only the last linear layer is trained.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub groups: usize,
}

fn is_zero(groups: &usize) -> bool {
    *groups == 0
}

impl FreezeConfig {
    /// Returns whether nothing is frozen.
    pub fn is_empty(&self) -> bool {
        self.freeze.is_empty() && self.train_only.is_empty() && self.groups == 0
    }

    /// Returns for each parameter tensor of the network whether it is frozen, in the network's
    /// order.
    ///
    /// # Errors
    /// `Setting` if a pattern matches no parameter, if the network has fewer stages than are to be
    /// frozen, or if all parameters are frozen.
    pub fn frozen_flags(&self, network: &Network) -> Result<Vec<bool>> {
        let paths = network.paths();
        let freeze = self.freeze.iter().map(|pattern| ("freeze", pattern));
        for (setting, pattern) in freeze.chain(self.train_only.iter().map(|p| ("train_only", p))) {
            if !paths.iter().any(|path| path_matches(pattern, path)) {
                return Err(Error::setting(setting, pattern, "no parameter has this path")
                    .fix(format!("the layers and groups are {}", layers(&paths))));
            }
        }
        let any = |patterns: &[String], path: &str| patterns.iter().any(|p| path_matches(p, path));
        let is_frozen = |path: &String| {
            any(&self.freeze, path) || !self.train_only.is_empty() && !any(&self.train_only, path)
        };
        let stages = network.frozen_stages(self.groups)?;
        let each = paths.iter().zip(stages);
        let frozen: Vec<bool> = each.map(|(path, stage)| stage || is_frozen(path)).collect();
        if frozen.iter().all(|&frozen| frozen) {
            let why = "all parameters are frozen, so there is nothing to train";
            return Err(Error::new(ErrorKind::Setting, self.to_string(), why)
                .fix(format!("train at least one of {}", layers(&paths))));
        }
        Ok(frozen)
    }

    /// Returns the coordinates that are not frozen.
    ///
    /// # Errors
    /// `Setting` if a pattern matches no parameter, if the network has fewer stages than are to be
    /// frozen, or if all parameters are frozen.
    pub fn trainable_weights(&self, network: &Network) -> Result<CoordinateWeights> {
        Self::without_frozen(network, &self.frozen_flags(network)?, None)
    }

    /// Returns the coordinates of a selection that are not frozen; `None` selects all.
    pub(super) fn without_frozen(
        network: &Network,
        frozen: &[bool],
        selected: Option<&CoordinateWeights>,
    ) -> Result<CoordinateWeights> {
        if let Some(selected) = selected {
            return Ok(selected.with_zeroed_tensors(frozen));
        }
        let mut ones = Gradients::zeros_like(network);
        ones.entries.iter_mut().for_each(|entry| entry.values.fill(1.0));
        Ok(CoordinateWeights::new(network, ones)?.with_zeroed_tensors(frozen))
    }
}

impl fmt::Display for FreezeConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if self.groups > 0 {
            parts.push(format!("the first {}", pluralise(self.groups, "stage")));
        }
        if !self.train_only.is_empty() {
            parts.push(format!("all but {}", self.train_only.join(", ")));
        }
        if !self.freeze.is_empty() {
            parts.push(self.freeze.join(", "));
        }
        if parts.is_empty() {
            f.write_str("nothing is frozen")
        } else {
            write!(f, "frozen: {}", parts.join(", and "))
        }
    }
}

/// Returns the outermost layers and groups of these paths.
fn layers(paths: &[String]) -> String {
    let mut names: Vec<&str> = paths.iter().filter_map(|path| path.split('.').next()).collect();
    names.dedup();
    names.join(", ")
}
