//! The settings that all methods share, and their builder methods.

mod checkpoints;
mod data_loader;
pub(super) mod privacy_settings;
pub(super) mod sampling;
pub(super) mod setting_spec;
mod shared;

pub use checkpoints::{CheckpointInterval, CheckpointSettings};
pub use data_loader::DataLoader;
pub use privacy_settings::PrivacySettings;
pub use sampling::Sampling;
pub use setting_spec::{Affects, Scope, SettingSpec};

use crate::data::Augment;
use crate::mask::{FreezeConfig, Sparsity};
use crate::methods::Optimizer;
use crate::nn::Precision;
use crate::optim::{Average, LearningRate, WarmUp};
use crate::privacy::TrainingLength;
use crate::privacy::digits::{format_count, pluralise};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// Returns the settings that more than one method has, in the order in which they are applied.
pub fn shared_settings() -> impl Iterator<Item = &'static SettingSpec> + Clone {
    [
        shared::RUN,
        privacy_settings::NOISE,
        privacy_settings::CLIP,
        shared::SPARSE,
        shared::EXECUTION,
    ]
    .into_iter()
    .flatten()
}

/// The settings that all methods share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Expected number of examples in a batch.
    pub expected_batch_size: usize,
    /// Expected number of passes over the data; ignored if `steps` is given.
    pub epochs: f64,
    /// Number of steps, if it is given instead of epochs.
    pub steps: Option<u64>,
    /// Sampling scheme of the batches.
    #[serde(default, skip_serializing_if = "Sampling::is_poisson")]
    pub sampling: Sampling,
    /// Learning rate; `None` for the method's default.
    pub learning_rate: Option<f64>,
    /// The update rule.
    pub optimizer: Optimizer,
    /// The schedule of the learning rate.
    #[serde(default, skip_serializing_if = "is_constant")]
    pub learning_rate_schedule: LearningRate,
    /// Linear warm-up of the learning rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<WarmUp>,
    /// Decoupled weight decay; `None` for the optimizer's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_decay: Option<f64>,
    /// The average of the parameters that is evaluated and returned; `None` for the parameters
    /// after the last step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average: Option<Average>,
    /// The clip norm of a method without noise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clip_without_noise: Option<f64>,
    /// Whether settings that void the guarantee are accepted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub accept_no_guarantee: bool,
    /// The augmentation, if there is one.
    // Not serialised without one, so that the names of earlier runs stay the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub augment: Option<Augment>,
    /// Mask and gradient dropping; `None` trains all coordinates in every step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sparsity: Option<Sparsity>,
    /// Parameter tensors that are not trained.
    #[serde(default, skip_serializing_if = "FreezeConfig::is_empty")]
    pub freezing: FreezeConfig,
    /// Precision of the products that a GPU computes.
    #[serde(default, skip_serializing_if = "Precision::is_default")]
    pub precision: Precision,
    /// Seed of a reproducible run, whose badge says "study mode"; `None` uses randomness of the
    /// operating system.
    pub seed: Option<u64>,
    /// Name of the device to train on; `None` for
    /// [`DeviceSpec::auto`](crate::device::DeviceSpec::auto). Not part of the identity of a run: it
    /// changes its speed and rounding only.
    #[serde(skip)]
    pub device: Option<String>,
    /// Whether to train even if a finished run with these settings is stored.
    #[serde(skip)]
    pub fresh: bool,
    /// The checkpoints of the run, if it writes some. They do not change its results.
    #[serde(skip)]
    pub checkpoints: Option<CheckpointSettings>,
}

/// Default learning rate of the Adam family.
const ADAPTIVE_LEARNING_RATE: f64 = 0.01;

impl Settings {
    /// Checks optimizer, sampling, clip norm without noise, average, checkpoints and weight decay.
    ///
    /// # Errors
    /// `Setting` for values out of range.
    pub(crate) fn check(&self) -> Result<()> {
        self.optimizer.check()?;
        self.sampling.check()?;
        if let Some(norm) = self.clip_without_noise
            && !(norm.is_finite() && norm > 0.0)
        {
            return Err(Error::setting(
                "clip",
                norm,
                "gradients are scaled down to this norm, so it must be positive",
            )
            .fix("choose a positive number, usually between 0.1 and 10"));
        }
        self.average.map_or(Ok(()), Average::check)?;
        self.checkpoints.as_ref().map_or(Ok(()), |checkpoints| checkpoints.every.check())?;
        match self.weight_decay {
            Some(decay) if !(decay >= 0.0 && decay.is_finite()) => {
                Err(Error::setting("weight_decay", decay, "must be finite and at least 0")
                    .fix("use 0 for none, or try values around 1e-4"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the given learning rate, or the default: `sgd` for SGD, otherwise that of the Adam
    /// family, whose steps do not depend on the length of the gradient.
    pub(crate) fn learning_rate_or(&self, sgd: f64) -> f64 {
        let default = if self.optimizer.is_adaptive() { ADAPTIVE_LEARNING_RATE } else { sgd };
        self.learning_rate.unwrap_or(default)
    }

    /// Returns a phrase on the unreleased loss that the learning rate follows; `None` for a public
    /// schedule.
    pub(crate) fn loss_dependence_reason(&self) -> Option<String> {
        let looks_at = self.learning_rate_schedule.private_input()?;
        Some(format!("the learning rate follows {looks_at}"))
    }
}

fn is_constant(schedule: &LearningRate) -> bool {
    *schedule == LearningRate::Constant
}

fn is_false(flag: &bool) -> bool {
    !flag
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            expected_batch_size: 256,
            epochs: 5.0,
            steps: None,
            sampling: Sampling::Poisson,
            learning_rate: None,
            optimizer: Optimizer::default(),
            learning_rate_schedule: LearningRate::Constant,
            warm_up: None,
            weight_decay: None,
            average: None,
            clip_without_noise: None,
            accept_no_guarantee: false,
            augment: None,
            sparsity: None,
            freezing: FreezeConfig::default(),
            precision: Precision::F32,
            seed: None,
            device: None,
            fresh: false,
            checkpoints: None,
        }
    }
}

/// Computes the number of steps of these settings on `examples` training examples.
pub(crate) fn step_count(settings: &Settings, examples: usize) -> Result<u64> {
    let batch = settings.expected_batch_size;
    if batch == 0 {
        return Err(Error::setting("batch_size", batch, "an empty batch has no gradient")
            .fix("choose a batch size between 1 and the number of training examples"));
    }
    if batch > examples {
        return Err(Error::setting(
            "batch_size",
            batch,
            format!(
                "larger than the training part ({}), so the sampling rate would be above 1",
                pluralise(examples, "example")
            ),
        )
        .fix(format!("choose a batch size of at most {}", format_count(examples))));
    }
    let length =
        settings.steps.map_or(TrainingLength::Epochs(settings.epochs), TrainingLength::Steps);
    let steps = length.steps(settings.sampling.rate(examples, batch))?;
    if steps > 1_000_000_000 {
        return Err(Error::setting(
            "steps",
            steps,
            "the number of steps must be between 1 and 1e9",
        )
        .fix("change the epochs, the steps or the batch size"));
    }
    Ok(steps)
}
