//! Reference values from PyTorch: layouts of its parameters, and the networks of the cases.

use std::path::PathBuf;

use epsilab::engine::{Batch, ClipRule, ClippedSum, Gradients, PerExample, Weights};
use epsilab::nn::{
    AvgPool2dSpec, Conv2dSpec, EmbeddingSpec, GroupNormSpec, Guard, LayerSpec, LinearSpec,
    LstmSpec, MaxPool2dSpec, Network, ResidualSpec, Standardisation,
};
use serde_json::Value;

use super::{all, alone, distance};

/// A file of the shared folder, or `None` with a word on why.
fn shared(file: &str) -> Option<Value> {
    let root = std::env::var_os("EPSILAB_SHARED")
        .map(PathBuf::from)
        .unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared")));
    let path = root.join(file);
    match std::fs::read_to_string(&path) {
        Ok(text) => Some(serde_json::from_str(&text).expect("the file is JSON")),
        Err(e) => {
            println!("skipped: {} can't be read ({e}); set EPSILAB_SHARED", path.display());
            None
        }
    }
}

fn goldens() -> Option<Value> {
    shared("goldens/per_example_grads.json")
}

fn flat(value: &Value) -> Vec<f32> {
    match value {
        Value::Array(all) => all.iter().flat_map(flat).collect(),
        number => vec![number.as_f64().expect("a number") as f32],
    }
}

/// Where one of our parameters is in the file.
#[derive(Clone, Copy)]
enum Layout {
    /// As it is.
    Same,
    /// Linear weights: `[outputs, inputs]` there, `[inputs, outputs]` here.
    Turned,
    /// The block of one gate, in the order input, forget, cell, output, of four stacked ones;
    /// matrices are turned as well.
    Gate(usize),
    /// A turned weight that sees the last of several steps; it has zeros for the others.
    LastStep,
}

impl Layout {
    fn of(self, theirs: &[f32], shape: &[usize]) -> Vec<f32> {
        let turned = |values: &[f32], inputs: usize, outputs: usize| -> Vec<f32> {
            (0..inputs * outputs).map(|k| values[k % outputs * inputs + k / outputs]).collect()
        };
        match (self, shape) {
            (Self::Turned, &[inputs, outputs]) => turned(theirs, inputs, outputs),
            (Self::Gate(gate), &[inputs, outputs]) => {
                let block = inputs * outputs;
                turned(&theirs[gate * block..(gate + 1) * block], inputs, outputs)
            }
            (Self::Gate(gate), &[outputs]) => theirs[gate * outputs..(gate + 1) * outputs].to_vec(),
            (Self::LastStep, &[inputs, outputs]) => {
                let seen = theirs.len() / outputs;
                let mut values = vec![0.0; (inputs - seen) * outputs];
                values.extend(turned(theirs, seen, outputs));
                values
            }
            _ => theirs.to_vec(),
        }
    }
}

/// A network of the file: the shape of an example, its layers, and where our parameters are.
struct Known {
    shape: Vec<usize>,
    specs: Vec<LayerSpec>,
    names: Vec<(&'static str, &'static str, Layout)>,
}

impl Known {
    fn new(shape: &[usize], specs: Vec<LayerSpec>) -> Self {
        Self { shape: shape.to_vec(), specs, names: Vec::new() }
    }

    /// Our path, theirs and the layout; without one, the same path with linear weights turned.
    fn name(mut self, ours: &'static str, theirs: &'static str, layout: Layout) -> Self {
        self.names.push((ours, theirs, layout));
        self
    }

    fn find<'a>(&self, path: &'a str, shape: &[usize]) -> (&'a str, Layout) {
        match self.names.iter().find(|(ours, ..)| *ours == path) {
            Some((_, theirs, layout)) => (theirs, *layout),
            None if shape.len() == 2 => (path, Layout::Turned),
            None => (path, Layout::Same),
        }
    }

    /// The numbers of our parameter in `values`, which goes by their names.
    fn read(&self, values: &Value, path: &str, shape: &[usize]) -> Vec<f32> {
        let (theirs, layout) = self.find(path, shape);
        layout.of(&flat(&values[theirs]), shape)
    }

    fn network(&self, params: &Value) -> Network {
        Network::build(&self.shape, &self.specs, |path, shape, _| self.read(params, path, shape))
            .unwrap()
    }

    /// Ones, but zeros where a weight has no counterpart.
    fn weights(&self, network: &Network) -> Option<Weights> {
        self.names.iter().find(|(_, _, layout)| matches!(layout, Layout::LastStep))?;
        let mut mask = Gradients::zeros_like(network);
        for entry in &mut mask.entries {
            let count: usize = entry.shape.iter().product();
            let (_, layout) = self.find(&entry.path, &entry.shape);
            // Four features of the last step.
            let theirs = if let Layout::LastStep = layout { 4 * entry.shape[1] } else { 4 * count };
            entry.values = layout.of(&vec![1.0; theirs], &entry.shape);
            entry.values.truncate(count);
        }
        Some(Weights::new(network, mask).unwrap())
    }
}

