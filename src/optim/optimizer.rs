//! [`Optimizer`]: the update rule of a plan.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::OptimizerState;
use super::step_settings::check_momentum;
use crate::{Error, Result};

/// The update rule applied to the released gradient g, with PyTorch's definitions. Every rule is
/// post-processing, so it costs no privacy.
///
/// From text: `sgd`, `nesterov`, `adam`, `adamw`, `dp-adam-bc`; the first two take a momentum
/// (`sgd:0` for plain gradient descent), 0.9 by default.
///
/// ```
/// use epsilab::prelude::*;
/// let adamw: Optimizer = "adamw".parse()?;
/// assert_eq!(adamw, Optimizer::adamw());
/// assert_eq!(adamw.default_weight_decay(), 0.01);
/// let nesterov = Optimizer::Nesterov { momentum: 0.9 };
/// let method = DpSgd::new().noise_multiplier(1.0).optimizer(nesterov).learning_rate(4.0);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "SerializedOptimizer", into = "SerializedOptimizer")]
#[non_exhaustive]
pub enum Optimizer {
    /// `v <- momentum * v + g; theta <- theta - learning_rate * v`, without dampening.
    Sgd {
        /// Momentum factor, 0 for plain gradient descent.
        momentum: f64,
    },
    /// `v <- momentum * v + g; theta <- theta - learning_rate * (g + momentum * v)`.
    Nesterov {
        /// Momentum factor, above 0.
        momentum: f64,
    },
    /// Adam (Kingma and Ba, 2015).
    Adam(AdamParams),
    /// Adam with decoupled weight decay, 0.01 unless it is set (Loshchilov and Hutter, 2019).
    AdamW(AdamParams),
    /// Adam that takes the variance phi of the noise out of the second moment:
    /// `theta <- theta - learning_rate * m / sqrt(max(v - phi, epsilon^2))` (DP-AdamBC: Tang,
    /// Shpilevskiy and Lécuyer, 2024). Coordinates without noise have phi = 0.
    DpAdamBc(AdamParams),
}

/// Averaging factors and epsilon of the Adam family.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdamParams {
    /// Factor of the average of gradients, in [0, 1).
    pub beta1: f64,
    /// Factor of the average of squared gradients, in [0, 1).
    pub beta2: f64,
    /// Number added to the root of the second moment; in DP-AdamBC the smallest value of this
    /// root.
    pub epsilon: f64,
}

impl AdamParams {
    /// Constants of Adam and AdamW: beta = (0.9, 0.999) and epsilon = 1e-8.
    pub const ADAM: Self = Self { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 };
    /// Constants of DP-AdamBC: epsilon = 2e-4. What remains of the second moment without its noise
    /// can be near zero or negative, so epsilon bounds the length of steps.
    pub const DP_ADAM_BC: Self = Self { epsilon: 2e-4, ..Self::ADAM };
}

impl Default for Optimizer {
    fn default() -> Self {
        Self::Sgd { momentum: 0.9 }
    }
}

impl Optimizer {
    /// Creates Adam with its usual constants.
    pub const fn adam() -> Self {
        Self::Adam(AdamParams::ADAM)
    }

    /// Creates AdamW with its usual constants.
    pub const fn adamw() -> Self {
        Self::AdamW(AdamParams::ADAM)
    }

    /// Creates DP-AdamBC with its usual constants.
    pub const fn dp_adam_bc() -> Self {
        Self::DpAdamBc(AdamParams::DP_ADAM_BC)
    }

    /// Creates an optimizer of this rule with fresh state, for a training loop of your own.
    pub fn init(self) -> OptimizerState {
        OptimizerState::new(self)
    }

    /// Returns whether the length of a step does not depend on that of the gradient, as in the
    /// Adam family.
    pub(crate) fn is_adaptive(self) -> bool {
        matches!(self, Self::Adam(_) | Self::AdamW(_) | Self::DpAdamBc(_))
    }

    /// Returns the decoupled weight decay unless it is set: 0.01 for AdamW, as in PyTorch,
    /// otherwise 0.
    pub fn default_weight_decay(self) -> f64 {
        match self {
            Self::AdamW(_) => 0.01,
            _ => 0.0,
        }
    }

    /// Checks the rule's constants.
    ///
    /// # Errors
    /// `Setting` for a momentum or beta outside [0, 1), Nesterov momentum of 0, or an epsilon that
    /// is not positive.
    pub fn check(self) -> Result<()> {
        match self {
            Self::Sgd { momentum } => check_momentum(momentum),
            Self::Nesterov { momentum: 0.0 } => {
                Err(Error::setting("momentum", 0, "Nesterov momentum needs a value above 0")
                    .fix("choose a momentum above 0, usually 0.9, or Optimizer::Sgd"))
            }
            Self::Nesterov { momentum } => check_momentum(momentum),
            Self::Adam(moments) | Self::AdamW(moments) | Self::DpAdamBc(moments) => moments.check(),
        }
    }
}

