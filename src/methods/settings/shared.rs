//! The settings that all methods share, and those of masks, with their builder methods.

use super::setting_spec::settings;
use super::{CheckpointInterval, CheckpointSettings, Sampling, Scope};
use crate::data::Augment;
use crate::mask::{DroppedStatePolicy, Dropping, PrePrune};
use crate::methods::builder::{MethodSettings, Sparse};
use crate::methods::{Builder, Optimizer};
use crate::nn::Precision;
use crate::optim::{Average, LearningRate, WarmUp};
use crate::privacy::NeighbouringRelation;

settings! {
    pub(super) static RUN in Scope::Shared, on |method| Some(method.settings_mut());
    impl [S: MethodSettings] Builder<S>, on |builder| &mut builder.settings;

    /// Sets the expected number of examples in a batch. The sampling rate of Poisson sampling is
    /// this over the size of the training part.
    #[setting("N", "256", Cost, ["batch"], "Expected number of examples in a batch")]
    fn batch_size(expected: usize) |settings| settings.expected_batch_size = expected;

    /// Sets the expected number of passes over the data: `ceil(epochs / sampling rate)` steps.
    #[setting("N", "5", Cost, [], "Passes over the data")]
    fn epochs(epochs: impl Into<f64> as f64) |settings| {
        settings.epochs = epochs;
        settings.steps = None;
    };

    /// Sets the number of steps, instead of epochs.
    #[setting("N", "", Cost, [], "Steps, instead of epochs")]
    fn steps(steps: u64) |settings| settings.steps = Some(steps);

    /// Shuffles the data in every epoch and cuts them into disjoint batches, instead of Poisson
    /// sampling. An epoch is then one release, without amplification by sampling, and the guarantee
    /// is for neighbours with the same number of examples: `NeighbouringRelation::ZeroOutOne` or
    /// `NeighbouringRelation::ReplaceOne`.
    #[setting(
        "NEIGHBOURS", "Poisson sampling", Cost, [],
        "Shuffle every epoch and cut it into disjoint batches, instead of Poisson sampling; the \
         guarantee is then for one example zeroed out (zero-out) or replaced (replace-one)"
    )]
    fn disjoint_batches(neighbouring: NeighbouringRelation) |settings| {
        settings.sampling = Sampling::DisjointBatches { neighbouring }
    };

    /// Sets the update rule; SGD with momentum 0.9 by default.
    #[setting(
        "NAME", "sgd", Outcome, [],
        "Update rule: sgd (momentum 0.9), sgd:0, nesterov, adam, adamw, dp-adam-bc"
    )]
    fn optimizer(optimizer: Optimizer) |settings| settings.optimizer = optimizer;

    /// Sets the learning rate of the optimizer.
    #[setting(
        "RATE", "with sgd 0.4 / clip, without privacy 0.1; with the Adam family 0.01", Outcome,
        ["lr"], "Learning rate, the largest of its schedule"
    )]
    fn learning_rate(learning_rate: f64) |settings| settings.learning_rate = Some(learning_rate);

    /// Sets a schedule of the learning rate, which is then its largest value: `LearningRate::Cosine
    /// { end_factor: 0.0 }`, or from text, `"one-cycle".parse()?`. A public schedule is
    /// post-processing: epsilon is the same. In a private plan, one that looks at a loss needs
    /// [`accept_no_guarantee`](Self::accept_no_guarantee).
    #[setting(
        "SCHEDULE", "constant", Cost, ["lr_schedule"],
        "Schedule of the learning rate: linear, exponential:0.95, polynomial:2, step:30:0.1, \
         multi-step:30,60:0.1, piecewise:10x1,5x0.8, cosine, cosine-restarts:10:2, cyclic:0.1:50, one-cycle, \
         plateau:0.1:10"
    )]
    fn learning_rate_schedule(schedule: LearningRate) |settings| {
        settings.learning_rate_schedule = schedule
    };

    /// Sets a linear warm-up of the learning rate, before its schedule begins:
    /// `WarmUp::Steps(500)`, `WarmUp::Fraction(0.1)`.
    #[setting(
        "WARM-UP", "", Outcome, [],
        "Linear warm-up of the learning rate: a fraction of the run (0.1) or steps (500)"
    )]
    fn warm_up(warm_up: WarmUp) |settings| settings.warm_up = Some(warm_up);

    /// Sets the decoupled weight decay, beside the released gradient: each step also subtracts
    /// learning rate x weight decay x value from tensors of two or more dimensions. By default 0.01
    /// for AdamW and 0 otherwise.
    #[setting("W", "0; with adamw 0.01", Outcome, [], "Decoupled weight decay")]
    fn weight_decay(weight_decay: f64) |settings| settings.weight_decay = Some(weight_decay);

    /// Evaluates and returns an average of the parameters: `Average::ema()`, `Average::Uniform`,
    /// `Average::Last { steps: 100 }`. Epsilon is the same.
    #[setting(
        "AVERAGE", "none", Outcome, [],
        "Average of the parameters that is tested and kept: none, ema, ema:0.999, uniform, last:100"
    )]
    fn average(average: Average as Option<Average>) |settings| settings.average = average;

    /// Freezes the parameters whose path matches, such as `"stem"`, `"group1.*"` or `"*.bias"`
    /// ([`FreezeConfig`](crate::mask::FreezeConfig) says how paths are matched). Frozen parameters
    /// keep their values and leave norm, noise and backward pass, so a step is cheaper, and
    /// epsilon is the same. May be given several times.
    #[setting(
        "PATTERN", "", Outcome, [] repeats,
        "Freeze the parameters of this path, layer or group, such as \"stem\", \"group1.*\", \
         \"*.bias\"; may be given several times"
    )]
    fn freeze(pattern: impl Into<String> as String) |settings| {
        settings.freezing.freeze.push(pattern)
    };

    /// Freezes all parameters except those whose path matches, such as `"head"`. May be given
    /// several times.
    #[setting(
        "PATTERN", "", Outcome, [] repeats,
        "Freeze all parameters but those of this path, layer or group; may be given several times"
    )]
    fn train_only(pattern: impl Into<String> as String) |settings| {
        settings.freezing.train_only.push(pattern)
    };

    /// Freezes the first stages of the network, counted from the input: of a residual network its
    /// stem and the first groups, of another convolutional network what lies before the first
    /// pooling layers. With all stages frozen, only the last linear layer is trained (Kurakin et
    /// al., 2022, appendix G).
    #[setting(
        "K", "0", Outcome, [],
        "Freeze the first K stages: of a residual network the stem and K groups, of another one \
         the layers up to the K-th pooling layer, or up to the flattening; with all stages only \
         the last linear layer is trained"
    )]
    fn freeze_groups(groups: usize) |settings| settings.freezing.groups = groups;

    /// Augmentation multiplicity: each step uses several random copies of each image and averages
    /// their gradients before clipping, `.augment(data::Augment::default())`. Epsilon and noise
    /// stay the same; the time of a step is multiplied by the number of copies.
    #[setting(
        "", "", Outcome, [],
        "Average each example's gradient over 16 random copies of the image, flipped and cropped"
    )]
    fn augment(augment: Augment) |settings| settings.augment = Some(augment);

    /// Accepts settings that void the guarantee, such as a learning rate that follows a loss of
    /// private examples. The badge says so, and every accountant refuses the run.
    #[setting(
        "", "", Cost, [],
        "Accept settings that void the guarantee, such as a learning rate that follows a loss"
    )]
    fn accept_no_guarantee() |settings| settings.accept_no_guarantee = true;

    /// Lets a GPU round the factors of large products to 8 significant bits (`Precision::Bf16`),
    /// which is several times as fast. Norms, sums and noise stay in f32, so the guarantee is the
    /// same. The CPU always computes in f32.
    #[setting("NAME", "f32", Speed, [], "Precision of large matrix products on a GPU: f32, bf16")]
    fn precision(precision: Precision) |settings| settings.precision = precision;

    /// Seeds all randomness of the run (study mode). A seeded run is reproducible: whoever knows
    /// the seed knows its noise, and its statement says so.
    #[setting(
        "N", "", Outcome, [],
        "Seed of parameters, batches and noise (study mode): anyone who knows it knows the noise"
    )]
    fn seed(seed: u64) |settings| settings.seed = Some(seed);
}

