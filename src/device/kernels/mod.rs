//! The lab's own tensor operations, where Burn's would waste memory bandwidth or do not exist.
//!
//! Each is a function of `f32` tensors that do not track gradients, and runs on their device: on a
//! GPU as a CubeCL kernel (feature `gpu`), on the CPU as a plain loop, which tests compare the
//! kernels with. None of them copies values to the host.

mod box_muller;
#[cfg(feature = "gpu")]
mod cube;
mod dropout_masks;
mod flex;
pub(crate) mod noise_stream;
mod ops;

use burn::backend::Dispatch;
use burn::prelude::*;
use burn::tensor::DType;
use noise_stream::NoiseStream;

pub use dropout_masks::DropoutMasks;
pub use ops::DeviceOps;

/// Parameters of Gaussian noise: the values of a random stream from one of its chunks on, times
/// `std`.
///
/// A tensor uses one chunk for each 2048 of its values.
#[derive(Clone, Copy)]
pub struct NoiseParams {
    pub(crate) stream: NoiseStream,
    pub(crate) first_chunk: u64,
    pub(crate) std: f64,
}

impl NoiseParams {
    /// Creates noise of the ChaCha20 stream number `step` with key `seed`, from chunk
    /// `first_chunk` on. `std` is the standard deviation of each value.
    pub fn new(seed: [u8; 32], step: u64, first_chunk: u64, std: f64) -> Self {
        Self { stream: NoiseStream { seed, step }, first_chunk, std }
    }
}

/// Computes the L2 norm of each row of `[rows, columns]`, `[rows]`. With `roots` `[columns]`, the
/// square roots of weights, it is √Σ (rootⱼ xⱼ)².
///
/// # Guarantee
/// Correct up to rounding, also where squares of finite values overflow or underflow: the relative
/// error is about 1e-7, or about 1e-5 in long rows on a GPU whose compiler removes the compensation
/// of the sums. A norm may be too small by that much. Not finite if a value of the row with a
/// nonzero root is not finite.
pub fn row_norms(rows: Tensor<2>, roots: Option<&Tensor<1>>) -> Tensor<1> {
    if rows.shape().num_elements() == 0 {
        return Tensor::zeros([rows.dims()[0]], &rows.device());
    }
    Tensor::from_dispatch(match roots {
        None => Dispatch::row_norms(rows.into_dispatch()),
        Some(roots) => {
            Dispatch::weighted_row_norms(rows.into_dispatch(), roots.clone().into_dispatch())
        }
    })
}

/// Returns 1 for each row of `[rows, columns]` whose values are all finite, else 0, `[rows]`.
/// Tests the bits.
pub fn finite_rows(rows: Tensor<2>) -> Tensor<1> {
    if rows.shape().num_elements() == 0 {
        return Tensor::ones([rows.dims()[0]], &rows.device());
    }
    Tensor::from_dispatch(Dispatch::finite_rows(rows.into_dispatch()))
}

/// Multiplies each row of `[rows, columns]` by its factor, `[rows]`. A factor of 0 gives exactly
/// 0, also for values that are not finite.
pub fn scale_rows(rows: Tensor<2>, factors: &Tensor<1>) -> Tensor<2> {
    if rows.shape().num_elements() == 0 {
        return rows;
    }
    let (rows, factors) = (rows.into_dispatch(), factors.clone().into_dispatch());
    Tensor::from_dispatch(Dispatch::scale_rows(rows, factors))
}

/// Computes the weighted sum Σ factor · row over the rows of `[rows, columns]`, `[columns]`.
///
/// Rows of factor 0 contribute exactly 0, also if they are not finite. The order of summation
/// depends on the number of rows only.
pub fn weighted_row_sum(rows: Tensor<2>, factors: &Tensor<1>) -> Tensor<1> {
    if rows.shape().num_elements() == 0 {
        return Tensor::zeros([rows.dims()[1]], &rows.device());
    }
    let (rows, factors) = (rows.into_dispatch(), factors.clone().into_dispatch());
    Tensor::from_dispatch(Dispatch::weighted_row_sum(rows, factors))
}

