//! SHA-256 as text.

use sha2::{Digest, Sha256};

pub(super) use crate::privacy::digits::{format_count, pluralise};

/// Returns the SHA-256 of some bytes, in lower-case hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Adds numbers of 32 bits to a hash, little-endian.
pub(super) fn add_words(sha: &mut Sha256, words: impl Iterator<Item = u32>) {
    /// Numbers per update of the hash: one update per number would be slow.
    const PIECE: usize = 4096;
    let mut bytes = Vec::with_capacity(4 * PIECE);
    for word in words {
        bytes.extend_from_slice(&word.to_le_bytes());
        if bytes.len() == 4 * PIECE {
            sha.update(&bytes);
            bytes.clear();
        }
    }
    sha.update(&bytes);
}

/// Returns bytes in lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sha256_of_abc_is_the_published_one() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(b"abc"), expected);
    }
}
