//! The sum of all examples' connection sensitivities, clipped per example.

use crate::data::Examples;
use crate::engine::{AutoExecutor, Batch, ClipRule, Executor, Gradients, Weights};
use crate::mask::Scores;
use crate::mask::saliency::prunable;
use crate::nn::{Model, Network};
use crate::{Error, ErrorKind, Result};

/// Examples that are in memory at a time.
pub(super) const CHUNK: usize = 1024;

/// Parameters beyond this are no network's, and the rounding of a tiny gradient times one of them
/// would no longer be small.
const LARGEST: f32 = 1e6;

/// Σᵢ cᵢ · min(1, C/‖cᵢ‖) with cᵢ = θ ⊙ ∂Lᵢ/∂θ over the prunable weights.
pub(super) struct Sensitivities {
    /// The sum, in the shapes of the parameters; zero where nothing can be pruned.
    pub(super) sum: Gradients,
    /// Ones for the weights that can be pruned, zeros for all other parameters.
    pub(super) prunable: Weights,
}

impl Sensitivities {
    /// Sums over all of `examples`, so many at a time; `dropout` is the seed of dropout masks.
    ///
    /// # Guarantee
    /// One example more or less moves the sum by at most C in L2 norm, up to f32 rounding, with
    /// the same dropout masks for the others (see [`Batch::seed`]). Examples whose gradient is
    /// not finite add zero. Chunks are added up in f64: the sum is the same, up to f32 rounding,
    /// whatever their size, and it is ONE sum, for one release.
    ///
    /// # Errors
    /// As [`check`]; what reading an example
    /// says.
    pub(super) fn of(
        model: &Model,
        examples: &Examples,
        rule: &ClipRule,
        dropout: u64,
        chunk: usize,
    ) -> Result<Self> {
        check(model, examples)?;
        let network = model.network();
        // The norm of θ ⊙ g is the norm of g with weights θ². What is lost to the smallest f32 is
        // left out of norm and sum alike, rather than measured badly.
        let squares = on_prunable(network, |value| {
            let square = value * value;
            if square < f32::MIN_POSITIVE { 0.0 } else { square }
        })?;
        let prunable = on_prunable(network, |_| 1.0)?;
        let parameters = network.values();
        let mut total: Vec<Vec<f64>> =
            parameters.iter().map(|(_, values)| vec![0.0; values.len()]).collect();
        let executor = AutoExecutor::default().fixed_chunks(chunk);
        let ids: Vec<u32> = (0..examples.len() as u32).collect();
        for ids in ids.chunks(chunk) {
            let batch = Batch::of(examples, ids)?.seed(dropout);
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

    /// |sum| / N for every prunable weight: its score.
    pub(super) fn scores(sum: &Gradients, prunable: &Weights, examples: usize) -> Vec<Scores> {
        let entries = sum.entries.iter().enumerate().filter(|(i, _)| !prunable.is_zero(*i));
        let scores = entries.map(|(_, entry)| Scores {
            path: entry.path.clone(),
            shape: entry.shape.clone(),
            values: entry.values.iter().map(|&v| f64::from(v).abs() / examples as f64).collect(),
        });
        scores.collect()
    }
}

/// Weights made of the parameters that can be pruned, and zeros for the others.
pub(super) fn on_prunable(network: &Network, weight: impl Fn(f32) -> f32) -> Result<Weights> {
    let wanted = prunable(network, false);
    let mut weights = Gradients::zeros_like(network);
    for (entry, (parameter, values)) in weights.entries.iter_mut().zip(network.values()) {
        if wanted.contains(&parameter) {
            entry.values = values.into_iter().map(&weight).collect();
        }
    }
    Weights::new(network, weights)
}

/// Refuses a model and examples that no sensitivities can be summed for: to be asked before
/// anything is charged.
///
/// # Errors
/// Kind `Model` if the model can't be trained privately or has no weight that can be pruned;
/// kind `Setting` if there is no example, or model and examples do not fit.
pub(crate) fn check(model: &Model, examples: &Examples) -> Result<()> {
    model.validate()?;
    let network = model.network();
    if prunable(network, false).is_empty() {
        let what = format!("the model {} has no weights to prune", model.name());
        let why = "only parameters of two or more dimensions are scored";
        return Err(Error::new(ErrorKind::Model, what, why).fix("train it without a mask"));
    }
    let tame = |w: &f32| w.abs() <= LARGEST;
    if let Some((wild, _)) = network.values().iter().find(|(_, values)| !values.iter().all(tame)) {
        let what = format!("the parameter {} of the model {}", wild.path, model.name());
        let why = format!(
            "it holds a number beyond {LARGEST:e}: scores weigh gradients by squared parameters, \
             and with such weights f32 could not bound one example's share"
        );
        return Err(Error::new(ErrorKind::Model, what, why).fix("start from smaller parameters"));
    }
    if examples.is_empty() {
        let why = "the scores are sums over examples";
        return Err(Error::setting("training examples", 0, why).fix("give at least one example"));
    }
    if examples.shape() != network.input_shape() {
        let what = format!("examples of shape {:?}", examples.shape());
        let why = format!("the model {} takes {:?}", model.name(), network.input_shape());
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
