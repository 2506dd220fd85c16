//! The plan of a run: all settings that determine its guarantee.

use crate::data::{Dataset, Population};
use crate::device::DeviceSpec;
use crate::engine::{Bound, ClipRule};
use crate::mask::{FreezeConfig, Sparsity};
use crate::methods::registry::{self, MethodDescriptor};
use crate::methods::settings::privacy_settings::check_clip;
use crate::methods::settings::step_count;
use crate::methods::{Mechanism, QuantileClipping, Sampling, Settings};
use crate::nn::{Model, Network};
use crate::optim::LearningRateScheduler;
use crate::privacy::{
    Accountant, ClipSchedule, Delta, Epsilon, Event, NeighbouringRelation, NoiseMultiplier,
    NoiseSchedule, PrivacyCost, RunReleases, SamplingRate, Stages, TightestAccountant,
};
use crate::{Error, ErrorKind, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

mod file;
mod scale;
mod scaled;
mod selection;

pub use scaled::Scaled;
pub use selection::TrialSelection;

/// The private part of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Privacy {
    /// The clip rule, which determines the sensitivity.
    pub clip: ClipRule,
    /// Noise multiplier of a step: the standard deviation of the noise on the sum, divided by its
    /// sensitivity; with noisy counts, that of sum and counts together.
    pub noise_multiplier: f64,
    /// The delta of the reported epsilon.
    pub delta: Delta,
    /// The target epsilon, if the noise was calibrated to one.
    pub target: Option<Epsilon>,
    /// Schedule of the noise multiplier, whose initial value is `noise_multiplier`.
    // Not serialised where it is constant, so that the names of earlier runs stay the same.
    #[serde(default, skip_serializing_if = "NoiseSchedule::is_constant")]
    pub noise_schedule: NoiseSchedule,
    /// Schedule of the clip norm, relative to that of `clip`.
    #[serde(default, skip_serializing_if = "ClipSchedule::is_constant")]
    pub clip_schedule: ClipSchedule,
    /// Adaptation of the clip norm to a quantile of the gradient norms, by noisy counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantile: Option<QuantileClipping>,
}

impl Privacy {
    /// Creates the privacy parameters from a clip rule and a noise multiplier that never change.
    pub fn new(clip: ClipRule, noise_multiplier: f64, delta: Delta) -> Self {
        let (noise_schedule, clip_schedule) = Default::default();
        Self {
            clip,
            noise_multiplier,
            delta,
            target: None,
            noise_schedule,
            clip_schedule,
            quantile: None,
        }
    }

    /// Checks clip rule, noise multiplier, delta and target. Only a method without a guarantee may
    /// be without a bound. Mechanisms refuse the clip rules of other methods.
    ///
    /// # Errors
    /// `Setting` for values out of range.
    pub(crate) fn check(&self, may_be_unbounded: bool) -> Result<()> {
        match self.clip {
            ClipRule::Unbounded { .. } if may_be_unbounded => self.clip.check()?,
            ClipRule::Backprop(_) => self.clip.check()?,
            _ => check_clip(&self.clip)?,
        }
        NoiseMultiplier(self.noise_multiplier).check()?;
        self.delta.check()?;
        self.target.map(Epsilon::check).transpose()?;
        Ok(())
    }

    /// Returns the stages of a run of `steps` steps.
    ///
    /// # Errors
    /// `Setting` for values out of range.
    pub(crate) fn stages(&self, sampling_rate: SamplingRate, steps: u64) -> Result<Stages> {
        let initial = NoiseMultiplier(self.noise_multiplier);
        let (noise, clip) = (&self.noise_schedule, &self.clip_schedule);
        Ok(Stages::from_schedules(noise, clip, initial, sampling_rate, steps)?)
    }
}

