//! Batch of one step: the features, labels and dropout seed of its examples.

mod features;

use std::fmt;
use std::sync::Arc;

use burn::prelude::*;

use crate::data::Examples;
use crate::data::batch_source::{BatchPrefetcher, BatchSource};
use crate::device::kernels::{self, DropoutMasks};
use crate::nn::Network;
use crate::{Error, ErrorKind, Result};
pub(super) use features::{Chunk, chunk_ranges};
use features::{Features, LazyFeatures};

/// Batch of one step: its examples, each in one or more augmented copies.
///
/// A batch either holds its features or names examples of a data set. Those stay where they are:
/// features in memory are read in place, all others (image files, augmented copies, data on a
/// device) are made in chunks while an executor works, by threads that are at most one chunk ahead.
/// So a batch may be larger than memory. Sums do not depend on the chunks that are gathered.
///
/// # Guarantee
/// An example whose file can't be read any more, or is not what it was when it was opened,
/// contributes zero, as one whose gradient is not finite; the others contribute what they
/// contribute without it. So the sensitivity of a sum is that of the clip rule, whichever files
/// fail, and no sum fails because of an example. This assumes that a file fails independently of
/// other examples.
#[derive(Clone)]
pub struct Batch {
    features: Features,
    shape: Vec<usize>,
    labels: Vec<u32>,
    /// Index of each example in its data set.
    indices: Vec<u32>,
    copies: usize,
    seed: u64,
    /// Number of examples to gather at a time.
    #[cfg(test)]
    chunk_len: Option<usize>,
}

impl Batch {
    /// Creates a batch from row-major features `[examples, shape...]`, the shape of one example,
    /// and one label per example.
    ///
    /// # Errors
    /// If the number of features is not the number of labels times the size of the shape.
    pub fn new(features: Vec<f32>, shape: &[usize], labels: Vec<u32>) -> Result<Self> {
        Self::with_copies(features, shape, labels, 1)
    }

    /// Creates a batch with augmentation multiplicity: `copies` augmented copies of each example.
    /// `features` is row-major, `[examples, copies, shape...]`, where `shape` is that of one copy.
    /// There is one label per example.
    ///
    /// # Guarantee
    /// The gradient of an example is the mean over its copies and is clipped once (De et al., 2022,
    /// section 3.2). Neighbouring batches differ by one example with all its copies, so the
    /// sensitivity is that of the clip rule for any number of copies.
    ///
    /// # Errors
    /// If `copies` is 0, or the number of features is not labels x copies x size of the shape.
    pub fn with_copies(
        features: Vec<f32>,
        shape: &[usize],
        labels: Vec<u32>,
        copies: usize,
    ) -> Result<Self> {
        if copies == 0 {
            let why = "an example's gradient is the mean over its copies";
            return Err(Error::setting("copies", copies, why).fix("use 1 for no augmentation"));
        }
        let size: usize = shape.iter().product();
        if Some(features.len())
            != labels.len().checked_mul(copies).and_then(|n| n.checked_mul(size))
        {
            let each =
                if copies == 1 { "each".into() } else { format!("in each of {copies} copies") };
            return Err(Error::new(
                ErrorKind::Model,
                format!("a batch of {} features and {} labels", features.len(), labels.len()),
                format!("examples of shape {shape:?} have {size} features {each}"),
            )
            .fix("pass labels x copies x features values, row-major"));
        }
        let indices = (0..labels.len() as u32).collect();
        Ok(Self::from_parts(
            Features::Resident(Box::new(features.into())),
            shape,
            labels,
            indices,
            copies,
        ))
    }

    /// Creates a batch of the examples with the given indices, in this order, without augmentation.
    /// Nothing is copied; examples in files are read when an executor needs them.
    ///
    /// # Errors
    /// If an index is not below `examples.len()`.
    pub fn from_examples(examples: &Examples, indices: &[u32]) -> Result<Self> {
        let source = Arc::new(BatchSource::new(examples, indices.to_vec(), None)?);
        Ok(Self::from_source(source, None, None))
    }

