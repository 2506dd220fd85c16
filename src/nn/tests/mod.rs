mod clips;
mod layers;
mod lstm_clips;
mod sites;
mod stevens;
mod user_module;
mod zoo;

use std::fs;

use burn::optim::momentum::MomentumConfig;
use burn::optim::{AdamConfig, SgdConfig};

use super::*;
use crate::data::{self, Dataset};
use crate::engine::{self, Batch, ClipRule, Executor, TapExecutor};
use crate::{Error, ErrorKind};

/// Images of deterministic, scattered pixels whose brightness depends on the class.
fn images(n: usize, shape: &[usize], classes: usize) -> Dataset {
    let size: usize = shape.iter().product();
    let labels: Vec<u32> = (0..n).map(|i| (i % classes) as u32).collect();
    let pixel = |k: usize| {
        let scattered = ((k * 7919 + 13) % 1000) as f32 / 1000.0 - 0.5;
        scattered + labels[k / size] as f32 / classes as f32
    };
    let features = (0..n * size).map(pixel).collect();
    data::from_vecs(features, shape, labels.clone(), classes).unwrap()
}

/// Kind and text of the error that a result must be.
fn kind<T: std::fmt::Debug>(result: crate::Result<T>) -> (ErrorKind, String) {
    let error: Error = result.expect_err("this must fail");
    (error.kind(), error.to_string())
}

#[test]
fn papernot_cnn_has_26010_parameters_on_mnist_images() {
    let model = models::papernot_cnn(&images(2, &[1, 28, 28], 10)).seed(1).build().unwrap();
    assert_eq!(model.num_parameters(), 26_010);
    let each: Vec<usize> = model.layers().iter().map(|layer| layer.parameters).collect();
    assert_eq!(each, [1040, 0, 0, 8224, 0, 0, 0, 16_416, 0, 330]);
    let shapes: Vec<Vec<usize>> =
        model.layers().iter().map(|layer| layer.output_shape.clone()).collect();
    assert_eq!(shapes[0], [16, 14, 14]);
    assert_eq!(shapes[5], [32, 4, 4]);
    assert_eq!(shapes[9], [10]);
    let table = model.summary().to_string();
    assert_eq!(table.lines().count(), 12, "{table}");
    assert!(table.contains("0      Conv2d         [16, 14, 14]          1040"), "{table}");
}

#[test]
fn the_default_activation_is_tanh() {
    let data = images(2, &[1, 28, 28], 10);
    let kinds = |model: Model| model.layers().iter().map(|layer| layer.kind).collect::<Vec<_>>();
    let tanh = kinds(models::papernot_cnn(&data).seed(1).build().unwrap());
    let relu =
        kinds(models::papernot_cnn(&data).activation(Activation::Relu).seed(1).build().unwrap());
    assert_eq!(tanh.iter().filter(|kind| **kind == "Tanh").count(), 3);
    assert_eq!(relu.iter().filter(|kind| **kind == "Relu").count(), 3);
    assert!(!relu.contains(&"Tanh"));
}

#[test]
fn a_seed_determines_the_parameters_and_no_seed_gives_new_ones() {
    let data = images(2, &[5], 3);
    let values = |builder: ModelBuilder| {
        let model = builder.build().unwrap();
        model.network().values().into_iter().flat_map(|(_, v)| v).collect::<Vec<f32>>()
    };
    let one = values(models::mlp(&data, &[4]).seed(1));
    assert_eq!(one, values(models::mlp(&data, &[4]).seed(1)));
    assert_ne!(one, values(models::mlp(&data, &[4]).seed(2)));
    assert_ne!(values(models::mlp(&data, &[4])), values(models::mlp(&data, &[4])));
}

#[test]
fn initial_parameters_fill_the_range_of_their_fan_in() {
    let model = models::linear(&images(2, &[1, 28, 28], 10)).seed(3).build().unwrap();
    let bound = 1.0 / 28.0;
    for (parameter, values) in model.network().values() {
        let largest = values.iter().fold(0.0f32, |m, v| m.max(v.abs()));
        assert!(largest <= bound, "{} reaches {largest}", parameter.path);
        assert!(largest > 0.5 * bound, "{} only reaches {largest}", parameter.path);
    }
}

