//! The settings that all methods share, and their builder methods.

mod batches;
mod checkpoints;
pub(super) mod private;
pub(super) mod sampling;

pub use batches::Batches;
pub use checkpoints::{CheckpointEvery, Checkpoints};
pub use private::PrivateSettings;
pub use sampling::Sampling;

use crate::data::Augment;
use crate::mask::{Freezing, Sparsity};
use crate::methods::Optimizer;
use crate::nn::Precision;
use crate::optim::{Average, LearningRate, WarmUp};
use crate::privacy::Length;
use crate::privacy::digits::{count, counted};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// The settings that all methods share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Expected number of examples in a batch.
    pub expected_batch_size: usize,
    /// Expected number of passes over the data; ignored if `steps` is given.
    pub epochs: f64,
    /// Number of steps, if it is given instead of epochs.
    pub steps: Option<u64>,
    /// How batches are drawn.
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
    /// The average of the parameters that is evaluated and returned.
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
    #[serde(default, skip_serializing_if = "Freezing::is_none")]
    pub freezing: Freezing,
    /// Precision of the products that a GPU computes.
    #[serde(default, skip_serializing_if = "Precision::is_default")]
    pub precision: Precision,
    /// Seed of a reproducible run, whose badge says "study mode"; `None` uses randomness of the
    /// operating system.
    pub seed: Option<u64>,
    /// Name of the device to train on; `None` for
    /// [`DeviceSpec::auto`](crate::device::DeviceSpec::auto). Not
    /// part of the identity of a run: it changes its speed and rounding only.
    #[serde(skip)]
    pub device: Option<String>,
    /// Train even if a finished run with these settings is stored.
    #[serde(skip)]
    pub fresh: bool,
    /// The checkpoints of the run, if it writes some. They do not change its results.
    #[serde(skip)]
    pub checkpoints: Option<Checkpoints>,
}

/// Default learning rate of the Adam family.
const ADAPTIVE_LEARNING_RATE: f64 = 0.01;

impl Settings {
    /// Checks optimizer, weight decay and average.
    ///
    /// # Errors
    /// `Setting` for values out of range.
    pub(crate) fn check(&self) -> Result<()> {
        self.optimizer.check()?;
        self.sampling.check()?;
        if let Some(norm) = self.clip_without_noise
            && !(norm.is_finite() && norm > 0.0)
        {
            return Err(Error::setting("clip", norm, "gradients are scaled down to this norm")
                .fix("choose a positive number, usually between 0.1 and 10"));
        }
        self.average.map_or(Ok(()), Average::check)?;
        self.checkpoints.as_ref().map_or(Ok(()), |checkpoints| checkpoints.every.check())?;
        match self.weight_decay {
            Some(decay) if !(decay >= 0.0 && decay.is_finite()) => {
                Err(Error::setting("weight_decay", decay, "it must be finite and at least 0")
                    .fix("use 0 for none, or try values around 1e-4"))
            }
            _ => Ok(()),
        }
    }

    /// The given learning rate, or the default: `sgd` for SGD, otherwise that of the Adam family,
    /// whose steps do not depend on the length of the gradient.
    pub(crate) fn learning_rate_or(&self, sgd: f64) -> f64 {
        let default = if self.optimizer.is_adaptive() { ADAPTIVE_LEARNING_RATE } else { sgd };
        self.learning_rate.unwrap_or(default)
    }

    /// What the learning rate depends on that is not released, as a phrase.
    pub(crate) fn looks_at_loss(&self) -> Option<String> {
        let looks_at = self.learning_rate_schedule.looks_at()?;
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
            freezing: Freezing::default(),
            precision: Precision::F32,
            seed: None,
            device: None,
            fresh: false,
            checkpoints: None,
        }
    }
}

