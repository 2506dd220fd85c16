//! The networks of the reference file, and the mapping between our parameters and PyTorch's.

use epsilab::engine::{CoordinateWeights, Gradients};
use epsilab::nn::{
    AvgPool2dSpec, Conv2dSpec, EmbeddingSpec, GroupNormSpec, LayerSpec, LinearSpec, LstmSpec,
    MaxPool2dSpec, Network, ResidualSpec, Standardisation, VarianceGuard,
};
use serde_json::Value;

/// Labels of a case.
pub fn labels(case: &Value) -> Vec<u32> {
    flat(&case["y"]).iter().map(|&y| y as u32).collect()
}

/// Values of nested lists, in order.
pub fn flat(value: &Value) -> Vec<f32> {
    match value {
        Value::Array(all) => all.iter().flat_map(flat).collect(),
        number => vec![number.as_f64().expect("a number") as f32],
    }
}

/// How a PyTorch parameter is stored in the file.
#[derive(Clone, Copy)]
pub enum Layout {
    /// The same layout as ours.
    Same,
    /// Linear weights: `[outputs, inputs]` in the file, `[inputs, outputs]` here.
    Transposed,
    /// Block of one gate among the four stacked ones (input, forget, cell, output); matrices are
    /// transposed.
    Gate(usize),
    /// Transposed weights of the last time step only; ours are zero for the other steps.
    LastStep,
}

impl Layout {
    pub fn of(self, theirs: &[f32], shape: &[usize]) -> Vec<f32> {
        let transposed = |values: &[f32], inputs: usize, outputs: usize| -> Vec<f32> {
            (0..inputs * outputs).map(|k| values[k % outputs * inputs + k / outputs]).collect()
        };
        match (self, shape) {
            (Self::Transposed, &[inputs, outputs]) => transposed(theirs, inputs, outputs),
            (Self::Gate(gate), &[inputs, outputs]) => {
                let block = inputs * outputs;
                transposed(&theirs[gate * block..(gate + 1) * block], inputs, outputs)
            }
            (Self::Gate(gate), &[outputs]) => theirs[gate * outputs..(gate + 1) * outputs].to_vec(),
            (Self::LastStep, &[inputs, outputs]) => {
                let seen = theirs.len() / outputs;
                let mut values = vec![0.0; (inputs - seen) * outputs];
                values.extend(transposed(theirs, seen, outputs));
                values
            }
            _ => theirs.to_vec(),
        }
    }
}

/// A network of the file: input shape, layers, and parameter mapping.
pub struct GoldenNetwork {
    pub shape: Vec<usize>,
    specs: Vec<LayerSpec>,
    names: Vec<(&'static str, &'static str, Layout)>,
}

impl GoldenNetwork {
    pub fn new(shape: &[usize], specs: Vec<LayerSpec>) -> Self {
        Self { shape: shape.to_vec(), specs, names: Vec::new() }
    }

    /// Maps one of our paths to the file's name and layout. Unmapped paths are the same in both,
    /// with transposed linear weights.
    fn name(mut self, ours: &'static str, theirs: &'static str, layout: Layout) -> Self {
        self.names.push((ours, theirs, layout));
        self
    }

    pub fn find<'a>(&self, path: &'a str, shape: &[usize]) -> (&'a str, Layout) {
        match self.names.iter().find(|(ours, ..)| *ours == path) {
            Some((_, theirs, layout)) => (theirs, *layout),
            None if shape.len() == 2 => (path, Layout::Transposed),
            None => (path, Layout::Same),
        }
    }

    /// Reads our parameter at `path` from `values`, which is keyed by PyTorch's names.
    pub fn read(&self, values: &Value, path: &str, shape: &[usize]) -> Vec<f32> {
        let (theirs, layout) = self.find(path, shape);
        layout.of(&flat(&values[theirs]), shape)
    }

    pub fn network(&self, params: &Value) -> Network {
        Network::build(&self.shape, &self.specs, |path, shape, _| self.read(params, path, shape))
            .unwrap()
    }

    /// A mask that is zero where our weights have no counterpart; `None` if all have one.
    pub fn weights(&self, network: &Network) -> Option<CoordinateWeights> {
        self.names.iter().find(|(_, _, layout)| matches!(layout, Layout::LastStep))?;
        let mut mask = Gradients::zeros_like(network);
        for entry in &mut mask.entries {
            let count: usize = entry.shape.iter().product();
            let (_, layout) = self.find(&entry.path, &entry.shape);
            // The last time step has four features.
            let theirs = if let Layout::LastStep = layout { 4 * entry.shape[1] } else { 4 * count };
            let ones = layout.of(&vec![1.0; theirs], &entry.shape);
            entry.values = ones[..count].to_vec().into();
        }
        Some(CoordinateWeights::new(network, mask).unwrap())
    }
}

pub fn linear(inputs: usize, outputs: usize, bias: bool) -> LayerSpec {
    LayerSpec::Linear(LinearSpec { inputs, outputs, bias })
}

fn conv(from: usize, to: usize, kernel: usize, more: impl FnOnce(&mut Conv2dSpec)) -> LayerSpec {
    let mut spec = Conv2dSpec::new(from, to, kernel);
    more(&mut spec);
    LayerSpec::Conv2d(spec)
}

