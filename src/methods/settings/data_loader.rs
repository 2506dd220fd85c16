//! Batches drawn by the sampler of a plan.

use std::sync::Arc;
use std::time::Duration;

use burn::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;

use crate::Result;
use crate::data::batch_source::{BatchPrefetcher, BatchSource, StepAugmentation};
use crate::data::prefetcher::Prefetcher;
use crate::data::{Augment, DeviceExamples, Examples};
use crate::engine::Batch;
use crate::methods::Plan;
use crate::nn::Network;

/// Loader of the batches of a plan, drawn with the sampler that its accountant assumes.
pub struct DataLoader {
    examples: Examples,
    augment: Option<Augment>,
    draws: BatchDraws,
    /// The device that makes the features, if it is not the host.
    on_device: Option<DeviceExamples>,
    /// Reader that gathers features ahead; `None` where they need not be gathered.
    prefetcher: Option<BatchPrefetcher>,
    /// The batch after the one that was drawn last, if it is drawn already.
    prefetched_batch: Option<DrawnBatch>,
}

/// The examples of a batch, and the seed of its dropout masks.
struct DrawnBatch {
    source: Arc<BatchSource>,
    seed: u64,
}

impl DataLoader {
    /// Creates the batches of `plan` over `examples`, whose features are made on the host.
    /// `sampling` seeds the sampler, `masks` the dropout masks and the augmentation; both must be
    /// secret.
    ///
    /// Features in memory are read in place. Image files and augmented copies are made in chunks by
    /// several threads, which are at most one chunk ahead, within a batch and from one batch to the
    /// next.
    ///
    /// # Guarantee
    /// By default each example is in a batch with the plan's sampling rate, independently of all
    /// other examples and steps (Poisson sampling); a plan with disjoint batches shuffles each
    /// epoch. Both are as [`Plan::event`] states. Dropout masks and augmented copies are drawn anew
    /// in every step, as functions of an example's own index and of a secret seed, whatever is
    /// gathered together; [`Batch::seed`] and [`Augment`] say why the sensitivity remains that of
    /// the clip rule.
    ///
    /// # Errors
    /// If the sampling rate is out of range, or the operating system can't start a thread.
    pub fn new(
        plan: &Plan,
        examples: &Examples,
        sampling: [u8; 32],
        masks: [u8; 32],
    ) -> Result<Self> {
        let batch_size = plan.expected_batch_size();
        let next_ids = plan.sampling().sampler(examples.len(), batch_size, sampling)?;
        let mut masks = ChaCha20Rng::from_seed(masks);
        masks.set_stream(STREAM);
        let augment_seed = masks.next_u64();
        let draws =
            BatchDraws { next_ids, dropout: masks, augment_seed, drawn: 0, steps: plan.steps() };
        let (examples, augment) = (examples.clone(), plan.settings().augment);
        let in_place = examples.is_in_memory() && augment.is_none();
        let reader = if in_place { None } else { Some(Arc::new(Prefetcher::start()?)) };
        Ok(Self {
            examples,
            augment,
            draws,
            on_device: None,
            prefetcher: reader,
            prefetched_batch: None,
        })
    }

    /// Returns the same batches, with features that are made on the network's device; on the CPU,
    /// nothing changes.
    ///
    /// Features in memory are uploaded once if they fit, and selected and augmented on the device,
    /// chunk by chunk. All others (image files, or data that exceeds the memory budget) are
    /// gathered in chunks by several threads, at most one chunk ahead, and augmented on the device.
    /// No batch copies data from the device to the host.
    ///
    /// # Guarantee
    /// That of [`new`](Self::new): equal seeds draw equal batches, masks and copies on every
    /// device. An example that can't be read contributes zero to the sum over its batch.
    ///
    /// # Errors
    /// If the examples hold token ids outside the network's vocabulary (the device does not check
    /// them), or if the plan's augmentation does not apply to them; as [`DeviceExamples::new`] and
    /// [`new`](Self::new).
    pub fn on(self, network: &Network) -> Result<Self> {
        if network.device() == Device::flex() { Ok(self) } else { self.on_device_path(network) }
    }

