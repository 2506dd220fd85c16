//! Backward hooks: one records the gradient of the loss with respect to an intermediate tensor, one
//! clips it.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::prelude::*;
use burn::tensor::Gradients as BurnGradients;
use burn_autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn_autodiff::grads::Gradients;
use burn_autodiff::ops::{Backward, Ops, OpsKind};

use crate::device::kernels::DeviceOps;
use crate::nn::kernels::record;
use crate::nn::{BatchTensor, UpstreamClip};

/// Backward hooks as backend operations of Burn; called by [`tap`] and [`clip_gradient`].
#[cfg_attr(feature = "gpu", backend_extension(Flex, Cube, Autodiff))]
#[cfg_attr(not(feature = "gpu"), backend_extension(Flex, Autodiff))]
pub trait TapOps: Backend {
    /// Returns `y` unchanged; autodiff also stores its gradient under `anchor`.
    fn tap(y: FloatTensor<Self>, anchor: FloatTensor<Self>) -> FloatTensor<Self>;
    /// Returns `y` unchanged; autodiff clips its gradient.
    fn clip_gradient(y: FloatTensor<Self>, clip: RowClip) -> FloatTensor<Self>;
}

impl TapOps for Flex {
    fn tap(y: FloatTensor<Self>, _anchor: FloatTensor<Self>) -> FloatTensor<Self> {
        y
    }
    fn clip_gradient(y: FloatTensor<Self>, _: RowClip) -> FloatTensor<Self> {
        y
    }
}

#[cfg(feature = "gpu")]
impl TapOps for burn_cubecl::CubeBackend {
    fn tap(y: FloatTensor<Self>, _anchor: FloatTensor<Self>) -> FloatTensor<Self> {
        y
    }
    fn clip_gradient(y: FloatTensor<Self>, _: RowClip) -> FloatTensor<Self> {
        y
    }
}

impl<B: Backend + TapOps + DeviceOps, C: CheckpointStrategy> TapOps for Autodiff<B, C> {
    fn tap(y: FloatTensor<Self>, anchor: FloatTensor<Self>) -> FloatTensor<Self> {
        #[derive(Debug)]
        struct Tap;
        impl<B: Backend> Backward<B, 2> for Tap {
            type State = ();
            fn backward(self, ops: Ops<(), 2>, grads: &mut Gradients, _: &mut Checkpointer) {
                let gradient = grads.consume::<B>(&ops.node);
                let [y, anchor] = ops.parents;
                if let Some(anchor) = anchor {
                    grads.register::<B>(anchor.id, gradient.clone());
                }
                if let Some(y) = y {
                    grads.register::<B>(y.id, gradient);
                }
            }
        }
        // The parts keep both nodes alive until `finish` has registered the operation.
        let (y, y_node) = y.into_parts();
        let (_, anchor_node) = anchor.into_parts();
        match Tap.prepare::<C>([y_node, anchor_node]).compute_bound().stateful() {
            OpsKind::Tracked(step) => step.finish((), y),
            OpsKind::UnTracked(step) => step.finish(y),
        }
    }

    fn clip_gradient(y: FloatTensor<Self>, clip: RowClip) -> FloatTensor<Self> {
        let (y, node) = y.into_parts();
        record::<B, C>(node, y, move |gradient| clip.apply::<B>(gradient))
    }
}

/// [`UpstreamClip`] for examples of several rows each.
#[derive(Clone, Copy, Debug)]
pub struct RowClip {
    clip: UpstreamClip,
    copies: usize,
}

impl RowClip {
    /// Clips each row of a gradient, `[rows, channels, height, width]`, `[rows, time, features]` or
    /// `[rows, features]`.
    fn apply<B: Backend + DeviceOps>(self, gradient: FloatTensor<B>) -> FloatTensor<B> {
        let shape = gradient.shape();
        let (n, len) = (shape[0], shape.num_elements() / shape[0].max(1));
        if n * len == 0 {
            return gradient;
        }
        let rows = B::float_reshape(gradient.clone(), [n, len].into());
        let max_norm = self.clip.max_norm() / self.copies as f64;
        let factors = |norms: FloatTensor<B>| {
            let norms = B::float_reshape(norms, [n].into());
            clip_factors::<B>(norms, max_norm)
        };
        let factors = match self.clip {
            UpstreamClip::LinearMap { l15, sqrt_m, .. } => {
                let by_l2 = sqrt_m.map(|factor| {
                    let norms = B::row_norms(rows.clone());
                    factors(B::float_mul_scalar(norms, factor.into()))
                });
                let by_l15 = l15.then(|| factors(B::row_norms(channel_sums::<B>(gradient))));
                match (by_l15, by_l2) {
                    (Some(a), Some(b)) => elementwise_max::<B>(a, b),
                    (Some(one), None) | (None, Some(one)) => one,
                    (None, None) => factors(B::row_norms(rows.clone())),
                }
            }
            UpstreamClip::TokenLookup { .. } => {
                let time = if shape.num_dims() == 3 { shape[1] } else { 1 };
                let steps = B::float_reshape(rows.clone(), [n * time, len / time].into());
                let norms = B::float_reshape(B::row_norms(steps), [n, time].into());
                factors(B::float_sum_dim(norms, 1))
            }
        };
        // Exactly 0 for rows that are not finite.
        let column = B::float_reshape(factors, [n, 1].into());
        let factors = B::scale_rows(column, B::finite_rows(rows.clone()));
        let clipped = B::scale_rows(rows, B::float_reshape(factors, [n].into()));
        B::float_reshape(clipped, shape)
    }
}