fn linear(inputs: usize, outputs: usize, bias: bool) -> LayerSpec {
    LayerSpec::Linear(LinearSpec { inputs, outputs, bias })
}

fn conv(from: usize, to: usize, kernel: usize, more: impl FnOnce(&mut Conv2dSpec)) -> LayerSpec {
    let mut spec = Conv2dSpec::new(from, to, kernel);
    more(&mut spec);
    LayerSpec::Conv2d(spec)
}

fn known(case: &str) -> Option<Known> {
    use LayerSpec::{Flatten, GlobalAvgPool, MeanOverTime, Relu, Tanh};
    let group_norm =
        |groups, channels| LayerSpec::GroupNorm(GroupNormSpec { groups, channels, epsilon: 1e-5 });
    let padded = |spec: &mut Conv2dSpec| (spec.padding, spec.bias) = ([1, 1], false);
    let fc = |known: Known, weight, bias| {
        known.name(weight, "fc.weight", Layout::Turned).name(bias, "fc.bias", Layout::Same)
    };
    Some(match case {
        "linear" => Known::new(&[5], vec![linear(5, 3, true)]),
        "mlp_tanh" => {
            let last = linear(4, 3, true);
            Known::new(&[5], vec![linear(5, 6, true), Tanh, linear(6, 4, true), Tanh, last])
        }
        "conv_stride_pad" => {
            let first = conv(2, 3, 3, |spec| {
                (spec.kernel, spec.stride, spec.padding) = ([3, 2], [2, 1], [1, 0]);
            });
            Known::new(&[2, 6, 5], vec![first, Relu, Flatten, linear(36, 3, true)])
        }
        "conv_valid_pool" => {
            let max = LayerSpec::MaxPool2d(MaxPool2dSpec { kernel: [2; 2], stride: [1; 2] });
            let mean = LayerSpec::AvgPool2d(AvgPool2dSpec { kernel: [2; 2], stride: [2; 2] });
            let first = conv(1, 3, 3, |spec| (spec.stride, spec.bias) = ([2, 2], false));
            let second = conv(3, 4, 2, |spec| spec.bias = false);
            let last = linear(4, 3, false);
            Known::new(&[1, 9, 9], vec![first, Relu, max, second, Tanh, mean, Flatten, last])
        }
        "conv_group_dilation" => {
            let first = conv(4, 6, 3, |spec| {
                (spec.padding, spec.dilation, spec.groups) = ([2, 2], [2, 2], 2);
            });
            Known::new(&[4, 5, 5], vec![first, Tanh, GlobalAvgPool, linear(6, 3, true)])
                .name("3.weight", "4.weight", Layout::Turned)
                .name("3.bias", "4.bias", Layout::Same)
        }
        "groupnorm" => {
            let last = linear(4, 3, true);
            let specs = vec![conv(3, 4, 3, padded), group_norm(2, 4), Tanh, GlobalAvgPool, last];
            Known::new(&[3, 5, 5], specs)
                .name("1.gamma", "1.weight", Layout::Same)
                .name("1.beta", "1.bias", Layout::Same)
                .name("4.weight", "5.weight", Layout::Turned)
                .name("4.bias", "5.bias", Layout::Same)
        }
        "weight_std" => {
            let first = conv(2, 4, 3, |spec| {
                spec.padding = [1, 1];
                let guard = Guard::AtLeast(1e-4);
                spec.standardised = Some(Standardisation { gain: true, guard });
            });
            Known::new(&[2, 4, 4], vec![first, Relu, GlobalAvgPool, linear(4, 3, true)])
                .name("3.weight", "4.weight", Layout::Turned)
                .name("3.bias", "4.bias", Layout::Same)
        }
        "residual_gn" => {
            let body = vec![group_norm(2, 4), Tanh, conv(4, 4, 3, padded)];
            let block = LayerSpec::Residual(ResidualSpec { body, shortcut: Vec::new() });
            let specs = vec![conv(2, 4, 3, padded), block, GlobalAvgPool, linear(4, 3, true)];
            let known = Known::new(&[2, 4, 4], specs)
                .name("0.weight", "c1.weight", Layout::Same)
                .name("1.body.0.gamma", "g1.weight", Layout::Same)
                .name("1.body.0.beta", "g1.bias", Layout::Same)
                .name("1.body.2.weight", "c2.weight", Layout::Same);
            fc(known, "3.weight", "3.bias")
        }
        // The file's network shows the last step alone to its linear layer.
        "lstm" => {
            let lstm = LayerSpec::Lstm(LstmSpec { inputs: 3, hidden: 4, bidirectional: false });
            let mut known = Known::new(&[5, 3], vec![lstm, Flatten, linear(20, 3, true)]);
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
                    known = known.name(path, theirs, Layout::Gate(gate));
                }
            }
            known.name("2.weight", "fc.weight", Layout::LastStep).name(
                "2.bias",
                "fc.bias",
                Layout::Same,
            )
        }
        "embedding_mean" => {
            let table = LayerSpec::Embedding(EmbeddingSpec { vocabulary: 7, features: 4 });
            let known = Known::new(&[5], vec![table, MeanOverTime, linear(4, 3, true)]).name(
                "0.weight",
                "emb.weight",
                Layout::Same,
            );
            fc(known, "2.weight", "2.bias")
        }
        _ => return None,
    })
}

