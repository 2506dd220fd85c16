//! Settings of backpropagation clipping.

use super::mechanism;
use crate::data::Population;
use crate::engine::ClipRule;
use crate::methods::builder::{self, Builder, MethodSettings, Noise};
use crate::methods::settings::setting_spec::{SettingValue, choose, settings};
use crate::methods::{FigureStyle, MethodDescriptor, Plan, Privacy, PrivacySettings, Scope};
use crate::nn::{LayerClips, UpstreamNorm};
use crate::optim::Optimizer;
use crate::privacy::{Event, NoiseMultiplier};
use crate::{Error, ErrorKind, Result};

/// Backpropagation clipping (Stevens et al., "Backpropagation Clipping for Deep Learning with
/// Differential Privacy", 2022, algorithm 2). The input of each layer is clipped in the forward
/// pass, and the gradient of its output in the backward pass, so that no layer's gradient needs to
/// be computed or clipped per example.
///
/// The clips are part of the model: prediction clips the inputs too. Every layer with trained
/// parameters must be Linear, Conv2d (with any padding, stride, dilation, groups, bias and weight
/// standardisation), LSTM or Embedding. Freeze normalisation layers:
/// `.freeze("*.gamma").freeze("*.beta")`. Masks and gradient dropping are not part of this method.
///
/// With k augmented copies per example, the gradient of each copy is clipped to the gradient clip
/// over k.
///
/// The noise is σ √L Δ on each of L layers with sensitivity Δ = input clip · gradient clip (times
/// √(1 + k/input clip²) with k = 1 for a bias, or k = hidden + 2 in an LSTM). The paper's published
/// code scales it by a sensitivity that is smaller by the batch size; the epsilons of the paper do
/// not hold.
///
/// ```
/// use epsilab::prelude::*;
/// let data = data::glyphs()?;
/// let plan = BackpropClip::new().target(Epsilon(3.0), Delta(1e-5)).plan(&data)?;
/// assert!(plan.epsilon_after(plan.steps())?.unwrap() <= 3.0);
/// # Ok::<(), epsilab::Error>(())
/// ```
///
/// # Guarantee
/// (epsilon, delta)-differential privacy of all steps of a run. Neighbours: one training example
/// added or removed; with disjoint batches, zeroed out or replaced. Each step is one
/// Poisson-subsampled Gaussian mechanism with the noise multiplier of the plan, because all layers
/// see the same sample; see [`BackpropClipMechanism`].
///
/// [`BackpropClipMechanism`]: super::BackpropClipMechanism
///
/// # Defaults
/// Input clip 1, gradient clip 0.01 (the paper's for MNIST), either norm, Adam with learning rate
/// 0.01, batches of 256 and 5 epochs.
pub type BackpropClip = Builder<BackpropClipSettings>;

/// The settings that only [`BackpropClip`] has.
#[derive(Clone, Debug, PartialEq)]
pub struct BackpropClipSettings {
    clips: LayerClips,
    as_published: bool,
}

impl Default for BackpropClipSettings {
    fn default() -> Self {
        Self { clips: LayerClips::new(1.0, 0.01), as_published: false }
    }
}

/// Default of the learning rate of SGD times a layer's sensitivity.
const LEARNING_RATE_TIMES_SENSITIVITY: f64 = 0.4;

/// Descriptor of backpropagation clipping in the registry.
static DESCRIPTOR: MethodDescriptor = MethodDescriptor {
    name: "backprop-clipping",
    title: "backpropagation clipping",
    summary: "clips the layers' inputs and upstream gradients (Stevens et al., 2022)",
    method: || Box::new(BackpropClip::new()),
    mechanism: mechanism::build_mechanism,
    bound: mechanism::bound,
    event,
    prepare_network: mechanism::network,
    takes_clip: false,
    own: OWN,
    style: FigureStyle::new(3, 5),
    ..MethodDescriptor::DP_SGD
};

