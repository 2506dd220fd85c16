//! Comparison of per-example gradients, norms and clipped sums with PyTorch's for every layer, by
//! the reference executor.

use epsilab::burn::module::{Module, Param};
use epsilab::burn::prelude::*;
use epsilab::engine::{Batch, ClipRule, Executor, Gradients, ReferenceExecutor};
use epsilab::nn::{
    BatchTensor, Conv2dSpec, EmbeddingSpec, Forward, GlobalAvgPool, GroupNormSpec, LayerSpec,
    Linear, LinearSpec, Lstm, LstmDirections, LstmSpec, MeanOverTime, Model, Network, Relu,
    ResidualSpec, Standardisation, Tanh, Tape, VarianceGuard,
};
use epsilab::{burn, layers};
use serde_json::Value as Json;

use crate::support::files::{self, PER_EXAMPLE, turned};

/// Values of a reference array, row-major.
fn flat(value: &Json) -> Vec<f32> {
    files::flat(value).into_iter().map(|value| value as f32).collect()
}

/// The values of the parameter at `path`, from a set of PyTorch's parameters or gradients.
fn from_pytorch(case: &str, set: &Json, path: &str, shape: &[usize]) -> Vec<f32> {
    if let Some(rest) = path.strip_prefix("lstm.") {
        // PyTorch stacks the gates in the order i, f, g, o.
        let gates = ["input_gate", "forget_gate", "cell_gate", "output_gate"];
        let gate = gates.iter().position(|gate| rest.starts_with(gate)).expect("a gate");
        let half = if rest.contains("input_transform") { "ih" } else { "hh" };
        let (kind, rows) = if rest.ends_with("weight") { ("W", 4 * shape[0]) } else { ("b", 4) };
        let all = flat(&set[format!("{kind}{half}")]);
        let values = &all[gate * rows..(gate + 1) * rows];
        return if kind == "W" { turned(values, shape[0]) } else { values.to_vec() };
    }
    let name = match (case, path) {
        (_, "lstm_head.weight") => "fc.weight",
        (_, "lstm_head.bias") => "fc.bias",
        ("groupnorm", "1.gamma") => "1.weight",
        ("groupnorm", "1.beta") => "1.bias",
        ("groupnorm", "4.weight") => "5.weight",
        ("groupnorm", "4.bias") => "5.bias",
        ("residual_gn", "0.weight") => "c1.weight",
        ("residual_gn", "1.body.0.gamma") => "g1.weight",
        ("residual_gn", "1.body.0.beta") => "g1.bias",
        ("residual_gn", "1.body.2.weight") => "c2.weight",
        ("residual_gn", "3.weight") | ("embedding_mean", "2.weight") => "fc.weight",
        ("residual_gn", "3.bias") | ("embedding_mean", "2.bias") => "fc.bias",
        ("embedding_mean", "0.weight") => "emb.weight",
        ("conv_group_dilation" | "weight_std", "3.weight") => "4.weight",
        ("conv_group_dilation" | "weight_std", "3.bias") => "4.bias",
        (_, path) => path,
    };
    let values = flat(&set[name]);
    let is_linear = shape.len() == 2 && name != "emb.weight";
    if is_linear { turned(&values, shape[0]) } else { values }
}

/// Input shape and layers of a case; `None` for the LSTM and for cases of other tests.
fn layers_of(case: &str) -> Option<(Vec<usize>, Vec<LayerSpec>)> {
    let conv = |from, to| Conv2dSpec::new(from, to, 3).padding(1);
    let norm = || GroupNormSpec::new(2, 4);
    let rule = Standardisation { gain: true, guard: VarianceGuard::AtLeast(1e-4) };
    Some(match case {
        "conv_group_dilation" => {
            let conv = Conv2dSpec::new(4, 6, 3).padding(2).dilation(2).groups(2);
            (vec![4, 5, 5], layers![conv, Tanh, GlobalAvgPool, LinearSpec::new(6, 3)])
        }
        "groupnorm" => {
            let conv = conv(3, 4).without_bias();
            (vec![3, 5, 5], layers![conv, norm(), Tanh, GlobalAvgPool, LinearSpec::new(4, 3)])
        }
        "weight_std" => {
            let conv = conv(2, 4).standardised(rule);
            (vec![2, 4, 4], layers![conv, Relu, GlobalAvgPool, LinearSpec::new(4, 3)])
        }
        "residual_gn" => {
            let body = layers![norm(), Tanh, conv(4, 4).without_bias()];
            let first = conv(2, 4).without_bias();
            let block = ResidualSpec::new(body);
            (vec![2, 4, 4], layers![first, block, GlobalAvgPool, LinearSpec::new(4, 3)])
        }
        "embedding_mean" => {
            (vec![5], layers![EmbeddingSpec::new(7, 4), MeanOverTime, LinearSpec::new(4, 3)])
        }
        _ => return None,
    })
}