settings! {
    pub(super) static EXECUTION in Scope::Execution, on |method| Some(method.settings_mut());
    impl [S: MethodSettings] Builder<S>, on |builder| &mut builder.settings;

    /// Sets the device to train on: `"cpu"`, `"cuda"`, `"cuda:1"`, `"wgpu"`. By default the one
    /// that the variable `EPSILAB_DEVICE` names, otherwise a CUDA GPU if one works, otherwise the
    /// CPU.
    #[setting(
        "DEVICE", "EPSILAB_DEVICE, else a CUDA GPU if one works, else cpu", Speed, [],
        "Device for training: cpu, cuda, cuda:1, wgpu"
    )]
    fn device(name: impl Into<String> as String) |settings| settings.device = Some(name);

    /// Trains and spends again even if a finished run with these settings is stored.
    #[setting(
        "", "", Cost, [],
        "Train and spend again even if a finished run with these settings is stored"
    )]
    fn fresh() |settings| settings.fresh = true;

    /// Writes a checkpoint every so many steps, or minutes (`CheckpointInterval::Minutes(10.0)`).
    /// If the run is killed or stopped, the same call resumes from the last one: it spends nothing
    /// twice, and on the CPU the result is the same, bit for bit.
    ///
    /// # Guarantee
    /// That of the run, if nobody else reads the file of the checkpoint. It holds the seeds of
    /// sampling and noise, is readable by its owner only, and is removed when the run is finished.
    /// The charge stays in the ledger, and the file has no part in it.
    #[setting(
        "STEPS", "", Speed, [],
        "Interval between checkpoints, in steps (500) or minutes (10min); the same command resumes \
         from the last one"
    )]
    fn checkpoint_every(every: impl Into<CheckpointInterval> as CheckpointInterval) |settings| {
        settings.checkpoints = Some(CheckpointSettings { every, command: Vec::new() })
    };
}

