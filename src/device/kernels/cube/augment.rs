//! Image augmentation: shifted and flipped copies.

use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::{CUBE_UNITS, alloc, cube_shape, grid, index_type, matrix_dims};

/// Returns the position `at`, reflected at the edge pixels into `0..length`.
#[cube]
fn reflected(at: i32, length: usize) -> usize {
    let last = i32::cast_from(length) - 1;
    let inside = select(at < 0, -at, select(at > last, 2 * last - at, at));
    usize::cast_from(inside)
}

/// Computes one value of an augmented image in each unit: the image is shifted, with reflection at
/// the edges, and flipped.
#[cube(launch, address_type = "dynamic")]
fn augment_values(
    images: &[f32],
    choices: &[i32],
    out: &mut [f32],
    size: usize,
    height: usize,
    width: usize,
    copies: usize,
) {
    if ABSOLUTE_POS < out.len() {
        let copy = ABSOLUTE_POS / size;
        let pixel = ABSOLUTE_POS % size;
        let x = pixel % width;
        let y = (pixel / width) % height;
        let channel_start = pixel - y * width - x;
        let down = choices[3 * copy];
        let right = choices[3 * copy + 1];
        let flipped_x = select(choices[3 * copy + 2] != 0, width - 1 - x, x);
        let from_y = reflected(i32::cast_from(y) + down, height);
        let from_x = reflected(i32::cast_from(flipped_x) + right, width);
        let image = (copy / copies) * size;
        out[ABSOLUTE_POS] = images[image + channel_start + from_y * width + from_x];
    }
}

/// See [`augment`](super::super::augment). `choices` has three integers per copy.
pub(super) fn augment(
    images: CubeTensor,
    choices: CubeTensor,
    [_, height, width]: [usize; 3],
    copies: usize,
) -> CubeTensor {
    let [n, size] = matrix_dims(&images);
    let out = alloc(&images, [n * copies, size], DType::F32);
    augment_values::launch(
        &out.client,
        grid((n * copies * size).div_ceil(CUBE_UNITS)),
        cube_shape(),
        index_type(&out),
        images.into_buffer_arg(),
        choices.into_buffer_arg(),
        out.clone().into_buffer_arg(),
        size,
        height,
        width,
        copies,
    );
    out
}
