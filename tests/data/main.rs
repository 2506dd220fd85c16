//! The data room from outside: every bad input is a clear error, and the real files are read.

mod bombs;
mod cifar;
mod folder;
mod mnist;
mod names;
mod parts;
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

/// The folder of public data sets, or a line that says why the test is skipped.
fn shared(subfolder: &str) -> Option<PathBuf> {
    let root = std::env::var_os("EPSILAB_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"), PathBuf::from);
    let folder = root.join("datasets").join(subfolder);
    if !folder.is_dir() {
        println!("skipped: no real files in {} (set EPSILAB_SHARED)", folder.display());
        return None;
    }
    Some(folder)
}

fn counts(part: &data::Examples) -> [usize; 10] {
    let mut counts = [0; 10];
    part.labels().iter().for_each(|&label| counts[label as usize] += 1);
    counts
}
