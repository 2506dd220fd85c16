//! Names of raw data: what the privacy ledger goes by, whatever is read from it and however.
//!
//! Each is a SHA-256 in hexadecimal, over a first line that says of what. The encodings must never
//! change: ledgers that lie on disks are named by them.

use sha2::{Digest, Sha256};

use super::digest::hex;

/// The name of rows of cells, as they are read.
pub(super) struct Cells(Sha256);

impl Cells {
    pub(super) fn new() -> Self {
        Self(Sha256::new_with_prefix(b"epsilab texts 2\n"))
    }

    /// One row: all its cells, used or not.
    pub(super) fn add<'t>(&mut self, cells: impl Iterator<Item = &'t str> + Clone) {
        // Counts and lengths go in as well, so that no two files can read alike.
        self.0.update((cells.clone().count() as u64).to_le_bytes());
        for cell in cells {
            self.0.update((cell.len() as u64).to_le_bytes());
            self.0.update(cell);
        }
    }

    pub(super) fn name(self) -> String {
        hex(&self.0.finalize())
    }
}

/// The name of an unpacked IDX file of images. Their labels lie in another file and don't count.
pub(super) fn of_idx(bytes: &[u8]) -> String {
    hex(&Sha256::new_with_prefix(b"epsilab idx 1\n").chain_update(bytes).finalize())
}

/// The name of features given by a program: their bits, one after another. Neither shape nor
/// labels count, for they can be chosen anew for the same people.
pub(super) fn of_features(features: &[f32]) -> String {
    /// DeviceArray are handed over in pieces of this many: an update per number would be slow.
    const PIECE: usize = 4096;
    let mut sha = Sha256::new_with_prefix(b"epsilab features 1\n");
    let mut bytes = Vec::with_capacity(4 * PIECE);
    for piece in features.chunks(PIECE) {
        bytes.clear();
        piece.iter().for_each(|x| bytes.extend_from_slice(&x.to_bits().to_le_bytes()));
        sha.update(&bytes);
    }
    hex(&sha.finalize())
}
