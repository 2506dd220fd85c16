//! Freezing: whole parameter tensors that a run does not train, chosen by their paths.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::engine::{Gradients, Weights};
use crate::nn::{Network, path_matches};
use crate::privacy::digits::counted;
use crate::{Error, ErrorKind, Result};

/// Which parameter tensors a run does not train.
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
pub struct Freezing {
    /// Patterns of frozen parameters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub freeze: Vec<String>,
    /// Patterns of trained parameters; if there are any, all other parameters are frozen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub train_only: Vec<String>,
    /// Number of stages that are frozen, counted from the input: of a residual network its stem and
    /// groups, of another convolutional network what lies before each pooling layer. If all stages
    /// are frozen, only the last linear layer is trained.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub groups: usize,
}

fn is_zero(groups: &usize) -> bool {
    *groups == 0
}

impl Freezing {
    /// Whether nothing is frozen.
    pub fn is_none(&self) -> bool {
        self.freeze.is_empty() && self.train_only.is_empty() && self.groups == 0
    }

    /// Whether each parameter tensor of the network is frozen, in the network's order.
    ///
    /// # Errors
    /// `Setting` if a pattern matches no parameter, if the network has fewer stages than are to be
    /// frozen, or if all parameters are frozen.
    pub fn of(&self, network: &Network) -> Result<Vec<bool>> {
        let paths = network.paths();
        let freeze = self.freeze.iter().map(|pattern| ("freeze", pattern));
        for (setting, pattern) in freeze.chain(self.train_only.iter().map(|p| ("train_only", p))) {
            if !paths.iter().any(|path| path_matches(pattern, path)) {
                return Err(Error::setting(setting, pattern, "no parameter has such a path")
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

    /// The coordinates that are not frozen.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn selection(&self, network: &Network) -> Result<Weights> {
        Self::apply(network, &self.of(network)?, None)
    }

    /// The coordinates of a selection that are not frozen; `None` selects all.
    pub(super) fn apply(
        network: &Network,
        frozen: &[bool],
        selected: Option<&Weights>,
    ) -> Result<Weights> {
        if let Some(selected) = selected {
            return Ok(selected.without(frozen));
        }
        let mut ones = Gradients::zeros_like(network);
        ones.entries.iter_mut().for_each(|entry| entry.values.fill(1.0));
        Ok(Weights::new(network, ones)?.without(frozen))
    }
}

impl fmt::Display for Freezing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if self.groups > 0 {
            parts.push(format!("the first {}", counted(self.groups, "stage")));
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

/// The outermost layers and groups of these paths.
fn layers(paths: &[String]) -> String {
    let mut names: Vec<&str> = paths.iter().filter_map(|path| path.split('.').next()).collect();
    names.dedup();
    names.join(", ")
}