/// Returns the factors that scale norms down to `max`. A factor near the smallest normal f32
/// becomes 0: rounding could double a subnormal one, and a GPU may flush it to zero.
fn clip_factors<B: Backend>(norms: FloatTensor<B>, max: f64) -> FloatTensor<B> {
    let inverse = B::float_recip(B::float_clamp_min(norms, max.into()));
    let factors = B::float_mul_scalar(inverse, max.into());
    // Changes no other factor.
    let smaller = B::float_sub_scalar(factors, (2.0 * f64::from(f32::MIN_POSITIVE)).into());
    B::float_clamp_min(smaller, 0.0.into())
}

/// Computes the sum over positions of the absolute values, `[rows, channels]`.
fn channel_sums<B: Backend>(gradient: FloatTensor<B>) -> FloatTensor<B> {
    let shape = gradient.shape();
    let values = B::float_abs(gradient);
    let n = shape[0];
    match shape.num_dims() {
        4 => {
            let images = [n, shape[1], shape[2] * shape[3]];
            let sums = B::float_sum_dim(B::float_reshape(values, images.into()), 2);
            B::float_reshape(sums, [n, shape[1]].into())
        }
        3 => B::float_reshape(B::float_sum_dim(values, 1), [n, shape[2]].into()),
        _ => values,
    }
}

/// Returns the larger of two factors between 0 and 1.
fn elementwise_max<B: Backend>(a: FloatTensor<B>, b: FloatTensor<B>) -> FloatTensor<B> {
    let distance = B::float_abs(B::float_sub(a.clone(), b.clone()));
    B::float_mul_scalar(B::float_add(B::float_add(a, b), distance), 0.5.into())
}

/// Returns `y` unchanged. In a later backward pass, the gradient of the loss with respect to `y` is
/// clipped row by row, as `clip` says for examples of `copies` rows each. An operation that `y`
/// comes from, a [`tap`] among them, receives the clipped gradient.
pub(super) fn clip_gradient(y: BatchTensor, clip: UpstreamClip, copies: usize) -> BatchTensor {
    fn hooked<const D: usize>(y: Tensor<D>, clip: RowClip) -> Tensor<D> {
        Tensor::from_dispatch(Dispatch::clip_gradient(y.into_dispatch(), clip))
    }
    let clip = RowClip { clip, copies };
    y.map(|y| hooked(y, clip), |y| hooked(y, clip), |y| hooked(y, clip))
}

/// Returns `y` unchanged, and registers a backward hook: a later backward pass stores the gradient
/// of the loss with respect to `y`, `[batch, ...]`, under `anchor`, a tracked tensor of one element
/// created for this call.
///
/// The anchor also makes `y` tracked. A network of untracked weights can therefore be
/// differentiated with respect to activations only, without computing weight gradients.
///
/// Burn does not compare the shape of a stored gradient with that of its leaf. This is a detail of
/// Burn 0.22.1, to which the crate is pinned; a test below checks it.
pub fn tap<const D: usize>(y: Tensor<D>, anchor: &Tensor<1>) -> Tensor<D> {
    Tensor::from_dispatch(Dispatch::tap(y.into_dispatch(), anchor.clone().into_dispatch()))
}

/// Returns `y` with a [`tap`], and its anchor.
pub(super) fn attach_tap(y: BatchTensor) -> (BatchTensor, Tensor<1>) {
    let device = y.device().without_autodiff();
    let anchor = Tensor::<1>::zeros([1], &device).autodiff().require_grad();
    let y = y.map(
        |y| tap(y.autodiff(), &anchor),
        |y| tap(y.autodiff(), &anchor),
        |y| tap(y.autodiff(), &anchor),
    );
    (y, anchor)
}

