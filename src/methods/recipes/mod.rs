//! Settings of methods by name: those of papers at the scale of the paper and scaled to other data,
//! and that of training on public data.
//!
//! ```
//! use epsilab::methods::recipes;
//! # fn main() -> epsilab::Result<()> {
//! let data = epsilab::data::glyphs_with(1_000, 10, 1)?;
//! let scaled = recipes::imagenet_dp().scaled_to(&data);
//! println!("{scaled}"); // what was changed, and why
//! let plan = scaled.method().plan(&data)?;
//! assert_eq!(plan.expected_batch_size(), 51); // 65,536 of 1,281,167
//! # Ok(()) }
//! ```

mod published;

pub use super::Scaled;
pub use published::PublishedRecipe;

use super::{Builder, DpSgd, MethodSettings, NonPrivate};
use crate::data::Augment;
use crate::optim::{Average, LearningRate, Optimizer, WarmUp};
use crate::privacy::{Delta, Epsilon, NoiseMultiplier};

/// Training images of ImageNet (ILSVRC 2012).
const IMAGENET: usize = 1_281_167;
/// Training images of CIFAR-10.
const CIFAR: usize = 50_000;
/// A half cosine wave from the largest rate down to 0.
const COSINE: LearningRate = LearningRate::Cosine { end_factor: 0.0 };
/// Nesterov momentum as in all runs of Kurakin et al.
const NESTEROV: Optimizer = Optimizer::Nesterov { momentum: 0.9 };

/// Returns the recipe for fine-tuning of a pre-trained ResNet-18 on ImageNet at epsilon 10 and
/// delta 1e-6 (Kurakin et al., 2022, "Toward training at ImageNet scale with differential
/// privacy", section 3.6; 47.9 % top-1).
///
/// Batches of 65,536, 70 epochs, clip norm 1, Nesterov momentum 0.9, a learning rate that rises to
/// 7.68 in the first epoch and falls to 0 on a cosine, weight decay 1e-4. The paper freezes three
/// block groups (`.freeze_groups(3)`, Table 7) of a network that was pre-trained on Places365.
/// Its weight decay is a term of the loss; ours is [decoupled](DpSgd::weight_decay) and acts after
/// the noise, so that it takes no part in clipping.
///
/// # Guarantee
/// As [`DpSgd`]. The paper's epsilon is that of RDP; the noise multiplier here is found by the
/// lab's tighter accountants, so it is smaller at the same epsilon. The paper's noise is the sum of
/// that of 8 replicas ([`NoiseMultiplier::for_replicas`]).
pub fn imagenet_dp() -> PublishedRecipe<DpSgd> {
    let method = DpSgd::new()
        .target(Epsilon(10.0), Delta(1e-6))
        .clip(1.0)
        .batch_size(65_536)
        .epochs(70.0)
        .learning_rate(7.68)
        .warm_up(WarmUp::Fraction(1.0 / 70.0));
    imagenet(method)
}

/// Returns the recipe for training of a ResNet-18 on ImageNet from scratch (Kurakin et al., 2022,
/// Tables 5 and 9): the plan at the smallest batch, whose epsilon of 9.8e8 protects nobody.
///
/// Batches of 1,024, 10 epochs, clip norm 1, Nesterov momentum 0.9, a learning rate that rises to
/// 16 in the first tenth of the run and falls to 0 on a cosine, weight decay 1e-4, delta 1e-6.
/// Each of the 8 replicas that share a batch adds noise of multiplier 0.001
/// ([`NoiseMultiplier::for_replicas`]). [`Plan::scale`](crate::methods::Plan::scale) makes the
/// other columns of Table 5, and with other epochs those of Table 9; Table 4 has other noise
/// multipliers and rates.
///
/// Algorithm 1 of the paper returns the last parameters or the mean of the parameters after all
/// steps. The recipe returns the last ones; `.average(Average::Uniform)` returns the mean.
///
/// # Guarantee
/// As [`DpSgd`].
pub fn imagenet_from_scratch() -> PublishedRecipe<DpSgd> {
    let method = DpSgd::new()
        .noise_multiplier(NoiseMultiplier(0.001).for_replicas(8).0)
        .delta(Delta(1e-6))
        .clip(1.0)
        .batch_size(1_024)
        .epochs(10.0)
        .learning_rate(16.0)
        .warm_up(WarmUp::Fraction(0.1));
    imagenet(method)
}

/// Returns the recipe for training on ImageNet without privacy (Kurakin et al., 2022, appendix A;
/// ResNet-18 70.8 %, ResNet-50 75.3 % after 90 epochs).
///
/// Batches of 1,024, 90 epochs, Nesterov momentum 0.9, a learning rate that rises to 0.4 in the
/// first five epochs and falls to 0 on a cosine, weight decay 1e-4 (decoupled).
///
/// # Guarantee
/// None, as [`NonPrivate`].
pub fn imagenet_non_private() -> PublishedRecipe<NonPrivate> {
    let method = NonPrivate::new()
        .batch_size(1_024)
        .epochs(90.0)
        .learning_rate(0.4)
        .warm_up(WarmUp::Fraction(5.0 / 90.0));
    imagenet(method)
}

