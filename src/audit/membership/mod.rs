//! Black-box membership inference on a finished model: loss threshold and LiRA. Begin with
//! `loss_threshold_attack`; `lira_attack` also needs shadow models. Both give a `MembershipReport`,
//! which is evidence about average examples and no bound on epsilon.

use std::fmt;

use serde::Serialize;

use super::statistics::{CONFIDENCE, above, clopper_pearson_lower, clopper_pearson_upper, sorted};
use crate::data::Examples;
use crate::nn::Model;
use crate::train::Run;
use crate::{Error, ErrorKind, Result};

/// Quantile of the normal distribution for a two-sided interval of 95 %.
const NORMAL_QUANTILE: f64 = 1.959_964;

/// A model, or a run that ended with one.
pub trait TrainedModel {
    /// Returns the model to attack.
    fn trained_model(&self) -> Model;
}

impl TrainedModel for Model {
    fn trained_model(&self) -> Model {
        self.clone()
    }
}

impl TrainedModel for Run {
    fn trained_model(&self) -> Model {
        self.model()
    }
}

/// The success of a black-box membership inference attack on one model.
///
/// Weak empirical evidence: the attack sees only losses of the final model, on average over
/// examples. A small advantage says nothing about the worst example or about stronger attacks, and
/// it is no bound on epsilon.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MembershipReport {
    /// Name of the attack.
    pub attack: &'static str,
    /// Number of members.
    pub members: usize,
    /// Number of non-members.
    pub non_members: usize,
    /// Area under the ROC curve: the probability that a member scores higher than a non-member,
    /// where ties count half.
    pub auc: f64,
    /// Interval of 95 % for `auc` (DeLong, DeLong, Clarke-Pearson, 1988).
    pub auc_interval: (f64, f64),
    /// TPR - FPR at a threshold that one half of the examples chooses, measured on the other half.
    pub advantage: f64,
    /// Interval of at least 95 % for `advantage` (Clopper and Pearson, 1934).
    pub advantage_interval: (f64, f64),
    /// (FPR, TPR) at every threshold, from (0, 0) to (1, 1).
    #[serde(skip)]
    pub roc_curve: Vec<(f64, f64)>,
}

/// Runs the loss-threshold attack (Yeom, Giacomelli, Fredrikson, Jha, 2018): examples with a
/// smaller loss are guessed to be members.
///
/// # Errors
/// `Model` if the model can't classify the examples; `MissingData` with fewer than four members or
/// non-members.
pub fn loss_threshold_attack(
    finished: &impl TrainedModel,
    members: &Examples,
    non_members: &Examples,
) -> Result<MembershipReport> {
    let model = finished.trained_model();
    let scores = |examples: &Examples| -> Result<Vec<f64>> {
        Ok(model.losses(examples)?.iter().map(|&loss| -f64::from(loss)).collect())
    };
    MembershipReport::new("loss threshold", &scores(members)?, &scores(non_members)?)
}

/// A shadow model: trained as the attacked model, on a part of the attacker's examples.
pub struct ShadowModel {
    /// The model.
    pub model: Model,
    /// Whether each example, members first and then non-members, was in its training part.
    pub is_member: Vec<bool>,
}

/// Runs the likelihood-ratio attack (LiRA; Carlini et al., 2022, algorithm 1) with shadow models:
/// for each example, the logit of its probability is compared with normal distributions fitted to
/// the shadow models with and without it. The variances are common to all examples: one for the
/// shadow models with an example, one for those without it.
///
/// # Errors
/// `Model` if a model can't classify the examples; `MissingData` with fewer than four members or
/// non-members; `Setting` unless every example is in some shadow model and missing in another.
pub fn lira_attack(
    finished: &impl TrainedModel,
    shadows: &[ShadowModel],
    members: &Examples,
    non_members: &Examples,
) -> Result<MembershipReport> {
    let logits = |model: &Model| -> Result<Vec<f64>> {
        let mut losses = model.losses(members)?;
        losses.extend(model.losses(non_members)?);
        Ok(losses.iter().map(|&loss| logit(f64::from(loss))).collect())
    };
    let target = logits(&finished.trained_model())?;
    let of_shadows: Vec<Vec<f64>> =
        shadows.iter().map(|shadow| logits(&shadow.model)).collect::<Result<_>>()?;
    if let Some(shadow) = shadows.iter().find(|shadow| shadow.is_member.len() != target.len()) {
        let why = format!("there are {} examples", target.len());
        return Err(Error::setting("is_in", format!("{} flags", shadow.is_member.len()), why)
            .fix("give one flag per example, members first"));
    }
    // Means per example; one variance for all, of each kind.
    let kind = |is_in: bool| -> Result<(Vec<f64>, f64)> {
        let mut means = Vec::with_capacity(target.len());
        let (mut squares, mut freedom) = (0.0, 0.0);
        for i in 0..target.len() {
            let chosen = shadows.iter().zip(&of_shadows).filter(|(s, _)| s.is_member[i] == is_in);
            let values: Vec<f64> = chosen.map(|(_, logits)| logits[i]).collect();
            if values.is_empty() {
                let what = format!("{} shadow models", shadows.len());
                let why = "each example must be in the training set of one model and missing from \
                           that of another";
                return Err(Error::new(ErrorKind::Setting, what, why)
                    .fix("train more shadow models, each on a random half of the examples"));
            }
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            squares += values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
            freedom += values.len() as f64 - 1.0;
            means.push(mean);
        }
        // With one model per kind the variance is unknown; a common one decides by distances.
        Ok((means, if freedom > 0.0 { (squares / freedom).max(1e-12) } else { 1.0 }))
    };
    let ((within, variance_in), (without, variance_out)) = (kind(true)?, kind(false)?);
    let density = |x: f64, mean: f64, variance: f64| {
        -(x - mean).powi(2) / (2.0 * variance) - 0.5 * variance.ln()
    };
    let scores: Vec<f64> = (0..target.len())
        .map(|i| {
            density(target[i], within[i], variance_in)
                - density(target[i], without[i], variance_out)
        })
        .collect();
    let (members, non_members) = scores.split_at(members.len());
    MembershipReport::new("LiRA", members, non_members)
}

