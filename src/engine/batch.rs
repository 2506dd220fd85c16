//! The examples of one step, gathered on the host.

use crate::data::Examples;
use crate::nn::Network;
use crate::{Error, ErrorKind, Result};

/// Features and labels of some examples.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    features: Vec<f32>,
    shape: Vec<usize>,
    labels: Vec<u32>,
}

impl Batch {
    /// A batch from row-major features, the shape of one example, and one label per example.
    ///
    /// # Errors
    /// If the number of features is not the number of labels times the shape's size.
    pub fn new(features: Vec<f32>, shape: &[usize], labels: Vec<u32>) -> Result<Self> {
        let size: usize = shape.iter().product();
        if features.len() != labels.len() * size {
            return Err(Error::new(
                ErrorKind::Model,
                format!("a batch of {} features and {} labels", features.len(), labels.len()),
                format!("examples of shape {shape:?} have {size} features each"),
            ));
        }
        Ok(Self { features, shape: shape.to_vec(), labels })
    }

    /// The examples with these numbers, in this order.
    ///
    /// # Errors
    /// If a number is not below `examples.len()`, or an example in a file can't be read.
    pub fn of(examples: &Examples, ids: &[u32]) -> Result<Self> {
        let mut features = Vec::new();
        examples.gather(ids, &mut features)?;
        let labels = ids.iter().map(|&id| examples.labels()[id as usize]).collect();
        Ok(Self { features, shape: examples.shape().to_vec(), labels })
    }

    /// How many examples.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none: Poisson sampling may well draw nobody.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The shape of one example.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The labels, in order.
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// The features of one example, row-major.
    pub fn features(&self, i: usize) -> &[f32] {
        let size = self.size();
        &self.features[i * size..(i + 1) * size]
    }

    /// The label of one example.
    pub fn label(&self, i: usize) -> u32 {
        self.labels[i]
    }

    fn size(&self) -> usize {
        self.shape.iter().product()
    }

    /// Features and labels of the examples in `rows`.
    pub(super) fn rows(&self, rows: &[usize]) -> (Vec<f32>, Vec<u32>) {
        let mut features = Vec::with_capacity(rows.len() * self.size());
        for &row in rows {
            features.extend_from_slice(self.features(row));
        }
        (features, rows.iter().map(|&row| self.labels[row]).collect())
    }

    /// The examples whose features are all finite.
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
        Ok(())
    }
}
