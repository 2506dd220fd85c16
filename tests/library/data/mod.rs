//! The data room from outside: every bad input is a clear error. `tests/reference/data.rs` reads
//! the real files.

mod bombs;
mod cifar;
mod folder;
mod mnist;
mod names;
mod parts;
mod shards;
mod tables;
mod text;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use epsilab::data::{self, Dataset};
use epsilab::{Error, ErrorKind, Result};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

/// A folder with these files.
fn folder(files: &[(&str, Vec<u8>)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    files.iter().for_each(|(name, bytes)| fs::write(folder.path().join(name), bytes).unwrap());
    folder
}

/// Checks the kind of an error, that its text has all these parts, and that it says what to do.
#[track_caller]
fn refused(result: Result<Dataset>, kind: ErrorKind, parts: &[&str]) -> Error {
    let error = result.expect_err("this input must be refused");
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
    assert!(!error.advice().is_empty() && text.contains("what to do:"), "{text}");
    error
}
