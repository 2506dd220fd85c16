//! Network whose per-example gradients are determined by the features, with the canary and the
//! other examples.

use crate::Result;
use crate::data::{self, Dataset};
use crate::engine::{AutoExecutor, Batch, Bound, ClipRule, CoordinateWeights, Executor, Gradients};
use crate::methods::Plan;
use crate::nn::{LayerSpec, LinearSpec, Model, Network, models};
use crate::{Error, ErrorKind};

/// Smallest number of coordinates of a gradient: room for the canary and the others.
const MIN_DIMENSION: usize = 8;
/// Largest number of coordinates.
const MAX_DIMENSION: usize = 1 << 20;
const SQRT_2: f64 = std::f64::consts::SQRT_2;

/// A linear network on two classes with chosen parameters, whose logits are equal for all features.
/// The gradient of the cross-entropy of features x is therefore (-x/2, x/2) for class 0, and the
/// opposite for class 1: the features choose direction and norm.
///
/// All weights of the first layer are 1, so its connection sensitivities are gradients. With two
/// layers, the second one is the identity on two values that are both the sum of the features. Its
/// gradient is then proportional to that sum.
#[derive(Debug)]
pub(super) struct CanaryNetwork {
    pub(super) network: Network,
    features: usize,
    /// Norm of the canary's gradient in each layer.
    canary_norm: f64,
    /// Norm of the others' gradients.
    others_norm: f64,
    /// Norm of the gradient of features of norm 1: that of the output gradient.
    gain: f64,
}

/// A canary: the coordinate of its features, and the direction in which it moves a sum.
#[derive(Clone, Debug)]
pub(super) struct Canary {
    pub(super) feature: usize,
    /// Unit vector in the shape of the parameters, one list per tensor.
    pub(super) direction: Vec<Vec<f32>>,
}

impl CanaryNetwork {
    /// Creates the setup for the bound of a plan, with canaries of norm `canary_norm` times the
    /// bound.
    ///
    /// # Errors
    /// `Setting` for numbers out of range, and for a bound on more than two layers.
    pub(super) fn new(plan: &Plan, dimension: usize, canary_norm: f64) -> Result<Self> {
        if !(MIN_DIMENSION..=MAX_DIMENSION).contains(&dimension) || dimension % 2 == 1 {
            let why = format!("an even number from {MIN_DIMENSION} to {MAX_DIMENSION} is expected");
            return Err(Error::setting("dimension", dimension, why).fix("use for example 256"));
        }
        if !(canary_norm > 0.0 && canary_norm <= 1e6) {
            let why = "the factor on the clip norm must be positive and at most 1e6";
            return Err(Error::setting("canary_norm", canary_norm, why).fix("use for example 10"));
        }
        let features = dimension / 2;
        let layers = match plan.bound(0)? {
            Some(bound) => required_layers(plan, &*bound)?,
            None => 1,
        };
        let network = plan.prepare_network(&network(features, layers)?)?;
        let unit = max_contribution_norm(plan, 0, &network)?;
        let gain = match plan.privacy().map(|privacy| &privacy.clip) {
            Some(ClipRule::Backprop(clips)) => clips.max_upstream_norm.min(SQRT_2.recip()),
            _ => SQRT_2.recip(),
        };
        let canary_norm = canary_norm * unit;
        Ok(Self { network, features, canary_norm, others_norm: unit, gain })
    }

    /// Returns the features and labels of the other examples with these ids, whose gradients have
    /// alternating signs, and of the canary if there is one, as the last example.
    fn rows(&self, ids: impl Iterator<Item = u32>, canary: Option<usize>) -> (Vec<f32>, Vec<u32>) {
        let mut labels: Vec<u32> = ids.map(|id| id % 2).collect();
        let others = labels.len();
        labels.extend(canary.map(|_| 0));
        let mut features = vec![0.0; labels.len() * self.features];
        for (i, row) in features.chunks_exact_mut(self.features).enumerate() {
            match canary.filter(|_| i == others) {
                Some(feature) => row[feature] = (self.canary_norm / self.gain) as f32,
                None => {
                    // In the last two coordinates, with the sum 0.
                    let each = (self.others_norm / self.gain / SQRT_2) as f32;
                    row[self.features - 1] = each;
                    row[self.features - 2] = -each;
                }
            }
        }
        (features, labels)
    }

