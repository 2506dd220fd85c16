//! Settings of Auto DP-SGD.

use super::{mechanism, published_claim};
use crate::data::Population;
use crate::engine::ClipRule;
use crate::methods::builder::{self, Builder, MethodSettings, Noise};
use crate::methods::settings::setting_spec::settings;
use crate::methods::{DpSgd, FigureStyle, MethodDescriptor, Plan, Privacy, Scope, Settings};
use crate::optim::{LearningRate, Optimizer};
use crate::privacy::{Event, NoiseSchedule};
use crate::{Error, ErrorKind, Result};

/// Auto DP-SGD ("Auto DP-SGD: Dual Improvements of Privacy and Accuracy via Automatic Clipping
/// Threshold and Noise Multiplier Estimation"), as published: algorithm AC, the noise decays of
/// Table 1, AdamW and a one-cycle learning rate.
///
/// Each example's clip threshold is s, the `gradient_scale`, times the norm of its own gradient g,
/// so "clipping" multiplies every gradient by s. The noise is that of the decayed multiplier times
/// the mean threshold of the batch:
///
/// ```text
/// threshold_i = s |g_i|
/// release     = (sum_i s g_i + N(0, (sigma_e mean(threshold))^2)) / B
/// ```
///
/// ```
/// use epsilab::prelude::*;
/// let as_published = AutoDpSgd::new().noise_multiplier(0.9584);
/// let sound = as_published.clone().sound(); // DP-SGD with AUTO-S on the same schedules
/// ```
///
/// # Guarantee
/// None. Nothing bounds one example's contribution, and the scale of the noise is computed from the
/// same private batch. Where all other gradients are zero, the release is noise with the example
/// and exactly zero without it, which is infinite epsilon. The epsilon that the paper claims
/// ([`MethodDescriptor::published_claim`]) is not valid; accountants refuse the method, and a
/// budget refuses its runs.
///
/// # Defaults
/// Scale 1, batches of 64, 100 epochs, step decay of the noise (0.99 every 10 epochs), AdamW with
/// weight decay 0.01 and a one-cycle learning rate up to 0.01. The paper's learning rate and weight
/// decay are not in its text; these are the usual ones here. It needs a
/// [`noise_multiplier`](Builder::noise_multiplier).
pub type AutoDpSgd = Builder<AutoDpSgdSettings>;

/// The settings that only [`AutoDpSgd`] has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AutoDpSgdSettings {
    scale: f64,
}

impl Default for AutoDpSgdSettings {
    fn default() -> Self {
        Self { scale: 1.0 }
    }
}

/// Reason why the method has no guarantee.
pub(super) const NO_GUARANTEE_REASON: &str = "Auto DP-SGD bounds no example's contribution, \
    because each clip threshold follows the example's own gradient, and its noise is scaled by the \
    private batch";

/// Learning rate with SGD when none is given. The default optimizer, AdamW, has the default rate of
/// the Adam family. The paper's rate is not in its text.
const DEFAULT_LEARNING_RATE: f64 = 1e-3;

/// Descriptor of Auto DP-SGD in the registry.
static DESCRIPTOR: MethodDescriptor = MethodDescriptor {
    name: "auto-dp-sgd",
    title: "Auto DP-SGD",
    summary: "gradients scaled by their own norm, noise by the batch's mean norm: no guarantee",
    method: || Box::new(AutoDpSgd::new()),
    mechanism: mechanism::build_mechanism,
    bound: |_, _| Ok(None),
    event,
    not_covered_reason: |_| Some(NO_GUARANTEE_REASON.to_owned()),
    takes_clip: false,
    own: OWN,
    published_claim: published_claim::claimed_epsilon,
    style: FigureStyle::new(1, 4).dashed(),
    ..MethodDescriptor::DP_SGD
};

impl MethodSettings for AutoDpSgdSettings {
    fn descriptor() -> &'static MethodDescriptor {
        &DESCRIPTOR
    }

    fn defaults(builder: AutoDpSgd) -> AutoDpSgd {
        let settings = Settings {
            expected_batch_size: 64,
            epochs: 100.0,
            optimizer: Optimizer::adamw(),
            learning_rate_schedule: LearningRate::one_cycle(),
            ..builder.settings
        };
        AutoDpSgd { settings, ..builder }.noise_schedule(NoiseSchedule::step(0.99, 10))
    }

    fn plan(builder: &AutoDpSgd, population: &Population) -> Result<Plan> {
        if let Some(target) = builder.private.target {
            let what = format!("Auto DP-SGD with a target, epsilon {target}");
            let why = "the method has no guarantee, and the paper computes its claim after \
                       training, from the mean threshold";
            return Err(Error::new(ErrorKind::Setting, what, why).fix(
                "give a noise multiplier (the paper's is 0.9584 for its epsilon 2), or use \
                      the sound variant, DP-SGD with the rule auto-s",
            ));
        }
        if builder.private.has_clip() {
            let why = "the clip thresholds of the method follow the gradients";
            return Err(Error::new(ErrorKind::Setting, "Auto DP-SGD with a clip norm", why)
                .fix("leave out the clip norm and set `gradient_scale`, or use DP-SGD"));
        }
        let clip = ClipRule::Unbounded { scale: builder.own.scale };
        clip.check()?;
        let privacy = Privacy { clip, ..builder::privacy(builder, population, &[])? };
        builder::plan(builder, population, DEFAULT_LEARNING_RATE, Some(privacy))
    }
}
impl Noise for AutoDpSgdSettings {}

settings! {
    static OWN in Scope::Own, on |method| method.own_mut().downcast_mut::<AutoDpSgdSettings>();
    impl [] AutoDpSgd, on |builder| &mut builder.own;

    /// Sets the paper's scale factor s. It multiplies signal and noise alike, so it changes nothing
    /// but the unit of the release.
    #[setting("S", "1", Outcome, [], "Factor of algorithm AC on every gradient")]
    fn gradient_scale(scale: f64) |own| own.scale = scale;
}

impl AutoDpSgd {
    /// Returns DP-SGD with the same settings and noise schedule, but a real bound: AUTO-S at clip
    /// norm 1. Give it a target, or keep the noise multiplier.
    ///
    /// # Guarantee
    /// That of [`DpSgd`].
    pub fn sound(self) -> DpSgd {
        let Self { settings, private, .. } = self;
        DpSgd { settings, private, own: Default::default() }.clip_rule(ClipRule::auto_s(1.0))
    }
}

/// Returns the event of the first steps, which no accountant accepts.
fn event(_: &Plan, steps: u64) -> Event {
    match steps {
        0 => Event::Composed { events: Vec::new() },
        _ => Event::Unaccountable { why: NO_GUARANTEE_REASON.to_owned() },
    }
}
