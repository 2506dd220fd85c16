//! The lab's own operations where tensor operations would waste bandwidth, or have no answer.
//!
//! Each is a function of plain `f32` tensors that are not tracked, and runs where they live: on a
//! card by a CubeCL kernel (feature `card`), on the CPU by a plain loop, which is also what the
//! kernels are compared to. None of them copies anything to the host.

mod box_muller;
mod flex;
pub(crate) mod stream;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, backend_extension};
use burn::prelude::*;
use stream::Stream;

/// The operations as Burn's backends see them; the functions below say what they do.
#[backend_extension(Flex)]
pub trait CardOps: Backend {
    /// See [`norms`].
    fn norms(rows: FloatTensor<Self>) -> FloatTensor<Self>;
    /// See [`norms`].
    fn weighted_norms(rows: FloatTensor<Self>, roots: FloatTensor<Self>) -> FloatTensor<Self>;
    /// See [`finite`].
    fn finite(rows: FloatTensor<Self>) -> FloatTensor<Self>;
    /// See [`scaled`].
    fn scaled(rows: FloatTensor<Self>, factors: FloatTensor<Self>) -> FloatTensor<Self>;
    /// See [`accumulated`].
    fn accumulated(rows: FloatTensor<Self>, factors: FloatTensor<Self>) -> FloatTensor<Self>;
    /// See [`noised`].
    fn noised(values: FloatTensor<Self>, noise: Noise) -> FloatTensor<Self>;
    /// See [`noised`].
    fn noised_where(
        values: FloatTensor<Self>,
        selected: FloatTensor<Self>,
        noise: Noise,
    ) -> FloatTensor<Self>;
    /// See [`keep_largest`].
    fn keep_largest(
        values: FloatTensor<Self>,
        among: FloatTensor<Self>,
        drop: usize,
    ) -> FloatTensor<Self>;
    /// See [`stretches`].
    fn stretches(values: FloatTensor<Self>, places: usize) -> FloatTensor<Self>;
}

/// Which noise: the values of a tensor take those of `stream` from piece `first` on, one piece for
/// each [`CHUNK`](stream::CHUNK) values, times `std`.
#[derive(Clone, Copy)]
pub struct Noise {
    pub(crate) stream: Stream,
    pub(crate) first: u64,
    pub(crate) std: f64,
}

/// The L2 norm of each row of `[rows, columns]`, `[rows]`, or √Σ (rootⱼ xⱼ)² where roots of weights
/// `[columns]` are given.
///
/// # Guarantee
/// Right to f32 rounding for all finite numbers, also where squares would overflow or vanish: no
/// norm is too small. Not finite if a number of the row is not (with a root that is not 0).
pub fn norms(rows: Tensor<2>, roots: Option<&Tensor<1>>) -> Tensor<1> {
    Tensor::from_dispatch(match roots {
        None => Dispatch::norms(rows.into_dispatch()),
        Some(roots) => {
            Dispatch::weighted_norms(rows.into_dispatch(), roots.clone().into_dispatch())
        }
    })
}

/// 1 for each row of `[rows, columns]` whose numbers are all finite, else 0; told by their bits.
pub fn finite(rows: Tensor<2>) -> Tensor<1> {
    Tensor::from_dispatch(Dispatch::finite(rows.into_dispatch()))
}

/// Each row of `[rows, columns]` times its factor `[rows]`; exactly zero where the factor is,
/// whatever the row holds.
pub fn scaled(rows: Tensor<2>, factors: &Tensor<1>) -> Tensor<2> {
    let (rows, factors) = (rows.into_dispatch(), factors.clone().into_dispatch());
    Tensor::from_dispatch(Dispatch::scaled(rows, factors))
}

/// Σ factor · row over the rows of `[rows, columns]`, `[columns]`; rows of factor 0 add exactly
/// nothing, whatever they hold. The order of the sum depends on the number of rows only.
pub fn accumulated(rows: Tensor<2>, factors: &Tensor<1>) -> Tensor<1> {
    let (rows, factors) = (rows.into_dispatch(), factors.clone().into_dispatch());
    Tensor::from_dispatch(Dispatch::accumulated(rows, factors))
}

/// `values` + std · noise. Where `selected` is given, only at coordinates whose weight is not 0:
/// the others become exactly zero, whatever they were.
///
/// # Guarantee
/// The words are those of the CPU's noise, bit for bit, and the values are made of them by the same
/// formula: on a card in f32, within 1e-4 of a standard deviation.
pub fn noised(values: Tensor<1>, noise: Noise, selected: Option<&Tensor<1>>) -> Tensor<1> {
    Tensor::from_dispatch(match selected {
        None => Dispatch::noised(values.into_dispatch(), noise),
        Some(selected) => {
            let (values, selected) = (values.into_dispatch(), selected.clone().into_dispatch());
            Dispatch::noised_where(values, selected, noise)
        }
    })
}

/// Ones and zeros: of the coordinates whose `among` is not 0, all but the `drop` of smallest absolute
/// value (ties broken by index, what is not a number counts as the smallest); the others are 0.
pub fn keep_largest(values: Tensor<1>, among: Tensor<1>, drop: usize) -> Tensor<1> {
    let (values, among) = (values.into_dispatch(), among.into_dispatch());
    Tensor::from_dispatch(Dispatch::keep_largest(values, among, drop))
}

/// How many of the numbers are not 0 in each of `places` stretches of equal length (stretch c is
/// from ⌊c·n/places⌋ to ⌊(c+1)·n/places⌋), `[places]`.
pub fn stretches(values: Tensor<1>, places: usize) -> Tensor<1> {
    Tensor::from_dispatch(Dispatch::stretches(values.into_dispatch(), places))
}
