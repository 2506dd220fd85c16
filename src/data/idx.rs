//! Reader of IDX files, the format of MNIST: a magic number, big-endian sizes, then bytes.
//!
//! Files may be plain or gzip. The header is checked against the bytes that follow, and its sizes
//! alone never cause an allocation.

use std::io::{self, Read};
use std::path::Path;

use super::decompressed_file::{
    DecompressedFile, MAX_FEATURES, cannot_read, corrupt, open_decompressed,
};
use super::digest::{format_count, sha256};
use super::examples::Examples;
use super::origin;
use crate::{Error, Result};

/// The expected content of an IDX file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum IdxKind {
    /// Unsigned bytes in three dimensions: items, rows, columns.
    Images,
    /// Unsigned bytes in one dimension: items.
    Labels,
}

impl IdxKind {
    /// Returns the magic number, the number of dimensions, and the noun.
    fn facts(self) -> (u32, usize, &'static str) {
        match self {
            Self::Images => (0x0000_0803, 3, "images"),
            Self::Labels => (0x0000_0801, 1, "labels"),
        }
    }

    fn other(self) -> Self {
        match self {
            Self::Images => Self::Labels,
            Self::Labels => Self::Images,
        }
    }
}

/// An unpacked IDX file whose header was checked.
pub(super) struct Idx {
    bytes: Vec<u8>,
    header: usize,
    /// Number of items; for images, then rows and columns.
    pub(super) sizes: Vec<usize>,
}

impl Idx {
    /// Reads and checks a file (plain or gzip).
    pub(super) fn read(path: &Path, kind: IdxKind) -> Result<Self> {
        let DecompressedFile { mut from, gzip } = open_decompressed(path)?;
        let (_, dimensions, noun) = kind.facts();
        let header = 4 + 4 * dimensions;
        let mut bytes = Vec::new();
        let mut ended = from.by_ref().take(header as u64).read_to_end(&mut bytes);
        if bytes.len() >= 4 {
            check_magic(path, kind, word(&bytes, 0))?;
        }
        if bytes.len() < header {
            return Err(truncation_error(path, &bytes, header, gzip, ended));
        }
        let sizes: Vec<usize> = (0..dimensions).map(|i| word(&bytes, 4 + 4 * i) as usize).collect();
        let in_words = || sizes.iter().map(usize::to_string).collect::<Vec<_>>().join(" x ");
        if sizes.contains(&0) {
            return Err(corrupt(path, format!("the file holds no {noun} (sizes {})", in_words())));
        }
        let body = sizes.iter().try_fold(1usize, |all, &n| all.checked_mul(n));
        let Some(body) = body.filter(|&body| body <= MAX_FEATURES) else {
            let what = format!(
                "the header announces {} bytes, more than the limit of {} bytes in memory",
                in_words(),
                format_count(MAX_FEATURES)
            );
            return Err(
                corrupt(path, what).fix("if that is right, split it into files of fewer images")
            );
        };
        let total = body + header;
        // One byte more than announced shows trailing bytes. The buffer grows with the bytes that
        // are read, and reading stops there, whatever a gzip file unpacks to.
        let rest = body as u64 + 1;
        if ended.is_ok() {
            ended = from.take(rest).read_to_end(&mut bytes);
        }
        if bytes.len() < total || ended.is_err() {
            return Err(truncation_error(path, &bytes, total, gzip, ended));
        }
        if bytes.len() > total {
            let what = format!("more than the {} bytes its header announces", format_count(total));
            return Err(corrupt(path, what));
        }
        Ok(Self { bytes, header, sizes })
    }

    /// Returns the number of images or labels.
    pub(super) fn items(&self) -> usize {
        self.sizes[0]
    }

    /// Returns the bytes after the header.
    pub(super) fn values(&self) -> &[u8] {
        &self.bytes[self.header..]
    }

