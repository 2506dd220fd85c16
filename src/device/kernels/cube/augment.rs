//! Versions of images: mirrored and moved.

use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::{UNITS, addresses, alloc, grid, matrix, units};

/// A position beyond an edge, reflected at the edge pixel.
#[cube]
fn mirrored(at: i32, length: usize) -> usize {
    let last = i32::cast_from(length) - 1;
    let inside = select(at < 0, -at, select(at > last, 2 * last - at, at));
    usize::cast_from(inside)
}

/// Each unit fetches one pixel.
#[cube(launch, address_type = "dynamic")]
fn fetch(
    images: &[f32],
    choices: &[i32],
    out: &mut [f32],
    size: usize,
    height: usize,
    width: usize,
    copies: usize,
) {
    if ABSOLUTE_POS < out.len() {
        let version = ABSOLUTE_POS / size;
        let pixel = ABSOLUTE_POS % size;
        let x = pixel % width;
        let y = (pixel / width) % height;
        let plane = pixel - y * width - x;
        let down = choices[3 * version];
        let right = choices[3 * version + 1];
        let turned = select(choices[3 * version + 2] != 0, width - 1 - x, x);
        let from_y = mirrored(i32::cast_from(y) + down, height);
        let from_x = mirrored(i32::cast_from(turned) + right, width);
        let image = (version / copies) * size;
        out[ABSOLUTE_POS] = images[image + plane + from_y * width + from_x];
    }
}

/// `[n · copies, size]`; `choices` holds three numbers for each version.
pub(super) fn augment(
    images: CubeTensor,
    choices: CubeTensor,
    [_, height, width]: [usize; 3],
    copies: usize,
) -> CubeTensor {
    let [n, size] = matrix(&images);
    let out = alloc(&images, [n * copies, size], DType::F32);
    fetch::launch(
        &out.client,
        grid((n * copies * size).div_ceil(UNITS)),
        units(),
        addresses(&out),
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
