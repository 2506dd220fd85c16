//! Where the numbers of fresh layers come from.

use std::vec;

use burn::module::{Param, ParamId};
use burn::prelude::*;

use super::LayerSpec;
use crate::{Error, ErrorKind, Result};

/// One parameter of a layer or a network that is yet to be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParameterSpec {
    /// Its path: `"weight"` in a layer, `"0.weight"` in a network.
    pub(crate) path: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) init: Init,
}

/// What a parameter is, as far as its first numbers care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Init {
    /// A weight over so many inputs.
    Weight { fan_in: usize },
    /// The bias beside such a weight.
    Bias { fan_in: usize },
    /// A factor: 1.
    Ones,
    /// A shift: 0.
    Zeros,
    /// A row of a table: standard normal.
    Normal,
}

impl ParameterSpec {
    pub(super) fn new(path: &str, shape: &[usize], init: Init) -> Self {
        Self { path: path.to_owned(), shape: shape.to_vec(), init }
    }

    pub(super) fn below(mut self, prefix: &str) -> Self {
        self.path = format!("{prefix}.{}", self.path);
        self
    }
}

/// Gives the numbers of a parameter.
pub(crate) type Fill<'a> = &'a mut dyn FnMut(&ParameterSpec) -> Vec<f32>;

/// Hands out the parameters of one layer after the other, in the order of the specifications:
/// what is listed and what is built can't fall apart.
pub(crate) struct Source<'a> {
    specs: vec::IntoIter<ParameterSpec>,
    fill: Fill<'a>,
    device: &'a Device,
}

impl<'a> Source<'a> {
    pub(crate) fn new(specs: Vec<ParameterSpec>, fill: Fill<'a>, device: &'a Device) -> Self {
        Self { specs: specs.into_iter(), fill, device }
    }

    /// The next parameter, which has `D` dimensions.
    pub(super) fn next<const D: usize>(&mut self) -> Param<Tensor<D>> {
        let spec = self.specs.next().expect("layers take the parameters they list");
        let shape = <[usize; D]>::try_from(spec.shape.as_slice()).expect("of the rank they list");
        let values = (self.fill)(&spec);
        let tensor = Tensor::from_data(TensorData::new(values, shape), self.device);
        Param::initialized(ParamId::new(), tensor)
    }

    pub(super) fn device(&self) -> &'a Device {
        self.device
    }
}

/// The parameters of a list of layers, in order, under their paths: a layer's place in the list
/// or the name of the group comes first.
pub(crate) fn listed(specs: &[LayerSpec]) -> Vec<ParameterSpec> {
    let each = specs.iter().enumerate().flat_map(|(index, spec)| {
        let prefix = spec.place(index);
        spec.parameter_specs().into_iter().map(move |parameter| parameter.below(&prefix))
    });
    each.collect()
}

/// The largest size of a side, a channel count or a number of features. Files can claim
/// anything; sums of a few sizes below this bound can't overflow what follows.
const LARGEST: usize = 1 << 20;

/// The most numbers in one tensor: 4 GiB of them.
const MOST: usize = 1 << 30;

pub(super) fn sizes(kind: &str, sizes: &[(&str, usize)]) -> Result<()> {
    for &(name, size) in sizes {
        if size == 0 || size > LARGEST {
            let why = format!("sizes of a {kind} layer lie between 1 and {LARGEST}");
            return Err(Error::new(ErrorKind::Model, format!("{name} = {size}"), why));
        }
    }
    Ok(())
}

/// Refuses tensors that no machine this is for could hold.
pub(super) fn fits_memory(kind: &str, shape: &[usize]) -> Result<()> {
    let numbers = shape.iter().try_fold(1usize, |all, &side| all.checked_mul(side));
    if numbers.is_some_and(|numbers| numbers <= MOST) {
        return Ok(());
    }
    let what = format!("a {kind} layer with a parameter of shape {shape:?}");
    Err(Error::new(ErrorKind::Model, what, format!("a parameter holds at most {MOST} numbers")))
}

pub(super) fn epsilon(kind: &str, epsilon: f64) -> Result<()> {
    if epsilon > 0.0 && epsilon.is_finite() {
        return Ok(());
    }
    let why = format!("a {kind} layer divides by its square root where nothing varies");
    Err(Error::setting("epsilon", epsilon, why).fix("use a small positive number: 1e-5"))
}

pub(super) fn image(kind: &str, input: &[usize]) -> Result<[usize; 3]> {
    <[usize; 3]>::try_from(input).map_err(|_| {
        Error::new(
            ErrorKind::Model,
            format!("a {kind} layer was given examples of shape {input:?}"),
            "it works on images, [channels, height, width]",
        )
        .fix("put it before Flatten, or use a model for plain features: models::mlp")
    })
}

pub(super) fn sequence(kind: &str, input: &[usize]) -> Result<[usize; 2]> {
    <[usize; 2]>::try_from(input).map_err(|_| {
        Error::new(
            ErrorKind::Model,
            format!("a {kind} layer was given examples of shape {input:?}"),
            "it works on sequences, [time, features]",
        )
        .fix("put Embedding before it if the examples are token ids")
    })
}
