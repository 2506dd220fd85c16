//! Predictions on a GPU or another device: chunks run one after the other, and the results are
//! copied to the host once at the end.

use burn::prelude::*;

use crate::Result;
use crate::data::DeviceExamples;
use crate::device::{DeviceGuard, DeviceSpec, host, memory_budget};
use crate::nn::loss::cross_entropy;
use crate::nn::{BatchTensor, Model, NoTape};

/// Upper bound of the number of examples in a chunk. Larger chunks are no faster on any GPU.
const MAX_CHUNK_SIZE: usize = 4096;

impl Model {
    /// Predicts the class of every example as [`predict_examples`](Self::predict_examples) does,
    /// for examples on a device.
    ///
    /// # Errors
    /// `Model` if the model can't classify the examples; `Device` if the device fails.
    pub fn predict_on(&self, examples: &DeviceExamples) -> Result<Vec<u32>> {
        let classes = self.map_chunks(examples, |logits, _| argmax(logits).float())?;
        // An f32 represents every integer below 2^24 exactly.
        Ok(classes.into_iter().map(|class| class as u32).collect())
    }

    /// Computes the accuracy as [`accuracy_of`](Self::accuracy_of) does, for examples on a device.
    ///
    /// # Errors
    /// `MissingData` if there are no examples; `Model` if the model can't classify them; `Device`
    /// if the device fails.
    pub fn accuracy_on(&self, examples: &DeviceExamples) -> Result<f64> {
        self.check_not_empty(examples.examples(), "accuracy")?;
        Ok(super::fraction_correct(&self.predict_on(examples)?, examples.examples()))
    }

    /// Computes the mean loss as [`loss`](Self::loss) does, for examples on a device.
    ///
    /// # Errors
    /// `MissingData` if there are no examples; `Model` if the model can't classify them; `Device`
    /// if the device fails.
    pub fn loss_on(&self, examples: &DeviceExamples) -> Result<f64> {
        self.check_not_empty(examples.examples(), "loss")?;
        let losses = self.map_chunks(examples, cross_entropy)?;
        Ok(losses.iter().map(|&loss| f64::from(loss)).sum::<f64>() / losses.len() as f64)
    }

    /// Computes the logits of all examples on a device, `[examples, classes]` row-major.
    pub(super) fn logits_on(&self, examples: &DeviceExamples) -> Result<Vec<f32>> {
        self.map_chunks(examples, |logits, _| {
            let [n, classes] = logits.dims();
            logits.reshape([n * classes])
        })
    }

    /// Returns the concatenated results of `job` on the logits `[chunk, classes]` and labels of
    /// each chunk.
    ///
    /// The results are copied to the host once, after the last chunk. Failures of the device show
    /// then.
    fn map_chunks(
        &self,
        examples: &DeviceExamples,
        job: impl Fn(Tensor<2>, &[u32]) -> Tensor<1>,
    ) -> Result<Vec<f32>> {
        let guard = DeviceGuard::new(DeviceSpec::from_device(examples.device()));
        let (on_device, examples) = (examples, examples.examples());
        guard.run(|| {
            self.check_examples(examples)?;
            let network = self.network().on_device(on_device.device());
            if examples.is_in_memory() {
                // Examples in files are images, which no network reads as token ids.
                network.check_tokens(examples.features_flat())?;
            }
            let ids: Vec<u32> = (0..examples.len() as u32).collect();
            let chunk_size = self.chunk_size(on_device.device())?;
            let chunks = ids.chunks(chunk_size).zip(examples.labels().chunks(chunk_size));
            let results = chunks.map(|(ids, labels)| {
                let x = BatchTensor::from_flat(on_device.gather_rows(ids)?, self.input_shape());
                Ok(job(network.forward(x, &mut NoTape), labels))
            });
            let results = results.collect::<Result<Vec<_>>>()?;
            Ok(host::try_tensors_to_vecs(results)?.concat())
        })
    }

