//! The tensors of a file of weights: names, shapes and values.

use std::collections::BTreeMap;
use std::fmt::{Debug, Display};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use burn::tensor::{bf16, f16};

use super::{index, pytorch, safetensors_file};
use crate::file::{LFS_ADVICE, LFS_POINTER, is_lfs_pointer};
use crate::{Error, ErrorKind, Result};

/// Bytes at the beginning of a file that identify its format.
const BEGINNING: u64 = 512;

/// An open file of weights. Values are read tensor by tensor.
pub(super) struct WeightFile {
    /// Name of the format, for display.
    pub(super) format: String,
    /// The tensors by name.
    pub(super) entries: BTreeMap<String, TensorEntry>,
    /// Python types of the values beside the tensors that are not read.
    pub(super) skipped: Vec<String>,
}

/// A tensor of a file.
pub(super) struct TensorEntry {
    pub(super) name: String,
    pub(super) shape: Vec<usize>,
    pub(super) dtype: ElementType,
    /// Function that reads the values of the tensor: row-major, little-endian.
    pub(super) read: Box<dyn Fn() -> io::Result<Vec<u8>>>,
}

/// The type of a tensor's values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ElementType {
    F16,
    Bf16,
    F32,
    F64,
    /// Any other type: no floating-point numbers, or numbers that are not supported.
    Other(String),
}

/// Advice for files that differ from the published ones.
pub(super) const DOWNLOAD_ADVICE: &str =
    "download the file again, and compare its size or hash with the publisher's";

/// Returns the error for a file that is not read.
pub(super) fn refused(path: &Path, why: impl Into<String>) -> Error {
    let what = format!("the file {} is refused", path.display());
    Error::new(ErrorKind::CorruptData, what, why)
        .fix("name a safetensors file, or a file that torch.save wrote")
}

/// Returns the error for a file that can't be parsed because it was changed.
pub(super) fn damaged(path: &Path, why: impl Display) -> Error {
    // The text of a reader can quote the file.
    let why = format!("the file is damaged: {}", printable(&why.to_string()));
    refused(path, why).fix(DOWNLOAD_ADVICE)
}

/// Returns the error of [`damaged`], or the error for a truncated file.
pub(super) fn failed(path: &Path, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => refused(path, "the file is truncated").fix(DOWNLOAD_ADVICE),
        _ => damaged(path, error),
    }
}

/// Returns a text of a file as part of a message: one line, at most 200 characters.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect()
}

impl WeightFile {
    /// Opens a file, or the shards of an index, and reads the names and shapes of all tensors.
    ///
    /// # Errors
    /// `Io` if it can't be opened or is not a regular file; `CorruptData` if it is neither a
    /// safetensors file nor one of PyTorch nor an index of such files, is damaged, or names code.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let beginning = read_beginning(path)?;
        let opened = if index::is_index(&beginning) {
            index::open_shards(path)?
        } else {
            Self::open_single(path)?
        };
        if opened.entries.is_empty() {
            return Err(refused(path, "the file holds no tensors"));
        }
        Ok(opened)
    }

    /// Opens a file with tensors in it.
    ///
    /// # Errors
    /// As [`open`](Self::open); an index is none of the formats.
    pub(super) fn open_single(path: &Path) -> Result<Self> {
        let beginning = read_beginning(path)?;
        let (format, entries, skipped) = if safetensors_file::is_safetensors(&beginning) {
            ("safetensors", safetensors_file::entries(path)?, Vec::new())
        } else {
            let pytorch::Checkpoint { entries, skipped } = pytorch::open(path, &beginning)?;
            ("PyTorch", entries, skipped)
        };
        let entries = entries.into_iter().map(|entry| (entry.name.clone(), entry)).collect();
        Ok(Self { format: format.to_owned(), entries, skipped })
    }
}

/// Reads the bytes of a file that identify its format.
///
/// # Errors
/// `Io` if it can't be opened or is not a regular file; `CorruptData` for a pointer of Git LFS.
fn read_beginning(path: &Path) -> Result<Vec<u8>> {
    let what = || format!("reading the weights {}", path.display());
    let failed =
        |e: &io::Error| Error::io(what(), e).fix("check the path, and that you may read the file");
    // Opening a pipe or a device may never return.
    if !fs::metadata(path).map_err(|e| failed(&e))?.is_file() {
        let why = io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
        return Err(failed(&why));
    }
    let mut beginning = Vec::new();
    let file = File::open(path).map_err(|e| failed(&e))?;
    file.take(BEGINNING).read_to_end(&mut beginning).map_err(|e| failed(&e))?;
    if is_lfs_pointer(&beginning) {
        return Err(refused(path, LFS_POINTER).fix(LFS_ADVICE));
    }
    Ok(beginning)
}

impl TensorEntry {
    /// Returns the name as part of a message.
    pub(super) fn shown(&self) -> String {
        printable(&self.name)
    }

    /// Reads the values as f32, row-major.
    ///
    /// # Errors
    /// If they can't be read.
    pub(super) fn values(&self) -> io::Result<Vec<f32>> {
        let bytes = (self.read)()?;
        let count: usize = self.shape.iter().product();
        let values: Vec<f32> = match self.dtype {
            ElementType::F32 => each(&bytes, f32::from_le_bytes).collect(),
            ElementType::F64 => each(&bytes, |b| f64::from_le_bytes(b) as f32).collect(),
            ElementType::F16 => each(&bytes, |b| f16::from_le_bytes(b).to_f32()).collect(),
            ElementType::Bf16 => each(&bytes, |b| bf16::from_le_bytes(b).to_f32()).collect(),
            ElementType::Other(_) => Vec::new(),
        };
        if values.len() == count { Ok(values) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

fn each<const N: usize>(bytes: &[u8], value: impl Fn([u8; N]) -> f32) -> impl Iterator<Item = f32> {
    bytes.as_chunks::<N>().0.iter().map(move |bytes| value(*bytes))
}

impl ElementType {
    /// Returns the type with this name in the libraries that read the files.
    pub(super) fn from_debug(kind: impl Debug) -> Self {
        match format!("{kind:?}").as_str() {
            "F16" => Self::F16,
            "BF16" => Self::Bf16,
            "F32" => Self::F32,
            "F64" => Self::F64,
            other => Self::Other(other.to_lowercase()),
        }
    }

    /// Returns the name of the type in other libraries.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::F16 => "float16",
            Self::Bf16 => "bfloat16",
            Self::F32 => "float32",
            Self::F64 => "float64",
            Self::Other(name) => name,
        }
    }
}
