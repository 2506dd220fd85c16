//! Layers made of layers: residual blocks and named groups.

use burn::module::Module;
use serde::{Deserialize, Serialize};

use super::source::{ParameterSpec, Source, listed};
use super::{Layer, LayerSpec};
use crate::nn::network::shapes;
use crate::nn::{Tape, Value};
use crate::{Error, ErrorKind, Result};

/// A residual block without its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResidualSpec {
    /// What is added to the input.
    pub body: Vec<LayerSpec>,
    /// What the input goes through instead of being added as it is; empty leaves it as it is.
    #[serde(default)]
    pub shortcut: Vec<LayerSpec>,
}

/// A group of layers without their parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupSpec {
    /// Its name, which takes the place of its number in the paths of its parameters.
    pub name: String,
    /// The layers, in order.
    pub layers: Vec<LayerSpec>,
}

impl ResidualSpec {
    pub(super) fn output_shape(&self, input: &[usize]) -> Result<Vec<usize>> {
        let after = |specs: &[LayerSpec]| {
            Ok::<_, Error>(shapes(input, specs)?.pop().unwrap_or_else(|| input.to_vec()))
        };
        let (body, shortcut) = (after(&self.body)?, after(&self.shortcut)?);
        if body != shortcut {
            let what = format!("a Residual block whose body gives examples of shape {body:?}");
            let why = format!("its shortcut gives {shortcut:?}, so they can't be added");
            return Err(Error::new(ErrorKind::Model, what, why)
                .fix("put a 1 x 1 convolution with the body's stride into the shortcut"));
        }
        Ok(body)
    }

    pub(super) fn parameters(&self) -> Vec<ParameterSpec> {
        let body = listed(&self.body).into_iter().map(|spec| spec.below("body"));
        let shortcut = listed(&self.shortcut).into_iter().map(|spec| spec.below("shortcut"));
        body.chain(shortcut).collect()
    }

    pub(super) fn build(&self, source: &mut Source) -> Residual {
        Residual { body: build(&self.body, source), shortcut: build(&self.shortcut, source) }
    }
}

impl GroupSpec {
    pub(super) fn output_shape(&self, input: &[usize]) -> Result<Vec<usize>> {
        let digits = self.name.chars().all(|c| c.is_ascii_digit());
        if digits || self.name.contains('.') {
            let why = "the name is part of the paths of its parameters, where dots separate and \
                       numbers are places";
            let what = format!("a group named {:?}", self.name);
            return Err(Error::new(ErrorKind::Model, what, why).fix("use a word: \"stem\""));
        }
        Ok(shapes(input, &self.layers)?.pop().unwrap_or_else(|| input.to_vec()))
    }

    pub(super) fn build(&self, source: &mut Source) -> Group {
        Group { layers: build(&self.layers, source) }
    }
}

pub(super) fn build(specs: &[LayerSpec], source: &mut Source) -> Vec<Layer> {
    specs.iter().map(|spec| spec.build(source)).collect()
}

/// body(x) + shortcut(x) (He et al., 2016).
#[derive(Module, Debug)]
pub struct Residual {
    /// What is added to the input.
    pub body: Vec<Layer>,
    /// What the input goes through; empty leaves it as it is.
    pub shortcut: Vec<Layer>,
}

impl Residual {
    /// The sum of both ways.
    pub fn forward(&self, x: Value, tape: &mut dyn Tape) -> Value {
        let body = run(&self.body, x.clone(), tape);
        body.plus(run(&self.shortcut, x, tape))
    }
}

/// A named block of layers: what is frozen, shown or replaced together.
#[derive(Module, Debug)]
pub struct Group {
    /// The layers, in order.
    pub layers: Vec<Layer>,
}

impl Group {
    /// The layers, one after the other.
    pub fn forward(&self, x: Value, tape: &mut dyn Tape) -> Value {
        run(&self.layers, x, tape)
    }
}

/// The layers, one after the other.
pub(crate) fn run(layers: &[Layer], x: Value, tape: &mut dyn Tape) -> Value {
    layers.iter().fold(x, |x, layer| layer.forward(x, tape))
}
