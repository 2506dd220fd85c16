//! The registry of training methods. Grids, commands, cells and tests read it.

use std::any::Any;
use std::fmt;
use std::sync::{PoisonError, RwLock};

use super::dp_sgd;
use super::{DpSgd, Mechanism, Plan, PrivacySettings, SettingSpec, Settings};
use crate::data::{Dataset, Population};
use crate::engine::Bound;
use crate::nn::Network;
use crate::privacy::digits::RoundedUp;
use crate::privacy::{Delta, Event};
use crate::{Error, ErrorKind, Result};

/// The methods of the library. A new one is one more line here.
const BUILT_IN: &[fn() -> Box<dyn Method>] = &[
    || Box::new(super::DpSgd::new()),
    || Box::new(super::DpSsgd::new()),
    || Box::new(super::AdaptiveDpSgd::new()),
    || Box::new(super::DynamicDpSgd::new()),
    || Box::new(super::QuantileDpSgd::new()),
    || Box::new(super::AutoDpSgd::new()),
    || Box::new(super::BackpropClip::new()),
    || Box::new(super::NonPrivate::new()),
    #[cfg(test)]
    || Box::new(super::tests::soft_clip::SoftClipSgd::new()),
];

/// The methods of other crates.
static REGISTERED: RwLock<Vec<&'static MethodDescriptor>> = RwLock::new(Vec::new());

/// Returns all methods with their default settings: those of the library, then the
/// [registered](register) ones.
pub fn methods() -> Vec<Box<dyn Method>> {
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
    let registered = registered.iter().map(|descriptor| (descriptor.method)());
    BUILT_IN.iter().map(|method| method()).chain(registered).collect()
}

/// Makes a method of another crate known to the grids, audits, figures and stored runs of this
/// process, and to its command line if it has one; the program `epsilab` does not know the method.
/// Registering it again changes nothing. Every process that reads its plans or runs registers it
/// first.
///
/// # Errors
/// `Setting` if another method has its name or title, if [`MethodDescriptor::method`] makes another
/// method, or if one of its own settings has the name of a setting that methods share.
pub fn register(descriptor: &'static MethodDescriptor) -> Result<()> {
    let refused = |what: String, why: &str| {
        let what = format!("the method {} with {what}", descriptor.name);
        Err(Error::new(ErrorKind::Setting, what, why).fix("choose another name"))
    };
    if !std::ptr::eq((descriptor.method)().descriptor(), descriptor) {
        let why = "its function `method` creates another method";
        return refused("no method of its own".to_owned(), why);
    }
    let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    if registered.iter().any(|known| std::ptr::eq(*known, descriptor)) {
        return Ok(());
    }
    let built_in = BUILT_IN.iter().map(|method| method().descriptor());
    for known in built_in.chain(registered.iter().copied()) {
        if known.name == descriptor.name || known.title == descriptor.title {
            return refused(
                format!("the title {}", descriptor.title),
                "commands and stored runs identify a method by name and title, and another method \
                 has these",
            );
        }
    }
    for spec in descriptor.own {
        let names = || [spec.id].into_iter().chain(spec.aliases.iter().copied());
        if super::settings::shared_settings()
            .any(|shared| names().any(|name| shared.is_named(name)))
        {
            let why = "methods share a setting of this name";
            return refused(format!("the setting {}", spec.id), why);
        }
    }
    registered.push(descriptor);
    Ok(())
}

/// Returns whether the method with this title is one of the library.
pub(crate) fn is_built_in(title: &str) -> bool {
    BUILT_IN.iter().any(|method| method().descriptor().title == title)
}

/// Returns the descriptor of the method with this title.
pub(super) fn descriptor_by_title(title: &str) -> Option<&'static MethodDescriptor> {
    methods().iter().map(|method| method.descriptor()).find(|known| known.title == title)
}

/// Function that creates the mechanism of a plan, given the seed of its noise.
pub type MakeMechanism = fn(&Plan, [u8; 32]) -> Result<Box<dyn Mechanism>>;

/// Function that creates the bound of one step of a plan, counted from 0.
pub type MakeBound = fn(&Plan, u64) -> Result<Option<Box<dyn Bound>>>;

