//! Reference values from PyTorch.

use epsilab::burn::prelude::Device;
use epsilab::engine::{Batch, ClipRule, ClippedSum, CoordinateWeights, Executor, Gradients};
use epsilab::nn::LayerSpec;
use serde_json::Value;

use super::files::{PER_EXAMPLE, are_required, json, path};
use super::golden_networks::{GoldenNetwork, Layout, flat, golden_network, labels, linear};
use super::{assert_selected, distance, executors, to_device, tolerance, weights_on};

/// The reference values, or `None` where they are missing and need not be there.
fn goldens() -> Option<Value> {
    let path = path(PER_EXAMPLE);
    if !path.exists() && !are_required() {
        println!("skipped: {} is missing; set EPSILAB_SHARED", path.display());
        return None;
    }
    Some(json(PER_EXAMPLE))
}

/// Ten times the tolerance of the random networks, because the reference values are rounded too.
fn bound(device: &Device) -> f64 {
    (10.0 * tolerance(device)).min(1e-2)
}

#[track_caller]
fn assert_sum(name: &str, got: &ClippedSum, known: &GoldenNetwork, want: &Value, bound: f64) {
    for entry in &got.sum.entries {
        let off = distance(&entry.values, &known.read(want, &entry.path, &entry.shape), 0.0);
        assert!(off < bound, "{name}: the sum of {} is off by {off:.1e}", entry.path);
    }
}

pub fn sums_and_norms_agree_with_pytorch(device: &Device) {
    let Some(goldens) = goldens() else { return };
    let cases = goldens["cases"].as_array().expect("a list of cases");
    for case in cases {
        let name = case["name"].as_str().expect("a name");
        let known =
            golden_network(name).unwrap_or_else(|| panic!("no network is known for {name}"));
        let network = known.network(&case["params"]);
        let batch = Batch::new(flat(&case["x"]), &known.shape, labels(case)).unwrap();
        let weights = known.weights(&network);
        let rule = ClipRule::flat(case["C"].as_f64().unwrap());
        let (network, bound) = (to_device(&network, device), bound(device));
        for (how, executor) in executors() {
            let name = format!("{name}, {how}");
            let got = executor.weighted_sum(&network, &batch, &rule, weights.as_ref()).unwrap();
            assert!(distance(&got.losses, &flat(&case["loss"]), 0.0) < bound, "{name}: losses");
            assert!(distance(&got.norms, &flat(&case["norms"]), 0.0) < bound, "{name}: norms");
            assert_sum(&name, &got, &known, &case["clipped_sum"], bound);
        }
    }
    assert_eq!(cases.len(), 10);
}

pub fn copies_are_averaged_before_clipping(device: &Device) {
    let Some(goldens) = goldens() else { return };
    let case = &goldens["augmentation_multiplicity"];
    let known = golden_network("linear").unwrap();
    let network = to_device(&known.network(&case["params"]), device);
    let batch = Batch::with_copies(flat(&case["x"]), &[5], labels(case), 3).unwrap();
    let rule = ClipRule::flat(case["C"].as_f64().unwrap());
    for (name, executor) in executors() {
        let got = executor.clipped_sum(&network, &batch, &rule).unwrap();
        assert!(distance(&got.norms, &flat(&case["norms"]), 0.0) < bound(device), "{name}");
        assert_sum(name, &got, &known, &case["clipped_sum"], bound(device));
    }
}

pub fn a_mask_applies_to_norm_and_sum(device: &Device) {
    let Some(goldens) = goldens() else { return };
    let case = &goldens["gradient_drop_magnitude"];
    let uses = goldens["cases"].as_array().unwrap().iter().find(|c| c["name"] == case["uses"]);
    let data = uses.expect("the referenced case");
    let known = golden_network("mlp_tanh").unwrap();
    let network = known.network(&data["params"]);
    let batch = Batch::new(flat(&data["x"]), &known.shape, labels(data)).unwrap();
    let mut mask = Gradients::zeros_like(&network);
    for entry in &mut mask.entries {
        entry.values = known.read(&case["mask"], &entry.path, &entry.shape).into();
    }
    let mask = CoordinateWeights::new(&network, mask).unwrap();
    let rule = ClipRule::flat(case["C"].as_f64().unwrap());
    let network = to_device(&network, device);
    for mask in [weights_on(&network, &mask, device), mask] {
        for (name, executor) in executors() {
            let got = executor.weighted_sum(&network, &batch, &rule, Some(&mask)).unwrap();
            assert!(distance(&got.norms, &flat(&case["norms"]), 0.0) < bound(device), "{name}");
            assert_sum(name, &got, &known, &case["clipped_sum"], bound(device));
            assert_selected(&got, &mask, name);
        }
    }
}

pub fn squared_parameters_as_weights_agree_with_pytorch(device: &Device) {
    let Some(goldens) = goldens() else { return };
    let case = &goldens["snip"];
    let specs = vec![linear(5, 6, true), LayerSpec::Tanh, linear(6, 3, true)];
    let known = GoldenNetwork::new(&[5], specs);
    let network = known.network(&case["params"]);
    let batch = Batch::new(flat(&case["x"]), &[5], labels(case)).unwrap();
    let mut squares = Gradients::zeros_like(&network);
    for (entry, (_, values)) in squares.entries.iter_mut().zip(network.values()) {
        let bias = entry.path.ends_with("bias");
        entry.values = values.iter().map(|v| if bias { 0.0 } else { v * v }).collect();
    }
    let squares = CoordinateWeights::new(&network, squares).unwrap();
    let rule = ClipRule::flat(case["C"].as_f64().unwrap());
    let want = flat(&case["clipped_sum"]);
    let values = network.values();
    let network = to_device(&network, device);
    for squares in [weights_on(&network, &squares, device), squares] {
        for (name, executor) in executors() {
            let got = executor.weighted_sum(&network, &batch, &rule, Some(&squares)).unwrap();
            assert!(distance(&got.norms, &flat(&case["norms"]), 0.0) < bound(device), "{name}");
            assert_selected(&got, &squares, name);
            // The reference sum is of θ ⊙ g, layer by layer, in its own layout.
            let mut at = 0;
            let all = got.sum.entries.iter().zip(&values);
            for (entry, (_, values)) in all.filter(|(entry, _)| entry.shape.len() == 2) {
                let scaled: Vec<f32> =
                    entry.values.iter().zip(values).map(|(g, v)| g * v).collect();
                let theirs = Layout::Transposed.of(&want[at..at + scaled.len()], &entry.shape);
                assert!(distance(&scaled, &theirs, 0.0) < bound(device), "{name}: {}", entry.path);
                at += scaled.len();
            }
            assert_eq!(at, want.len());
        }
    }
}