/// Defines the builder methods that all methods share.
///
/// They are inherent methods, so that notebooks complete them without importing a trait.
macro_rules! shared_settings {
    ($method:ty) => {
        impl $method {
            /// The plan for the training part of these data, including its noise multiplier.
            ///
            /// # Errors
            /// As [`plan_for`](Self::plan_for).
            pub fn plan(
                &self,
                data: &$crate::data::Dataset,
            ) -> $crate::Result<$crate::methods::Plan> {
                self.plan_for(&data.into())
            }
            /// Expected number of examples in a batch (the sampling rate is this over the size
            /// of the training part).
            pub fn batch_size(mut self, expected: usize) -> Self {
                self.settings.expected_batch_size = expected;
                self
            }
            /// Expected number of passes over the data: `ceil(epochs * examples / batch_size)`
            /// steps.
            pub fn epochs(mut self, epochs: impl Into<f64>) -> Self {
                self.settings.epochs = epochs.into();
                self.settings.steps = None;
                self
            }
            /// Number of steps, instead of epochs.
            pub fn steps(mut self, steps: u64) -> Self {
                self.settings.steps = Some(steps);
                self
            }
            /// Shuffles the data in every epoch and cuts them into disjoint batches, instead of
            /// Poisson sampling. An epoch is then one release, without amplification by sampling,
            /// and the guarantee is for neighbours with the same number of examples:
            /// `Neighbouring::ZeroOutOne` or `Neighbouring::ReplaceOne`.
            pub fn disjoint_batches(mut self, neighbouring: $crate::privacy::Neighbouring) -> Self {
                self.settings.sampling =
                    $crate::methods::Sampling::DisjointBatches { neighbouring };
                self
            }
            /// Learning rate of the optimizer.
            pub fn learning_rate(mut self, learning_rate: f64) -> Self {
                self.settings.learning_rate = Some(learning_rate);
                self
            }
            /// A schedule of the learning rate, which is then its largest value:
            /// `LearningRate::Cosine { end_factor: 0.0 }`, or from text, `"one-cycle".parse()?`. A
            /// public schedule is post-processing: epsilon is the same. In a private plan, one that
            /// looks at a loss needs [`accept_no_guarantee`](Self::accept_no_guarantee).
            pub fn learning_rate_schedule(mut self, schedule: $crate::optim::LearningRate) -> Self {
                self.settings.learning_rate_schedule = schedule;
                self
            }
            /// Linear warm-up of the learning rate, before its schedule begins:
            /// `WarmUp::Steps(500)`, `WarmUp::Fraction(0.1)`.
            pub fn warm_up(mut self, warm_up: $crate::optim::WarmUp) -> Self {
                self.settings.warm_up = Some(warm_up);
                self
            }
            /// Decoupled weight decay, beside the released gradient: each step also subtracts
            /// learning rate x weight decay x value from tensors of two or more dimensions. By
            /// default 0.01 for AdamW and 0 otherwise.
            pub fn weight_decay(mut self, weight_decay: f64) -> Self {
                self.settings.weight_decay = Some(weight_decay);
                self
            }
            /// Evaluates and returns an average of the parameters: `Average::ema()`,
            /// `Average::Uniform`, `Average::Last { steps: 100 }`. Epsilon is the same.
            pub fn average(mut self, average: $crate::optim::Average) -> Self {
                self.settings.average = Some(average);
                self
            }
            /// Accepts settings that void the guarantee, such as a learning rate that follows a
            /// loss of private examples. The badge says so, and every accountant refuses the run.
            pub fn accept_no_guarantee(mut self) -> Self {
                self.settings.accept_no_guarantee = true;
                self
            }
            /// The update rule; SGD with momentum 0.9 by default.
            pub fn optimizer(mut self, optimizer: $crate::methods::Optimizer) -> Self {
                self.settings.optimizer = optimizer;
                self
            }
            /// Augmentation multiplicity: each step uses several random copies of each image and
            /// averages their gradients before clipping, `.augment(data::Augment::default())`.
            /// Epsilon and noise stay the same; the time of a step is multiplied by the number of
            /// copies.
            pub fn augment(mut self, augment: $crate::data::Augment) -> Self {
                self.settings.augment = Some(augment);
                self
            }
            /// Freezes the parameters whose path matches, such as `"stem"`, `"group1.*"` or
            /// `"*.bias"` ([`Freezing`](crate::mask::Freezing) says how paths are matched). Frozen
            /// parameters keep their values and leave norm, noise and backward pass, so a step is
            /// cheaper, and epsilon is the same. May be given several times.
            pub fn freeze(mut self, pattern: impl ToString) -> Self {
                self.settings.freezing.freeze.push(pattern.to_string());
                self
            }
            /// Freezes all parameters except those whose path matches, such as `"head"`. May be
            /// given several times.
            pub fn train_only(mut self, pattern: impl ToString) -> Self {
                self.settings.freezing.train_only.push(pattern.to_string());
                self
            }
            /// Freezes the first stages of the network, counted from the input: of a residual
            /// network its stem and the first groups, of another convolutional network what lies
            /// before the first pooling layers. With all stages frozen, only the last linear layer
            /// is trained (Kurakin et al., 2022, appendix G).
            pub fn freeze_groups(mut self, groups: usize) -> Self {
                self.settings.freezing.groups = groups;
                self
            }
            /// Seeds all randomness of the run (study mode). A seeded run is reproducible: whoever
            /// knows the seed knows its noise, and its statement says so.
            pub fn seed(mut self, seed: u64) -> Self {
                self.settings.seed = Some(seed);
                self
            }
            /// The device to train on: `"cpu"`, `"cuda"`, `"cuda:1"`, `"wgpu"`. By default the one
            /// that the variable `EPSILAB_DEVICE` names, otherwise a CUDA GPU if one works,
            /// otherwise the CPU.
            pub fn device(mut self, name: impl ToString) -> Self {
                self.settings.device = Some(name.to_string());
                self
            }
            /// Lets a GPU round the factors of large products to 8 significant bits
            /// (`Precision::Bf16`), which is several times as fast. Norms, sums and noise stay in
            /// f32, so the guarantee is the same. The CPU always computes in f32.
            pub fn precision(mut self, precision: $crate::nn::Precision) -> Self {
                self.settings.precision = precision;
                self
            }
            /// Writes a checkpoint every so many steps, or minutes
            /// (`CheckpointEvery::Minutes(10.0)`). If the run is killed or stopped, the same call
            /// goes on from the last one: it spends nothing twice, and on the CPU the result is
            /// the same, bit for bit.
            ///
            /// # Guarantee
            /// That of the run, if nobody else reads the file of the checkpoint. It holds the
            /// seeds of sampling and noise, is readable by its owner only, and is removed when the
            /// run is finished. The charge stays in the ledger, and the file has no part in it.
            pub fn checkpoint_every(
                mut self,
                every: impl Into<$crate::methods::CheckpointEvery>,
            ) -> Self {
                let (every, command) = (every.into(), Vec::new());
                self.settings.checkpoints = Some($crate::methods::Checkpoints { every, command });
                self
            }
            /// Trains and spends again even if a finished run with these settings is stored.
            pub fn fresh(mut self) -> Self {
                self.settings.fresh = true;
                self
            }
        }
    };
}
pub(crate) use shared_settings;

