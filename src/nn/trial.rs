//! A module of the user's own, tried on made-up examples: what it computes, and which gradients
//! belong to which example.

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;

use super::user_module::UserModule;
use super::{Site, Tape, Value};
use crate::device::DeviceArray;
use crate::device::host::values;
use crate::{Error, ErrorKind, Result};

/// How far features reach from zero. The smaller one is what networks are made for; the larger one
/// leaves the range where activations are nearly linear, and gives embeddings different tokens.
const SCALES: [f32; 2] = [1.0, 30.0];

/// What a forward and a backward pass over a batch showed, an entry per example.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Trial {
    /// Bits of the logits.
    pub(super) logits: Vec<Vec<u32>>,
    /// Bits of the gradients by the outputs of all layers: what per-example gradients are made of.
    pub(super) gradients: Vec<Vec<u32>>,
    /// Rate and shape of each dropout.
    dropouts: Vec<(u64, Vec<usize>)>,
}

impl Trial {
    /// Runs the module on the made-up examples with these numbers, `scale` being one of
    /// [`scales`]. The same number is the same example, with the same loss, in every batch.
    ///
    /// # Errors
    /// Kind `Model` if the module panics, or gives a layer other rows than one per example.
    pub(super) fn run(
        own: &UserModule,
        examples: &[u64],
        shape: &[usize],
        scale: f32,
        device: &Device,
    ) -> Result<Self> {
        let n = examples.len();
        let size = shape.iter().product();
        let features = examples.iter().flat_map(|&example| random(example, size, scale));
        let x = Value::new(features.collect(), n, shape, device);
        let mut tape = Probes { probes: Vec::new(), dropouts: Vec::new() };
        let passed = catch_unwind(AssertUnwindSafe(|| {
            let logits = own.0.logits(x, &mut tape);
            let [_, classes] = logits.dims();
            // Any loss that belongs to the example alone: a linear one has every gradient.
            let loss = examples.iter().flat_map(|&example| random(!example, classes, 1.0));
            let loss = TensorData::new(loss.collect::<Vec<f32>>(), [n, classes]);
            let weights = Tensor::<2>::from_data(loss, device).autodiff();
            (logits.clone().inner(), (logits.autodiff() * weights).sum().backward())
        }));
        let (logits, gradients) = passed.map_err(|panic| failure(shape, panic))?;
        let mut rows = vec![Vec::new(); n];
        for probe in &tape.probes {
            let rows_there = probe.dims()[0];
            if rows_there != n {
                let what = format!("a layer makes {rows_there} rows of {n} examples");
                let why = "each row must belong to one example for its gradient to be clipped";
                return Err(Error::new(ErrorKind::Model, what, why)
                    .fix("keep the batch as the first dimension, time as the second"));
            }
            if let Some(gradient) = gradient(probe, &gradients) {
                append(&mut rows, gradient);
            }
        }
        let mut each = vec![Vec::new(); n];
        append(&mut each, logits);
        Ok(Self { logits: each, gradients: rows, dropouts: tape.dropouts })
    }

    /// Everything as bytes, for a hash.
    fn bytes(&self) -> impl Iterator<Item = u8> {
        let numbers = self.logits.iter().chain(&self.gradients).flatten();
        let dropouts = self.dropouts.iter().flat_map(|(rate, shape)| {
            shape.iter().map(|&n| n as u64).chain([*rate]).flat_map(u64::to_le_bytes)
        });
        numbers.flat_map(|bits| bits.to_le_bytes()).chain(dropouts)
    }
}

/// The scales to try.
pub(super) fn scales() -> [f32; 2] {
    SCALES
}

/// What the code of a module does, as far as a few examples show it: modules with the same
/// parameters but another activation, dropout rate or detached branch differ here.
pub(super) fn behaviour(own: &UserModule, shape: &[usize]) -> Result<Vec<u8>> {
    let device = Device::flex();
    let own = UserModule(own.0.changed(super::user_module::Change::To(device.clone())));
    let mut bytes = Vec::new();
    for scale in SCALES {
        bytes.extend(Trial::run(&own, &[0, 1, 2], shape, scale, &device)?.bytes());
    }
    Ok(bytes)
}

/// A panic of the user's code as an error.
pub(super) fn failure(shape: &[usize], panic: Box<dyn std::any::Any + Send>) -> Error {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
    Error::new(
        ErrorKind::Model,
        format!("the module fails on examples of shape {shape:?}"),
        text.unwrap_or_else(|| "its forward pass panics".to_owned()),
    )
    .fix("check the sizes of its layers against the shape of the data")
}

/// Uniform numbers from -scale to scale, the same for the same example.
fn random(example: u64, count: usize, scale: f32) -> Vec<f32> {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&example.to_le_bytes());
    let mut rng = ChaCha20Rng::from_seed(seed);
    let uniform = |bits: u32| scale * (bits as f32 / (1u64 << 31) as f32 - 1.0);
    (0..count).map(|_| uniform(rng.next_u32())).collect()
}

/// Adds a zero to the output of every layer, so that the gradient by it can be read.
struct Probes {
    probes: Vec<Value>,
    dropouts: Vec<(u64, Vec<usize>)>,
}

impl Tape for Probes {
    fn layer(&mut self, _site: Site, _input: &Value, output: Value) -> Value {
        fn zeros<const D: usize>(y: &Tensor<D>) -> Tensor<D> {
            Tensor::zeros(y.dims(), &y.device().without_autodiff()).autodiff().require_grad()
        }
        let (output, probe) = match output {
            Value::Flat(y) => {
                let probe = zeros(&y);
                (Value::Flat(y.autodiff() + probe.clone()), Value::Flat(probe))
            }
            Value::Sequence(y) => {
                let probe = zeros(&y);
                (Value::Sequence(y.autodiff() + probe.clone()), Value::Sequence(probe))
            }
            Value::Image(y) => {
                let probe = zeros(&y);
                (Value::Image(y.autodiff() + probe.clone()), Value::Image(probe))
            }
        };
        self.probes.push(probe);
        output
    }

    fn places(&self) -> usize {
        self.probes.len()
    }

    fn dropout(&mut self, rate: f64, shape: &[usize]) -> Option<DeviceArray> {
        self.dropouts.push((rate.to_bits(), shape.to_vec()));
        None
    }
}

/// The gradient by a probe, a row per example; `None` if it has no part in the logits.
fn gradient(probe: &Value, gradients: &burn::tensor::Gradients) -> Option<Tensor<2>> {
    match probe {
        Value::Flat(probe) => probe.grad(gradients),
        Value::Sequence(probe) => probe.grad(gradients).map(|g| Value::Sequence(g).flat()),
        Value::Image(probe) => probe.grad(gradients).map(|g| Value::Image(g).flat()),
    }
}

/// Appends the bits of each row to that of its example.
fn append(rows: &mut [Vec<u32>], numbers: Tensor<2>) {
    let [_, size] = numbers.dims();
    let numbers = values(numbers);
    for (row, numbers) in rows.iter_mut().zip(numbers.chunks(size.max(1))) {
        row.extend(numbers.iter().map(|number| number.to_bits()));
    }
}
