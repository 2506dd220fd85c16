//! Long short-term memory (LSTM).

use burn::module::Module;
use burn::nn::{self, GateController};
use burn::prelude::*;
use burn::tensor::activation::{sigmoid, tanh};
use serde::{Deserialize, Serialize};

use super::linear::{self, site};
use super::parameter_source::{
    ParameterInit, ParameterSource, ParameterSpec, check_parameter_size, check_sizes,
    sequence_shape,
};
use crate::nn::{BatchTensor, Tape, UpstreamClip};
use crate::{Error, ErrorKind, Result};

/// Specification of an [`Lstm`] layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LstmSpec {
    /// Number of input features at every step.
    pub inputs: usize,
    /// Number of hidden features of one direction.
    pub hidden: usize,
    /// Whether a second LSTM reads the sequence backwards.
    pub bidirectional: bool,
}

/// Names of the gates, in the order of the parameters.
const GATE_COLUMNS: [&str; 4] = ["input_gate", "forget_gate", "cell_gate", "output_gate"];

impl LstmSpec {
    pub(super) fn check(&self) -> Result<()> {
        check_sizes("Lstm", &[("inputs", self.inputs), ("hidden", self.hidden)])?;
        check_parameter_size("Lstm", &[self.inputs, self.hidden])?;
        check_parameter_size("Lstm", &[self.hidden, self.hidden])
    }

    pub(super) fn output_shape(&self, input: &[usize]) -> Result<Vec<usize>> {
        self.check()?;
        let [time, inputs] = sequence_shape("Lstm", input)?;
        if inputs != self.inputs {
            let what = format!("an Lstm layer received sequences of {inputs} features");
            return Err(Error::new(
                ErrorKind::Model,
                what,
                format!("the layer expects {}", self.inputs),
            )
            .fix(format!("use LstmSpec::new({inputs}, ..)")));
        }
        Ok(vec![time, if self.bidirectional { 2 * self.hidden } else { self.hidden }])
    }

    /// Returns the parameters of the four gates; the fan-in of all of them is the hidden size, as
    /// in PyTorch.
    pub(super) fn parameters(&self) -> Vec<ParameterSpec> {
        let Self { inputs, hidden, .. } = *self;
        let fan_in = hidden;
        let one_direction = GATE_COLUMNS.iter().flat_map(|gate| {
            let map = |name: &str, inputs: usize| {
                let path = format!("{gate}.{name}");
                let (weight, bias) =
                    (ParameterInit::Weight { fan_in }, ParameterInit::Bias { fan_in });
                [
                    ParameterSpec::new(&format!("{path}.weight"), &[inputs, hidden], weight),
                    ParameterSpec::new(&format!("{path}.bias"), &[hidden], bias),
                ]
            };
            map("input_transform", inputs).into_iter().chain(map("hidden_transform", hidden))
        });
        if !self.bidirectional {
            return one_direction.collect();
        }
        let directions = ["forward", "reverse"].into_iter();
        directions
            .flat_map(|direction| one_direction.clone().map(move |spec| spec.prefixed(direction)))
            .collect()
    }

    pub(super) fn build(&self, source: &mut ParameterSource) -> Lstm {
        let inner = if self.bidirectional {
            LstmDirections::Both(BiLstmGates {
                forward: LstmGates::build(source),
                reverse: LstmGates::build(source),
            })
        } else {
            LstmDirections::Forward(LstmGates::build(source))
        };
        Lstm { inner }
    }
}

/// The parameters of an LSTM in one direction: its four gates.
///
/// The fields are those of `burn::nn::Lstm`, in PyTorch's order.
#[derive(Module, Debug)]
pub struct LstmGates {
    /// Input gate i: the fraction of the cell gate that is added to the cell state.
    pub input_gate: GateController,
    /// Forget gate f: the fraction of the cell state that is carried to the next step.
    pub forget_gate: GateController,
    /// Cell gate g: the new candidate for the cell state.
    pub cell_gate: GateController,
    /// Output gate o: the fraction of the cell state that is output.
    pub output_gate: GateController,
}

/// The parameters of a bidirectional LSTM.
#[derive(Module, Debug)]
pub struct BiLstmGates {
    /// Gates of the direction from the first step to the last.
    pub forward: LstmGates,
    /// Gates of the direction from the last step to the first.
    pub reverse: LstmGates,
}

/// The directions of an [`Lstm`].
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant)]
pub enum LstmDirections {
    /// Forward direction only.
    Forward(LstmGates),
    /// Forward and backward direction.
    Both(BiLstmGates),
}