/// Computes the matrix product of `[rows, terms]` and `[terms, columns]`, flat `[rows · columns]`,
/// in f32. The product of a backend may round its inputs to fewer bits.
pub fn matmul(a: Tensor<2>, b: Tensor<2>) -> Tensor<1> {
    let ([rows, terms], [_, columns]) = (a.dims(), b.dims());
    if rows * terms * columns == 0 {
        return Tensor::zeros([rows * columns], &a.device());
    }
    Tensor::from_dispatch(Dispatch::matmul(a.into_dispatch(), b.into_dispatch()))
}

/// Computes the weighted sum Σ factor · aᵀ b of outer products over the rows of `[rows, inputs]`
/// and `[rows, outputs]`, flat `[inputs · outputs]`, in f32.
///
/// Rows of factor 0 contribute exactly 0, also if they are not finite. The order of summation
/// depends on the shapes only.
pub fn weighted_outer_sum(a: Tensor<2>, b: Tensor<2>, factors: &Tensor<1>) -> Tensor<1> {
    let ([rows, inputs], [_, outputs]) = (a.dims(), b.dims());
    if rows * inputs * outputs == 0 {
        return Tensor::zeros([inputs * outputs], &a.device());
    }
    let (a, b) = (a.into_dispatch(), b.into_dispatch());
    Tensor::from_dispatch(Dispatch::weighted_outer_sum(a, b, factors.clone().into_dispatch()))
}

/// Concatenates several arrays, in this order. There must be at least one array.
///
/// In contrast to `Tensor::cat` this keeps failures: if any of the arrays could not be computed,
/// reading the result reports it. Burn's kernel writes one array after the other into the result,
/// and CubeCL takes a later successful write for a repair of the whole.
pub fn concat(arrays: Vec<Tensor<1>>) -> Tensor<1> {
    let mut arrays: Vec<_> = arrays.into_iter().filter(|array| array.dims()[0] > 0).collect();
    // Pairs, then pairs of pairs, so that each value is copied few times.
    while arrays.len() > 1 {
        let mut rest = arrays.into_iter();
        arrays = Vec::new();
        while let Some(a) = rest.next() {
            arrays.push(match rest.next() {
                Some(b) => {
                    Tensor::from_dispatch(Dispatch::concat(a.into_dispatch(), b.into_dispatch()))
                }
                None => a,
            });
        }
    }
    arrays.pop().unwrap_or_else(|| Tensor::zeros([0], &Device::flex()))
}

/// Adds Gaussian noise to `values`. With `selected`, coordinates of weight 0 become exactly 0
/// instead, whatever their values.
///
/// # Guarantee
/// All devices use the same random bits and the same formula. A GPU computes it in f32, within 1e-5
/// standard deviations of the CPU.
pub fn add_noise(values: Tensor<1>, noise: NoiseParams, selected: Option<&Tensor<1>>) -> Tensor<1> {
    if values.shape().num_elements() == 0 {
        return values;
    }
    Tensor::from_dispatch(match selected {
        None => Dispatch::add_noise(values.into_dispatch(), noise),
        Some(selected) => {
            let (values, selected) = (values.into_dispatch(), selected.clone().into_dispatch());
            Dispatch::add_noise_where(values, selected, noise)
        }
    })
}

/// Draws the random bits of the first `blocks` blocks of this noise, 48 integers per block of 32
/// values: 16 pairs (low half first) for the radii, then 16 for the angles.
///
/// Tests use it to compare a GPU with the CPU.
pub fn random_bits(noise: NoiseParams, blocks: usize, device: &Device) -> Tensor<1, Int> {
    if blocks == 0 {
        return Tensor::empty([0], (device, DType::I32));
    }
    let on = Tensor::<1>::empty([1], device).into_dispatch();
    Tensor::from_dispatch(Dispatch::random_bits(on, noise, blocks))
}

