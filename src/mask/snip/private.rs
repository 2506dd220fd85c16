//! DP-SNIP: the sum of sensitivities, released once with noise.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;

use super::noise::Noise;
use super::sensitivities::{CHUNK, Sensitivities};
use crate::data::{Dataset, Examples};
use crate::engine::{ClipRule, GaussianNoise, Gradients, Weights};
use crate::mask::magnitude::of_parameters;
use crate::mask::rate::{check_pruning, in_percent};
use crate::mask::{Covered, Mask, Saliency};
use crate::nn::Model;
use crate::privacy::{Delta, Epsilon, Event, NoiseMultiplier};
use crate::{Error, ErrorKind, Result};

/// What one example's sensitivities are clipped to unless told otherwise: just above the typical
/// norm. Measured with fresh parameters: 0.14 to 0.26 (median 0.18) for `papernot_cnn`, on the
/// drawn glyphs as on MNIST; 0.26 to 0.6 (median 0.36) for an `mlp` with 64 hidden units.
const DEFAULT_CLIP: f64 = 0.2;

/// The share of a run's budget that the mask may cost unless told otherwise (the paper's 5 %).
const DEFAULT_SHARE: f64 = 0.05;

/// DP-SNIP (Algorithm 2 of the pre-pruning paper): keeps the weights with the largest
/// |Σᵢ clip(θ ⊙ ∂Lᵢ/∂θ) + noise|, over all examples and all layers together.
///
/// As [`pre_prune`](crate::mask::PrePrune) of a run it takes a [`share`](Self::share) of the run's
/// budget, which the noise of training is then chosen beside. On its own, `mask(&model, &data)`
/// releases a mask and charges the data's ledger. Either way the noise is fixed beforehand; the
/// more weights there are and the fewer examples, the more of the mask is chance, which
/// [`Mask::jaccard`] with [`Snip`](super::Snip)'s shows (to you: it is not private).
///
/// # Guarantee
/// One Gaussian release, of all training examples (no amplification by sampling), for data sets
/// that differ by adding or removing one example: each example's sensitivities are clipped to
/// L2 norm C, all layers jointly, and the sum gets noise of standard deviation σ C on every
/// prunable coordinate, in whatever chunks it was added up. (The paper's listing clips the
/// aggregate, which one example can move by 2 C; here σ means what the ledger says.) Ranks and
/// masks are post-processing. Assumes that the number of examples and all settings are public,
/// and that the parameters are known or accounted for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DpSnip {
    rate: f64,
    clip: f64,
    asked: Noise,
    /// The noise multiplier, once it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    settled: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
}

impl DpSnip {
    /// Keeps this share of all weights.
    pub fn keep(share: f64) -> Self {
        Self::prune(1.0 - share)
    }

    /// Drops this share of all weights.
    pub fn prune(rate: f64) -> Self {
        let asked = Noise::Share(DEFAULT_SHARE);
        Self { rate, clip: DEFAULT_CLIP, asked, settled: None, seed: None }
    }

    /// The L2 norm that one example's sensitivities are cut to, all layers jointly; 0.2 unless told
    /// otherwise, which suits small networks with fresh parameters. A smaller one changes the
    /// scores themselves, a larger one only adds noise: five times too large costs as much as an
    /// epsilon five times smaller.
    pub fn clip(self, max_norm: f64) -> Self {
        Self { clip: max_norm, ..self }
    }

    /// The share of the run's budget that the mask may cost, above 0 and below 1; 0.05 unless
    /// told otherwise. Measured in μ², which adds up: see [`Gdp`](crate::privacy::Gdp).
    pub fn share(self, share: f64) -> Self {
        self.asking(Noise::Share(share))
    }

    /// What the mask may cost by itself, at the delta of the run it is part of.
    pub fn epsilon(self, epsilon: Epsilon) -> Self {
        self.asking(Noise::Target(epsilon, None))
    }

    /// What the mask may cost by itself, for a mask of its own.
    pub fn epsilon_delta(self, epsilon: Epsilon, delta: Delta) -> Self {
        self.asking(Noise::Target(epsilon, Some(delta)))
    }

    /// The noise on the sum, as a multiple of the clip norm.
    pub fn noise_multiplier(self, noise_multiplier: f64) -> Self {
        self.asking(Noise::Multiplier(noise_multiplier))
    }

    fn asking(self, asked: Noise) -> Self {
        Self { asked, settled: None, ..self }
    }

    /// Study mode for a mask of its own: the same noise every time, from this seed. Part of a
    /// run, the run's seed counts and this one is not used.
    ///
    /// # Guarantee
    /// Only against someone who does not know the seed.
    pub fn seed(self, seed: u64) -> Self {
        Self { seed: Some(seed), ..self }
    }

    /// The share that is dropped.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// The seed of study mode, if there is one.
    pub(crate) fn study_seed(&self) -> Option<u64> {
        self.seed
    }

