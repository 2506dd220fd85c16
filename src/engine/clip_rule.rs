//! The clip rules of plans, and the sensitivity that follows from them.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::backprop_clip_groups;
use super::bound::{Bound, ClipFunction, ClipGroups, l2_norm, sensitivity};
use super::clip_functions::{BuiltinClipFunction, ClipFactor};
use crate::nn::{LayerClips, Network};
use crate::privacy::NeighbouringRelation;
use crate::{Error, Result};

/// Smallest accepted bound. The elements of a gradient of 1e8 parameters with this norm are about
/// 1e-34, well above the smallest normal f32 (1.2e-38), below which rounding could exceed the
/// bound.
const MIN_MAX_GRAD_NORM: f64 = 1e-30;
/// γ of [`ClipRule::auto_s`] and [`ClipRule::normalised`], as in Bu et al. (2023).
const DEFAULT_GAMMA: f64 = 0.01;
/// Accepted values of γ: an f32 norm plus or at least γ is a normal number.
const GAMMA_RANGE: std::ops::RangeInclusive<f64> = 1e-12..=1e12;

/// Rule by which each example's gradient is rescaled before it is added: the bound of a plan, as
/// plain data. The rule also determines the sensitivity of the sum and the standard deviation of
/// the noise.
///
/// ```
/// use epsilab::prelude::*;
/// let rule = ClipRule::flat(0.5);
/// assert_eq!(rule.sensitivity(NeighbouringRelation::AddOrRemoveOne), 0.5);
/// assert_eq!(rule.sensitivity(NeighbouringRelation::ReplaceOne), 1.0);
/// assert_eq!(rule.noise_std(2.0), 1.0); // for noise multiplier 2
/// let method = DpSgd::new().noise_multiplier(2.0).clip_rule(ClipRule::auto_s(0.5));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ClipRule {
    /// Flat clipping: scales gradients with an L2 norm above `max_grad_norm` down to it, over all
    /// parameters jointly (Abadi et al., 2016, algorithm 1).
    Flat {
        /// C, the largest L2 norm of one example's contribution.
        max_grad_norm: f64,
    },
    /// Automatic clipping: g · C/(‖g‖ + γ), over all parameters jointly (Bu et al., 2023,
    /// AUTO-S). With Adam, C has no effect on the steps; with SGD it only scales the learning rate.
    AutoS {
        /// C, an upper bound on the L2 norm of one example's contribution.
        max_grad_norm: f64,
        /// γ, which keeps the factor of a short gradient finite.
        gamma: f64,
    },
    /// Normalisation: g · C/max(‖g‖, γ), over all parameters jointly.
    Normalised {
        /// C, the L2 norm of the contribution of a gradient that is not shorter than γ; others are
        /// shorter.
        max_grad_norm: f64,
        /// γ; shorter gradients are multiplied by C/γ.
        gamma: f64,
    },
    /// Per-layer clipping with an equal split: each of L layers at C/√L, so that the whole
    /// contribution has norm C at most (McMahan et al., 2018).
    PerLayer {
        /// C, the largest L2 norm of one example's contribution over all layers.
        max_grad_norm: f64,
    },
    /// Scaling of every gradient by the same factor: no bound, so no guarantee. DP-SGD refuses it.
    Unbounded {
        /// Factor on every gradient.
        scale: f64,
    },
    /// Backpropagation clipping: the input and the upstream gradient of each layer are clipped
    /// instead of its gradient (Stevens et al., 2022). Only for networks whose layers have these
    /// clips: [`Network::with_backprop_clips`].
    Backprop(LayerClips),
    /// Per-layer clipping with given bounds.
    PerLayerGiven {
        /// Cₗ, the largest L2 norm of one example's contribution to each layer with parameters.
        max_grad_norms: Vec<f64>,
    },
}

impl ClipRule {
    /// Creates a rule for flat clipping at `max_grad_norm`.
    pub fn flat(max_grad_norm: f64) -> Self {
        Self::Flat { max_grad_norm }
    }

    /// Creates a rule for automatic clipping to `max_grad_norm`, with γ = 0.01.
    pub fn auto_s(max_grad_norm: f64) -> Self {
        Self::AutoS { max_grad_norm, gamma: DEFAULT_GAMMA }
    }

    /// Creates a rule for normalisation to `max_grad_norm`, with γ = 0.01.
    pub fn normalised(max_grad_norm: f64) -> Self {
        Self::Normalised { max_grad_norm, gamma: DEFAULT_GAMMA }
    }