/// Returns the gradient of rank `rank` that a tap stored under `anchor`; `None` if the loss does
/// not depend on the tapped value.
pub(super) fn take_tapped_gradient(
    anchor: &Tensor<1>,
    grads: &mut BurnGradients,
    rank: usize,
) -> Option<BatchTensor> {
    let gradient = anchor.grad_remove(grads)?.into_dispatch();
    Some(match rank {
        4 => BatchTensor::Image(Tensor::from_dispatch(gradient)),
        3 => BatchTensor::Sequence(Tensor::from_dispatch(gradient)),
        _ => BatchTensor::Flat(Tensor::from_dispatch(gradient)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::host::tensor_to_vec;

    #[test]
    fn the_anchor_receives_the_output_gradient() {
        let device = Device::flex();
        let anchor = Tensor::<1>::zeros([1], &device).autodiff().require_grad();
        let y = Tensor::<2>::from_data([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], &device);
        let y = tap(y.autodiff(), &anchor);
        let mut grads = (y.clone() * y).sum().backward();
        let gradient = anchor.grad_remove(&mut grads).expect("the anchor is tracked");
        let gradient = Tensor::<2>::from_dispatch(gradient.into_dispatch());
        assert_eq!(gradient.dims(), [2, 3]);
        assert_eq!(tensor_to_vec(gradient), [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
    }

    #[test]
    fn rows_that_are_not_finite_become_zero_and_no_row_is_longer_than_the_bound() {
        let device = Device::flex();
        let rows = [
            [3.0, 4.0],
            [f32::NAN, 1.0],
            [1.0, f32::INFINITY],
            [0.3, 0.4],
            [0.0, 0.0],
            [3.3e38, 3.3e38],
            [1e-30, 0.0],
        ];
        let upstream = Tensor::<2>::from_data(rows, &device).autodiff();
        for (bound, copies) in [(2.0, 1), (2.0, 4), (1e-6, 1), (1e-12, 1)] {
            let y = Tensor::<2>::zeros([7, 2], &device).autodiff().require_grad();
            let map = UpstreamClip::LinearMap { max_norm: bound, l15: true, sqrt_m: Some(1.0) };
            for clip in [map, UpstreamClip::TokenLookup { max_norm: bound }] {
                let clipped = clip_gradient(BatchTensor::Flat(y.clone()), clip, copies).into_flat();
                let grads = (clipped * upstream.clone()).sum().backward();
                let found = tensor_to_vec(y.grad(&grads).unwrap());
                let bound = bound / copies as f64;
                for (row, found) in rows.iter().zip(found.chunks(2)) {
                    let norm = f64::from(found[0]).hypot(f64::from(found[1]));
                    assert!(norm <= bound * (1.0 + 1e-6), "{row:?}: {norm} of {bound}");
                    let long = f64::from(row[0]).hypot(f64::from(row[1]));
                    if long.is_finite() && bound / long > 1e-37 {
                        assert!((norm - long.min(bound)).abs() <= 1e-5 * long.min(bound));
                    } else {
                        // Not finite, or so long that the factor is no normal number.
                        assert_eq!(found, [0.0, 0.0], "{row:?}")
                    }
                }
            }
        }
    }

    #[test]
    fn rows_are_scaled_by_the_norm_of_the_clip_for_every_shape() {
        let device = Device::flex();
        let maps = [(true, None), (false, Some(1.5)), (true, Some(0.7)), (false, None)];
        let maps = maps.map(|(l15, sqrt_m)| UpstreamClip::LinearMap { max_norm: 0.9, l15, sqrt_m });
        let lookup = UpstreamClip::TokenLookup { max_norm: 0.9 };
        let mut clipped = 0;
        for shape in [vec![12], vec![3, 4], vec![2, 3, 2]] {
            // Rows of growing size; the first ones are not clipped.
            let upstream = |i: usize| (1 + i / 12) as f32 * ((i * i) as f32).sin() / 12.0;
            let upstream: Vec<f32> = (0..60).map(upstream).collect();
            let clips = maps.into_iter().chain((shape.len() == 2).then_some(lookup));
            for clip in clips {
                let y = BatchTensor::new(vec![0.0; 60], 5, &shape, &device);
                let (y, anchor) = attach_tap(y);
                let y = clip_gradient(y, clip, 1).into_flat();
                let weights = Tensor::<2>::from_data(
                    burn::tensor::TensorData::new(upstream.clone(), [5, 12]),
                    &device,
                );
                let mut grads = (y * weights.autodiff()).sum().backward();
                let found = take_tapped_gradient(&anchor, &mut grads, shape.len() + 1).unwrap();
                for (row, found) in
                    upstream.chunks(12).zip(tensor_to_vec(found.into_flat()).chunks(12))
                {
                    let factor = (0.9 / clip.norm(row, &shape)).min(1.0);
                    clipped += usize::from(factor < 1.0);
                    for (g, found) in row.iter().zip(found) {
                        let expected = factor * f64::from(*g);
                        assert!((f64::from(*found) - expected).abs() < 1e-6, "{clip:?} {shape:?}");
                    }
                }
            }
        }
        assert!((10..60).contains(&clipped), "{clipped} of 65 rows");
    }

    #[test]
    fn a_tap_changes_no_other_gradient() {
        let device = Device::flex();
        let x = Tensor::<1>::from_data([1.0, -2.0], &device).autodiff().require_grad();
        let anchor = Tensor::<1>::zeros([1], &device).autodiff().require_grad();
        let y = tap(x.clone() * 3.0, &anchor);
        let grads = (y.clone() * y).sum().backward();
        assert_eq!(tensor_to_vec(x.grad(&grads).unwrap()), [18.0, -36.0]);
        assert_eq!(tensor_to_vec(anchor.grad(&grads).unwrap()), [6.0, -12.0]);
    }
}
