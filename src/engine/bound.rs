//! Bounds on one example's influence on a sum of gradients.

use std::fmt;
use std::sync::Arc;

use burn::prelude::*;

use crate::nn::Network;
use crate::privacy::NeighbouringRelation;
use crate::{Error, ErrorKind, Result};

/// Rule that rescales one example's gradient, restricted to one group of parameters, by a factor
/// that depends on its norm only.
pub trait ClipFunction: fmt::Debug + Send + Sync {
    /// Returns the factor for a gradient of this norm. Executors exclude examples whose norm is
    /// not finite before they call this.
    ///
    /// # Guarantee
    /// `factor(norm) * norm <= sensitivity()` up to f32 rounding.
    fn factor(&self, norm: f32) -> f32;

    /// Returns the factors for several norms on their device, `[examples]`, without
    /// synchronisation. Factors of norms that are not finite are unspecified; callers mask them
    /// out.
    ///
    /// # Guarantee
    /// As [`factor`](Self::factor).
    fn factors(&self, norms: Tensor<1>) -> Tensor<1>;

    /// Returns the largest norm of a rescaled gradient; infinite if there is no bound.
    fn sensitivity(&self) -> f64;
}

/// Bound on one example's influence on a sum of gradients: the rule by which each example's
/// gradient is rescaled before it is added.
///
/// A bound is public: it is fixed before a step and does not depend on the batch.
pub trait Bound: fmt::Debug + Send + Sync {
    /// Checks the settings of the bound.
    ///
    /// # Errors
    /// `Setting` for a number out of range.
    fn check(&self) -> Result<()>;

    /// Returns the clip groups of this bound on the parameters of a network.
    ///
    /// # Errors
    /// `Setting` if the bound does not fit the network.
    fn groups(&self, network: &Network) -> Result<ClipGroups>;
}

/// [`Bound`] on the parameters of one network: each group of parameter tensors has its own norm
/// and is rescaled by it. Either all parameters are one group, or each layer is one.
///
/// # Guarantee
/// For the same neighbours, the sum of the rescaled gradients of group l changes by at most
/// [`sensitivities`](Self::sensitivities)`[l]` in L2 norm, and the whole sum by at most
/// [`joint_sensitivity`](Self::joint_sensitivity).
#[derive(Clone, Debug)]
pub struct ClipGroups {
    /// Index of the group of each parameter tensor, in the network's order.
    group_of_tensor: Vec<usize>,
    functions: Vec<Arc<dyn ClipFunction>>,
}

impl ClipGroups {
    /// Creates one clip group of all parameters.
    pub fn joint(network: &Network, rule: Arc<dyn ClipFunction>) -> Self {
        Self { group_of_tensor: vec![0; network.parameters().len()], functions: vec![rule] }
    }

    /// Creates one clip group per layer with parameters, in the network's order; see
    /// [`Network::layer_of_parameters`].
    ///
    /// # Errors
    /// `Setting` unless there is one rule per layer.
    pub fn per_layer(network: &Network, rules: Vec<Arc<dyn ClipFunction>>) -> Result<Self> {
        let group_of_tensor = network.layer_of_parameters();
        let layers = group_of_tensor.iter().max().map_or(0, |last| last + 1);
        if rules.len() == layers {
            return Ok(Self { group_of_tensor, functions: rules });
        }
        let what = format!("bounds for {} layers", rules.len());
        let why = format!("the network has {layers} layers with parameters");
        Err(Error::new(ErrorKind::Setting, what, why)
            .fix("give one bound per layer with parameters, in order; model.layers() lists them"))
    }

    /// Returns the number of groups.
    pub fn group_count(&self) -> usize {
        self.functions.len()
    }

    /// Returns the group of each parameter tensor, in the network's order.
    pub fn group_indices(&self) -> &[usize] {
        &self.group_of_tensor
    }

    /// Returns the rule of a group.
    pub(crate) fn clip_function(&self, group: usize) -> &dyn ClipFunction {
        &*self.functions[group]
    }

    /// Returns the L2 sensitivity of the sum of each group.
    pub fn sensitivities(&self, neighbouring: NeighbouringRelation) -> Vec<f64> {
        self.functions.iter().map(|rule| sensitivity(rule.sensitivity(), neighbouring)).collect()
    }

