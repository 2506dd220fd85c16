//! [`Network`]: the layers of a model, or a user-defined module, with their parameters.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use burn::module::{Module, ParamId};
use burn::prelude::*;
use burn::tensor::Gradients;

use super::layers::{ParameterInit, ParameterSource, ParameterSpec, forward_all, parameter_specs};
use super::parameters::{self, AutodiffRole, Parameter};
use super::user_module::UserModule;
use super::{BatchTensor, Layer, LayerSpec, NoTape, Tape};
use crate::device::host::{HostValues, tensor_to_vec};
use crate::{Error, ErrorKind, Result};

/// A network: a list of layers, or a user-defined module, with its parameters, as a Burn module.
///
/// The shapes of the layers are checked when the network is built, so a forward pass on examples of
/// [`input_shape`](Self::input_shape) can't fail. Clones share the parameters.
#[derive(Module, Debug)]
pub struct Network {
    layers: Vec<Layer>,
    /// User-defined module in place of `layers`.
    pub(super) user_module: Option<UserModule>,
    #[module(skip)]
    specs: Arc<[LayerSpec]>,
    #[module(skip)]
    input_shape: Arc<[usize]>,
    outputs: usize,
}

impl Network {
    /// Builds a network on the CPU from the specifications of its layers.
    ///
    /// `fill` returns the values of each parameter, row-major, given its path (`"0.weight"`), its
    /// shape (see [`Parameter`]) and its fan-in. The fan-in is 1 for scales and shifts of
    /// normalisation layers, gains and embeddings.
    ///
    /// # Errors
    /// If the layers do not fit together, if none of them has parameters, or if the last one does
    /// not give plain features.
    ///
    /// # Panics
    /// If the number of values that `fill` returns differs from the number of elements.
    pub fn build(
        input_shape: &[usize],
        specs: &[LayerSpec],
        mut fill: impl FnMut(&str, &[usize], usize) -> Vec<f32>,
    ) -> Result<Self> {
        Self::build_from_specs(input_shape, specs, &mut |spec| {
            let fan_in = match spec.init {
                ParameterInit::Weight { fan_in } | ParameterInit::Bias { fan_in } => fan_in,
                ParameterInit::Ones | ParameterInit::Zeros | ParameterInit::Normal => 1,
            };
            fill(&spec.path, &spec.shape, fan_in)
        })
    }

    /// Builds a network as [`build`](Self::build) does, with a `fill` that is given the whole
    /// [`ParameterSpec`].
    pub(crate) fn build_from_specs(
        input_shape: &[usize],
        specs: &[LayerSpec],
        fill: &mut dyn FnMut(&ParameterSpec) -> Vec<f32>,
    ) -> Result<Self> {
        let outputs = check(input_shape, specs)?;
        let device = Device::flex();
        let mut source = ParameterSource::new(parameter_specs(specs), fill, &device);
        let layers = specs.iter().map(|spec| spec.build(&mut source)).collect();
        let (specs, input_shape) = (specs.into(), input_shape.into());
        Ok(Self { layers, user_module: None, specs, input_shape, outputs })
    }

    /// Creates a network of a user-defined module. The caller must have checked the module.
    pub(super) fn from_user_module(
        module: UserModule,
        input_shape: &[usize],
        outputs: usize,
    ) -> Self {
        let (specs, input_shape) = (Arc::from([]), input_shape.into());
        Self { layers: Vec::new(), user_module: Some(module), specs, input_shape, outputs }
    }

    /// Returns the specifications of the layers in order; empty for a user-defined module.
    pub fn specs(&self) -> &[LayerSpec] {
        &self.specs
    }

    /// Returns the shape of one example.
    pub fn input_shape(&self) -> &[usize] {
        &self.input_shape
    }

    /// Returns the number of outputs (logits) per example.
    pub(crate) fn outputs(&self) -> usize {
        self.outputs
    }

    /// Returns the size of the vocabulary if the first layer is an embedding.
    ///
    /// `None` for a user-defined module, whose embeddings clamp token ids to their vocabulary.
    pub(crate) fn vocabulary(&self) -> Option<usize> {
        vocabulary(&self.specs)
    }

    /// Checks that all features are token ids, if the first layer is an embedding.
    ///
    /// NaN and infinite features are not refused: training leaves out examples that have them.
    ///
    /// # Errors
    /// If a finite feature is not an integer between 0 and the size of the vocabulary - 1.
    pub(crate) fn check_tokens(&self, features: &[f32]) -> Result<()> {
        let Some(vocabulary) = self.vocabulary() else { return Ok(()) };
        let is_invalid = |id: f32| {
            id.is_finite() && (id < 0.0 || id.fract() != 0.0 || id as usize >= vocabulary)
        };
        let Some(id) = features.iter().find(|&&id| is_invalid(id)) else { return Ok(()) };
        let why = format!("token ids are whole numbers from 0 to {}", vocabulary - 1);
        Err(Error::new(ErrorKind::Model, format!("an example with the token {id}"), why)
            .fix("build the model for the vocabulary of the data's tokenizer"))
    }