/// Computes the Box-Muller transform of [`random_bits`]: 32 standard normal values for each block
/// of 48 integers. Radii in the tail are extended by `noise`, whose blocks these are.
///
/// Tests use it to see what bits that are never drawn would give.
pub fn normals(bits: Tensor<1, Int>, noise: NoiseParams) -> Tensor<1> {
    if bits.shape().num_elements() == 0 {
        return Tensor::zeros([0], &bits.device());
    }
    Tensor::from_dispatch(Dispatch::normals(bits.cast(DType::I32).into_dispatch(), noise))
}

/// Returns a 0/1 tensor with ones at the candidates (nonzero in `candidates`) except for the
/// `drop` of smallest absolute value. Ties are dropped in index order; NaN counts as the smallest
/// value.
pub fn largest_mask(values: Tensor<1>, candidates: Tensor<1>, drop: usize) -> Tensor<1> {
    if values.shape().num_elements() == 0 {
        return values;
    }
    let (values, candidates) = (values.into_dispatch(), candidates.into_dispatch());
    Tensor::from_dispatch(Dispatch::largest_mask(values, candidates, drop))
}

/// Returns the number of nonzero values in each of `bins` consecutive bins of equal size,
/// `[bins]`. Bin c of n values is ⌊c·n/bins⌋..⌊(c+1)·n/bins⌋.
pub fn count_nonzero_bins(values: Tensor<1>, bins: usize) -> Tensor<1> {
    if bins == 0 || values.shape().num_elements() == 0 {
        return Tensor::zeros([bins], &values.device());
    }
    Tensor::from_dispatch(Dispatch::count_nonzero_bins(values.into_dispatch(), bins))
}

/// Draws dropout masks `[rows, width]`: 0 with probability `rate` (in [0, 1)), else 1/(1 -
/// `rate`).
///
/// `rows` holds the index in the data set and the copy of each example. Each row has a random
/// stream of its own, so it does not depend on the rest of the batch.
pub fn dropout_masks(
    seed: u64,
    layer: usize,
    rate: f64,
    rows: &[(u32, u32)],
    width: usize,
    device: &Device,
) -> Tensor<2> {
    if rows.is_empty() || width == 0 {
        return Tensor::zeros([rows.len(), width], device);
    }
    let rows = rows.iter().flat_map(|&(example, copy)| [example as i32, copy as i32]).collect();
    let rows = integers(rows, device).into_dispatch();
    let masks = DropoutMasks::new(seed, layer, rate);
    Tensor::from_dispatch(Dispatch::dropout_masks(rows, masks, width))
}

/// Makes `copies` augmented copies of each image of `[n, channels · height · width]`,
/// `[n · copies, channels · height · width]`.
///
/// Each copy has a choice `[down, right, flip]`: its origin is shifted by `down` rows and `right`
/// columns, each less than the image has, with reflection padding (the edge pixel is not repeated),
/// and it is flipped left to right if `flip` is 1.
pub fn augment(
    images: Tensor<2>,
    shape: [usize; 3],
    choices: &[[i32; 3]],
    copies: usize,
) -> Tensor<2> {
    let [n, size] = images.dims();
    if n * size * copies == 0 {
        return Tensor::zeros([n * copies, size], &images.device());
    }
    let choices = integers(choices.concat(), &images.device()).into_dispatch();
    Tensor::from_dispatch(Dispatch::augment(images.into_dispatch(), choices, shape, copies))
}

/// Creates a tensor of 32-bit integers on a device.
fn integers(values: Vec<i32>, device: &Device) -> Tensor<1, Int> {
    let count = values.len();
    Tensor::from_data(TensorData::new(values, [count]), (device, DType::I32))
}
