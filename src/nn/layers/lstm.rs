//! Long short-term memory (LSTM), the recurrent layer.

use burn::module::Module;
use burn::nn::{self, GateController};
use burn::prelude::*;
use burn::tensor::activation::{sigmoid, tanh};
use serde::{Deserialize, Serialize};

use super::linear::{self, site};
use super::source::{Init, ParameterSpec, Source, fits_memory, sequence, sizes};
use crate::nn::{Tape, Value};
use crate::{Error, ErrorKind, Result};

/// A long short-term memory (LSTM) without its parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LstmSpec {
    /// Features that go in at every step.
    pub inputs: usize,
    /// Features of the memory of one direction.
    pub hidden: usize,
    /// Whether a second memory reads the sequence backwards.
    pub bidirectional: bool,
}

/// The gates, in the order of the parameters.
const GATES: [&str; 4] = ["input_gate", "forget_gate", "cell_gate", "output_gate"];

impl LstmSpec {
    pub(super) fn check(&self) -> Result<()> {
        sizes("Lstm", &[("inputs", self.inputs), ("hidden", self.hidden)])?;
        fits_memory("Lstm", &[self.inputs, self.hidden])?;
        fits_memory("Lstm", &[self.hidden, self.hidden])
    }

    pub(super) fn output_shape(&self, input: &[usize]) -> Result<Vec<usize>> {
        self.check()?;
        let [time, inputs] = sequence("Lstm", input)?;
        if inputs != self.inputs {
            let what = format!("an Lstm layer was given sequences of {inputs} features");
            return Err(Error::new(ErrorKind::Model, what, format!("it takes {}", self.inputs)));
        }
        Ok(vec![time, if self.bidirectional { 2 * self.hidden } else { self.hidden }])
    }

    /// Everything is drawn by the size of the memory, as in PyTorch.
    pub(super) fn parameters(&self) -> Vec<ParameterSpec> {
        let Self { inputs, hidden, .. } = *self;
        let fan_in = hidden;
        let one_way = GATES.iter().flat_map(|gate| {
            let map = |name: &str, inputs: usize| {
                let path = format!("{gate}.{name}");
                let (weight, bias) = (Init::Weight { fan_in }, Init::Bias { fan_in });
                [
                    ParameterSpec::new(&format!("{path}.weight"), &[inputs, hidden], weight),
                    ParameterSpec::new(&format!("{path}.bias"), &[hidden], bias),
                ]
            };
            map("input_transform", inputs).into_iter().chain(map("hidden_transform", hidden))
        });
        if !self.bidirectional {
            return one_way.collect();
        }
        let ways = ["forward", "reverse"].into_iter();
        ways.flat_map(|way| one_way.clone().map(move |spec| spec.below(way))).collect()
    }

    pub(super) fn build(&self, source: &mut Source) -> Lstm {
        let inner = if self.bidirectional {
            Directions::Both(BothWays {
                forward: Memory::build(source),
                reverse: Memory::build(source),
            })
        } else {
            Directions::Forward(Memory::build(source))
        };
        Lstm { inner }
    }
}

/// The four gates that read a sequence in one direction.
///
/// The fields are those of `burn::nn::Lstm` (which see), in the order of PyTorch and without the
/// options that this layer doesn't have.
#[derive(Module, Debug)]
pub struct Memory {
    /// How much of the candidate is taken in, i.
    pub input_gate: GateController,
    /// How much of the cell is kept, f.
    pub forget_gate: GateController,
    /// The candidate for the cell, g.
    pub cell_gate: GateController,
    /// How much of the cell is shown, o.
    pub output_gate: GateController,
}

/// Two memories: one reads forwards, one backwards.
#[derive(Module, Debug)]
pub struct BothWays {
    /// From the first step to the last.
    pub forward: Memory,
    /// From the last step to the first.
    pub reverse: Memory,
}

/// The memories of an [`Lstm`].
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant)]
pub enum Directions {
    /// Forwards only.
    Forward(Memory),
    /// Forwards and backwards.
    Both(BothWays),
}

