//! Masks: gradient dropping and Synflow against reference values, SNIP on MNIST.

use epsilab::layers;
use epsilab::mask::{CoordinateSelector, Mask, Synflow};
use epsilab::nn::{Conv2dSpec, Flatten, LayerSpec, LinearSpec, MaxPool2dSpec, Network, Relu, Tanh};
use epsilab::prelude::*;
use serde_json::Value;

use crate::networks::{changed, data};
use crate::support::environment::home;
use crate::support::files::{PER_EXAMPLE, flat, json, path, turned};

/// A tensor of the reference in the lab's layout.
fn in_lab_layout(value: &Value) -> Vec<f64> {
    let values = flat(value);
    match (value[0].as_array(), value[0][0].as_array()) {
        (Some(row), None) => turned(&values, row.len()),
        _ => values,
    }
}

fn in_single_precision(value: &Value) -> Vec<f32> {
    in_lab_layout(value).into_iter().map(|value| value as f32).collect()
}

pub fn magnitude_selection_agrees_with_the_reference() -> Result<()> {
    let golden = json(PER_EXAMPLE);
    let known = &golden["gradient_drop_magnitude"];
    let cases = &golden["cases"];
    let case = cases.as_array().unwrap().iter().find(|case| case["name"] == known["uses"]).unwrap();
    let params = &case["params"];
    let linear = |inputs, outputs| LayerSpec::Linear(LinearSpec::new(inputs, outputs));
    let specs = [linear(5, 6), LayerSpec::Tanh, linear(6, 4), LayerSpec::Tanh, linear(4, 3)];
    let network = Network::build(&[5], &specs, |path, _, _| in_single_precision(&params[path]))?;
    let rule = Dropping::magnitude(known["rate"].as_f64().unwrap()).include_1d();
    let selected =
        CoordinateSelector::new(None, Some(rule), 1, [0; 32]).next_selection(&network)?.unwrap();
    for entry in selected.entries() {
        let theirs = in_single_precision(&known["mask"][&entry.path]);
        assert_eq!(entry.values, theirs, "{}", entry.path);
    }
    Ok(())
}

/// The number of weights that a mask keeps in each tensor.
fn count(mask: &Mask) -> Vec<usize> {
    mask.tensors().iter().map(|tensor| tensor.kept_count()).collect()
}

pub fn scores_and_masks_agree_with_the_reference() {
    let goldens = json(PER_EXAMPLE);
    let linear = |a, b| LinearSpec::new(a, b).without_bias();
    let conv = |a| Conv2dSpec::new(a, 3, 3).padding(1).without_bias();
    let networks = [
        (vec![5], layers![linear(5, 8), Tanh, linear(8, 6), linear(6, 3)]),
        (
            vec![2, 6, 6],
            // The reference has average pooling here, which replaces max pooling.
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
            let index = paths.iter().position(|other| other == path).unwrap();
            *values = in_single_precision(&case["weights"][name(index)]);
        });
        let total = case["R"].as_f64().unwrap();
        let saliency = Synflow::saliency(&model).unwrap();
        for (i, tensor) in saliency.tensors().iter().enumerate() {
            let theirs = in_lab_layout(&case["scores"][name(i)]);
            // The weights of the reference are f64, those of the lab are rounded to f32.
            for (a, b) in tensor.values.iter().zip(&theirs) {
                assert!((a - b).abs() < 1e-6 * total, "{a} {b}");
            }
            assert!((tensor.values.iter().sum::<f64>() / total - 1.0).abs() < 1e-6);
        }
        let mask = Synflow::keep(case["keep"].as_f64().unwrap()).mask(&model).unwrap();
        for (i, tensor) in mask.tensors().iter().enumerate() {
            let theirs: Vec<bool> =
                in_lab_layout(&case["mask"][name(i)]).iter().map(|&bit| bit == 1.0).collect();
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

/// Jaccard index with SNIP's mask at increasing epsilons and then without noise, for one clipping
/// norm.
fn overlaps(model: &Model, data: &Dataset, clip: f64) -> Result<Vec<f64>> {
    let snip = Snip::prune(0.7).mask(model, data)?;
    let method = DpSnip::prune(0.7).clip(clip).seed(5);
    let methods = [0.1, 0.3, 1.0, 3.0, 10.0].map(|e| method.epsilon_delta(Epsilon(e), Delta(1e-5)));
    let noiseless = method.noise_multiplier(1e-6);
    let all = methods.iter().chain([&noiseless]);
    all.map(|method| method.mask(model, data)?.jaccard(&snip)).collect()
}

pub fn on_mnist_the_overlap_with_snip_grows_with_epsilon() -> Result<()> {
    home();
    let data = data::mnist_in(path("datasets/mnist"))?.limit(10_000, 100);
    let model = models::papernot_cnn(&data).seed(1).build()?;
    let chance = 0.3 / 1.7;
    let default = overlaps(&model, &data, 0.2)?;
    let large = overlaps(&model, &data, 1.0)?;
    say!("Jaccard with SNIP, epsilon .1 .3 1 3 10 inf: clip .2 {default:.3?}, clip 1 {large:.3?}");
    assert!(default.is_sorted(), "{default:?}");
    assert!(
        default[0] < chance + 0.03,
        "at epsilon 0.1 the overlap is that of chance: {default:?}"
    );
    assert!(default[4] > 0.75 && default[5] > 0.9, "{default:?}");
    // A clip norm five times as large means five times as much noise.
    assert!(large[5] > 0.99 && (2..5).all(|i| large[i] < default[i] - 0.1), "{large:?}");
    Ok(())
}

/// The unit tests of SNIP compare with a copy of these values.
pub fn the_values_in_the_repository_are_those_of_the_reference() {
    let golden = json(PER_EXAMPLE);
    let text = include_str!("../data/snip_reference.json");
    let copy: Value = serde_json::from_str(text).expect("JSON");
    assert_eq!(copy["source"], golden["source"]);
    for (key, value) in golden["snip"].as_object().expect("an object") {
        assert_eq!(copy[key], *value, "{key}");
    }
}
