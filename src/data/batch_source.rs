//! Examples of one batch, and the source of their features.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::prelude::*;

use super::prefetcher::{Copies, Gather};
use super::{Augment, DeviceExamples, Examples};
use crate::{Error, Result};

/// Examples of one batch: their numbers, and the source of their features. The features themselves
/// are gathered by whoever needs them, some at a time. `i` counts the examples of the batch.
pub(crate) struct BatchSource {
    examples: Examples,
    ids: Vec<u32>,
    augmented: Option<StepAugmentation>,
    /// The examples on a device, which makes the features.
    on_device: Option<DeviceExamples>,
    skipped: Mutex<SkippedExamples>,
}

/// Examples in files that could not be used when they were gathered.
#[derive(Default)]
struct SkippedExamples {
    /// Positions of these examples in the batch.
    positions: BTreeSet<usize>,
    /// First error of reading such an example.
    error: Option<Error>,
}

/// The augmentation of one step.
#[derive(Clone, Copy)]
pub(crate) struct StepAugmentation {
    pub(crate) augment: Augment,
    /// Secret seed of the run, and number of the step.
    pub(crate) seed: [u64; 2],
}

impl BatchSource {
    /// Creates the batch of the examples with these indices, in this order.
    ///
    /// # Errors
    /// If an index is not below `examples.len()`, or if the augmentation does not apply to them.
    pub(crate) fn new(
        examples: &Examples,
        ids: Vec<u32>,
        augmented: Option<StepAugmentation>,
    ) -> Result<Self> {
        examples.check(&ids)?;
        augmented.map_or(Ok(()), |augmented| augmented.augment.check(examples.shape()))?;
        let (examples, left_out) = (examples.clone(), Mutex::default());
        Ok(Self { examples, ids, augmented, on_device: None, skipped: left_out })
    }

    /// Returns the same examples, with features that are made on a device.
    pub(crate) fn with_device(self, placed: DeviceExamples) -> Self {
        Self { on_device: Some(placed), ..self }
    }

    /// Returns the examples of the data set that the batch is taken from.
    pub(crate) fn examples(&self) -> &Examples {
        &self.examples
    }

    /// Returns the number of examples.
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns the index of each example in its data set.
    pub(crate) fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Returns the number of copies of each example.
    pub(crate) fn copies(&self) -> usize {
        self.augmented.map_or(1, |augmented| augmented.augment.multiplicity())
    }

    /// Returns the device that makes the features, if one does.
    pub(crate) fn device(&self) -> Option<&Device> {
        self.on_device.as_ref().map(DeviceExamples::device)
    }

    /// Returns the features of example `i`, if they are in memory in the form in which they are
    /// used.
    pub(crate) fn features_in_place(&self, i: usize) -> Option<&[f32]> {
        (self.augmented.is_none()).then(|| self.raw_features(i)).flatten()
    }

    /// Returns the features of example `i` without augmentation, if they are in memory.
    pub(crate) fn raw_features(&self, i: usize) -> Option<&[f32]> {
        self.examples.is_in_memory().then(|| self.examples.features(self.ids[i] as usize))
    }

    /// Returns whether all features are on this device.
    pub(crate) fn is_uploaded_to(&self, device: &Device) -> bool {
        self.on_device
            .as_ref()
            .is_some_and(|placed| placed.is_uploaded() && placed.device() == device)
    }

    /// Returns the features of some examples on a device, `[positions x copies, features]`:
    /// selected there if they were uploaded, otherwise from `plain`, their gathered features
    /// without augmentation.
    pub(crate) fn features_on_device(
        &self,
        device: &Device,
        positions: &[usize],
        plain: Option<Vec<f32>>,
    ) -> Result<Tensor<2>> {
        let ids: Vec<u32> = positions.iter().map(|&i| self.ids[i]).collect();
        let size = self.examples.shape().iter().product();
        let features = match (plain, &self.on_device) {
            (None, Some(placed)) => placed.gather_rows(&ids)?,
            (plain, _) => {
                let plain = plain.unwrap_or_default();
                Tensor::from_data(TensorData::new(plain, [ids.len(), size]), device)
            }
        };
        match self.augmented {
            None => Ok(features),
            Some(StepAugmentation { augment, seed }) => {
                augment.augment_on_device(features, self.examples.shape(), &ids, seed)
            }
        }
    }

    /// Returns the positions of examples in files that could not be read, or whose features were
    /// not finite, when they were gathered. They contribute nothing.
    pub(crate) fn skipped_positions(&self) -> BTreeSet<usize> {
        self.lock().positions.clone()
    }

    /// Returns the first error of reading an example that was left out. It must not reach anybody
    /// through a private run: it tells of a single example.
    pub(crate) fn first_read_error(&self) -> Option<Error> {
        self.lock().error.clone()
    }

    /// Locks the state; a poisoned lock is harmless, because every change of the state is one
    /// operation.
    fn lock(&self) -> MutexGuard<'_, SkippedExamples> {
        self.skipped.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gather for BatchSource {
    /// Gathers features; those of an example that can't be read are NaN.
    fn gather(&self, positions: &[usize], copies: Copies, into: &mut Vec<f32>) -> Result<()> {
        let ids: Vec<u32> = positions.iter().map(|&i| self.ids[i]).collect();
        let start = into.len();
        let unread = |_, error| {
            self.lock().error.get_or_insert(error);
            Ok(())
        };
        match (copies, self.augmented) {
            (Copies::Augmented, Some(StepAugmentation { augment, seed })) => {
                augment.gather(&self.examples, &ids, seed, into, &unread)?;
            }
            _ => self.examples.gather_readable(&ids, into, &unread)?,
        }
        if !self.examples.is_in_memory() {
            let size = (into.len() - start) / positions.len().max(1);
            let features = into[start..].chunks_exact(size.max(1));
            let bad = features.zip(positions).filter(|(features, _)| !is_finite(features));
            self.lock().positions.extend(bad.map(|(_, &position)| position));
        }
        Ok(())
    }
}

/// Returns whether all features are finite numbers. No early exit within a block: the compiler
/// vectorises the check.
pub(crate) fn is_finite(features: &[f32]) -> bool {
    features.chunks(64).all(|block| block.iter().fold(true, |ok, v| ok & v.is_finite()))
}

/// The reader of the batches of a run.
pub(crate) type BatchPrefetcher = Arc<super::prefetcher::Prefetcher<BatchSource>>;
