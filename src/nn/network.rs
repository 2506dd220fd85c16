//! A list of layers, one after the other.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use burn::module::{Module, ParamId};
use burn::prelude::*;

use super::layers::{Init, ParameterSpec, Source, listed, run};
use super::parameters::{self, Parameter};
use super::user_module::UserModule;
use super::{Layer, LayerSpec, NoTape, Tape, Value};
use crate::device::host::Host;
use crate::{Error, ErrorKind, Result};

/// The layers of a model with their parameters: a Burn module that any Burn optimizer can step.
///
/// Its shapes are checked when it is built, so a forward pass on examples of
/// [`input_shape`](Self::input_shape) can't fail. Cloning shares the parameters.
#[derive(Module, Debug)]
pub struct Network {
    layers: Vec<Layer>,
    /// A module of the user's own instead of layers.
    pub(super) own: Option<UserModule>,
    #[module(skip)]
    specs: Arc<[LayerSpec]>,
    #[module(skip)]
    input_shape: Arc<[usize]>,
    outputs: usize,
}

impl Network {
    /// A network on the CPU; `fill` gives the numbers of each parameter from its path
    /// (`"0.weight"`), its shape (see [`Parameter`]) and its fan-in, which is 1 for parameters
    /// that are no weight or bias over inputs.
    ///
    /// # Errors
    /// If the layers do not fit together, or none of them has parameters.
    ///
    /// # Panics
    /// If `fill` returns another number of values than the shape holds.
    pub fn build(
        input_shape: &[usize],
        specs: &[LayerSpec],
        mut fill: impl FnMut(&str, &[usize], usize) -> Vec<f32>,
    ) -> Result<Self> {
        Self::build_by(input_shape, specs, &mut |spec| {
            let fan_in = match spec.init {
                Init::Weight { fan_in } | Init::Bias { fan_in } => fan_in,
                Init::Ones | Init::Zeros | Init::Normal => 1,
            };
            fill(&spec.path, &spec.shape, fan_in)
        })
    }

    /// The same from all that is known of each parameter.
    pub(crate) fn build_by(
        input_shape: &[usize],
        specs: &[LayerSpec],
        fill: &mut dyn FnMut(&ParameterSpec) -> Vec<f32>,
    ) -> Result<Self> {
        let outputs = check(input_shape, specs)?;
        let device = Device::flex();
        let mut source = Source::new(listed(specs), fill, &device);
        let layers = specs.iter().map(|spec| spec.build(&mut source)).collect();
        let (specs, input_shape) = (specs.into(), input_shape.into());
        Ok(Self { layers, own: None, specs, input_shape, outputs })
    }

    /// A module of the user's own, which must have been checked.
    pub(super) fn of_user_module(own: UserModule, input_shape: &[usize], outputs: usize) -> Self {
        let (specs, input_shape) = (Arc::from([]), input_shape.into());
        Self { layers: Vec::new(), own: Some(own), specs, input_shape, outputs }
    }

    /// The layers, in order; none if it is a module of the user's own.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// What the layers are, in order; nothing if it is a module of the user's own.
    pub fn specs(&self) -> &[LayerSpec] {
        &self.specs
    }

    /// The shape of one example.
    pub fn input_shape(&self) -> &[usize] {
        &self.input_shape
    }

    /// How many numbers the last layer gives per example.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// How many tokens there are, if the first layer is an embedding. A module of the user's own
    /// is not asked: its embeddings take what they don't know for the last token they know.
    pub(crate) fn vocabulary(&self) -> Option<usize> {
        vocabulary(&self.specs)
    }

    /// Checks examples of a network that reads token ids: every number must be one.
    ///
    /// # Errors
    /// If a finite number is not whole or not below the size of the vocabulary. DeviceArray that are
    /// not finite are left to whoever leaves such examples out.
    pub fn check_tokens(&self, features: &[f32]) -> Result<()> {
        let Some(vocabulary) = self.vocabulary() else { return Ok(()) };
        let stranger = |id: f32| {
            id.is_finite() && (id < 0.0 || id.fract() != 0.0 || id as usize >= vocabulary)
        };
        match features.iter().find(|&&id| stranger(id)) {
            None => Ok(()),
            Some(id) => {
                let why = format!("token ids are whole numbers from 0 to {}", vocabulary - 1);
                Err(Error::new(ErrorKind::Model, format!("an example with the token {id}"), why)
                    .fix("build the model for the vocabulary of the data's tokenizer"))
            }
        }
    }

    /// Logits `[batch, classes]`.
    pub fn forward(&self, x: Value, tape: &mut dyn Tape) -> Tensor<2> {
        match &self.own {
            Some(own) => own.0.logits(x, tape),
            None => run(&self.layers, x, tape).flat(),
        }
    }

    /// Logits of `n` examples given as row-major numbers, without a tape.
    pub(crate) fn logits(&self, features: Vec<f32>, n: usize) -> Tensor<2> {
        self.forward(Value::new(features, n, &self.input_shape, &self.device()), &mut NoTape)
    }

