//! The guarantee in words: what holds, by which mechanism, and what it does not cover.

use std::fmt;

use super::digits::{RoundedDown, RoundedNearest, RoundedUp, format_count, pluralise};
use super::event::{SingleRelease, flatten_events};
use super::{Delta, Event, NeighbouringRelation, NoiseMultiplier};

/// Badge of a guarantee: proved, sound under an assumption, or none. Every result carries one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Badge {
    /// Method and accountant are sound as implemented.
    Proved,
    /// Sound if the named assumption holds, for example that shuffling is as good as sampling.
    Conditional(String),
    /// No guarantee, for the named reason.
    NoGuarantee(String),
}

impl fmt::Display for Badge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Badge::Proved => f.write_str("proved"),
            Badge::Conditional(what) => write!(f, "assumption: {what}"),
            Badge::NoGuarantee(why) => write!(f, "none: {why}"),
        }
    }
}

/// Facts of a run from which its statement is written.
#[derive(Clone, Debug, PartialEq)]
pub struct GuaranteeFacts {
    /// The epsilon of what was truly released; infinite if there is none.
    pub epsilon: f64,
    /// The delta at which it holds.
    pub delta: Delta,
    /// Lower bound on the epsilon of these releases by any accounting, where one is known.
    pub lower_bound: Option<f64>,
    /// Name of the accountant that gave epsilon, as in [`PrivacyCost`](super::PrivacyCost): `rdp`.
    pub accountant: String,
    /// The neighbouring relation of data sets.
    pub neighbouring: NeighbouringRelation,
    /// Unit of privacy that one record stands for: `one training example`.
    pub unit: String,
    /// Events that training truly released: sampler, noise and steps are described from the same
    /// events that the accountant and the ledger read.
    pub events: Vec<Event>,
    /// Sentence on what the parameters that training started from depend on; none for initial
    /// ones.
    pub initialisation: Option<String>,
    /// Sentences on the coordinates that the steps updated, and on the releases that chose them;
    /// none if all coordinates were in every step.
    pub coordinates: Option<String>,
    /// Bound on each example's gradient, as a participle: `clipped to L2 norm 0.1`.
    pub clipping: String,
    /// Standard deviation of the noise on the number of gradients that are not clipped, if every
    /// step releases it beside the sum.
    pub count_noise: Option<f64>,
    /// The number of training examples, declared public.
    pub examples: usize,
    /// Whether the test part is public: it was not split off the data that training protects.
    pub public_test: bool,
    /// Whether the seeds were given: noise and samples can be computed again.
    pub study_mode: bool,
    /// Badge of the guarantee.
    pub badge: Badge,
    /// Items that epsilon does not cover, each a short noun phrase.
    pub not_covered: Vec<String>,
}

impl GuaranteeFacts {
    /// Returns the items that the epsilon of a single training run never covers.
    pub fn default_exclusions() -> Vec<String> {
        [
            "the choice of settings by looking at other runs on the same data",
            "whatever was computed from the examples without noise and shown: training loss and \
             accuracy, gradient norms, saliencies, confusion tables, predictions, the examples \
             themselves",
            "other runs on the same data (they add up in its ledger)",
            "the rounding of sums and noise to 32-bit floating-point numbers",
        ]
        .map(String::from)
        .to_vec()
    }
}

/// Returns caveats of a weak guarantee, one phrase each: for an epsilon above 10, and for a delta
/// that is not below 1 / `examples`. Empty for other guarantees.
pub fn caveats(epsilon: f64, delta: Delta, examples: usize) -> Vec<String> {
    let mut caveats = Vec::new();
    let rounded = RoundedUp(epsilon);
    if epsilon > 100.0 {
        caveats.push(format!(
            "epsilon {rounded} guarantees nothing in practice: an attacker may identify a training \
             example with certainty"
        ));
    } else if epsilon > 10.0 {
        caveats.push(format!(
            "epsilon {rounded} is a weak guarantee: an attacker's odds may grow by a factor of \
             e^epsilon"
        ));
    }
    if delta.0 * examples as f64 >= 1.0 {
        caveats.push(format!(
            "delta {delta} is not below 1 / {}: a mechanism that publishes whole examples could \
             satisfy it",
            format_count(examples)
        ));
    }
    caveats
}