/// An LSTM and a linear layer on its last step.
#[derive(Module, Debug)]
struct LastStep {
    lstm: Lstm,
    lstm_head: Linear,
}

impl Forward for LastStep {
    fn forward(&self, x: BatchTensor, tape: &mut dyn Tape) -> Tensor<2> {
        let steps = self.lstm.forward(x, tape).into_sequence();
        let last = steps.dims()[1] - 1;
        let last = BatchTensor::Flat(steps.narrow(1, last, 1).squeeze_dim(1));
        self.lstm_head.forward(last, tape).into_flat()
    }
}

fn last_step(case: &Json) -> Network {
    let fill = |linear: &mut burn::nn::Linear, path: &str| {
        let data = |name: &str, shape: &[usize]| {
            let values = from_pytorch("lstm", &case["params"], &format!("{path}.{name}"), shape);
            TensorData::new(values, shape.to_vec())
        };
        let shape = linear.weight.dims();
        linear.weight = Param::from_data(data("weight", &shape), &Device::flex());
        linear.bias = Some(Param::from_data(data("bias", &shape[1..]), &Device::flex()));
    };
    let mut lstm = Lstm::new(LstmSpec::new(3, 4), 1).unwrap();
    let LstmDirections::Forward(gates) = &mut lstm.inner else { panic!("one direction") };
    for (gate, name) in [
        (&mut gates.input_gate, "input_gate"),
        (&mut gates.forget_gate, "forget_gate"),
        (&mut gates.cell_gate, "cell_gate"),
        (&mut gates.output_gate, "output_gate"),
    ] {
        fill(&mut gate.input_transform, &format!("lstm.{name}.input_transform"));
        fill(&mut gate.hidden_transform, &format!("lstm.{name}.hidden_transform"));
    }
    let mut lstm_head = Linear::new(LinearSpec::new(4, 3), 2).unwrap();
    fill(&mut lstm_head.inner, "lstm_head");
    let data = epsilab::data::from_vecs(vec![0.0; 15], &[5, 3], vec![2], 3).unwrap();
    Model::custom("last_step", LastStep { lstm, lstm_head }, &data).unwrap().network().clone()
}

/// Relative L2 distance of `a` from `b`.
fn distance(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    let norm = |values: &mut dyn Iterator<Item = f32>| values.map(|v| v * v).sum::<f32>().sqrt();
    let difference = norm(&mut a.iter().zip(b).map(|(a, b)| a - b));
    difference / norm(&mut b.iter().copied()).max(1e-6)
}

fn check(case: &Json, network: &Network, shape: &[usize]) {
    let name = case["name"].as_str().unwrap();
    let labels: Vec<u32> = flat(&case["y"]).iter().map(|&y| y as u32).collect();
    let batch = Batch::new(flat(&case["x"]), shape, labels.clone()).unwrap();
    let assert_gradients_match = |got: &Gradients, set: &Json, what: &str| {
        for entry in &got.entries {
            let want = from_pytorch(name, set, &entry.path, &entry.shape);
            let off = distance(&entry.values, &want);
            assert!(off < 2e-4, "{name}: {what} of {} is off by {off:.1e}", entry.path);
        }
    };
    let rule = ClipRule::flat(case["C"].as_f64().unwrap());
    let got = ReferenceExecutor.clipped_sum(network, &batch, &rule).unwrap();
    assert!(distance(&got.losses, &flat(&case["loss"])) < 1e-4, "{name}: losses");
    assert!(distance(&got.norms, &flat(&case["norms"])) < 1e-4, "{name}: norms");
    assert_gradients_match(&got.sum, &case["clipped_sum"], "clipped sum");
    for (i, &label) in labels.iter().enumerate() {
        let one = Batch::new(batch.features(i).to_vec(), shape, vec![label]).unwrap();
        let got = ReferenceExecutor.clipped_sum(network, &one, &ClipRule::unclipped()).unwrap();
        let grads = case["grads"].as_object().unwrap();
        let of_one = grads.iter().map(|(path, each)| (path.clone(), each[i].clone()));
        assert_gradients_match(&got.sum, &Json::Object(of_one.collect()), "gradient");
    }
}

pub fn per_example_gradients_of_every_layer_match_pytorch() {
    let goldens = files::json(PER_EXAMPLE);
    let mut seen = 0;
    for case in goldens["cases"].as_array().expect("a list of cases") {
        let name = case["name"].as_str().expect("a name");
        if name == "lstm" {
            check(case, &last_step(case), &[5, 3]);
        } else if let Some((shape, specs)) = layers_of(name) {
            let fill =
                |path: &str, shape: &[usize], _| from_pytorch(name, &case["params"], path, shape);
            check(case, &Network::build(&shape, &specs, fill).unwrap(), &shape);
        } else {
            continue;
        }
        seen += 1;
    }
    assert_eq!(seen, 6);
}
