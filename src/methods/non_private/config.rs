//! Settings of training without privacy.

use crate::Result;
use crate::data::Population;
use crate::methods::builder::{self, Builder, MethodSettings, Sparse};
use crate::methods::{FigureStyle, MethodDescriptor, Plan};

/// Stochastic gradient descent with the sampler and optimizer of the private methods, so that a
/// comparison shows the effect of clipping and noise alone.
///
/// ```
/// use epsilab::prelude::*;
/// let method = NonPrivate::new().epochs(3).learning_rate(0.1);
/// let plan = method.plan_for(&data::Population::with_size(60_000))?;
/// assert!(!plan.has_guarantee());
/// assert_eq!(plan.epsilon_after(plan.steps())?, None);
/// # Ok::<(), Error>(())
/// ```
///
/// # Guarantee
/// None. The model may reveal any training example.
///
/// # Defaults
/// Batches of 256, 5 epochs, SGD with momentum 0.9 and learning rate 0.1.
pub type NonPrivate = Builder<NonPrivateSettings>;

/// The settings that only [`NonPrivate`] has: its clip norm is kept with the shared ones.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NonPrivateSettings;

/// Learning rate when none is given.
const DEFAULT_LEARNING_RATE: f64 = 0.1;

/// Descriptor of training without privacy in the registry.
static DESCRIPTOR: MethodDescriptor = MethodDescriptor {
    name: "non-private",
    title: "non-private SGD",
    summary: "the same sampler and optimizer without clipping and noise",
    method: || Box::new(NonPrivate::new()),
    adds_noise: false,
    supports_sparsity: true,
    mechanism: super::mechanism::build_mechanism,
    bound: |_, _| Ok(None),
    event: super::mechanism::event,
    takes_clip: false,
    style: FigureStyle::new(4, 0).dashed(),
    ..MethodDescriptor::DP_SGD
};

impl MethodSettings for NonPrivateSettings {
    fn descriptor() -> &'static MethodDescriptor {
        &DESCRIPTOR
    }

    fn plan(builder: &NonPrivate, population: &Population) -> Result<Plan> {
        let mut builder = builder.clone();
        let sparsity = builder.settings.sparsity.take();
        builder.settings.sparsity = sparsity.map(|s| s.calibrated(None)).transpose()?;
        builder::plan(&builder, population, DEFAULT_LEARNING_RATE, None)
    }
}
impl Sparse for NonPrivateSettings {}

impl NonPrivate {
    /// Clips the gradient of each example to this L2 norm (`max_grad_norm`), to see what clipping
    /// alone does. Without noise there is no guarantee.
    pub fn clip(mut self, max_grad_norm: f64) -> Self {
        self.settings.clip_without_noise = Some(max_grad_norm);
        self
    }
}