    /// Creates a rule for per-layer clipping with an equal split of `max_grad_norm`.
    pub fn per_layer(max_grad_norm: f64) -> Self {
        Self::PerLayer { max_grad_norm }
    }

    /// Creates a rule for per-layer clipping with one bound per layer with parameters.
    pub fn per_layer_given(max_grad_norms: impl Into<Vec<f64>>) -> Self {
        Self::PerLayerGiven { max_grad_norms: max_grad_norms.into() }
    }

    /// Creates a rule without clipping, for training without privacy. The sensitivity is infinite.
    pub fn unclipped() -> Self {
        Self::Unbounded { scale: 1.0 }
    }

    /// Returns the rule with this name and bound: `flat`, `auto-s`, `normalised`, `per-layer`.
    ///
    /// # Errors
    /// `Setting` for an unknown name.
    pub fn named(name: &str, max_grad_norm: f64) -> Result<Self> {
        Ok(match name {
            "flat" => Self::flat(max_grad_norm),
            "auto-s" => Self::auto_s(max_grad_norm),
            "normalised" => Self::normalised(max_grad_norm),
            "per-layer" => Self::per_layer(max_grad_norm),
            _ => {
                return Err(Error::setting("clip_rule", name, "unknown clip rule")
                    .fix("choose from flat, auto-s, normalised, per-layer"));
            }
        })
    }

    /// Returns the same rule with all bounds multiplied by `scale`.
    pub(crate) fn scaled(mut self, scale: f64) -> Self {
        match &mut self {
            Self::Flat { max_grad_norm }
            | Self::AutoS { max_grad_norm, .. }
            | Self::Normalised { max_grad_norm, .. }
            | Self::PerLayer { max_grad_norm } => *max_grad_norm *= scale,
            Self::Unbounded { scale: factor } => *factor *= scale,
            Self::Backprop(clip) => clip.max_upstream_norm *= scale,
            Self::PerLayerGiven { max_grad_norms } => {
                max_grad_norms.iter_mut().for_each(|bound| *bound *= scale);
            }
        }
        self
    }

