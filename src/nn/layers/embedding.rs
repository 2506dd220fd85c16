//! The embedding: a row of a table for every token.

use burn::module::Module;
use burn::nn;
use burn::tensor::module::embedding;
use serde::{Deserialize, Serialize};

use super::source::{Init, ParameterSpec, Source, fits_memory, sizes};
use crate::nn::{Site, Tape, Value};
use crate::{Error, ErrorKind, Result};

/// An embedding without its table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbeddingSpec {
    /// How many tokens there are; ids go from 0 to one less.
    pub vocabulary: usize,
    /// Features of each token.
    pub features: usize,
}

impl EmbeddingSpec {
    pub(super) fn check(&self) -> Result<()> {
        sizes("Embedding", &[("vocabulary", self.vocabulary), ("features", self.features)])?;
        fits_memory("Embedding", &[self.vocabulary, self.features])
    }

    pub(super) fn output_shape(&self, input: &[usize]) -> Result<Vec<usize>> {
        self.check()?;
        let [time] = *input else {
            let what = format!("an Embedding layer was given examples of shape {input:?}");
            return Err(Error::new(ErrorKind::Model, what, "it takes token ids, [time]")
                .fix("put it first, on data of token ids"));
        };
        Ok(vec![time, self.features])
    }

    pub(super) fn parameters(&self) -> Vec<ParameterSpec> {
        vec![ParameterSpec::new("weight", &[self.vocabulary, self.features], Init::Normal)]
    }

    pub(super) fn build(&self, source: &mut Source) -> Embedding {
        Embedding { inner: nn::Embedding { weight: source.next() } }
    }
}

/// Token ids `[batch, time]`, as whole numbers in plain features, to `[batch, time, features]`.
#[derive(Module, Debug)]
pub struct Embedding {
    /// Burn's layer: weight `[vocabulary, features]`.
    pub inner: nn::Embedding,
}

impl Embedding {
    /// The rows of the tokens. DeviceArray that are no token id are rounded down into the
    /// vocabulary, for a forward pass can't fail; models and batches refuse such examples before.
    pub fn forward(&self, x: Value, tape: &mut dyn Tape) -> Value {
        let weight = self.inner.weight.val();
        let last = (weight.dims()[0] - 1) as f64;
        let ids = x.flat().inner().clamp(0.0, last).int();
        let y = embedding(weight, ids.clone());
        let site = Site::Embedding { weight: self.inner.weight.id };
        tape.layer(site, &Value::Flat(ids.float()), Value::Sequence(y))
    }
}
