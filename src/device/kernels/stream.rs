//! Normal values from one place of a ChaCha20 stream: the same words on every device.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;

pub(crate) use super::box_muller::BLOCK;
use super::box_muller::{BLOCK_BYTES, normals};

/// Values made from one piece of the stream, a multiple of [`BLOCK`].
pub(crate) const CHUNK: usize = 2048;

/// Random bytes that a piece takes.
const BYTES: usize = CHUNK / BLOCK * BLOCK_BYTES;

/// A ChaCha20 key and the number of its stream (the step).
#[derive(Clone, Copy)]
pub(crate) struct Stream {
    pub(crate) seed: [u8; 32],
    pub(crate) step: u64,
}

impl Stream {
    /// The first `len` standard normal values of a piece, at least.
    pub(crate) fn draw(&self, piece: u64, len: usize, out: &mut [f64; CHUNK]) {
        let mut bytes = [0; BYTES];
        let bytes = &mut bytes[..len.div_ceil(BLOCK) * BLOCK_BYTES];
        self.random_bits(piece, bytes);
        normals(bytes, out);
    }

    /// The random bytes from the beginning of a piece on.
    pub(super) fn random_bits(&self, piece: u64, bytes: &mut [u8]) {
        let mut rng = ChaCha20Rng::from_seed(self.seed);
        rng.set_stream(self.step);
        rng.set_word_pos(u128::from(piece) * (BYTES / 4) as u128);
        rng.fill_bytes(bytes);
    }
}
