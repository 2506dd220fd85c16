//! Synflow, compared with plain loops and with its conservation laws.

mod layers;
mod rounds;

use epsilab::burn::{self, module::Module, tensor::Tensor};
use epsilab::layers;
use epsilab::mask::{Mask, PrivacyStatus, Saliency, Synflow, dropped_count};
use epsilab::nn::{
    AvgPool2dSpec, Conv2dSpec, DropoutSpec, EmbeddingSpec, Flatten, Forward, GlobalAvgPool,
    GroupNormSpec, GroupSpec, LayerNormSpec, LayerSpec, Linear, LinearSpec, LstmSpec,
    MaxPool2dSpec, MeanOverTime, Relu, ResidualSpec, Standardisation, Tanh, Tape, VarianceGuard,
    ZeroPad2dSpec,
};
use epsilab::prelude::*;

use super::networks::{changed, data};

/// A model with initial weights, and with large biases and shifts, which Synflow must ignore.
fn model(shape: &[usize], classes: usize, layers: Vec<LayerSpec>) -> Model {
    let model = models::sequential(&data(shape, classes), layers).seed(1).build().unwrap();
    changed(&model, |path, values| {
        if path.ends_with("bias") || path.ends_with("beta") {
            values.fill(7.0);
        }
    })
}

fn scores<'a>(saliency: &'a Saliency, path: &str) -> &'a [f64] {
    &saliency.tensors().iter().find(|tensor| tensor.path == path).unwrap().values
}

/// The sum of the scores of one tensor.
fn sum(saliency: &Saliency, path: &str) -> f64 {
    scores(saliency, path).iter().sum()
}

/// The objective R, which is the sum of the scores of the last layer.
fn objective(model: &Model) -> f64 {
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
    mask.tensors().iter().map(|tensor| tensor.kept_count()).collect()
}

/// R is linear in each weight, so the score of a weight is the decrease of R without it.
fn assert_scores_are_decreases(model: &Model) {
    let saliency = Synflow::saliency(model).unwrap();
    let whole = objective(model);
    for tensor in saliency.tensors() {
        let n = tensor.values.len();
        for i in (0..n).step_by(n.div_ceil(7)) {
            let without = changed(model, |path, values| {
                if path == tensor.path {
                    values[i] = 0.0;
                }
            });
            let (score, lost) = (tensor.values[i], whole - objective(&without));
            let tolerance = 1e-11 * whole;
            assert!((score - lost).abs() < tolerance, "{} {i}: {score}, {lost}", tensor.path);
            assert!(score > 1e3 * tolerance, "too small to test: {} {i}", tensor.path);
        }
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
    let all = objective(&model);
    for path in ["stem.0.weight", "6.weight", "8.weight"] {
        assert!(close(sum(&saliency, path), all), "{path}");
    }
    // The flow through a residual block splits into body and shortcut.
    let body = sum(&saliency, "1.body.2.weight");
    assert!(close(body, sum(&saliency, "1.body.4.weight")));
    assert!(close(body + sum(&saliency, "1.shortcut.0.weight"), all));
    let part = sum(&saliency, "2.body.0.weight");
    assert!(0.01 * all < part && part < 0.99 * all);
    assert_scores_are_decreases(&model);
}

#[test]
fn scores_are_conserved_for_sequences() {
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
    assert_eq!(paths, ["0.weight", "3.weight", "5.weight"], "the LSTM is not scored");
    for path in paths {
        assert!(close(sum(&saliency, path), objective(&model)), "{path}");
    }
    assert_scores_are_decreases(&model);
}

#[test]
fn embeddings_and_lstms_are_not_pruned_as_the_origin_notes() {
    let data = data(&[6], 3);
    let model = models::bilstm(&data, 20, 4, 5).seed(2).build().unwrap();
    let mask = Synflow::keep(0.25).mask(&model).unwrap();
    let paths: Vec<&str> = mask.tensors().iter().map(|tensor| tensor.path.as_str()).collect();
    assert_eq!(paths, ["3.weight"]);
    assert_eq!((mask.len(), mask.kept_count()), (30, 30 - 22));
    let how = &mask.origin().method;
    assert!(how.contains("Embedding") && how.contains("Lstm"), "{how}");
    // The inputs of the last layer are ones, so its scores are its absolute weights.
    let weights =
        &model.network().values().into_iter().find(|(p, _)| p.path == "3.weight").unwrap();
    let absolute: Vec<f64> = weights.1.iter().map(|&w| f64::from(w).abs()).collect();
    assert_close(scores(&Synflow::saliency(&model).unwrap(), "3.weight"), &absolute);
    let none = model_of_tokens();
    let error = Synflow::keep(0.5).mask(&none).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Model);
    assert!(error.to_string().contains("no weights to prune"), "{error}");
}

/// A model without linear layers and convolutions.
fn model_of_tokens() -> Model {
    model(&[4], 3, layers![EmbeddingSpec::new(9, 3), MeanOverTime])
}

#[test]
fn the_mask_is_data_free_for_initial_parameters_only() {
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
fn scores_do_not_depend_on_the_number_of_threads() {
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

/// A user-defined module.
#[derive(Module, Debug)]
struct UserModule {
    map: Linear,
}

impl Forward for UserModule {
    fn forward(&self, x: nn::BatchTensor, tape: &mut dyn Tape) -> Tensor<2> {
        self.map.forward(x, tape).into_flat()
    }
}

#[test]
fn bad_settings_and_models_are_refused() {
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
    for (model, word) in [(zeros, "sum to 0"), (nan, "NaN")] {
        let error = Synflow::keep(0.5).mask(&model).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Model);
        assert!(error.to_string().contains(word), "{error}");
        assert!(error.advice().contains("RandomMask"), "{error}");
        assert!(Synflow::saliency(&model).is_err());
    }
    let large = changed(&model, |_, values| values.fill(f32::MAX));
    assert!(Synflow::keep(0.5).mask(&large).is_ok(), "R = 1e77 is finite in f64");
    let deep = models::mlp(&data, &[4; 9]).seed(3).build().unwrap();
    let deep = changed(&deep, |_, values| values.fill(f32::MAX));
    let error = Synflow::keep(0.5).mask(&deep).unwrap_err();
    assert!(error.to_string().contains("overflow"), "{error}");
    let map = Linear::new(LinearSpec::new(6, 3), 1).unwrap();
    let user_model = Model::custom("mine", UserModule { map }, &data).unwrap();
    let error = Synflow::keep(0.5).mask(&user_model).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Model);
    assert!(error.to_string().contains("mine"), "{error}");
    assert!(error.advice().contains("RandomMask"), "{error}");
}
