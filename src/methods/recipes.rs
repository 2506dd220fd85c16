//! Settings of methods by name.

use super::NonPrivate;
use crate::optim::{LearningRate, WarmUp};

/// Training on public data, for a model that is fine-tuned on private data afterwards.
///
/// 12 epochs in batches of 128, SGD with momentum 0.9, a learning rate that rises to 0.05 in the
/// first twentieth of the run and falls to 0 on a cosine. It is meant for the networks of this
/// crate on up to 50,000 small images, and was chosen by trials on [`glyphs`](crate::data::glyphs)
/// and CIFAR-100.
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
        .learning_rate_schedule(LearningRate::Cosine { end_factor: 0.0 })
        .warm_up(WarmUp::Fraction(0.05))
}
