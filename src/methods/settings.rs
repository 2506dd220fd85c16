//! The settings that every method shares, and the builder methods that fill them in.

use crate::data::Augment;
use crate::mask::Sparsity;
use crate::methods::Optimizer;
use crate::nn::Precision;
use crate::privacy::digits::{count, counted};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// The settings that every method shares. Each method's builder fills them in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Expected number of examples in a batch.
    pub expected_batch_size: usize,
    /// Passes over the data, in expectation; ignored when `steps` is given.
    pub epochs: f64,
    /// Number of logical steps, if given directly.
    pub steps: Option<u64>,
    /// Step length of the optimizer; `None` lets the method choose.
    pub learning_rate: Option<f64>,
    /// The update rule.
    pub optimizer: Optimizer,
    /// Random versions of each example, if it is not taken as it is.
    // Left out of the text when there is none: runs of before keep their names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub augment: Option<Augment>,
    /// Which coordinates are trained, if not all of them in every step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sparsity: Option<Sparsity>,
    /// In which numbers a card computes products.
    #[serde(default, skip_serializing_if = "Precision::is_default")]
    pub precision: Precision,
    /// A seed makes the run repeatable and stamps it "study mode"; `None` uses the operating
    /// system's randomness.
    pub seed: Option<u64>,
    /// Where to train, by name; `None` lets [`Place::best`](crate::device::Place::best) choose.
    /// Not part of what a run is known by: it decides how fast it goes and the last bits only.
    #[serde(skip)]
    pub device: Option<String>,
    /// Train anew even if a finished run with these settings is stored.
    #[serde(skip)]
    pub fresh: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            expected_batch_size: 256,
            epochs: 5.0,
            steps: None,
            learning_rate: None,
            optimizer: Optimizer::default(),
            augment: None,
            sparsity: None,
            precision: Precision::F32,
            seed: None,
            device: None,
            fresh: false,
        }
    }
}

/// Writes the builder methods that every method shares.
///
/// They are inherent methods (not a trait): a notebook cell completes them without an import.
macro_rules! shared_settings {
    ($method:ty) => {
        impl $method {
            /// Expected number of examples in a batch (the sampling rate is this over the size
            /// of the training part).
            pub fn batch_size(mut self, expected: usize) -> Self {
                self.settings.expected_batch_size = expected;
                self
            }
            /// Passes over the data, in expectation: `ceil(epochs * examples / batch_size)` steps.
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
            /// Step length of the optimizer.
            pub fn learning_rate(mut self, learning_rate: f64) -> Self {
                self.settings.learning_rate = Some(learning_rate);
                self
            }
            /// The update rule; SGD with momentum 0.9 if not said.
            pub fn optimizer(mut self, optimizer: $crate::methods::Optimizer) -> Self {
                self.settings.optimizer = optimizer;
                self
            }
            /// Several random versions of each image in every step, whose gradients are averaged
            /// before they are clipped: `.augment(data::Augment::default())`. Epsilon and noise
            /// stay the same, a step costs as many times more as there are versions.
            pub fn augment(mut self, augment: $crate::data::Augment) -> Self {
                self.settings.augment = Some(augment);
                self
            }
            /// Fixes all randomness of the run, for study: a seeded run is repeatable, so its
            /// noise is known to whoever knows the seed, and its statement says so.
            pub fn seed(mut self, seed: u64) -> Self {
                self.settings.seed = Some(seed);
                self
            }
            /// Where to train: `"cpu"`, `"cuda"`, `"cuda:1"`, `"wgpu"`. If not said, what the
            /// variable `EPSILAB_DEVICE` says, else a CUDA card if one works, else the CPU.
            pub fn device(mut self, name: impl ToString) -> Self {
                self.settings.device = Some(name.to_string());
                self
            }
            /// Lets a card compute large products of numbers of 8 bits (`Precision::Bf16`), several
            /// times as fast; norms, sums and noise stay in f32, and so does the guarantee. The CPU
            /// computes in f32 all the same.
            pub fn precision(mut self, precision: $crate::nn::Precision) -> Self {
                self.settings.precision = precision;
                self
            }
            /// Trains anew (and spends anew) even if a finished run of these settings is stored.
            pub fn fresh(mut self) -> Self {
                self.settings.fresh = true;
                self
            }
        }
    };
}
pub(crate) use shared_settings;

/// Writes the builder methods of a method that trains on selected coordinates.
macro_rules! sparse_settings {
    ($method:ty) => {
        impl $method {
            /// Trains only what a mask keeps: a [`Mask`](crate::mask::Mask), or a recipe that
            /// makes one of the model when the run begins (`Synflow::keep(0.3)`, `RandomMask`,
            /// `MagnitudeMask`, `DpSnip`).
            pub fn pre_prune(mut self, mask: impl Into<$crate::mask::PrePrune>) -> Self {
                self.sparsity_mut().pre_prune = Some(mask.into());
                self
            }
            /// Leaves a part of the coordinates out of every step, of those that a mask keeps:
            /// `Dropping::random(0.5)`, `Dropping::magnitude(0.5)`.
            pub fn drop_gradients(mut self, dropping: $crate::mask::Dropping) -> Self {
                self.sparsity_mut().dropping = Some(dropping);
                self
            }
            /// What the optimizer makes of coordinates that are dropped in a step: leaves value
            /// and momentum alone (`Lazy`, the default) or sees a gradient of zero (`Zeros`).
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

/// Steps of checked settings on `examples` training examples.
pub(crate) fn steps_of(settings: &Settings, examples: usize) -> Result<u64> {
    let batch = settings.expected_batch_size;
    if batch == 0 {
        return Err(Error::setting(
            "batch_size",
            batch,
            "an expected batch of zero learns nothing",
        )
        .fix("choose a batch size between 1 and the number of training examples"));
    }
    if batch > examples {
        return Err(Error::setting(
            "batch_size",
            count(batch),
            format!(
                "larger than the training part ({}), so the sampling rate would be above 1",
                counted(examples, "example")
            ),
        )
        .fix(format!("choose a batch size of at most {}", count(examples))));
    }
    let steps = match settings.steps {
        Some(steps) => steps as f64,
        None => {
            let epochs = settings.epochs;
            if !(epochs.is_finite() && epochs > 0.0) {
                return Err(Error::setting("epochs", epochs, "no example would be seen")
                    .fix("choose a positive number of epochs"));
            }
            (epochs * examples as f64 / batch as f64 - 1e-9).ceil()
        }
    };
    if !(1.0..=1e9).contains(&steps) {
        return Err(Error::setting("steps", steps, "a run has between 1 and 1e9 steps")
            .fix("choose other epochs, steps or batch size"));
    }
    Ok(steps as u64)
}
