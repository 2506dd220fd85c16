//! Concatenation of two arrays.

use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::{CUBE_UNITS, alloc, cube_shape, grid, index_type};

/// Copies one value in each unit, by its bits.
#[cube(launch, address_type = "dynamic")]
fn concat_kernel(a: &[u32], b: &[u32], out: &mut [u32], length_of_a: usize) {
    if ABSOLUTE_POS < out.len() {
        if ABSOLUTE_POS < length_of_a {
            out[ABSOLUTE_POS] = a[ABSOLUTE_POS];
        } else {
            out[ABSOLUTE_POS] = b[ABSOLUTE_POS - length_of_a];
        }
    }
}

/// See [`concat`](super::super::concat).
pub(super) fn concat(a: CubeTensor, b: CubeTensor) -> CubeTensor {
    let (first, length) = (a.meta.num_elements(), a.meta.num_elements() + b.meta.num_elements());
    let out = alloc(&a, [length], DType::F32);
    concat_kernel::launch(
        &out.client,
        grid(length.div_ceil(CUBE_UNITS)),
        cube_shape(),
        index_type(&out),
        a.into_buffer_arg(),
        b.into_buffer_arg(),
        out.clone().into_buffer_arg(),
        first,
    );
    out
}
