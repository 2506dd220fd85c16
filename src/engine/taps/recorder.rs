//! The tape of the fast executor.

use burn::prelude::*;
use burn::tensor::Gradients;

use crate::engine::tap;
use crate::nn::host::Host;
use crate::nn::{Site, Tape, Value};

/// Taps the output of every layer with parameters and keeps its input.
#[derive(Default)]
pub(super) struct Recorder {
    records: Vec<(Value, Tensor<1>)>,
}

/// What a layer saw in one chunk: its inputs and the gradients by its outputs, row-major.
pub(super) struct Record {
    pub(super) input: Host,
    pub(super) gradient: Host,
}

impl Tape for Recorder {
    fn layer(&mut self, _site: Site, input: &Value, output: Value) -> Value {
        let device = input.device().without_autodiff();
        let anchor = Tensor::<1>::zeros([1], &device).autodiff().require_grad();
        let output = output.map(
            |y| tap(y.autodiff(), &anchor),
            |y| tap(y.autodiff(), &anchor),
            |y| tap(y.autodiff(), &anchor),
        );
        self.records.push((input.detached(), anchor));
        output
    }
}

impl Recorder {
    /// The records, in the order of the layers.
    pub(super) fn listen(self, mut grads: Gradients) -> Vec<Record> {
        let heard = self.records.into_iter().map(|(input, anchor)| {
            let gradient = anchor.grad_remove(&mut grads).map(Host::of);
            let input = match input {
                Value::Flat(x) => Host::of(x),
                Value::Sequence(x) => Host::of(x),
                Value::Image(x) => Host::of(x),
            };
            Record { input, gradient: gradient.unwrap_or(Host::Copy(Vec::new())) }
        });
        heard.collect()
    }
}
