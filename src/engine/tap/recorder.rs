//! The tape of the tensor executor.

use burn::prelude::*;
use burn::tensor::Gradients;

use super::dropout_tape::DropoutTape;
use crate::device::DeviceArray;
use crate::engine::{Batch, tap};
use crate::nn::{Precision, Site, Tape, Value};
use crate::{Error, ErrorKind, Result};

/// TapExecutor the output of every map with parameters, keeps its input, and hands out dropout masks.
pub(super) struct Recorder<'a> {
    dropouts: DropoutTape<'a>,
    own_kernels: bool,
    calls: Vec<Call>,
    shared: Vec<(usize, Site, Value)>,
}

/// One call of [`Tape::layer`].
struct Call {
    site: Site,
    input: Value,
    anchor: Tensor<1>,
    output_shape: Vec<usize>,
}

/// What a map with parameters saw in one chunk: its input and the gradient by its output.
pub(super) struct TapeRecord {
    pub(super) site: Site,
    pub(super) input: Value,
    pub(super) gradient: Value,
}

impl<'a> Recorder<'a> {
    /// A tape for the examples `examples` of the batch.
    pub(super) fn new(batch: &'a Batch, examples: &[usize]) -> Self {
        let (calls, shared) = (Vec::new(), Vec::new());
        Self { dropouts: DropoutTape::new(batch, examples), own_kernels: true, calls, shared }
    }

    /// As a GPU has to do: without the lab's own kernels for the CPU, with masks made on the device.
    pub(super) fn on_device(self, device: &Device, precision: Precision) -> Self {
        let dropouts = self.dropouts.on_device(device).with_precision(precision);
        Self { own_kernels: false, dropouts, ..self }
    }

    /// Sites with the sizes of their inputs and outputs, without any gradient.
    pub(super) fn shapes(&self) -> Vec<(&Site, Vec<usize>, &[usize])> {
        let calls = self.calls.iter().map(|c| (&c.site, c.input.dims(), c.output_shape.as_slice()));
        let shared = self.shared.iter().map(|(call, site, input)| {
            (site, input.dims(), self.calls[*call].output_shape.as_slice())
        });
        calls.chain(shared).collect()
    }

    /// Refuses layers that were given other rows than one per copy of an example: whose gradient
    /// a row belongs to could not be told.
    pub(super) fn check(&self, rows: usize) -> Result<()> {
        for (site, input, output) in self.shapes() {
            if (input[0], output[0]) != (rows, rows) {
                let what = format!("a layer made {output:?} of {input:?} for {rows} examples");
                let why = "each row must belong to one example for its gradient to be clipped";
                return Err(Error::new(ErrorKind::Model, what, why).fix(format!(
                    "keep the batch as the first dimension, time as the second (a {} layer)",
                    layer_kind(site)
                )));
            }
        }
        Ok(())
    }

    /// The records, in the order of the calls. What has no part in the loss is left out: its
    /// gradient is zero.
    pub(super) fn into_records(self, mut grads: Gradients) -> Vec<TapeRecord> {
        let mut gradients = Vec::with_capacity(self.calls.len());
        let mut records = Vec::with_capacity(self.calls.len() + self.shared.len());
        for Call { site, input, anchor, output_shape } in self.calls {
            let gradient = anchor
                .grad_remove(&mut grads)
                .map(|gradient| value_of_rank(gradient, output_shape.len()));
            if let Some(gradient) = gradient.clone() {
                records.push(TapeRecord { site, input, gradient });
            }
            gradients.push(gradient);
        }
        for (call, site, input) in self.shared {
            if let Some(gradient) = gradients[call].clone() {
                records.push(TapeRecord { site, input, gradient });
            }
        }
        records
    }
}

fn layer_kind(site: &Site) -> &'static str {
    match site {
        Site::Linear { .. } => "Linear",
        Site::Conv2d { .. } => "Conv2d",
        Site::Affine { .. } => "normalisation",
        Site::Embedding { .. } => "Embedding",
    }
}

/// The tap files gradients of any rank under its anchor: back to the rank of the output.
fn value_of_rank(gradient: Tensor<1>, rank: usize) -> Value {
    let gradient = gradient.into_dispatch();
    match rank {
        4 => Value::Image(Tensor::from_dispatch(gradient)),
        3 => Value::Sequence(Tensor::from_dispatch(gradient)),
        _ => Value::Flat(Tensor::from_dispatch(gradient)),
    }
}

impl Tape for Recorder<'_> {
    fn layer(&mut self, site: Site, input: &Value, output: Value) -> Value {
        let device = input.device().without_autodiff();
        let anchor = Tensor::<1>::zeros([1], &device).autodiff().require_grad();
        let output_shape = output.dims();
        let output = output.map(
            |y| tap(y.autodiff(), &anchor),
            |y| tap(y.autodiff(), &anchor),
            |y| tap(y.autodiff(), &anchor),
        );
        self.calls.push(Call { site, input: input.detached(), anchor, output_shape });
        output
    }

    fn places(&self) -> usize {
        self.calls.len()
    }

    fn shares(&mut self, call: usize, site: Site, input: Value) {
        self.shared.push((call, site, input.detached()));
    }

    fn own_kernels(&self) -> bool {
        self.own_kernels
    }

    fn precision(&self) -> Precision {
        self.dropouts.precision()
    }

    fn dropout(&mut self, rate: f64, shape: &[usize]) -> Option<DeviceArray> {
        self.dropouts.dropout(rate, shape)
    }
}
