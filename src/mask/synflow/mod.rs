//! Synflow: data-free pruning by iteratively conserving synaptic flow (Tanaka et al., 2020).

mod conv;
mod linearised;
mod pass;
mod sums;

use serde::{Deserialize, Serialize};

use super::magnitude::privacy_of_parameters;
use super::rate::{check_pruning, dropped_count, in_percent};
use super::{Mask, Saliency, top_k};
use crate::nn::Model;
use crate::{Error, ErrorKind, Result};
use linearised::LinearisedNetwork;

/// The default number of rounds, as in the paper.
const DEFAULT_ROUNDS: usize = 100;

/// The maximal number of rounds. Each round is a forward and a backward pass.
const MAX_ROUNDS: usize = 10_000;

/// Synflow (Tanaka et al., "Pruning neural networks without any data by iteratively conserving
/// synaptic flow", 2020; eq. 2 of the pre-pruning paper).
///
/// The network is linearised: |w| for every weight, no biases, no activations, average instead of
/// max pooling, and only |γ| of a normalisation. Let R be the sum of its outputs for an input of
/// ones. The score of a weight is |w| ∂R/∂|w|, the part of R that flows through it. The scores of a
/// layer without a parallel branch sum to R, so the weights of a narrow layer have large scores.
///
/// Pruning is iterative: after round n of N, the fraction (1 - rate)^(n/N) of the weights is left,
/// ranked over all layers together, and the remaining weights are scored again. A single round can
/// reduce a layer to one weight (layer collapse); many rounds avoid that.
///
/// Weights of two or more dimensions are scored and pruned, except those of embeddings and LSTMs,
/// which are trained in full: their outputs are not sums of products of weights.
///
/// ```
/// use epsilab::prelude::*;
/// let data = data::glyphs_with(20, 0, 1)?;
/// let model = models::mlp(&data, &[4]).seed(1).build()?;
/// let mask = Synflow::keep(0.25).mask(&model)?;
/// assert_eq!((mask.kept_count(), mask.len()), (794, 784 * 4 + 4 * 10));
/// assert!(mask.saliency().is_some()); // the scores of the last round
/// # Ok::<(), Error>(())
/// ```
///
/// # Guarantee
/// Data-free for a model with its initial parameters: the mask is a function of the parameters, the
/// layers and the shape of one example. For a trained model, see
/// [`MagnitudeMask`](super::MagnitudeMask).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Synflow {
    pub(super) rate: f64,
    rounds: usize,
}

impl Synflow {
    /// Keeps this fraction of all weights, over all layers together.
    pub fn keep(fraction: f64) -> Self {
        Self::prune(1.0 - fraction)
    }

    /// Drops this fraction of all weights.
    pub fn prune(rate: f64) -> Self {
        Self { rate, rounds: DEFAULT_ROUNDS }
    }

    /// Sets the number of rounds. Default 100; 1 is one-shot pruning.
    pub fn rounds(self, rounds: usize) -> Self {
        Self { rounds, ..self }
    }

    /// Computes the scores |w| ∂R/∂|w| of all weights before any round.
    ///
    /// # Errors
    /// `Model`, as [`mask`](Self::mask).
    pub fn saliency(model: &Model) -> Result<Saliency> {
        let mut network = linearise(model)?;
        match network.update_scores() {
            objective if has_flow(objective) => Ok(saliency(model, network)),
            objective => Err(no_flow_error(model, objective)),
        }
    }

    /// Makes the mask for a model, from its parameters and the shape of its examples. It drops
    /// ⌊rate · weights⌋ weights, but never the last one of a tensor.
    ///
    /// If a round leaves no path from the inputs to the outputs, all further scores would be 0 and
    /// the order of the weights would decide. The mask is then the one before that round, and its
    /// origin says so. With a single round there is no earlier mask; the origin says that nothing
    /// flows through the kept weights.
    ///
    /// The mask's [`saliency`](Mask::saliency) holds the scores of the last round; weights that
    /// earlier rounds dropped have score 0. The smallest kept score is the pruning threshold,
    /// except that the last weight of a tensor is kept whatever its score. A mask from before the
    /// last round has scores of its own.
    ///
    /// # Errors
    /// `Setting` if the rate is not in [0, 1) or the number of rounds not in 1 to 10,000. `Model`
    /// if the model is a user-defined module or has no weights to prune, if no path leads to the
    /// outputs, if scores overflow, or if the first of several rounds leaves no path.
    pub fn mask(&self, model: &Model) -> Result<Mask> {
        let rate = check_pruning(self.rate)?;
        if !(1..=MAX_ROUNDS).contains(&self.rounds) {
            let why = format!("the number of rounds must be from 1 to {MAX_ROUNDS}");
            return Err(Error::setting("rounds", self.rounds, why)
                .fix("leave it out for 100 rounds, or use 1 to score once"));
        }
        let PruningResult { network, kept, note } = self.prune_iteratively(model, rate)?;
        let mut method = "Synflow".to_owned();
        if self.rounds != DEFAULT_ROUNDS {
            method +=
                &format!(" in {} round{}", self.rounds, if self.rounds == 1 { "" } else { "s" });
        }
        method += &format!(", {} dropped{note}", in_percent(rate));
        if !network.unscored.is_empty() {
            let kinds = network.unscored.join(" and ");
            method += &format!("; weights of {kinds} not scored, all kept");
        }
        saliency(model, network).mask(kept, method)
    }