    /// Returns the number of examples per chunk, such that the widest layer takes at most a
    /// quarter of the device's memory budget.
    fn chunk_size(&self, device: &Device) -> Result<usize> {
        // Input, output and the patches of a 3 x 3 convolution. Earlier activations are freed.
        const BUFFERS_PER_ACTIVATION: usize = 11;
        if self.network().specs().is_empty() {
            // The widest layer of a user-defined module is unknown.
            return Ok(super::CHUNK_SIZE);
        }
        let size = |shape: &[usize]| shape.iter().product::<usize>();
        let layers = self.layers();
        let outputs = layers.iter().map(|layer| size(&layer.output_shape));
        let widest = outputs.fold(size(self.input_shape()), usize::max);
        let bytes_per_example = BUFFERS_PER_ACTIVATION * size_of::<f32>() * widest;
        Ok((memory_budget(device)? / 4 / bytes_per_example).clamp(1, MAX_CHUNK_SIZE))
    }
}

/// Returns the index of the largest logit of each example, `[batch]`; the first of equal ones.
///
/// NaN is treated as in the host's `argmax`: as the largest value if it is the first logit, and as
/// the smallest otherwise.
fn argmax(logits: Tensor<2>) -> Tensor<1, Int> {
    let [n, classes] = logits.dims();
    let in_place_of_nan = |class| if class == 0 { f32::INFINITY } else { f32::NEG_INFINITY };
    let values: Vec<f32> = (0..classes).map(in_place_of_nan).collect();
    let values = Tensor::<2>::from_data(TensorData::new(values, [1, classes]), &logits.device());
    let is_nan = logits.clone().is_nan();
    // Burn's argmax returns the first of equal values.
    logits.mask_where(is_nan, values.expand([n, classes])).argmax(1).reshape([n])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{from_vecs, sentences_with};
    use crate::nn::models;

    #[test]
    fn argmax_with_ties_and_nan_matches_the_host() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        let rows = [
            [1.0, 3.0, 3.0],
            [2.0, 2.0, 2.0],
            [-0.0, 0.0, -1.0],
            [-inf, -inf, -inf],
            [-inf, f32::MIN, -inf],
            [0.0, inf, inf],
            [nan, 5.0, inf],
            [1.0, nan, 2.0],
            [-inf, nan, nan],
            [nan, nan, nan],
        ];
        let logits = TensorData::new(rows.concat(), [rows.len(), 3]);
        let found = argmax(Tensor::from_data(logits, &Device::flex())).float();
        let found: Vec<u32> = host::tensor_to_vec(found).into_iter().map(|x| x as u32).collect();
        assert_eq!(found, rows.map(|row| super::super::argmax(&row)));
        assert_eq!(found, [1, 0, 0, 0, 1, 1, 0, 2, 0, 0]);
    }

    #[test]
    fn chunk_sizes_follow_from_the_widest_layer() {
        let data = |side: usize| {
            let images = vec![0.5; 2 * side * side];
            from_vecs(images, &[1, side, side], vec![0, 1], 2).unwrap()
        };
        let chunk_size = |side| {
            let model = models::linear(&data(side)).build().unwrap();
            model.chunk_size(&Device::flex()).unwrap()
        };
        assert!(chunk_size(4) <= MAX_CHUNK_SIZE);
        assert!((1..MAX_CHUNK_SIZE).contains(&chunk_size(256)), "{}", chunk_size(256));
        // Four times as many features per example.
        assert_eq!(chunk_size(256) / 4, chunk_size(512));
    }

    #[test]
    fn tokens_outside_the_vocabulary_are_refused() {
        let text = sentences_with(20, 10, 1).unwrap();
        let vocabulary = text.vocabulary().unwrap().len();
        let test = DeviceExamples::new(text.test(), &Device::flex()).unwrap();
        let model = |vocabulary| models::bilstm(&text, vocabulary, 2, 2).seed(1).build().unwrap();
        assert!(model(vocabulary).accuracy_on(&test).is_ok());
        let error = model(2).accuracy_on(&test).unwrap_err();
        assert!(error.to_string().contains("with the token"), "{error}");
    }
}