settings! {
    pub(super) static SPARSE in Scope::Sparse, on |method| Some(method.settings_mut());
    impl [S: Sparse] Builder<S>, on |builder| &mut builder.settings;

    /// Sets how the optimizer treats coordinates that a step drops: it keeps their value and
    /// momentum (`Lazy`, the default), or applies a gradient of zero (`Zeros`).
    #[setting(
        "STATE", "lazy", Outcome, [],
        "What the optimizer does with dropped coordinates: keep value and momentum (lazy), or \
         apply a gradient of zero (zeros)"
    )]
    fn state_of_dropped(state: DroppedStatePolicy) |settings| {
        settings.sparsity.get_or_insert_default().state = state
    };
}

impl<S: Sparse> Builder<S> {
    /// Trains only the weights that a mask keeps: a [`Mask`](crate::mask::Mask), or a recipe that
    /// makes one from the model when the run begins (`Synflow::keep(0.3)`, `RandomMask`,
    /// `MagnitudeMask`, `DpSnip`).
    pub fn pre_prune(mut self, mask: impl Into<PrePrune>) -> Self {
        self.settings.sparsity.get_or_insert_default().pre_prune = Some(mask.into());
        self
    }

    /// Sets the gradient dropping: in every step, a part of the coordinates that the mask keeps is
    /// dropped, as `Dropping::random(0.5)` or `Dropping::magnitude(0.5)` selects it.
    pub fn drop_gradients(mut self, dropping: Dropping) -> Self {
        self.settings.sparsity.get_or_insert_default().dropping = Some(dropping);
        self
    }
}
