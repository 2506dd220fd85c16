//! Synflow: pruning by the flow of ones through the network.

mod conv;
mod flow;
mod pass;
mod product;

use serde::{Deserialize, Serialize};

use super::magnitude::of_parameters;
use super::rate::{check_pruning, dropped_of, in_percent};
use super::{Mask, Saliency, rank};
use crate::nn::Model;
use crate::{Error, ErrorKind, Result};
use flow::Flow;

/// Rounds unless told otherwise, as in the paper.
const ROUNDS: usize = 100;

/// More rounds than anyone needs: each is a pass forward and back.
const MOST_ROUNDS: usize = 10_000;

/// Synflow (Tanaka et al., 2020, "Pruning neural networks without any data by iteratively
/// conserving synaptic flow"; eq. 2 of the pre-pruning paper).
///
/// The network is made linear: |w| for every weight, no biases, no activations, averages for
/// maxima, and of a normalisation only |γ|. With R the sum of its outputs for an example of ones,
/// the score of a weight is |w| ∂R/∂|w|, the part of R that flows through it. In each layer that
/// everything passes through the scores add up to R, so a thin layer has large scores. Weights go
/// in rounds: after round n of N a share (1 - rate)^(n/N) of them is left, chosen over all layers
/// together, and the rest is scored anew. What is dropped in one cut can leave a layer with a
/// single weight; gradual cuts avoid that.
///
/// Weights of two and more dimensions are scored and pruned, except those of embeddings and
/// LSTMs, which are trained in full: their outputs are not sums of products of weights.
///
/// # Guarantee
/// Data-free for a model with its initial parameters: a function of these, the layers and the
/// shape of one example. For a trained model as [`MagnitudeMask`](super::MagnitudeMask).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Synflow {
    rate: f64,
    rounds: usize,
}

impl Synflow {
    /// Keeps this share of all weights, over all layers together.
    pub fn keep(share: f64) -> Self {
        Self::prune(1.0 - share)
    }

    /// Drops this share.
    pub fn prune(rate: f64) -> Self {
        Self { rate, rounds: ROUNDS }
    }

    /// So many rounds instead of 100; 1 is the variant that scores once.
    pub fn rounds(self, rounds: usize) -> Self {
        Self { rounds, ..self }
    }

    /// The share that is dropped.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// The scores of all weights, nothing being dropped: |w| ∂R/∂|w|.
    ///
    /// # Errors
    /// As [`mask`](Self::mask), but for the settings.
    pub fn saliency(model: &Model) -> Result<Saliency> {
        let mut flow = read(model)?;
        match flow.score() {
            total if flows(total) => Ok(saliency(model, flow)),
            total => Err(no_flow(model, total)),
        }
    }

    /// The mask for a model, from its parameters and the shape of its examples. It drops
    /// ⌊rate · weights⌋, at most all but one of each tensor.
    ///
    /// If a cut leaves no way from the inputs to the outputs, every score would be 0 from then on
    /// and the order of the weights would decide: the mask is then the one before this cut, which
    /// its origin says. (One round only has no mask before; its origin says that too.)
    ///
    /// Its [`saliency`](Mask::saliency) holds the scores that the last cut was made by; those of
    /// weights that were dropped in rounds before are 0. So among the weights that were left, the
    /// smallest score that is kept is the threshold (but for the last weight of a tensor, which is
    /// kept whatever its score). A mask that was put back comes with its own scores.
    ///
    /// # Errors
    /// Kind `Setting` for a rate outside [0, 1), for no rounds or more than 10 000. Kind `Model`
    /// if the model is a module of the user's own or has no weights to prune, if no weight leads
    /// to an output or numbers overflow, and if the first of several cuts leaves no way.
    pub fn mask(&self, model: &Model) -> Result<Mask> {
        let rate = check_pruning(self.rate)?;
        if !(1..=MOST_ROUNDS).contains(&self.rounds) {
            let why = format!("weights are dropped in 1 to {MOST_ROUNDS} rounds");
            return Err(Error::setting("rounds", self.rounds, why)
                .fix("leave it out for 100 rounds, or use 1 to score once"));
        }
        let Found { flow, kept, note } = self.search(model, rate)?;
        let mut how = "Synflow".to_owned();
        if self.rounds != ROUNDS {
            how += &format!(" in {} round{}", self.rounds, if self.rounds == 1 { "" } else { "s" });
        }
        how += &format!(", {} dropped{note}", in_percent(rate));
        if !flow.unscored.is_empty() {
            how += &format!("; weights of {} not scored, all kept", flow.unscored.join(" and "));
        }
        saliency(model, flow).mask(kept, how)
    }

