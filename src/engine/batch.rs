//! The examples of one step.

use std::fmt;

use burn::prelude::*;

use crate::data::Examples;
use crate::device::DeviceArray;
use crate::device::kernels::{self, DropoutMasks};
use crate::nn::Network;
use crate::{Error, ErrorKind, Result};

/// Features and labels of the examples of one step, each example in one or more augmented copies.
#[derive(Clone, PartialEq)]
pub struct Batch {
    features: DeviceArray,
    shape: Vec<usize>,
    labels: Vec<u32>,
    /// Index of each example in its data set.
    indices: Vec<u32>,
    copies: usize,
    seed: u64,
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
        Ok(Self {
            features: features.into(),
            shape: shape.to_vec(),
            labels,
            indices,
            copies,
            seed: 0,
        })
    }

    /// Creates a batch of the examples with the given indices, in this order, without augmentation.
    ///
    /// # Errors
    /// If an index is not below `examples.len()`, or an example in a file can't be read.
    pub fn of(examples: &Examples, indices: &[u32]) -> Result<Self> {
        let mut features = Vec::new();
        examples.gather(indices, &mut features)?;
        let labels = indices.iter().map(|&i| examples.labels()[i as usize]).collect();
        Self::new(features, examples.shape(), labels)?.numbered(indices)
    }

    /// As [`with_copies`](Self::with_copies), from features on a device,
    /// `[examples x copies, features]`. The features are not read back: token ids must have been
    /// checked when the data were copied to the device.
    ///
    /// # Errors
    /// As [`with_copies`](Self::with_copies).
    pub(crate) fn on_device(
        features: Tensor<2>,
        shape: &[usize],
        labels: Vec<u32>,
        copies: usize,
    ) -> Result<Self> {
        let (expected_rows, found) = (labels.len() * copies, features.dims());
        if found != [expected_rows, shape.iter().product()] {
            let what = format!("features of shape {found:?} on a device");
            let why = format!("expected {expected_rows} rows of shape {shape:?}, one per copy");
            return Err(Error::new(ErrorKind::Model, what, why));
        }
        let indices = (0..labels.len() as u32).collect();
        let features = DeviceArray::from_tensor(features.flatten(0, 1));
        Ok(Self { features, shape: shape.to_vec(), labels, indices, copies, seed: 0 })
    }

    /// Copies the features to `device`. Does nothing on the CPU.
    pub fn to_device(self, device: &Device) -> Self {
        if *device == Device::flex() {
            return self;
        }
        Self { features: self.features.to_device(device), ..self }
    }

    /// All features on `device`, `[examples x copies, features]`; without a copy if they are there.
    pub(super) fn features_on(&self, device: &Device) -> Tensor<2> {
        let size = self.shape.iter().product::<usize>();
        self.features.tensor(device).reshape([self.len() * self.copies, size])
    }

    /// Sets the index of each example in its data set, from which its dropout masks are derived.
    /// The default is the position in the batch; [`Batch::of`] sets the indices.
    ///
    /// # Errors
    /// If there is not one index per example.
    pub fn numbered(self, indices: &[u32]) -> Result<Self> {
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

    /// Number of examples, without copies.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no examples. Poisson sampling can draw an empty batch.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Augmentation multiplicity: the number of copies of each example.
    pub fn copies(&self) -> usize {
        self.copies
    }

    /// Shape of one copy of an example.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Labels, one per example.
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// Row-major features of example `i`: its copies, one after the other.
    pub fn features(&self, i: usize) -> &[f32] {
        let size = self.example_len();
        &self.features[i * size..(i + 1) * size]
    }

    /// Label of example `i`.
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
    pub fn dropout_mask(&self, row: usize, layer: usize, rate: f64, mask: &mut [f32]) {
        let (index, copy) = (self.indices[row / self.copies], row % self.copies);
        DropoutMasks::new(self.seed, layer, rate).draw(index, copy as u32, mask);
    }

    /// The masks of several rows on `device`, `[rows, each]`: the same values as those of
    /// [`dropout_mask`](Self::dropout_mask).
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

    /// Number of features of one example with all its copies.
    fn example_len(&self) -> usize {
        self.copies * self.shape.iter().product::<usize>()
    }

    /// Features and labels of the given examples, one label per row.
    pub(super) fn gather(&self, examples: &[usize]) -> (Vec<f32>, Vec<u32>) {
        let mut features = Vec::with_capacity(examples.len() * self.example_len());
        for &i in examples {
            features.extend_from_slice(self.features(i));
        }
        let labels =
            examples.iter().flat_map(|&i| std::iter::repeat_n(self.labels[i], self.copies));
        (features, labels.collect())
    }

    /// The rows of the given examples.
    pub(super) fn rows(&self, examples: &[usize]) -> Vec<usize> {
        examples.iter().flat_map(|&i| i * self.copies..(i + 1) * self.copies).collect()
    }

    /// The examples whose features are finite in all copies.
    pub(super) fn finite(&self) -> Vec<usize> {
        // No early exit within a block: the compiler vectorises the check.
        let finite =
            |x: &[f32]| x.chunks(64).all(|b| b.iter().fold(true, |ok, v| ok & v.is_finite()));
        (0..self.len()).filter(|&i| finite(self.features(i))).collect()
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
        // Tokens of data on a device were checked when the data were copied there.
        if !self.features.is_on_host() {
            return Ok(());
        }
        network.check_tokens(&self.features)
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
mod tests {
    use super::*;

    fn mask(batch: &Batch, row: usize) -> Vec<f32> {
        let mut mask = vec![0.0; 64];
        batch.dropout_mask(row, 0, 0.5, &mut mask);
        mask
    }

    #[test]
    fn dropout_masks_depend_on_the_example_index_and_not_on_the_position() {
        let batch = |indices: &[u32]| {
            let n = indices.len();
            let batch = Batch::with_copies(vec![0.0; 2 * n], &[1], vec![0; n], 2).unwrap();
            batch.numbered(indices).unwrap().seed(9)
        };
        let (without, with) = (batch(&[3, 8]), batch(&[3, 5, 8]));
        for (position, moved) in [(0, 0), (1, 2)] {
            for copy in 0..2 {
                assert_eq!(mask(&without, 2 * position + copy), mask(&with, 2 * moved + copy));
            }
        }
        // Without indices the mask follows the position, and an added example shifts the masks.
        let unnumbered = |n: usize| Batch::new(vec![0.0; n], &[1], vec![0; n]).unwrap().seed(9);
        assert_ne!(mask(&unnumbered(2), 1), mask(&unnumbered(3), 2));
        let rows: Vec<_> = (0..6).map(|row| mask(&with, row)).collect();
        for (i, row) in rows.iter().enumerate() {
            assert!(!rows[..i].contains(row), "each copy of each example has its own mask");
        }
        assert!(unnumbered(2).numbered(&[1]).is_err());
    }
}
