//! The guarantee in words: what holds, by which mechanism, and what it does not cover.

use std::fmt;

use super::digits::{Rounded, RoundedDown, Short, count, counted};
use super::event::{Single, singles};
use super::{Delta, Event, Neighbouring, NoiseMultiplier};

/// How firm a guarantee is. Every result carries one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Badge {
    /// Method and accountant are sound as implemented.
    Proved,
    /// Sound if the named assumption holds, for example that shuffling is as good as sampling.
    Assumption(String),
    /// No guarantee, for the named reason.
    None(String),
}

impl fmt::Display for Badge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Badge::Proved => f.write_str("proved"),
            Badge::Assumption(what) => write!(f, "assumption: {what}"),
            Badge::None(why) => write!(f, "none: {why}"),
        }
    }
}

/// Everything the statement says, as plain facts of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct GuaranteeFacts {
    /// The epsilon of what was truly released; infinite if there is none.
    pub epsilon: f64,
    /// The delta at which it holds.
    pub delta: Delta,
    /// No accounting of these releases can give less, where that is known.
    pub lower: Option<f64>,
    /// Name of the accountant that gave epsilon, as in [`Spent`](super::Spent): `rdp`.
    pub accountant: String,
    /// When two data sets count as neighbours.
    pub neighbouring: Neighbouring,
    /// What one record is: `one training example`.
    pub unit: String,
    /// What training truly released: sampler, noise and steps are told from the very events that
    /// the accountant and the ledger read.
    pub events: Vec<Event>,
    /// What the parameters that training started from depend on, in a sentence; none for initial
    /// ones.
    pub start: Option<String>,
    /// Which coordinates the steps were about, and what choosing them has released, in sentences;
    /// none if all of them in every step.
    pub coordinates: Option<String>,
    /// How each example's gradient is bounded, as a participle: `clipped to L2 norm 0.1`.
    pub bound: String,
    /// Standard deviation of the noise on the number of gradients that are not clipped, if every
    /// step releases it beside the sum.
    pub count_noise: Option<f64>,
    /// The number of training examples, declared public.
    pub examples: usize,
    /// The test part is public: it was not split off the data that training protects.
    pub public_test: bool,
    /// The seeds were given: noise and samples can be computed again.
    pub study_mode: bool,
    /// How firm the guarantee is.
    pub badge: Badge,
    /// What epsilon does not cover, each a short noun phrase.
    pub not_covered: Vec<String>,
}

