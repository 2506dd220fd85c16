//! The tape of the tap executor.

use burn::prelude::*;
use burn::tensor::Gradients;

use super::dropout_tape::DropoutTape;
use crate::device::DeviceArray;
use crate::engine::Batch;
use crate::engine::gradient_hook::{attach_tap, take_tapped_gradient};
use crate::nn::{BatchTensor, ParameterSite, Precision, Tape, UpstreamClip};
use crate::{Error, ErrorKind, Result};

/// Tape that attaches a backward hook to the output of every layer with parameters, keeps its
/// input, and supplies dropout masks.
pub(super) struct RecordingTape<'a> {
    dropouts: DropoutTape<'a>,
    use_cpu_kernels: bool,
    calls: Vec<RecordedCall>,
    summed_calls: Vec<(usize, ParameterSite, BatchTensor)>,
}

/// Record of one call of [`Tape::record_layer`].
struct RecordedCall {
    site: ParameterSite,
    input: BatchTensor,
    anchor: Tensor<1>,
    output_shape: Vec<usize>,
}

/// Input and output gradient of a layer with parameters, for the rows of one chunk.
pub(super) struct TapeRecord {
    pub(super) site: ParameterSite,
    pub(super) input: BatchTensor,
    pub(super) gradient: BatchTensor,
}

impl<'a> RecordingTape<'a> {
    /// Creates a tape for these examples of the batch.
    pub(super) fn new(batch: &'a Batch, examples: &[usize]) -> Self {
        let (calls, shared) = (Vec::new(), Vec::new());
        Self {
            dropouts: DropoutTape::new(batch, examples),
            use_cpu_kernels: true,
            calls,
            summed_calls: shared,
        }
    }

    /// Disables the lab's CPU kernels and draws masks on the device, for the device path.
    pub(super) fn on_device(self, device: &Device, precision: Precision) -> Self {
        let dropouts = self.dropouts.on_device(device).with_precision(precision);
        Self { use_cpu_kernels: false, dropouts, ..self }
    }

    /// Returns the sites with the shapes of their inputs and outputs.
    pub(super) fn shapes(&self) -> Vec<(&ParameterSite, Vec<usize>, &[usize])> {
        let calls = self.calls.iter().map(|c| (&c.site, c.input.dims(), c.output_shape.as_slice()));
        let shared = self.summed_calls.iter().map(|(call, site, input)| {
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

    /// Returns the records, in the order of the calls. Sites that the loss does not depend on are
    /// omitted: their gradient is zero.
    pub(super) fn into_records(self, mut grads: Gradients) -> Vec<TapeRecord> {
        let mut gradients = Vec::with_capacity(self.calls.len());
        let mut records = Vec::with_capacity(self.calls.len() + self.summed_calls.len());
        for RecordedCall { site, input, anchor, output_shape } in self.calls {
            let gradient = take_tapped_gradient(&anchor, &mut grads, output_shape.len());
            if let Some(gradient) = gradient.clone() {
                records.push(TapeRecord { site, input, gradient });
            }
            gradients.push(gradient);
        }
        for (call, site, input) in self.summed_calls {
            if let Some(gradient) = gradients[call].clone() {
                records.push(TapeRecord { site, input, gradient });
            }
        }
        records
    }
}

fn layer_kind(site: &ParameterSite) -> &'static str {
    match site {
        ParameterSite::Linear { .. } => "Linear",
        ParameterSite::Conv2d { .. } => "Conv2d",
        ParameterSite::Affine { .. } => "normalisation",
        ParameterSite::Embedding { .. } => "Embedding",
    }
}

impl Tape for RecordingTape<'_> {
    fn record_layer(
        &mut self,
        site: ParameterSite,
        input: &BatchTensor,
        output: BatchTensor,
    ) -> BatchTensor {
        let output_shape = output.dims();
        let (output, anchor) = attach_tap(output);
        self.calls.push(RecordedCall { site, input: input.detach(), anchor, output_shape });
        output
    }

    fn clip_upstream(&mut self, y: BatchTensor, clip: &UpstreamClip) -> BatchTensor {
        self.dropouts.clip_upstream(y, clip)
    }

    fn layer_call_count(&self) -> usize {
        self.calls.len()
    }

    fn record_summed_layer(&mut self, call: usize, site: ParameterSite, input: BatchTensor) {
        self.summed_calls.push((call, site, input.detach()));
    }

    fn use_cpu_kernels(&self) -> bool {
        self.use_cpu_kernels
    }

    fn precision(&self) -> Precision {
        self.dropouts.precision()
    }

    fn dropout_mask(&mut self, rate: f64, shape: &[usize]) -> Option<DeviceArray> {
        self.dropouts.dropout_mask(rate, shape)
    }
}