    /// Returns the SHA-256 of the unpacked file, header included.
    pub(super) fn sha256(&self) -> String {
        sha256(&self.bytes)
    }

    /// Returns the origin of a file of images, which names its ledger.
    pub(super) fn origin(&self) -> String {
        origin::idx_origin(&self.bytes)
    }

    /// Checks that all labels are below `classes`.
    pub(super) fn check_labels(&self, path: &Path, classes: usize) -> Result<()> {
        let wrong = self.values().iter().position(|&label| usize::from(label) >= classes);
        let Some(at) = wrong else { return Ok(()) };
        let (label, position) = (self.values()[at], format_count(at));
        let range = format!("labels must be 0 to {}", classes - 1);
        Err(corrupt(path, format!("label {label} at position {position}: {range}")))
    }
}

/// A file of images and a file of labels that belong together.
pub(super) struct Pair {
    pub(super) images: Idx,
    pub(super) labels: Idx,
}

impl Pair {
    pub(super) fn read(images: &Path, labels: &Path) -> Result<Self> {
        let (x, y) = (Idx::read(images, IdxKind::Images)?, Idx::read(labels, IdxKind::Labels)?);
        if x.items() != y.items() {
            let (n, m) = (format_count(x.items()), format_count(y.items()));
            let what = format!("{n} images in {}, but {m} labels", images.display());
            let fix = "give the two files of one part (train with train)";
            return Err(corrupt(labels, what).fix(fix));
        }
        Ok(Self { images: x, labels: y })
    }

    /// Returns the images with their labels; `scale` makes a feature of a value from 0 to 1.
    pub(super) fn examples(&self, scale: impl Fn(f32) -> f32) -> Examples {
        let scaled: Vec<f32> = (0..=255u8).map(|x| scale(f32::from(x) / 255.0)).collect();
        let features = self.images.values().iter().map(|&x| scaled[usize::from(x)]).collect();
        let labels = self.labels.values().iter().map(|&y| u32::from(y)).collect();
        Examples::new(&[1, self.images.sizes[1], self.images.sizes[2]], features, labels)
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn check_magic(path: &Path, kind: IdxKind, found: u32) -> Result<()> {
    let ((magic, _, noun), (other_magic, _, other)) = (kind.facts(), kind.other().facts());
    if found == magic {
        return Ok(());
    }
    let what =
        format!("the magic number is 0x{found:08x}, but an IDX file of {noun} has 0x{magic:08x}");
    let error = corrupt(path, what);
    if found == other_magic {
        return Err(error.fix(format!("this is a file of {other}: give the file of {noun} here")));
    }
    Err(error)
}

fn truncation_error(
    path: &Path,
    found: &[u8],
    expected: usize,
    gzip: bool,
    ended: io::Result<usize>,
) -> Error {
    if let (false, Err(e)) = (gzip, &ended) {
        return cannot_read(path, e);
    }
    let mut what = format!(
        "{} bytes found{}, {} expected",
        format_count(found.len()),
        if gzip { " after unpacking" } else { "" },
        format_count(expected)
    );
    what += match ended {
        Ok(_) => "; the file is truncated",
        Err(_) => "; the gzip stream is truncated or damaged",
    };
    corrupt(path, what)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::PathBuf;

    use super::*;
    use crate::ErrorKind;

    fn images(items: u32, rows: u32, columns: u32, body: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            [0x803, items, rows, columns].iter().flat_map(|n| n.to_be_bytes()).collect();
        bytes.extend((0..body).map(|i| i as u8));
        bytes
    }

    fn labels(values: &[u8]) -> Vec<u8> {
        let header = [0x801, values.len() as u32];
        header.iter().flat_map(|n| n.to_be_bytes()).chain(values.iter().copied()).collect()
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        out.write_all(bytes).unwrap();
        out.finish().unwrap()
    }

    fn read(bytes: &[u8], holds: IdxKind) -> Result<Idx> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, bytes).unwrap();
        Idx::read(&path, holds)
    }

