//! A backward hook: records the gradient of the loss with respect to an intermediate tensor.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, Dispatch, Flex, backend_extension};
use burn::prelude::*;
use burn_autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn_autodiff::grads::Gradients;
use burn_autodiff::ops::{Backward, Ops, OpsKind};

/// The hook as a backend operation of Burn; called by [`tap`].
#[cfg_attr(feature = "gpu", backend_extension(Flex, Cube, Autodiff))]
#[cfg_attr(not(feature = "gpu"), backend_extension(Flex, Autodiff))]
pub trait TapOps: Backend {
    /// Returns `y` unchanged.
    fn tap(y: FloatTensor<Self>, anchor: FloatTensor<Self>) -> FloatTensor<Self>;
}

impl TapOps for Flex {
    fn tap(y: FloatTensor<Self>, _anchor: FloatTensor<Self>) -> FloatTensor<Self> {
        y
    }
}

#[cfg(feature = "gpu")]
impl TapOps for burn_cubecl::CubeBackend {
    fn tap(y: FloatTensor<Self>, _anchor: FloatTensor<Self>) -> FloatTensor<Self> {
        y
    }
}

impl<B: Backend + TapOps, C: CheckpointStrategy> TapOps for Autodiff<B, C> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::host::values;

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
        assert_eq!(values(gradient), [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
    }

    #[test]
    fn a_tap_changes_no_other_gradient() {
        let device = Device::flex();
        let x = Tensor::<1>::from_data([1.0, -2.0], &device).autodiff().require_grad();
        let anchor = Tensor::<1>::zeros([1], &device).autodiff().require_grad();
        let y = tap(x.clone() * 3.0, &anchor);
        let grads = (y.clone() * y).sum().backward();
        assert_eq!(values(x.grad(&grads).unwrap()), [18.0, -36.0]);
        assert_eq!(values(anchor.grad(&grads).unwrap()), [6.0, -12.0]);
    }
}
