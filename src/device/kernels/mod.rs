//! The lab's own operations where tensor operations would waste bandwidth, or have no answer.
//!
//! Each is a function of plain `f32` tensors that are not tracked, and runs where they live: on a
//! GPU by a CubeCL kernel (feature `gpu`), on the CPU by a plain loop, which is also what the
//! kernels are compared to. None of them copies anything to the host.

mod box_muller;
#[cfg(feature = "gpu")]
mod cube;
mod flex;
mod masks;
mod ops;
pub(crate) mod stream;

use burn::backend::Dispatch;
use burn::prelude::*;
use burn::tensor::DType;
use stream::Stream;

pub use masks::Masks;
pub use ops::DeviceOps;

/// Which noise: the values of a tensor take those of `stream` from piece `first` on, one piece for
/// each [`CHUNK`](stream::CHUNK) values, times `std`.
#[derive(Clone, Copy)]
pub struct Noise {
    pub(crate) stream: Stream,
    pub(crate) first: u64,
    pub(crate) std: f64,
}

impl Noise {
    /// The noise of this ChaCha20 key and step, from piece `first` on. `std` is the standard
    /// deviation of each value, in the units of what it is added to.
    pub fn new(seed: [u8; 32], step: u64, first: u64, std: f64) -> Self {
        Self { stream: Stream { seed, step }, first, std }
    }
}

/// The L2 norm of each row of `[rows, columns]`, `[rows]`, or √Σ (rootⱼ xⱼ)² where roots of weights
/// `[columns]` are given.
///
/// # Guarantee
/// Right to f32 rounding for all finite numbers, also where squares would overflow or vanish: no
/// norm is too small. Not finite if a number of the row is not (with a root that is not 0).
pub fn norms(rows: Tensor<2>, roots: Option<&Tensor<1>>) -> Tensor<1> {
    if rows.shape().num_elements() == 0 {
        return Tensor::zeros([rows.dims()[0]], &rows.device());
    }
    Tensor::from_dispatch(match roots {
        None => Dispatch::norms(rows.into_dispatch()),
        Some(roots) => {
            Dispatch::weighted_norms(rows.into_dispatch(), roots.clone().into_dispatch())
        }
    })
}

/// 1 for each row of `[rows, columns]` whose numbers are all finite, else 0; told by their bits.
pub fn finite(rows: Tensor<2>) -> Tensor<1> {
    if rows.shape().num_elements() == 0 {
        return Tensor::ones([rows.dims()[0]], &rows.device());
    }
    Tensor::from_dispatch(Dispatch::finite(rows.into_dispatch()))
}

/// Each row of `[rows, columns]` times its factor `[rows]`; exactly zero where the factor is,
/// whatever the row holds.
pub fn scaled(rows: Tensor<2>, factors: &Tensor<1>) -> Tensor<2> {
    if rows.shape().num_elements() == 0 {
        return rows;
    }
    let (rows, factors) = (rows.into_dispatch(), factors.clone().into_dispatch());
    Tensor::from_dispatch(Dispatch::scaled(rows, factors))
}

/// Σ factor · row over the rows of `[rows, columns]`, `[columns]`; rows of factor 0 add exactly
/// nothing, whatever they hold. The order of the sum depends on the number of rows only.
pub fn accumulated(rows: Tensor<2>, factors: &Tensor<1>) -> Tensor<1> {
    if rows.shape().num_elements() == 0 {
        return Tensor::zeros([rows.dims()[1]], &rows.device());
    }
    let (rows, factors) = (rows.into_dispatch(), factors.clone().into_dispatch());
    Tensor::from_dispatch(Dispatch::accumulated(rows, factors))
}

/// a b for `[rows, terms]` and `[terms, columns]`, flat. In f32, where a backend's own product may
/// round its factors to fewer digits.
pub fn product(a: Tensor<2>, b: Tensor<2>) -> Tensor<1> {
    let ([rows, terms], [_, columns]) = (a.dims(), b.dims());
    if rows * terms * columns == 0 {
        return Tensor::zeros([rows * columns], &a.device());
    }
    Tensor::from_dispatch(Dispatch::product(a.into_dispatch(), b.into_dispatch()))
}

/// Σ factor · aᵀ b over the rows of `[rows, inputs]` and `[rows, outputs]`, flat
/// `[inputs · outputs]`. In f32; rows of factor 0 add exactly nothing, whatever they hold. The order
/// of the sum depends on the shapes only.
pub fn outer_sum(a: Tensor<2>, b: Tensor<2>, factors: &Tensor<1>) -> Tensor<1> {
    let ([rows, inputs], [_, outputs]) = (a.dims(), b.dims());
    if rows * inputs * outputs == 0 {
        return Tensor::zeros([inputs * outputs], &a.device());
    }
    let (a, b) = (a.into_dispatch(), b.into_dispatch());
    Tensor::from_dispatch(Dispatch::outer_sum(a, b, factors.clone().into_dispatch()))
}

