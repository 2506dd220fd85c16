//! Settings of quantile clipping.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::mechanism;
use crate::data::Population;
use crate::engine::ClipRule;
use crate::methods::builder::{self, Builder, Clip, MethodSettings, Noise};
use crate::methods::settings::setting_spec::settings;
use crate::methods::{FigureStyle, MethodDescriptor, Plan, Privacy, Scope};
use crate::privacy::NoiseMultiplier;
use crate::privacy::digits::Readable;
use crate::{Error, ErrorKind, Result};

/// DP-SGD whose clip norm follows a quantile of the gradient norms (Andrew, Thakkar, McMahan,
/// Ramaswamy: Differentially Private Learning with Adaptive Clipping, 2021, Algorithm 1).
///
/// Each step also releases a noisy count of the gradients that are not longer than the clip norm C,
/// and moves C towards the quantile: C <- C exp(-rate (noisy fraction - quantile)). The clip norm
/// of the settings is the first one.
///
/// ```
/// use epsilab::prelude::*;
/// let method = QuantileDpSgd::new().noise_multiplier(1.0).quantile(0.7).batch_size(1_000);
/// let plan = method.plan_for(&data::Population::with_size(60_000))?;
/// let clipping = plan.privacy().and_then(|privacy| privacy.quantile).expect("it adapts");
/// assert_eq!((clipping.quantile, clipping.count_noise), (0.7, 50.0));
/// # Ok::<(), Error>(())
/// ```
///
/// # Guarantee
/// (epsilon, delta)-differential privacy of all releases of a run: the model and the clip norm
/// after every step. Neighbours: one training example added or removed; on disjoint batches, zeroed
/// out or replaced. Per step the sum has sensitivity C and the centred count, in which a gradient
/// of zero counts as half, sensitivity 1/2 (both twice that for one example replaced). Both are
/// noised; together they have exactly the noise multiplier of the plan: 1/sigma^2 = 1/sigma_sum^2 +
/// 1/(2 sigma_count)^2. The clip norm of a step is a function of earlier releases.
///
/// # Defaults
/// The median, rate 0.2, clip norm 1 at first, batches of 256 and 5 epochs.
pub type QuantileDpSgd = Builder<QuantileDpSgdSettings>;

/// The settings that only [`QuantileDpSgd`] has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuantileDpSgdSettings {
    quantile: f64,
    rate: f64,
    count_noise: Option<f64>,
}

impl Default for QuantileDpSgdSettings {
    fn default() -> Self {
        Self { quantile: 0.5, rate: 0.2, count_noise: None }
    }
}

/// Settings in a plan for the adaptation of the clip norm.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuantileClipping {
    /// The fraction of gradients that shall not be clipped, in (0, 1).
    pub quantile: f64,
    /// The rate of the adaptation, above 0.
    pub rate: f64,
    /// Standard deviation of the noise on the count of gradients.
    pub count_noise: f64,
}

impl QuantileClipping {
    /// Computes the noise multiplier of the sum, such that sum and count together have this one
    /// ([`NoiseMultiplier::beside_count`]).
    ///
    /// # Errors
    /// `Setting` if the count alone costs as much.
    pub(crate) fn sum_noise_multiplier(&self, noise_multiplier: f64) -> Result<f64> {
        let of_sum = NoiseMultiplier(noise_multiplier).beside_count(self.count_noise);
        of_sum.map(|of_sum| of_sum.0).ok_or_else(|| {
            let why = format!(
                "the count alone costs as much as a step with noise multiplier {noise_multiplier}"
            );
            Error::setting("count-noise", self.count_noise, why)
                .fix(format!("use more than {}, or leave it out", 0.5 * noise_multiplier))
        })
    }

    /// Checks the range of the values.
    ///
    /// # Errors
    /// `Setting` for values out of range.
    pub(super) fn check(&self) -> Result<()> {
        if !(self.quantile > 0.0 && self.quantile < 1.0) {
            let why = "the fraction of gradients that are not clipped must be between 0 and 1";
            return Err(Error::setting("quantile", self.quantile, why)
                .fix("choose a number between 0 and 1, such as 0.5"));
        }
        if !(self.rate > 0.0 && self.rate <= 10.0) {
            let why = "the clip norm is multiplied by exp(-rate (fraction - quantile))";
            return Err(Error::setting("rate", self.rate, why).fix("try 0.2"));
        }
        Ok(())
    }
}

