//! DP-SNIP: SNIP on one noisy release of the sum of clipped connection sensitivities.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;

use super::noise_spec::NoiseSpec;
use super::sensitivities::{CHUNK, ConnectionSensitivities};
use crate::data::{Dataset, Examples};
use crate::engine::{ClipRule, CoordinateWeights, GaussianNoise, Gradients};
use crate::mask::magnitude::privacy_of_parameters;
use crate::mask::rate::{check_pruning, in_percent};
use crate::mask::{Mask, PrivacyStatus, Saliency};
use crate::nn::Model;
use crate::privacy::{Delta, Epsilon, Event, NoiseMultiplier};
use crate::{Error, ErrorKind, Result};

/// Default clip norm, just above the typical norm of one example's sensitivities.
///
/// Measured with initial parameters: 0.14 to 0.26 (median 0.18) for `papernot_cnn`, both on the
/// drawn glyphs and on MNIST; 0.26 to 0.6 (median 0.36) for an `mlp` with 64 hidden units.
const DEFAULT_CLIP: f64 = 0.2;

/// Default fraction of a run's budget that the mask costs. The pre-pruning paper says only that it
/// is small (appendix D).
const DEFAULT_BUDGET_FRACTION: f64 = 0.05;

/// DP-SNIP (Algorithm 2 of the pre-pruning paper): keeps the weights with the largest
/// |Σᵢ clip(θ ⊙ ∂Lᵢ/∂θ) + noise|, summed over all examples and ranked over all layers together.
///
/// As the [`pre_prune`](crate::mask::PrePrune) method of a run, it takes a
/// [fraction of the run's budget](Self::budget_fraction); the noise of training is calibrated to
/// the rest. Outside a run, `mask(&model, &data)` releases a mask and charges the ledger of the
/// data set.
///
/// The mask is the more random, the more weights and the fewer examples there are.
/// [`Mask::jaccard`] with the mask of [`Snip`](super::Snip) measures this, but is not private.
///
/// ```
/// use epsilab::prelude::*;
/// let method = DpSgd::new().target(Epsilon(3.0), Delta(1e-5)).pre_prune(DpSnip::keep(0.5));
/// let plan = method.plan_for(&data::Population::with_size(10_000))?;
/// // The target is for the mask and all steps together.
/// assert!(plan.epsilon_after(plan.steps())?.is_some_and(|epsilon| epsilon <= 3.0));
/// assert_eq!(DpSnip::keep(0.5).noise_multiplier(20.0).event()?, Event::gaussian(20.0));
/// # Ok::<(), Error>(())
/// ```
///
/// # Guarantee
/// One Gaussian mechanism on all training examples, without amplification by sampling, for
/// add-or-remove-one neighbours. The sensitivities of one example are clipped to L2 norm C over all
/// layers jointly, so the sum has sensitivity C, and every prunable coordinate gets noise of
/// standard deviation σ C. Ranking and masks are post-processing.
///
/// The paper's listing clips the aggregate instead, which one example can move by 2 C.
///
/// Assumes that the number of examples and all settings are public, and that the parameters are
/// public or accounted for.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DpSnip {
    pub(in crate::mask) rate: f64,
    clip: f64,
    #[serde(rename = "asked")]
    requested: NoiseSpec,
    /// Calibrated noise multiplier; `None` before the calibration.
    #[serde(default, rename = "settled", skip_serializing_if = "Option::is_none")]
    calibrated: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
}

impl DpSnip {
    /// Keeps this fraction of all weights.
    pub fn keep(fraction: f64) -> Self {
        Self::prune(1.0 - fraction)
    }

    /// Drops this fraction of all weights.
    pub fn prune(rate: f64) -> Self {
        let requested = NoiseSpec::BudgetFraction(DEFAULT_BUDGET_FRACTION);
        Self { rate, clip: DEFAULT_CLIP, requested, calibrated: None, seed: None }
    }

    /// Sets the clip norm of one example's sensitivities, all layers jointly. Default 0.2,
    /// which suits small networks with initial parameters.
    ///
    /// A smaller norm biases the scores; a larger one only adds noise. A norm five times too large
    /// costs as much as an epsilon five times smaller.
    pub fn clip(self, max_norm: f64) -> Self {
        Self { clip: max_norm, ..self }
    }