    /// Creates a batch of the examples of a source. `reader` gathers them, and begins with `next`,
    /// the batch that follows in the run, when it has finished. Token ids of examples on a device
    /// must have been checked when they were placed there.
    pub(crate) fn from_source(
        source: Arc<BatchSource>,
        reader: Option<BatchPrefetcher>,
        next: Option<Arc<BatchSource>>,
    ) -> Self {
        let examples = source.examples();
        let labels = source.ids().iter().map(|&id| examples.labels()[id as usize]).collect();
        let (shape, indices) = (examples.shape().to_vec(), source.ids().to_vec());
        let copies = source.copies();
        Self::from_parts(
            Features::Lazy(LazyFeatures { source, reader, next }),
            &shape,
            labels,
            indices,
            copies,
        )
    }

    fn from_parts(
        features: Features,
        shape: &[usize],
        labels: Vec<u32>,
        indices: Vec<u32>,
        copies: usize,
    ) -> Self {
        let shape = shape.to_vec();
        Self {
            features,
            shape,
            labels,
            indices,
            copies,
            seed: 0,
            #[cfg(test)]
            chunk_len: None,
        }
    }

    /// Returns the same batch, gathered in chunks of this many examples.
    #[cfg(test)]
    pub(crate) fn with_chunk_len(self, examples: usize) -> Self {
        Self { chunk_len: Some(examples), ..self }
    }

    /// Returns the same batch with all features materialised in memory, on the device that makes
    /// them if there is one. [`features`](Self::features) reads them. Those of an example whose
    /// file can't be read any more, or has changed since it was opened, are NaN: it contributes
    /// nothing, as in the batch that is not in memory.
    ///
    /// # Errors
    /// If the features can't be made.
    pub fn in_memory(&self) -> Result<Self> {
        Ok(Self { features: Features::Resident(Box::new(self.gather_all()?)), ..self.clone() })
    }

    /// Copies features that are in memory to `device`. Does nothing on the CPU. Features that are
    /// not held are uploaded in chunks as they are used, with or without this call.
    pub fn to_device(self, device: &Device) -> Self {
        match self.features {
            Features::Resident(features) if *device != Device::flex() => {
                let features = Box::new(features.on(device));
                Self { features: Features::Resident(features), ..self }
            }
            _ => self,
        }
    }

    /// Returns the error of an example in a file that could not be read when an executor needed
    /// it. The example contributed nothing.
    ///
    /// # Guarantee
    /// None: it tells of a single example. Only training without a guarantee may ask.
    pub(crate) fn read_error(&self) -> Option<Error> {
        match &self.features {
            Features::Resident(_) => None,
            Features::Lazy(drawn) => drawn.source.first_read_error(),
        }
    }

    /// Sets the index of each example in its data set, from which its dropout masks are derived.
    /// The default is the position in the batch; [`Batch::from_examples`] sets the indices.
    ///
    /// # Errors
    /// If there is not one index per example.
    pub fn with_indices(self, indices: &[u32]) -> Result<Self> {
        if indices.len() != self.len() {
            let what = format!("{} indices for a batch of {} examples", indices.len(), self.len());
            let why = "each example has one index in its data set";
            return Err(Error::new(ErrorKind::Model, what, why).fix("pass one index per example"));
        }
        Ok(Self { indices: indices.to_vec(), ..self })
    }

    /// Sets the seed of the dropout masks; the default is 0.
    ///
    /// # Guarantee
    /// A mask is a function of this seed, the index of the example, the copy and the layer. It does
    /// not depend on the other examples or on the position in the batch: one more example adds its
    /// own clipped contribution and leaves the others unchanged. For every fixed choice of masks,
    /// the sensitivity is therefore that of the clip rule.
    ///
    /// Neighbouring data sets may assign different indices to their common examples: removing an
    /// example shifts the indices behind it. This is covered if the seed of every step is drawn
    /// independently from a secret source. Masks of different indices are then independent and
    /// identically distributed (assuming that ChaCha8 is pseudorandom), so the runs on the two data
    /// sets can be coupled such that common examples have equal masks. Given the masks, both runs
    /// are Gaussian mechanisms of sensitivity C. The divergences that accountants bound are jointly
    /// convex, so the divergence between the two mixtures over masks is no larger. Assumption: seed
    /// and masks are never published.
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Returns the number of examples, without copies.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Returns whether there are no examples. Poisson sampling can draw an empty batch.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Returns the augmentation multiplicity: the number of copies of each example.
    pub fn copies(&self) -> usize {
        self.copies
    }

