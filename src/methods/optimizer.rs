//! The optimizers of plans. All are post-processing of the released gradient.

use burn::optim::{AdamConfig, ModuleOptimizer, SgdConfig, momentum::MomentumConfig};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The update rule applied to the released gradient.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Optimizer {
    /// `v <- momentum * v + g; theta <- theta - learning_rate * v`, without dampening.
    Sgd {
        /// Momentum factor, 0 for plain gradient descent.
        momentum: f64,
    },
    /// Adam with beta = (0.9, 0.999) and epsilon = 1e-8 (Kingma and Ba, 2015).
    Adam,
}

impl Default for Optimizer {
    fn default() -> Self {
        Self::Sgd { momentum: 0.9 }
    }
}

impl Optimizer {
    /// Burn's optimizer of this rule, with fresh state, for [`engine::step`](crate::engine::step).
    pub fn init(self) -> ModuleOptimizer {
        match self {
            // Burn's default dampening is 0.1; the usual definition has none.
            Self::Sgd { momentum } if momentum > 0.0 => SgdConfig::new()
                .with_momentum(Some(
                    MomentumConfig::new().with_momentum(momentum).with_dampening(0.0),
                ))
                .init(),
            Self::Sgd { .. } => SgdConfig::new().init(),
            // Burn's default epsilon of 1e-5 would dampen the small steps of private training.
            Self::Adam => AdamConfig::new().with_epsilon(1e-8).init(),
        }
    }
}

impl fmt::Display for Optimizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sgd { momentum } if *momentum > 0.0 => write!(f, "SGD, momentum {momentum}"),
            Self::Sgd { .. } => write!(f, "SGD"),
            Self::Adam => write!(f, "Adam"),
        }
    }
}
