//! Synflow: against reference values, against plain loops, and against what it must conserve.

mod layers;

use std::path::PathBuf;

use epsilab::burn::{self, module::Module, tensor::Tensor};
use epsilab::layers;
use epsilab::mask::{Covered, Mask, Saliency, Synflow, dropped_of};
use epsilab::nn::{
    AvgPool2dSpec, Conv2dSpec, DropoutSpec, EmbeddingSpec, Flatten, Forward, GlobalAvgPool,
    GroupNormSpec, GroupSpec, Guard, LayerNormSpec, LayerSpec, Linear, LinearSpec, LstmSpec,
    MaxPool2dSpec, MeanOverTime, Network, Relu, ResidualSpec, Standardisation, Tanh, Tape,
};
use epsilab::prelude::*;
use serde_json::Value;

fn data(shape: &[usize], classes: usize) -> Dataset {
    let size: usize = shape.iter().product();
    let labels = (0..classes as u32).collect();
    data::from_vecs(vec![0.0; classes * size], shape, labels, classes).unwrap()
}

/// Fresh weights; biases and shifts that would show, were they not left out.
fn model(shape: &[usize], classes: usize, layers: Vec<LayerSpec>) -> Model {
    let model = models::sequential(&data(shape, classes), layers).seed(1).build().unwrap();
    changed(&model, |path, values| {
        if path.ends_with("bias") || path.ends_with("beta") {
            values.fill(7.0);
        }
    })
}

/// The model with other numbers.
fn changed(model: &Model, change: impl Fn(&str, &mut Vec<f32>)) -> Model {
    let network = model.network();
    let mut values = network.values().into_iter();
    let fill = |path: &str, _: &[usize], _: usize| {
        let mut numbers = values.next().unwrap().1;
        change(path, &mut numbers);
        numbers
    };
    model.with_network(Network::build(network.input_shape(), network.specs(), fill).unwrap())
}

fn scores<'a>(saliency: &'a Saliency, path: &str) -> &'a [f64] {
    &saliency.tensors().iter().find(|tensor| tensor.path == path).unwrap().values
}

/// Sum of the scores of one tensor.
fn sum(saliency: &Saliency, path: &str) -> f64 {
    scores(saliency, path).iter().sum()
}

/// R: everything passes through the last layer.
fn total(model: &Model) -> f64 {
    let saliency = Synflow::saliency(model).unwrap();
    saliency.tensors().last().unwrap().values.iter().sum()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-10 * a.abs().max(b.abs())
}

fn assert_close(a: &[f64], b: &[f64]) {
    assert_eq!(a.len(), b.len());
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        assert!(close(*a, *b), "at {i}: {a} and {b}");
    }
}

fn count(mask: &Mask) -> Vec<usize> {
    mask.tensors().iter().map(|tensor| tensor.count()).collect()
}

/// R is linear in each single weight, so a weight's score is exactly what R loses without it.
fn each_score_is_what_its_loss_costs(model: &Model) {
    let saliency = Synflow::saliency(model).unwrap();
    let whole = total(model);
    for tensor in saliency.tensors() {
        let n = tensor.values.len();
        for i in (0..n).step_by(n.div_ceil(7)) {
            let without = changed(model, |path, values| {
                if path == tensor.path {
                    values[i] = 0.0;
                }
            });
            let (score, lost) = (tensor.values[i], whole - total(&without));
            let room = 1e-11 * whole;
            assert!((score - lost).abs() < room, "{} {i}: {score}, {lost}", tensor.path);
            assert!(score > 1e3 * room, "a test that sees something: {} {i}", tensor.path);
        }
    }
}

fn goldens() -> Option<Value> {
    let root = std::env::var_os("EPSILAB_SHARED")
        .map(PathBuf::from)
        .unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared")));
    let path = root.join("goldens/per_example_grads.json");
    match std::fs::read_to_string(&path) {
        Ok(text) => Some(serde_json::from_str(&text).expect("the file is JSON")),
        Err(e) => {
            println!("skipped: {} can't be read ({e}); set EPSILAB_SHARED", path.display());
            None
        }
    }
}