#[test]
fn data_of_the_wrong_shape_or_classes_is_refused_with_advice() {
    let (kind_, text) = kind(models::papernot_cnn(&images(2, &[5], 3)).seed(1).build());
    assert_eq!(kind_, ErrorKind::Model);
    assert!(text.contains("[5]") && text.contains("models::mlp"), "{text}");
    let (_, text) = kind(models::papernot_cnn(&images(2, &[1, 6, 6], 3)).seed(1).build());
    assert!(text.contains("14 x 14"), "{text}");
    let (_, text) = kind(models::mlp(&images(2, &[5], 3), &[0]).seed(1).build());
    assert!(text.contains("outputs = 0"), "{text}");
    let model = models::linear(&images(2, &[5], 3)).seed(1).build().unwrap();
    let (_, text) = kind(model.predict(&images(2, &[4], 3)));
    assert!(text.contains("[4]") && text.contains("[5]"), "{text}");
    let (_, text) = kind(model.loss(images(8, &[5], 4).train()));
    assert!(text.contains("class 3"), "{text}");
    let (_, text) = kind(model.accuracy(&images(2, &[5], 3)));
    assert!(text.contains("no test part"), "{text}");
}

#[test]
fn papernot_cnn_needs_images_of_at_least_14_by_14_pixels() {
    assert!(models::papernot_cnn(&images(2, &[3, 14, 14], 3)).seed(1).build().is_ok());
    assert!(models::papernot_cnn(&images(2, &[3, 13, 13], 3)).seed(1).build().is_err());
}

#[test]
fn cpu_kernels_match_burn_on_a_whole_network() {
    struct BurnOperations;
    impl Tape for BurnOperations {
        fn clip_upstream(&mut self, y: BatchTensor, _: &crate::nn::UpstreamClip) -> BatchTensor {
            y
        }

        fn use_cpu_kernels(&self) -> bool {
            false
        }
    }
    let data = images(7, &[2, 17, 15], 4);
    let model = models::papernot_cnn(&data).seed(5).build().unwrap();
    let features = data.train().features_flat().to_vec();
    let cpu = crate::device::host::tensor_to_vec(model.network().logits(features.clone(), 7));
    let x = BatchTensor::new(features, 7, &[2, 17, 15], &model.network().device());
    let burn = crate::device::host::tensor_to_vec(model.network().forward(x, &mut BurnOperations));
    for (a, b) in cpu.iter().zip(&burn) {
        assert!((a - b).abs() < 1e-6, "{a} {b}");
    }
}

#[test]
fn predictions_do_not_depend_on_the_chunks() {
    let data = images(1201, &[1, 4, 4], 3);
    let model = models::mlp(&data, &[8]).seed(1).build().unwrap();
    let all = model.predict(&data).unwrap();
    assert_eq!(all.len(), 1201);
    let first = model.predict_examples(&data.train().take(7)).unwrap();
    assert_eq!(first, all[..7]);
    let correct = all.iter().zip(data.train().labels()).filter(|(a, b)| a == b).count();
    assert_eq!(model.accuracy_of(data.train()).unwrap(), correct as f64 / 1201.0);
}

#[test]
fn ten_steps_of_sgd_or_adam_lower_the_loss() {
    let data = images(64, &[1, 14, 14], 4);
    let model = models::papernot_cnn(&data).seed(2).build().unwrap();
    let before = model.loss(data.train()).unwrap();
    let ids: Vec<u32> = (0..64).collect();
    let batch = Batch::from_examples(data.train(), &ids).unwrap();
    let momentum = MomentumConfig::new().with_momentum(0.9);
    let sgd = SgdConfig::new().with_momentum(Some(momentum)).init();
    for (mut optimizer, rate) in [(sgd, 0.1), (AdamConfig::new().init(), 0.01)] {
        let mut network = model.network().clone();
        for _ in 0..10 {
            let rule = ClipRule::unclipped();
            let mut sum = TapExecutor::default().clipped_sum(&network, &batch, &rule).unwrap().sum;
            sum.scale(1.0 / 64.0);
            network = engine::optimizer_step(&mut optimizer, rate, &network, &sum);
        }
        assert_eq!(network.trainable_ids(), model.network().trainable_ids());
        let after = model.with_network(network).loss(data.train()).unwrap();
        assert!(after < 0.9 * before, "the loss goes from {before} to {after}");
    }
}

#[test]
fn a_saved_model_is_loaded_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let data = images(9, &[1, 28, 28], 10);
    let model = models::papernot_cnn(&data).seed(4).build().unwrap();
    model.save(&path).unwrap();
    model.save(&path).unwrap();
    let back = models::load(&path).unwrap();
    assert_eq!(back.to_string(), model.to_string());
    assert_eq!(back.seed(), 4);
    let values = |model: &Model| {
        let all = model.network().values().into_iter();
        all.map(|(parameter, values)| (parameter.path, values)).collect::<Vec<_>>()
    };
    assert_eq!(values(&back), values(&model));
    assert_eq!(back.predict(&data).unwrap(), model.predict(&data).unwrap());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
}

