//! The examples of one step, gathered on the host.

use super::masks;
use crate::data::Examples;
use crate::nn::{LayerSpec, Network};
use crate::{Error, ErrorKind, Result};

/// Features and labels of some examples, each in one or several augmented copies.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    features: Vec<f32>,
    shape: Vec<usize>,
    labels: Vec<u32>,
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
        Ok(Self { features, shape: shape.to_vec(), labels, copies, seed: 0 })
    }

    /// The examples with these numbers, in this order.
    ///
    /// # Errors
    /// If a number is not below `examples.len()`, or an example in a file can't be read.
    pub fn of(examples: &Examples, ids: &[u32]) -> Result<Self> {
        let mut features = Vec::new();
        examples.gather(ids, &mut features)?;
        let labels = ids.iter().map(|&id| examples.labels()[id as usize]).collect();
        Self::new(features, examples.shape(), labels)
    }

    /// The seed of the dropout masks; 0 if not given.
    ///
    /// # Guarantee
    /// Masks depend on an example's place in the batch, and one example more moves the others to
    /// other places. Privacy is not harmed if nobody knows the masks: take the seed from the same
    /// secret source as the noise, anew for each step. Then every example has masks of the same
    /// distribution whoever else is in the batch, and neighbouring data sets can be compared
    /// under equal masks for the examples they share, where the sum differs by one clipped share.
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
        let size = self.size();
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
    /// of them compute the same gradients.
    pub fn dropout_mask(&self, row: usize, layer: usize, rate: f64, mask: &mut [f32]) {
        masks::draw(self.seed, row, layer, rate, mask);
    }

    /// Numbers in one example with all its copies.
    fn size(&self) -> usize {
        self.copies * self.shape.iter().product::<usize>()
    }

    /// Features and labels of the examples `ids`, copy by copy: as many rows as examples x copies.
    pub(super) fn gather(&self, ids: &[usize]) -> (Vec<f32>, Vec<u32>) {
        let mut features = Vec::with_capacity(ids.len() * self.size());
        for &id in ids {
            features.extend_from_slice(self.features(id));
        }
        let labels = ids.iter().flat_map(|&id| std::iter::repeat_n(self.labels[id], self.copies));
        (features, labels.collect())
    }

    /// The rows of the examples `ids`, as [`dropout_mask`](Self::dropout_mask) counts them.
    pub(super) fn rows(&self, ids: &[usize]) -> Vec<usize> {
        ids.iter().flat_map(|&id| id * self.copies..(id + 1) * self.copies).collect()
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
        self.check_tokens(network.specs())
    }

    /// Features that go into an embedding are token ids. What is not finite is no error here:
    /// such examples are left out.
    fn check_tokens(&self, specs: &[LayerSpec]) -> Result<()> {
        let vocabulary = match specs.first() {
            Some(LayerSpec::Embedding(spec)) => spec.vocabulary,
            Some(LayerSpec::Group(group)) => return self.check_tokens(&group.layers),
            _ => return Ok(()),
        };
        let token = |v: f32| v >= 0.0 && v < vocabulary as f32 && v.fract() == 0.0;
        match self.features.iter().find(|v| v.is_finite() && !token(**v)) {
            None => Ok(()),
            Some(wrong) => {
                let why = format!("the network knows token ids from 0 to {}", vocabulary - 1);
                Err(Error::setting("token", wrong, why)
                    .fix("give the model the vocabulary of the data's tokenizer"))
            }
        }
    }
}