/// Numbers of the file in our order: linear weights are `[outputs, inputs]` there.
fn ours(value: &Value) -> Vec<f64> {
    fn flat(value: &Value) -> Vec<f64> {
        match value {
            Value::Array(all) => all.iter().flat_map(flat).collect(),
            number => vec![number.as_f64().expect("a number")],
        }
    }
    let values = flat(value);
    match value[0][0].as_array() {
        Some(_) => values,
        None => {
            let inputs = value[0].as_array().unwrap().len();
            let outputs = values.len() / inputs;
            (0..values.len()).map(|k| values[k % outputs * inputs + k / outputs]).collect()
        }
    }
}

#[test]
fn scores_and_masks_are_those_of_the_reference() {
    let Some(goldens) = goldens() else { return };
    let linear = |a, b| LinearSpec::new(a, b).without_bias();
    let conv = |a| Conv2dSpec::new(a, 3, 3).padding(1).without_bias();
    let networks = [
        (vec![5], layers![linear(5, 8), Tanh, linear(8, 6), linear(6, 3)]),
        (
            vec![2, 6, 6],
            // The reference has averages there: so a maximum is one.
            layers![conv(2), Relu, conv(3), MaxPool2dSpec::new(2), Flatten, linear(27, 3)],
        ),
    ];
    let cases = goldens["synflow"]["cases"].as_array().unwrap();
    assert_eq!(cases.len(), networks.len());
    for (case, (shape, layers)) in cases.iter().zip(networks) {
        let name = |i: usize| format!("w{}", i + 1);
        let fresh = models::sequential(&data(&shape, 3), layers).seed(1).build().unwrap();
        let paths = fresh.network().paths();
        let model = changed(&fresh, |path, values| {
            let place = paths.iter().position(|other| other == path).unwrap();
            *values = ours(&case["weights"][name(place)]).iter().map(|&w| w as f32).collect();
        });
        let total = case["R"].as_f64().unwrap();
        let saliency = Synflow::saliency(&model).unwrap();
        for (i, tensor) in saliency.tensors().iter().enumerate() {
            let theirs = ours(&case["scores"][name(i)]);
            // Their weights are f64, ours have been rounded to f32.
            for (a, b) in tensor.values.iter().zip(&theirs) {
                assert!((a - b).abs() < 1e-6 * total, "{a} {b}");
            }
            assert!((tensor.values.iter().sum::<f64>() / total - 1.0).abs() < 1e-6);
        }
        let mask = Synflow::keep(case["keep"].as_f64().unwrap()).mask(&model).unwrap();
        for (i, tensor) in mask.tensors().iter().enumerate() {
            let theirs: Vec<bool> =
                ours(&case["mask"][name(i)]).iter().map(|&bit| bit == 1.0).collect();
            assert_eq!(tensor.kept, theirs, "{}", tensor.path);
        }
        let counts = |name: &str| -> Vec<usize> {
            let counts = case[name].as_array().unwrap().iter();
            counts.map(|count| count.as_u64().unwrap() as usize).collect()
        };
        assert_eq!(count(&mask), counts("kept_per_layer"));
        let once = Synflow::keep(case["keep"].as_f64().unwrap()).rounds(1).mask(&model).unwrap();
        assert_eq!(count(&once), counts("one_shot_kept_per_layer"));
        assert_eq!(count(&once), count(&saliency.keep(case["keep"].as_f64().unwrap()).unwrap()));
    }
}

#[test]
fn scores_are_conserved_in_every_layer() {
    let body = layers![
        GroupNormSpec::new(2, 4),
        Relu,
        Conv2dSpec::new(4, 8, 3).padding(1).stride(2).groups(2),
        Relu,
        Conv2dSpec::new(8, 6, 1)
    ];
    let shortcut = layers![Conv2dSpec::new(4, 6, 1).stride(2)];
    let model = model(
        &[3, 12, 10],
        3,
        layers![
            GroupSpec::new("stem", layers![Conv2dSpec::new(3, 4, 3), Tanh]),
            ResidualSpec::new(body).shortcut(shortcut),
            ResidualSpec::new(layers![Conv2dSpec::new(6, 6, 3).padding(1)]),
            MaxPool2dSpec::new(2),
            DropoutSpec::new(0.5),
            Flatten,
            LinearSpec::new(24, 5),
            LayerNormSpec::new(5),
            LinearSpec::new(5, 3),
        ],
    );
    let saliency = Synflow::saliency(&model).unwrap();
    let all = total(&model);
    for path in ["stem.0.weight", "6.weight", "8.weight"] {
        assert!(close(sum(&saliency, path), all), "{path}");
    }
    // What enters a residual block takes one way or the other.
    let body = sum(&saliency, "1.body.2.weight");
    assert!(close(body, sum(&saliency, "1.body.4.weight")));
    assert!(close(body + sum(&saliency, "1.shortcut.0.weight"), all));
    let part = sum(&saliency, "2.body.0.weight");
    assert!(0.01 * all < part && part < 0.99 * all);
    each_score_is_what_its_loss_costs(&model);
}