    /// The same, checked, with its noise multiplier settled: for a run that is to stay within
    /// `total`, or for a mask of its own.
    ///
    /// # Errors
    /// Kind `Setting` for numbers out of range; a share without a total, an epsilon without a
    /// delta; a release that costs as much as the total by itself.
    pub(crate) fn settled(self, total: Option<(Epsilon, Delta)>) -> Result<Self> {
        check_pruning(self.rate)?;
        if !(self.clip > 0.0 && self.clip.is_finite()) {
            let why = "it bounds one example's influence on the mask";
            return Err(Error::setting("DP-SNIP clip", self.clip, why)
                .fix("choose a positive number, such as 1.0"));
        }
        ClipRule::flat(self.clip).check()?;
        let sigma = self.asked.multiplier(total)?;
        if !((sigma * self.clip) as f32).is_finite() {
            let why = format!("noise multiplier {sigma} times this is beyond all f32 numbers");
            return Err(Error::setting("DP-SNIP clip", self.clip, why).fix("choose smaller ones"));
        }
        Ok(Self { settled: Some(sigma), ..self })
    }

    /// What the release costs.
    ///
    /// # Errors
    /// Kind `Setting` if the noise is not settled: a share or an epsilon of a run that is not
    /// planned yet.
    pub fn event(&self) -> Result<Event> {
        Ok(Event::gaussian(self.sigma()?))
    }

    fn sigma(&self) -> Result<f64> {
        match (self.settled, self.asked) {
            (Some(sigma), _) | (None, Noise::Multiplier(sigma)) => {
                Ok(NoiseMultiplier(sigma).check()?.0)
            }
            (None, asked) => {
                let what = format!("DP-SNIP with {asked}");
                let why = "its noise is settled together with the run it is part of";
                Err(Error::new(ErrorKind::Setting, what, why)
                    .fix("ask the plan, or give a .noise_multiplier(20.0)"))
            }
        }
    }

    /// One noisy release on the training part. The caller has charged [`event`](Self::event) to
    /// the ledger of `data` as `run`, and that no accountant covers it where `data` is not covered. `seeds` are that of the noise, which may be one that other
    /// streams of the run are made from, and that of dropout masks; both must be secret.
    ///
    /// # Errors
    /// If the noise is not settled; those of model and examples that do not fit; what reading
    /// the examples says.
    pub(crate) fn release(
        &self,
        model: &Model,
        data: &Dataset,
        seeds: ([u8; 32], u64),
        run: &str,
    ) -> Result<Mask> {
        let rate = check_pruning(self.rate)?;
        let event = self.event()?;
        let (sum, prunable) = self.noisy_sum(model, data.train(), seeds)?;
        let scores = Sensitivities::scores(&sum, &prunable, data.train().len());
        let how = format!("DP-SNIP, noise multiplier {}, clip {}", self.sigma()?, self.clip);
        let covered = match data.not_covered() {
            Some(why) => Covered::NotPrivate(why.to_owned()),
            None => {
                let (data, run) = (data.origin().to_owned(), run.to_owned());
                Covered::Released { event, data, run, assumed: self.assumed(model) }
            }
        };
        Saliency::new(&how, covered, scores).prune(rate)
    }

    /// What has to hold beside the release.
    fn assumed(&self, model: &Model) -> Option<String> {
        let known = "nobody who sees the mask knows the seed of its noise (study mode)";
        let mut all: Vec<String> = self.seed.iter().map(|_| known.to_owned()).collect();
        // Clipped sensitivities are of the parameters too: neighbours must agree on these.
        if let Covered::Assumption(what) = of_parameters(model) {
            all.push(what);
        }
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// The recipe as part of a run, whose seed counts: a mask of a seeded run is one of a study,
    /// wherever it is used later.
    pub(crate) fn within_a_run(self, seed: Option<u64>) -> Self {
        Self { seed, ..self }
    }

    /// Σᵢ clip(θ ⊙ ∂Lᵢ/∂θ) with noise on all weights that can be pruned, which the second part
    /// says: those that are zero, and have no signal, get noise as well.
    pub(super) fn noisy_sum(
        &self,
        model: &Model,
        examples: &Examples,
        (noise, dropout): ([u8; 32], u64),
    ) -> Result<(Gradients, Weights)> {
        let rule = ClipRule::flat(self.clip);
        let Sensitivities { mut sum, prunable } =
            Sensitivities::of(model, examples, &rule, dropout, CHUNK)?;
        let std = rule.noise_std(self.sigma()?);
        GaussianNoise::new(own_stream(noise)).add_to_selected(&mut sum, std, &prunable)?;
        Ok((sum, prunable))
    }
}

/// A seed for this release alone: noise that it shared with a step of training from the same
/// seed could be taken off by comparing the two.
pub(super) fn own_stream(seed: [u8; 32]) -> [u8; 32] {
    Sha256::new().chain_update(b"epsilab DP-SNIP noise").chain_update(seed).finalize().into()
}

impl fmt::Display for DpSnip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DP-SNIP, {} dropped, {}", in_percent(self.rate), self.asked)?;
        match (self.settled, self.asked) {
            (Some(_), Noise::Multiplier(_)) | (None, _) => {}
            (Some(sigma), _) => write!(f, " (noise multiplier {sigma})")?,
        }
        write!(f, ", clip {}", self.clip)
    }
}
