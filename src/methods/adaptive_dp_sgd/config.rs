//! Settings of adaptive DP-SGD.

use crate::methods::builder::{Builder, Clip, MethodSettings, Noise};
use crate::methods::settings::setting_spec::settings;
use crate::methods::{FigureStyle, MethodDescriptor, Scope};
use crate::privacy::NoiseSchedule;

/// DP-SGD with a noise variance that decays every epoch: each epoch has R times the variance of the
/// one before (Zhang et al., 2021). A baseline of Auto DP-SGD.
///
/// ```
/// use epsilab::prelude::*;
/// let method = AdaptiveDpSgd::new().noise_multiplier(2.0).decay(0.81).batch_size(100);
/// let plan = method.plan_for(&data::Population::with_size(1_000))?; // 10 steps in an epoch
/// let stages = plan.stages()?.expect("it has noise");
/// assert_eq!(stages.at(9).noise_multiplier, 2.0);
/// // The variance is 0.81 times as large, the standard deviation 0.9 times.
/// assert!((stages.at(10).noise_multiplier - 1.8).abs() < 1e-9);
/// # Ok::<(), Error>(())
/// ```
///
/// # Guarantee
/// That of [`DpSgd`](crate::methods::DpSgd) with a noise schedule: every step is accounted with its
/// own noise multiplier. The published epsilons count epochs in place of steps and are too small.
///
/// # Defaults
/// Clip norm 1, batches of 256 and 5 epochs; the variance is multiplied by 0.99 every epoch.
pub type AdaptiveDpSgd = Builder<AdaptiveDpSgdSettings>;

/// The settings that only [`AdaptiveDpSgd`] has: the decay is kept as a noise schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AdaptiveDpSgdSettings;

/// Factor R in the experiments of Auto DP-SGD.
const DECAY: f64 = 0.99;

/// Descriptor of adaptive DP-SGD in the registry: the steps of DP-SGD.
static DESCRIPTOR: MethodDescriptor = MethodDescriptor {
    name: "adaptive-dp-sgd",
    title: "adaptive DP-SGD",
    summary: "DP-SGD whose noise variance decays every epoch (Zhang et al., 2021)",
    method: || Box::new(AdaptiveDpSgd::new()),
    own: OWN,
    style: FigureStyle::new(2, 2),
    ..MethodDescriptor::DP_SGD
};

impl MethodSettings for AdaptiveDpSgdSettings {
    fn descriptor() -> &'static MethodDescriptor {
        &DESCRIPTOR
    }

    fn defaults(builder: AdaptiveDpSgd) -> AdaptiveDpSgd {
        builder.decay(DECAY)
    }
}
impl Noise for AdaptiveDpSgdSettings {}
impl Clip for AdaptiveDpSgdSettings {}

settings! {
    static OWN in Scope::Own, on |method| method.privacy_settings_mut();
    impl [] AdaptiveDpSgd, on |builder| &mut builder.private;

    /// Sets the factor on the noise variance per epoch.
    #[setting("R", "0.99", Cost, [], "Factor on the noise variance per epoch")]
    fn decay(factor: f64) |private| private.noise_schedule = NoiseSchedule::linear(factor);
}
