//! Scaled weight standardisation.

use std::fmt;

use burn::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Scaled weight standardisation of a convolution (Brock et al., 2021, "Characterizing signal
/// propagation to close the performance gap in unnormalized ResNets"; used with differential
/// privacy by De et al., 2022).
///
/// For each output channel, the convolution uses gain · (w - mean) / √guard(variance · fan-in)
/// instead of the raw weight w, with the biased variance over the inputs of the channel. The
/// parameters are the raw weight and the gain. [`VarianceGuard::Unscaled`] leaves out the fan-in.
///
/// # Guarantee
/// Per-example gradients are clipped with respect to the parameters. The gradient with respect to
/// the standardised weight has another norm, so an executor must back-propagate it to the
/// parameters before it computes norms. Backpropagation clipping bounds the gradient with respect
/// to the standardised weight and adds its noise before it back-propagates the sum.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Standardisation {
    /// Whether each output channel has a trainable gain, initially 1.
    pub gain: bool,
    /// The guard against division by 0.
    pub guard: VarianceGuard,
}

/// The guard of a weight standardisation against division by 0, for a scaled variance
/// v = variance · fan-in.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VarianceGuard {
    /// Additive guard: v + e.
    Add(f64),
    /// Lower bound: max(v, e), as in the code of De et al. (2022).
    AtLeast(f64),
    /// v / fan-in + e, i.e. variance + e: weight standardisation without the scale (Qiao et al.,
    /// 2019, "Micro-batch training with batch-channel normalization and weight standardization").
    /// The standardised weights of a channel have variance 1 instead of 1 / fan-in. BiT networks
    /// (Kolesnikov et al., 2020, "Big Transfer") use it.
    Unscaled(f64),
}

impl VarianceGuard {
    /// Returns an equal rule in terms of the scaled variance: another guard, and a constant factor
    /// for the standardised weight. With n for the fan-in, u / √(v / n + e) = √n u / √(v + n e).
    pub(crate) fn scaled(self, fan_in: usize) -> (Self, f64) {
        let n = fan_in as f64;
        match self {
            Self::Unscaled(e) => (Self::Add(n * e), n.sqrt()),
            guard => (guard, 1.0),
        }
    }
}

impl Standardisation {
    /// Creates the form of De et al. (2022): with a gain, and a scaled variance of at least 1e-4.
    pub fn scaled() -> Self {
        Self { gain: true, guard: VarianceGuard::AtLeast(1e-4) }
    }

    /// Creates the form of Qiao et al. (2019), as in BiT networks: without a gain and without the
    /// fan-in, with 1e-8 added to the variance.
    pub fn unscaled() -> Self {
        Self { gain: false, guard: VarianceGuard::Unscaled(1e-8) }
    }

    pub(super) fn check(&self) -> Result<()> {
        let (VarianceGuard::Add(e) | VarianceGuard::AtLeast(e) | VarianceGuard::Unscaled(e)) =
            self.guard;
        if e > 0.0 && e.is_finite() {
            return Ok(());
        }
        let why = "a channel whose weights are all equal would be divided by zero";
        Err(Error::setting("guard", e, why).fix("use a small positive number, such as 1e-4"))
    }

    /// Computes the standardised weight, `[channels out, channels in / groups, height, width]`,
    /// from the raw weight of this shape and the gain `[channels out]`.
    pub(crate) fn apply(&self, raw: Tensor<4>, gain: Option<Tensor<1>>) -> Tensor<4> {
        let shape = raw.dims();
        let (channels, fan_in) = (shape[0], shape[1] * shape[2] * shape[3]);
        let (guard, factor) = self.guard.scaled(fan_in);
        let w = raw.reshape([channels, fan_in]);
        let centred = w.clone() - w.mean_dim(1);
        let v = (centred.clone() * centred.clone()).sum_dim(1);
        let scaled = centred / guarded(v, guard).sqrt();
        let scaled = match gain {
            Some(gain) => scaled * (gain.reshape([channels, 1]) * factor),
            None if factor == 1.0 => scaled,
            None => scaled * factor,
        };
        scaled.reshape(shape)
    }