/// Sampler, clip rule, noise and steps of one run.
///
/// A plan is made by a method from checked settings, or read from the record of a stored run. Its
/// parts can't be changed afterwards.
///
/// ```
/// use epsilab::prelude::*;
/// let method = DpSgd::new().noise_multiplier(1.0).batch_size(600).epochs(5);
/// let plan = method.plan_for(&data::Population::with_size(60_000))?; // or method.plan(&data)?
/// assert_eq!((plan.steps(), plan.sampling_rate()), (500, 0.01));
/// assert_eq!(plan.event(), Event::poisson(0.01, 1.0, 500)); // what the ledger is charged
/// assert!(plan.epsilon_after(100)? < plan.epsilon_after(500)?);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    method: String,
    examples: usize,
    steps: u64,
    learning_rate: f64,
    settings: Settings,
    privacy: Option<Privacy>,
    /// Releases about the data that the given mask depends on, from earlier entries of the ledger.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    before: Vec<Event>,
    /// [`Dataset::not_covered_reason`] of the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data_not_covered: Option<String>,
    /// The trials of which only the best is released.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    selection: Option<TrialSelection>,
    /// Settings that only the method knows, if it keeps some here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    own: Option<serde_json::Value>,
}

impl Plan {
    /// Checks the shared settings against size and shape of the training part, which are public.
    /// Without data there is no shape, and training checks what depends on it.
    ///
    /// # Errors
    /// `Setting` for zero or non-finite epochs, zero steps, a batch of 0 or larger than the data,
    /// a learning rate that is not positive, a momentum outside [0, 1), an augmentation that the
    /// data's shape does not allow; `Device` for a device that does not exist by this name.
    pub(crate) fn new(
        descriptor: &MethodDescriptor,
        settings: &Settings,
        population: &Population,
        learning_rate: f64,
        privacy: Option<Privacy>,
    ) -> Result<Self> {
        if let Some(augment) = settings.augment {
            match population.data() {
                Some(data) => augment.check(data.shape())?,
                None => augment.check_copies()?,
            }
        }
        settings.device.as_deref().map_or(Ok(()), |name| name.parse::<DeviceSpec>().map(|_| ()))?;
        let examples = population.examples();
        let steps = step_count(settings, examples)?;
        let sparsity = settings.sparsity.as_ref();
        let before = sparsity.map(|sparsity| sparsity.prior_releases(population)).transpose()?;
        let before = before.into_iter().flatten().map(|(_, event)| event).collect();
        let plan = Self {
            method: descriptor.title.to_owned(),
            examples,
            steps,
            learning_rate,
            settings: settings.clone(),
            privacy,
            before,
            data_not_covered: population
                .data()
                .and_then(Dataset::not_covered_reason)
                .map(str::to_owned),
            selection: None,
            own: None,
        };
        plan.check()?;
        Ok(plan)
    }

    /// Checks the values that need no data: learning rate, optimizer, schedules, masks.
    fn check(&self) -> Result<()> {
        let Self { settings, learning_rate, .. } = self;
        if !(learning_rate.is_finite() && *learning_rate > 0.0) {
            return Err(Error::setting(
                "learning_rate",
                learning_rate,
                "must be a positive number",
            )
            .fix("leave it out for the default, or try values around 0.1 to 4"));
        }
        settings.check()?;
        self.learning_rate_scheduler()?;
        if let Some(looks_at) = settings.loss_dependence_reason()
            && self.privacy.is_some()
            && !settings.accept_no_guarantee
        {
            let what = "a learning-rate schedule that follows a loss, in a private plan";
            return Err(Error::new(ErrorKind::Setting, what, looks_at)
                .fix("use a public schedule such as cosine, or .accept_no_guarantee()"));
        }
        if let Some(sparsity) = &settings.sparsity {
            sparsity.check()?;
            sparsity.mask_release()?;
        }
        Ok(())
    }

    /// Refuses a plan whose releases cost more than its target, because the method has an event of
    /// its own.
    ///
    /// # Errors
    /// `Accounting` for such a plan.
    pub(super) fn check_target(&self, descriptor: &MethodDescriptor) -> Result<()> {
        let target = self.privacy.as_ref().and_then(|privacy| privacy.target);
        let (Some(target), Ok(Some(stages))) = (target, self.stages()) else { return Ok(()) };
        let event = (descriptor.event)(self, self.steps);
        if event == self.training_event(&stages, self.steps) {
            return Ok(());
        }
        let delta = self.privacy.as_ref().map_or(Delta::DEFAULT, |privacy| privacy.delta);
        let tightest = TightestAccountant::with_neighbouring(self.neighbouring());
        match tightest.epsilon(&[event], delta) {
            Ok(spent) if spent.epsilon > target.0 * (1.0 + 1e-9) => {
                let what = format!("a plan of {} for epsilon {target}", self.method);
                let why = format!("the releases cost epsilon {}", spent.epsilon);
                Err(Error::new(ErrorKind::Accounting, what, why)
                    .fix("calibrate the noise with the events of the method"))
            }
            _ => Ok(()),
        }
    }

