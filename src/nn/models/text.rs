//! Text classification models on token ids.

use crate::Result;
use crate::data::Dataset;
use crate::layers;
use crate::nn::builder::{ModelBuilder, ModelConfig, ModelFamily};
use crate::nn::layers::shape_of;
use crate::nn::{EmbeddingSpec, LayerSpec, LinearSpec, LstmSpec, MeanOverTime};

/// Model family of [`bilstm`], with its sizes.
#[derive(Clone, Debug)]
pub struct Bilstm {
    vocabulary: usize,
    features: usize,
    hidden: usize,
}

/// Creates a bidirectional LSTM classifier for examples `[time]` of token ids below `vocabulary`.
///
/// An embedding of `features` features, a bidirectional LSTM with `hidden` features in each
/// direction, the mean over time and a linear layer. `bilstm(&data, 20_000, 64, 64)` has 1,347,076
/// parameters for four classes. By default the embedding is drawn from N(0, 1) and the LSTM from
/// U(-1/√hidden, 1/√hidden), as in PyTorch.
pub fn bilstm(
    data: &Dataset,
    vocabulary: usize,
    features: usize,
    hidden: usize,
) -> ModelBuilder<Bilstm> {
    ModelBuilder::new("bilstm", data, Bilstm { vocabulary, features, hidden })
}

impl ModelFamily for Bilstm {
    fn layers(&self, config: &ModelConfig) -> Result<Vec<LayerSpec>> {
        let fix = "use models::papernot_cnn(&data) for images";
        shape_of::<1>("bilstm", &config.input_shape, "the model reads token ids, [time]", fix)?;
        Ok(layers![
            EmbeddingSpec::new(self.vocabulary, self.features),
            LstmSpec::new(self.features, self.hidden).bidirectional(),
            MeanOverTime,
            LinearSpec::new(self.hidden.saturating_mul(2), config.classes),
        ])
    }
}
