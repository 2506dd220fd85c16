//! Dropout masks, each row from a stream of its own.

use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::super::Masks;
use super::chacha::{self, Seed, WORDS};
use super::{UNITS, alloc, grid, units};

/// Double rounds of ChaCha8.
const DOUBLE_ROUNDS: u32 = 4;

/// Each unit makes the values of one block of one row's stream.
#[cube(launch)]
fn mask(
    rows: &[u32],
    out: &mut [f32],
    seed: &Seed,
    each: usize,
    blocks: usize,
    dropped: u32,
    kept: f32,
) {
    let row = ABSOLUTE_POS / blocks;
    if row < rows.len() / 2 {
        let block = ABSOLUTE_POS % blocks;
        let mut start = chacha::start(seed, u32::cast_from(block));
        // The words of the key that say which example and which copy.
        start[6] = rows[2 * row];
        start[7] = rows[2 * row + 1];
        let words = chacha::block(&start, DOUBLE_ROUNDS);
        #[unroll]
        for i in 0..WORDS {
            let at = block * WORDS + i;
            if at < each {
                out[row * each + at] = select(words[i] < dropped, 0.0f32, kept);
            }
        }
    }
}

/// `[rows, each]`; `rows` holds the number and the copy of each example.
pub(super) fn dropout(rows: CubeTensor, masks: Masks, each: usize) -> CubeTensor {
    let n = rows.meta.num_elements() / 2;
    let blocks = each.div_ceil(WORDS);
    let out = alloc(&rows, [n, each], DType::F32);
    mask::launch(
        &out.client,
        grid((n * blocks).div_ceil(UNITS)),
        units(),
        rows.into_buffer_arg(),
        out.clone().into_buffer_arg(),
        chacha::seed(masks.key(0, 0), 0, 0),
        each,
        blocks,
        masks.dropped,
        masks.kept,
    );
    out
}
