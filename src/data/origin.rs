//! Origins: hashes of raw data that name its privacy ledger, independent of how the data is read.
//!
//! Each is a hexadecimal SHA-256 whose input begins with a line that names the encoding. The
//! encodings must never change: stored ledgers are named by them.

use sha2::{Digest, Sha256};

use super::digest::{add_words, hex};

/// The origin of rows of cells, updated as they are read.
pub(super) struct CellHasher(Sha256);

impl CellHasher {
    pub(super) fn new() -> Self {
        Self(Sha256::new_with_prefix(b"epsilab texts 2\n"))
    }

    /// Adds a row: all its cells, used or not.
    pub(super) fn add_row<'t>(&mut self, cells: impl Iterator<Item = &'t str> + Clone) {
        // Hashing counts and lengths too makes the encoding unambiguous.
        self.0.update((cells.clone().count() as u64).to_le_bytes());
        for cell in cells {
            self.0.update((cell.len() as u64).to_le_bytes());
            self.0.update(cell);
        }
    }

    pub(super) fn finish(self) -> String {
        hex(&self.0.finalize())
    }
}

/// Returns the origin of an unpacked IDX file of images. Labels are in another file and not
/// included.
pub(super) fn idx_origin(bytes: &[u8]) -> String {
    hex(&Sha256::new_with_prefix(b"epsilab idx 1\n").chain_update(bytes).finalize())
}

/// Returns the origin of features given by a program: their bits in order. Shape and labels are
/// not included, because they can be chosen differently for the same people.
pub(super) fn feature_origin(features: &[f32]) -> String {
    let mut sha = Sha256::new_with_prefix(b"epsilab features 1\n");
    add_words(&mut sha, features.iter().map(|x| x.to_bits()));
    hex(&sha.finalize())
}
