//! The builder of training methods.

use std::any::Any;
use std::fmt::Debug;

use crate::Result;
use crate::data::{Dataset, Population};
use crate::methods::settings::setting_spec::set;
use crate::methods::{Method, MethodDescriptor, Plan, Privacy, PrivacySettings, Settings};
use crate::privacy::Event;

/// A training method with its settings: those that all methods share, those of private methods, and
/// `S`, those that only this method has.
///
/// Each method is a name for a builder: [`DpSgd`](super::DpSgd) is `Builder<DpSgdSettings>`.
#[derive(Clone, Debug, PartialEq)]
pub struct Builder<S> {
    pub(crate) settings: Settings,
    pub(crate) private: PrivacySettings,
    pub(crate) own: S,
}

/// The settings that only one method has, with the function that makes a plan of them and the
/// shared ones.
///
/// A type that implements this trait is a training method: [`Builder`] gives it the builder methods
/// of the settings that it shares with others, and [`register`](super::register) makes it known to
/// grids, audits and stored runs of a process.
pub trait MethodSettings: Clone + Debug + Default + PartialEq + Send + Sync + 'static {
    /// Returns the descriptor of the method.
    fn descriptor() -> &'static MethodDescriptor;

    /// Returns the builder with the method's own defaults of shared settings.
    fn defaults(builder: Builder<Self>) -> Builder<Self> {
        builder
    }

    /// Checks the settings against the size of the data and makes the plan.
    ///
    /// # Errors
    /// `Setting` for values out of range, unless exactly one of target and noise multiplier is
    /// given, or for an augmentation that does not apply to the data; `Accounting` if no noise
    /// multiplier reaches the target.
    fn plan(builder: &Builder<Self>, population: &Population) -> Result<Plan> {
        let privacy = privacy(builder, population, &[])?;
        plan(builder, population, builder.private.learning_rate(), Some(privacy))
    }

    /// Returns the method without pruning mask and gradient dropping.
    fn dense(builder: &Builder<Self>) -> Box<dyn Method> {
        let mut dense = builder.clone();
        dense.settings.sparsity = None;
        Box::new(dense)
    }
}

/// Methods that add noise.
pub trait Noise: MethodSettings {}

/// Private methods whose clip norm, clip rule and clip schedule can be set.
pub trait Clip: Noise {}

/// Methods that take pruning masks and gradient dropping.
pub trait Sparse: MethodSettings {}

impl<S: MethodSettings> Default for Builder<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: MethodSettings> From<S> for Builder<S> {
    /// Creates the method with its defaults and these settings of its own.
    fn from(method_settings: S) -> Self {
        Self { own: method_settings, ..Self::new() }
    }
}

impl<S: MethodSettings> Builder<S> {
    /// Returns the method with its default settings: batches of 256, 5 epochs and SGD with momentum
    /// 0.9 where the method does not say otherwise. A private method needs a
    /// [`target`](Self::target) or a [`noise_multiplier`](Self::noise_multiplier).
    pub fn new() -> Self {
        let (settings, private) = (Settings::default(), PrivacySettings::default());
        S::defaults(Self { settings, private, own: S::default() })
    }

    /// Returns the plan for the training part of these data, including its noise multiplier.
    ///
    /// # Errors
    /// `Setting` for values out of range, settings that do not fit the method or the data, and a
    /// private method with neither or both of target and noise multiplier; `Accounting` if no noise
    /// multiplier reaches the target.
    pub fn plan(&self, data: &Dataset) -> Result<Plan> {
        self.plan_for(&data.into())
    }

    /// Checks the settings against the size of the data and makes the plan, including its noise
    /// multiplier.
    ///
    /// # Errors
    /// `Setting` for values out of range, for settings that the method does not support, unless
    /// exactly one of target and noise multiplier is given to a private method, or for an
    /// augmentation that does not apply to the data; `Accounting` if no noise multiplier reaches
    /// the target.
    pub fn plan_for(&self, population: &Population) -> Result<Plan> {
        S::plan(self, population)
    }
}

/// Returns the settings that only the method of a builder has.
pub fn method_settings<S: MethodSettings>(builder: &Builder<S>) -> &S {
    &builder.own
}

/// Returns clip rule, noise and delta of a builder's settings, for [`MethodSettings::plan`].
/// The run's result also depends on `other_releases`.
///
/// # Guarantee
/// A target is for the steps and `other_releases` together.
///
/// # Errors
/// As [`Builder::plan_for`].
pub fn privacy<S: MethodSettings>(
    builder: &Builder<S>,
    population: &Population,
    other_releases: &[Event],
) -> Result<Privacy> {
    builder.private.resolve(S::descriptor().title, &builder.settings, population, other_releases)
}

/// Returns the plan of a builder's settings, for [`MethodSettings::plan`]. `learning_rate` is the
/// default with SGD.
///
/// # Errors
/// As [`Builder::plan_for`]; `Accounting` if the method's own event costs more than the target.
pub fn plan<S: MethodSettings>(
    builder: &Builder<S>,
    population: &Population,
    learning_rate: f64,
    privacy: Option<Privacy>,
) -> Result<Plan> {
    let learning_rate = builder.settings.learning_rate_or(learning_rate);
    let plan = Plan::new(S::descriptor(), &builder.settings, population, learning_rate, privacy)?;
    plan.check_target(S::descriptor())?;
    Ok(plan)
}

impl<S: MethodSettings> Method for Builder<S> {
    fn descriptor(&self) -> &'static MethodDescriptor {
        S::descriptor()
    }

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn settings_mut(&mut self) -> &mut Settings {
        &mut self.settings
    }

    fn privacy_settings_mut(&mut self) -> Option<&mut PrivacySettings> {
        S::descriptor().adds_noise.then_some(&mut self.private)
    }

    fn own_mut(&mut self) -> &mut dyn Any {
        &mut self.own
    }

    fn set(&mut self, name: &str, text: &str) -> Result<()> {
        set(self, name, text)
    }

    fn plan_for(&self, population: &Population) -> Result<Plan> {
        S::plan(self, population)
    }

    fn without_sparsity(&self) -> Box<dyn Method> {
        S::dense(self)
    }

    fn clone_box(&self) -> Box<dyn Method> {
        Box::new(self.clone())
    }

    fn equals(&self, other: &dyn Method) -> bool {
        (other as &dyn Any).downcast_ref() == Some(self)
    }
}
