//! The sum of per-example connection sensitivities, each clipped.

use crate::data::Examples;
use crate::engine::{AutoExecutor, Batch, ClipRule, CoordinateWeights, Executor, Gradients};
use crate::mask::SaliencyTensor;
use crate::mask::saliency::prunable;
use crate::nn::{Model, Network};
use crate::{Error, ErrorKind, Result};

/// Examples per chunk of the sum.
pub(super) const CHUNK: usize = 1024;

/// The largest absolute parameter value that is accepted. With larger ones, the rounding error of a
/// tiny gradient times a parameter would not be small.
const MAX_PARAMETER: f32 = 1e6;

/// Clipped sum of connection sensitivities: Σᵢ cᵢ · min(1, C/‖cᵢ‖) with cᵢ = θ ⊙ ∂Lᵢ/∂θ over the
/// prunable weights.
pub(super) struct ConnectionSensitivities {
    /// The sum, in the shapes of the parameters; zero for parameters that can't be pruned.
    pub(super) sum: Gradients,
    /// Prunable coordinates: 1 for prunable weights, 0 for all other parameters.
    pub(super) prunable: CoordinateWeights,
}

impl ConnectionSensitivities {
    /// Computes the sum over all examples, `chunk` at a time. `dropout` is the seed of dropout
    /// masks.
    ///
    /// # Guarantee
    /// Adding or removing one example moves the sum by at most C in L2 norm, up to f32 rounding;
    /// the dropout masks of the other examples do not change (see [`Batch::seed`]). Examples with a
    /// gradient that is not finite contribute zero. Chunks are added in f64, so the result is one
    /// sum, for one release, and depends on the chunk size only by f32 rounding.
    ///
    /// # Errors
    /// As [`check_model_and_examples`]; errors of reading the examples.
    pub(super) fn compute(
        model: &Model,
        examples: &Examples,
        rule: &ClipRule,
        dropout: u64,
        chunk: usize,
    ) -> Result<Self> {
        check_model_and_examples(model, examples)?;
        let network = model.network();
        // The norm of θ ⊙ g is the norm of g with weights θ². Squares that underflow become weight
        // 0, which excludes the coordinate from norm and sum alike.
        let squares = prunable_weights(network, |value| {
            let square = value * value;
            if square < f32::MIN_POSITIVE { 0.0 } else { square }
        })?;
        let prunable = prunable_weights(network, |_| 1.0)?;
        let parameters = network.values();
        let mut total: Vec<Vec<f64>> =
            parameters.iter().map(|(_, values)| vec![0.0; values.len()]).collect();
        let executor = AutoExecutor::default().fixed_chunks(chunk);
        let indices: Vec<u32> = (0..examples.len() as u32).collect();
        for indices in indices.chunks(chunk) {
            let batch = Batch::from_examples(examples, indices)?.seed(dropout);
            let part = executor.weighted_sum(network, &batch, rule, Some(&squares))?.sum;
            for (total, part) in total.iter_mut().zip(&part.entries) {
                total.iter_mut().zip(&part.values).for_each(|(t, &v)| *t += f64::from(v));
            }
        }
        let mut sum = Gradients::zeros_like(network);
        for ((entry, total), (_, theta)) in sum.entries.iter_mut().zip(total).zip(parameters) {
            let scaled = total.into_iter().zip(theta);
            entry.values = scaled.map(|(g, theta)| (g * f64::from(theta)) as f32).collect();
        }
        Ok(Self { sum, prunable })
    }

    /// Computes the scores |sum| / N of the prunable weights, where N is the number of examples.
    pub(super) fn scores(
        sum: &Gradients,
        prunable: &CoordinateWeights,
        examples: usize,
    ) -> Vec<SaliencyTensor> {
        let entries = sum.entries.iter().enumerate().filter(|(i, _)| !prunable.is_zero_tensor(*i));
        let scores = entries.map(|(_, entry)| SaliencyTensor {
            path: entry.path.clone(),
            shape: entry.shape.clone(),
            values: entry.values.iter().map(|&v| f64::from(v).abs() / examples as f64).collect(),
        });
        scores.collect()
    }
}

/// Returns `weight` of the value of each prunable parameter, and 0 for the others.
fn prunable_weights(network: &Network, weight: impl Fn(f32) -> f32) -> Result<CoordinateWeights> {
    let parameters = prunable(network, false);
    let mut weights = Gradients::zeros_like(network);
    for (entry, (parameter, values)) in weights.entries.iter_mut().zip(network.values()) {
        if parameters.contains(&parameter) {
            entry.values = values.into_iter().map(&weight).collect();
        }
    }
    CoordinateWeights::new(network, weights)
}

/// Checks, before anything is charged, that SNIP can score the model and that the examples fit it.
///
/// # Errors
/// `Model` if the model can't be trained privately, has no prunable weight, or has parameters
/// beyond 1e6; `Setting` if there is no example, or if model and examples do not fit.
pub(crate) fn check_model_and_examples(model: &Model, examples: &Examples) -> Result<()> {
    model.validate()?;
    let network = model.network();
    if prunable(network, false).is_empty() {
        let what = format!("the model {} has no weights to prune", model.name());
        let why = "only parameters of two or more dimensions are scored";
        return Err(Error::new(ErrorKind::Model, what, why).fix("train it without a mask"));
    }
    let in_range = |w: &f32| w.abs() <= MAX_PARAMETER;
    let values = network.values();
    if let Some((large, _)) = values.iter().find(|(_, values)| !values.iter().all(in_range)) {
        let what = format!("the parameter {} of the model {}", large.path, model.name());
        let why = format!(
            "the parameter has a value beyond {MAX_PARAMETER:e}: squared parameters weight the \
             gradients, and with such weights f32 can't bound the contribution of one example"
        );
        return Err(Error::new(ErrorKind::Model, what, why).fix("start from smaller parameters"));
    }
    if examples.is_empty() {
        let why = "the scores are sums over examples";
        return Err(Error::setting("training examples", 0, why).fix("give at least one example"));
    }
    if examples.shape() != network.input_shape() {
        let what = format!("examples of shape {:?}", examples.shape());
        let why = format!("the model {} expects {:?}", model.name(), network.input_shape());
        return Err(Error::new(ErrorKind::Setting, what, why)
            .fix("build the model from the same data, e.g. models::papernot_cnn(&data)"));
    }
    if let Some(label) = examples.labels().iter().find(|l| **l as usize >= network.outputs()) {
        let why = format!("the model {} has {} outputs", model.name(), network.outputs());
        return Err(Error::setting("label", label, why)
            .fix("build the model from the same data, e.g. models::papernot_cnn(&data)"));
    }
    if examples.is_in_memory() { network.check_tokens(examples.features_flat()) } else { Ok(()) }
}
