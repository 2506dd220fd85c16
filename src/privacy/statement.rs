//! The guarantee in words: what holds, by which mechanism, and what it does not cover.

use std::fmt;

use super::accountant::Rounded;
use super::units::Readable;
use super::{Delta, Neighbouring, NoiseMultiplier, SamplingRate};

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
    /// The accountant that gave epsilon, for example `rdp`.
    pub accountant: String,
    /// When two data sets count as neighbours.
    pub neighbouring: Neighbouring,
    /// What one record is: `one training example`.
    pub unit: String,
    /// How examples come into a step: `Poisson sampling`.
    pub sampler: String,
    /// Probability of each example to join a step.
    pub sampling_rate: SamplingRate,
    /// Standard deviation of the noise on the sum over the clip norm.
    pub noise_multiplier: NoiseMultiplier,
    /// The L2 norm to which each example's gradient is clipped.
    pub clip: f64,
    /// The steps truly taken.
    pub steps: u64,
    /// The number of training examples, declared public.
    pub examples: usize,
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
            "training loss, training accuracy and gradient norms that were shown",
            "other runs on the same data (they add up in its ledger)",
            "the rounding of the noise to 32-bit floating-point numbers",
        ]
        .map(String::from)
        .to_vec()
    }
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
                facts.unit, facts.neighbouring,
            )
        }
    });
    lines.push(format!(
        "How: {} step{} with {} at sampling rate {}. In each step the gradient of every example is \
         clipped to L2 norm {}, the clipped gradients are summed, and Gaussian noise with {} times \
         that norm as standard deviation is added to the sum. Accountant: {}.",
        facts.steps,
        if facts.steps == 1 { "" } else { "s" },
        facts.sampler,
        short(facts.sampling_rate.0),
        Readable(facts.clip),
        down(facts.noise_multiplier.0),
        facts.accountant,
    ));
    lines.push(format!(
        "Treated as public: the data-set size ({} examples), the model's architecture and all \
         settings.",
        facts.examples
    ));
    if facts.study_mode {
        lines.push(
            "Study mode: seeds were given, so whoever knows them can compute the noise again and \
             take it off. The guarantee holds only with seeds from the operating system."
                .to_string(),
        );
    }
    if !facts.not_covered.is_empty() {
        lines.push(format!("Not covered by epsilon: {}.", facts.not_covered.join("; ")));
    }
    lines.push(format!("Badge: {}.", facts.badge));
    lines.join("\n")
}

/// Four significant digits: `0.03413`, `1.72`.
fn short(value: f64) -> String {
    let rounded = format!("{value:.3e}").parse().unwrap_or(value);
    Readable(rounded).to_string()
}

/// Like [`short`], never rounded up: the statement must not claim more noise than there was.
fn down(value: f64) -> String {
    let digits = 3 - value.log10().floor() as i32;
    let unit = 10f64.powi(-digits);
    // The tiny step forward keeps 1.72 at 1.72: (1.72 / 0.001).floor() may be 1719.
    short((value / unit * (1.0 + 1e-12)).floor() * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> GuaranteeFacts {
        GuaranteeFacts {
            epsilon: 2.99941,
            delta: Delta(1e-5),
            accountant: "rdp".into(),
            neighbouring: Neighbouring::AddOrRemoveOne,
            unit: "one training example".into(),
            sampler: "Poisson sampling".into(),
            sampling_rate: SamplingRate(2048.0 / 60_000.0),
            noise_multiplier: NoiseMultiplier(1.72),
            clip: 0.1,
            steps: 879,
            examples: 60_000,
            study_mode: false,
            badge: Badge::Proved,
            not_covered: GuaranteeFacts::usual_gaps(),
        }
    }

    #[test]
    fn the_statement_reads_word_for_word() {
        assert_eq!(
            statement(&facts()),
            "This training is (3, 1e-5)-differentially private. Whoever sees the trained model, \
             and every model on the way to it, can tell two data sets that differ in one training \
             example (neighbours: add or remove one) apart only within epsilon = 3 and \
             delta = 1e-5.\n\
             How: 879 steps with Poisson sampling at sampling rate 0.03413. In each step the \
             gradient of every example is clipped to L2 norm 0.1, the clipped gradients are \
             summed, and Gaussian noise with 1.72 times that norm as standard deviation is added \
             to the sum. Accountant: rdp.\n\
             Treated as public: the data-set size (60000 examples), the model's architecture and \
             all settings.\n\
             Not covered by epsilon: the choice of settings by looking at other runs on the same \
             data; training loss, training accuracy and gradient norms that were shown; other \
             runs on the same data (they add up in its ledger); the rounding of the noise to \
             32-bit floating-point numbers.\n\
             Badge: proved."
        );
    }

    #[test]
    fn no_more_noise_is_claimed_than_there_was() {
        assert_eq!(
            (down(1.72), down(0.94248), down(12.0)),
            ("1.72".into(), "0.9424".into(), "12".into())
        );
        let said =
            statement(&GuaranteeFacts { noise_multiplier: NoiseMultiplier(1.7199), ..facts() });
        assert!(said.contains("1.719 times"), "{said}");
    }

    #[test]
    fn study_mode_suspends_the_guarantee_aloud() {
        let said = statement(&GuaranteeFacts { study_mode: true, ..facts() });
        assert!(said.contains("\nStudy mode: seeds were given"), "{said}");
        assert!(!statement(&facts()).contains("Study mode"));
    }

    #[test]
    fn without_a_guarantee_no_epsilon_is_claimed() {
        let badge = Badge::None("the noise scale comes from the private batch".into());
        let broken = statement(&GuaranteeFacts { badge, ..facts() });
        assert!(broken.starts_with("Nothing is guaranteed: the noise scale"), "{broken}");
        let infinite = statement(&GuaranteeFacts { epsilon: f64::INFINITY, ..facts() });
        assert!(infinite.starts_with("Nothing is guaranteed: no finite epsilon"), "{infinite}");
        for said in [broken, infinite] {
            assert!(!said.contains("differentially private"), "{said}");
        }
    }

    #[test]
    fn an_assumption_stands_in_the_claim_itself() {
        let badge = Badge::Assumption("shuffling is as private as Poisson sampling".into());
        let said = statement(&GuaranteeFacts { badge, ..facts() });
        let claim = said.lines().next().unwrap();
        assert!(claim.ends_with("assumption: shuffling is as private as Poisson sampling."));
        assert!(said.ends_with("Badge: assumption: shuffling is as private as Poisson sampling."));
    }
}