    /// Sets the fraction of the run's budget that the mask costs, above 0 and below 1. Default
    /// 0.05.
    ///
    /// It is measured in μ², which composition adds; see [`Gdp`](crate::privacy::Gdp).
    pub fn budget_fraction(self, fraction: f64) -> Self {
        self.requesting(NoiseSpec::BudgetFraction(fraction))
    }

    /// Sets the epsilon of the mask alone, at the delta of its run.
    pub fn epsilon(self, epsilon: Epsilon) -> Self {
        self.requesting(NoiseSpec::Target(epsilon, None))
    }

    /// Sets the epsilon and delta of the mask alone, for a mask outside a run.
    pub fn epsilon_delta(self, epsilon: Epsilon, delta: Delta) -> Self {
        self.requesting(NoiseSpec::Target(epsilon, Some(delta)))
    }

    /// Sets the noise multiplier σ: the noise has standard deviation σ C.
    pub fn noise_multiplier(self, noise_multiplier: f64) -> Self {
        self.requesting(NoiseSpec::Multiplier(noise_multiplier))
    }

    fn requesting(self, requested: NoiseSpec) -> Self {
        Self { requested, calibrated: None, ..self }
    }

    /// Sets the seed of a release (study mode) for a mask outside a run: the same noise every
    /// time. Within a run, the seed of the run replaces this one.
    ///
    /// # Guarantee
    /// Holds only against someone who does not know the seed.
    pub fn seed(self, seed: u64) -> Self {
        Self { seed: Some(seed), ..self }
    }

    /// Returns the seed of study mode, if set.
    pub(crate) fn study_seed(&self) -> Option<u64> {
        self.seed
    }

    /// Returns the same settings, checked, with the noise multiplier calibrated for a run that
    /// stays within `total`, or for a mask outside a run.
    ///
    /// # Errors
    /// `Setting` if a value is out of range, a budget fraction has no total, an epsilon has no
    /// delta, or the release alone costs at least the total.
    pub(crate) fn calibrated(self, total: Option<(Epsilon, Delta)>) -> Result<Self> {
        self.check_clip()?;
        let sigma = self.requested.resolve(total)?;
        let calibrated = Self { calibrated: Some(sigma), ..self };
        calibrated.check()?;
        Ok(calibrated)
    }

    /// Checks rate, clip and noise multiplier.
    ///
    /// # Errors
    /// `Setting` if a value is out of range or the noise is not calibrated.
    pub(crate) fn check(&self) -> Result<()> {
        self.check_clip()?;
        let sigma = self.sigma()?;
        if ((sigma * self.clip) as f32).is_finite() {
            return Ok(());
        }
        let why =
            format!("the product with the noise multiplier {sigma} is beyond the range of f32");
        Err(Error::setting("DP-SNIP clip", self.clip, why)
            .fix("choose a smaller clip or noise multiplier"))
    }

    fn check_clip(&self) -> Result<()> {
        check_pruning(self.rate)?;
        if !(self.clip > 0.0 && self.clip.is_finite()) {
            let why = "the clip norm, which bounds one example's influence on the mask, must be \
                       positive";
            return Err(Error::setting("DP-SNIP clip", self.clip, why)
                .fix("choose a positive number, such as 0.2"));
        }
        ClipRule::flat(self.clip).check()
    }

    /// Returns the privacy event of the release.
    ///
    /// # Errors
    /// `Setting` if the noise is not calibrated: a budget fraction or an epsilon without a planned
    /// run.
    ///
    /// # Guarantee
    /// The event describes the release: one Gaussian mechanism on all examples, as [`DpSnip`]
    /// states.
    pub fn event(&self) -> Result<Event> {
        Ok(Event::gaussian(self.sigma()?))
    }

    fn sigma(&self) -> Result<f64> {
        match (self.calibrated, self.requested) {
            (Some(sigma), _) | (None, NoiseSpec::Multiplier(sigma)) => {
                Ok(NoiseMultiplier(sigma).check()?.0)
            }
            (None, requested) => {
                let what = format!("DP-SNIP with {requested}");
                let why = "the noise is calibrated when the run is planned";
                Err(Error::new(ErrorKind::Setting, what, why)
                    .fix("take the mask from the plan, or set .noise_multiplier(20.0)"))
            }
        }
    }