/// Computes ln(p / (1 - p)) of the probability p = e^-loss of the true class.
fn logit(loss: f64) -> f64 {
    let loss = loss.clamp(1e-7, 700.0);
    -loss - (-(-loss).exp_m1()).ln()
}

impl MembershipReport {
    /// Creates the report of an attack by scores that are larger for members.
    fn new(attack: &'static str, members: &[f64], non_members: &[f64]) -> Result<Self> {
        if members.len().min(non_members.len()) < 4 {
            let what = format!("{} members and {} non-members", members.len(), non_members.len());
            return Err(Error::new(
                ErrorKind::MissingData,
                what,
                "true and false positive rates need at least four of each",
            )
            .fix("give more examples"));
        }
        let (auc, error) = auc(members, non_members);
        let (advantage, advantage_interval) = advantage(members, non_members);
        let within = |value: f64| value.clamp(0.0, 1.0);
        let reach = NORMAL_QUANTILE * error;
        Ok(Self {
            attack,
            members: members.len(),
            non_members: non_members.len(),
            auc,
            auc_interval: (within(auc - reach), within(auc + reach)),
            advantage,
            advantage_interval,
            roc_curve: curve(members, non_members),
        })
    }
}

/// Computes the area under the ROC curve and its standard error.
fn auc(members: &[f64], non_members: &[f64]) -> (f64, f64) {
    // The fraction of the others below each value; ties count half.
    let below = |values: &[f64], others: &[f64]| -> Vec<f64> {
        let others = sorted(others, 1.0);
        let rank = |&value: &f64| {
            let less = others.partition_point(|&other| other < value);
            let not_more = others.partition_point(|&other| other <= value);
            (less + not_more) as f64 / 2.0 / others.len() as f64
        };
        values.iter().map(rank).collect()
    };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let variance = |values: &[f64]| {
        let mean = mean(values);
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        squares / (values.len() - 1) as f64
    };
    let (of_members, of_others) = (below(members, non_members), below(non_members, members));
    let error = variance(&of_members) / members.len() as f64
        + variance(&of_others) / non_members.len() as f64;
    (mean(&of_members), error.sqrt())
}

/// Computes TPR - FPR with its interval: the examples with even numbers choose the threshold.
fn advantage(members: &[f64], non_members: &[f64]) -> (f64, (f64, f64)) {
    let part = |values: &[f64], odd: usize| -> Vec<f64> {
        values.iter().skip(odd).step_by(2).copied().collect()
    };
    let [choosing, measuring] =
        [0, 1].map(|odd| (sorted(&part(members, odd), 1.0), sorted(&part(non_members, odd), 1.0)));
    let rate = |values: &[f64], threshold| above(values, threshold) as f64 / values.len() as f64;
    let gap = |threshold: f64| rate(&choosing.0, threshold) - rate(&choosing.1, threshold);
    let all: Vec<f64> = choosing.0.iter().chain(&choosing.1).copied().collect();
    let between = sorted(&all, 1.0);
    let thresholds = between.windows(2).map(|pair| 0.5 * (pair[0] + pair[1]));
    let best = thresholds.max_by(|&a, &b| gap(a).total_cmp(&gap(b))).unwrap_or(0.0);
    let (members, others) = &measuring;
    let alpha = (1.0 - CONFIDENCE) / 4.0;
    let bounds = |values: &[f64]| {
        let (hits, n) = (above(values, best), values.len());
        (clopper_pearson_lower(hits, n, alpha), clopper_pearson_upper(hits, n, alpha))
    };
    let ((low, high), (other_low, other_high)) = (bounds(members), bounds(others));
    (rate(members, best) - rate(others, best), (low - other_high, high - other_low))
}

fn curve(members: &[f64], non_members: &[f64]) -> Vec<(f64, f64)> {
    let (members, others) = (sorted(members, 1.0), sorted(non_members, 1.0));
    let mut thresholds: Vec<f64> = members.iter().chain(&others).copied().collect();
    thresholds.sort_by(|a, b| b.total_cmp(a));
    thresholds.dedup();
    let rate = |values: &[f64], threshold: f64| {
        (values.len() - values.partition_point(|&value| value < threshold)) as f64
            / values.len() as f64
    };
    let points = thresholds.iter().map(|&at| (rate(&others, at), rate(&members, at)));
    [(0.0, 0.0)].into_iter().chain(points).collect()
}

impl fmt::Display for MembershipReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} attack on {} members and {} non-members: area under the curve {:.3} ({:.3} to \
             {:.3}), advantage {:.3} ({:.3} to {:.3}). Weak empirical evidence: a small advantage \
             says nothing about stronger attacks or the worst example.",
            self.attack,
            self.members,
            self.non_members,
            self.auc,
            self.auc_interval.0,
            self.auc_interval.1,
            self.advantage,
            self.advantage_interval.0,
            self.advantage_interval.1,
        )
    }
}

#[cfg(test)]
mod tests;