    /// The device the parameters live on.
    pub fn device(&self) -> Device {
        self.devices().into_iter().next().unwrap_or_else(Device::flex)
    }

    /// The same network with its parameters on this device.
    pub(crate) fn on(&self, device: &Device) -> Self {
        if self.device() == *device {
            return self.clone();
        }
        self.clone().to_device(device)
    }

    /// All trainable tensors, in the order of the layers and, within one, of
    /// [`LayerSpec::parameters`].
    pub fn parameters(&self) -> Vec<Parameter> {
        let mut all = Vec::new();
        self.walk(|parameter, _| all.push(parameter));
        all
    }

    /// Burn's names of the trainable tensors.
    pub fn trainable_ids(&self) -> Vec<ParamId> {
        self.parameters().into_iter().map(|parameter| parameter.id).collect()
    }

    /// The paths of the trainable tensors: `"0.weight"`, `"0.bias"`, ...
    pub fn paths(&self) -> Vec<String> {
        self.parameters().into_iter().map(|parameter| parameter.path).collect()
    }

    /// All trainable tensors with a copy of their numbers, row-major.
    pub fn values(&self) -> Vec<(Parameter, Vec<f32>)> {
        let mut all = Vec::new();
        self.walk(|parameter, read| all.push((parameter, read())));
        all
    }

    fn walk(&self, mut found: impl FnMut(Parameter, &dyn Fn() -> Vec<f32>)) {
        if let Some(own) = &self.own {
            return parameters::visit(own, found);
        }
        // Layers are built from this list, in this order.
        let mut names = listed(&self.specs).into_iter();
        parameters::visit(self, |parameter, read| {
            let path = names.next().map_or(parameter.path, |spec| spec.path);
            found(Parameter { path, ..parameter }, read);
        });
    }

    /// The numbers of all trainable tensors, shared with them where possible.
    pub(crate) fn hosts(&self) -> Vec<Host> {
        parameters::hosts(self)
    }

    /// All trainable tensors as rows of numbers, where they live.
    pub(crate) fn tensors(&self) -> Vec<Tensor<1>> {
        parameters::tensors(self)
    }

    /// The same network with other tensors, in the order and form of [`tensors`](Self::tensors).
    pub(crate) fn with_tensors(&self, rows: Vec<Tensor<1>>) -> Self {
        let rows = self.trainable_ids().into_iter().zip(rows).collect();
        parameters::placed(self.clone(), rows)
    }

    /// The same network with other numbers where `numbers` has some for a path; as many as the
    /// parameter holds.
    pub(crate) fn filled(&self, numbers: impl Fn(&str) -> Option<Vec<f32>>) -> Self {
        let paths = self.parameters().into_iter().map(|p| (p.id, p.path));
        let paths: HashMap<ParamId, String> = paths.collect();
        parameters::filled(self.clone(), |id| paths.get(&id).and_then(|path| numbers(path)))
    }

    /// The same network with every parameter tracked by autodiff, for ordinary gradients.
    pub(crate) fn tracked(&self) -> Self {
        parameters::tracked(self.clone())
    }

    /// The same network as Burn's optimizers take it.
    pub(crate) fn lifted(&self) -> Self {
        parameters::lifted(self.clone())
    }

    /// The same network with no parameter tracked: how models keep theirs.
    pub(crate) fn untracked(self) -> Self {
        parameters::untracked(self)
    }
}

/// The vocabulary of the first layer, within groups too.
fn vocabulary(specs: &[LayerSpec]) -> Option<usize> {
    match specs.first()? {
        LayerSpec::Embedding(spec) => Some(spec.vocabulary),
        LayerSpec::Group(group) => vocabulary(&group.layers),
        _ => None,
    }
}

/// The shape of one example after each layer.
pub(crate) fn shapes(input_shape: &[usize], specs: &[LayerSpec]) -> Result<Vec<Vec<usize>>> {
    let mut shape = input_shape.to_vec();
    let mut names = HashSet::new();
    let each = specs.iter().enumerate().map(|(index, spec)| {
        if !names.insert(spec.place(index)) {
            let what = format!("two groups named {:?} in one list of layers", spec.place(index));
            return Err(Error::new(ErrorKind::Model, what, "their parameters have the same paths")
                .fix("give each its own name"));
        }
        shape = spec.output_shape(&shape)?;
        Ok(shape.clone())
    });
    each.collect()
}

/// Returns how many numbers the last layer gives per example.
fn check(input_shape: &[usize], specs: &[LayerSpec]) -> Result<usize> {
    if input_shape.contains(&0) {
        let what = format!("examples of shape {input_shape:?}");
        return Err(Error::new(ErrorKind::Model, what, "there is nothing in them to learn from"));
    }
    let shapes = shapes(input_shape, specs)?;
    if listed(specs).is_empty() {
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
            format!("the last layer gives examples of shape {last:?}"),
            "a classifier ends in plain features, one per class",
        )
        .fix("end with Flatten and Linear")),
    }
}