/// Descriptor of a method, with the functions that interpret its plans.
pub struct MethodDescriptor {
    /// Name in commands and grids: `dp-sgd`.
    pub name: &'static str,
    /// Name in plans, figures and ledgers: `DP-SGD`.
    pub title: &'static str,
    /// One sentence on the method, with its source.
    pub summary: &'static str,
    /// Function that creates the method with its default settings.
    pub method: fn() -> Box<dyn Method>,
    /// Whether the releases of the method have noise.
    pub adds_noise: bool,
    /// Whether the method takes masks and gradient dropping.
    pub supports_sparsity: bool,
    /// Function that creates the mechanism of a plan.
    pub mechanism: MakeMechanism,
    /// Function that creates the bound on one example's influence on the sum of a step; `None` for
    /// a method without a bound.
    pub bound: MakeBound,
    /// Function that returns the event of the first steps of a plan. The event of fewer steps is
    /// one that [`Event::reduced_to`] accepts.
    ///
    /// # Guarantee
    /// The event describes the releases of the mechanism: every step of it, with the noise that the
    /// mechanism adds.
    pub event: fn(&Plan, steps: u64) -> Event,
    /// Function that returns the network that the method trains, with other layers around the same
    /// parameters; `None` where it is that of the model.
    pub prepare_network: fn(&Plan, &Network) -> Result<Option<Network>>,
    /// Function that returns the reason why the method has no guarantee with this plan although it
    /// adds noise, as a phrase.
    pub not_covered_reason: fn(&Plan) -> Option<String>,
    /// Function that describes the bound on an example's gradient, as `clipped to L2 norm 1`,
    /// where that is not the plan's clip rule.
    pub bound_description: fn(&Plan) -> Option<String>,
    /// Whether clip norm, clip rule and clip schedule can be set.
    pub takes_clip: bool,
    /// Style in which figures draw the results of the method.
    pub style: FigureStyle,
    /// The settings that only this method has.
    pub own: &'static [SettingSpec],
    /// Function that returns the epsilon that the method's paper claims for a number of steps with
    /// this mean clip threshold, where no proof supports it.
    pub published_claim:
        fn(&Plan, steps: u64, mean_threshold: Option<f64>) -> Option<ClaimedEpsilon>,
}

/// Style in which figures draw the results of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FigureStyle {
    /// Number of the colour in the palette of series.
    pub colour: usize,
    /// Number of the marker: 0 circle, 1 square, 2 triangle, 3 diamond, 4 bar, 5 inverted triangle.
    pub marker: usize,
    /// Whether lines are dashed, which stands for a method without a guarantee.
    pub dashed: bool,
}

impl FigureStyle {
    /// Returns the style with this colour and marker, and solid lines.
    pub const fn new(colour: usize, marker: usize) -> Self {
        Self { colour, marker, dashed: false }
    }

    /// Dashes the lines.
    pub const fn dashed(self) -> Self {
        Self { dashed: true, ..self }
    }
}

/// An epsilon that a paper claims without a valid proof.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimedEpsilon {
    /// The claimed epsilon.
    pub epsilon: f64,
    /// The delta of the claim.
    pub delta: Delta,
    /// Publication of the formula.
    pub source: &'static str,
}

impl fmt::Display for ClaimedEpsilon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (epsilon, delta) = (RoundedUp(self.epsilon), self.delta);
        write!(f, "epsilon {epsilon} at delta {delta} ({})", self.source)
    }
}

impl MethodDescriptor {
    /// The descriptor of DP-SGD, from which that of another method takes what it does not replace.
    /// Noise and charge belong together: replace `mechanism`, `bound` and `event` together, or none
    /// of them.
    pub const DP_SGD: Self = Self {
        name: "dp-sgd",
        title: "DP-SGD",
        summary: "per-example clipping and Gaussian noise (Abadi et al., 2016)",
        method: || Box::new(DpSgd::new()),
        adds_noise: true,
        supports_sparsity: false,
        mechanism: dp_sgd::build_mechanism,
        bound: dp_sgd::bound,
        event: dp_sgd::event,
        prepare_network: |_, _| Ok(None),
        not_covered_reason: |_| None,
        bound_description: |_| None,
        takes_clip: true,
        style: FigureStyle::new(0, 0),
        own: &[],
        published_claim: |_, _, _| None,
    };
}

impl fmt::Debug for MethodDescriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A training method with its settings, as a trait object: a [`Builder`](super::Builder).
pub trait Method: Any + fmt::Debug + Send + Sync {
    /// Returns the descriptor of the method.
    fn descriptor(&self) -> &'static MethodDescriptor;

    /// Returns the settings that all methods share.
    fn settings(&self) -> &Settings;

    /// Returns [`settings`](Self::settings) as a mutable reference.
    fn settings_mut(&mut self) -> &mut Settings;

    /// Returns the settings of private methods; `None` for a method without noise.
    fn privacy_settings_mut(&mut self) -> Option<&mut PrivacySettings>;

    /// Returns the settings that only this method has.
    fn own_mut(&mut self) -> &mut dyn Any;

    /// Sets a setting by name from text, as files and commands do.
    ///
    /// # Errors
    /// As [`SettingSpec::set`]; `Setting` for an unknown name, with the names there are.
    fn set(&mut self, name: &str, text: &str) -> Result<()>;

    /// Checks the settings against the size of the data and makes the plan.
    ///
    /// # Errors
    /// `Setting` for values out of range; `Accounting` if a target can't be reached.
    fn plan_for(&self, population: &Population) -> Result<Plan>;

    /// Returns the plan for the training part of these data.
    ///
    /// # Errors
    /// `Setting` for values out of range; `Accounting` if a target can't be reached.
    fn plan(&self, data: &Dataset) -> Result<Plan> {
        self.plan_for(&data.into())
    }

    /// Returns the same method without mask and gradient dropping.
    fn without_sparsity(&self) -> Box<dyn Method>;

    /// Returns a copy.
    fn clone_box(&self) -> Box<dyn Method>;

    /// Returns whether `other` is the same method with the same settings.
    fn equals(&self, other: &dyn Method) -> bool;
}

impl Clone for Box<dyn Method> {
    fn clone(&self) -> Self {
        (**self).clone_box()
    }
}

impl PartialEq for dyn Method {
    fn eq(&self, other: &Self) -> bool {
        self.equals(other)
    }
}