    /// Creates a batch of the examples of [`rows`](Self::rows).
    pub(super) fn batch(&self, ids: &[u32], canary: Option<usize>) -> Result<Batch> {
        let (features, labels) = self.rows(ids.iter().copied(), canary);
        Batch::new(features, &[self.features], labels)
    }

    /// Returns a data set of `others` examples, with or without the canary.
    pub(super) fn data(&self, others: usize, canary: Option<usize>) -> Result<Dataset> {
        let (features, labels) = self.rows(0..others as u32, canary);
        data::from_vecs(features, &[self.features], labels, 2)
    }

    /// Returns a model with the network.
    pub(super) fn model(&self) -> Result<Model> {
        let model = models::linear(&self.data(1, None)?).seed(0).build()?;
        Ok(model.with_network(self.network.clone()))
    }

    /// Returns the unit vector of the others' gradients.
    pub(super) fn others_direction(
        &self,
        selected: Option<&CoordinateWeights>,
    ) -> Result<Vec<Vec<f32>>> {
        let batch = self.batch(&[0], None)?;
        self.direction_of(&batch, &ClipRule::unclipped(), selected)
    }

    /// Returns the canary among the selected coordinates, with the direction in which `bound` lets
    /// it move a sum.
    pub(super) fn canary(
        &self,
        bound: Option<&dyn Bound>,
        selected: Option<&CoordinateWeights>,
    ) -> Result<Canary> {
        let feature = self.canary_feature(selected);
        let batch = self.batch(&[], Some(feature))?;
        let unclipped = ClipRule::unclipped();
        let bound = bound.unwrap_or(&unclipped);
        Ok(Canary { feature, direction: self.direction_of(&batch, bound, selected)? })
    }

    /// Returns the feature of the canary: the first with two selected weights (one for each class),
    /// else the first with one, else 0. The last two features are those of the other examples.
    fn canary_feature(&self, selected: Option<&CoordinateWeights>) -> usize {
        let Some(weights) = selected.and_then(|weights| weights.entries().first()) else {
            return 0;
        };
        let weights = &weights.values;
        let count = |feature: &usize| {
            weights[2 * feature..2 * feature + 2].iter().filter(|&&weight| weight != 0.0).count()
        };
        let mut all = 0..self.features - 2;
        let any = (0..self.features - 2).find(|feature| count(feature) > 0);
        all.find(|feature| count(feature) == 2).or(any).unwrap_or(0)
    }

    fn direction_of(
        &self,
        batch: &Batch,
        bound: &dyn Bound,
        selected: Option<&CoordinateWeights>,
    ) -> Result<Vec<Vec<f32>>> {
        let executor = AutoExecutor::default();
        let sum = executor.weighted_sum(&self.network, batch, bound, selected)?.sum;
        let norm = sum.l2_norm().max(f64::MIN_POSITIVE);
        let scaled = |value: &f32| (f64::from(*value) / norm) as f32;
        Ok(sum.entries.iter().map(|entry| entry.values.iter().map(scaled).collect()).collect())
    }
}

/// Computes the inner product of gradients and a direction.
pub(super) fn inner_product(gradients: &Gradients, direction: &[Vec<f32>]) -> f64 {
    let products = gradients.entries.iter().zip(direction).flat_map(|(entry, direction)| {
        entry.values.iter().zip(direction).map(|(&a, &b)| f64::from(a) * f64::from(b))
    });
    products.sum()
}

/// Computes the largest norm of one example's contribution to the sum of a step, or 1 without a
/// bound.
///
/// # Errors
/// As the plan's bound.
pub(super) fn max_contribution_norm(plan: &Plan, step: u64, network: &Network) -> Result<f64> {
    use crate::privacy::NeighbouringRelation::AddOrRemoveOne;
    let Some(bound) = plan.bound(step)? else { return Ok(1.0) };
    let sensitivity = bound.groups(network)?.joint_sensitivity(AddOrRemoveOne);
    Ok(if sensitivity.is_finite() && sensitivity > 0.0 { sensitivity } else { 1.0 })
}

