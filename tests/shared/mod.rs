//! What several test programs use: a project folder, and the folder with real data and reference
//! values, if there is one.
#![allow(dead_code, reason = "no test program uses all of it")]

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

/// A file or folder in the shared folder, or `None` with a word on why a test is skipped.
pub fn path(inside: &str) -> Option<PathBuf> {
    let root = std::env::var_os("EPSILAB_SHARED")
        .map(PathBuf::from)
        .unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared")));
    let path = root.join(inside);
    if !path.exists() {
        println!("skipped: there is no {}; set EPSILAB_SHARED", path.display());
    }
    path.exists().then_some(path)
}

/// PyTorch's per-example gradients, and what follows from them.
pub fn goldens() -> Option<Value> {
    let text = std::fs::read_to_string(path("goldens/per_example_grads.json")?);
    Some(serde_json::from_str(&text.expect("a file that can be read")).expect("the file is JSON"))
}

/// The numbers in a nested list, row by row.
pub fn flat(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(all) => all.iter().flat_map(flat).collect(),
        number => vec![number.as_f64().expect("a number")],
    }
}

/// `[rows, columns]` to `[columns, rows]`: linear weights are `[outputs, inputs]` there.
pub fn turned<T: Copy>(values: &[T], columns: usize) -> Vec<T> {
    let rows = values.len() / columns;
    (0..values.len()).map(|k| values[k % rows * columns + k / rows]).collect()
}
