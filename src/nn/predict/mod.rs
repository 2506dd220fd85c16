//! Using a model: predictions, accuracy, loss. On the CPU on all cores, and elsewhere by `device`.

mod device;

use burn::prelude::Device;

use super::loss::cross_entropy;
use super::{Model, workers};
use crate::data::{Dataset, Examples, OnDevice};
use crate::device::host;
use crate::{Error, ErrorKind, Result};

/// Examples that go through the network at once.
const CHUNK: usize = 500;

impl Model {
    /// The class of every example of the data's test part, or of all its examples if it has no
    /// test part.
    ///
    /// # Errors
    /// If the data's shape is not the model's.
    pub fn predict(&self, data: &Dataset) -> Result<Vec<u32>> {
        let part = if data.test().is_empty() { data.train() } else { data.test() };
        self.predict_examples(part)
    }

    /// The share of the data's test part that the model gets right, between 0 and 1.
    ///
    /// # Errors
    /// If the data has no test part, or another shape or number of classes than the model.
    pub fn accuracy(&self, data: &Dataset) -> Result<f64> {
        if data.test().is_empty() {
            let what = format!("the data set \"{}\" has no test part", data.name());
            let why = "accuracy on the training part would flatter the model, and is not private";
            return Err(Error::new(ErrorKind::MissingData, what, why)
                .fix("split one off: let data = data.split(0.8, 1)?"));
        }
        self.accuracy_of(data.test())
    }

    /// The class of every example.
    ///
    /// # Errors
    /// If the examples' shape is not the model's.
    pub fn predict_examples(&self, examples: &Examples) -> Result<Vec<u32>> {
        if let Some(examples) = self.away(examples)? {
            return self.predict_on(&examples);
        }
        let mut classes = Vec::with_capacity(examples.len());
        self.logits(examples, |logits, _| {
            classes.extend(logits.chunks_exact(self.classes()).map(largest));
        })?;
        Ok(classes)
    }

    /// The share of these examples that the model gets right, between 0 and 1.
    ///
    /// # Errors
    /// If there are no examples, or their shape or labels do not suit the model.
    pub fn accuracy_of(&self, examples: &Examples) -> Result<f64> {
        self.some(examples, "accuracy")?;
        if let Some(examples) = self.away(examples)? {
            return self.accuracy_on(&examples);
        }
        let classes = self.predict_examples(examples)?;
        let right = classes.iter().zip(examples.labels()).filter(|(a, b)| a == b).count();
        Ok(right as f64 / examples.len() as f64)
    }

    /// The mean softmax cross-entropy of these examples, in nats.
    ///
    /// # Errors
    /// If there are no examples, or their shape or labels do not suit the model.
    pub fn loss(&self, examples: &Examples) -> Result<f64> {
        self.some(examples, "loss")?;
        if let Some(examples) = self.away(examples)? {
            return self.loss_on(&examples);
        }
        self.fits(examples)?;
        let mut total = 0.0;
        self.chunks(
            examples,
            |features, labels| {
                let logits = self.network().logits(features, labels.len());
                host::values(cross_entropy(logits, labels))
            },
            |losses| total += losses.iter().map(|&loss| f64::from(loss)).sum::<f64>(),
        )?;
        Ok(total / examples.len() as f64)
    }

    /// The examples where the network is, if that is not the CPU.
    fn away(&self, examples: &Examples) -> Result<Option<OnDevice>> {
        let device = self.network().device();
        (device != Device::flex()).then(|| OnDevice::new(examples, &device)).transpose()
    }

    fn logits(&self, examples: &Examples, mut take: impl FnMut(&[f32], usize)) -> Result<()> {
        self.fits(examples)?;
        self.chunks(
            examples,
            |features, labels| host::values(self.network().logits(features, labels.len())),
            |logits| take(&logits, logits.len() / self.classes()),
        )
    }

    fn chunks(
        &self,
        examples: &Examples,
        job: impl Fn(Vec<f32>, &[u32]) -> Vec<f32> + Sync,
        mut take: impl FnMut(Vec<f32>),
    ) -> Result<()> {
        let labels = examples.labels();
        let mut failed = Ok(());
        workers::in_order(
            labels.len().div_ceil(CHUNK),
            |i| {
                let chunk = i * CHUNK..labels.len().min((i + 1) * CHUNK);
                let ids: Vec<u32> = chunk.clone().map(|id| id as u32).collect();
                let mut features = Vec::new();
                examples.gather(&ids, &mut features)?;
                // Here and not for all at once: examples in files are never all in memory.
                self.network().check_tokens(&features)?;
                Ok(job(features, &labels[chunk]))
            },
            |_, result| match result {
                Ok(result) => take(result),
                Err(error) => failed = Err(error),
            },
        )?;
        failed
    }

    fn some(&self, examples: &Examples, what: &str) -> Result<()> {
        if examples.is_empty() {
            let what = format!("{what} of no examples");
            return Err(Error::new(ErrorKind::MissingData, what, "a mean of nothing has no value"));
        }
        Ok(())
    }

    fn fits(&self, examples: &Examples) -> Result<()> {
        if examples.shape() != self.input_shape() {
            let what =
                format!("{} was given examples of shape {:?}", self.name(), examples.shape());
            let why = format!("it was built for {:?}", self.input_shape());
            return Err(Error::new(ErrorKind::Model, what, why)
                .fix("use the data it was built for, or build a model for this data"));
        }
        if let Some(label) =
            examples.labels().iter().find(|&&label| label as usize >= self.classes())
        {
            let what = format!("{} was given an example of class {label}", self.name());
            let why = format!("it tells {} classes apart, counted from 0", self.classes());
            return Err(Error::new(ErrorKind::Model, what, why).fix("build a model for this data"));
        }
        Ok(())
    }
}

/// The index of the largest value; the first of several.
fn largest(values: &[f32]) -> u32 {
    let mut best = 0;
    for (i, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = i;
        }
    }
    best as u32
}