fn labels(case: &Value) -> Vec<u32> {
    flat(&case["y"]).iter().map(|&y| y as u32).collect()
}

#[track_caller]
fn assert_sum(name: &str, got: &ClippedSum, known: &Known, want: &Value) {
    for entry in &got.sum.entries {
        let off = distance(&entry.values, &known.read(want, &entry.path, &entry.shape), 0.0);
        assert!(off < 1e-4, "{name}: the sum of {} is off by {off:.1e}", entry.path);
    }
}

/// Gradients and norms of single examples, parameter by parameter.
fn check_each(
    name: &str,
    executor: &dyn PerExample,
    known: &Known,
    network: &Network,
    case: &Value,
    batch: &Batch,
) {
    let weights = known.weights(network);
    for i in 0..batch.len() {
        let (one, rule) = (alone(batch, i), ClipRule::unclipped());
        let got = executor.weighted_sum(network, &one, &rule, weights.as_ref()).unwrap();
        let mut squares = std::collections::BTreeMap::<&str, f64>::new();
        for entry in &got.sum.entries {
            let (theirs, layout) = known.find(&entry.path, &entry.shape);
            let want = layout.of(&flat(&case["grads"][theirs][i]), &entry.shape);
            let off = distance(&entry.values, &want, 0.0);
            assert!(off < 1e-4, "{name}: gradient {i} of {} is off by {off:.1e}", entry.path);
            let square: f64 = entry.values.iter().map(|&v| f64::from(v).powi(2)).sum();
            *squares.entry(theirs).or_default() += square;
        }
        for (theirs, square) in squares {
            let norm = f64::from(flat(&case["param_norms"][theirs])[i]);
            assert!((square.sqrt() - norm).abs() < 1e-4 * norm, "{name}: norm {i} of {theirs}");
        }
    }
}

#[test]
fn every_executor_agrees_with_pytorch() {
    let Some(goldens) = goldens() else { return };
    let cases = goldens["cases"].as_array().expect("a list of cases");
    for case in cases {
        let name = case["name"].as_str().expect("a name");
        let known = known(name).unwrap_or_else(|| panic!("no network is known for {name}"));
        let network = known.network(&case["params"]);
        let theirs: std::collections::BTreeSet<&str> = network
            .parameters()
            .iter()
            .map(|p| known.find(&p.path, &p.shape).0.to_owned().leak() as &str)
            .collect();
        assert_eq!(theirs.len(), case["params"].as_object().unwrap().len(), "{name}");
        let batch = Batch::new(flat(&case["x"]), &known.shape, labels(case)).unwrap();
        let weights = known.weights(&network);
        let rule = ClipRule::flat(case["C"].as_f64().unwrap());
        for (executor_name, executor) in all() {
            let name = format!("{name}, {executor_name}");
            let got = executor.weighted_sum(&network, &batch, &rule, weights.as_ref()).unwrap();
            assert!(distance(&got.losses, &flat(&case["loss"]), 0.0) < 1e-4, "{name}: losses");
            assert!(distance(&got.norms, &flat(&case["norms"]), 0.0) < 1e-4, "{name}: norms");
            assert_sum(&name, &got, &known, &case["clipped_sum"]);
            check_each(&name, &*executor, &known, &network, case, &batch);
        }
    }
    assert_eq!(cases.len(), 10);
}