    /// Returns the same as [`on`](Self::on), but uses the code path of a GPU on the CPU too, for
    /// tests.
    ///
    /// # Errors
    /// As [`on`](Self::on).
    pub fn on_device_path(self, network: &Network) -> Result<Self> {
        let examples = self.examples.clone();
        if examples.is_in_memory() {
            // Data in files are images, which hold no token ids.
            network.check_tokens(examples.features_flat())?;
        }
        self.augment.map_or(Ok(()), |augment| augment.check(examples.shape()))?;
        let placed = DeviceExamples::new(&examples, &network.device())?;
        let reader = match (placed.is_uploaded(), self.prefetcher) {
            (true, _) => None,
            (false, Some(reader)) => Some(reader),
            (false, None) => Some(Arc::new(Prefetcher::start()?)),
        };
        Ok(Self { on_device: Some(placed), prefetcher: reader, ..self })
    }

    /// Skips the batches of the first `steps` steps, for a run that resumes after them. Called
    /// before the first [`draw`](Self::draw).
    pub(crate) fn skip(&mut self, steps: u64) {
        // Drawing examples again costs a small part of the steps, and works for every sampler.
        (0..steps).for_each(|_| drop(self.draws.next()));
    }

    /// Draws the next batch, which may be empty. Only its examples are drawn here: their features
    /// are gathered when an executor needs them.
    ///
    /// # Errors
    /// If the plan's augmentation does not apply to the examples.
    pub fn draw(&mut self) -> Result<Batch> {
        let DrawnBatch { source, seed } = match self.prefetched_batch.take() {
            Some(drawn) => drawn,
            None => self.source()?,
        };
        // None is read beyond the last step.
        if self.prefetcher.is_some() && self.draws.has_more() {
            self.prefetched_batch = Some(self.source()?);
        }
        let next = self.prefetched_batch.as_ref().map(|next| next.source.clone());
        Ok(Batch::from_source(source, self.prefetcher.clone(), next).seed(seed))
    }

    /// Returns the time that the sums over the batches waited for features that are read from
    /// files; `None` if the features are in memory.
    pub(crate) fn waited(&self) -> Option<Duration> {
        let reader = self.prefetcher.as_ref().filter(|_| !self.examples.is_in_memory());
        reader.map(|reader| reader.wait_time())
    }

    /// Draws the examples of one more batch.
    fn source(&mut self) -> Result<DrawnBatch> {
        let Draw { ids, seed, augmentation } = self.draws.next();
        let augmented =
            self.augment.map(|augment| StepAugmentation { augment, seed: augmentation });
        let source = BatchSource::new(&self.examples, ids, augmented)?;
        let source = match &self.on_device {
            Some(placed) => source.with_device(placed.clone()),
            None => source,
        };
        Ok(DrawnBatch { source: Arc::new(source), seed })
    }
}

/// The random draws of a plan's batches. They are made on the host: the number of examples decides
/// the tensor shapes of a step, so drawing on the device would need a synchronization per step. It
/// also makes a seed draw the same batches on every device.
struct BatchDraws {
    next_ids: Box<dyn FnMut() -> Vec<u32> + Send>,
    /// Generator of the dropout seed of each step.
    dropout: ChaCha20Rng,
    /// Seed of the augmentation; the step number is its second argument.
    augment_seed: u64,
    drawn: u64,
    /// Number of steps of the plan.
    steps: u64,
}

/// The random draws of one batch.
struct Draw {
    ids: Vec<u32>,
    /// Seed of the dropout masks.
    seed: u64,
    /// Seed of the augmentation, and number of the step.
    augmentation: [u64; 2],
}

impl BatchDraws {
    fn next(&mut self) -> Draw {
        let (ids, seed) = ((self.next_ids)(), self.dropout.next_u64());
        self.drawn += 1;
        Draw { ids, seed, augmentation: [self.augment_seed, self.drawn - 1] }
    }

    /// Returns whether the plan has further batches: none is read beyond its last step.
    fn has_more(&self) -> bool {
        self.drawn < self.steps
    }
}

/// ChaCha stream of the masks. A seed that is used for another purpose by mistake still gives a
/// different key stream.
const STREAM: u64 = u64::from_le_bytes(*b"masks\0\0\0");

#[cfg(test)]
mod tests;