/// Returns the number of layers that a bound suits: two for a bound per layer, otherwise one.
fn required_layers(plan: &Plan, bound: &dyn Bound) -> Result<usize> {
    let per_layer =
        plan.privacy().is_some_and(|privacy| matches!(privacy.clip, ClipRule::PerLayer { .. }));
    let of_layers = |layers| plan.prepare_network(&network(MIN_DIMENSION / 2, layers)?);
    if !per_layer && bound.groups(&of_layers(1)?).is_ok() {
        return Ok(1);
    }
    match bound.groups(&of_layers(2)?) {
        Ok(_) => Ok(2),
        Err(error) => {
            let why =
                format!("the audit has only networks of one and two layers ({})", error.what());
            Err(Error::new(ErrorKind::Setting, "a bound on more layers", why)
                .fix("audit the same method with bounds for one or two layers"))
        }
    }
}

fn network(features: usize, layers: usize) -> Result<Network> {
    let linear = |inputs| LayerSpec::Linear(LinearSpec { inputs, outputs: 2, bias: false });
    let specs: Vec<LayerSpec> = [features, 2].into_iter().take(layers).map(linear).collect();
    Network::build(&[features], &specs, |path, shape, _| {
        if path.starts_with("0.") {
            vec![1.0; shape.iter().product()]
        } else {
            vec![1.0, 0.0, 0.0, 1.0]
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::DpSgd;

    fn plan(rule: ClipRule) -> Plan {
        let data = data::from_vecs(vec![0.0; 10], &[1], vec![0; 10], 2).unwrap();
        DpSgd::new().clip_rule(rule).noise_multiplier(1.0).batch_size(10).plan(&data).unwrap()
    }

    #[test]
    fn gradients_have_the_stated_norms_and_directions() {
        for (rule, layers) in [(ClipRule::flat(0.5), 1), (ClipRule::per_layer(0.5), 2)] {
            let setup = CanaryNetwork::new(&plan(rule.clone()), 40, 10.0).unwrap();
            assert_eq!(setup.network.parameters().len(), layers);
            let executor = AutoExecutor::default();
            let sum = |batch: &Batch, rule: &ClipRule| {
                executor.clipped_sum(&setup.network, batch, rule).unwrap()
            };
            let canary = setup.canary(Some(&rule), None).unwrap();
            let batch = setup.batch(&[0, 1, 2], Some(canary.feature)).unwrap();
            let norms = sum(&batch, &rule).norms;
            let of_canary = if layers == 1 { 5.0 } else { 5.0 * 3f32.sqrt() };
            for (norm, expected) in norms.iter().zip([0.5, 0.5, 0.5, of_canary]) {
                assert!((norm - expected).abs() < 1e-5, "{norms:?}");
            }
            // The canary moves the sum by its whole bound along its direction, which is
            // orthogonal to that of the others; two others cancel.
            let alone = sum(&setup.batch(&[], Some(canary.feature)).unwrap(), &rule).sum;
            assert!((inner_product(&alone, &canary.direction) - 0.5).abs() < 1e-6);
            assert!((alone.l2_norm() - 0.5).abs() < 1e-6);
            let other = sum(&setup.batch(&[0], None).unwrap(), &rule).sum;
            assert!(inner_product(&other, &canary.direction).abs() < 1e-7 && other.l2_norm() > 0.3);
            let pair = sum(&setup.batch(&[0, 1], None).unwrap(), &rule).sum;
            assert!(pair.l2_norm() < 1e-7);
        }
    }

    #[test]
    fn numbers_out_of_range_and_many_layers_are_refused() {
        let flat = plan(ClipRule::flat(1.0));
        for (dimension, norm, name) in
            [(7, 1.0, "dimension"), (6, 1.0, "dimension"), (8, 0.0, "canary"), (8, f64::NAN, "can")]
        {
            let error = CanaryNetwork::new(&flat, dimension, norm).unwrap_err();
            assert!(error.kind() == ErrorKind::Setting && error.what().contains(name), "{error}");
        }
        let three = plan(ClipRule::per_layer_given([1.0, 1.0, 1.0]));
        assert!(CanaryNetwork::new(&three, 8, 1.0).unwrap_err().to_string().contains("layers"));
    }
}
