//! Standard normal values from a position in a ChaCha20 stream: the same random bits on every
//! device.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;

pub(crate) use super::box_muller::NORMALS_PER_BLOCK;
use super::box_muller::{BLOCK_BYTES, TAIL_WORDS, normals};

/// Number of normal values per chunk of the stream, a multiple of [`NORMALS_PER_BLOCK`].
pub(crate) const NORMALS_PER_CHUNK: usize = 2048;

/// Random bytes per chunk.
const CHUNK_BYTES: usize = NORMALS_PER_CHUNK / NORMALS_PER_BLOCK * BLOCK_BYTES;

/// Pairs of normal values per chunk.
pub(super) const CHUNK_PAIRS: u64 = NORMALS_PER_CHUNK as u64 / 2;

/// Bit that is set in the stream number of the words that extend radii. Steps and the numbers of
/// other streams don't have it.
pub(super) const TAIL_STREAM: u64 = 1 << 63;

/// A ChaCha20 stream: the key and the stream number, which is the training step.
#[derive(Clone, Copy)]
pub(crate) struct NoiseStream {
    pub(crate) seed: [u8; 32],
    pub(crate) step: u64,
}

impl NoiseStream {
    /// Writes the first `len` standard normal values of a chunk, rounded up to whole blocks.
    pub(crate) fn draw(&self, chunk: u64, len: usize, out: &mut [f64; NORMALS_PER_CHUNK]) {
        let mut bytes = [0; CHUNK_BYTES];
        let bytes = &mut bytes[..len.div_ceil(NORMALS_PER_BLOCK) * BLOCK_BYTES];
        self.random_bits(chunk, bytes);
        normals(bytes, out, |pair| self.extension(chunk, pair));
    }

    /// Fills `bytes` with the random bits from the beginning of a chunk on.
    pub(super) fn random_bits(&self, chunk: u64, bytes: &mut [u8]) {
        let mut rng = ChaCha20Rng::from_seed(self.seed);
        rng.set_stream(self.step);
        rng.set_word_pos(u128::from(chunk) * (CHUNK_BYTES / 4) as u128);
        rng.fill_bytes(bytes);
    }

    /// Returns the words that extend the radius of a pair, counted from the beginning of a chunk:
    /// one ChaCha block for each pair of a second stream.
    pub(super) fn extension(&self, chunk: u64, pair: u64) -> [u64; TAIL_WORDS] {
        let mut rng = ChaCha20Rng::from_seed(self.seed);
        rng.set_stream(self.step ^ TAIL_STREAM);
        let block = chunk.wrapping_mul(CHUNK_PAIRS).wrapping_add(pair);
        rng.set_word_pos(u128::from(block) * (2 * TAIL_WORDS) as u128);
        std::array::from_fn(|_| rng.next_u64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn radii_are_extended_by_words_of_their_own() {
        let stream = NoiseStream { seed: [3; 32], step: 7 };
        // The position is that of the pair in the whole stream, however it is cut into chunks.
        assert_eq!(stream.extension(2, 5), stream.extension(0, 2 * CHUNK_PAIRS + 5));
        let mut seen = std::collections::HashSet::new();
        for pair in 0..3 * CHUNK_PAIRS {
            assert!(stream.extension(0, pair).into_iter().all(|word| seen.insert(word)), "{pair}");
        }
        // Neither the noise of this step nor that of another has these words.
        for step in [0, 6, 7, 8] {
            let mut bytes = [0; 64 * CHUNK_BYTES];
            NoiseStream { step, ..stream }.random_bits(0, &mut bytes);
            let mut words = bytes.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word));
            assert!(words.all(|word| !seen.contains(&word)), "step {step}");
        }
        assert_ne!(stream.extension(0, 1), NoiseStream { step: 8, ..stream }.extension(0, 1));
        assert_ne!(stream.extension(0, 1), NoiseStream { seed: [4; 32], ..stream }.extension(0, 1));
    }
}
