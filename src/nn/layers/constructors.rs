//! Short words for specifications, and single layers with fresh parameters.
//!
//! In a cell: `layers![Conv2dSpec::new(1, 16, 8).stride(2).padding(3), Tanh, Flatten, ...]`.

use burn::prelude::*;

use super::*;
use crate::nn::init::{Draws, Initialisation};

/// A list of layers from anything that is one: specifications, and `Tanh`, `Relu`, `Selu`,
/// `Flatten`, `GlobalAvgPool` and `MeanOverTime` themselves.
///
/// ```
/// use epsilab::layers;
/// use epsilab::nn::{Conv2dSpec, Flatten, LinearSpec, MaxPool2dSpec, Tanh};
/// let specs = layers![
///     Conv2dSpec::new(1, 8, 3).padding(1),
///     Tanh,
///     MaxPool2dSpec::new(2),
///     Flatten,
///     LinearSpec::new(8 * 14 * 14, 10),
/// ];
/// assert_eq!(specs.len(), 5);
/// ```
#[macro_export]
macro_rules! layers {
    ($($layer:expr),* $(,)?) => {
        vec![$($crate::nn::LayerSpec::from($layer)),*]
    };
}

macro_rules! from {
    ($($spec:ident => $kind:ident),*; $($unit:ident),*) => {
        $(impl From<$spec> for LayerSpec {
            fn from(spec: $spec) -> Self {
                Self::$kind(spec)
            }
        })*
        $(impl From<$unit> for LayerSpec {
            fn from(_: $unit) -> Self {
                Self::$unit
            }
        })*
    };
}
from!(
    LinearSpec => Linear, Conv2dSpec => Conv2d, MaxPool2dSpec => MaxPool2d,
    AvgPool2dSpec => AvgPool2d, DropoutSpec => Dropout, GroupNormSpec => GroupNorm,
    LayerNormSpec => LayerNorm, EmbeddingSpec => Embedding, LstmSpec => Lstm,
    ResidualSpec => Residual, GroupSpec => Group;
    GlobalAvgPool, Tanh, Relu, Selu, Flatten, MeanOverTime
);

impl LinearSpec {
    /// A linear layer with a bias.
    pub fn new(inputs: usize, outputs: usize) -> Self {
        Self { inputs, outputs, bias: true }
    }

    /// The same without a bias.
    pub fn without_bias(self) -> Self {
        Self { bias: false, ..self }
    }
}

impl Conv2dSpec {
    /// The same with this stride (step), in pixels, in both directions.
    pub fn stride(self, step: usize) -> Self {
        Self { stride: [step; 2], ..self }
    }

    /// The same with so many zeros on all four sides.
    pub fn padding(self, zeros: usize) -> Self {
        Self { padding: [zeros; 2], ..self }
    }

    /// The same with this dilation: the kernel's pixels so far apart.
    pub fn dilation(self, distance: usize) -> Self {
        Self { dilation: [distance; 2], ..self }
    }

    /// The same with the channels split into groups that don't see each other.
    pub fn groups(self, groups: usize) -> Self {
        Self { groups, ..self }
    }

    /// The same without a bias.
    pub fn without_bias(self) -> Self {
        Self { bias: false, ..self }
    }

    /// The same with its weight standardised.
    pub fn standardised(self, rule: Standardisation) -> Self {
        Self { standardised: Some(rule), ..self }
    }
}

impl MaxPool2dSpec {
    /// Square windows side by side: the stride is the side.
    pub fn new(side: usize) -> Self {
        Self { kernel: [side; 2], stride: [side; 2] }
    }

    /// The same with this stride (step), in pixels, in both directions.
    pub fn stride(self, step: usize) -> Self {
        Self { stride: [step; 2], ..self }
    }
}

impl AvgPool2dSpec {
    /// Square windows side by side: the stride is the side.
    pub fn new(side: usize) -> Self {
        Self { kernel: [side; 2], stride: [side; 2] }
    }

    /// The same with this stride (step), in pixels, in both directions.
    pub fn stride(self, step: usize) -> Self {
        Self { stride: [step; 2], ..self }
    }
}

impl DropoutSpec {
    /// Dropout at this rate.
    pub fn new(rate: f64) -> Self {
        Self { rate }
    }
}

impl GroupNormSpec {
    /// So many groups of so many channels, with epsilon 1e-5.
    pub fn new(groups: usize, channels: usize) -> Self {
        Self { groups, channels, epsilon: 1e-5 }
    }
}

impl LayerNormSpec {
    /// So many features, with epsilon 1e-5.
    pub fn new(features: usize) -> Self {
        Self { features, epsilon: 1e-5 }
    }
}

impl EmbeddingSpec {
    /// So many features for each of so many tokens.
    pub fn new(vocabulary: usize, features: usize) -> Self {
        Self { vocabulary, features }
    }
}

impl LstmSpec {
    /// An LSTM of so many hidden features that reads forwards.
    pub fn new(inputs: usize, hidden: usize) -> Self {
        Self { inputs, hidden, bidirectional: false }
    }

    /// The same with a second memory that reads backwards.
    pub fn bidirectional(self) -> Self {
        Self { bidirectional: true, ..self }
    }
}

impl ResidualSpec {
    /// body(x) + x.
    pub fn new(body: Vec<LayerSpec>) -> Self {
        Self { body, shortcut: Vec::new() }
    }

    /// body(x) + shortcut(x).
    pub fn shortcut(self, shortcut: Vec<LayerSpec>) -> Self {
        Self { shortcut, ..self }
    }
}

impl GroupSpec {
    /// A named block of layers.
    pub fn new(name: &str, layers: Vec<LayerSpec>) -> Self {
        Self { name: name.to_owned(), layers }
    }
}

macro_rules! fresh {
    ($($layer:ident, $spec:ident);*) => {
        $(impl $layer {
            /// A layer with fresh parameters, drawn like [`Initialisation::Uniform`], for a
            /// module of one's own. The same seed gives the same numbers: give each layer its own.
            ///
            /// # Errors
            /// If a size or setting is out of range.
            pub fn new(spec: $spec, seed: u64) -> Result<Self> {
                spec.check()?;
                let mut draws = Draws::new(seed, Initialisation::Uniform);
                let (mut fill, device) = (|p: &ParameterSpec| draws.of(p), Device::flex());
                Ok(spec.build(&mut Source::new(spec.parameters(), &mut fill, &device)))
            }
        })*
    };
}
fresh!(
    Linear, LinearSpec; Conv2d, Conv2dSpec; GroupNorm, GroupNormSpec; LayerNorm, LayerNormSpec;
    Embedding, EmbeddingSpec; Lstm, LstmSpec
);

impl MaxPool2d {
    /// The layer of this specification.
    pub fn new(spec: MaxPool2dSpec) -> Result<Self> {
        spec.check()?;
        Ok(spec.build())
    }
}

impl AvgPool2d {
    /// The layer of this specification.
    pub fn new(spec: AvgPool2dSpec) -> Result<Self> {
        spec.check()?;
        Ok(spec.build())
    }
}