    /// Computes the vector–Jacobian product: gradients with respect to the raw weight,
    /// `[examples, channels out, fan in]`, and the gain, `[examples, channels out]`, from the
    /// gradient g with respect to the standardised weight, `[examples, channels out, fan in]`.
    ///
    /// With the unit weight û = r u, the VJP maps g to f · gain · r · (g - mean(g) - s (g·û) û) and
    /// f · (g·û). The slope s of the guard is 0 where the variance is clamped to the guard's floor,
    /// else 1. The factor f is 1 unless the guard is [`VarianceGuard::Unscaled`].
    pub(crate) fn vjp(
        &self,
        raw: Tensor<4>,
        gain: Option<Tensor<1>>,
        g: Tensor<3>,
    ) -> (Tensor<3>, Tensor<2>) {
        let [n, channels, _] = g.dims();
        let Unit { unit, scale, slope, factor } = self.unit(raw, gain);
        let unit: Tensor<3> = unit.unsqueeze();
        // Component along the standardised weight, per example and channel.
        let along = (g.clone() * unit.clone()).sum_dim(2);
        let by_gain = along.clone().reshape([n, channels]) * factor;
        let centred = g.clone() - g.mean_dim(2);
        let tangent = centred - along * slope.unsqueeze::<3>() * unit;
        (tangent * scale.unsqueeze::<3>(), by_gain)
    }

    /// Computes the mean squares of the coordinates of [`vjp`](Self::vjp) for
    /// independent standard normal values g: with respect to the raw weight and to the gain, each
    /// `[1]`.
    ///
    /// The map g - mean(g) - s (g·û) û has the eigenvalues 0, 1 - s ‖û‖² and, fan-in - 2 times, 1.
    pub(crate) fn mean_squares(&self, raw: Tensor<4>, gain: Option<Tensor<1>>) -> [Tensor<1>; 2] {
        let [_, inputs, height, width] = raw.dims();
        let fan_in = (inputs * height * width) as f64;
        let Unit { unit, scale, slope, factor } = self.unit(raw, gain);
        let length = (unit.clone() * unit).sum_dim(1);
        let along = length.clone() * slope - 1.0;
        let sum = along.clone() * along + (fan_in - 2.0);
        [(sum * scale.clone() * scale).mean() / fan_in, length.mean() * factor.powi(2)]
    }

    fn unit(&self, raw: Tensor<4>, gain: Option<Tensor<1>>) -> Unit {
        let shape = raw.dims();
        let (channels, fan_in) = (shape[0], shape[1] * shape[2] * shape[3]);
        let (guard, factor) = self.guard.scaled(fan_in);
        let w = raw.reshape([channels, fan_in]);
        let u = w.clone() - w.mean_dim(1);
        let v = (u.clone() * u.clone()).sum_dim(1);
        let slope = match guard {
            VarianceGuard::AtLeast(e) => v.clone().greater_elem(e).float(),
            _ => v.ones_like(),
        };
        let r = guarded(v, guard).sqrt().recip();
        let unit = u * r.clone();
        let scale = match gain {
            Some(gain) => r * gain.reshape([channels, 1]),
            None => r,
        };
        Unit { unit, scale: scale * factor, slope, factor }
    }
}

/// Returns the guarded variance, for a guard that [`VarianceGuard::scaled`] returned.
fn guarded(v: Tensor<2>, guard: VarianceGuard) -> Tensor<2> {
    match guard {
        VarianceGuard::AtLeast(e) => v.clamp_min(e),
        VarianceGuard::Add(e) | VarianceGuard::Unscaled(e) => v + e,
    }
}

/// Standardised weight and the factors of its derivative. With u = w - mean(w), v = Σ u² and r =
/// 1/√guarded(v), the standardised weight is factor · gain · r · u.
struct Unit {
    /// û = r u, `[channels out, fan in]`.
    unit: Tensor<2>,
    /// factor · gain · r, `[channels out, 1]`.
    scale: Tensor<2>,
    /// guarded'(v), `[channels out, 1]`.
    slope: Tensor<2>,
    /// The constant factor of [`VarianceGuard::scaled`].
    factor: f64,
}

impl fmt::Display for Standardisation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.gain { "standardised, with gain" } else { "standardised" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::host::tensor_to_vec;

