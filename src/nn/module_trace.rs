//! Forward and backward passes of a user-defined module on synthetic examples. They show what the
//! module computes for each example, and which inputs and gradients its per-example gradient has.

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;

use super::user_module::UserModule;
use super::{BatchTensor, ParameterSite, Tape};
use crate::device::host::tensor_to_vec;
use crate::device::{DeviceArray, panic_text};
use crate::{Error, ErrorKind, Result};

/// Bounds of the features' absolute values. Networks are made for the smaller one. The larger one
/// leaves the range where activations are nearly linear, and gives embeddings different tokens.
pub(super) const SCALES: [f32; 2] = [1.0, 30.0];

/// A user-defined module with the shape of its examples, on a device.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) module: &'a UserModule,
    pub(super) shape: &'a [usize],
    pub(super) device: &'a Device,
}

/// Trace of one forward and backward pass over a batch, with one entry per example.
///
/// A per-example gradient is a function of the inputs and the output gradients of the layers. It
/// depends on no other example if neither of them does.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ModuleTrace {
    /// Bits of the logits.
    pub(super) logits: Vec<Vec<u32>>,
    /// Bits of the inputs of all layers with parameters.
    pub(super) inputs: Vec<Vec<u32>>,
    /// Bits of the gradients with respect to the outputs of all layers with parameters.
    pub(super) gradients: Vec<Vec<u32>>,
    /// Rate and shape of each dropout.
    dropouts: Vec<(u64, Vec<usize>)>,
}

impl ModuleTrace {
    /// Runs the module on the synthetic examples with these seeds; `scale` is one of [`SCALES`].
    /// Equal seeds give equal examples and equal losses in every batch.
    ///
    /// # Errors
    /// Kind `Model` if the module panics, or if the input or output of a layer does not have
    /// exactly one row per example.
    pub(super) fn record(subject: Subject, examples: &[u64], scale: f32) -> Result<Self> {
        let Subject { module, shape, device } = subject;
        let n = examples.len();
        let size = shape.iter().product();
        let features = examples.iter().flat_map(|&example| uniform_values(example, size, scale));
        let x = BatchTensor::new(features.collect(), n, shape, device);
        let mut tape = TraceTape::default();
        let passed = catch_unwind(AssertUnwindSafe(|| {
            let logits = module.0.logits(x, &mut tape);
            let [_, classes] = logits.dims();
            // Any loss that belongs to the example alone: a linear one has every gradient.
            let loss = examples.iter().flat_map(|&example| uniform_values(!example, classes, 1.0));
            let loss = TensorData::new(loss.collect::<Vec<f32>>(), [n, classes]);
            let weights = Tensor::<2>::from_data(loss, device).autodiff();
            (logits.clone().inner(), (logits.autodiff() * weights).sum().backward())
        }));
        let (logits, gradients) = passed.map_err(|panic| forward_panic_error(shape, panic))?;
        let [mut each, mut inputs, mut outputs] = std::array::from_fn(|_| vec![Vec::new(); n]);
        append(&mut each, logits);
        for input in tape.inputs {
            check_rows("takes", &input, n)?;
            append(&mut inputs, input.into_flat());
        }
        for probe in &tape.probes {
            check_rows("makes", probe, n)?;
            if let Some(gradient) = gradient(probe, &gradients) {
                append(&mut outputs, gradient);
            }
        }
        Ok(Self { logits: each, inputs, gradients: outputs, dropouts: tape.dropouts })
    }

    /// Returns logits, gradients and dropout calls as bytes, for a hash. Inputs are left out:
    /// stored runs are found by this hash, and it was defined without them.
    fn bytes(&self) -> impl Iterator<Item = u8> {
        let numbers = self.logits.iter().chain(&self.gradients).flatten();
        let dropouts = self.dropouts.iter().flat_map(|(rate, shape)| {
            shape.iter().map(|&n| n as u64).chain([*rate]).flat_map(u64::to_le_bytes)
        });
        numbers.flat_map(|bits| bits.to_le_bytes()).chain(dropouts)
    }
}

/// Refuses a layer's input or output that does not have one row per example.
fn check_rows(verb: &str, value: &BatchTensor, n: usize) -> Result<()> {
    let rows = value.dims()[0];
    if rows == n {
        return Ok(());
    }
    let what = format!("a layer {verb} {rows} rows of {n} examples");
    let why = "each row must belong to one example for its gradient to be clipped";
    Err(Error::new(ErrorKind::Model, what, why)
        .fix("keep the batch as the first dimension, time as the second"))
}

