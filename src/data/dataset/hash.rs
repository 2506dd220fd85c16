//! The hashes of training and test part, by which stored runs and their evaluations are found.

use sha2::{Digest, Sha256};

use crate::data::digest::hex;
use crate::data::examples::Examples;

/// The hash, by version 1 of the encoding: integers as little-endian u64, floats and labels as 32
/// bits, little-endian. For examples in files, the first line differs, and their scaling and the
/// SHA-256 of each file replace the features; version 2, because version 1 was that of images which
/// were resized by other rules.
pub(super) fn of(classes: usize, examples: &Examples) -> String {
    /// Values per update of the hash: one update per value would be slow.
    const PIECE: usize = 4096;
    let mut sha = Sha256::new();
    sha.update(if examples.files().is_some() { b"epsilab file 2\n" } else { b"epsilab data 1\n" });
    let mut integer = |n: usize| sha.update((n as u64).to_le_bytes());
    integer(examples.shape().len());
    examples.shape().iter().for_each(|&n| integer(n));
    integer(classes);
    integer(examples.len());
    let mut bytes = Vec::with_capacity(4 * PIECE);
    let mut words = |words: &mut dyn Iterator<Item = u32>| {
        bytes.clear();
        words.for_each(|w| bytes.extend_from_slice(&w.to_le_bytes()));
        sha.update(&bytes);
    };
    match examples.files() {
        None => {
            for piece in examples.features_flat().chunks(PIECE) {
                words(&mut piece.iter().map(|x| x.to_bits()));
            }
        }
        Some(files) => {
            let le = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            words(&mut files.scaling().into_iter().map(f32::to_bits));
            for digest in files.digests().take(examples.len()) {
                words(&mut digest.chunks_exact(4).map(le));
            }
        }
    }
    for piece in examples.labels().chunks(PIECE) {
        words(&mut piece.iter().copied());
    }
    hex(&sha.finalize())
}
