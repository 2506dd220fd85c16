//! Settings of the example.

use crate::Result;
use crate::data::Population;
use crate::engine::ClipRule;
use crate::methods::builder::{self, Builder, Clip, MethodSettings, Noise};
use crate::methods::{MethodDescriptor, Plan};
use crate::privacy::{NeighbouringRelation, NoiseSchedule};

/// SGD with soft clipping: each gradient g becomes g · C/√(C² + ‖g‖²). The noise of the first half
/// of the run is twice that of the second half.
///
/// # Guarantee
/// Neighbours: one example added or removed. Each step is a Gaussian mechanism of sensitivity
/// `clip` on a Poisson sample.
pub type SoftClipSgd = Builder<SoftClipSgdSettings>;

/// The settings that only the example has: none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SoftClipSgdSettings;

/// Descriptor of the example in the registry.
static DESCRIPTOR: MethodDescriptor = MethodDescriptor {
    name: "soft-clip",
    title: "soft-clip SGD",
    summary: "SGD with soft clipping, an example",
    method: || Box::new(SoftClipSgd::new()),
    mechanism: super::mechanism::build_mechanism,
    bound: super::mechanism::bound,
    event: super::mechanism::event,
    bound_description: |plan| {
        let norm = plan.privacy()?.clip.sensitivity(NeighbouringRelation::AddOrRemoveOne);
        Some(format!("rescaled to an L2 norm below {norm} (soft clipping)"))
    },
    ..MethodDescriptor::DP_SGD
};

impl MethodSettings for SoftClipSgdSettings {
    fn descriptor() -> &'static MethodDescriptor {
        &DESCRIPTOR
    }

    fn plan(builder: &SoftClipSgd, population: &Population) -> Result<Plan> {
        let clip = builder.private.clip_rule().sensitivity(NeighbouringRelation::AddOrRemoveOne);
        let epochs = (builder.settings.epochs / 2.0).ceil().max(1.0) as u64;
        let scheduled = builder
            .clone()
            .clip_rule(ClipRule::flat(clip))
            .noise_schedule(NoiseSchedule::piecewise([(epochs, 2.0), (1, 1.0)]));
        builder::plan(
            &scheduled,
            population,
            0.1,
            Some(builder::privacy(&scheduled, population, &[])?),
        )
    }
}
impl Noise for SoftClipSgdSettings {}
impl Clip for SoftClipSgdSettings {}