/// Creates a recipe of Kurakin et al. for ImageNet, with the settings that their recipes share.
fn imagenet<S: MethodSettings>(method: Builder<S>) -> PublishedRecipe<Builder<S>> {
    let method = method.optimizer(NESTEROV).learning_rate_schedule(COSINE).weight_decay(1e-4);
    PublishedRecipe::new(method, "ImageNet", IMAGENET)
}

/// Returns the recipe for training of small VGG networks on CIFAR-10 at noise multiplier 1.5
/// (Kurakin et al., 2022, appendix H; its other multipliers are 0.5 and 3.5).
///
/// Batches of 500, 100 epochs, clip norm 1, SGD with momentum 0.9, delta 1e-5. The paper tunes a
/// constant rate between 0.001 and 0.5 for each network; 0.1 here is one of its values. The network
/// simpleVGG-32(2)-64(2)-128(2)-128 is `simple_vgg(&data, &[32, 64, 128], 2)`.
///
/// # Guarantee
/// As [`DpSgd`].
pub fn cifar10_vgg() -> PublishedRecipe<DpSgd> {
    let method = DpSgd::new()
        .noise_multiplier(1.5)
        .delta(Delta(1e-5))
        .clip(1.0)
        .batch_size(500)
        .epochs(100.0)
        .learning_rate(0.1);
    PublishedRecipe::new(method, "CIFAR-10", CIFAR)
}

/// Returns the recipe for training of WRN-16-4 on CIFAR-10 from scratch at epsilon 1 and delta
/// 1e-5 (De et al., 2022, "Unlocking high-accuracy differentially private image classification
/// through scale"; the baseline of the paper on DP-SSGD reaches 56.8 %).
///
/// Noise multiplier 10, 875 steps of batches of 4,096, clip norm 1, SGD without momentum at the
/// constant rate 2, 16 augmented copies of each image, and an exponential average of the parameters
/// with decay 0.9999. The network is `wide_resnet(&data, 16, 4).as_published()`.
///
/// # Guarantee
/// As [`DpSgd`].
pub fn cifar10_from_scratch() -> PublishedRecipe<DpSgd> {
    PublishedRecipe::new(de_et_al(10.0, 4_096, 875, 2.0), "CIFAR-10", CIFAR)
}

/// Returns the recipe for fine-tuning of a pre-trained WRN-28-10 on CIFAR-10 at epsilon 1 and
/// delta 1e-5 (De et al., 2022): noise multiplier 21.1, 250 steps of batches of 16,384, rate 1;
/// otherwise as [`cifar10_from_scratch`].
/// [`WeightLayout::de_wide_resnet`](crate::nn::WeightLayout::de_wide_resnet) reads the published
/// weights.
///
/// # Guarantee
/// As [`DpSgd`].
pub fn cifar10_fine_tuning() -> PublishedRecipe<DpSgd> {
    PublishedRecipe::new(de_et_al(21.1, 16_384, 250, 1.0), "CIFAR-10", CIFAR)
}

/// Returns the settings that the recipes of De et al. share.
fn de_et_al(noise_multiplier: f64, batch_size: usize, steps: u64, learning_rate: f64) -> DpSgd {
    DpSgd::new()
        .noise_multiplier(noise_multiplier)
        .delta(Delta(1e-5))
        .clip(1.0)
        .batch_size(batch_size)
        .steps(steps)
        .optimizer(Optimizer::Sgd { momentum: 0.0 })
        .learning_rate(learning_rate)
        .augment(Augment::default())
        .average(Average::ema())
}

/// Returns the settings for training on public data, for a model that is fine-tuned on private
/// data afterwards.
///
/// 12 epochs in batches of 128, SGD with momentum 0.9, a learning rate that rises to 0.05 in the
/// first twentieth of the run and falls to 0 on a cosine. It is meant for the networks of this
/// crate on up to 50,000 small images; other data and networks may need another rate.
///
/// ```no_run
/// use epsilab::methods::{DpSgd, recipes};
/// use epsilab::privacy::{Delta, Epsilon};
/// use epsilab::{data, nn::models};
/// # fn main() -> epsilab::Result<()> {
/// let public = data::glyphs()?;
/// let model = models::papernot_cnn(&public).seed(1).build()?;
/// let pretrained = recipes::pretraining().train(&model, &public)?.model();
///
/// let data = data::mnist()?;
/// let run = DpSgd::new()
///     .target(Epsilon(1.0), Delta(1e-5))
///     .freeze_groups(1)
///     .train(&pretrained.transfer(&data).build()?, &data)?;
/// assert!(run.statement().to_string().contains("glyphs (drawn by code)"));
/// # Ok(()) }
/// ```
///
/// # Guarantee
/// None: it trains without privacy, and the ledger of the data says so. What a private run that
/// starts from the model assumes depends on the data: nothing for data drawn by code, that they are
/// public for [declared](crate::data::Dataset::assumed_public) ones.
pub fn pretraining() -> NonPrivate {
    NonPrivate::new()
        .batch_size(128)
        .epochs(12.0)
        .learning_rate(0.05)
        .learning_rate_schedule(COSINE)
        .warm_up(WarmUp::Fraction(0.05))
}

#[cfg(test)]
mod tests;
