//! Using a model on a GPU: chunks go one after the other, nothing is looked at before the end.

use burn::prelude::*;

use crate::Result;
use crate::data::OnDevice;
use crate::device::{host, memory_budget};
use crate::nn::loss::cross_entropy;
use crate::nn::{Model, NoTape, Value};

/// The most examples in a chunk: beyond it, no GPU works faster.
const MOST: usize = 4096;

impl Model {
    /// As [`predict_examples`](Self::predict_examples), of examples on a device.
    ///
    /// # Errors
    /// As [`predict_examples`](Self::predict_examples).
    pub fn predict_on(&self, examples: &OnDevice) -> Result<Vec<u32>> {
        let classes = self.each(examples, |logits, _| largest(logits).float())?;
        // Whole numbers below 2^24, which an f32 holds exactly.
        Ok(classes.into_iter().map(|class| class as u32).collect())
    }

    /// As [`accuracy_of`](Self::accuracy_of), of examples on a device: one small read.
    ///
    /// # Errors
    /// As [`accuracy_of`](Self::accuracy_of).
    pub fn accuracy_on(&self, examples: &OnDevice) -> Result<f64> {
        self.some(examples.examples(), "accuracy")?;
        // At most a chunk: exact in an f32.
        let right = self.each(examples, |logits, labels| {
            let labels: Vec<i64> = labels.iter().map(|&label| i64::from(label)).collect();
            let (n, device) = (labels.len(), logits.device());
            let labels = Tensor::<1, Int>::from_data(TensorData::new(labels, [n]), &device);
            largest(logits).equal(labels).float().sum()
        })?;
        let right: f64 = right.into_iter().map(f64::from).sum();
        Ok(right / examples.examples().len() as f64)
    }

    /// As [`loss`](Self::loss), of examples on a device.
    ///
    /// # Errors
    /// As [`loss`](Self::loss).
    pub fn loss_on(&self, examples: &OnDevice) -> Result<f64> {
        self.some(examples.examples(), "loss")?;
        let losses = self.each(examples, cross_entropy)?;
        Ok(losses.iter().map(|&loss| f64::from(loss)).sum::<f64>() / losses.len() as f64)
    }

    /// What `job` makes of the logits and labels of each chunk, one chunk after the other: a single
    /// read, when all are done, which is also when a device says that something went wrong.
    fn each(
        &self,
        examples: &OnDevice,
        job: impl Fn(Tensor<2>, &[u32]) -> Tensor<1>,
    ) -> Result<Vec<f32>> {
        let (placed, examples) = (examples, examples.examples());
        self.fits(examples)?;
        let network = self.network().on(placed.device());
        if examples.is_in_memory() {
            // Data in files are images; no network takes these for tokens.
            network.check_tokens(examples.features_flat())?;
        }
        let ids: Vec<u32> = (0..examples.len() as u32).collect();
        let chunk = self.chunk(placed.device())?;
        let chunks = ids.chunks(chunk).zip(examples.labels().chunks(chunk));
        let made = chunks.map(|(ids, labels)| {
            let x = Value::of(placed.rows(ids)?, self.input_shape());
            Ok(job(network.forward(x, &mut NoTape), labels))
        });
        let made = made.collect::<Result<Vec<_>>>()?;
        if made.is_empty() { Ok(Vec::new()) } else { host::try_values(Tensor::cat(made, 0)) }
    }

    /// How many examples go through the network at once: the widest layer may take a quarter of
    /// what the device has room for.
    fn chunk(&self, device: &Device) -> Result<usize> {
        // Input, output, and the patches of a 3x3 convolution; layers before are forgotten.
        const TIMES: usize = 11;
        if self.network().specs().is_empty() {
            // How wide a module of one's own is, only running it would tell.
            return Ok(super::CHUNK);
        }
        let size = |shape: &[usize]| shape.iter().product::<usize>();
        let layers = self.layers();
        let outputs = layers.iter().map(|layer| size(&layer.output_shape));
        let widest = outputs.fold(size(self.input_shape()), usize::max);
        Ok((memory_budget(device)? / 4 / (TIMES * size_of::<f32>() * widest)).clamp(1, MOST))
    }
}

/// The index of the largest logit of each example; the first of several, and what is not a number
/// counts as on the host: it is larger than all others where it comes first, and smaller elsewhere.
fn largest(logits: Tensor<2>) -> Tensor<1, Int> {
    let [n, classes] = logits.dims();
    let first = |class| if class == 0 { f32::INFINITY } else { f32::NEG_INFINITY };
    let instead: Vec<f32> = (0..classes).map(first).collect();
    let instead = Tensor::<2>::from_data(TensorData::new(instead, [1, classes]), &logits.device());
    let strange = logits.clone().is_nan();
    // Burn's argmax takes the first of several.
    logits.mask_where(strange, instead.expand([n, classes])).argmax(1).reshape([n])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{from_vecs, sentences_with};
    use crate::nn::models;

    #[test]
    fn the_largest_is_the_one_that_the_host_finds() {
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
        let found = largest(Tensor::from_data(logits, &Device::flex())).float();
        let found: Vec<u32> = host::values(found).into_iter().map(|x| x as u32).collect();
        assert_eq!(found, rows.map(|row| super::super::largest(&row)));
        assert_eq!(found, [1, 0, 0, 0, 1, 1, 0, 2, 0, 0]);
    }

    #[test]
    fn chunks_are_as_large_as_the_widest_layer_allows() {
        let data = |side: usize| {
            let images = vec![0.5; 2 * side * side];
            from_vecs(images, &[1, side, side], vec![0, 1], 2).unwrap()
        };
        let chunk = |side| {
            let model = models::linear(&data(side)).build().unwrap();
            model.chunk(&Device::flex()).unwrap()
        };
        assert!(chunk(4) <= MOST);
        // 256 times as many numbers: up to 256 times fewer examples.
        assert!((1..MOST).contains(&chunk(256)), "{}", chunk(256));
        assert_eq!(chunk(256) / 4, chunk(512));
    }

    #[test]
    fn tokens_that_the_model_does_not_know_are_refused() {
        let text = sentences_with(20, 10, 1).unwrap();
        let words = text.vocabulary().unwrap().len();
        let test = OnDevice::new(text.test(), &Device::flex()).unwrap();
        let model = |words| models::bilstm(&text, words, 2, 2).seed(1).build().unwrap();
        assert!(model(words).accuracy_on(&test).is_ok());
        let error = model(2).accuracy_on(&test).unwrap_err();
        assert!(error.to_string().contains("with the token"), "{error}");
    }
}