#[test]
fn sequences_pass_linear_maps_and_means() {
    let layers = layers![
        LinearSpec::new(3, 4),
        LayerNormSpec::new(4),
        LstmSpec::new(4, 5).bidirectional(),
        LinearSpec::new(10, 6),
        MeanOverTime,
        LinearSpec::new(6, 2)
    ];
    let model = model(&[7, 3], 2, layers);
    let saliency = Synflow::saliency(&model).unwrap();
    let paths: Vec<&str> = saliency.tensors().iter().map(|t| t.path.as_str()).collect();
    assert_eq!(paths, ["0.weight", "3.weight", "5.weight"], "no word of the LSTM");
    for path in paths {
        assert!(close(sum(&saliency, path), total(&model)), "{path}");
    }
    each_score_is_what_its_loss_costs(&model);
}

#[test]
fn embeddings_and_memories_are_trained_in_full_and_the_mask_says_so() {
    let data = data(&[6], 3);
    let model = models::bilstm(&data, 20, 4, 5).seed(2).build().unwrap();
    let mask = Synflow::keep(0.25).mask(&model).unwrap();
    let paths: Vec<&str> = mask.tensors().iter().map(|tensor| tensor.path.as_str()).collect();
    assert_eq!(paths, ["3.weight"]);
    assert_eq!((mask.len(), mask.kept()), (30, 30 - 22));
    let how = &mask.origin().how;
    assert!(how.contains("Embedding") && how.contains("Lstm"), "{how}");
    // Ones enter the last layer, so its scores are its absolute values.
    let weights =
        &model.network().values().into_iter().find(|(p, _)| p.path == "3.weight").unwrap();
    let absolute: Vec<f64> = weights.1.iter().map(|&w| f64::from(w).abs()).collect();
    assert_close(scores(&Synflow::saliency(&model).unwrap(), "3.weight"), &absolute);
    let none = model_of_tokens();
    let error = Synflow::keep(0.5).mask(&none).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Model);
    assert!(error.to_string().contains("nothing that it could prune"), "{error}");
}

/// A model without any linear layer or convolution.
fn model_of_tokens() -> Model {
    model(&[4], 3, layers![EmbeddingSpec::new(9, 3), MeanOverTime])
}

#[test]
fn a_deep_chain_overflows_f32_and_is_pruned_to_one_in_a_hundred() {
    let mut layers = layers![LinearSpec::new(16, 128)];
    for _ in 0..49 {
        layers.extend(layers![Tanh, LinearSpec::new(128, 128)]);
    }
    layers.extend(layers![Tanh, LinearSpec::new(128, 10)]);
    let model = model(&[16], 10, layers);
    let all = total(&model);
    assert!(all > f64::from(f32::MAX), "R = {all:e}");
    let mask = Synflow::keep(0.01).mask(&model).unwrap();
    let weights = 16 * 128 + 49 * 128 * 128 + 1280;
    assert_eq!((mask.len(), mask.kept()), (weights, weights - dropped_of(0.99, weights)));
    assert!(count(&mask).into_iter().all(|kept| kept > 1), "{:?}", count(&mask));
    assert!(mask.collapsed().is_empty());
    // Something still flows: through the kept weights alone the scores can be taken.
    assert!(total(&mask.apply(&model).unwrap()) > 0.0);
}

