//! Token embedding.

use burn::module::Module;
use burn::nn;
use burn::tensor::module::embedding;
use serde::{Deserialize, Serialize};

use super::parameter_source::{
    ParameterInit, ParameterSource, ParameterSpec, check_parameter_size, check_sizes, shape_of,
};
use crate::Result;
use crate::nn::{BatchTensor, ParameterSite, Tape};

/// Specification of an [`Embedding`] layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbeddingSpec {
    /// Size of the vocabulary: token ids go from 0 to `vocabulary - 1`.
    pub vocabulary: usize,
    /// Number of features of each token.
    pub features: usize,
}

impl EmbeddingSpec {
    pub(super) fn check(&self) -> Result<()> {
        check_sizes("Embedding", &[("vocabulary", self.vocabulary), ("features", self.features)])?;
        check_parameter_size("Embedding", &[self.vocabulary, self.features])
    }

    pub(super) fn output_shape(&self, input: &[usize]) -> Result<Vec<usize>> {
        self.check()?;
        let (why, fix) =
            ("the layer expects token ids, [time]", "put it first, on data of token ids");
        let [time] = shape_of("an Embedding layer", input, why, fix)?;
        Ok(vec![time, self.features])
    }

    pub(super) fn parameters(&self) -> Vec<ParameterSpec> {
        vec![ParameterSpec::new("weight", &[self.vocabulary, self.features], ParameterInit::Normal)]
    }

    pub(super) fn build(&self, source: &mut ParameterSource) -> Embedding {
        Embedding { inner: nn::Embedding { weight: source.take_next() } }
    }
}

/// Embedding lookup: maps token ids, given as plain features `[batch, time]`, to their rows of the
/// weight, `[batch, time, features]`.
#[derive(Module, Debug)]
pub struct Embedding {
    /// Burn's layer: weight `[vocabulary, features]`.
    pub inner: nn::Embedding,
}

impl Embedding {
    /// Returns the rows of the weight for the token ids in `x`, `[batch, time, features]`.
    ///
    /// A forward pass can't fail, so ids are clamped to the vocabulary and rounded down.
    /// Batches and data whose features are not token ids are refused before.
    pub fn forward(&self, x: BatchTensor, tape: &mut dyn Tape) -> BatchTensor {
        let weight = self.inner.weight.val();
        let last = (weight.dims()[0] - 1) as f64;
        let ids = x.into_flat().inner().clamp(0.0, last).int();
        let y = embedding(weight, ids.clone());
        let site = ParameterSite::Embedding { weight: self.inner.weight.id };
        tape.record_layer(site, &BatchTensor::Flat(ids.float()), BatchTensor::Sequence(y))
    }
}