/// The network of a case; `None` for unknown cases.
pub fn golden_network(case: &str) -> Option<GoldenNetwork> {
    use LayerSpec::{Flatten, GlobalAvgPool, MeanOverTime, Relu, Tanh};
    let group_norm =
        |groups, channels| LayerSpec::GroupNorm(GroupNormSpec { groups, channels, epsilon: 1e-5 });
    let padded = |spec: &mut Conv2dSpec| (spec.padding, spec.bias) = ([1, 1], false);
    let fc = |golden: GoldenNetwork, weight, bias| {
        golden.name(weight, "fc.weight", Layout::Transposed).name(bias, "fc.bias", Layout::Same)
    };
    Some(match case {
        "linear" => GoldenNetwork::new(&[5], vec![linear(5, 3, true)]),
        "mlp_tanh" => {
            let last = linear(4, 3, true);
            GoldenNetwork::new(&[5], vec![linear(5, 6, true), Tanh, linear(6, 4, true), Tanh, last])
        }
        "conv_stride_pad" => {
            let first = conv(2, 3, 3, |spec| {
                (spec.kernel, spec.stride, spec.padding) = ([3, 2], [2, 1], [1, 0]);
            });
            GoldenNetwork::new(&[2, 6, 5], vec![first, Relu, Flatten, linear(36, 3, true)])
        }
        "conv_valid_pool" => {
            let max = LayerSpec::MaxPool2d(MaxPool2dSpec { kernel: [2; 2], stride: [1; 2] });
            let mean = LayerSpec::AvgPool2d(AvgPool2dSpec { kernel: [2; 2], stride: [2; 2] });
            let first = conv(1, 3, 3, |spec| (spec.stride, spec.bias) = ([2, 2], false));
            let second = conv(3, 4, 2, |spec| spec.bias = false);
            let last = linear(4, 3, false);
            GoldenNetwork::new(
                &[1, 9, 9],
                vec![first, Relu, max, second, Tanh, mean, Flatten, last],
            )
        }
        "conv_group_dilation" => {
            let first = conv(4, 6, 3, |spec| {
                (spec.padding, spec.dilation, spec.groups) = ([2, 2], [2, 2], 2);
            });
            GoldenNetwork::new(&[4, 5, 5], vec![first, Tanh, GlobalAvgPool, linear(6, 3, true)])
                .name("3.weight", "4.weight", Layout::Transposed)
                .name("3.bias", "4.bias", Layout::Same)
        }
        "groupnorm" => {
            let last = linear(4, 3, true);
            let specs = vec![conv(3, 4, 3, padded), group_norm(2, 4), Tanh, GlobalAvgPool, last];
            GoldenNetwork::new(&[3, 5, 5], specs)
                .name("1.gamma", "1.weight", Layout::Same)
                .name("1.beta", "1.bias", Layout::Same)
                .name("4.weight", "5.weight", Layout::Transposed)
                .name("4.bias", "5.bias", Layout::Same)
        }
        "weight_std" => {
            let first = conv(2, 4, 3, |spec| {
                spec.padding = [1, 1];
                let guard = VarianceGuard::AtLeast(1e-4);
                spec.standardised = Some(Standardisation { gain: true, guard });
            });
            GoldenNetwork::new(&[2, 4, 4], vec![first, Relu, GlobalAvgPool, linear(4, 3, true)])
                .name("3.weight", "4.weight", Layout::Transposed)
                .name("3.bias", "4.bias", Layout::Same)
        }
        "residual_gn" => {
            let body = vec![group_norm(2, 4), Tanh, conv(4, 4, 3, padded)];
            let block = LayerSpec::Residual(ResidualSpec { body, shortcut: Vec::new() });
            let specs = vec![conv(2, 4, 3, padded), block, GlobalAvgPool, linear(4, 3, true)];
            let golden = GoldenNetwork::new(&[2, 4, 4], specs)
                .name("0.weight", "c1.weight", Layout::Same)
                .name("1.body.0.gamma", "g1.weight", Layout::Same)
                .name("1.body.0.beta", "g1.bias", Layout::Same)
                .name("1.body.2.weight", "c2.weight", Layout::Same);
            fc(golden, "3.weight", "3.bias")
        }
        // The file's network passes only the last time step to its linear layer.
        "lstm" => {
            let lstm = LayerSpec::Lstm(LstmSpec { inputs: 3, hidden: 4, bidirectional: false });
            let mut golden = GoldenNetwork::new(&[5, 3], vec![lstm, Flatten, linear(20, 3, true)]);
            let gates: [[&str; 4]; 4] = [
                [
                    "0.input_gate.input_transform.weight",
                    "0.input_gate.input_transform.bias",
                    "0.input_gate.hidden_transform.weight",
                    "0.input_gate.hidden_transform.bias",
                ],
                [
                    "0.forget_gate.input_transform.weight",
                    "0.forget_gate.input_transform.bias",
                    "0.forget_gate.hidden_transform.weight",
                    "0.forget_gate.hidden_transform.bias",
                ],
                [
                    "0.cell_gate.input_transform.weight",
                    "0.cell_gate.input_transform.bias",
                    "0.cell_gate.hidden_transform.weight",
                    "0.cell_gate.hidden_transform.bias",
                ],
                [
                    "0.output_gate.input_transform.weight",
                    "0.output_gate.input_transform.bias",
                    "0.output_gate.hidden_transform.weight",
                    "0.output_gate.hidden_transform.bias",
                ],
            ];
            for (gate, paths) in gates.into_iter().enumerate() {
                for (path, theirs) in paths.into_iter().zip(["Wih", "bih", "Whh", "bhh"]) {
                    golden = golden.name(path, theirs, Layout::Gate(gate));
                }
            }
            golden.name("2.weight", "fc.weight", Layout::LastStep).name(
                "2.bias",
                "fc.bias",
                Layout::Same,
            )
        }
        "embedding_mean" => {
            let table = LayerSpec::Embedding(EmbeddingSpec { vocabulary: 7, features: 4 });
            let golden = GoldenNetwork::new(&[5], vec![table, MeanOverTime, linear(4, 3, true)])
                .name("0.weight", "emb.weight", Layout::Same);
            fc(golden, "2.weight", "2.bias")
        }
        _ => return None,
    })
}
