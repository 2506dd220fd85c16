//! The tape of the tap executor.

use burn::prelude::*;
use burn::tensor::Gradients;

use super::dropout_tape::DropoutTape;
use crate::device::DeviceArray;
use crate::engine::Batch;
use crate::engine::gradient_hook::{tapped, tapped_gradient};
use crate::nn::{Precision, Site, Tape, UpstreamClip, Value};
use crate::{Error, ErrorKind, Result};

/// Attaches a backward hook to the output of every layer with parameters, keeps its input, and
/// supplies dropout masks.
pub(super) struct Recorder<'a> {
    dropouts: DropoutTape<'a>,
    use_cpu_kernels: bool,
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

/// Input and output gradient of a layer with parameters, for the rows of one chunk.
pub(super) struct TapeRecord {
    pub(super) site: Site,
    pub(super) input: Value,
    pub(super) gradient: Value,
}

impl<'a> Recorder<'a> {
    /// A tape for these examples of the batch.
    pub(super) fn new(batch: &'a Batch, examples: &[usize]) -> Self {
        let (calls, shared) = (Vec::new(), Vec::new());
        Self { dropouts: DropoutTape::new(batch, examples), use_cpu_kernels: true, calls, shared }
    }

    /// For the device path: disables the lab's CPU kernels and draws masks on the device.
    pub(super) fn on_device(self, device: &Device, precision: Precision) -> Self {
        let dropouts = self.dropouts.on_device(device).with_precision(precision);
        Self { use_cpu_kernels: false, dropouts, ..self }
    }

    /// The sites with the shapes of their inputs and outputs.
    pub(super) fn shapes(&self) -> Vec<(&Site, Vec<usize>, &[usize])> {
        let calls = self.calls.iter().map(|c| (&c.site, c.input.dims(), c.output_shape.as_slice()));
        let shared = self.shared.iter().map(|(call, site, input)| {
            (site, input.dims(), self.calls[*call].output_shape.as_slice())
        });
        calls.chain(shared).collect()
    }

    /// Checks that the inputs and outputs of all layers have one row per copy of an example.
    /// Otherwise the rows can't be attributed to examples.
    pub(super) fn check(&self, rows: usize) -> Result<()> {
        for (site, input, output) in self.shapes() {
            if (input[0], output[0]) != (rows, rows) {
                let what =
                    format!("a layer with input {input:?} and output {output:?} for {rows} rows");
                let why = "each row must belong to one example for its gradient to be clipped";
                return Err(Error::new(ErrorKind::Model, what, why).fix(format!(
                    "keep the batch as the first dimension and time as the second in this {} layer",
                    layer_kind(site)
                )));
            }
        }
        Ok(())
    }

    /// The records, in the order of the calls. Sites that the loss does not depend on are omitted:
    /// their gradient is zero.
    pub(super) fn into_records(self, mut grads: Gradients) -> Vec<TapeRecord> {
        let mut gradients = Vec::with_capacity(self.calls.len());
        let mut records = Vec::with_capacity(self.calls.len() + self.shared.len());
        for Call { site, input, anchor, output_shape } in self.calls {
            let gradient = tapped_gradient(&anchor, &mut grads, output_shape.len());
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

impl Tape for Recorder<'_> {
    fn layer(&mut self, site: Site, input: &Value, output: Value) -> Value {
        let output_shape = output.dims();
        let (output, anchor) = tapped(output);
        self.calls.push(Call { site, input: input.detached(), anchor, output_shape });
        output
    }

    fn clip_upstream(&mut self, y: Value, clip: &UpstreamClip) -> Value {
        self.dropouts.clip_upstream(y, clip)
    }

    fn layer_calls(&self) -> usize {
        self.calls.len()
    }

    fn summed_layer(&mut self, call: usize, site: Site, input: Value) {
        self.shared.push((call, site, input.detached()));
    }

    fn use_cpu_kernels(&self) -> bool {
        self.use_cpu_kernels
    }

    fn precision(&self) -> Precision {
        self.dropouts.precision()
    }

    fn dropout(&mut self, rate: f64, shape: &[usize]) -> Option<DeviceArray> {
        self.dropouts.dropout(rate, shape)
    }
}