    /// The rounds.
    fn search(&self, model: &Model, rate: f64) -> Result<Found> {
        let mut flow = read(model)?;
        let cuts = cuts(rate, self.rounds, flow.len());
        let all = flow.scores().into_iter().map(|scores| vec![true; scores.len()]);
        let mut kept: Vec<Vec<bool>> = all.collect();
        let mut before = kept.clone();
        for (made, &drop) in cuts.iter().enumerate() {
            let total = flow.score();
            if !flows(total) {
                return match made {
                    0 => Err(no_flow(model, total)),
                    _ => self.put_back(model, &cuts[..made], before),
                };
            }
            let next = rank::keep_largest(&flow.scores(), drop, Some(&kept));
            flow.keep(&next);
            before = std::mem::replace(&mut kept, next);
        }
        // The last mask is not scored, but R alone says whether anything flows through it.
        if flows(flow.total()) {
            return Ok(Found { flow, kept, note: String::new() });
        }
        if cuts.len() == 1 {
            let note = "; nothing flows through the kept weights alone".to_owned();
            return Ok(Found { flow, kept, note });
        }
        self.put_back(model, &cuts, before)
    }

    /// The mask before the last of the cuts that were made, with its own scores.
    fn put_back(&self, model: &Model, cuts: &[usize], kept: Vec<Vec<bool>>) -> Result<Found> {
        let &[.., dropped, last] = cuts else { return Err(collapsed(self, cuts[0])) };
        if dropped == 0 {
            return Err(collapsed(self, last));
        }
        let mut flow = read(model)?;
        flow.keep(&kept);
        flow.score();
        let share = dropped as f64 / flow.len() as f64;
        let note = format!("; stopped at {share:.4}, for the next cut let nothing flow");
        Ok(Found { flow, kept, note })
    }
}

/// A mask, the network it leaves with the scores that go with the mask, and a word if something
/// was unusual.
struct Found {
    flow: Flow,
    kept: Vec<Vec<bool>>,
    note: String,
}

/// How many weights are dropped after each cut, from the exponential schedule. Rounds that would
/// drop no more than the one before change nothing, and are left out.
fn cuts(rate: f64, rounds: usize, count: usize) -> Vec<usize> {
    let dropped = |round: usize| {
        let share = (1.0 - rate).powf(round as f64 / rounds as f64);
        dropped_of(1.0 - share, count)
    };
    let mut cuts: Vec<usize> = (1..=rounds).map(dropped).collect();
    cuts.dedup();
    cuts
}

/// Whether scores can be taken from a sum of outputs.
fn flows(total: f64) -> bool {
    total > 0.0 && total.is_finite()
}

fn saliency(model: &Model, flow: Flow) -> Saliency {
    Saliency::new("Synflow", of_parameters(model), flow.into_scores())
}

/// The linear map of a model that has one, with something to prune.
fn read(model: &Model) -> Result<Flow> {
    let refused = |what: String, why: &str| {
        Err(Error::new(ErrorKind::Model, what, why)
            .fix("use RandomMask, MagnitudeMask or DpSnip instead"))
    };
    if model.network().specs().is_empty() {
        let what = format!("Synflow on {}, a module of your own", model.name());
        return refused(what, "it follows ones through a list of layers, which a module isn't");
    }
    let flow = Flow::of(model)?;
    if flow.tensors.is_empty() {
        let what = format!("Synflow on {}, which has no linear layer or convolution", model.name());
        return refused(what, "there is nothing that it could prune");
    }
    Ok(flow)
}

fn no_flow(model: &Model, total: f64) -> Error {
    let what = format!("Synflow on {}: its outputs for ones add up to {total}", model.name());
    let why = if total == 0.0 {
        "no chain of weights leads from the inputs to the outputs, so every score is 0"
    } else {
        "scores are parts of this sum: a parameter is not finite, or the network is so deep that \
         numbers overflow"
    };
    Error::new(ErrorKind::Model, what, why)
        .fix("check the model's parameters, or use RandomMask, MagnitudeMask or DpSnip instead")
}

fn collapsed(recipe: &Synflow, dropped: usize) -> Error {
    let what = format!("Synflow in {} rounds, {} dropped", recipe.rounds, recipe.rate);
    let why = format!("after the first cut, of {dropped} weights, nothing flows any more");
    Error::new(ErrorKind::Model, what, why).fix("use more rounds (100 if not said), or keep more")
}
