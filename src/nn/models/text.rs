//! Models that read token ids.

use crate::data::Dataset;
use crate::layers;
use crate::nn::builder::{Family, Frame, ModelBuilder};
use crate::nn::{EmbeddingSpec, LayerSpec, LinearSpec, LstmSpec, MeanOverTime};
use crate::{Error, ErrorKind, Result};

/// The sizes of a bidirectional memory.
#[derive(Clone, Debug)]
pub struct Bilstm {
    vocabulary: usize,
    features: usize,
    hidden: usize,
}

/// An embedding, a memory that reads both ways, the mean over all steps and a linear layer, for
/// examples `[time]` of token ids below `vocabulary`.
///
/// `bilstm(&data, 20_000, 64, 64)` has 1,347,076 parameters for four classes. Rows of the
/// embedding start standard normal; the memory uniform between ±1/√hidden, as in PyTorch.
pub fn bilstm(
    data: &Dataset,
    vocabulary: usize,
    features: usize,
    hidden: usize,
) -> ModelBuilder<Bilstm> {
    ModelBuilder::new("bilstm", data, Bilstm { vocabulary, features, hidden })
}

impl Family for Bilstm {
    fn layers(&self, frame: &Frame) -> Result<Vec<LayerSpec>> {
        if frame.input_shape.len() != 1 {
            let what = format!("bilstm was given examples of shape {:?}", frame.input_shape);
            return Err(Error::new(ErrorKind::Model, what, "it reads token ids, [time]")
                .fix("use models::papernot_cnn(&data) for images"));
        }
        Ok(layers![
            EmbeddingSpec::new(self.vocabulary, self.features),
            LstmSpec::new(self.features, self.hidden).bidirectional(),
            MeanOverTime,
            LinearSpec::new(self.hidden.saturating_mul(2), frame.classes),
        ])
    }
}