    #[track_caller]
    fn refuses(bytes: &[u8], holds: IdxKind, text: &str) {
        let error = read(bytes, holds).err().expect("this file must be refused");
        assert_eq!(error.kind(), ErrorKind::CorruptData, "{error}");
        assert!(error.to_string().contains(text), "`{text}` is not in: {error}");
        assert!(!error.advice().is_empty());
    }

    #[test]
    fn plain_and_gzip_files_read_alike() {
        let bytes = images(3, 2, 2, 12);
        for file in [bytes.clone(), gzip(&bytes)] {
            let idx = read(&file, IdxKind::Images).unwrap();
            assert_eq!(idx.sizes, [3, 2, 2]);
            assert_eq!(idx.values(), (0..12).collect::<Vec<u8>>());
            assert_eq!(idx.sha256(), sha256(&bytes));
        }
        assert_eq!(read(&labels(&[4, 2]), IdxKind::Labels).unwrap().values(), [4, 2]);
    }

    #[test]
    fn every_cut_is_noticed() {
        let bytes = images(3, 2, 2, 12);
        for end in 0..bytes.len() {
            let expected = if end < 16 { "16 expected" } else { "28 expected" };
            refuses(&bytes[..end], IdxKind::Images, &format!("{end} bytes found, {expected}"));
        }
        let packed = gzip(&bytes);
        for end in 2..packed.len() {
            refuses(&packed[..end], IdxKind::Images, "gzip stream is truncated or damaged");
        }
    }

    #[test]
    fn a_damaged_gzip_stream_is_noticed() {
        let mut packed = gzip(&images(3, 2, 2, 12));
        let checksum = packed.len() - 8;
        packed[checksum] ^= 1;
        refuses(&packed, IdxKind::Images, "gzip stream");
    }

    #[test]
    fn trailing_bytes_are_refused() {
        let bytes = images(3, 2, 2, 13);
        refuses(&bytes, IdxKind::Images, "more than the 28 bytes");
        refuses(&gzip(&bytes), IdxKind::Images, "more than the 28 bytes");
    }

    #[test]
    fn the_error_of_a_wrong_magic_number_has_the_expected_one() {
        refuses(b"\x89PNG\r\n", IdxKind::Images, "0x89504e47");
        refuses(b"\x89PNG\r\n", IdxKind::Images, "0x00000803");
        refuses(&labels(&[1, 2, 3]), IdxKind::Images, "this is a file of labels");
        refuses(&images(1, 1, 1, 1), IdxKind::Labels, "this is a file of images");
    }

    #[test]
    fn empty_files_are_refused() {
        refuses(&images(0, 28, 28, 0), IdxKind::Images, "holds no images");
        refuses(&images(3, 0, 28, 0), IdxKind::Images, "holds no images");
        refuses(&labels(&[]), IdxKind::Labels, "holds no labels");
    }

    #[test]
    fn a_header_with_huge_sizes_allocates_nothing() {
        // 2^32 - 1 in each size: more bytes than 64 bits count; then about 16 exbibytes.
        for third in [u32::MAX, 1] {
            let text = "more than the limit of 2,147,483,648 bytes in memory";
            refuses(&images(u32::MAX, u32::MAX, third, 5), IdxKind::Images, text);
        }
        refuses(&images(1 << 30, 2, 1, 5), IdxKind::Images, "21 bytes found");
    }

    #[test]
    fn a_label_out_of_range_is_reported_with_its_position() {
        let idx = read(&labels(&[0, 9, 10]), IdxKind::Labels).unwrap();
        let path = PathBuf::from("labels");
        assert!(idx.check_labels(&path, 11).is_ok());
        let error = idx.check_labels(&path, 10).unwrap_err();
        assert!(error.to_string().contains("label 10 at position 2"), "{error}");
        assert!(error.to_string().contains("0 to 9"), "{error}");
    }
}
