//! The examples of one batch, and how their features are made.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use burn::prelude::*;

use super::reader::{Copies, Gather};
use super::{Augment, Examples, OnDevice};
use crate::Result;

/// The examples of one batch: their numbers, and how their features are made. The features
/// themselves are gathered by whoever needs them, some at a time. `i` counts the examples of the
/// batch.
pub(crate) struct Source {
    examples: Examples,
    ids: Vec<u32>,
    augmented: Option<Augmented>,
    /// The examples on a device, which makes the features.
    placed: Option<OnDevice>,
    unreadable: AtomicBool,
}

/// The augmentation of one step.
#[derive(Clone, Copy)]
pub(crate) struct Augmented {
    pub(crate) augment: Augment,
    /// Secret seed of the run, and number of the step.
    pub(crate) seed: [u64; 2],
}

impl Source {
    /// The examples with these indices, in this order.
    ///
    /// # Errors
    /// If an index is not below `examples.len()`, or if the augmentation does not apply to them.
    pub(crate) fn new(
        examples: &Examples,
        ids: Vec<u32>,
        augmented: Option<Augmented>,
    ) -> Result<Self> {
        examples.check(&ids)?;
        augmented.map_or(Ok(()), |augmented| augmented.augment.check(examples.shape()))?;
        let (examples, unreadable) = (examples.clone(), AtomicBool::new(false));
        Ok(Self { examples, ids, augmented, placed: None, unreadable })
    }

    /// The same examples, with features that are made on a device.
    pub(crate) fn on(self, placed: OnDevice) -> Self {
        Self { placed: Some(placed), ..self }
    }

    /// The data set.
    pub(crate) fn examples(&self) -> &Examples {
        &self.examples
    }

    /// Number of examples.
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Index of each example in its data set.
    pub(crate) fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Number of copies of each example.
    pub(crate) fn copies(&self) -> usize {
        self.augmented.map_or(1, |augmented| augmented.augment.multiplicity())
    }

    /// The device that makes the features, if one does.
    pub(crate) fn device(&self) -> Option<&Device> {
        self.placed.as_ref().map(OnDevice::device)
    }

    /// The features of example `i`, if they are in memory as they are used.
    pub(crate) fn held(&self, i: usize) -> Option<&[f32]> {
        (self.augmented.is_none()).then(|| self.plain(i)).flatten()
    }

    /// The features of example `i` without augmentation, if they are in memory.
    pub(crate) fn plain(&self, i: usize) -> Option<&[f32]> {
        self.examples.is_in_memory().then(|| self.examples.features(self.ids[i] as usize))
    }

    /// Whether all features are on this device.
    pub(crate) fn is_whole_on(&self, device: &Device) -> bool {
        self.placed.as_ref().is_some_and(|placed| placed.is_whole() && placed.device() == device)
    }

    /// Whether no feature can be NaN or infinite: image files with usual scaling. Features in
    /// memory are not looked at.
    pub(crate) fn is_always_finite(&self) -> bool {
        self.examples.files().is_some_and(|files| files.are_finite())
    }

    /// The features of some examples on a device, `[positions x copies, features]`: selected there
    /// if they were uploaded, otherwise from `plain`, their gathered features without augmentation.
    pub(crate) fn features_on(
        &self,
        device: &Device,
        positions: &[usize],
        plain: Option<Vec<f32>>,
    ) -> Result<Tensor<2>> {
        let ids: Vec<u32> = positions.iter().map(|&i| self.ids[i]).collect();
        let size = self.examples.shape().iter().product();
        let features = match (plain, &self.placed) {
            (None, Some(placed)) => placed.rows(&ids)?,
            (plain, _) => {
                let plain = plain.unwrap_or_default();
                Tensor::from_data(TensorData::new(plain, [ids.len(), size]), device)
            }
        };
        match self.augmented {
            None => Ok(features),
            Some(Augmented { augment, seed }) => {
                augment.copies_of(features, self.examples.shape(), &ids, seed)
            }
        }
    }

    /// Remembers a failure to read, and passes it on.
    pub(crate) fn noted<T>(&self, read: Result<T>) -> Result<T> {
        if read.is_err() {
            self.unreadable.store(true, Ordering::Relaxed);
        }
        read
    }

    /// Whether examples that were needed could not be read.
    pub(crate) fn is_unreadable(&self) -> bool {
        self.unreadable.load(Ordering::Relaxed)
    }
}

impl Gather for Source {
    fn gather(&self, positions: &[usize], copies: Copies, into: &mut Vec<f32>) -> Result<()> {
        let ids: Vec<u32> = positions.iter().map(|&i| self.ids[i]).collect();
        match (copies, self.augmented) {
            (Copies::Augmented, Some(Augmented { augment, seed })) => {
                augment.gather(&self.examples, &ids, seed, into)
            }
            _ => self.examples.gather(&ids, into),
        }
    }
}

/// The reader of the batches of a run.
pub(crate) type SourceReader = Arc<super::reader::Reader<Source>>;