#[test]
fn one_cut_collapses_layers_that_many_cuts_keep() {
    // Wide layers have small scores: a single cut takes nearly all of them.
    let layers = layers![
        LinearSpec::new(6, 200),
        Tanh,
        LinearSpec::new(200, 200),
        Tanh,
        LinearSpec::new(200, 3)
    ];
    let model = model(&[6], 3, layers);
    let once = Synflow::keep(0.005).rounds(1).mask(&model).unwrap();
    let gradually = Synflow::keep(0.005).mask(&model).unwrap();
    assert_eq!(once.kept(), gradually.kept(), "{:?} {:?}", count(&once), count(&gradually));
    assert_eq!(once.collapsed(), ["0.weight", "2.weight"], "{:?}", count(&once));
    assert!(gradually.collapsed().is_empty(), "{:?}", count(&gradually));
    assert!(total(&gradually.apply(&model).unwrap()) > 0.0);
    // What is left by one cut leads nowhere, and the mask says so.
    assert!(once.origin().how.contains("nothing flows"), "{}", once.origin().how);
    assert!(!gradually.origin().how.contains("flow "), "{}", gradually.origin().how);
    assert!(Synflow::saliency(&once.apply(&model).unwrap()).is_err());
    // Another round can't be made from there.
    let error = Synflow::keep(0.005 * 0.005).rounds(2).mask(&model).unwrap_err();
    assert!(error.to_string().contains("use more rounds"), "{error}");
}

#[test]
fn resnet_50_keeps_weights_everywhere_at_one_in_a_hundred() {
    let model = models::resnet50(&data(&[3, 16, 16], 10)).seed(1).build().unwrap();
    let mask = Synflow::keep(0.01).rounds(10).mask(&model).unwrap();
    let weights = mask.len();
    assert!(weights > 23_000_000);
    assert_eq!(mask.kept(), weights - dropped_of(0.99, weights));
    assert_eq!(mask.tensors().len(), 54);
    assert!(count(&mask).into_iter().all(|kept| kept > 0));
    // Nearly everything flows through the bodies: each layer multiplies what comes in, and
    // nothing is normalised. So a shortcut may be left with one weight, but no other layer.
    let thin = mask.collapsed();
    assert!(thin.iter().all(|path| path.contains("shortcut")), "{thin:?}");
    assert!(mask.origin().how.contains("10 rounds"), "{}", mask.origin().how);
}

#[test]
fn the_scores_of_the_last_cut_come_with_the_mask() {
    let model = models::mlp(&data(&[6], 3), &[9, 7]).seed(3).build().unwrap();
    let mask = Synflow::keep(0.3).mask(&model).unwrap();
    let saliency = mask.saliency().unwrap();
    let (mut smallest, mut largest, mut none) = (f64::INFINITY, 0.0f64, 0);
    for (tensor, scores) in mask.tensors().iter().zip(saliency.tensors()) {
        assert_eq!(tensor.path, scores.path);
        for (&kept, &score) in tensor.kept.iter().zip(&scores.values) {
            match kept {
                true => smallest = smallest.min(score),
                false => largest = largest.max(score),
            }
            none += usize::from(score == 0.0);
        }
    }
    assert!(0.0 < largest && largest <= smallest, "{largest} {smallest}");
    assert!(none > 0 && none < mask.len() - mask.kept(), "{none}");
    // The same scores give the same mask.
    assert_eq!(saliency.keep(0.3).unwrap().jaccard(&mask).unwrap(), 1.0);
}

#[test]
fn the_mask_is_data_free_for_fresh_parameters_only() {
    let data = data(&[6], 3);
    let fresh = models::mlp(&data, &[9]).seed(3).build().unwrap();
    let mask = Synflow::keep(0.5).mask(&fresh).unwrap();
    assert_eq!(mask.origin().covered, [Covered::DataFree]);
    assert_eq!(mask.origin().how, "Synflow, 50 % dropped");
    assert_eq!(mask.fingerprint(), Synflow::keep(0.5).mask(&fresh).unwrap().fingerprint());
    let trained = fresh.with_network(fresh.network().clone());
    let mask = Synflow::keep(0.5).mask(&trained).unwrap();
    assert!(matches!(mask.origin().covered[..], [Covered::Assumption(_)]));
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let model = models::wide_resnet(&data(&[3, 8, 8], 10), 10, 1).seed(1).build().unwrap();
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| Synflow::saliency(&model).unwrap())
    };
    let one = with(1);
    for threads in [2, 3, 8] {
        assert_eq!(one.tensors(), with(threads).tensors(), "{threads} threads");
    }
}

