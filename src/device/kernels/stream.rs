//! Standard normal values from a position in a ChaCha20 stream: the same random bits on every
//! device.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;

pub(crate) use super::box_muller::BLOCK;
use super::box_muller::{BLOCK_BYTES, normals};

/// Normal values per chunk of the stream, a multiple of [`BLOCK`].
pub(crate) const CHUNK: usize = 2048;

/// Random bytes per chunk.
const CHUNK_BYTES: usize = CHUNK / BLOCK * BLOCK_BYTES;

/// A ChaCha20 stream: the key and the stream number, which is the training step.
#[derive(Clone, Copy)]
pub(crate) struct Stream {
    pub(crate) seed: [u8; 32],
    pub(crate) step: u64,
}

impl Stream {
    /// Writes the first `len` standard normal values of a chunk, rounded up to whole blocks.
    pub(crate) fn draw(&self, chunk: u64, len: usize, out: &mut [f64; CHUNK]) {
        let mut bytes = [0; CHUNK_BYTES];
        let bytes = &mut bytes[..len.div_ceil(BLOCK) * BLOCK_BYTES];
        self.random_bits(chunk, bytes);
        normals(bytes, out);
    }

    /// Fills `bytes` with the random bits from the beginning of a chunk on.
    pub(super) fn random_bits(&self, chunk: u64, bytes: &mut [u8]) {
        let mut rng = ChaCha20Rng::from_seed(self.seed);
        rng.set_stream(self.step);
        rng.set_word_pos(u128::from(chunk) * (CHUNK_BYTES / 4) as u128);
        rng.fill_bytes(bytes);
    }
}