impl MethodSettings for BackpropClipSettings {
    fn descriptor() -> &'static MethodDescriptor {
        &DESCRIPTOR
    }

    fn defaults(builder: BackpropClip) -> BackpropClip {
        builder.optimizer(Optimizer::adam())
    }

    /// Creates the plan; clip norm, clip rule and clip schedule are refused, because the layers'
    /// clips replace them.
    fn plan(builder: &BackpropClip, population: &Population) -> Result<Plan> {
        if builder.private.has_clip() {
            let why = "the method clips inputs and upstream gradients instead of the gradient";
            let what = "backpropagation clipping with a bound on the clipped gradient";
            return Err(Error::new(ErrorKind::Setting, what, why)
                .fix("leave it out and set the input clip and the gradient clip, or use DP-SGD"));
        }
        let (clips, private) = builder.effective()?;
        clips.check()?;
        let effective = Builder { private, ..builder.clone() };
        let privacy = builder::privacy(&effective, population, &[])?;
        let sensitivity = clips.max_input_norm * clips.max_upstream_norm;
        let learning_rate = LEARNING_RATE_TIMES_SENSITIVITY / sensitivity;
        let privacy = Privacy { clip: ClipRule::Backprop(clips), ..privacy };
        builder::plan(builder, population, learning_rate, Some(privacy))
    }
}
impl Noise for BackpropClipSettings {}

impl SettingValue for UpstreamNorm {
    fn read(name: &str, text: &str) -> Result<Self> {
        let norms = [
            ("l15", Self::L15),
            ("sqrt_m", Self::SqrtM),
            ("sqrt-m", Self::SqrtM),
            ("either", Self::Either),
        ];
        choose(name, text, &norms)
    }
}

settings! {
    static OWN in Scope::Own, on |method| method.own_mut().downcast_mut::<BackpropClipSettings>();
    impl [] BackpropClip, on |builder| &mut builder.own;

    /// Sets the largest L2 norm of an example's input to each layer, C_in.
    #[setting("C", "1", Outcome, [], "Largest L2 norm of an example's input to a layer")]
    fn input_clip(max_input_norm: f64) |own| own.clips.max_input_norm = max_input_norm;

    /// Sets the largest norm of the gradient of an example's loss with respect to the output of
    /// each layer, C_g.
    #[setting("C", "0.01", Outcome, [], "Largest norm of the gradient of a layer's output")]
    fn gradient_clip(max_upstream_norm: f64) |own| own.clips.max_upstream_norm = max_upstream_norm;

    /// Sets the norm of that gradient for layers on several positions. The paper's is
    /// [`UpstreamNorm::L15`].
    #[setting("NORM", "either", Outcome, [], "Norm of that gradient: l15, sqrt_m, or the smaller, either")]
    fn norm(norm: UpstreamNorm) |own| own.clips.norm = norm;
}

impl BackpropClip {
    /// Returns the mechanism of the paper's published code, for study. It averages the loss over
    /// the batch before the gradients are clipped, and then divides the sensitivity by the batch
    /// size B again. On batches of B examples, that is the method on the summed loss with a
    /// gradient clip of B C_g and a noise multiplier of σ / B. The plan is made of these, with the
    /// expected batch size for B, so its epsilon is proved: it is that of the noise that the code
    /// adds, far above the one that the paper claims for σ.
    pub fn as_published(mut self) -> Self {
        self.own.as_published = true;
        self
    }

    /// Returns the clips and the noise of the method on the summed loss.
    fn effective(&self) -> Result<(LayerClips, PrivacySettings)> {
        let (mut clips, mut private) = (self.own.clips, self.private.clone());
        if !self.own.as_published {
            return Ok((clips, private));
        }
        let Some(NoiseMultiplier(multiplier)) = private.noise_multiplier else {
            let what = "backpropagation clipping as published without a noise multiplier";
            let why = "the published noise is too small by a factor of the batch size, so a target \
                       would be meaningless";
            return Err(Error::new(ErrorKind::Setting, what, why)
                .fix("give the noise multiplier that the paper's accounting assumes"));
        };
        let batch_size = self.settings.expected_batch_size.max(1) as f64;
        clips.max_upstream_norm *= batch_size;
        private.noise_multiplier = Some(NoiseMultiplier(multiplier / batch_size));
        Ok((clips, private))
    }
}

/// Returns the event of the first steps.
///
/// # Guarantee
/// As [`mechanism::BackpropClipMechanism`], on the plan's batches.
fn event(plan: &Plan, steps: u64) -> Event {
    plan.event_of(mechanism::clips_and_stages(plan).map(|(_, stages)| stages), steps)
}
