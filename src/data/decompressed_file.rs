//! Opens files, plain or gzip. The errors are shared by all readers.

use std::fs::{self, File};
use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::digest::format_count;
use crate::{Error, ErrorKind, Result};

/// Largest number of features that are kept in memory (8 GiB). A small file can announce any
/// number, and a failed allocation ends the process.
pub(super) const MAX_FEATURES: usize = 1 << 31;

/// The unpacked bytes of a file.
pub(super) struct DecompressedFile {
    pub(super) from: Box<dyn Read>,
    /// Whether the file is a gzip file.
    pub(super) gzip: bool,
}

/// Opens a file. Its first two bytes, not its name, decide whether it is unpacked.
pub(super) fn open_decompressed(path: &Path) -> Result<DecompressedFile> {
    let mut file = BufReader::new(open_file(path)?);
    let mut start = Vec::with_capacity(2);
    file.by_ref().take(2).read_to_end(&mut start).map_err(|e| cannot_read(path, &e))?;
    let gzip = start == [0x1f, 0x8b];
    let complete = Cursor::new(start).chain(file);
    let from: Box<dyn Read> =
        if gzip { Box::new(MultiGzDecoder::new(complete)) } else { Box::new(complete) };
    Ok(DecompressedFile { from, gzip })
}

/// Opens a regular file. Reading a pipe may block for ever, and a device may never end.
pub(super) fn open_file(path: &Path) -> Result<File> {
    let about = fs::metadata(path).map_err(|e| cannot_open(path, &e))?;
    if !about.is_file() && !about.is_dir() {
        let what =
            "not a regular file but a pipe, socket or device: reading it may block or never end";
        return Err(corrupt(path, what).fix("save its data as a file, and read that one"));
    }
    // Reading a folder fails with an error of the operating system.
    File::open(path).map_err(|e| cannot_open(path, &e))
}

/// Reads all bytes of a file of at most `most` bytes, not unpacked.
pub(super) fn read_raw(path: &Path, most: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = open_file(path)?.take(most as u64 + 1).read_to_end(&mut bytes);
    match read.map_err(|e| cannot_read(path, &e))? {
        n if n > most => Err(too_large(path, most)),
        _ => Ok(bytes),
    }
}

/// Reads `length` bytes of a file from this position on, not unpacked; fewer if it ends before.
/// The caller bounds the length.
pub(super) fn read_range(path: &Path, from: u64, length: usize) -> Result<Vec<u8>> {
    let mut file = open_file(path)?;
    file.seek(SeekFrom::Start(from)).map_err(|e| cannot_read(path, &e))?;
    let mut bytes = Vec::with_capacity(length);
    file.take(length as u64).read_to_end(&mut bytes).map_err(|e| cannot_read(path, &e))?;
    Ok(bytes)
}

/// Reads all unpacked bytes of a file, at most `most`: reading stops there, so a small file can't
/// unpack to any size.
pub(super) fn read_decompressed(path: &Path, most: usize) -> Result<Vec<u8>> {
    let DecompressedFile { from, gzip } = open_decompressed(path)?;
    let mut bytes = Vec::new();
    let ended = from.take(most as u64 + 1).read_to_end(&mut bytes);
    match ended {
        Ok(n) if n > most => Err(too_large(path, most)),
        Ok(_) => Ok(bytes),
        Err(_) if gzip => {
            let found = format_count(bytes.len());
            let what = format!(
                "{found} bytes found after unpacking; the gzip stream is truncated or damaged"
            );
            Err(corrupt(path, what))
        }
        Err(e) => Err(cannot_read(path, &e)),
    }
}

fn too_large(path: &Path, most: usize) -> Error {
    corrupt(path, format!("more than {} bytes, the size limit for such a file", format_count(most)))
}

pub(super) fn corrupt(path: &Path, what: impl Into<String>) -> Error {
    Error::new(ErrorKind::CorruptData, path.display().to_string(), what)
        .fix("get the original file again and put it in place of this one")
}

pub(super) fn cannot_open(path: &Path, e: &io::Error) -> Error {
    if e.kind() == io::ErrorKind::NotFound {
        let what = format!("{} is missing", path.display());
        return Error::new(ErrorKind::MissingData, what, "there is no such file")
            .fix("check the path; a relative one starts at the current folder");
    }
    Error::io(format!("opening {}", path.display()), e).fix("check that the file can be read")
}

pub(super) fn cannot_read(path: &Path, e: &io::Error) -> Error {
    Error::io(format!("reading {}", path.display()), e).fix("check that the file can be read")
}
