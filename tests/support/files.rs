//! Files that are not part of the repository: reference values of other programs and real data
//! sets.
//!
//! `EPSILAB_SHARED` names a folder with `goldens/` and `datasets/`, by default `../shared` beside
//! the repository. Tests that need one of its files are skipped where it is missing, unless
//! `EPSILAB_REQUIRE_SHARED=1` turns that into a failure, as the CI does.

use std::path::PathBuf;

use serde_json::Value;

/// Per-example gradients of PyTorch, and the values that follow from them.
pub const PER_EXAMPLE: &str = "goldens/per_example_grads.json";

/// The folder with `goldens/` and `datasets/`, which need not exist.
pub fn folder() -> PathBuf {
    match std::env::var_os("EPSILAB_SHARED").filter(|name| !name.is_empty()) {
        Some(name) => name.into(),
        None => concat!(env!("CARGO_MANIFEST_DIR"), "/../shared").into(),
    }
}

/// A file or folder in it, which need not exist.
pub fn path(inside: &str) -> PathBuf {
    folder().join(inside)
}

/// Whether a missing file is a failure.
pub fn are_required() -> bool {
    let required = std::env::var_os("EPSILAB_REQUIRE_SHARED");
    required.is_some_and(|value| !value.is_empty() && value != "0")
}

/// The parsed contents of a JSON file.
///
/// # Panics
/// If the file is missing or not JSON.
#[track_caller]
pub fn json(inside: &str) -> Value {
    let path = path(inside);
    let text = std::fs::read_to_string(&path);
    let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All numbers of nested lists, row-major.
pub fn flat(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(all) => all.iter().flat_map(flat).collect(),
        number => vec![number.as_f64().expect("a number")],
    }
}

/// `[rows, columns]` to `[columns, rows]`: PyTorch's linear weights are `[outputs, inputs]`.
pub fn turned<T: Copy>(values: &[T], columns: usize) -> Vec<T> {
    let rows = values.len() / columns;
    (0..values.len()).map(|k| values[k % rows * columns + k / rows]).collect()
}
