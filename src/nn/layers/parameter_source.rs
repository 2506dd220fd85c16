//! Parameters of layers that are being built, and checks of layer settings.

use std::vec;

use burn::module::{Param, ParamId};
use burn::prelude::*;

use super::LayerSpec;
use crate::{Error, ErrorKind, Result};

/// Specification of a parameter of a layer or network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParameterSpec {
    /// Path of the parameter: `"weight"` in a layer, `"0.weight"` in a network.
    pub(crate) path: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) init: ParameterInit,
}

/// Initialisation of one parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParameterInit {
    /// Weight, drawn by the [`Initialisation`](crate::nn::Initialisation) of the model.
    Weight { fan_in: usize },
    /// Bias of a weight with this fan-in.
    Bias { fan_in: usize },
    /// Ones: scales of normalisation layers, and gains.
    Ones,
    /// Zeros: shifts of normalisation layers.
    Zeros,
    /// Samples of N(0, 1): embeddings.
    Normal,
}

impl ParameterSpec {
    pub(super) fn new(path: &str, shape: &[usize], init: ParameterInit) -> Self {
        Self { path: path.to_owned(), shape: shape.to_vec(), init }
    }

    /// Returns the specification with `prefix` in front of its path.
    pub(super) fn prefixed(mut self, prefix: &str) -> Self {
        self.path = format!("{prefix}.{}", self.path);
        self
    }
}

/// Function that returns the values of a parameter, row-major.
pub(crate) type Fill<'a> = &'a mut dyn FnMut(&ParameterSpec) -> Vec<f32>;

/// Creates the parameters of the layers being built, in the order of a list of specifications.
///
/// Layers take their parameters from here, so the order in which a network's parameters are built
/// is always that of [`parameter_specs`].
pub(crate) struct ParameterSource<'a> {
    specs: vec::IntoIter<ParameterSpec>,
    fill: Fill<'a>,
    device: &'a Device,
}

impl<'a> ParameterSource<'a> {
    pub(crate) fn new(specs: Vec<ParameterSpec>, fill: Fill<'a>, device: &'a Device) -> Self {
        Self { specs: specs.into_iter(), fill, device }
    }

    /// Creates the next parameter, of rank `D`.
    pub(super) fn take_next<const D: usize>(&mut self) -> Param<Tensor<D>> {
        let spec = self.specs.next().expect("a layer takes no more parameters than it lists");
        let shape = <[usize; D]>::try_from(spec.shape.as_slice()).expect("the rank that it lists");
        let values = (self.fill)(&spec);
        let tensor = Tensor::from_data(TensorData::new(values, shape), self.device);
        Param::initialized(ParamId::new(), tensor)
    }

    pub(super) fn device(&self) -> &'a Device {
        self.device
    }
}

/// Returns the parameters of a list of layers, in order. Paths begin with the index of the layer
/// in the list, or with the name of a group.
pub(crate) fn parameter_specs(specs: &[LayerSpec]) -> Vec<ParameterSpec> {
    let parameters = specs.iter().enumerate().flat_map(|(index, spec)| {
        let prefix = spec.path_segment(index);
        spec.parameter_specs().into_iter().map(move |parameter| parameter.prefixed(&prefix))
    });
    parameters.collect()
}

/// Upper bound of image sides, channel counts and numbers of features. A file can state any size;
/// sums of a few sizes below this bound do not overflow.
pub(super) const MAX_SIZE: usize = 1 << 20;

/// Upper bound of the number of elements of one parameter, 4 GiB of f32.
const MAX_PARAMETER_ELEMENTS: usize = 1 << 30;

/// Refuses sizes that are 0 or above [`MAX_SIZE`].
pub(super) fn check_sizes(kind: &str, sizes: &[(&str, usize)]) -> Result<()> {
    for &(name, size) in sizes {
        if size == 0 || size > MAX_SIZE {
            let why = format!("sizes of a {kind} layer must be between 1 and {MAX_SIZE}");
            return Err(Error::new(ErrorKind::Model, format!("{name} = {size}"), why)
                .fix("check the settings of the layer"));
        }
    }
    Ok(())
}

/// Refuses parameters of more than [`MAX_PARAMETER_ELEMENTS`] elements.
pub(super) fn check_parameter_size(kind: &str, shape: &[usize]) -> Result<()> {
    let elements = shape.iter().try_fold(1usize, |product, &side| product.checked_mul(side));
    if elements.is_some_and(|elements| elements <= MAX_PARAMETER_ELEMENTS) {
        return Ok(());
    }
    let what = format!("a {kind} layer with a parameter of shape {shape:?}");
    let why = format!("a parameter has at most {MAX_PARAMETER_ELEMENTS} elements");
    Err(Error::new(ErrorKind::Model, what, why).fix("use a smaller layer"))
}

pub(super) fn check_epsilon(kind: &str, epsilon: f64) -> Result<()> {
    if epsilon > 0.0 && epsilon.is_finite() {
        return Ok(());
    }
    let why = format!("a {kind} layer divides by its square root where the variance is 0");
    Err(Error::setting("epsilon", epsilon, why).fix("use a small positive number, such as 1e-5"))
}

/// Reason in the error for examples that are not images.
pub(crate) const IMAGES: &str = "the layer works on images, [channels, height, width]";

/// Returns `input` as a shape of `N` sides, or an error that names `layer` and the shape.
pub(crate) fn shape_of<const N: usize>(
    layer: &str,
    input: &[usize],
    why: &str,
    fix: &str,
) -> Result<[usize; N]> {
    <[usize; N]>::try_from(input).map_err(|_| {
        let what = format!("{layer} received examples of shape {input:?}");
        Error::new(ErrorKind::Model, what, why).fix(fix)
    })
}

/// Returns `input` as the shape of an image, or an error that names the kind of layer.
pub(super) fn image_shape(kind: &str, input: &[usize]) -> Result<[usize; 3]> {
    let fix = "put it before Flatten, or use a model for plain features, such as models::mlp";
    shape_of(&format!("a {kind} layer"), input, IMAGES, fix)
}

/// Returns `input` as the shape of a sequence, or an error that names the kind of layer.
pub(super) fn sequence_shape(kind: &str, input: &[usize]) -> Result<[usize; 2]> {
    let fix = "put Embedding before it if the examples are token ids";
    shape_of(
        &format!("a {kind} layer"),
        input,
        "the layer works on sequences, [time, features]",
        fix,
    )
}
