//! The operations on a GPU, as CubeCL kernels that are compiled at their first use, for CUDA or
//! WGSL.
//!
//! WGSL compilers may assume that all values are finite, so the kernels detect zeros, infinities
//! and NaN by their bits. No result depends on the order in which cubes run: the same inputs give
//! the same bits in every run.

mod augment;
mod box_muller;
mod chacha;
mod concat;
mod count_nonzero;
mod dropout;
mod noise;
mod products;
mod radix_select;
mod row_reductions;
mod row_sums;
mod scaled_squares;

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::tensor::{DType, Shape};
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;
use cubecl::ir::AddressType;
use cubecl::prelude::*;

use super::{DeviceOps, DropoutMasks, NoiseParams};

/// Units (threads) per cube (block): the maximum that WGSL guarantees.
const CUBE_UNITS: usize = 256;

/// The bits of a float except its sign.
const ABS_MASK: u32 = 0x7fff_ffff;

/// The bits of infinity. The absolute bits of NaN are larger.
const INFINITY_BITS: u32 = 0x7f80_0000;

/// Returns a grid of at least this many cubes; GPUs allow at most 65,535 along each dimension.
fn grid(cubes: usize) -> CubeCount {
    const MAX_WIDTH: usize = 1 << 15;
    let (x, y) = (cubes.min(MAX_WIDTH), cubes.div_ceil(MAX_WIDTH));
    CubeCount::Static(x as u32, y as u32, 1)
}

fn cube_shape() -> CubeDim {
    CubeDim::new_1d(CUBE_UNITS as u32)
}

/// Allocates an uninitialised tensor on the device of `template`. Its buffer has exactly as many
/// elements as the tensor. Those of other tensors may have more, because CUDA pads rows, so a
/// kernel must not take the length of an input for a number of elements.
fn alloc(template: &CubeTensor, shape: impl Into<Shape>, dtype: DType) -> CubeTensor {
    let (client, device) = (template.client.clone(), template.device.clone());
    empty_device_contiguous_dtype(client, device, shape.into(), dtype)
}

/// Returns the integer type of indices into this tensor. Indices beyond its end occur too.
fn index_type(x: &CubeTensor) -> AddressType {
    AddressType::from_len_signed(x.meta.num_elements())
}

/// Returns the shape `[rows, columns]` of a matrix.
fn matrix_dims(x: &CubeTensor) -> [usize; 2] {
    [x.meta.shape()[0], x.meta.shape()[1]]
}

impl DeviceOps for CubeBackend {
    fn row_norms(rows: FloatTensor<Self>) -> FloatTensor<Self> {
        row_reductions::row_norms(into_contiguous(rows), None)
    }

    fn weighted_row_norms(rows: FloatTensor<Self>, roots: FloatTensor<Self>) -> FloatTensor<Self> {
        row_reductions::row_norms(into_contiguous(rows), Some(into_contiguous(roots)))
    }

    fn finite_rows(rows: FloatTensor<Self>) -> FloatTensor<Self> {
        row_reductions::finite_rows(into_contiguous(rows))
    }

    fn scale_rows(rows: FloatTensor<Self>, factors: FloatTensor<Self>) -> FloatTensor<Self> {
        row_sums::scale_rows(into_contiguous(rows), into_contiguous(factors))
    }

    fn weighted_row_sum(rows: FloatTensor<Self>, factors: FloatTensor<Self>) -> FloatTensor<Self> {
        row_sums::weighted_row_sum(into_contiguous(rows), into_contiguous(factors))
    }

    fn matmul(a: FloatTensor<Self>, b: FloatTensor<Self>) -> FloatTensor<Self> {
        products::matmul(into_contiguous(a), into_contiguous(b))
    }

    fn weighted_outer_sum(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        factors: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        products::weighted_outer_sum(
            into_contiguous(a),
            into_contiguous(b),
            into_contiguous(factors),
        )
    }

    fn concat(a: FloatTensor<Self>, b: FloatTensor<Self>) -> FloatTensor<Self> {
        concat::concat(into_contiguous(a), into_contiguous(b))
    }

    fn add_noise(values: FloatTensor<Self>, noise: NoiseParams) -> FloatTensor<Self> {
        noise::add_noise(into_contiguous(values), None, noise)
    }

    fn add_noise_where(
        values: FloatTensor<Self>,
        selected: FloatTensor<Self>,
        noise: NoiseParams,
    ) -> FloatTensor<Self> {
        noise::add_noise(into_contiguous(values), Some(into_contiguous(selected)), noise)
    }

    fn random_bits(
        tensor: FloatTensor<Self>,
        noise: NoiseParams,
        blocks: usize,
    ) -> IntTensor<Self> {
        noise::random_bits(&tensor, noise, blocks)
    }

    fn normals(bits: IntTensor<Self>, noise: NoiseParams) -> FloatTensor<Self> {
        noise::normals(into_contiguous(bits), noise)
    }

    fn largest_mask(
        values: FloatTensor<Self>,
        candidates: FloatTensor<Self>,
        drop: usize,
    ) -> FloatTensor<Self> {
        radix_select::largest_mask(into_contiguous(values), into_contiguous(candidates), drop)
    }

    fn count_nonzero_bins(values: FloatTensor<Self>, bins: usize) -> FloatTensor<Self> {
        count_nonzero::count_nonzero_bins(into_contiguous(values), bins)
    }

    fn dropout_masks(
        rows: IntTensor<Self>,
        masks: DropoutMasks,
        width: usize,
    ) -> FloatTensor<Self> {
        dropout::dropout_masks(into_contiguous(rows), masks, width)
    }

    fn augment(
        images: FloatTensor<Self>,
        choices: IntTensor<Self>,
        shape: [usize; 3],
        copies: usize,
    ) -> FloatTensor<Self> {
        augment::augment(into_contiguous(images), into_contiguous(choices), shape, copies)
    }
}