#[test]
fn copies_are_averaged_and_then_clipped_once() {
    let Some(goldens) = goldens() else { return };
    let case = &goldens["augmentation_multiplicity"];
    let known = known("linear").unwrap();
    let network = known.network(&case["params"]);
    let batch = Batch::with_copies(flat(&case["x"]), &[5], labels(case), 3).unwrap();
    let rule = ClipRule::flat(case["C"].as_f64().unwrap());
    for (name, executor) in all() {
        let got = executor.clipped_sum(&network, &batch, &rule).unwrap();
        assert!(distance(&got.norms, &flat(&case["norms"]), 0.0) < 1e-4, "{name}");
        assert_sum(name, &got, &known, &case["clipped_sum"]);
        // Clipping each copy on its own and averaging then is another sum.
        let labels = batch.labels().iter().flat_map(|&label| [label; 3]).collect();
        let each = Batch::new(flat(&case["x"]), &[5], labels).unwrap();
        let mut wrong = executor.clipped_sum(&network, &each, &rule).unwrap().sum;
        wrong.scale(1.0 / 3.0);
        let want = known.read(&case["clipped_sum"], "0.weight", &[5, 3]);
        assert!(distance(&wrong.entries[0].values, &want, 0.0) > 1e-2, "{name}");
    }
}

#[test]
fn a_mask_counts_in_the_norm_and_in_the_sum() {
    let Some(goldens) = goldens() else { return };
    let case = &goldens["gradient_drop_magnitude"];
    let uses = goldens["cases"].as_array().unwrap().iter().find(|c| c["name"] == case["uses"]);
    let data = uses.expect("the case it uses");
    let known = known("mlp_tanh").unwrap();
    let network = known.network(&data["params"]);
    let batch = Batch::new(flat(&data["x"]), &known.shape, labels(data)).unwrap();
    let mut mask = Gradients::zeros_like(&network);
    for entry in &mut mask.entries {
        entry.values = known.read(&case["mask"], &entry.path, &entry.shape);
    }
    let mask = Weights::new(&network, mask).unwrap();
    let rule = ClipRule::flat(case["C"].as_f64().unwrap());
    for (name, executor) in all() {
        let got = executor.weighted_sum(&network, &batch, &rule, Some(&mask)).unwrap();
        assert!(distance(&got.norms, &flat(&case["norms"]), 0.0) < 1e-4, "{name}");
        assert_sum(name, &got, &known, &case["clipped_sum"]);
        for (entry, weights) in got.sum.entries.iter().zip(mask.entries()) {
            let dropped = entry.values.iter().zip(&weights.values).filter(|(_, w)| **w == 0.0);
            assert!(dropped.clone().count() > 0 && dropped.clone().all(|(v, _)| *v == 0.0));
        }
        // Norms over all coordinates would clip harder than the mask asks for.
        let wrong = executor.clipped_sum(&network, &batch, &rule).unwrap();
        assert!(distance(&wrong.norms, &flat(&case["norms"]), 0.0) > 1e-2, "{name}");
    }
}

#[test]
fn squared_parameters_make_the_norms_of_connection_sensitivities() {
    let Some(goldens) = goldens() else { return };
    let case = &goldens["snip"];
    let specs = vec![linear(5, 6, true), LayerSpec::Tanh, linear(6, 3, true)];
    let known = Known::new(&[5], specs);
    let network = known.network(&case["params"]);
    let batch = Batch::new(flat(&case["x"]), &[5], labels(case)).unwrap();
    // Weights only: biases have no say.
    let mut squares = Gradients::zeros_like(&network);
    for (entry, (_, values)) in squares.entries.iter_mut().zip(network.values()) {
        let bias = entry.path.ends_with("bias");
        entry.values = values.iter().map(|v| if bias { 0.0 } else { v * v }).collect();
    }
    let squares = Weights::new(&network, squares).unwrap();
    assert!(squares.is_zero(1) && !squares.is_zero(0));
    let rule = ClipRule::flat(case["C"].as_f64().unwrap());
    let want = flat(&case["clipped_sum"]);
    for (name, executor) in all() {
        let got = executor.weighted_sum(&network, &batch, &rule, Some(&squares)).unwrap();
        assert!(distance(&got.norms, &flat(&case["norms"]), 0.0) < 1e-4, "{name}");
        // The file's sum is of θ ⊙ g, first layer first, in its own layout.
        let mut at = 0;
        for (entry, (_, values)) in got.sum.entries.iter().zip(network.values()) {
            if entry.path.ends_with("bias") {
                assert!(entry.values.iter().all(|&v| v == 0.0));
                continue;
            }
            let scaled: Vec<f32> = entry.values.iter().zip(&values).map(|(g, v)| g * v).collect();
            let theirs = Layout::Turned.of(&want[at..at + scaled.len()], &entry.shape);
            assert!(distance(&scaled, &theirs, 0.0) < 1e-4, "{name}: {}", entry.path);
            at += scaled.len();
        }
    }
}