/// Defines the builder methods of a method that trains on selected coordinates.
macro_rules! sparse_settings {
    ($method:ty) => {
        impl $method {
            /// Trains only the weights that a mask keeps: a [`Mask`](crate::mask::Mask), or a
            /// recipe that makes one from the model when the run begins (`Synflow::keep(0.3)`,
            /// `RandomMask`, `MagnitudeMask`, `DpSnip`).
            pub fn pre_prune(mut self, mask: impl Into<$crate::mask::PrePrune>) -> Self {
                self.sparsity_mut().pre_prune = Some(mask.into());
                self
            }
            /// Drops a part of the coordinates that the mask keeps in every step:
            /// `Dropping::random(0.5)`, `Dropping::magnitude(0.5)`.
            pub fn drop_gradients(mut self, dropping: $crate::mask::Dropping) -> Self {
                self.sparsity_mut().dropping = Some(dropping);
                self
            }
            /// How the optimizer treats coordinates that a step drops: it keeps their value and
            /// momentum (`Lazy`, the default), or applies a gradient of zero (`Zeros`).
            pub fn state_of_dropped(mut self, state: $crate::mask::StateOfDropped) -> Self {
                self.sparsity_mut().state = state;
                self
            }
            fn sparsity_mut(&mut self) -> &mut $crate::mask::Sparsity {
                self.settings.sparsity.get_or_insert_default()
            }
        }
    };
}
pub(crate) use sparse_settings;

/// Number of steps of these settings on `examples` training examples.
pub(crate) fn steps_of(settings: &Settings, examples: usize) -> Result<u64> {
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
                counted(examples, "example")
            ),
        )
        .fix(format!("choose a batch size of at most {}", count(examples))));
    }
    let length = settings.steps.map_or(Length::Epochs(settings.epochs), Length::Steps);
    let steps = length.steps(settings.sampling.rate(examples, batch))?;
    if steps > 1_000_000_000 {
        return Err(Error::setting("steps", steps, "a run has between 1 and 1e9 steps")
            .fix("choose other epochs, steps or batch size"));
    }
    Ok(steps)
}
