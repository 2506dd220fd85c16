//! Synflow: against reference values, against plain loops, and against what it must conserve.

mod cuts;
mod layers;

use epsilab::burn::{self, module::Module, tensor::Tensor};
use epsilab::layers;
use epsilab::mask::{Mask, PrivacyStatus, Saliency, Synflow, dropped_of};
use epsilab::nn::{
    AvgPool2dSpec, Conv2dSpec, DropoutSpec, EmbeddingSpec, Flatten, Forward, GlobalAvgPool,
    GroupNormSpec, GroupSpec, Guard, LayerNormSpec, LayerSpec, Linear, LinearSpec, LstmSpec,
    MaxPool2dSpec, MeanOverTime, Network, Relu, ResidualSpec, Standardisation, Tanh, Tape,
};
use epsilab::prelude::*;
use serde_json::Value;

use super::shared::{flat, goldens, turned};

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

/// Weights of the reference in our order.
fn ours(value: &Value) -> Vec<f64> {
    let values = flat(value);
    match value[0][0].as_array() {
        Some(_) => values,
        None => turned(&values, value[0].as_array().unwrap().len()),
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
    let how = &mask.origin().method;
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
fn the_mask_is_data_free_for_fresh_parameters_only() {
    let data = data(&[6], 3);
    let fresh = models::mlp(&data, &[9]).seed(3).build().unwrap();
    let mask = Synflow::keep(0.5).mask(&fresh).unwrap();
    assert_eq!(mask.origin().privacy, [PrivacyStatus::DataFree]);
    assert_eq!(mask.origin().method, "Synflow, 50 % dropped");
    assert_eq!(mask.fingerprint(), Synflow::keep(0.5).mask(&fresh).unwrap().fingerprint());
    let trained = fresh.with_network(fresh.network().clone());
    let mask = Synflow::keep(0.5).mask(&trained).unwrap();
    assert!(matches!(mask.origin().privacy[..], [PrivacyStatus::Assumption(_)]));
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