    /// Computes the logits, `[batch, classes]`. Each layer with parameters is reported to `tape`.
    pub fn forward(&self, x: BatchTensor, tape: &mut dyn Tape) -> Tensor<2> {
        match &self.user_module {
            Some(module) => module.0.logits(x, tape),
            None => forward_all(&self.layers, x, tape).into_flat(),
        }
    }

    /// Computes the logits `[n, classes]` of `n` examples with row-major `features`, without a
    /// tape.
    pub(crate) fn logits(&self, features: Vec<f32>, n: usize) -> Tensor<2> {
        self.forward(BatchTensor::new(features, n, &self.input_shape, &self.device()), &mut NoTape)
    }

    /// Returns the device of the parameters.
    pub fn device(&self) -> Device {
        self.devices().into_iter().next().unwrap_or_else(Device::flex)
    }

    /// Returns a copy of this network with its parameters on `device`.
    pub(crate) fn on_device(&self, device: &Device) -> Self {
        if self.device() == *device {
            return self.clone();
        }
        self.clone().to_device(device)
    }

    /// Returns all trainable tensors, in the order of the layers and, within a layer, of
    /// [`LayerSpec::parameters`].
    pub fn parameters(&self) -> Vec<Parameter> {
        if let Some(module) = &self.user_module {
            return parameters::list(module);
        }
        // Burn visits the parameters in the order of the specifications, which the layers are built
        // from.
        let each = parameters::list(self).into_iter().zip(parameter_specs(&self.specs));
        each.map(|(parameter, spec)| Parameter { path: spec.path, ..parameter }).collect()
    }

    /// Returns Burn's ids of the trainable tensors, in the order of
    /// [`parameters`](Self::parameters).
    pub(crate) fn trainable_ids(&self) -> Vec<ParamId> {
        self.parameters().into_iter().map(|parameter| parameter.id).collect()
    }

    /// Returns the paths of the trainable tensors (`"0.weight"`, `"0.bias"`, ...), in the order of
    /// [`parameters`](Self::parameters).
    pub fn paths(&self) -> Vec<String> {
        self.parameters().into_iter().map(|parameter| parameter.path).collect()
    }

    /// Returns the layer of each trainable tensor, in the order of
    /// [`parameters`](Self::parameters): layers with parameters are counted from 0, also within
    /// groups and residual blocks. The layers of a user-defined module are its modules that hold
    /// tensors.
    pub fn layer_of_parameters(&self) -> Vec<usize> {
        if self.user_module.is_none() {
            let layers = self.leaf_specs().into_iter().enumerate();
            let each = layers.map(|(i, layer)| std::iter::repeat_n(i, layer.parameters().len()));
            return each.flatten().collect();
        }
        let module = |path: &str| path.rsplit_once('.').map_or("", |(module, _)| module).to_owned();
        let mut modules: Vec<String> = Vec::new();
        let mut layer_of = |path: String| {
            let module = module(&path);
            modules.iter().position(|known| *known == module).unwrap_or_else(|| {
                modules.push(module);
                modules.len() - 1
            })
        };
        self.paths().into_iter().map(&mut layer_of).collect()
    }

    /// Returns the specifications of the layers with parameters, in the order of
    /// [`layer_of_parameters`](Self::layer_of_parameters); empty for a user-defined module.
    pub(crate) fn leaf_specs(&self) -> Vec<&LayerSpec> {
        leaf_specs(&self.specs)
    }

    /// Returns all trainable tensors with a copy of their values, row-major.
    pub fn values(&self) -> Vec<(Parameter, Vec<f32>)> {
        self.parameters().into_iter().zip(self.tensors().into_iter().map(tensor_to_vec)).collect()
    }

    /// Returns the values of all trainable tensors on the host, without a copy where possible.
    pub(crate) fn host_values(&self) -> Vec<HostValues> {
        self.tensors().into_iter().map(HostValues::from_tensor).collect()
    }

    /// Returns all trainable tensors, each flattened to one dimension, on the network's device.
    pub(crate) fn tensors(&self) -> Vec<Tensor<1>> {
        parameters::flattened(self)
    }

    /// Returns the gradient of each trainable tensor, in the form of [`tensors`](Self::tensors);
    /// `None` where the loss does not depend on it.
    pub(crate) fn gradients(&self, grads: &Gradients) -> Vec<Option<Tensor<1>>> {
        parameters::gradients(self, grads)
    }