/// Long short-term memory (LSTM; Hochreiter & Schmidhuber, 1997; forget gates by Gers et al.,
/// 2000): maps sequences `[batch, time, inputs]` to the hidden state at every step,
/// `[batch, time, hidden]`, or `[batch, time, 2 hidden]` if it is bidirectional.
///
/// With the input x of a step and the previous hidden state h, each gate is x W + b + h U + d, with
/// a sigmoid for i, f and o and tanh for g. The cell state becomes f c + i g and the hidden state
/// o tanh(c); both start at 0. Each gate has two biases, as in PyTorch.
#[derive(Module, Debug)]
pub struct Lstm {
    /// Parameters of the directions.
    pub inner: LstmDirections,
}

impl Lstm {
    /// Computes the hidden states at every step, `[batch, time, hidden]` (twice as many if
    /// bidirectional).
    pub fn forward(&self, x: BatchTensor, tape: &mut dyn Tape) -> BatchTensor {
        let x = BatchTensor::Sequence(x.into_sequence());
        BatchTensor::Sequence(match &self.inner {
            LstmDirections::Forward(gates) => gates.forward(&x, false, tape),
            LstmDirections::Both(both) => {
                let forward = both.forward.forward(&x, false, tape);
                Tensor::cat(vec![forward, both.reverse.forward(&x, true, tape)], 2)
            }
        })
    }

    /// Computes the hidden states as [`forward`](Self::forward) does, with a clip in the backward
    /// pass. In the backward pass, the gradient with respect to the gates' pre-activations at all
    /// steps and in both directions, after back-propagation through time, is clipped jointly. The
    /// gradients of all parameters and of the input follow from the clipped one; the recurrence
    /// itself is not clipped.
    pub(super) fn forward_clipped(
        &self,
        x: BatchTensor,
        clip: &UpstreamClip,
        tape: &mut dyn Tape,
    ) -> BatchTensor {
        let x = BatchTensor::Sequence(x.into_sequence());
        let directions = match &self.inner {
            LstmDirections::Forward(gates) => vec![(gates, false)],
            LstmDirections::Both(both) => vec![(&both.forward, false), (&both.reverse, true)],
        };
        let (mut maps, mut calls) = (Vec::new(), Vec::new());
        for &(gates, reverse) in &directions {
            let (from_input, direction_calls) = gates.input_maps(&x, tape);
            maps.push(gates.with_recurrent_parameters(from_input, reverse, tape));
            calls.push(direction_calls);
        }
        // The maps are summands of the pre-activations at their steps, so they have the gradient of
        // the pre-activations.
        let joined = BatchTensor::Sequence(Tensor::cat(maps, 2));
        let joined = tape.clip_upstream(joined, clip).into_sequence();
        let width = joined.dims()[2] / directions.len();
        let hidden = directions.into_iter().zip(calls).enumerate();
        let hidden = hidden.map(|(i, ((gates, reverse), calls))| {
            let from_input = joined.clone().narrow(2, i * width, width);
            let (weight, bias) = gates.recurrent_map();
            let constants = (weight.inner(), bias.inner());
            let (hidden, previous) = recurrence(from_input, constants, reverse, tape);
            gates.report_recurrent_maps(calls, previous, tape);
            hidden
        });
        BatchTensor::Sequence(Tensor::cat(hidden.collect(), 2))
    }
}

impl LstmGates {
    fn build(source: &mut ParameterSource) -> Self {
        let mut gate = || {
            let mut map =
                || nn::Linear { weight: source.take_next(), bias: Some(source.take_next()) };
            GateController { input_transform: map(), hidden_transform: map() }
        };
        Self { input_gate: gate(), forget_gate: gate(), cell_gate: gate(), output_gate: gate() }
    }

    /// Returns the gates, in the order of the parameters.
    pub fn gates(&self) -> [&GateController; 4] {
        [&self.input_gate, &self.forget_gate, &self.cell_gate, &self.output_gate]
    }

    /// Computes the hidden states of one direction, `[batch, time, hidden]`, in the order of the
    /// input's steps.
    fn forward(&self, x: &BatchTensor, reverse: bool, tape: &mut dyn Tape) -> Tensor<3> {
        let (from_input, calls) = self.input_maps(x, tape);
        let (hidden, previous) = recurrence(from_input, self.recurrent_map(), reverse, tape);
        self.report_recurrent_maps(calls, previous, tape);
        hidden
    }

