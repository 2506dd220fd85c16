//! Assigns examples to parts by a keyed hash of their own content.

use rayon::prelude::*;
use sha2::{Digest, Sha256};

use crate::data::examples::Examples;

/// Returns the key of a split or limit: a hash of the previous key, its kind and the seed. A part
/// that is split again must not be split by the hashes that made it.
pub(super) fn partition_key(parent_key: &[u8; 32], operation: &str, seed: u64) -> [u8; 32] {
    let sha = Sha256::new_with_prefix(b"epsilab part 1\n").chain_update(parent_key);
    sha.chain_update(operation).chain_update(seed.to_le_bytes()).finalize().into()
}

/// Returns the indices of the examples selected with this probability, below 1, and those of the
/// others.
pub(super) fn partition_examples(examples: &Examples, key: &[u8; 32], share: f64) -> [Vec<u32>; 2] {
    // Scaling by a power of two is exact.
    let threshold = (share * 2f64.powi(64)) as u64;
    let is_chosen = |content: &[u8; 32]| {
        let hash = Sha256::new_with_prefix(key).chain_update(content).finalize();
        let mut start = [0; 8];
        start.copy_from_slice(&hash[..8]);
        u64::from_le_bytes(start) < threshold
    };
    let chosen: Vec<bool> = examples.content_hashes().par_iter().map(is_chosen).collect();
    let (yes, no): (Vec<u32>, Vec<u32>) =
        (0..examples.len() as u32).partition(|&i| chosen[i as usize]);
    [yes, no]
}