impl AdamParams {
    fn check(self) -> Result<()> {
        for (name, beta) in [("beta1", self.beta1), ("beta2", self.beta2)] {
            if !(0.0..1.0).contains(&beta) {
                return Err(Error::setting(name, beta, "a decay must be at least 0 and below 1")
                    .fix("the usual values are beta1 = 0.9 and beta2 = 0.999"));
            }
        }
        if self.epsilon > 0.0 && self.epsilon.is_finite() {
            return Ok(());
        }
        let why = "epsilon keeps the step finite where the second moment is zero, so it must be \
                   positive";
        Err(Error::setting("epsilon", self.epsilon, why).fix("the usual value is 1e-8"))
    }
}

/// For reading: plain descent is SGD, and constants appear where they are not the usual ones.
impl fmt::Display for Optimizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, moments, usual) = match *self {
            Self::Sgd { momentum } if momentum > 0.0 => {
                return write!(f, "SGD, momentum {momentum}");
            }
            Self::Sgd { .. } => return write!(f, "SGD"),
            Self::Nesterov { momentum } => return write!(f, "SGD, Nesterov momentum {momentum}"),
            Self::Adam(moments) => ("Adam", moments, AdamParams::ADAM),
            Self::AdamW(moments) => ("AdamW", moments, AdamParams::ADAM),
            Self::DpAdamBc(moments) => ("DP-AdamBC", moments, AdamParams::DP_ADAM_BC),
        };
        let AdamParams { beta1, beta2, epsilon } = moments;
        if moments == usual {
            write!(f, "{name}")
        } else {
            write!(f, "{name}, beta ({beta1}, {beta2}), epsilon {epsilon:e}")
        }
    }
}

impl FromStr for Optimizer {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let unknown = || {
            Error::setting("optimizer", text, "not an optimizer")
                .fix("use sgd, sgd:0, nesterov, nesterov:0.9, adam, adamw or dp-adam-bc")
        };
        let (name, momentum) = match text.trim().split_once(':') {
            None => (text.trim(), None),
            Some((name, momentum)) => {
                (name, Some(momentum.trim().parse::<f64>().map_err(|_| unknown())?))
            }
        };
        let optimizer = match (name, momentum) {
            ("sgd", _) => Self::Sgd { momentum: momentum.unwrap_or(0.9) },
            ("nesterov", _) => Self::Nesterov { momentum: momentum.unwrap_or(0.9) },
            ("adam", None) => Self::adam(),
            ("adamw", None) => Self::adamw(),
            ("dp-adam-bc", None) => Self::dp_adam_bc(),
            _ => return Err(unknown()),
        };
        optimizer.check().map(|()| optimizer)
    }
}

/// The serialised form: a name alone for usual constants, `"adam"`.
#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "an optimizer: sgd, nesterov, adam, adamw or dp_adam_bc")]
enum SerializedOptimizer {
    Usual(Usual),
    Given(SerializedRule),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Usual {
    Adam,
    #[serde(rename = "adamw")]
    AdamW,
    DpAdamBc,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SerializedRule {
    Sgd {
        momentum: f64,
    },
    Nesterov {
        momentum: f64,
    },
    Adam(AdamParams),
    #[serde(rename = "adamw")]
    AdamW(AdamParams),
    DpAdamBc(AdamParams),
}

impl From<Optimizer> for SerializedOptimizer {
    fn from(optimizer: Optimizer) -> Self {
        match optimizer {
            Optimizer::Adam(AdamParams::ADAM) => Self::Usual(Usual::Adam),
            Optimizer::AdamW(AdamParams::ADAM) => Self::Usual(Usual::AdamW),
            Optimizer::DpAdamBc(AdamParams::DP_ADAM_BC) => Self::Usual(Usual::DpAdamBc),
            Optimizer::Sgd { momentum } => Self::Given(SerializedRule::Sgd { momentum }),
            Optimizer::Nesterov { momentum } => Self::Given(SerializedRule::Nesterov { momentum }),
            Optimizer::Adam(moments) => Self::Given(SerializedRule::Adam(moments)),
            Optimizer::AdamW(moments) => Self::Given(SerializedRule::AdamW(moments)),
            Optimizer::DpAdamBc(moments) => Self::Given(SerializedRule::DpAdamBc(moments)),
        }
    }
}

impl From<SerializedOptimizer> for Optimizer {
    fn from(serialized: SerializedOptimizer) -> Self {
        match serialized {
            SerializedOptimizer::Usual(Usual::Adam) => Self::adam(),
            SerializedOptimizer::Usual(Usual::AdamW) => Self::adamw(),
            SerializedOptimizer::Usual(Usual::DpAdamBc) => Self::dp_adam_bc(),
            SerializedOptimizer::Given(SerializedRule::Sgd { momentum }) => Self::Sgd { momentum },
            SerializedOptimizer::Given(SerializedRule::Nesterov { momentum }) => {
                Self::Nesterov { momentum }
            }
            SerializedOptimizer::Given(SerializedRule::Adam(moments)) => Self::Adam(moments),
            SerializedOptimizer::Given(SerializedRule::AdamW(moments)) => Self::AdamW(moments),
            SerializedOptimizer::Given(SerializedRule::DpAdamBc(moments)) => {
                Self::DpAdamBc(moments)
            }
        }
    }
}