    /// Returns a copy of this network with other trainable tensors, in the order and shapes of
    /// [`tensors`](Self::tensors).
    pub(crate) fn with_tensors(&self, tensors: Vec<Tensor<1>>) -> Self {
        let tensors = self.trainable_ids().into_iter().zip(tensors);
        let tensors: HashMap<ParamId, Tensor<1>> = tensors.collect();
        parameters::replaced(self.clone(), |id, _| tensors.get(&id).cloned())
    }

    /// Returns a copy of this network with other values for the paths that `values` returns some
    /// for. Their number must be that of the parameter's elements.
    pub(crate) fn with_values(&self, values: impl Fn(&str) -> Option<Vec<f32>>) -> Self {
        let paths = self.parameters().into_iter().map(|p| (p.id, p.path));
        let paths: HashMap<ParamId, String> = paths.collect();
        parameters::replaced(self.clone(), |id, device| {
            let values = paths.get(&id).and_then(|path| values(path))?;
            let shape = [values.len()];
            Some(Tensor::from_data(TensorData::new(values, shape), device))
        })
    }

    /// Returns a copy of this network with every parameter tracked by autodiff.
    pub(crate) fn tracked(&self) -> Self {
        self.tracked_where(|_| true)
    }

    /// Returns a copy of this network with those parameters tracked by autodiff whose index
    /// `is_tracked` accepts.
    pub(crate) fn tracked_where(&self, is_tracked: impl Fn(usize) -> bool) -> Self {
        let role =
            |index| if is_tracked(index) { AutodiffRole::Tracked } else { AutodiffRole::None };
        parameters::with_autodiff_roles(self.clone(), role)
    }

    /// Returns a copy of this network in the form that Burn's optimizers expect.
    pub(crate) fn for_optimizer(&self) -> Self {
        parameters::with_autodiff_roles(self.clone(), |_| AutodiffRole::Lifted)
    }

    /// Returns this network with no parameter tracked by autodiff, the form of the networks in
    /// models.
    pub(crate) fn untracked(self) -> Self {
        parameters::untracked(self)
    }
}

/// Returns the size of the vocabulary if the first layer, possibly within groups, is an embedding.
fn vocabulary(specs: &[LayerSpec]) -> Option<usize> {
    match specs.first()? {
        LayerSpec::Embedding(spec) => Some(spec.vocabulary),
        LayerSpec::Group(group) => vocabulary(&group.layers),
        LayerSpec::BackpropClipped(clipped) => vocabulary(std::slice::from_ref(&*clipped.layer)),
        _ => None,
    }
}

/// Returns the layers that have parameters, groups and residual blocks unfolded.
pub(super) fn leaf_specs(specs: &[LayerSpec]) -> Vec<&LayerSpec> {
    let leaves = specs.iter().flat_map(|spec| match spec {
        LayerSpec::Group(group) => leaf_specs(&group.layers),
        LayerSpec::Residual(block) => {
            let body = leaf_specs(&block.body).into_iter();
            body.chain(leaf_specs(&block.shortcut)).collect()
        }
        layer if layer.parameter_specs().is_empty() => Vec::new(),
        layer => vec![layer],
    });
    leaves.collect()
}

/// Returns the shape of one example after each layer.
///
/// # Errors
/// If a layer does not fit the shape before it, a setting is out of range, or two groups have the
/// same name.
pub(crate) fn output_shapes(input_shape: &[usize], specs: &[LayerSpec]) -> Result<Vec<Vec<usize>>> {
    let mut shape = input_shape.to_vec();
    let mut names = HashSet::new();
    let each = specs.iter().enumerate().map(|(index, spec)| {
        if !names.insert(spec.path_segment(index)) {
            let what =
                format!("two groups named {:?} in one list of layers", spec.path_segment(index));
            let why = "their parameters would have the same paths";
            return Err(Error::new(ErrorKind::Model, what, why).fix("give each its own name"));
        }
        shape = spec.output_shape(&shape)?;
        Ok(shape.clone())
    });
    each.collect()
}

/// Checks a list of layers and returns the number of outputs of the last one.
fn check(input_shape: &[usize], specs: &[LayerSpec]) -> Result<usize> {
    if input_shape.contains(&0) {
        let what = format!("examples of shape {input_shape:?}");
        return Err(Error::new(ErrorKind::Model, what, "the examples have no features")
            .fix("check how the data is read"));
    }
    let shapes = output_shapes(input_shape, specs)?;
    if parameter_specs(specs).is_empty() {
        return Err(Error::new(
            ErrorKind::Model,
            format!("a network of {} layers without parameters", specs.len()),
            "there is nothing to train",
        )
        .fix("add a Linear or Conv2d layer"));
    }
    match shapes.last().map(Vec::as_slice) {
        Some(&[outputs]) => Ok(outputs),
        last => Err(Error::new(
            ErrorKind::Model,
            format!("the last layer has outputs of shape {last:?}"),
            "a classifier needs one output per class, [classes]",
        )
        .fix("end with Flatten and Linear")),
    }
}