    /// Checks that gradients can be clipped at this bound. Gradients are f32: near the smallest
    /// normal number, rounding would make contributions longer than the bound.
    ///
    /// # Errors
    /// If a bound is below 1e-30, negative or NaN, if γ is not between 1e-12 and 1e12, or if a
    /// factor is not a positive number.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Self::PerLayerGiven { max_grad_norms } if max_grad_norms.is_empty() => {
                let why = "a per-layer rule takes one bound per layer with parameters";
                return Err(Error::setting("max_grad_norms", "[]", why).fix("try [1.0, 1.0]"));
            }
            Self::PerLayerGiven { max_grad_norms } => {
                max_grad_norms.iter().try_for_each(|&bound| check_bound(bound))?;
            }
            Self::Flat { max_grad_norm }
            | Self::PerLayer { max_grad_norm }
            | Self::AutoS { max_grad_norm, .. }
            | Self::Normalised { max_grad_norm, .. } => check_bound(*max_grad_norm)?,
            Self::Unbounded { scale } if !(GAMMA_RANGE.contains(scale)) => {
                let why = "gradients are multiplied by it";
                return Err(Error::setting("scale", scale, why).fix("try 1.0"));
            }
            Self::Unbounded { .. } => {}
            Self::Backprop(clip) => clip.check()?,
        }
        match *self {
            Self::AutoS { max_grad_norm, gamma } | Self::Normalised { max_grad_norm, gamma }
                if !GAMMA_RANGE.contains(&gamma) || max_grad_norm / gamma > f64::from(f32::MAX) =>
            {
                let why = "the factor of a short gradient, max_grad_norm / gamma, must be a \
                           finite f32";
                Err(Error::setting("gamma", gamma, why).fix("try 0.01"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the L2 sensitivity of the clipped sum.
    ///
    /// # Guarantee
    /// Upper bound on the L2 distance between the sums of two neighbouring data sets: C if
    /// neighbours differ by one example added, removed or zeroed out, 2C if one example is
    /// replaced, where C is the bound on one example's contribution over all layers. Holds before
    /// any division by a batch size. Infinite for backpropagation clipping, which bounds a network
    /// layer by layer: [`groups`](Bound::groups) gives the sensitivities.
    pub fn sensitivity(&self, neighbouring: NeighbouringRelation) -> f64 {
        let bound = match self {
            Self::Flat { max_grad_norm }
            | Self::AutoS { max_grad_norm, .. }
            | Self::Normalised { max_grad_norm, .. }
            | Self::PerLayer { max_grad_norm } => *max_grad_norm,
            Self::PerLayerGiven { max_grad_norms } => l2_norm(max_grad_norms),
            Self::Unbounded { .. } | Self::Backprop(_) => f64::INFINITY,
        };
        sensitivity(bound, neighbouring)
    }

    /// Returns the standard deviation σ·C of the noise on the sum for the noise multiplier σ, the
    /// same for every coordinate.
    ///
    /// # Guarantee
    /// Events in the ledger define the noise multiplier as the standard deviation of the noise on
    /// the sum, divided by C. Accountants convert it for other neighbouring relations. Add the
    /// noise before dividing by the expected batch size.
    pub fn noise_std(&self, noise_multiplier: f64) -> f64 {
        noise_multiplier * self.sensitivity(NeighbouringRelation::AddOrRemoveOne)
    }
}

fn check_bound(max_grad_norm: f64) -> Result<()> {
    if max_grad_norm >= MIN_MAX_GRAD_NORM {
        return Ok(());
    }
    let why = if max_grad_norm > 0.0 {
        "below 1e-30, the rounding of f32 gradients can exceed the bound"
    } else {
        "gradients are scaled down to this norm, so it must be positive"
    };
    Err(Error::setting("max_grad_norm", max_grad_norm, why).fix("try 1.0, or 0.1"))
}

impl Bound for ClipRule {
    fn check(&self) -> Result<()> {
        Self::check(self)
    }

    fn groups(&self, network: &Network) -> Result<ClipGroups> {
        let rule = |max_grad_norm, form| -> Arc<dyn ClipFunction> {
            Arc::new(BuiltinClipFunction { max_grad_norm, form })
        };
        let (max_grad_norm, form) = match *self {
            Self::Flat { max_grad_norm } => (max_grad_norm, ClipFactor::Clip),
            Self::Unbounded { scale } => (f64::INFINITY, ClipFactor::Scale { factor: scale }),
            Self::AutoS { max_grad_norm, gamma } => (max_grad_norm, ClipFactor::AutoS { gamma }),
            Self::Normalised { max_grad_norm, gamma } => {
                (max_grad_norm, ClipFactor::Normalise { gamma })
            }
            Self::PerLayer { max_grad_norm } => {
                let layers = network.layer_of_parameters().into_iter().max().map_or(0, |l| l + 1);
                let each = max_grad_norm / (layers as f64).sqrt();
                return ClipGroups::per_layer(network, vec![rule(each, ClipFactor::Clip); layers]);
            }
            Self::Backprop(clip) => return backprop_clip_groups::groups(network, &clip),
            Self::PerLayerGiven { ref max_grad_norms } => {
                let rules =
                    max_grad_norms.iter().map(|&bound| rule(bound, ClipFactor::Clip)).collect();
                return ClipGroups::per_layer(network, rules);
            }
        };
        Ok(ClipGroups::joint(network, rule(max_grad_norm, form)))
    }
}

impl fmt::Display for ClipRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flat { max_grad_norm } => {
                write!(f, "each example's gradient to L2 norm {max_grad_norm}")
            }
            Self::Unbounded { scale } => {
                write!(f, "each example's gradient times {scale}, without a bound")
            }
            Self::AutoS { max_grad_norm, gamma } => write!(
                f,
                "AUTO-S: each example's gradient g to {max_grad_norm} g / (|g| + {gamma})"
            ),
            Self::Backprop(clip) => write!(f, "{clip}"),
            Self::Normalised { max_grad_norm, gamma } => write!(
                f,
                "normalised: each example's gradient g to {max_grad_norm} g / max(|g|, {gamma})"
            ),
            Self::PerLayer { max_grad_norm } => write!(
                f,
                "per layer: each example's gradient of each of L layers to L2 norm \
                 {max_grad_norm} / sqrt(L)"
            ),
            Self::PerLayerGiven { max_grad_norms } => write!(
                f,
                "per layer: each example's gradient of the layers to L2 norms {max_grad_norms:?}"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::{LayerSpec, LinearSpec};

    fn network() -> Network {
        let specs =
            [LayerSpec::Linear(LinearSpec::new(7, 3)), LayerSpec::Linear(LinearSpec::new(3, 2))];
        Network::build(&[7], &specs, |_, shape, _| vec![0.5; shape.iter().product()]).unwrap()
    }

    fn rules() -> [ClipRule; 5] {
        [
            ClipRule::flat(0.1),
            ClipRule::auto_s(0.1),
            ClipRule::normalised(0.1),
            ClipRule::per_layer(0.1),
            ClipRule::per_layer_given([0.06, 0.08]),
        ]
    }

    #[test]
    fn noise_std_is_relative_to_the_sum() {
        for rule in rules() {
            assert!((rule.sensitivity(NeighbouringRelation::AddOrRemoveOne) - 0.1).abs() < 1e-16);
            assert!((rule.sensitivity(NeighbouringRelation::ReplaceOne) - 0.2).abs() < 1e-16);
            assert!((rule.noise_std(1.72) - 0.172).abs() < 1e-15);
        }
    }

    #[test]
    fn the_groups_of_a_network_have_the_sensitivity_and_noise_of_the_rule() {
        let network = network();
        for rule in rules() {
            let groups = rule.groups(&network).unwrap();
            let relation = NeighbouringRelation::AddOrRemoveOne;
            assert!((groups.joint_sensitivity(relation) - 0.1).abs() < 1e-15, "{rule:?}");
            let stds = groups.noise_stds(1.72);
            assert!(stds.len() == 4 && stds.iter().all(|std| (std - 0.172).abs() < 1e-14));
            assert!((groups.joint_noise_multiplier(&stds) - 1.72).abs() < 1e-12, "{rule:?}");
            let half: Vec<f64> = stds.iter().map(|std| 0.5 * std).collect();
            assert!((groups.joint_noise_multiplier(&half) - 0.86).abs() < 1e-12, "{rule:?}");
        }
    }

    #[test]
    fn a_layer_with_less_noise_lowers_the_multiplier_of_the_whole_step() {
        let groups = ClipRule::per_layer_given([3.0, 4.0]).groups(&network()).unwrap();
        assert_eq!(groups.group_indices(), [0, 0, 1, 1]);
        // The layers' own multipliers are 2 and 1: (1/4 + 1)^(-1/2).
        let multiplier = groups.joint_noise_multiplier(&[6.0, 6.0, 4.0, 4.0]);
        assert!((multiplier - 0.8f64.sqrt()).abs() < 1e-12, "{multiplier}");
        // The tensor with the least noise decides.
        assert_eq!(groups.joint_noise_multiplier(&[6.0, 6.0, 4.0, 0.0]), 0.0);
        let unbounded = ClipRule::unclipped().groups(&network()).unwrap();
        assert_eq!(unbounded.joint_noise_multiplier(&[1.0; 4]), 0.0);
    }

    #[test]
    fn a_schedule_scales_every_bound() {
        for rule in rules() {
            let relation = NeighbouringRelation::AddOrRemoveOne;
            let half = rule.clone().scaled(0.5);
            assert!((half.sensitivity(relation) - 0.05).abs() < 1e-16, "{half:?}");
            let joint = half.groups(&network()).unwrap().joint_sensitivity(relation);
            assert!((joint - 0.05).abs() < 1e-15, "{half:?}");
        }
    }

    #[test]
    fn invalid_bounds_are_refused() {
        for wrong in [0.0, -1.0, f64::NAN, 1e-31, 1e-300] {
            let all = [
                ClipRule::flat(wrong),
                ClipRule::auto_s(wrong),
                ClipRule::normalised(wrong),
                ClipRule::per_layer(wrong),
                ClipRule::per_layer_given([1.0, wrong]),
                ClipRule::AutoS { max_grad_norm: 1.0, gamma: wrong },
                ClipRule::Normalised { max_grad_norm: 1.0, gamma: wrong },
            ];
            all.iter().for_each(|rule| assert!(rule.check().is_err(), "{rule:?}"));
        }
        assert!(ClipRule::per_layer_given([]).check().is_err());
        assert!(ClipRule::flat(1e-3).check().is_ok() && ClipRule::flat(1e-30).check().is_ok());
        rules().iter().for_each(|rule| rule.check().unwrap());
        let error = ClipRule::per_layer_given([1.0]).groups(&network()).unwrap_err();
        assert!(error.to_string().contains("2 layers with parameters"), "{error}");
    }

    #[test]
    fn serialised_names_stay() {
        let json = r#"{"kind":"flat","max_grad_norm":0.5}"#;
        assert_eq!(serde_json::to_string(&ClipRule::flat(0.5)).unwrap(), json);
        assert_eq!(serde_json::from_str::<ClipRule>(json).unwrap(), ClipRule::flat(0.5));
        for rule in rules() {
            let json = serde_json::to_string(&rule).unwrap();
            assert_eq!(serde_json::from_str::<ClipRule>(&json).unwrap(), rule);
        }
    }
}
