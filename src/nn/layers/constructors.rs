//! Constructors of layer specifications and layers, and the `layers!` macro.

use burn::prelude::*;

use super::*;
use crate::nn::init::{Initialisation, Initialiser};

/// Makes a `Vec<LayerSpec>` from specifications and from the layers without settings: `Tanh`,
/// `Relu`, `Selu`, `Flatten`, `GlobalAvgPool` and `MeanOverTime`.
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
    ResidualSpec => Residual, GroupSpec => Group, ZeroPad2dSpec => ZeroPad2d;
    GlobalAvgPool, Tanh, Relu, Selu, Flatten, MeanOverTime
);

impl LinearSpec {
    /// Creates a linear layer with a bias.
    pub fn new(inputs: usize, outputs: usize) -> Self {
        Self { inputs, outputs, bias: true }
    }

    /// Removes the bias.
    pub fn without_bias(self) -> Self {
        Self { bias: false, ..self }
    }
}

impl Conv2dSpec {
    /// Sets the stride in both directions, in pixels.
    pub fn stride(self, stride: usize) -> Self {
        Self { stride: [stride; 2], ..self }
    }

    /// Sets the zero padding on all four sides, in pixels.
    pub fn padding(self, padding: usize) -> Self {
        Self { padding: [padding; 2], ..self }
    }

    /// Sets the dilation in both directions: the distance between neighbouring kernel elements, in
    /// pixels.
    pub fn dilation(self, dilation: usize) -> Self {
        Self { dilation: [dilation; 2], ..self }
    }

    /// Sets the number of channel groups. Each group of output channels reads one group of input
    /// channels.
    pub fn groups(self, groups: usize) -> Self {
        Self { groups, ..self }
    }

    /// Removes the bias.
    pub fn without_bias(self) -> Self {
        Self { bias: false, ..self }
    }

    /// Standardises the weight by `rule`.
    pub fn standardised(self, rule: Standardisation) -> Self {
        Self { standardised: Some(rule), ..self }
    }
}

impl MaxPool2dSpec {
    /// Creates max pooling over square windows of `kernel` pixels a side that do not overlap: the
    /// stride is `kernel` too.
    pub fn new(kernel: usize) -> Self {
        Self { kernel: [kernel; 2], stride: [kernel; 2] }
    }

    /// Sets the stride in both directions, in pixels.
    pub fn stride(self, stride: usize) -> Self {
        Self { stride: [stride; 2], ..self }
    }
}

impl AvgPool2dSpec {
    /// Creates average pooling over square windows of `kernel` pixels a side that do not overlap:
    /// the stride is `kernel` too.
    pub fn new(kernel: usize) -> Self {
        Self { kernel: [kernel; 2], stride: [kernel; 2] }
    }

    /// Sets the stride in both directions, in pixels.
    pub fn stride(self, stride: usize) -> Self {
        Self { stride: [stride; 2], ..self }
    }
}

impl ZeroPad2dSpec {
    /// Creates zero padding by `pixels` on all four sides.
    pub fn new(pixels: usize) -> Self {
        Self { before: [pixels; 2], after: [pixels; 2] }
    }
}

impl DropoutSpec {
    /// Creates dropout with probability `rate`.
    pub fn new(rate: f64) -> Self {
        Self { rate }
    }
}

impl GroupNormSpec {
    /// Creates the normalisation of `channels` channels in `groups` groups, with epsilon 1e-5.
    pub fn new(groups: usize, channels: usize) -> Self {
        Self { groups, channels, epsilon: 1e-5 }
    }
}

impl LayerNormSpec {
    /// Creates the normalisation of `features` features, with epsilon 1e-5.
    pub fn new(features: usize) -> Self {
        Self { features, epsilon: 1e-5 }
    }
}

impl EmbeddingSpec {
    /// Creates an embedding of `vocabulary` tokens with `features` features each.
    pub fn new(vocabulary: usize, features: usize) -> Self {
        Self { vocabulary, features }
    }
}

impl LstmSpec {
    /// Creates a forward LSTM with `inputs` input features and `hidden` hidden features.
    pub fn new(inputs: usize, hidden: usize) -> Self {
        Self { inputs, hidden, bidirectional: false }
    }

    /// Adds a second LSTM that reads the sequence backwards.
    pub fn bidirectional(self) -> Self {
        Self { bidirectional: true, ..self }
    }
}

impl ResidualSpec {
    /// Creates a residual block with an identity shortcut: body(x) + x.
    pub fn new(body: Vec<LayerSpec>) -> Self {
        Self { body, shortcut: Vec::new() }
    }

    /// Replaces the identity by these layers: body(x) + shortcut(x).
    pub fn shortcut(self, shortcut: Vec<LayerSpec>) -> Self {
        Self { shortcut, ..self }
    }
}

impl GroupSpec {
    /// Creates a group of layers with this name.
    pub fn new(name: &str, layers: Vec<LayerSpec>) -> Self {
        Self { name: name.to_owned(), layers }
    }
}

macro_rules! seeded {
    ($($layer:ident, $spec:ident);*) => {
        $(impl $layer {
            /// Creates a layer on the CPU with initial parameters drawn by
            /// [`Initialisation::Uniform`], for a user-defined module. Equal seeds give equal
            /// parameters, so each layer of a module needs a seed of its own.
            ///
            /// # Errors
            /// If a size or setting is out of range.
            pub fn new(spec: $spec, seed: u64) -> Result<Self> {
                spec.check()?;
                let mut initialiser = Initialiser::new(seed, Initialisation::Uniform);
                let mut fill = |spec: &ParameterSpec| initialiser.draw(spec);
                let device = Device::flex();
                Ok(spec.build(&mut ParameterSource::new(spec.parameters(), &mut fill, &device)))
            }
        })*
    };
}
seeded!(
    Linear, LinearSpec; Conv2d, Conv2dSpec; GroupNorm, GroupNormSpec; LayerNorm, LayerNormSpec;
    Embedding, EmbeddingSpec; Lstm, LstmSpec
);

impl MaxPool2d {
    /// Creates the layer of this specification.
    ///
    /// # Errors
    /// If a size is out of range.
    pub fn new(spec: MaxPool2dSpec) -> Result<Self> {
        spec.check()?;
        Ok(spec.build())
    }
}

impl AvgPool2d {
    /// Creates the layer of this specification.
    ///
    /// # Errors
    /// If a size is out of range.
    pub fn new(spec: AvgPool2dSpec) -> Result<Self> {
        spec.check()?;
        Ok(spec.build())
    }
}

impl ZeroPad2d {
    /// Creates the layer of this specification.
    ///
    /// # Errors
    /// If a size is out of range.
    pub fn new(spec: ZeroPad2dSpec) -> Result<Self> {
        spec.check()?;
        Ok(spec.build())
    }
}