    /// Makes one noisy release on the training part, and the mask from it.
    ///
    /// The caller has charged [`event`](Self::event) to the ledger of `data` under the name `run`,
    /// or an unaccountable event if no guarantee covers `data`. `seeds` are the seed of the noise,
    /// from which other streams of the run may be derived too, and the seed of dropout masks; both
    /// must be secret.
    ///
    /// # Errors
    /// If the noise is not calibrated, if model and examples do not fit, or if reading the examples
    /// fails.
    pub(crate) fn release(
        &self,
        model: &Model,
        data: &Dataset,
        seeds: ([u8; 32], u64),
        run: &str,
    ) -> Result<Mask> {
        let (sum, prunable) = self.noisy_sum(model, data.train(), seeds)?;
        self.mask_from_sum(&sum, &prunable, model, data, run)
    }

    /// Makes the mask that follows from [`noisy_sum`](Self::noisy_sum): post-processing.
    ///
    /// # Errors
    /// If the noise is not calibrated, or the rate is out of range.
    pub(crate) fn mask_from_sum(
        &self,
        sum: &Gradients,
        prunable: &CoordinateWeights,
        model: &Model,
        data: &Dataset,
        run: &str,
    ) -> Result<Mask> {
        let rate = check_pruning(self.rate)?;
        let event = self.event()?;
        let scores = ConnectionSensitivities::scores(sum, prunable, data.train().len());
        let method = format!("DP-SNIP, noise multiplier {}, clip {}", self.sigma()?, self.clip);
        let covered = match data.not_covered_reason() {
            Some(why) => PrivacyStatus::NotPrivate(why.to_owned()),
            None => {
                let (data, run) = (data.origin().to_owned(), run.to_owned());
                PrivacyStatus::Released { event, data, run, assumed: self.assumed(model) }
            }
        };
        Saliency::new(&method, covered, scores).prune(rate)
    }

    /// Returns the assumptions of the release, if any.
    fn assumed(&self, model: &Model) -> Option<String> {
        let secret_seed = "nobody who sees the mask knows the seed of its noise (study mode)";
        let mut all: Vec<String> = self.seed.iter().map(|_| secret_seed.to_owned()).collect();
        // The sensitivities depend on the parameters, which must be the same for neighbours.
        if let PrivacyStatus::Assumption(assumed) = privacy_of_parameters(model) {
            all.push(assumed);
        }
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Returns the same settings with the seed of the run that makes the mask: a mask of a seeded
    /// run keeps the assumption of a secret seed wherever it is used later.
    pub(crate) fn with_run_seed(self, seed: Option<u64>) -> Self {
        Self { seed, ..self }
    }

    /// Computes Σᵢ clip(θ ⊙ ∂Lᵢ/∂θ) plus noise, and the prunable weights as 0/1
    /// [`CoordinateWeights`].
    ///
    /// Every prunable weight gets noise, also one that is zero and so has a score of zero.
    pub(crate) fn noisy_sum(
        &self,
        model: &Model,
        examples: &Examples,
        (noise, dropout): ([u8; 32], u64),
    ) -> Result<(Gradients, CoordinateWeights)> {
        let rule = ClipRule::flat(self.clip);
        let ConnectionSensitivities { mut sum, prunable } =
            ConnectionSensitivities::compute(model, examples, &rule, dropout, CHUNK)?;
        let std = rule.noise_std(self.sigma()?);
        GaussianNoise::new(noise_seed(noise)).add_to_selected(&mut sum, std, &prunable)?;
        Ok((sum, prunable))
    }
}

/// Derives the noise seed of this release from the run's seed.
///
/// If a training step with the same seed shared the noise, comparing the two would remove it.
pub(super) fn noise_seed(seed: [u8; 32]) -> [u8; 32] {
    Sha256::new().chain_update(b"epsilab DP-SNIP noise").chain_update(seed).finalize().into()
}

/// Ids of seeded releases are hashes of this text, so its field names do not follow renamed fields.
impl fmt::Debug for DpSnip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DpSnip")
            .field("rate", &self.rate)
            .field("clip", &self.clip)
            .field("asked", &self.requested)
            .field("settled", &self.calibrated)
            .field("seed", &self.seed)
            .finish()
    }
}

impl fmt::Display for DpSnip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DP-SNIP, {} dropped, {}", in_percent(self.rate), self.requested)?;
        match (self.calibrated, self.requested) {
            (Some(_), NoiseSpec::Multiplier(_)) | (None, _) => {}
            (Some(sigma), _) => write!(f, " (noise multiplier {sigma})")?,
        }
        write!(f, ", clip {}", self.clip)
    }
}