#[test]
fn rates_that_ask_for_everything_or_nothing() {
    let model = models::mlp(&data(&[6], 3), &[9, 7]).seed(3).build().unwrap();
    let all = Synflow::prune(0.0).mask(&model).unwrap();
    assert_eq!(all.kept(), all.len());
    assert!(all.saliency().unwrap().tensors().iter().all(|t| t.values.iter().all(|&s| s > 0.0)));
    // The last weight of each tensor stays, and they lie in one chain.
    let least = Synflow::prune(0.999).mask(&model).unwrap();
    assert_eq!(count(&least), [1, 1, 1]);
    assert_eq!(least.collapsed().len(), 3);
    assert!(total(&least.apply(&model).unwrap()) > 0.0);
}

#[test]
fn a_cut_that_stops_the_flow_is_undone() {
    let mut undone = 0;
    for seed in 0..20 {
        let model = models::mlp(&data(&[6], 3), &[9, 7]).seed(seed).build().unwrap();
        for (rounds, rate) in [(2, 0.98), (3, 0.98), (2, 0.95)] {
            let recipe = Synflow::prune(rate).rounds(rounds);
            let mask = match recipe.mask(&model) {
                Ok(mask) => mask,
                Err(e) => {
                    assert!(e.to_string().contains("more rounds"), "{e}");
                    continue;
                }
            };
            assert!(total(&mask.apply(&model).unwrap()) > 0.0, "{recipe:?}");
            let exact = mask.kept() == mask.len() - dropped_of(rate, mask.len());
            let said = mask.origin().how.contains("stopped at");
            assert_eq!(exact, !said, "{recipe:?} {mask}");
            undone += usize::from(said);
            // It comes with scores of its own.
            let scores = mask.saliency().unwrap().tensors();
            let apart = mask.tensors().iter().zip(scores).flat_map(|(kept, scores)| {
                kept.kept.iter().zip(&scores.values).filter(|&(&kept, &score)| !kept && score > 0.0)
            });
            assert!(!said || apart.count() == 0, "{recipe:?}");
        }
    }
    println!("{undone} undone");
    assert!(undone > 2);
}

/// A module of the user's own.
#[derive(Module, Debug)]
struct Mine {
    map: Linear,
}

impl Forward for Mine {
    fn forward(&self, x: nn::Value, tape: &mut dyn Tape) -> Tensor<2> {
        self.map.forward(x, tape).flat()
    }
}

#[test]
fn bad_settings_and_models_are_refused_with_advice() {
    let data = data(&[6], 3);
    let model = models::mlp(&data, &[4]).seed(3).build().unwrap();
    for rate in [-0.1, 1.0, f64::NAN] {
        let error = Synflow::prune(rate).mask(&model).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Setting, "{error}");
    }
    for rounds in [0, 1_000_000] {
        let error = Synflow::keep(0.5).rounds(rounds).mask(&model).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Setting);
        assert!(error.to_string().contains("rounds"), "{error}");
    }
    let zeros = changed(&model, |path, values| {
        if path == "0.weight" {
            values.fill(0.0);
        }
    });
    let nan = changed(&model, |path, values| {
        if path == "0.weight" {
            values[0] = f32::NAN;
        }
    });
    for (model, word) in [(zeros, "add up to 0"), (nan, "NaN")] {
        let error = Synflow::keep(0.5).mask(&model).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Model);
        assert!(error.to_string().contains(word), "{error}");
        assert!(error.advice().contains("RandomMask"), "{error}");
        assert!(Synflow::saliency(&model).is_err());
    }
    let large = changed(&model, |_, values| values.fill(f32::MAX));
    assert!(Synflow::keep(0.5).mask(&large).is_ok(), "R = 1e77 is no trouble");
    let deep = models::mlp(&data, &[4; 9]).seed(3).build().unwrap();
    let deep = changed(&deep, |_, values| values.fill(f32::MAX));
    let error = Synflow::keep(0.5).mask(&deep).unwrap_err();
    assert!(error.to_string().contains("overflow"), "{error}");
    let map = Linear::new(LinearSpec::new(6, 3), 1).unwrap();
    let own = Model::custom("mine", Mine { map }, &data).unwrap();
    let error = Synflow::keep(0.5).mask(&own).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Model);
    assert!(error.to_string().contains("mine"), "{error}");
    assert!(error.advice().contains("RandomMask"), "{error}");
}