    /// Returns the L2 sensitivity of the whole sum: the root of the sum of squares over the
    /// groups.
    pub fn joint_sensitivity(&self, neighbouring: NeighbouringRelation) -> f64 {
        l2_norm(&self.sensitivities(neighbouring))
    }

    /// Returns the standard deviation of the noise on the sum of each parameter tensor, such that
    /// the noise multiplier of the whole step is `noise_multiplier`: the same for all tensors.
    ///
    /// # Guarantee
    /// Events in the ledger define the noise multiplier for one example added or removed;
    /// accountants convert it for other relations. Add the noise before dividing by the expected
    /// batch size.
    pub fn noise_stds(&self, noise_multiplier: f64) -> Vec<f64> {
        let std = noise_multiplier * self.joint_sensitivity(NeighbouringRelation::AddOrRemoveOne);
        vec![std; self.group_of_tensor.len()]
    }

    /// Returns the standard deviation of the noise on the sum of each parameter tensor, such that
    /// the noise multiplier of the whole step is `noise_multiplier`, split equally among the
    /// groups: σ √L Δₗ for L groups. Groups without a tensor that is `trained` count as none and
    /// get no noise: the sum must not contain them.
    ///
    /// # Guarantee
    /// As [`noise_stds`](Self::noise_stds).
    pub(crate) fn equal_split_noise_stds(
        &self,
        noise_multiplier: f64,
        trained: &[bool],
    ) -> Vec<f64> {
        let mut is_trained = vec![false; self.group_count()];
        for (&group, &trained) in self.group_of_tensor.iter().zip(trained) {
            is_trained[group] |= trained;
        }
        let groups = is_trained.iter().filter(|&&trained| trained).count() as f64;
        let sensitivities = self.sensitivities(NeighbouringRelation::AddOrRemoveOne);
        let std = |&group: &usize| {
            if is_trained[group] {
                noise_multiplier * groups.sqrt() * sensitivities[group]
            } else {
                0.0
            }
        };
        self.group_of_tensor.iter().map(std).collect()
    }

    /// Returns the noise multiplier of one step that adds noise of standard deviation `stds[p]` to
    /// the sum of parameter tensor p: (Σₗ (Δₗ/τₗ)²)^(-1/2), with the sensitivity Δₗ of group l and
    /// the smallest noise τₗ on one of its tensors. All groups see the same sample of examples, so
    /// a step is one event with this multiplier, not one event per group.
    ///
    /// # Guarantee
    /// One example moves the sums, each divided by its standard deviation, by at most the inverse
    /// of the result in L2 norm. Without noise on a group, or without a bound, the result is 0.
    pub fn joint_noise_multiplier(&self, stds: &[f64]) -> f64 {
        let mut least = vec![f64::INFINITY; self.functions.len()];
        for (&group, &std) in self.group_of_tensor.iter().zip(stds) {
            least[group] = least[group].min(std);
        }
        let sensitivities = self.sensitivities(NeighbouringRelation::AddOrRemoveOne);
        let ratios: Vec<f64> = sensitivities.iter().zip(least).map(|(s, std)| s / std).collect();
        let multiplier = 1.0 / l2_norm(&ratios);
        if multiplier.is_nan() { 0.0 } else { multiplier }
    }
}

/// Returns the L2 sensitivity of a sum of vectors of norm at most `bound`: 2 `bound` if one
/// example is replaced.
pub(super) fn sensitivity(bound: f64, neighbouring: NeighbouringRelation) -> f64 {
    match neighbouring {
        NeighbouringRelation::AddOrRemoveOne | NeighbouringRelation::ZeroOutOne => bound,
        NeighbouringRelation::ReplaceOne => 2.0 * bound,
    }
}

/// Computes the L2 norm, without overflow or underflow of squares; one value keeps its bits.
pub(super) fn l2_norm(values: &[f64]) -> f64 {
    match values {
        [one] => one.abs(),
        _ => values.iter().fold(0.0, |norm: f64, &value| norm.hypot(value)),
    }
}
