//! The examples of one step.

use std::fmt;

use burn::prelude::*;

use crate::data::Examples;
use crate::device::DeviceArray;
use crate::device::kernels::{self, Masks};
use crate::nn::Network;
use crate::{Error, ErrorKind, Result};

/// Features and labels of some examples, each in one or several augmented copies.
#[derive(Clone, PartialEq)]
pub struct Batch {
    features: DeviceArray,
    shape: Vec<usize>,
    labels: Vec<u32>,
    /// Each example's number in its data set.
    indices: Vec<u32>,
    copies: usize,
    seed: u64,
}

impl Batch {
    /// A batch from row-major features, the shape of one example, and one label per example.
    ///
    /// # Errors
    /// If the number of features is not the number of labels times the shape's size.
    pub fn new(features: Vec<f32>, shape: &[usize], labels: Vec<u32>) -> Result<Self> {
        Self::with_copies(features, shape, labels, 1)
    }

    /// A batch with augmentation multiplicity: `copies` augmented versions of each example, one
    /// after the other. `features` is `[examples, copies, shape...]`, row-major, `shape` that of
    /// one copy; there is one label per example.
    ///
    /// # Guarantee
    /// An example's gradient is the MEAN of its copies' gradients and is clipped ONCE (De et al.,
    /// 2022, section 3.2, "augmentation multiplicity"). The copies of an example come and go with
    /// it, so the sensitivity is that of the clip rule, whatever the number of copies.
    ///
    /// # Errors
    /// If `copies` is 0, or the number of features is not labels x copies x the shape's size.
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
            ));
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

    /// The examples with these numbers, in this order.
    ///
    /// # Errors
    /// If a number is not below `examples.len()`, or an example in a file can't be read.
    pub fn of(examples: &Examples, indices: &[u32]) -> Result<Self> {
        let mut features = Vec::new();
        examples.gather(indices, &mut features)?;
        let labels = indices.iter().map(|&i| examples.labels()[i as usize]).collect();
        Self::new(features, examples.shape(), labels)?.numbered(indices)
    }

    /// The same from features that lie on a device, `[examples x copies, features]`. Nobody has
    /// looked at them: token ids must have been checked where the data were brought there.
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
            let why =
                format!("{expected_rows} rows of examples of shape {shape:?} were to be there");
            return Err(Error::new(ErrorKind::Model, what, why));
        }
        let indices = (0..labels.len() as u32).collect();
        let features = DeviceArray::of(features.flatten(0, 1));
        Ok(Self { features, shape: shape.to_vec(), labels, indices, copies, seed: 0 })
    }

    /// The same batch with its features on this device, where steps find them without a copy.
    pub fn to_device(self, device: &Device) -> Self {
        if *device == Device::flex() {
            return self;
        }
        Self { features: self.features.on(device), ..self }
    }

    /// All features on this device, `[examples x copies, features]`: shared if they are there.
    pub(super) fn features_on(&self, device: &Device) -> Tensor<2> {
        let size = self.shape.iter().product::<usize>();
        self.features.tensor(device).reshape([self.len() * self.copies, size])
    }

    /// Each example's number in its data set, which its dropout masks go by; its place in the
    /// batch if not given. [`Batch::of`] gives them.
    ///
    /// # Errors
    /// If there are not as many numbers as examples.
    pub fn numbered(self, indices: &[u32]) -> Result<Self> {
        if indices.len() != self.len() {
            let what = format!("{} numbers for a batch of {} examples", indices.len(), self.len());
            return Err(Error::new(ErrorKind::Model, what, "each example has one number"));
        }
        Ok(Self { indices: indices.to_vec(), ..self })
    }

    /// The seed of the dropout masks; 0 if not given.
    ///
    /// # Guarantee
    /// A mask is a function of this seed, the example's own number, the copy and the layer. Who
    /// else is in the batch, and where, does not matter: one example more adds its own clipped
    /// share to the sum and leaves all other shares as they are. So for every choice of masks the
    /// sensitivity is that of the clip rule.
    ///
    /// Neighbouring data sets may number their common examples differently (taking one out of the
    /// middle moves those behind it). That is covered if the seed is drawn anew for each step from
    /// a secret source: masks of different numbers are then alike and independent (as far as
    /// ChaCha8 looks random), so the runs on both data sets can be paired such that common
    /// examples have the same masks. Given the masks, both sums are those of a Gaussian mechanism
    /// of sensitivity C; the divergence that accountants bound is jointly convex, so that of the
    /// mixture over the masks is no larger. Assumption: seed and masks are never published.
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// How many examples; copies don't count.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none: Poisson sampling may well draw nobody.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// How many augmented copies there are of each example.
    pub fn copies(&self) -> usize {
        self.copies
    }

    /// The shape of one example (of one copy of it).
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The labels, in order.
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// The features of one example, row-major: all its copies, one after the other.
    pub fn features(&self, i: usize) -> &[f32] {
        let size = self.example_len();
        &self.features[i * size..(i + 1) * size]
    }

    /// The label of one example.
    pub fn label(&self, i: usize) -> u32 {
        self.labels[i]
    }

    /// Draws the keep-mask of one dropout layer for one row: 0 where a value is dropped,
    /// 1/(1 - `rate`) where it is kept, for every value of the layer's input in row-major order.
    ///
    /// `row` is example x copies + copy; `layer` counts the dropout layers of the network from 0
    /// in the order in which they are called. Every executor draws its masks here, so that all
    /// of them compute the same gradients, and here a row becomes the example's own number: see
    /// [`seed`](Self::seed).
    pub fn dropout_mask(&self, row: usize, layer: usize, rate: f64, mask: &mut [f32]) {
        let (index, copy) = (self.indices[row / self.copies], row % self.copies);
        Masks::new(self.seed, layer, rate).draw(index, copy as u32, mask);
    }

    /// The masks of several rows, on this device, `[rows, each]`; the same numbers.
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
        kernels::dropout(self.seed, layer, rate, &rows, each, device)
    }

    /// DeviceArray in one example with all its copies.
    fn example_len(&self) -> usize {
        self.copies * self.shape.iter().product::<usize>()
    }

    /// Features and labels of the examples `ids`, copy by copy: as many rows as examples x copies.
    pub(super) fn gather(&self, examples: &[usize]) -> (Vec<f32>, Vec<u32>) {
        let mut features = Vec::with_capacity(examples.len() * self.example_len());
        for &i in examples {
            features.extend_from_slice(self.features(i));
        }
        let labels =
            examples.iter().flat_map(|&i| std::iter::repeat_n(self.labels[i], self.copies));
        (features, labels.collect())
    }

    /// The rows of the examples `ids`, as [`dropout_mask`](Self::dropout_mask) counts them.
    pub(super) fn rows(&self, examples: &[usize]) -> Vec<usize> {
        examples.iter().flat_map(|&i| i * self.copies..(i + 1) * self.copies).collect()
    }

    /// The examples whose features are all finite, in every copy.
    pub(super) fn finite(&self) -> Vec<usize> {
        // Blocks without an early way out: the compiler checks many numbers at a time.
        let finite =
            |x: &[f32]| x.chunks(64).all(|b| b.iter().fold(true, |ok, v| ok & v.is_finite()));
        (0..self.len()).filter(|&i| finite(self.features(i))).collect()
    }

    pub(super) fn check(&self, network: &Network) -> Result<()> {
        if self.shape != network.input_shape() {
            let what = format!("a batch of examples of shape {:?}", self.shape);
            let why = format!("the network takes {:?}", network.input_shape());
            return Err(Error::new(ErrorKind::Model, what, why));
        }
        let classes = network.outputs();
        if let Some(label) = self.labels.iter().find(|&&label| label as usize >= classes) {
            let why = format!("the network has {classes} outputs, counted from 0");
            return Err(Error::setting("label", label, why));
        }
        // Made on a device from data whose tokens were checked.
        if !self.features.is_on_host() {
            return Ok(());
        }
        network.check_tokens(&self.features)
    }
}

/// Neither features, which are private, nor the seed of the dropout masks, which is secret.
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
        // By places, as if the batch knew no numbers, somebody's masks change.
        let unnumbered = |n: usize| Batch::new(vec![0.0; n], &[1], vec![0; n]).unwrap().seed(9);
        assert_ne!(mask(&unnumbered(2), 1), mask(&unnumbered(3), 2));
        let rows: Vec<_> = (0..6).map(|row| mask(&with, row)).collect();
        for (i, row) in rows.iter().enumerate() {
            assert!(!rows[..i].contains(row), "each copy of each example has its own");
        }
        assert!(unnumbered(2).numbered(&[1]).is_err());
    }
}
