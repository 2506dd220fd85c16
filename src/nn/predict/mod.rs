//! Predictions, accuracy and loss of a model. The CPU uses all cores; `device` has the code for
//! other devices.

mod device;
mod probabilities;

pub(crate) use probabilities::ClassPrediction;

use burn::prelude::Device;

use super::loss::cross_entropy;
use super::{Model, worker_pool};
use crate::data::{Dataset, DeviceExamples, Examples};
use crate::device::host;
use crate::{Error, ErrorKind, Result};

/// Largest number of examples per forward pass, and of bytes of their features. Small enough that
/// the cores share a test part of some hundred examples. It does not depend on the number of cores,
/// so that neither do the results.
const CHUNK_SIZE: usize = 64;
const CHUNK_BYTES: usize = 1 << 24;

impl Model {
    /// Predicts the class of every example of the test part, or of the training part if the data
    /// has no test part.
    ///
    /// # Errors
    /// `Model` if the shape of the examples differs from the model's, or if an example has a class
    /// or a token id that the model does not know.
    pub fn predict(&self, data: &Dataset) -> Result<Vec<u32>> {
        let part = if data.test().is_empty() { data.train() } else { data.test() };
        self.predict_examples(part)
    }

    /// Computes the accuracy on the test part: the fraction of examples that are classified
    /// correctly.
    ///
    /// # Errors
    /// `MissingData` if the data has no test part; `Model` if the model can't classify its
    /// examples.
    pub fn accuracy(&self, data: &Dataset) -> Result<f64> {
        if data.test().is_empty() {
            let what = format!("the data set \"{}\" has no test part", data.name());
            let why = "accuracy on the training part would be too high, and it is not private";
            return Err(Error::new(ErrorKind::MissingData, what, why)
                .fix("split one off: let data = data.split(0.8, 1)?"));
        }
        self.accuracy_of(data.test())
    }

    /// Predicts the class of every example.
    ///
    /// # Errors
    /// `Model` if the shape of the examples differs from the model's, or if an example has a class
    /// or a token id that the model does not know.
    pub fn predict_examples(&self, examples: &Examples) -> Result<Vec<u32>> {
        if let Some(examples) = self.copy_to_device(examples)? {
            return self.predict_on(&examples);
        }
        let mut classes = Vec::with_capacity(examples.len());
        self.logits(examples, |logits| {
            classes.extend(logits.chunks_exact(self.classes()).map(argmax));
        })?;
        Ok(classes)
    }

    /// Computes the accuracy: the fraction of these examples that are classified correctly.
    ///
    /// # Errors
    /// `MissingData` if there are no examples; `Model` if the model can't classify them.
    pub fn accuracy_of(&self, examples: &Examples) -> Result<f64> {
        self.check_not_empty(examples, "accuracy")?;
        Ok(fraction_correct(&self.predict_examples(examples)?, examples))
    }

    /// Computes the mean softmax cross-entropy of these examples, in nats.
    ///
    /// # Errors
    /// `MissingData` if there are no examples; `Model` if the model can't classify them.
    pub fn loss(&self, examples: &Examples) -> Result<f64> {
        self.check_not_empty(examples, "loss")?;
        if let Some(examples) = self.copy_to_device(examples)? {
            return self.loss_on(&examples);
        }
        let mut total = 0.0;
        self.losses_on_cpu(examples, |losses| {
            total += losses.iter().map(|&loss| f64::from(loss)).sum::<f64>();
        })?;
        Ok(total / examples.len() as f64)
    }

    /// Computes the softmax cross-entropy of each of these examples, in nats, on the CPU. Not
    /// private for examples of the training part: no epsilon covers it.
    ///
    /// # Errors
    /// `Model` if the model can't classify the examples.
    pub fn losses(&self, examples: &Examples) -> Result<Vec<f32>> {
        let mut all = Vec::with_capacity(examples.len());
        self.on_device(&Device::flex()).losses_on_cpu(examples, |losses| all.extend(losses))?;
        Ok(all)
    }

