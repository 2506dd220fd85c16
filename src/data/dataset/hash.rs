//! The hashes of training and test part, by which stored runs and their evaluations are found.

use sha2::{Digest, Sha256};

use crate::data::digest::{add_words, hex};
use crate::data::examples::Examples;

/// Returns the hash of a training or test part, by version 1 of the encoding: integers as
/// little-endian u64, floats and labels as 32 bits, little-endian. For examples in files, the first
/// line differs, and their scaling and the SHA-256 of each file replace the features. Version 1
/// was that of images which were resized by other rules. Version 2 ignored orientation tags, so
/// parts with an image that such a tag turns have version 3.
pub(super) fn hash_part(classes: usize, examples: &Examples) -> String {
    let mut sha = Sha256::new();
    sha.update(match examples.files() {
        None => b"epsilab data 1\n",
        Some(files) if files.has_turned() => b"epsilab file 3\n",
        Some(_) => b"epsilab file 2\n",
    });
    let mut integer = |n: usize| sha.update((n as u64).to_le_bytes());
    integer(examples.shape().len());
    examples.shape().iter().for_each(|&n| integer(n));
    integer(classes);
    integer(examples.len());
    match examples.files() {
        None => add_words(&mut sha, examples.features_flat().iter().map(|x| x.to_bits())),
        Some(files) => {
            add_words(&mut sha, files.scaling().into_iter().map(f32::to_bits));
            files.digests().take(examples.len()).for_each(|digest| sha.update(digest));
        }
    }
    add_words(&mut sha, examples.labels().iter().copied());
    hex(&sha.finalize())
}
