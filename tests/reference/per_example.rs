//! All executors against reference values from PyTorch.

use epsilab::engine::{Batch, ClipRule, ClippedSum, CoordinateWeights, Executor, Gradients};
use epsilab::nn::{LayerSpec, Network};
use serde_json::Value;

use crate::compare::{distance, single_example};
use crate::executors::all;
use crate::golden_networks::{GoldenNetwork, Layout, flat, golden_network, labels, linear};
use crate::support::files::{PER_EXAMPLE, json};

#[track_caller]
fn assert_sum(name: &str, got: &ClippedSum, golden: &GoldenNetwork, want: &Value) {
    for entry in &got.sum.entries {
        let off = distance(&entry.values, &golden.read(want, &entry.path, &entry.shape), 0.0);
        assert!(off < 1e-4, "{name}: the sum of {} is off by {off:.1e}", entry.path);
    }
}

/// Compares each example's gradient and norms, parameter by parameter.
fn assert_each_example(
    name: &str,
    executor: &dyn Executor,
    golden: &GoldenNetwork,
    network: &Network,
    case: &Value,
    batch: &Batch,
) {
    let weights = golden.weights(network);
    for i in 0..batch.len() {
        let (one, rule) = (single_example(batch, i), ClipRule::unclipped());
        let got = executor.weighted_sum(network, &one, &rule, weights.as_ref()).unwrap();
        let mut squares = std::collections::BTreeMap::<&str, f64>::new();
        for entry in &got.sum.entries {
            let (theirs, layout) = golden.find(&entry.path, &entry.shape);
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

pub fn every_executor_agrees_with_pytorch() {
    let goldens = json(PER_EXAMPLE);
    let cases = goldens["cases"].as_array().expect("a list of cases");
    for case in cases {
        let name = case["name"].as_str().expect("a name");
        let golden =
            golden_network(name).unwrap_or_else(|| panic!("no network is known for {name}"));
        let network = golden.network(&case["params"]);
        let theirs: std::collections::BTreeSet<&str> = network
            .parameters()
            .iter()
            .map(|p| golden.find(&p.path, &p.shape).0.to_owned().leak() as &str)
            .collect();
        assert_eq!(theirs.len(), case["params"].as_object().unwrap().len(), "{name}");
        let batch = Batch::new(flat(&case["x"]), &golden.shape, labels(case)).unwrap();
        let weights = golden.weights(&network);
        let rule = ClipRule::flat(case["C"].as_f64().unwrap());
        for (executor_name, executor) in all() {
            let name = format!("{name}, {executor_name}");
            let got = executor.weighted_sum(&network, &batch, &rule, weights.as_ref()).unwrap();
            assert!(distance(&got.losses, &flat(&case["loss"]), 0.0) < 1e-4, "{name}: losses");
            assert!(distance(&got.norms, &flat(&case["norms"]), 0.0) < 1e-4, "{name}: norms");
            assert_sum(&name, &got, &golden, &case["clipped_sum"]);
            let gamma = case["gamma"].as_f64().unwrap();
            let auto_s = ClipRule::AutoS { max_grad_norm: 1.0, gamma };
            let got = executor.weighted_sum(&network, &batch, &auto_s, weights.as_ref()).unwrap();
            assert_sum(&name, &got, &golden, &case["auto_sum"]);
            assert_each_example(&name, &*executor, &golden, &network, case, &batch);
        }
    }
    assert_eq!(cases.len(), 10);
}

pub fn copies_are_averaged_before_clipping() {
    let goldens = json(PER_EXAMPLE);
    let case = &goldens["augmentation_multiplicity"];
    let golden = golden_network("linear").unwrap();
    let network = golden.network(&case["params"]);
    let batch = Batch::with_copies(flat(&case["x"]), &[5], labels(case), 3).unwrap();
    let rule = ClipRule::flat(case["C"].as_f64().unwrap());
    for (name, executor) in all() {
        let got = executor.clipped_sum(&network, &batch, &rule).unwrap();
        assert!(distance(&got.norms, &flat(&case["norms"]), 0.0) < 1e-4, "{name}");
        assert_sum(name, &got, &golden, &case["clipped_sum"]);
        // Clipping each copy before averaging gives a different sum.
        let labels = batch.labels().iter().flat_map(|&label| [label; 3]).collect();
        let each = Batch::new(flat(&case["x"]), &[5], labels).unwrap();
        let mut wrong = executor.clipped_sum(&network, &each, &rule).unwrap().sum;
        wrong.scale(1.0 / 3.0);
        let want = golden.read(&case["clipped_sum"], "0.weight", &[5, 3]);
        assert!(distance(&wrong.entries[0].values, &want, 0.0) > 1e-2, "{name}");
    }
}

pub fn a_mask_applies_to_the_norm_and_to_the_sum() {
    let goldens = json(PER_EXAMPLE);
    let case = &goldens["gradient_drop_magnitude"];
    let uses = goldens["cases"].as_array().unwrap().iter().find(|c| c["name"] == case["uses"]);
    let data = uses.expect("the case that this case refers to");
    let golden = golden_network("mlp_tanh").unwrap();
    let network = golden.network(&data["params"]);
    let batch = Batch::new(flat(&data["x"]), &golden.shape, labels(data)).unwrap();
    let mut mask = Gradients::zeros_like(&network);
    for entry in &mut mask.entries {
        entry.values = golden.read(&case["mask"], &entry.path, &entry.shape).into();
    }
    let mask = CoordinateWeights::new(&network, mask).unwrap();
    let rule = ClipRule::flat(case["C"].as_f64().unwrap());
    for (name, executor) in all() {
        let got = executor.weighted_sum(&network, &batch, &rule, Some(&mask)).unwrap();
        assert!(distance(&got.norms, &flat(&case["norms"]), 0.0) < 1e-4, "{name}");
        assert_sum(name, &got, &golden, &case["clipped_sum"]);
        for (entry, weights) in got.sum.entries.iter().zip(mask.entries()) {
            let dropped = entry.values.iter().zip(&weights.values).filter(|(_, w)| **w == 0.0);
            assert!(dropped.clone().count() > 0 && dropped.clone().all(|(v, _)| *v == 0.0));
        }
        // The norms over all coordinates are different.
        let wrong = executor.clipped_sum(&network, &batch, &rule).unwrap();
        assert!(distance(&wrong.norms, &flat(&case["norms"]), 0.0) > 1e-2, "{name}");
    }
}

pub fn squared_parameters_as_weights_give_the_norm_of_connection_sensitivities() {
    let goldens = json(PER_EXAMPLE);
    let case = &goldens["snip"];
    let specs = vec![linear(5, 6, true), LayerSpec::Tanh, linear(6, 3, true)];
    let golden = GoldenNetwork::new(&[5], specs);
    let network = golden.network(&case["params"]);
    let batch = Batch::new(flat(&case["x"]), &[5], labels(case)).unwrap();
    // Weights only; biases have weight 0.
    let mut squares = Gradients::zeros_like(&network);
    for (entry, (_, values)) in squares.entries.iter_mut().zip(network.values()) {
        let bias = entry.path.ends_with("bias");
        entry.values = values.iter().map(|v| if bias { 0.0 } else { v * v }).collect();
    }
    let squares = CoordinateWeights::new(&network, squares).unwrap();
    assert!(squares.is_zero_tensor(1) && !squares.is_zero_tensor(0));
    let rule = ClipRule::flat(case["C"].as_f64().unwrap());
    let want = flat(&case["clipped_sum"]);
    for (name, executor) in all() {
        let got = executor.weighted_sum(&network, &batch, &rule, Some(&squares)).unwrap();
        assert!(distance(&got.norms, &flat(&case["norms"]), 0.0) < 1e-4, "{name}");
        // The file has the sum of θ ⊙ g as one vector, in PyTorch's layout.
        let mut offset = 0;
        for (entry, (_, values)) in got.sum.entries.iter().zip(network.values()) {
            if entry.path.ends_with("bias") {
                assert!(entry.values.iter().all(|&v| v == 0.0));
                continue;
            }
            let scaled: Vec<f32> = entry.values.iter().zip(&values).map(|(g, v)| g * v).collect();
            let theirs = Layout::Transposed.of(&want[offset..offset + scaled.len()], &entry.shape);
            assert!(distance(&scaled, &theirs, 0.0) < 1e-4, "{name}: {}", entry.path);
            offset += scaled.len();
        }
    }
}
