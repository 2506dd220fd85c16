//! Settings of dynamic DP-SGD.

use crate::methods::builder::{Builder, Clip, MethodSettings, Noise};
use crate::methods::settings::setting_spec::settings;
use crate::methods::{FigureStyle, MethodDescriptor, Scope};
use crate::privacy::{ClipSchedule, NoiseSchedule};

/// DP-SGD whose clip norm and noise multiplier decay exponentially in every step (Du, Li, Chen,
/// Chen, Hong: Dynamic Differential-Privacy Preserving SGD, 2021). A baseline of Auto DP-SGD, whose
/// text does not state the two ratios.
///
/// ```
/// use epsilab::prelude::*;
/// let method = DynamicDpSgd::new().noise_multiplier(2.0).noise_ratio(0.5).clip_ratio(0.5);
/// let plan = method.batch_size(100).plan_for(&data::Population::with_size(1_000))?;
/// let stages = plan.stages()?.expect("it has noise");
/// let (first, last) = (stages.at(0), stages.at(plan.steps() - 1));
/// assert_eq!((first.noise_multiplier, first.clip_scale), (2.0, 1.0));
/// assert!(last.noise_multiplier < 1.05 && last.clip_scale < 0.52);
/// # Ok::<(), Error>(())
/// ```
///
/// # Guarantee
/// That of [`DpSgd`](crate::methods::DpSgd) with public schedules of noise and clip norm: every
/// step is accounted with its own noise multiplier. The published epsilons are those of a central
/// limit theorem, which are too small.
///
/// # Defaults
/// Clip norm 1 at first, batches of 256 and 5 epochs; noise and clip norm decay to 0.7 and 0.5 of
/// their first values.
pub type DynamicDpSgd = Builder<DynamicDpSgdSettings>;

/// The settings that only [`DynamicDpSgd`] has: both ratios are kept as schedules.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DynamicDpSgdSettings;

/// Ratio of the last noise multiplier to the first one, our choice.
const NOISE_RATIO: f64 = 0.7;
/// Ratio of the last clip norm to the first one, our choice.
const CLIP_RATIO: f64 = 0.5;

/// Descriptor of dynamic DP-SGD in the registry: the steps of DP-SGD.
static DESCRIPTOR: MethodDescriptor = MethodDescriptor {
    name: "dynamic-dp-sgd",
    title: "dynamic DP-SGD",
    summary: "DP-SGD whose clip norm and noise multiplier decay in every step (Du et al., 2021)",
    method: || Box::new(DynamicDpSgd::new()),
    own: OWN,
    style: FigureStyle::new(3, 3),
    ..MethodDescriptor::DP_SGD
};

impl MethodSettings for DynamicDpSgdSettings {
    fn descriptor() -> &'static MethodDescriptor {
        &DESCRIPTOR
    }

    fn defaults(builder: DynamicDpSgd) -> DynamicDpSgd {
        builder.noise_ratio(NOISE_RATIO).clip_ratio(CLIP_RATIO)
    }
}
impl Noise for DynamicDpSgdSettings {}
impl Clip for DynamicDpSgdSettings {}

settings! {
    static OWN in Scope::Own, on |method| method.privacy_settings_mut();
    impl [] DynamicDpSgd, on |builder| &mut builder.private;

    /// Sets the last noise multiplier over the first one.
    #[setting("RATIO", "0.7", Cost, [], "Last noise multiplier over the first one")]
    fn noise_ratio(ratio: f64) |private| private.noise_schedule = NoiseSchedule::decay(ratio);

    /// Sets the last clip norm over the first one.
    #[setting("RATIO", "0.5", Outcome, [], "Last clip norm over the first one")]
    fn clip_ratio(ratio: f64) |private| private.clip_schedule = ClipSchedule::decay(ratio);
}
