//! Layers that contain layers: residual blocks and named groups.

use burn::module::Module;
use serde::{Deserialize, Serialize};

use super::parameter_source::{ParameterSource, ParameterSpec, parameter_specs};
use super::{Layer, LayerSpec};
use crate::nn::network::output_shapes;
use crate::nn::{BatchTensor, Tape};
use crate::{Error, ErrorKind, Result};

/// Specification of a [`Residual`] block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResidualSpec {
    /// The layers of the residual branch.
    pub body: Vec<LayerSpec>,
    /// The layers of the shortcut; empty for the identity.
    #[serde(default)]
    pub shortcut: Vec<LayerSpec>,
}

/// Specification of a named [`Group`] of layers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupSpec {
    /// The name, which replaces the layer index in the paths of the group's parameters.
    pub name: String,
    /// The layers, in order.
    pub layers: Vec<LayerSpec>,
}

impl ResidualSpec {
    pub(super) fn output_shape(&self, input: &[usize]) -> Result<Vec<usize>> {
        let after = |specs: &[LayerSpec]| {
            Ok::<_, Error>(output_shapes(input, specs)?.pop().unwrap_or_else(|| input.to_vec()))
        };
        let (body, shortcut) = (after(&self.body)?, after(&self.shortcut)?);
        if body != shortcut {
            let what = format!("a Residual block whose body has output shape {body:?}");
            let why =
                format!("the shortcut has output shape {shortcut:?}, so the two can't be added");
            return Err(Error::new(ErrorKind::Model, what, why)
                .fix("put a 1 x 1 convolution with the body's stride into the shortcut"));
        }
        Ok(body)
    }

    pub(super) fn parameters(&self) -> Vec<ParameterSpec> {
        let body = parameter_specs(&self.body).into_iter().map(|spec| spec.prefixed("body"));
        let shortcut = parameter_specs(&self.shortcut).into_iter();
        body.chain(shortcut.map(|spec| spec.prefixed("shortcut"))).collect()
    }

    pub(super) fn build(&self, source: &mut ParameterSource) -> Residual {
        Residual { body: build(&self.body, source), shortcut: build(&self.shortcut, source) }
    }
}

impl GroupSpec {
    pub(super) fn output_shape(&self, input: &[usize]) -> Result<Vec<usize>> {
        let digits = self.name.chars().all(|c| c.is_ascii_digit());
        if digits || self.name.contains('.') {
            let why = "the name is part of the paths of its parameters, where dots are separators \
                       and numbers are layer indices";
            let what = format!("a group named {:?}", self.name);
            return Err(Error::new(ErrorKind::Model, what, why)
                .fix("use a name with a letter and without dots, such as \"stem\""));
        }
        Ok(output_shapes(input, &self.layers)?.pop().unwrap_or_else(|| input.to_vec()))
    }

    pub(super) fn build(&self, source: &mut ParameterSource) -> Group {
        Group { layers: build(&self.layers, source) }
    }
}

pub(super) fn build(specs: &[LayerSpec], source: &mut ParameterSource) -> Vec<Layer> {
    specs.iter().map(|spec| spec.build(source)).collect()
}

/// A residual block: body(x) + shortcut(x) (He et al., 2016, "Deep residual learning for image
/// recognition").
#[derive(Module, Debug)]
pub struct Residual {
    /// The layers of the residual branch.
    pub body: Vec<Layer>,
    /// The layers of the shortcut; empty for the identity.
    pub shortcut: Vec<Layer>,
}

impl Residual {
    /// Computes body(x) + shortcut(x).
    pub fn forward(&self, x: BatchTensor, tape: &mut dyn Tape) -> BatchTensor {
        let body = forward_all(&self.body, x.clone(), tape);
        body.plus(forward_all(&self.shortcut, x, tape))
    }
}

/// A named group of layers. The name is part of the paths of its parameters.
#[derive(Module, Debug)]
pub struct Group {
    /// The layers, in order.
    pub layers: Vec<Layer>,
}

impl Group {
    /// Computes the output of the last layer.
    pub fn forward(&self, x: BatchTensor, tape: &mut dyn Tape) -> BatchTensor {
        forward_all(&self.layers, x, tape)
    }
}

/// Applies the layers in order.
pub(crate) fn forward_all(layers: &[Layer], x: BatchTensor, tape: &mut dyn Tape) -> BatchTensor {
    layers.iter().fold(x, |x, layer| layer.forward(x, tape))
}
