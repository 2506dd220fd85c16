//! Lists the files in a tar archive. Nothing is unpacked. An archive whose content is in doubt is
//! refused: one that is cut short, or whose members are anything but plain files.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use tar::{Archive, EntryType};

use crate::data::decompressed_file::{cannot_read, corrupt, open_file};
use crate::data::digest::format_count;
use crate::{Error, Result};

/// Size of a block in bytes; an archive ends in two blocks of zeros. Programs pad it with more of
/// them.
const BLOCK: u64 = 512;
const MAX_END_PADDING: u64 = 1 << 20;
/// Largest extended header: a small archive can announce any size.
const MAX_EXTENDED_HEADER: u64 = 1 << 16;

/// A file in an archive.
pub(super) struct ArchiveMember {
    /// Relative path, without a leading `./`.
    pub(super) name: String,
    /// Position of the first byte of the file in the archive.
    pub(super) offset: u64,
    /// Number of bytes. The archive is at least as long.
    pub(super) length: u64,
}

/// Fields of extended headers that describe the next member.
#[derive(Default)]
struct ExtendedHeader {
    name: Option<Vec<u8>>,
    size: Option<u64>,
    is_sparse: bool,
}

/// Passes each file in an archive to `each`, in order, with its content.
///
/// # Errors
/// [`CorruptData`](crate::ErrorKind::CorruptData) for what is no plain tar archive, is cut short,
/// or has links, devices, sparse files or paths that lead outside; the first error of `each`.
pub(super) fn for_each_file(
    path: &Path,
    mut each: impl FnMut(ArchiveMember, &mut dyn Read) -> Result<()>,
) -> Result<()> {
    let mut file = open_file(path)?;
    let length = file.metadata().map_err(|e| cannot_read(path, &e))?.len();
    check_plain(path, &mut file)?;
    let mut archive = Archive::new(&file);
    let entries = archive.entries_with_seek().map_err(|e| cannot_read(path, &e))?.raw(true);
    let (mut end, mut extended) = (0, ExtendedHeader::default());
    for entry in entries {
        let mut entry = entry.map_err(|e| damaged(path, end, &e))?;
        let (from, size, kind) =
            (entry.raw_file_position(), entry.size(), entry.header().entry_type());
        let name = extended.name.clone().unwrap_or_else(|| entry.path_bytes().into_owned());
        let name = String::from_utf8_lossy(&name).into_owned();
        let Some(next) = from.checked_add(size).filter(|&next| next <= length) else {
            let what = format!(
                "the archive is truncated: its member `{name}` has {} bytes from byte {} on, but \
                 the archive ends at byte {}",
                format_count(size as usize),
                format_count(from as usize),
                format_count(length as usize)
            );
            return Err(corrupt(path, what));
        };
        end = next.next_multiple_of(BLOCK);
        match kind {
            EntryType::GNULongName | EntryType::XHeader => {
                let bytes = header(path, &mut entry, size)?;
                if !extended.read(kind, &bytes) {
                    return Err(refused(path, &name, "a damaged extended header"));
                }
                continue;
            }
            EntryType::GNULongLink | EntryType::XGlobalHeader => continue,
            EntryType::Directory => {}
            EntryType::Regular if extended.is_sparse => return Err(refused(path, &name, SPARSE)),
            EntryType::Regular if extended.size.is_some_and(|other| other != size) => {
                return Err(refused(path, &name, "a file with two sizes"));
            }
            EntryType::Regular => {
                let name = relative(path, name)?;
                each(ArchiveMember { name, offset: from, length: size }, &mut entry)?;
            }
            EntryType::Link | EntryType::Symlink => return Err(refused(path, &name, "a link")),
            EntryType::GNUSparse => return Err(refused(path, &name, SPARSE)),
            _ => return Err(refused(path, &name, "neither a file nor a folder")),
        }
        extended = ExtendedHeader::default();
    }
    check_end(path, &mut file, end, length)
}

const SPARSE: &str = "a sparse file";

impl ExtendedHeader {
    /// Reads an extended header; `false` if it is damaged.
    fn read(&mut self, kind: EntryType, mut bytes: &[u8]) -> bool {
        if kind == EntryType::GNULongName {
            self.name = Some(bytes.strip_suffix(b"\0").unwrap_or(bytes).to_vec());
            return true;
        }
        while !bytes.is_empty() {
            let Some((key, value, rest)) = record(bytes) else { return false };
            bytes = rest;
            match key {
                b"path" => self.name = Some(value.to_vec()),
                // A size that is no number is unlike that of the member.
                b"size" => {
                    let number = str::from_utf8(value).ok().and_then(|value| value.parse().ok());
                    self.size = Some(number.unwrap_or(u64::MAX));
                }
                key => self.is_sparse |= key.starts_with(b"GNU.sparse."),
            }
        }
        true
    }
}

