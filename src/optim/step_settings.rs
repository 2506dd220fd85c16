//! [`StepSettings`]: what one step of an optimizer is given besides network and gradient.

use crate::engine::{CoordinateWeights, Gradients};
use crate::nn::Network;
use crate::{Error, Result};

/// The settings of one step of an [`OptimizerState`](super::OptimizerState).
///
/// ```
/// # use epsilab::optim::StepSettings;
/// let step = StepSettings { momentum: Some(0.95), ..StepSettings::new(0.1) };
/// ```
#[derive(Clone, Copy, Debug)]
pub struct StepSettings<'a> {
    /// The learning rate, at least 0.
    pub learning_rate: f64,
    /// The momentum of this step, in [0, 1), in place of the rule's: the factor of SGD's velocity,
    /// beta1 of Adam. `None` for the rule's own.
    pub momentum: Option<f64>,
    /// Standard deviation of the noise in each coordinate of the gradient, one value per parameter
    /// tensor: that of the noise on the sum, divided by the expected batch size. `None` for a
    /// gradient without noise. Only DP-AdamBC uses it.
    pub noise_std: Option<&'a [f64]>,
    /// The coordinates whose gradient has noise, as zeros and ones; `None` for all.
    pub noise_mask: Option<&'a CoordinateWeights>,
    /// The coordinates that the step may change, as zeros and ones; `None` for all. Parameters and
    /// state keep their bits at the others.
    pub update_mask: Option<&'a CoordinateWeights>,
}

impl StepSettings<'_> {
    /// Creates a step on all coordinates, with the rule's momentum and a gradient without noise.
    pub fn new(learning_rate: f64) -> Self {
        Self { learning_rate, momentum: None, noise_std: None, noise_mask: None, update_mask: None }
    }

    /// Computes the variance of the noise in the coordinates of a tensor.
    pub(super) fn variance(&self, tensor: usize) -> f64 {
        self.noise_std.map_or(0.0, |std| std[tensor] * std[tensor])
    }

    pub(super) fn check(&self, network: &Network, gradient: &Gradients) -> Result<()> {
        check_not_negative("learning_rate", self.learning_rate)?;
        self.momentum.map_or(Ok(()), check_momentum)?;
        for weights in [self.noise_mask, self.update_mask].into_iter().flatten() {
            weights.check(network)?;
        }
        let Some(noise_std) = self.noise_std else { return Ok(()) };
        if noise_std.len() != gradient.entries.len() {
            let why = format!("the gradient has {} tensors", gradient.entries.len());
            let given = format!("{} values", noise_std.len());
            return Err(Error::setting("noise_std", given, why).fix("give one value per tensor"));
        }
        noise_std.iter().try_for_each(|std| check_not_negative("noise_std", *std))
    }
}

pub(super) fn check_momentum(momentum: f64) -> Result<()> {
    if (0.0..1.0).contains(&momentum) {
        Ok(())
    } else {
        Err(Error::setting("momentum", momentum, "the velocity would grow without bound")
            .fix("choose a momentum in [0, 1), usually 0.9"))
    }
}

pub(super) fn check_not_negative(name: &str, value: f64) -> Result<()> {
    if value >= 0.0 && value.is_finite() {
        Ok(())
    } else {
        Err(Error::setting(name, value, "must be finite and at least 0")
            .fix("use 0 to leave it out"))
    }
}