    /// Returns the shape of one copy of an example.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the labels, one per example.
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// Returns the row-major features of example `i`: its copies, one after the other.
    ///
    /// # Panics
    /// As a slice does, if `i` is not below [`len`](Self::len). If the features are made when they
    /// are used (image files, augmented copies): call [`in_memory`](Self::in_memory) first.
    pub fn features(&self, i: usize) -> &[f32] {
        match &self.features {
            Features::Resident(features) => {
                let size = self.example_len();
                &features[i * size..(i + 1) * size]
            }
            Features::Lazy(drawn) => drawn.source.features_in_place(i).unwrap_or_else(|| {
                panic!("these features are not in memory: let batch = batch.in_memory()?")
            }),
        }
    }

    /// Returns the label of example `i`.
    pub fn label(&self, i: usize) -> u32 {
        self.labels[i]
    }

    /// Draws the dropout mask of one row for one layer: 0 for a dropped value and 1/(1 - `rate`)
    /// for a kept one, for every value of the layer's input in row-major order.
    ///
    /// `row` is example x copies + copy. `layer` counts the dropout layers of the network from 0 in
    /// the order of their calls. All executors draw their masks here and so compute the same
    /// gradients. The mask depends on the index of the example in the data set, not on its
    /// position: see [`seed`](Self::seed).
    pub(crate) fn dropout_mask(&self, row: usize, layer: usize, rate: f64, mask: &mut [f32]) {
        let (index, copy) = (self.indices[row / self.copies], row % self.copies);
        DropoutMasks::new(self.seed, layer, rate).draw(index, copy as u32, mask);
    }

    /// Draws the dropout masks of several rows on `device`, `[rows, each]`: the same values as
    /// those of [`dropout_mask`](Self::dropout_mask).
    pub(super) fn dropout_masks(
        &self,
        rows: &[usize],
        layer: usize,
        rate: f64,
        each: usize,
        device: &Device,
    ) -> Tensor<2> {
        let index_and_copy =
            |&row: &usize| (self.indices[row / self.copies], (row % self.copies) as u32);
        let rows: Vec<(u32, u32)> = rows.iter().map(index_and_copy).collect();
        kernels::dropout_masks(self.seed, layer, rate, &rows, each, device)
    }

    /// Returns the number of features of one example with all its copies.
    fn example_len(&self) -> usize {
        self.copies * self.shape.iter().product::<usize>()
    }

    /// Returns the rows of the given examples.
    pub(super) fn row_indices(&self, examples: &[usize]) -> Vec<usize> {
        examples.iter().flat_map(|&i| i * self.copies..(i + 1) * self.copies).collect()
    }

    pub(super) fn check(&self, network: &Network) -> Result<()> {
        if self.shape != network.input_shape() {
            let what = format!("a batch of examples of shape {:?}", self.shape);
            let why = format!("the network expects examples of shape {:?}", network.input_shape());
            let fix = "build the network for this shape, or the batch from the model's data set";
            return Err(Error::new(ErrorKind::Model, what, why).fix(fix));
        }
        let classes = network.outputs();
        if let Some(label) = self.labels.iter().find(|&&label| label as usize >= classes) {
            let why =
                format!("the network has {classes} outputs, so labels must be below {classes}");
            return Err(Error::setting("label", label, why)
                .fix("number the classes from 0, or build the network for more classes"));
        }
        match &self.features {
            // Tokens of data on a device were checked when the data were copied there.
            Features::Resident(features) if features.is_on_host() => network.check_tokens(features),
            Features::Lazy(drawn) if drawn.source.device().is_none() => {
                let mut tokens = (0..self.len()).filter_map(|i| drawn.source.raw_features(i));
                tokens.try_for_each(|tokens| network.check_tokens(tokens))
            }
            _ => Ok(()),
        }
    }
}

/// Whether both batches have equal features, labels, indices and seeds. Features that are not in
/// memory are read; batches with an example that can't be read are not equal to any.
impl PartialEq for Batch {
    fn eq(&self, other: &Self) -> bool {
        let all = || (self.gather_all(), other.gather_all());
        let features = || matches!(all(), (Ok(own), Ok(others)) if own == others);
        self.shape == other.shape
            && self.labels == other.labels
            && self.indices == other.indices
            && (self.copies, self.seed) == (other.copies, other.seed)
            && features()
    }
}

/// Prints neither the features, which are private, nor the seed, which is secret.
impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shape, copies, .. } = self;
        write!(f, "a batch of {} examples of shape {shape:?}, copies: {copies}", self.len())
    }
}

#[cfg(test)]
mod tests;
