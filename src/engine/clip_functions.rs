//! The rules by which gradients are rescaled.

use burn::prelude::*;

use super::bound::ClipFunction;

/// Built-in rule that rescales a gradient of norm n; all but [`Scale`](ClipFactor::Scale) and
/// [`Bounded`](ClipFactor::Bounded) to a norm of at most C.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BuiltinClipFunction {
    /// C, the largest norm of a gradient after rescaling.
    pub(super) max_grad_norm: f64,
    pub(super) form: ClipFactor,
}

/// Factor of a rule. Each γ is a small positive number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ClipFactor {
    /// Clipping: the factor min(1, C/n) (Abadi et al., 2016, algorithm 1).
    Clip,
    /// Automatic clipping, AUTO-S: the factor C/(n + γ) (Bu et al., 2023, arXiv:2206.07136).
    /// Gradients much shorter than γ stay short.
    AutoS { gamma: f64 },
    /// Normalisation: the factor C/max(n, γ). Gradients that are longer than γ have norm C; shorter
    /// ones are multiplied by C/γ.
    Normalise { gamma: f64 },
    /// Scaling: the same factor for every gradient. It bounds nothing: C is infinite.
    Scale { factor: f64 },
    /// Factor 1: the gradient is bounded where it is computed, by [backpropagation
    /// clipping](crate::nn::LayerClips).
    Bounded,
}

impl ClipFunction for BuiltinClipFunction {
    fn factor(&self, norm: f32) -> f32 {
        let (norm, max_grad_norm) = (f64::from(norm), self.max_grad_norm);
        let factor = match self.form {
            ClipFactor::Clip if norm > max_grad_norm => max_grad_norm / norm,
            ClipFactor::Clip | ClipFactor::Bounded => 1.0,
            ClipFactor::AutoS { gamma } => max_grad_norm / (norm + gamma),
            ClipFactor::Normalise { gamma } => max_grad_norm / norm.max(gamma),
            ClipFactor::Scale { factor } => factor,
        } as f32;
        // Rounding a subnormal factor could double it.
        if factor < f32::MIN_POSITIVE { 0.0 } else { factor }
    }

    /// Returns the factors for several norms; all are zero if the bound is below the smallest
    /// normal f32, because a GPU may flush such a bound to zero.
    fn factors(&self, norms: Tensor<1>) -> Tensor<1> {
        // No finite f32 norm exceeds a bound that rounds to infinity.
        let bound = self.max_grad_norm as f32;
        if bound < f32::MIN_POSITIVE {
            return norms.zeros_like();
        }
        let factors = match self.form {
            ClipFactor::Scale { factor } => return norms.full_like(factor as f32),
            ClipFactor::Bounded => return norms.ones_like(),
            ClipFactor::Clip if bound == f32::INFINITY => return norms.ones_like(),
            ClipFactor::Clip => {
                let longer = norms.clone().greater_elem(bound);
                norms.ones_like().mask_where(longer, norms.full_like(bound) / norms)
            }
            ClipFactor::AutoS { gamma } => norms.full_like(bound) / (norms + gamma as f32),
            ClipFactor::Normalise { gamma } => {
                norms.full_like(bound) / norms.clamp_min(gamma as f32)
            }
        };
        let tiny = factors.clone().lower_elem(f32::MIN_POSITIVE);
        factors.mask_fill(tiny, 0.0)
    }

    fn sensitivity(&self) -> f64 {
        self.max_grad_norm
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::host::tensor_to_vec;

    fn rules(max_grad_norm: f64) -> [BuiltinClipFunction; 3] {
        let forms = [
            ClipFactor::Clip,
            ClipFactor::AutoS { gamma: 0.01 },
            ClipFactor::Normalise { gamma: 0.01 },
        ];
        forms.map(|form| BuiltinClipFunction { max_grad_norm, form })
    }

    /// Returns norms around 0.1, where clipping at 0.1 starts, and over the range of f32.
    fn norms() -> Vec<f32> {
        let around = (0..200).map(|i| 0.09 + 0.001 * i as f32);
        let all = around.chain((-40..39).map(|exponent| 10f32.powi(exponent)));
        all.chain([0.0, f32::MAX]).collect()
    }

    #[test]
    fn a_rescaled_gradient_is_never_longer_than_the_bound() {
        for bound in [0.1, 2.4e-7, 3.0] {
            for rule in rules(bound) {
                let longest = norms().into_iter().map(|n| f64::from(n) * f64::from(rule.factor(n)));
                let longest = longest.fold(0.0, f64::max);
                assert!(longest <= rule.sensitivity() * (1.0 + 1e-6), "{rule:?}: {longest}");
                assert!(longest > 0.9 * rule.sensitivity(), "{rule:?} has a loose bound");
            }
        }
    }

    #[test]
    fn factors_of_single_norms() {
        let [clip, auto_s, normalise] = rules(0.1);
        assert_eq!([0.0, 0.05, 0.2].map(|norm| clip.factor(norm)), [1.0, 1.0, 0.5]);
        assert_eq!([0.0, 0.03].map(|norm| auto_s.factor(norm)), [10.0, 2.5]);
        assert_eq!([0.0, 0.01, 0.2].map(|norm| normalise.factor(norm)), [10.0, 10.0, 0.5]);
    }

    #[test]
    fn factors_agrees_with_factor() {
        let norms: Vec<f32> = norms().into_iter().filter(|n| *n == 0.0 || *n >= 1e-37).collect();
        for bound in [0.1, 2.4e-7, 1e-37, 1.0, 1e30, 1e39, f64::INFINITY] {
            // Only clipping accepts bounds beyond f32.
            let rules = rules(bound).into_iter().take(if bound > 1e30 { 1 } else { 3 });
            for rule in rules {
                let tensor = Tensor::from_data(norms.as_slice(), &Device::flex());
                for (factor, &norm) in tensor_to_vec(rule.factors(tensor)).iter().zip(&norms) {
                    let single = rule.factor(norm);
                    let close = (factor - single).abs() <= 3e-7 * single;
                    assert!(close || *factor == single, "{rule:?} {norm}: {factor} {single}");
                    let length = f64::from(*factor) * f64::from(norm);
                    assert!(length <= bound * (1.0 + 4e-7) || norm == 0.0, "{rule:?} {norm}");
                }
            }
        }
        // On a GPU, a bound below the normal f32 range gives zero factors.
        for rule in rules(1e-39) {
            let tensor = Tensor::from_data([1e-3, 0.0], &Device::flex());
            assert_eq!(tensor_to_vec(rule.factors(tensor)), [0.0, 0.0]);
        }
    }
}
