//! What several test programs share: a project folder, and the reference values and real data
//! sets that are not part of the repository.
//!
//! `EPSILAB_SHARED` names a folder with `goldens/` and `datasets/`. A test that needs a file of it
//! is skipped where the file is missing, unless `EPSILAB_REQUIRE_SHARED=1` turns that into a
//! failure, as the CI does.

// Each test program uses a part of this module.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::Value;

/// The project folder of this test program. The first call sets `EPSILAB_HOME`, so every test that
/// uses the project calls this before anything else.
pub fn home() -> &'static Path {
    static HOME: OnceLock<tempfile::TempDir> = OnceLock::new();
    HOME.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        // SAFETY: every test calls this first, and OnceLock lets only one of them in here.
        unsafe { std::env::set_var("EPSILAB_HOME", folder.path()) };
        folder
    })
    .path()
}

/// A file or folder of the shared folder, or `None` if it is missing and the test may be skipped.
///
/// # Panics
/// If it is missing and `EPSILAB_REQUIRE_SHARED` is set (to anything but nothing or `0`).
#[track_caller]
pub fn path(inside: &str) -> Option<PathBuf> {
    let root = std::env::var_os("EPSILAB_SHARED")
        .map(PathBuf::from)
        .unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared")));
    let path = root.join(inside);
    if path.exists() {
        return Some(path);
    }
    let required = std::env::var_os("EPSILAB_REQUIRE_SHARED");
    if required.is_some_and(|value| !value.is_empty() && value != "0") {
        panic!(
            "{} is missing, and EPSILAB_REQUIRE_SHARED is set: this test may not be skipped; let \
             EPSILAB_SHARED name the folder with goldens/ and datasets/",
            path.display()
        );
    }
    println!("skipped: {} is missing; set EPSILAB_SHARED", path.display());
    None
}

/// The parsed contents of a JSON file of the shared folder.
#[track_caller]
pub fn json(inside: &str) -> Option<Value> {
    let text = std::fs::read_to_string(path(inside)?).expect("the file can be read");
    Some(serde_json::from_str(&text).expect("the file is JSON"))
}

/// Per-example gradients of PyTorch, and the values that follow from them.
#[track_caller]
pub fn goldens() -> Option<Value> {
    json("goldens/per_example_grads.json")
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