/// Returns the guarantee of a run in words, ready to be printed under a model.
///
/// Epsilon is rounded up, never down.
///
/// # Guarantee
/// The text claims no more than the facts: with [`Badge::NoGuarantee`] or an infinite epsilon it
/// says that nothing is guaranteed, in study mode it says that the guarantee is suspended.
pub fn statement(facts: &GuaranteeFacts) -> String {
    let epsilon = RoundedUp(facts.epsilon);
    let delta = facts.delta;
    let guaranteed = !matches!(facts.badge, Badge::NoGuarantee(_)) && facts.epsilon.is_finite();
    let mut lines = Vec::new();
    lines.push(match &facts.badge {
        Badge::NoGuarantee(why) => format!("Nothing is guaranteed: {why}."),
        _ if !facts.epsilon.is_finite() => {
            "Nothing is guaranteed: no finite epsilon covers this training.".to_string()
        }
        badge => {
            let condition = match badge {
                Badge::Conditional(what) => format!(" This rests on an assumption: {what}."),
                _ => String::new(),
            };
            format!(
                "This training is ({epsilon}, {delta})-differentially private. Anyone who sees the \
                 trained model, and every model on the way to it, can tell two data sets that \
                 differ in {} (neighbours: {}) apart only within epsilon = {epsilon} and delta = \
                 {delta}.{condition}",
                facts.unit,
                neighbours(facts.neighbouring),
            )
        }
    });
    let accountant = describe_accountant(&facts.accountant);
    let accountant = match facts.lower_bound.filter(|lower| *lower > 0.0) {
        _ if !guaranteed => String::new(),
        None => format!(" Accountant: {accountant}."),
        Some(lower) => format!(
            " Accountant: {accountant}; no accounting of the same releases can show less than \
             epsilon = {}.",
            RoundedDown(lower)
        ),
    };
    if guaranteed {
        let caveats = caveats(facts.epsilon, facts.delta, facts.examples);
        lines.extend(caveats.iter().map(|caveat| format!("Caveat: {caveat}.")));
    }
    lines.push(format!("{}{accountant}", describe_mechanism(facts)));
    lines.extend(facts.initialisation.clone());
    lines.extend(facts.coordinates.clone());
    if guaranteed {
        lines.extend(assumptions_and_exclusions(facts));
    }
    lines.push(format!("Badge: {}.", facts.badge));
    lines.join("\n")
}

/// Returns the limits of the guarantee: what it assumes to be public and what it does not cover.
/// Without a guarantee there is nothing to qualify.
fn assumptions_and_exclusions(facts: &GuaranteeFacts) -> Vec<String> {
    let mut lines = vec![format!(
        "Treated as public: the data-set size ({}), the number and names of the classes, \
         how examples were prepared (their shape or image size, scaling, vocabulary){}, the \
         model's architecture and all settings.",
        pluralise(facts.examples, "example"),
        if facts.public_test { ", the test part" } else { "" },
    )];
    if facts.study_mode {
        lines.push(
            "Study mode: seeds were given, so anyone who knows them can recompute the noise and \
             subtract it. The guarantee holds only with seeds from the operating system."
                .to_string(),
        );
    }
    let mut not_covered = facts.not_covered.clone();
    if !facts.public_test {
        not_covered.push("accuracy on a test part that was split off the private data".into());
    }
    if !not_covered.is_empty() {
        lines.push(format!("Not covered by epsilon: {}.", not_covered.join("; ")));
    }
    lines
}

/// Returns an accountant's name as a reader should see it: `PLD (privacy loss distribution)`.
pub(crate) fn describe_accountant(name: &str) -> String {
    let description = match name {
        "pld" => "PLD (privacy loss distribution)",
        "rdp" => "RDP (Rényi differential privacy)",
        "gdp" => "GDP (Gaussian differential privacy), exact",
        "gdp_clt" => "GDP CLT (approximate: may be below or above)",
        "zcdp" => "zCDP (zero-concentrated differential privacy)",
        "tcdp" => "tCDP (truncated concentrated differential privacy)",
        // The headline's own name stands only where there was nothing to account.
        "headline" => "none needed, nothing was released",
        other => other,
    };
    description.to_string()
}