/// One line: `adapted so that 50 % of the gradients are not clipped (rate 0.2, noise 51 on
/// counts)`.
impl fmt::Display for QuantileClipping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { quantile, rate, count_noise } = *self;
        let percent = Readable(100.0 * quantile);
        write!(f, "adapted so that {percent} % of the gradients are not clipped (rate {rate}, ")?;
        write!(f, "noise {} on counts)", Readable(count_noise))
    }
}

/// Descriptor of quantile clipping in the registry.
static DESCRIPTOR: MethodDescriptor = MethodDescriptor {
    name: "quantile",
    title: "quantile DP-SGD",
    summary: "DP-SGD whose clip norm follows a private quantile (Andrew et al., 2021)",
    method: || Box::new(QuantileDpSgd::new()),
    mechanism: mechanism::build_mechanism,
    bound: mechanism::bound,
    event: mechanism::event,
    own: OWN,
    style: FigureStyle::new(2, 5),
    ..MethodDescriptor::DP_SGD
};

impl MethodSettings for QuantileDpSgdSettings {
    fn descriptor() -> &'static MethodDescriptor {
        &DESCRIPTOR
    }

    /// Creates the plan; a clip rule that is not flat and a clip schedule are refused, because the
    /// clip norm is adapted.
    fn plan(builder: &QuantileDpSgd, population: &Population) -> Result<Plan> {
        let privacy = builder::privacy(builder, population, &[])?;
        let flat = matches!(privacy.clip, ClipRule::Flat { .. });
        if !flat || !privacy.clip_schedule.is_constant() {
            let what = "quantile clipping with another clip rule or a clip schedule";
            let why = "the clip norm follows the gradients from its initial value";
            return Err(Error::new(ErrorKind::Setting, what, why)
                .fix("give the initial clip norm with .clip(1.0), and no rule or schedule"));
        }
        let learning_rate = builder.private.learning_rate();
        let plan = builder::plan(builder, population, learning_rate, Some(privacy.clone()))?;
        let largest = plan.stages()?.map_or(0.0, |stages| {
            stages.as_slice().iter().map(|stage| stage.noise_multiplier).fold(0.0, f64::max)
        });
        let usual = (builder.settings.expected_batch_size as f64 / 20.0).max(2.0 * largest);
        let QuantileDpSgdSettings { quantile, rate, count_noise } = builder.own;
        let quantile =
            QuantileClipping { quantile, rate, count_noise: count_noise.unwrap_or(usual) };
        quantile.check()?;
        quantile.sum_noise_multiplier(largest)?;
        let privacy = Privacy { quantile: Some(quantile), ..privacy };
        builder::plan(builder, population, learning_rate, Some(privacy))
    }
}
impl Noise for QuantileDpSgdSettings {}
impl Clip for QuantileDpSgdSettings {}

settings! {
    static OWN in Scope::Own, on |method| method.own_mut().downcast_mut::<QuantileDpSgdSettings>();
    impl [] QuantileDpSgd, on |builder| &mut builder.own;

    /// Sets the fraction of gradients that shall not be clipped.
    #[setting("FRACTION", "0.5", Outcome, [], "Target fraction of gradients that are not clipped")]
    fn quantile(quantile: f64) |own| own.quantile = quantile;

    /// Sets the rate at which the clip norm is adapted.
    #[setting("RATE", "0.2", Outcome, [], "Rate at which the clip norm is adapted")]
    fn rate(rate: f64) |own| own.rate = rate;

    /// Sets the standard deviation of the noise on the count. By default a twentieth of the batch
    /// size, but at least twice the noise multiplier, so that the sum loses little.
    #[setting(
        "STD", "batch size / 20, at least twice the noise multiplier", Outcome, [],
        "Standard deviation of the noise on the count of gradients that are not clipped"
    )]
    fn count_noise(std: f64) |own| own.count_noise = Some(std);
}