impl GuaranteeFacts {
    /// What the epsilon of a single training run never covers.
    pub fn usual_gaps() -> Vec<String> {
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

/// Returns what a reader must know of a guarantee that says less than it seems to, a sentence each:
/// an epsilon above 10, or a delta that is not below 1 / `examples`. Empty for other guarantees.
pub fn caveats(epsilon: f64, delta: Delta, examples: usize) -> Vec<String> {
    let mut caveats = Vec::new();
    let rounded = Rounded(epsilon);
    if epsilon > 100.0 {
        caveats.push(format!(
            "epsilon {rounded} promises nothing in practice: an attacker may be certain of what a \
             training example is"
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
            count(examples)
        ));
    }
    caveats
}

/// The guarantee of a run in words, ready to be printed under a model.
///
/// Epsilon is rounded up, never down.
///
/// # Guarantee
/// The text claims no more than the facts: with [`Badge::None`] or an infinite epsilon it says that
/// nothing is guaranteed, in study mode it says that the guarantee is suspended.
pub fn statement(facts: &GuaranteeFacts) -> String {
    let epsilon = Rounded(facts.epsilon);
    let delta = facts.delta;
    let guaranteed = !matches!(facts.badge, Badge::None(_)) && facts.epsilon.is_finite();
    let mut lines = Vec::new();
    lines.push(match &facts.badge {
        Badge::None(why) => format!("Nothing is guaranteed: {why}."),
        _ if !facts.epsilon.is_finite() => {
            "Nothing is guaranteed: no finite epsilon covers this training.".to_string()
        }
        badge => {
            let condition = match badge {
                Badge::Assumption(what) => format!(" This rests on an assumption: {what}."),
                _ => String::new(),
            };
            format!(
                "This training is ({epsilon}, {delta})-differentially private. Whoever sees the \
                 trained model, and every model on the way to it, can tell two data sets that \
                 differ in {} (neighbours: {}) apart only within epsilon = {epsilon} and \
                 delta = {delta}.{condition}",
                facts.unit,
                neighbours(facts.neighbouring),
            )
        }
    });
    let accountant = accountant_in_words(&facts.accountant);
    let accountant = match facts.lower.filter(|lower| *lower > 0.0) {
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
    lines.push(format!("{}{accountant}", how(facts)));
    lines.extend(facts.start.clone());
    lines.extend(facts.coordinates.clone());
    if guaranteed {
        lines.extend(limits(facts));
    }
    lines.push(format!("Badge: {}.", facts.badge));
    lines.join("\n")
}

/// What the guarantee assumes to be public and what it does not cover. Without a guarantee there is
/// nothing to qualify.
fn limits(facts: &GuaranteeFacts) -> Vec<String> {
    let mut lines = vec![format!(
        "Treated as public: the data-set size ({}), the number and names of the classes, \
         how examples were prepared (their shape or image size, scaling, vocabulary){}, the \
         model's architecture and all settings.",
        counted(facts.examples, "example"),
        if facts.public_test { ", the test part" } else { "" },
    )];
    if facts.study_mode {
        lines.push(
            "Study mode: seeds were given, so whoever knows them can compute the noise again and \
             take it off. The guarantee holds only with seeds from the operating system."
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

/// An accountant's name as a reader should see it: `PLD (privacy loss distribution)`.
pub(crate) fn accountant_in_words(name: &str) -> String {
    let words = match name {
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
    words.to_string()
}

fn neighbours(relation: Neighbouring) -> &'static str {
    match relation {
        Neighbouring::AddOrRemoveOne => "add or remove one",
        Neighbouring::ZeroOutOne => "zero out one: its place stays, its gradient counts as zero",
        Neighbouring::ReplaceOne => "replace one: any other example in its place",
    }
}

/// How it was done: samplers and steps, clip, noise.
fn how(facts: &GuaranteeFacts) -> String {
    let Ok(releases) = singles("statement", &facts.events) else {
        // Nothing can be said of sensitivities where a release is unaccountable.
        return format!("What was released: {}.", Event::Composed { events: facts.events.clone() });
    };
    if releases.is_empty() {
        return "How: nothing was released.".into();
    }
    // Steps that differ only in their noise are told together: a schedule has hundreds.
    let mut kinds: Vec<(Single, u64)> = Vec::new();
    for (single, times) in &releases {
        let kind = single.with_noise_multiplier(1.0);
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, total)) => *total = total.saturating_add(*times),
            None => kinds.push((kind, *times)),
        }
    }
    const TOLD: usize = 4;
    let mut parts: Vec<String> =
        kinds.iter().take(TOLD).map(|(kind, times)| sampling(kind, *times)).collect();
    if kinds.len() > TOLD {
        parts.push(format!("{} more kinds of steps", kinds.len() - TOLD));
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
        Neighbouring::ReplaceOne => {
            " Replacing an example can move that sum by twice the norm; epsilon counts it so."
        }
        _ => "",
    };
    format!(
        "How: {}. In each step the gradient of every example is {}, the clipped gradients are \
         summed, and Gaussian noise with {times} times that norm as standard deviation is added to \
         the sum.{beside}{twice}",
        parts.join("; then "),
        facts.bound,
    )
}

/// One kind of step in words.
fn sampling(kind: &Single, times: u64) -> String {
    let counted = |noun| counted(times, noun);
    match *kind {
        Single::Gaussian { .. } => format!("{} on all examples", counted("step")),
        Single::Poisson { sampling_rate, .. } => format!(
            "{} with Poisson sampling at sampling rate {}",
            counted("step"),
            Short(sampling_rate)
        ),
        Single::Truncated { sampling_rate, batch_cap, .. } => format!(
            "{} with Poisson sampling at sampling rate {}, of larger samples a random part of \
             {batch_cap}",
            counted("step"),
            Short(sampling_rate)
        ),
        Single::FixedSize { examples, batch_size, .. } => format!(
            "{} on exactly {} of {} examples, drawn without replacement",
            counted("step"),
            count(batch_size),
            count(examples)
        ),
        Single::ShuffledEpoch { .. } => format!(
            "{} over shuffled, disjoint batches, each counted as one release on all examples \
             (shuffling amplifies nothing)",
            counted("epoch")
        ),
    }
}

#[cfg(test)]
mod tests;