fn neighbours(relation: NeighbouringRelation) -> &'static str {
    match relation {
        NeighbouringRelation::AddOrRemoveOne => "add or remove one",
        NeighbouringRelation::ZeroOutOne => {
            "zero out one: its place stays, its gradient counts as zero"
        }
        NeighbouringRelation::ReplaceOne => "replace one: any other example in its place",
    }
}

/// Describes the mechanism: samplers and steps, clip, noise.
fn describe_mechanism(facts: &GuaranteeFacts) -> String {
    let Ok(releases) = flatten_events("statement", &facts.events) else {
        // Nothing can be said of sensitivities where a release is unaccountable.
        return format!("What was released: {}.", Event::Composed { events: facts.events.clone() });
    };
    if releases.is_empty() {
        return "How: nothing was released.".into();
    }
    // Steps that differ only in their noise are told together: a schedule has hundreds.
    let mut kinds: Vec<(SingleRelease, u64)> = Vec::new();
    for (single, times) in &releases {
        let kind = single.with_noise_multiplier(1.0);
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, total)) => *total = total.saturating_add(*times),
            None => kinds.push((kind, *times)),
        }
    }
    const MAX_LISTED_KINDS: usize = 4;
    let mut parts: Vec<String> = kinds
        .iter()
        .take(MAX_LISTED_KINDS)
        .map(|(kind, times)| describe_steps(kind, *times))
        .collect();
    if kinds.len() > MAX_LISTED_KINDS {
        parts.push(format!("{} more kinds of steps", kinds.len() - MAX_LISTED_KINDS));
    }
    let sigmas = || releases.iter().map(|(single, _)| single.noise_multiplier());
    let (least, most) = (sigmas().fold(f64::INFINITY, f64::min), sigmas().fold(0.0, f64::max));
    let range = |least: f64, most: f64| {
        if least < most {
            format!("between {} and {}", RoundedDown(least), RoundedDown(most))
        } else {
            RoundedDown(least).to_string()
        }
    };
    let of_sum = |sigma: f64| match facts.count_noise {
        Some(noise) => NoiseMultiplier(sigma).beside_count(noise).map_or(sigma, |sum| sum.0),
        None => sigma,
    };
    let times = range(of_sum(least), of_sum(most));
    let beside = facts.count_noise.map_or_else(String::new, |noise| {
        format!(
            " The number of gradients that are not clipped is released too, with noise of standard \
             deviation {}; sum and count together have noise multiplier {}.",
            RoundedDown(noise),
            range(least, most)
        )
    });
    let twice = match facts.neighbouring {
        NeighbouringRelation::ReplaceOne => {
            " Replacing an example can move that sum by twice the norm; epsilon counts it so."
        }
        _ => "",
    };
    format!(
        "How: {}. In each step the gradient of every example is {}, the clipped gradients are \
         summed, and Gaussian noise with {times} times that norm as standard deviation is added to \
         the sum.{beside}{twice}",
        parts.join("; then "),
        facts.clipping,
    )
}

/// Describes one kind of step in words.
fn describe_steps(kind: &SingleRelease, times: u64) -> String {
    let counted = |noun| pluralise(times, noun);
    match *kind {
        SingleRelease::Gaussian { .. } => format!("{} on all examples", counted("step")),
        SingleRelease::Poisson { sampling_rate, .. } => format!(
            "{} with Poisson sampling at sampling rate {}",
            counted("step"),
            RoundedNearest(sampling_rate)
        ),
        SingleRelease::Truncated { sampling_rate, batch_cap, .. } => format!(
            "{} with Poisson sampling at sampling rate {}; batches larger than {batch_cap} are cut \
             to a uniformly random subset of that size",
            counted("step"),
            RoundedNearest(sampling_rate)
        ),
        SingleRelease::FixedSize { examples, batch_size, .. } => format!(
            "{} on exactly {} of {} examples, drawn without replacement",
            counted("step"),
            format_count(batch_size),
            format_count(examples)
        ),
        SingleRelease::ShuffledEpoch { .. } => format!(
            "{} over shuffled, disjoint batches, each counted as one release on all examples \
             (shuffling amplifies nothing)",
            counted("epoch")
        ),
    }
}

#[cfg(test)]
mod tests;
