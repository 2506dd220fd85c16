//! Dropout masks, with one ChaCha8 stream per row.

use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::super::DropoutMasks;
use super::chacha::{self, BLOCK_LEN, Seed};
use super::{CUBE_UNITS, alloc, cube_shape, grid};

/// Double rounds of ChaCha8.
const DOUBLE_ROUNDS: u32 = 4;

/// Computes the mask values of one ChaCha block of one row in each unit.
#[cube(launch)]
fn draw_masks(
    rows: &[u32],
    out: &mut [f32],
    seed: &Seed,
    width: usize,
    blocks: usize,
    threshold: u32,
    scale: f32,
) {
    let row = ABSOLUTE_POS / blocks;
    if row < out.len() / width {
        let block = ABSOLUTE_POS % blocks;
        let mut state = chacha::initial_state(seed, u32::cast_from(block));
        // The parts of the key that hold the example and the copy.
        state[6] = rows[2 * row];
        state[7] = rows[2 * row + 1];
        let bits = chacha::block(&state, DOUBLE_ROUNDS);
        #[unroll]
        for i in 0..BLOCK_LEN {
            let at = block * BLOCK_LEN + i;
            if at < width {
                out[row * width + at] = select(bits[i] < threshold, 0.0f32, scale);
            }
        }
    }
}

/// See [`dropout_masks`](super::super::dropout_masks()). `rows` holds the index and the copy of
/// each example.
pub(super) fn dropout_masks(rows: CubeTensor, masks: DropoutMasks, width: usize) -> CubeTensor {
    let n = rows.meta.num_elements() / 2;
    let blocks = width.div_ceil(BLOCK_LEN);
    let out = alloc(&rows, [n, width], DType::F32);
    draw_masks::launch(
        &out.client,
        grid((n * blocks).div_ceil(CUBE_UNITS)),
        cube_shape(),
        rows.into_buffer_arg(),
        out.clone().into_buffer_arg(),
        chacha::seed(masks.key(0, 0), 0, 0),
        width,
        blocks,
        masks.threshold,
        masks.scale,
    );
    out
}