    /// Passes the losses of each chunk to `consume`, in order.
    fn losses_on_cpu(&self, examples: &Examples, consume: impl FnMut(Vec<f32>)) -> Result<()> {
        self.check_examples(examples)?;
        let losses = |features, labels: &[u32]| {
            let logits = self.network().logits(features, labels.len());
            host::tensor_to_vec(cross_entropy(logits, labels))
        };
        self.map_chunks_on_cpu(examples, losses, consume)
    }

    /// Copies the examples to the device of the network; `None` if that is the CPU.
    fn copy_to_device(&self, examples: &Examples) -> Result<Option<DeviceExamples>> {
        let device = self.network().device();
        (device != Device::flex()).then(|| DeviceExamples::new(examples, &device)).transpose()
    }

    /// Passes the logits `[chunk, classes]` of each chunk to `consume`, in order.
    fn logits(&self, examples: &Examples, mut consume: impl FnMut(&[f32])) -> Result<()> {
        self.check_examples(examples)?;
        self.map_chunks_on_cpu(
            examples,
            |features, labels| host::tensor_to_vec(self.network().logits(features, labels.len())),
            |logits| consume(&logits),
        )
    }

    /// Runs `job` on the features and labels of each chunk, on all cores, and passes the results to
    /// `consume` in order.
    fn map_chunks_on_cpu(
        &self,
        examples: &Examples,
        job: impl Fn(Vec<f32>, &[u32]) -> Vec<f32> + Sync,
        mut consume: impl FnMut(Vec<f32>),
    ) -> Result<()> {
        let labels = examples.labels();
        let bytes = examples.shape().iter().product::<usize>() * size_of::<f32>();
        let size = (CHUNK_BYTES / bytes.max(1)).clamp(1, CHUNK_SIZE);
        let mut outcome = Ok(());
        worker_pool::run_in_order(
            labels.len().div_ceil(size),
            |i| {
                let chunk = i * size..labels.len().min((i + 1) * size);
                let ids: Vec<u32> = chunk.clone().map(|id| id as u32).collect();
                let mut features = Vec::new();
                examples.gather(&ids, &mut features)?;
                // Checked per chunk because examples in files are never all in memory.
                self.network().check_tokens(&features)?;
                Ok(job(features, &labels[chunk]))
            },
            |_, result| match result {
                Ok(result) => consume(result),
                Err(error) => outcome = Err(error),
            },
        )?;
        outcome
    }

    fn check_not_empty(&self, examples: &Examples, what: &str) -> Result<()> {
        if examples.is_empty() {
            let what = format!("{what} of no examples");
            return Err(Error::new(
                ErrorKind::MissingData,
                what,
                "the mean of no examples is undefined",
            )
            .fix("check that the part of the data is not empty"));
        }
        Ok(())
    }

    /// Checks shape and labels of the examples.
    fn check_examples(&self, examples: &Examples) -> Result<()> {
        if examples.shape() != self.input_shape() {
            let what = format!("{} received examples of shape {:?}", self.name(), examples.shape());
            let why = format!("the model was built for {:?}", self.input_shape());
            return Err(Error::new(ErrorKind::Model, what, why)
                .fix("use the data that the model was built for, or build a model for this data"));
        }
        if let Some(label) =
            examples.labels().iter().find(|&&label| label as usize >= self.classes())
        {
            let what = format!("{} received an example of class {label}", self.name());
            let why = format!("the model has {} classes, numbered from 0", self.classes());
            return Err(Error::new(ErrorKind::Model, what, why).fix("build a model for this data"));
        }
        Ok(())
    }
}

/// Returns the fraction of the examples whose class is the predicted one.
fn fraction_correct(classes: &[u32], examples: &Examples) -> f64 {
    let correct = classes.iter().zip(examples.labels()).filter(|(a, b)| a == b).count();
    correct as f64 / examples.len() as f64
}

/// Returns the index of the largest value; the first of equal ones. A NaN is the largest if it
/// comes first, and the smallest otherwise.
fn argmax(values: &[f32]) -> u32 {
    let mut best = 0;
    for (i, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = i;
        }
    }
    best as u32
}