    /// Computes the input maps of the gates at all steps at once, `[batch, time, 4 hidden]`, and
    /// returns the numbers of their calls of the tape with them.
    fn input_maps(&self, x: &BatchTensor, tape: &mut dyn Tape) -> (Tensor<3>, Vec<usize>) {
        let steps = x.clone().into_sequence();
        let mut calls = Vec::new();
        let from_input = self.gates().map(|gate| {
            let map = &gate.input_transform;
            calls.push(tape.layer_call_count());
            tape.record_layer(
                site(map),
                x,
                BatchTensor::Sequence(linear::affine(map, steps.clone(), tape.precision())),
            )
            .into_sequence()
        });
        (Tensor::cat(from_input.to_vec(), 2), calls)
    }

    /// Reports the recurrent maps of the gates with their inputs, `[batch, time, hidden]`.
    fn report_recurrent_maps(&self, calls: Vec<usize>, previous: Tensor<3>, tape: &mut dyn Tape) {
        for (call, gate) in calls.into_iter().zip(self.gates()) {
            tape.record_summed_layer(
                call,
                site(&gate.hidden_transform),
                BatchTensor::Sequence(previous.clone()),
            );
        }
    }

    /// Returns `from_input`, `[batch, time, 4 hidden]`, with the derivatives of the recurrent maps
    /// at all steps with respect to their parameters, for a recurrence in which these are
    /// constants.
    fn with_recurrent_parameters(
        &self,
        from_input: Tensor<3>,
        reverse: bool,
        tape: &dyn Tape,
    ) -> Tensor<3> {
        let (weight, bias) = self.recurrent_map();
        if !weight.is_autodiff() && !bias.is_autodiff() {
            return from_input;
        }
        let (constant_weight, constant_bias) = (weight.clone().inner(), bias.clone().inner());
        let constants = (constant_weight.clone(), constant_bias.clone());
        let (_, previous) = recurrence(from_input.clone().inner(), constants, reverse, tape);
        let [n, time, size] = previous.dims();
        // A map by zeros: it adds nothing but its derivatives.
        let previous = previous.reshape([n * time, size]);
        let zeros =
            tape.precision().matmul(previous, weight - constant_weight) + (bias - constant_bias);
        from_input + zeros.reshape([n, time, 4 * size])
    }

    /// Returns the weights `[hidden, 4 hidden]` and biases `[1, 4 hidden]` of the recurrent maps
    /// of all gates.
    fn recurrent_map(&self) -> (Tensor<2>, Tensor<2>) {
        let maps = self.gates().map(|gate| &gate.hidden_transform);
        let weights = maps.map(|map| map.weight.val()).to_vec();
        let biases = maps.map(|map| match &map.bias {
            Some(bias) => bias.val(),
            None => Tensor::zeros([map.weight.dims()[1]], &map.weight.val().device()),
        });
        (Tensor::cat(weights, 1), Tensor::cat(biases.to_vec(), 0).unsqueeze())
    }
}

/// Computes the hidden states of one direction and the hidden states before each step,
/// `[batch, time, hidden]`, in the order of the input's steps, from the input maps,
/// `[batch, time, 4 hidden]`, and the weights and biases of the recurrent maps. The states before
/// are detached.
fn recurrence(
    from_input: Tensor<3>,
    (weight, bias): (Tensor<2>, Tensor<2>),
    reverse: bool,
    tape: &dyn Tape,
) -> (Tensor<3>, Tensor<3>) {
    let [n, time, _] = from_input.dims();
    let size = weight.dims()[0];
    let device = from_input.device().without_autodiff();
    let (mut h, mut c) = (Tensor::zeros([n, size], &device), Tensor::zeros([n, size], &device));
    let (mut previous, mut hidden) = (Vec::with_capacity(time), Vec::with_capacity(time));
    for step in 0..time {
        let at = if reverse { time - 1 - step } else { step };
        previous.push(h.clone().inner());
        let gates = from_input.clone().narrow(1, at, 1).squeeze_dim::<2>(1)
            + tape.precision().matmul(h, weight.clone())
            + bias.clone();
        let [i, f, g, o] = [0, 1, 2, 3].map(|k| gates.clone().narrow(1, k * size, size));
        c = sigmoid(f) * c + sigmoid(i) * tanh(g);
        h = sigmoid(o) * tanh(c.clone());
        hidden.push(h.clone());
    }
    if reverse {
        previous.reverse();
        hidden.reverse();
    }
    (Tensor::stack::<3>(hidden, 1), Tensor::stack::<3>(previous, 1))
}