    fn test_tensor<const D: usize>(shape: [usize; D]) -> Tensor<D> {
        let n: usize = shape.iter().product();
        let values: Vec<f32> =
            (0..n).map(|i| ((i * 7919 + 3) % 1009) as f32 / 500.0 - 1.0).collect();
        Tensor::from_data(TensorData::new(values, shape), &Device::flex())
    }

    const GUARDS: [VarianceGuard; 4] = [
        VarianceGuard::Add(0.1),
        VarianceGuard::AtLeast(1e-4),
        VarianceGuard::AtLeast(1e4),
        VarianceGuard::Unscaled(0.02),
    ];

    #[test]
    fn the_unscaled_form_has_weights_of_mean_0_and_variance_1() {
        let raw = test_tensor([3, 2, 2, 3]);
        for (guard, e) in [(1e-8, 1e-8), (0.3, 0.3f32)] {
            let rule = Standardisation { gain: false, guard: VarianceGuard::Unscaled(guard) };
            let used = tensor_to_vec(rule.apply(raw.clone(), None));
            for (w, used) in tensor_to_vec(raw.clone()).chunks(12).zip(used.chunks(12)) {
                let mean = w.iter().sum::<f32>() / 12.0;
                let variance = w.iter().map(|w| (w - mean).powi(2)).sum::<f32>() / 12.0;
                for (w, used) in w.iter().zip(used) {
                    let want = (w - mean) / (variance + e).sqrt();
                    assert!((used - want).abs() < 1e-5, "{guard}: {used} {want}");
                }
            }
        }
    }

    #[test]
    fn pull_back_agrees_with_autodiff() {
        for guard in GUARDS {
            let rule = Standardisation { gain: true, guard };
            let (raw, gain) = (test_tensor([3, 2, 2, 3]), test_tensor([3]) + 2.0);
            let g = test_tensor([1, 3, 12]) * 0.7 + 0.1;
            let (by_raw, by_gain) = rule.vjp(raw.clone(), Some(gain.clone()), g.clone());
            let (raw, gain) = (raw.autodiff().require_grad(), gain.autodiff().require_grad());
            let used = rule.apply(raw.clone(), Some(gain.clone()));
            let grads = (used * Tensor::from_inner(g.reshape([3, 2, 2, 3]))).sum().backward();
            let pairs = [
                (tensor_to_vec(by_raw), tensor_to_vec(raw.grad(&grads).unwrap())),
                (tensor_to_vec(by_gain), tensor_to_vec(gain.grad(&grads).unwrap())),
            ];
            for (ours, autodiff) in pairs {
                for (a, b) in ours.iter().zip(&autodiff) {
                    assert!((a - b).abs() < 1e-5 * (1.0 + b.abs()), "{guard:?}: {a} {b}");
                }
            }
        }
    }

    #[test]
    fn mean_squares_are_those_of_the_jacobian() {
        for (guard, fan_in) in GUARDS.into_iter().flat_map(|guard| [(guard, 8), (guard, 1)]) {
            let rule = Standardisation { gain: true, guard };
            let (raw, gain) = (test_tensor([3, fan_in, 1, 1]), test_tensor([3]) + 2.0);
            // The columns of the Jacobian: one unit vector per coordinate, all channels at once.
            let units =
                (0..3 * fan_in).flat_map(|i| (0..3 * fan_in).map(move |j| f32::from(i == j)));
            let units: Vec<f32> = units.collect();
            let shape = [3 * fan_in, 3, fan_in];
            let units = Tensor::from_data(TensorData::new(units, shape), &Device::flex());
            let (by_raw, by_gain) = rule.vjp(raw.clone(), Some(gain.clone()), units);
            let square = |all: Vec<f32>| all.iter().map(|v| v * v).sum::<f32>();
            let want = [
                square(tensor_to_vec(by_raw)) / (3 * fan_in) as f32,
                square(tensor_to_vec(by_gain)) / 3.0,
            ];
            let found = rule.mean_squares(raw, Some(gain)).map(|square| tensor_to_vec(square)[0]);
            for (found, want) in found.into_iter().zip(want) {
                assert!((found - want).abs() < 1e-5 * want + 1e-12, "{guard:?}: {found} {want}");
            }
        }
    }
}
