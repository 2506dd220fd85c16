//! The operations on a GPU, as CubeCL kernels: compiled when first used, for CUDA or WGSL.
//!
//! WGSL compilers may assume that every number is finite, so kernels tell those that are not, and
//! zeros, by their bits. No kernel depends on which of its cubes runs first: the same
//! shapes give the same bits in every run.

mod augment;
mod chacha;
mod count_nonzero;
mod dropout;
mod noise;
mod normal;
mod products;
mod rows;
mod select;
mod squares;
mod sums;

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::tensor::{DType, Shape};
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;
use cubecl::ir::AddressType;
use cubecl::prelude::*;

use super::{DeviceOps, Masks, Noise};

/// Units of a cube that work together: the most that WGSL promises.
const UNITS: usize = 256;

/// The bits of a number but for its sign: all zero for zeros only.
const SIZE: u32 = 0x7fff_ffff;

/// The bits of infinity; the sizes of what is not a number are larger.
const INFINITE: u32 = 0x7f80_0000;

/// At least so many cubes: a GPU counts at most 65,535 along one side.
fn grid(cubes: usize) -> CubeCount {
    const SIDE: usize = 1 << 15;
    let (x, y) = (cubes.min(SIDE), cubes.div_ceil(SIDE));
    CubeCount::Static(x as u32, y as u32, 1)
}

fn units() -> CubeDim {
    CubeDim::new_1d(UNITS as u32)
}

/// Room for a result beside this tensor.
fn alloc(beside: &CubeTensor, shape: impl Into<Shape>, dtype: DType) -> CubeTensor {
    let (client, device) = (beside.client.clone(), beside.device.clone());
    empty_device_contiguous_dtype(client, device, shape.into(), dtype)
}

/// How wide the positions in this tensor are counted. Positions behind its end occur too.
fn addresses(x: &CubeTensor) -> AddressType {
    AddressType::from_len_signed(x.meta.num_elements())
}

/// The rows and columns of a matrix.
fn matrix(x: &CubeTensor) -> [usize; 2] {
    [x.meta.shape()[0], x.meta.shape()[1]]
}

impl DeviceOps for CubeBackend {
    fn norms(rows: FloatTensor<Self>) -> FloatTensor<Self> {
        rows::norms(into_contiguous(rows), None)
    }

    fn weighted_norms(rows: FloatTensor<Self>, roots: FloatTensor<Self>) -> FloatTensor<Self> {
        rows::norms(into_contiguous(rows), Some(into_contiguous(roots)))
    }

    fn finite(rows: FloatTensor<Self>) -> FloatTensor<Self> {
        rows::finite(into_contiguous(rows))
    }

    fn scaled(rows: FloatTensor<Self>, factors: FloatTensor<Self>) -> FloatTensor<Self> {
        sums::scaled(into_contiguous(rows), into_contiguous(factors))
    }

    fn accumulated(rows: FloatTensor<Self>, factors: FloatTensor<Self>) -> FloatTensor<Self> {
        sums::accumulated(into_contiguous(rows), into_contiguous(factors))
    }

    fn product(a: FloatTensor<Self>, b: FloatTensor<Self>) -> FloatTensor<Self> {
        products::product(into_contiguous(a), into_contiguous(b))
    }

    fn outer_sum(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        factors: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        products::outer_sum(into_contiguous(a), into_contiguous(b), into_contiguous(factors))
    }

    fn noised(values: FloatTensor<Self>, noise: Noise) -> FloatTensor<Self> {
        noise::noised(into_contiguous(values), None, noise)
    }

    fn noised_where(
        values: FloatTensor<Self>,
        selected: FloatTensor<Self>,
        noise: Noise,
    ) -> FloatTensor<Self> {
        noise::noised(into_contiguous(values), Some(into_contiguous(selected)), noise)
    }

    fn random_bits(place: FloatTensor<Self>, noise: Noise, blocks: usize) -> IntTensor<Self> {
        noise::random_bits(&place, noise, blocks)
    }

    fn normals(words: IntTensor<Self>) -> FloatTensor<Self> {
        noise::normals(into_contiguous(words))
    }

    fn keep_largest(
        values: FloatTensor<Self>,
        among: FloatTensor<Self>,
        drop: usize,
    ) -> FloatTensor<Self> {
        select::keep_largest(into_contiguous(values), into_contiguous(among), drop)
    }

    fn count_nonzero_bins(values: FloatTensor<Self>, places: usize) -> FloatTensor<Self> {
        count_nonzero::count_nonzero_bins(into_contiguous(values), places)
    }

    fn dropout(rows: IntTensor<Self>, masks: Masks, each: usize) -> FloatTensor<Self> {
        dropout::dropout(into_contiguous(rows), masks, each)
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
