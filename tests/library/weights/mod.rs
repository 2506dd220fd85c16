//! Weights of other libraries: `make_fixtures.py` writes the files with PyTorch, timm and JAX.

mod checkpoints;
mod hostile;
mod logits;
mod names;

use std::path::{Path, PathBuf};

use epsilab::data::{self, Dataset};
use epsilab::nn::{Model, ModelBuilder, WeightLayout, models};
use epsilab::{Error, ErrorKind, Result};

use crate::support::environment::home;

/// A file of this folder.
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/weights").join(name)
}

/// A new folder, which is removed at the end of the program.
fn folder() -> PathBuf {
    tempfile::tempdir_in(home()).unwrap().keep()
}

/// Two images that `make_fixtures.py` makes by the same formula.
fn images(size: [usize; 2], classes: usize) -> Dataset {
    let shape = [3, size[0], size[1]];
    let count = 2 * shape.iter().product::<usize>();
    let features = (0..count).map(|i| (i * 7919 % 1009) as f32 / 504.5 - 1.0).collect();
    data::from_vecs(features, &shape, vec![0, 1], classes).unwrap()
}

/// The network of `bit.safetensors`, except for its parameters.
fn bit(data: &Dataset) -> ModelBuilder<models::Resnet> {
    models::bit_resnet(data, &[2, 1], 1).base_channels(8).norm_groups(4).seed(1)
}

/// The network of `wrn.safetensors`, except for its parameters.
fn wrn(data: &Dataset) -> ModelBuilder<models::WideResnet> {
    models::wide_resnet(data, 10, 1).as_published().seed(1)
}

/// The error of loading a file into the model of `bit.safetensors`.
#[track_caller]
fn refused(path: &Path, layout: &WeightLayout) -> Error {
    let model = bit(&images([20, 20], 5)).build().unwrap();
    let error = model.load_weights(path, layout).unwrap_err();
    assert!(!error.advice().is_empty(), "{error}");
    error
}

/// Asserts the kind of an error, and that its text has these words.
#[track_caller]
fn assert_says(error: &Error, kind: ErrorKind, words: &[&str]) {
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "{word:?} is not in: {error}");
    }
}

/// Writes tensors with f32 values as a safetensors file.
fn write(path: &Path, tensors: &[(String, Vec<usize>, Vec<f32>)]) {
    use safetensors::tensor::{Dtype, TensorView, serialize};
    let bytes: Vec<Vec<u8>> = tensors
        .iter()
        .map(|(_, _, values)| values.iter().flat_map(|v| v.to_le_bytes()).collect())
        .collect();
    let views = tensors.iter().zip(&bytes).map(|((name, shape, _), bytes)| {
        (name.as_str(), TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap())
    });
    std::fs::write(path, serialize(views, None).unwrap()).unwrap();
}

/// The tensors of a safetensors file of f32 values, by name.
fn read(path: &Path) -> Vec<(String, Vec<usize>, Vec<f32>)> {
    let bytes = std::fs::read(path).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let mut tensors: Vec<_> = file
        .iter()
        .map(|(name, view)| {
            let values = view.data().as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b));
            (name.to_owned(), view.shape().to_vec(), values.collect())
        })
        .collect();
    tensors.sort_by(|a, b| a.0.cmp(&b.0));
    tensors
}

/// The values of every parameter.
fn values(model: &Model) -> Vec<(String, Vec<f32>)> {
    model.network().values().into_iter().map(|(p, values)| (p.path, values)).collect()
}

type Done = Result<()>;