/// `values` + std · noise. Where `selected` is given, only at coordinates whose weight is not 0:
/// the others become exactly zero, whatever they were.
///
/// # Guarantee
/// The words are those of the CPU's noise, bit for bit, and the values are made of them by the same
/// formula: on a GPU in f32, within 1e-5 of a standard deviation.
pub fn noised(values: Tensor<1>, noise: Noise, selected: Option<&Tensor<1>>) -> Tensor<1> {
    if values.shape().num_elements() == 0 {
        return values;
    }
    Tensor::from_dispatch(match selected {
        None => Dispatch::noised(values.into_dispatch(), noise),
        Some(selected) => {
            let (values, selected) = (values.into_dispatch(), selected.clone().into_dispatch());
            Dispatch::noised_where(values, selected, noise)
        }
    })
}

/// The random words of the first `blocks` blocks of 32 values of this noise: for each block 16
/// pairs, the low word first, for the radii, then 16 for the angles. For those who want to see that
/// a GPU draws what the CPU draws.
pub fn random_bits(noise: Noise, blocks: usize, device: &Device) -> Tensor<1, Int> {
    if blocks == 0 {
        return Tensor::empty([0], (device, DType::I32));
    }
    let place = Tensor::<1>::empty([1], device).into_dispatch();
    Tensor::from_dispatch(Dispatch::random_bits(place, noise, blocks))
}

/// The standard normal values that such [`random_bits`] become, 32 for each block of 48.
pub fn normals(words: Tensor<1, Int>) -> Tensor<1> {
    if words.shape().num_elements() == 0 {
        return Tensor::zeros([0], &words.device());
    }
    Tensor::from_dispatch(Dispatch::normals(words.cast(DType::I32).into_dispatch()))
}

/// Ones and zeros: of the coordinates whose `among` is not 0, all but the `drop` of smallest absolute
/// value (ties broken by index, what is not a number counts as the smallest); the others are 0.
pub fn keep_largest(values: Tensor<1>, among: Tensor<1>, drop: usize) -> Tensor<1> {
    if values.shape().num_elements() == 0 {
        return values;
    }
    let (values, among) = (values.into_dispatch(), among.into_dispatch());
    Tensor::from_dispatch(Dispatch::keep_largest(values, among, drop))
}

/// How many of the numbers are not 0 in each of `places` stretches of equal length (stretch c is
/// from ⌊c·n/places⌋ to ⌊(c+1)·n/places⌋), `[places]`.
pub fn count_nonzero_bins(values: Tensor<1>, places: usize) -> Tensor<1> {
    if places == 0 || values.shape().num_elements() == 0 {
        return Tensor::zeros([places], &values.device());
    }
    Tensor::from_dispatch(Dispatch::count_nonzero_bins(values.into_dispatch(), places))
}

/// Dropout masks, `[rows, each]`: 0 with probability `rate` (in [0, 1)), else 1/(1 - `rate`). A row
/// is given by the number of its example in the data set and by its copy's: it has a stream of its
/// own, so that what else is in the batch changes nothing.
pub fn dropout(
    seed: u64,
    layer: usize,
    rate: f64,
    rows: &[(u32, u32)],
    each: usize,
    device: &Device,
) -> Tensor<2> {
    if rows.is_empty() || each == 0 {
        return Tensor::zeros([rows.len(), each], device);
    }
    let numbers = rows.iter().flat_map(|&(id, copy)| [id as i32, copy as i32]).collect();
    let rows = integers(numbers, device).into_dispatch();
    Tensor::from_dispatch(Dispatch::dropout(rows, Masks::new(seed, layer, rate), each))
}

/// `copies` versions of each image of `[n, channels · height · width]`, `[n · copies, ...]`. A
/// choice says how many rows down and columns to the right a version begins (less than the image
/// has of them; beyond an edge the image is mirrored there, the edge itself is not repeated) and
/// whether it is flipped left to right (1) or not (0).
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

/// Integers of 32 bits, on a device.
fn integers(numbers: Vec<i32>, device: &Device) -> Tensor<1, Int> {
    let count = numbers.len();
    Tensor::from_data(TensorData::new(numbers, [count]), (device, DType::I32))
}