    /// Runs the rounds.
    fn prune_iteratively(&self, model: &Model, rate: f64) -> Result<PruningResult> {
        let mut network = linearise(model)?;
        let schedule = drop_schedule(rate, self.rounds, network.len());
        let all = network.scores().into_iter().map(|scores| vec![true; scores.len()]);
        let mut kept: Vec<Vec<bool>> = all.collect();
        let mut previous = kept.clone();
        for (round, &drop) in schedule.iter().enumerate() {
            let objective = network.update_scores();
            if !has_flow(objective) {
                return match round {
                    0 => Err(no_flow_error(model, objective)),
                    _ => self.undo_last_round(model, &schedule[..round], previous),
                };
            }
            previous.clone_from(&kept);
            top_k::drop_smallest(&network.scores(), drop, &mut kept);
            network.apply_mask(&kept);
        }
        // The last mask needs no scores; the objective tells whether anything flows through it.
        if has_flow(network.objective()) {
            return Ok(PruningResult { network, kept, note: String::new() });
        }
        if schedule.len() == 1 {
            let note = "; nothing flows through the kept weights alone".to_owned();
            return Ok(PruningResult { network, kept, note });
        }
        self.undo_last_round(model, &schedule, previous)
    }

    /// Returns the mask `kept` from before the last round of `schedule`, with its own scores.
    fn undo_last_round(
        &self,
        model: &Model,
        schedule: &[usize],
        kept: Vec<Vec<bool>>,
    ) -> Result<PruningResult> {
        let &[.., dropped, last] = schedule else { return Err(collapsed(self, schedule[0])) };
        if dropped == 0 {
            return Err(collapsed(self, last));
        }
        let mut network = linearise(model)?;
        network.apply_mask(&kept);
        network.update_scores();
        let rate = dropped as f64 / network.len() as f64;
        // Part of the origin of a mask, whose texts must not change.
        let note = format!("; stopped at {rate:.4}, for the next cut let nothing flow");
        Ok(PruningResult { network, kept, note })
    }
}

/// Result of the rounds: the pruned network with its scores, the flags of the mask, and a note for
/// its origin if flow was lost.
struct PruningResult {
    network: LinearisedNetwork,
    kept: Vec<Vec<bool>>,
    note: String,
}

/// Returns the total number of dropped weights after each round, from the exponential schedule.
/// Rounds that drop no further weight are omitted.
fn drop_schedule(rate: f64, rounds: usize, count: usize) -> Vec<usize> {
    let dropped = |round: usize| {
        let kept = (1.0 - rate).powf(round as f64 / rounds as f64);
        dropped_count(1.0 - kept, count)
    };
    let mut schedule: Vec<usize> = (1..=rounds).map(dropped).collect();
    schedule.dedup();
    schedule
}

/// Returns whether the objective allows scores: positive and finite.
fn has_flow(objective: f64) -> bool {
    objective > 0.0 && objective.is_finite()
}

fn saliency(model: &Model, network: LinearisedNetwork) -> Saliency {
    Saliency::new("Synflow", privacy_of_parameters(model), network.into_scores())
}

/// Returns the linearised network of a model, checked to have something to prune.
fn linearise(model: &Model) -> Result<LinearisedNetwork> {
    let refused = |what: String, why: &str| {
        Err(Error::new(ErrorKind::Model, what, why)
            .fix("use RandomMask, MagnitudeMask or DpSnip instead"))
    };
    if model.network().specs().is_empty() {
        let what = format!("Synflow on {}, a user-defined module", model.name());
        return refused(what, "Synflow works only on lists of layers");
    }
    let network = LinearisedNetwork::new(model)?;
    if network.tensors.is_empty() {
        let what = format!("Synflow on {}, which has no linear layer or convolution", model.name());
        return refused(what, "the model has no weights to prune");
    }
    Ok(network)
}

fn no_flow_error(model: &Model, objective: f64) -> Error {
    let what =
        format!("Synflow on {}: its outputs for an input of ones sum to {objective}", model.name());
    let why = if objective == 0.0 {
        "no path of nonzero weights leads from the inputs to the outputs, so all scores are 0"
    } else {
        "the scores are parts of this sum: a parameter is not finite, or the network is so deep \
         that the sum overflows"
    };
    Error::new(ErrorKind::Model, what, why)
        .fix("check the model's parameters, or use RandomMask, MagnitudeMask or DpSnip instead")
}

fn collapsed(method: &Synflow, dropped: usize) -> Error {
    let what = format!("Synflow in {} rounds, {} dropped", method.rounds, method.rate);
    let why = format!("after the first round, which drops {dropped} weights, nothing flows");
    Error::new(ErrorKind::Model, what, why).fix("use more rounds (default 100), or keep more")
}