    /// Stores settings that only the method knows, for its mechanism and its event. They are part
    /// of the plan's file and of the identity of its runs.
    ///
    /// # Errors
    /// `Setting` for settings that can't be written as JSON.
    pub fn with_method_settings(self, method_settings: &impl Serialize) -> Result<Self> {
        let method_settings = serde_json::to_value(method_settings)
            .map_err(|error| self.method_settings_error(&error))?;
        Ok(Self { own: Some(method_settings), ..self })
    }

    /// Returns the settings of [`with_method_settings`](Self::with_method_settings).
    ///
    /// # Errors
    /// `Setting` if the plan has none, or those of another type.
    pub fn method_settings<T: DeserializeOwned>(&self) -> Result<T> {
        let method_settings = self.own.clone().unwrap_or_default();
        serde_json::from_value(method_settings).map_err(|error| self.method_settings_error(&error))
    }

    fn method_settings_error(&self, error: &serde_json::Error) -> Error {
        let what = format!("the settings that only {} has, in a plan", self.method);
        Error::new(ErrorKind::Setting, what, error.to_string()).fix("make a new plan")
    }

    /// Returns the name of the method.
    pub fn method(&self) -> &str {
        &self.method
    }
    /// Returns the descriptor of the plan's method.
    ///
    /// # Errors
    /// `Setting` if this version does not know the method of a stored plan.
    pub fn descriptor(&self) -> Result<&'static MethodDescriptor> {
        registry::descriptor_by_title(&self.method).ok_or_else(|| {
            let what = format!("a plan of the method {}", self.method);
            Error::new(ErrorKind::Setting, what, "this version has no such method")
                .fix("make a new plan, or use the version that made it")
        })
    }
    /// Creates the mechanism of the plan's steps, whose noise has this seed.
    ///
    /// # Errors
    /// `Setting` if this version does not know the method of a stored plan.
    pub fn mechanism(&self, noise_seed: [u8; 32]) -> Result<Box<dyn Mechanism>> {
        (self.descriptor()?.mechanism)(self, noise_seed)
    }
    /// Returns the size of the training part, treated as public.
    pub fn examples(&self) -> usize {
        self.examples
    }
    /// Returns the number of logical steps.
    pub fn steps(&self) -> u64 {
        self.steps
    }
    /// Returns the expected number of examples in a batch, the divisor of the released sum.
    pub fn expected_batch_size(&self) -> usize {
        self.settings.expected_batch_size
    }
    /// Returns the sampling scheme of the batches.
    pub fn sampling(&self) -> Sampling {
        self.settings.sampling
    }
    /// Returns the neighbouring relation of the guarantee.
    pub fn neighbouring(&self) -> NeighbouringRelation {
        self.settings.sampling.neighbouring()
    }
    /// Returns the event of the first steps of a training with these stages, on the batches of
    /// this plan.
    ///
    /// # Guarantee
    /// As [`Stages::event`] on Poisson samples, and [`Stages::shuffled_event`] on disjoint batches.
    pub fn training_event(&self, stages: &Stages, steps: u64) -> Event {
        self.sampling().event(stages, self.examples, self.expected_batch_size(), steps)
    }
    /// Returns the error of a plan that lacks a part its method needs, as only an edited file
    /// does; `how` completes "a plan of DP-SGD ...".
    pub(super) fn edited(&self, how: &str) -> Error {
        let what = format!("a plan of {} {how}", self.method);
        Error::new(ErrorKind::CorruptData, what, "the file was edited").fix("make a new plan")
    }
    /// Returns the event of the first steps of a plan, whose file may have been edited so that it
    /// lacks its stages.
    ///
    /// # Guarantee
    /// As [`training_event`](Self::training_event); without stages, every accountant refuses it.
    pub(super) fn event_of(&self, stages: Result<Stages>, steps: u64) -> Event {
        match stages {
            Ok(stages) => self.training_event(&stages, steps),
            Err(error) => Event::Unaccountable { why: error.to_string() },
        }
    }
    /// Returns the probability with which each example is in a batch. In Poisson samples it is
    /// independent of all other examples; of disjoint batches, one in each epoch has the example.
    pub fn sampling_rate(&self) -> f64 {
        self.sampling().rate(self.examples, self.expected_batch_size()).0
    }
    /// Returns the expected number of passes over the data; an exact number on disjoint batches.
    pub fn epochs(&self) -> f64 {
        self.steps as f64 * self.sampling_rate()
    }
    /// Returns the learning rate of the optimizer.
    pub fn learning_rate(&self) -> f64 {
        self.learning_rate
    }
    /// Returns the sparsity settings, if not all coordinates are trained in every step.
    pub(crate) fn sparsity(&self) -> Option<&Sparsity> {
        self.settings.sparsity.as_ref()
    }
    /// Returns the parameter tensors that are not trained.
    pub fn freezing(&self) -> &FreezeConfig {
        &self.settings.freezing
    }
    /// Returns the device to train on: the one that the plan names, otherwise
    /// [`DeviceSpec::auto`].
    ///
    /// # Errors
    /// `Device` if that device can't work here, with what is missing.
    pub fn resolve_device(&self) -> Result<DeviceSpec> {
        match &self.settings.device {
            Some(name) => name.parse::<DeviceSpec>()?.checked(),
            None => DeviceSpec::auto(),
        }
    }
    /// Returns the seed, if the run is in study mode.
    pub fn seed(&self) -> Option<u64> {
        self.settings.seed
    }
    /// Returns the same plan in study mode, with this seed; of a private selection, all candidates
    /// have it.
    pub(crate) fn with_seed(&self, seed: u64) -> Self {
        let mut plan = self.clone();
        plan.settings.seed = Some(seed);
        plan.selection = self.selection.as_ref().map(|selection| selection.with_seed(seed));
        plan
    }
    /// Returns the same plan without a seed.
    pub(crate) fn without_seed(&self) -> Self {
        let mut plan = self.clone();
        plan.settings.seed = None;
        plan
    }
    /// Returns whether the plan itself names its device.
    pub(crate) fn has_explicit_device(&self) -> bool {
        self.settings.device.is_some()
    }
    /// Returns a plan of a few of the same steps, each on a full batch of other data: for
    /// measuring how long a step takes.
    pub(crate) fn for_timing(&self, steps: u64) -> Self {
        let (mut settings, examples) = (self.settings.clone(), self.expected_batch_size());
        settings.seed = Some(0);
        settings.steps = Some(steps);
        settings.checkpoints = None;
        Self { steps, examples, settings, before: Vec::new(), ..self.clone() }
    }
    /// Returns whether a stored run with these settings is ignored.
    pub(crate) fn is_fresh(&self) -> bool {
        self.settings.fresh
    }
    /// Returns the model that a run of the plan starts from. With a seed, initial parameters that
    /// nobody chose a seed for are drawn from a stream of the plan's, so that the run can be
    /// repeated.
    ///
    /// # Errors
    /// As building a model.
    pub(crate) fn initial_model(&self, model: &Model) -> Result<Model> {
        let Some(seed) = self.seed() else { return Ok(model.clone()) };
        let sha = Sha256::new_with_prefix(b"epsilab initial parameters 1\n");
        let hash = sha.chain_update(seed.to_le_bytes()).finalize();
        let mut first = [0; 8];
        first.copy_from_slice(&hash[..8]);
        model.seeded_by(u64::from_le_bytes(first))
    }
    /// Returns the model that the plan trains: `model`, or one with other layers around its
    /// parameters, such as the clips of backpropagation clipping.
    ///
    /// # Errors
    /// As [`descriptor`](Self::descriptor); `Setting` or `Model` if the method can't train the
    /// model.
    pub fn prepare_model(&self, model: &Model) -> Result<Model> {
        self.prepare_network(model.network()).map(|network| model.with_same_parameters(network))
    }
    /// Returns `network` as the plan trains it: with the layers that the method adds, such as the
    /// clips of backpropagation clipping.
    ///
    /// # Errors
    /// As [`prepare_model`](Self::prepare_model).
    pub(crate) fn prepare_network(&self, network: &Network) -> Result<Network> {
        let prepared = (self.descriptor()?.prepare_network)(self, network)?;
        Ok(prepared.unwrap_or_else(|| network.clone()))
    }
    /// Returns the bound on one example's influence on the sum of a step, counted from 0, on the
    /// network of [`prepare_model`](Self::prepare_model); `None` for a method without a bound.
    ///
    /// # Errors
    /// `Setting` if this version does not know the method of a stored plan.
    pub fn bound(&self, step: u64) -> Result<Option<Box<dyn Bound>>> {
        (self.descriptor()?.bound)(self, step)
    }
    /// Returns the stages of the run, which noise and ledger read; `None` for a method without
    /// privacy.
    ///
    /// # Errors
    /// `Setting` for values out of range, in the file of an edited plan.
    pub fn stages(&self) -> Result<Option<Stages>> {
        let rate = SamplingRate(self.sampling_rate());
        let stages = |privacy: &Privacy| privacy.stages(rate, self.steps);
        self.privacy.as_ref().map(stages).transpose()
    }
    /// Returns the learning rate of every step.
    ///
    /// # Errors
    /// `Setting` for values out of range, in the file of an edited plan.
    pub(crate) fn learning_rate_scheduler(&self) -> Result<LearningRateScheduler> {
        let Settings { learning_rate_schedule, warm_up, .. } = &self.settings;
        LearningRateScheduler::new(
            learning_rate_schedule,
            *warm_up,
            self.learning_rate,
            self.steps,
            1.0 / self.sampling_rate(),
        )
    }
    /// Returns the decoupled weight decay of the optimizer.
    pub(crate) fn weight_decay(&self) -> f64 {
        let default = self.settings.optimizer.default_weight_decay();
        self.settings.weight_decay.unwrap_or(default)
    }
    /// Returns the settings that all methods share.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
    /// Returns the private part; `None` for a method without privacy.
    pub fn privacy(&self) -> Option<&Privacy> {
        self.privacy.as_ref()
    }

    /// Returns whether the plan has a guarantee: the method is private, and nothing voids it.
    pub fn has_guarantee(&self) -> bool {
        self.privacy.is_some() && self.not_covered_reason().is_none()
    }

    /// Returns the reason why the guarantee is void regardless of the noise, as a phrase: a mask,
    /// or a preparation of the data, that was made from private examples without noise, a learning
    /// rate that follows a loss, or a method without a bound on one example's influence.
    pub fn not_covered_reason(&self) -> Option<String> {
        let mask = self.sparsity().and_then(Sparsity::non_private_reason);
        let mask = mask.map(|why| format!("the mask: {why}"));
        let method = || match self.descriptor() {
            Ok(descriptor) => (descriptor.not_covered_reason)(self),
            Err(_) => Some(format!("this version does not know the method {}", self.method)),
        };
        mask.or_else(|| self.data_not_covered.clone())
            .or_else(|| self.settings.loss_dependence_reason())
            .or_else(method)
    }

    /// Returns all releases of the plan: the charge to the ledger.
    pub fn event(&self) -> Event {
        self.event_after(self.steps)
    }

    /// Returns the releases of the first `steps` steps of this plan, and of a mask that the run
    /// makes.
    ///
    /// # Guarantee
    /// Neighbours: [`neighbouring`](Self::neighbouring), one example added or removed, or with
    /// disjoint batches one example whose gradient is replaced by zero. The event of the steps is
    /// that of the method ([`MethodDescriptor::event`]): of DP-SGD, a Poisson-subsampled Gaussian
    /// whose noise multiplier is the standard deviation of the noise over the sensitivity of the
    /// clip rule, on all or on selected coordinates. Without privacy, or where
    /// [`not_covered_reason`](Self::not_covered_reason) says why there is no guarantee, every
    /// accountant refuses the event.
    pub fn event_after(&self, steps: u64) -> Event {
        self.releases_by_role_after(steps).charged_event()
    }

    /// Returns all releases that the result of the first `steps` steps depends on, by role: those
    /// of a given mask about the same data, which have been charged already, and those of
    /// [`event_after`](Self::event_after).
    pub fn releases_by_role_after(&self, steps: u64) -> RunReleases {
        let unaccountable = |why| Event::Unaccountable { why };
        let training = match (self.descriptor(), &self.selection) {
            (Ok(descriptor), None) => (descriptor.event)(self, steps),
            (Ok(descriptor), Some(selection)) => {
                selection.event(steps, &(descriptor.event)(self, self.steps))
            }
            (Err(error), _) => unaccountable(error.to_string()),
        };
        // `Plan::new` has checked that this is no error.
        let mask = self.sparsity().and_then(|sparsity| sparsity.mask_release().ok().flatten());
        let preparation =
            self.data_not_covered.clone().or_else(|| self.settings.loss_dependence_reason());
        let preparation = preparation.map(unaccountable);
        RunReleases { before: self.before.clone(), preparation, mask, training }
    }

    /// Returns the events of [`releases_by_role_after`](Self::releases_by_role_after), in
    /// chronological order.
    pub fn releases_after(&self, steps: u64) -> Vec<Event> {
        self.releases_by_role_after(steps).events()
    }

    /// Checks that preparation and earlier releases of the data are those that the plan accounts
    /// for.
    pub(crate) fn check_prior_releases(&self, data: &Dataset) -> Result<()> {
        let other = |why: String| {
            Err(Error::new(ErrorKind::Setting, "a plan for other data", why)
                .fix("make the plan from the data that it trains on"))
        };
        if self.data_not_covered.as_deref() != data.not_covered_reason() {
            return other(format!("{} was prepared in another way", data.name()));
        }
        let released = self.sparsity().map(|s| s.prior_releases(&data.into())).transpose()?;
        let released = released.unwrap_or_default();
        if released.into_iter().map(|(_, event)| event).eq(self.before.iter().cloned()) {
            return Ok(());
        }
        other(format!("the mask has other releases about {}", data.name()))
    }

    /// Computes the cost of the first `steps` steps at the plan's delta, by [`TightestAccountant`];
    /// `None` without a guarantee.
    ///
    /// # Errors
    /// `Accounting` if no finite epsilon covers them.
    ///
    /// # Guarantee
    /// Upper bound under [`neighbouring`](Self::neighbouring) for all of
    /// [`releases_after`](Self::releases_after): the steps, a mask and earlier releases that the
    /// mask depends on.
    pub fn spent_after(&self, steps: u64) -> Result<Option<PrivacyCost>> {
        let cost = |privacy: &Privacy| {
            let tightest = TightestAccountant::with_neighbouring(self.neighbouring());
            tightest.epsilon(&self.releases_after(steps), privacy.delta)
        };
        Ok(self.privacy.as_ref().filter(|_| self.has_guarantee()).map(cost).transpose()?)
    }

    /// Computes the epsilon of [`spent_after`](Plan::spent_after).
    ///
    /// # Errors
    /// `Accounting` if no finite epsilon covers the steps.
    ///
    /// # Guarantee
    /// As [`spent_after`](Plan::spent_after).
    pub fn epsilon_after(&self, steps: u64) -> Result<Option<f64>> {
        Ok(self.spent_after(steps)?.map(|spent| spent.epsilon))
    }

    /// Computes the epsilons of [`epsilon_after`](Plan::epsilon_after) for several numbers of
    /// steps, which must not decrease; `None` without a guarantee. Many points cost little more
    /// than a few: see [`TightestAccountant::epsilons_after`].
    ///
    /// # Errors
    /// As [`spent_after`](Plan::spent_after).
    pub(crate) fn epsilons_after(&self, at: &[u64]) -> Result<Option<Vec<f64>>> {
        let costs = |privacy: &Privacy| {
            let lists: Vec<_> = at.iter().map(|&steps| self.releases_after(steps)).collect();
            let tightest = TightestAccountant::with_neighbouring(self.neighbouring());
            let spent = tightest.epsilons_for_prefixes(&lists, privacy.delta)?;
            Ok(spent.into_iter().map(|spent| spent.epsilon).collect())
        };
        self.privacy.as_ref().filter(|_| self.has_guarantee()).map(costs).transpose()
    }
}