/// Returns key and value of the first record of a POSIX extended header, and what follows it. A
/// record is its length in decimal digits, a space, `key=value` and a line feed; values may be
/// binary.
fn record(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = bytes.iter().position(|&byte| byte == b' ')?;
    let length: usize = str::from_utf8(&bytes[..space]).ok()?.parse().ok()?;
    let (record, rest) = bytes.split_at_checked(length)?;
    let text = record.get(space + 1..)?.strip_suffix(b"\n")?;
    let equals = text.iter().position(|&byte| byte == b'=')?;
    Some((&text[..equals], &text[equals + 1..], rest))
}

/// Returns the content of an extended header.
fn header(path: &Path, entry: &mut dyn Read, size: u64) -> Result<Vec<u8>> {
    if size > MAX_EXTENDED_HEADER {
        let (found, most) =
            (format_count(size as usize), format_count(MAX_EXTENDED_HEADER as usize));
        return Err(corrupt(path, format!("an extended header of {found} bytes; at most {most}")));
    }
    let mut bytes = Vec::new();
    entry.take(size).read_to_end(&mut bytes).map_err(|e| cannot_read(path, &e))?;
    Ok(bytes)
}

/// Refuses packed archives: a member has no position of its own in them.
fn check_plain(path: &Path, file: &mut File) -> Result<()> {
    let mut start = Vec::new();
    file.take(4).read_to_end(&mut start).map_err(|e| cannot_read(path, &e))?;
    file.seek(SeekFrom::Start(0)).map_err(|e| cannot_read(path, &e))?;
    let packed: [&[u8]; 4] =
        [&[0x1f, 0x8b], &[0x28, 0xb5, 0x2f, 0xfd], b"BZh", &[0xfd, b'7', b'z']];
    if packed.iter().any(|magic| start.starts_with(magic)) {
        Err(packed_archive(path))
    } else {
        Ok(())
    }
}

/// Returns the error for an archive that is packed.
pub(super) fn packed_archive(path: &Path) -> Error {
    let what = "a compressed archive, in which an image can't be read without those before it";
    corrupt(path, what)
        .fix("decompress it to a plain .tar first (gunzip); compression hardly shrinks images")
}

/// Checks that the archive continues after its last member with zeros up to its end, to find one
/// that was cut between two members, and one that was appended to another.
fn check_end(path: &Path, file: &mut File, end: u64, length: u64) -> Result<()> {
    let rest = length.saturating_sub(end);
    if rest < 2 * BLOCK {
        let what = format!(
            "the archive is truncated: no end marker at byte {}",
            format_count(end as usize)
        );
        return Err(corrupt(path, what));
    }
    file.seek(SeekFrom::Start(end)).map_err(|e| cannot_read(path, &e))?;
    let mut zeros = Vec::new();
    let read =
        file.take(MAX_END_PADDING).read_to_end(&mut zeros).map_err(|e| cannot_read(path, &e))?;
    if read as u64 == rest && zeros.iter().all(|&byte| byte == 0) {
        return Ok(());
    }
    let what = format!(
        "the file has bytes after the end of the archive at byte {}",
        format_count(end as usize)
    );
    Err(corrupt(path, what).fix(
        "of two concatenated archives only the first would be read: keep them as two files, or \
         pack their files into one archive",
    ))
}

/// Returns the name of a member, if it is a path inside the folder that it was packed from.
fn relative(path: &Path, name: String) -> Result<String> {
    if name.starts_with('/') || name.split('/').any(|part| part == "..") {
        return Err(refused(path, &name, "a path that leads outside of the archive"));
    }
    if name.contains(['\u{fffd}', '\0']) {
        return Err(refused(path, &name, "a name that is not UTF-8"));
    }
    Ok(name.strip_prefix("./").map_or(name.clone(), String::from))
}

fn refused(path: &Path, name: &str, what: &str) -> Error {
    corrupt(path, format!("the member `{name}` is {what}")).fix(
        "pack plain files only, by relative paths: tar --create --format=ustar --dereference \
         --hard-dereference --file=SHARD.tar FILES",
    )
}

fn damaged(path: &Path, at: u64, error: &io::Error) -> Error {
    let at = format_count(at as usize);
    corrupt(path, format!("not a tar archive, or a damaged one, from byte {at} on ({error})"))
}