/// A safetensors file with this metadata and one tensor.
fn write_file(path: &std::path::Path, metadata: Option<&str>, shape: &[usize]) {
    use safetensors::{Dtype, tensor::TensorView};
    let bytes = vec![0; shape.iter().product::<usize>() * 4];
    let view = TensorView::new(Dtype::F32, shape.to_vec(), &bytes).unwrap();
    let metadata = metadata.map(|text| [("epsilab".to_owned(), text.to_owned())].into());
    fs::write(path, safetensors::serialize([("0.weight", view)], metadata).unwrap()).unwrap();
}

#[test]
fn files_that_are_not_models_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let (kind_, text) = kind(models::load(&path));
    assert_eq!(kind_, ErrorKind::Io);
    assert!(text.contains("model.safetensors"), "{text}");

    fs::write(&path, b"not a safetensors file").unwrap();
    assert!(kind(models::load(&path)).1.contains("not a safetensors file"));
    write_file(&path, None, &[2, 3]);
    assert!(kind(models::load(&path)).1.contains("another program"));
    write_file(&path, Some("{}"), &[2, 3]);
    assert!(kind(models::load(&path)).1.contains("can't be read"));
    write_file(&path, Some(r#"{"format": 99}"#), &[2, 3]);
    assert!(kind(models::load(&path)).1.contains("update the lab"));

    let layer = r#"{"kind":"linear","inputs":2,"outputs":3,"bias":false}"#;
    let description = |layer: &str| {
        format!(
            r#"{{"format":1,"name":"x","input_shape":[2],"classes":3,"seed":1,"layers":[{layer}]}}"#
        )
    };
    write_file(&path, Some(&description(layer)), &[2, 3]);
    assert_eq!(models::load(&path).unwrap().num_parameters(), 6);
    write_file(&path, Some(&description(layer)), &[3, 2]);
    let (kind_, text) = kind(models::load(&path));
    assert_eq!(kind_, ErrorKind::Model);
    assert!(text.contains("0.weight") && text.contains("[2, 3]"), "{text}");
    write_file(&path, Some(&description(&layer.replace("false", "true"))), &[2, 3]);
    assert!(kind(models::load(&path)).1.contains("0.bias is missing"));
    write_file(&path, Some(&description(&layer.replace(":3", ":18446744073709551615"))), &[2, 3]);
    assert!(kind(models::load(&path)).1.contains("sizes of a Linear layer"));
    write_file(&path, Some(&description(&layer.replace("linear", "wormhole"))), &[2, 3]);
    assert!(kind(models::load(&path)).1.contains("can't be read"));
}

#[test]
fn a_truncated_model_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    models::linear(&images(2, &[5], 3)).seed(1).build().unwrap().save(&path).unwrap();
    let bytes = fs::read(&path).unwrap();
    for keep in [0, 7, 20, bytes.len() - 1] {
        fs::write(&path, &bytes[..keep]).unwrap();
        assert_eq!(kind(models::load(&path)).0, ErrorKind::Model, "{keep} bytes");
    }
}

#[test]
fn a_missing_folder_is_made_and_one_that_can_not_be_made_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let model = models::linear(&images(2, &[5], 3)).seed(1).build().unwrap();
    let file = folder.path().join("new").join("model");
    model.save(&file).unwrap();
    let (kind_, text) = kind(model.save(file.join("model")));
    assert_eq!(kind_, ErrorKind::Io);
    let file = file.display().to_string();
    assert!(text.contains(&file) && text.contains("a folder that you can write"), "{text}");
}

#[test]
fn a_file_with_a_non_finite_value_is_refused_with_the_path_of_the_parameter() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let model = models::linear(&images(2, &[5], 3)).seed(1).build().unwrap();
    for non_finite in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut values = vec![0.5; 15];
        values[3] = non_finite;
        let broken =
            model.network().with_values(|path| path.ends_with(".weight").then(|| values.clone()));
        model.with_network(broken).save(&path).unwrap();
        for refused in [models::load(&path), model.load_parameters(&path)] {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Model);
            let text = error.to_string();
            assert!(text.contains("value 4 of the parameter ") && text.contains(".weight"));
            assert!(text.contains(&non_finite.to_string()) && !error.advice().is_empty(), "{text}");
        }
    }
}

#[test]
fn the_error_for_a_missing_relative_path_names_the_current_folder() {
    let error = models::load("no/such/model.safetensors").unwrap_err();
    let here = std::env::current_dir().unwrap();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.advice().contains(&here.display().to_string()), "{error}");
}

#[cfg(unix)]
#[test]
fn a_pipe_is_refused_without_waiting_for_data() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    let name = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: a path that ends in a zero byte.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let (kind_, text) = kind(models::load(&path));
    assert!(kind_ == ErrorKind::Io && text.contains("not a regular file"), "{text}");
}