/// Long short-term memory (LSTM; Hochreiter & Schmidhuber, 1997; forget gates by Gers et al.,
/// 2000): sequences `[batch, time, inputs]` to the memory's output at every step,
/// `[batch, time, hidden]`, or `[batch, time, 2 hidden]` when read both ways.
///
/// With x the step's input and h the output one step before, all starting from 0, each gate is
/// x W + b + h U + d, through a sigmoid for i, f and o and tanh for g; the cell becomes
/// f c + i g and the output o tanh(c). Two biases per gate, as in PyTorch.
#[derive(Module, Debug)]
pub struct Lstm {
    /// The parameters.
    pub inner: Directions,
}

impl Lstm {
    /// The layer's output.
    pub fn forward(&self, x: Value, tape: &mut dyn Tape) -> Value {
        let x = Value::Sequence(x.sequence());
        Value::Sequence(match &self.inner {
            Directions::Forward(memory) => memory.read(&x, false, tape),
            Directions::Both(both) => {
                let forward = both.forward.read(&x, false, tape);
                Tensor::cat(vec![forward, both.reverse.read(&x, true, tape)], 2)
            }
        })
    }
}

impl Memory {
    fn build(source: &mut Source) -> Self {
        let mut gate = || {
            let mut map = || nn::Linear { weight: source.next(), bias: Some(source.next()) };
            GateController { input_transform: map(), hidden_transform: map() }
        };
        Self { input_gate: gate(), forget_gate: gate(), cell_gate: gate(), output_gate: gate() }
    }

    /// The gates, in the order of the parameters.
    pub fn gates(&self) -> [&GateController; 4] {
        [&self.input_gate, &self.forget_gate, &self.cell_gate, &self.output_gate]
    }

    fn read(&self, x: &Value, backwards: bool, tape: &mut dyn Tape) -> Tensor<3> {
        let steps = x.clone().sequence();
        // The half of each gate that reads the input, for all steps at once.
        let mut places = Vec::new();
        let read = self.gates().map(|gate| {
            let map = &gate.input_transform;
            places.push(tape.places());
            tape.layer(
                site(map),
                x,
                Value::Sequence(linear::map(map, steps.clone(), tape.precision())),
            )
            .sequence()
        });
        let read = Tensor::cat(read.to_vec(), 2);
        let (weight, bias) = self.hidden();
        let [n, time, _] = read.dims();
        let size = weight.dims()[0];
        let device = x.device().without_autodiff();
        let (mut h, mut c) = (Tensor::zeros([n, size], &device), Tensor::zeros([n, size], &device));
        let (mut before, mut after) = (Vec::with_capacity(time), Vec::with_capacity(time));
        for step in 0..time {
            let at = if backwards { time - 1 - step } else { step };
            before.push(h.clone().inner());
            let sum = read.clone().narrow(1, at, 1).squeeze_dim::<2>(1)
                + tape.precision().matmul(h, weight.clone())
                + bias.clone();
            let [i, f, g, o] = [0, 1, 2, 3].map(|k| sum.clone().narrow(1, k * size, size));
            c = sigmoid(f) * c + sigmoid(i) * tanh(g);
            h = sigmoid(o) * tanh(c.clone());
            after.push(h.clone());
        }
        if backwards {
            before.reverse();
            after.reverse();
        }
        let before = Tensor::stack::<3>(before, 1);
        for (place, gate) in places.into_iter().zip(self.gates()) {
            tape.shares(place, site(&gate.hidden_transform), Value::Sequence(before.clone()));
        }
        Tensor::stack::<3>(after, 1)
    }

    /// The hidden maps of all gates side by side: `[hidden, 4 hidden]` and `[1, 4 hidden]`.
    fn hidden(&self) -> (Tensor<2>, Tensor<2>) {
        let maps = self.gates().map(|gate| &gate.hidden_transform);
        let weights = maps.map(|map| map.weight.val()).to_vec();
        let biases = maps.map(|map| match &map.bias {
            Some(bias) => bias.val(),
            None => Tensor::zeros([map.weight.dims()[1]], &map.weight.val().device()),
        });
        (Tensor::cat(weights, 1), Tensor::cat(biases.to_vec(), 0).unsqueeze())
    }
}