/// Computes a fingerprint of the computation of a module on a few examples. Modules with equal
/// parameters but different activations, dropout rates or detached branches have different
/// fingerprints.
pub(super) fn behaviour_fingerprint(user_module: &UserModule, shape: &[usize]) -> Result<Vec<u8>> {
    let device = Device::flex();
    let module =
        &UserModule(user_module.0.apply(super::user_module::ModuleOp::ToDevice(device.clone())));
    let subject = Subject { module, shape, device: &device };
    let mut bytes = Vec::new();
    for scale in SCALES {
        bytes.extend(ModuleTrace::record(subject, &[0, 1, 2], scale)?.bytes());
    }
    Ok(bytes)
}

/// Returns the error for a panic in the module's forward pass.
pub(super) fn forward_panic_error(shape: &[usize], panic: Box<dyn std::any::Any + Send>) -> Error {
    let what = format!("the module fails on examples of shape {shape:?}");
    let why = panic_text(&*panic).unwrap_or("the forward pass panics");
    Error::new(ErrorKind::Model, what, why)
        .fix("check the sizes of its layers against the shape of the data")
}

/// Returns `count` uniform values from -scale to scale, seeded by the example.
fn uniform_values(example: u64, count: usize, scale: f32) -> Vec<f32> {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&example.to_le_bytes());
    let mut rng = ChaCha20Rng::from_seed(seed);
    let uniform = |bits: u32| scale * (bits as f32 / (1u64 << 31) as f32 - 1.0);
    (0..count).map(|_| uniform(rng.next_u32())).collect()
}

/// Tape that records the input of every layer, and adds a zero tensor to its output: the gradient
/// with respect to that zero is the output gradient.
#[derive(Default)]
struct TraceTape {
    inputs: Vec<BatchTensor>,
    probes: Vec<BatchTensor>,
    dropouts: Vec<(u64, Vec<usize>)>,
}

impl Tape for TraceTape {
    fn clip_upstream(&mut self, y: BatchTensor, _: &crate::nn::UpstreamClip) -> BatchTensor {
        y
    }

    fn record_layer(
        &mut self,
        _site: ParameterSite,
        input: &BatchTensor,
        output: BatchTensor,
    ) -> BatchTensor {
        fn zeros<const D: usize>(y: Tensor<D>) -> Tensor<D> {
            Tensor::zeros(y.dims(), &y.device().without_autodiff()).autodiff().require_grad()
        }
        let probe = output.clone().map(zeros, zeros, zeros);
        self.inputs.push(input.detach());
        self.probes.push(probe.clone());
        output.map(Tensor::autodiff, Tensor::autodiff, Tensor::autodiff).plus(probe)
    }

    fn record_summed_layer(&mut self, _layer: usize, _site: ParameterSite, input: BatchTensor) {
        self.inputs.push(input.detach());
    }

    fn layer_call_count(&self) -> usize {
        self.probes.len()
    }

    fn dropout_mask(&mut self, rate: f64, shape: &[usize]) -> Option<DeviceArray> {
        self.dropouts.push((rate.to_bits(), shape.to_vec()));
        None
    }
}

/// Returns the gradient with respect to a probe, `[examples, values]`; `None` if the logits do not
/// depend on it.
fn gradient(probe: &BatchTensor, gradients: &burn::tensor::Gradients) -> Option<Tensor<2>> {
    match probe {
        BatchTensor::Flat(probe) => probe.grad(gradients),
        BatchTensor::Sequence(probe) => {
            probe.grad(gradients).map(|g| BatchTensor::Sequence(g).into_flat())
        }
        BatchTensor::Image(probe) => {
            probe.grad(gradients).map(|g| BatchTensor::Image(g).into_flat())
        }
    }
}

/// Appends the bits of each row to the bits of its example.
fn append(rows: &mut [Vec<u32>], numbers: Tensor<2>) {
    let [_, size] = numbers.dims();
    let numbers = tensor_to_vec(numbers);
    for (row, numbers) in rows.iter_mut().zip(numbers.chunks(size.max(1))) {
        row.extend(numbers.iter().map(|number| number.to_bits()));
    }
}
