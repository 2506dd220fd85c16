//! Opening files, plain or gzip, and the errors that all readers share.

use std::fs::{self, File};
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::digest::count;
use crate::{Error, ErrorKind, Result};

/// Features that are kept in memory, at most: 8 GiB of them. A small file can ask for any number,
/// and an allocation that fails ends the process.
pub(super) const MOST_NUMBERS: usize = 1 << 31;

/// The bytes of a file, unpacked on the way.
pub(super) struct Unpacked {
    pub(super) from: Box<dyn Read>,
    /// Whether the file is a gzip file.
    pub(super) gzip: bool,
}

/// Opens a file; its first two bytes say whether it is packed, not its name.
pub(super) fn open(path: &Path) -> Result<Unpacked> {
    let mut file = BufReader::new(open_file(path)?);
    let mut start = Vec::with_capacity(2);
    file.by_ref().take(2).read_to_end(&mut start).map_err(|e| cannot_read(path, &e))?;
    let gzip = start == [0x1f, 0x8b];
    let whole = Cursor::new(start).chain(file);
    let from: Box<dyn Read> =
        if gzip { Box::new(MultiGzDecoder::new(whole)) } else { Box::new(whole) };
    Ok(Unpacked { from, gzip })
}

/// Opens a regular file. A pipe could keep us waiting for ever, and a device might never end.
fn open_file(path: &Path) -> Result<File> {
    let about = fs::metadata(path).map_err(|e| cannot_open(path, &e))?;
    if !about.is_file() && !about.is_dir() {
        let what =
            "no regular file, but a pipe, socket or device, which may give nothing or no end";
        return Err(corrupt(path, what).fix("save what it gives as a file, and give that one"));
    }
    // Folders are refused when they are read, in the system's words.
    File::open(path).map_err(|e| cannot_open(path, &e))
}

/// The whole file as it is, if it has no more than `most` bytes.
pub(super) fn read_packed(path: &Path, most: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = open_file(path)?.take(most as u64 + 1).read_to_end(&mut bytes);
    match read.map_err(|e| cannot_read(path, &e))? {
        n if n > most => Err(too_large(path, most)),
        _ => Ok(bytes),
    }
}

/// The whole file, unpacked, if it has no more than `most` bytes: what unpacks to far more is never
/// unpacked.
pub(super) fn read(path: &Path, most: usize) -> Result<Vec<u8>> {
    let Unpacked { from, gzip } = open(path)?;
    let mut bytes = Vec::new();
    let ended = from.take(most as u64 + 1).read_to_end(&mut bytes);
    match ended {
        Ok(n) if n > most => Err(too_large(path, most)),
        Ok(_) => Ok(bytes),
        Err(_) if gzip => {
            let found = count(bytes.len());
            let what = format!(
                "{found} bytes found after unpacking; the gzip stream is cut off or damaged"
            );
            Err(corrupt(path, what))
        }
        Err(e) => Err(cannot_read(path, &e)),
    }
}

fn too_large(path: &Path, most: usize) -> Error {
    corrupt(path, format!("more than {} bytes, the most such a file can have", count(most)))
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
