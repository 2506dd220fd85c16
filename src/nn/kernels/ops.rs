//! The kernels as operations of Burn, with their derivatives.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, Dispatch, Flex, backend_extension};
use burn::prelude::*;
use burn_autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn_autodiff::grads::Gradients;
use burn_autodiff::ops::{Backward, Ops, OpsKind};
use burn_flex::FlexTensor;

use super::{Window, conv, pool, tanh as hyperbolic};

/// The operations as Burn's backends see them.
#[backend_extension(Flex, Autodiff)]
pub trait KernelOps: Backend {
    /// Hyperbolic tangent.
    fn own_tanh(x: FloatTensor<Self>) -> FloatTensor<Self>;
    /// Convolution; its derivative by `x` only: weight and bias are constants to it.
    fn own_conv2d(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        window: Window,
    ) -> FloatTensor<Self>;
    /// Maximum pooling.
    fn own_max_pool(x: FloatTensor<Self>, window: Window) -> FloatTensor<Self>;
}

/// Their derivatives, which only backward passes ask for, on plain tensors.
pub trait KernelDerivatives: Backend {
    /// The derivative of tanh at its output `y`, times `gradient`.
    fn tanh_back(y: FloatTensor<Self>, gradient: FloatTensor<Self>) -> FloatTensor<Self>;
    /// The derivative of the convolution by its input, times `gradient`.
    fn conv2d_back(
        weight: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        window: Window,
    ) -> FloatTensor<Self>;
    /// The derivative of pooling at its input `x` and output `y`, times `gradient`.
    fn max_pool_back(
        x: FloatTensor<Self>,
        y: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        window: Window,
    ) -> FloatTensor<Self>;
}

/// tanh x, on the CPU.
pub(crate) fn tanh<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    Tensor::from_dispatch(Dispatch::own_tanh(x.into_dispatch()))
}

/// A convolution with untracked weight and bias, on the CPU: `x` is
/// `[batch, channels, height, width]`, the weight `[channels out, channels in, height, width]`.
pub(crate) fn conv2d(
    x: Tensor<4>,
    weight: Tensor<4>,
    bias: Tensor<1>,
    window: Window,
) -> Tensor<4> {
    let (x, weight, bias) = (x.into_dispatch(), weight.into_dispatch(), bias.into_dispatch());
    Tensor::from_dispatch(Dispatch::own_conv2d(x, weight, bias, window))
}

/// Maximum pooling without padding, on the CPU.
pub(crate) fn max_pool(x: Tensor<4>, window: Window) -> Tensor<4> {
    Tensor::from_dispatch(Dispatch::own_max_pool(x.into_dispatch(), window))
}

/// The numbers of a contiguous tensor; all of the lab's are f32.
fn numbers(tensor: &FlexTensor) -> &[f32] {
    tensor.as_slice().expect("contiguous f32, as made by the lab")
}

/// The shape after a window has passed over the images of `x`.
fn output(x: &FlexTensor, channels: usize, window: &Window) -> Shape {
    let [rows, columns] = window.output().expect("checked when the network was built");
    Shape::from([x.layout().shape()[0], channels, rows, columns])
}

/// Runs `kernel` into a fresh tensor of the given shape.
fn fresh(shape: Shape, kernel: impl FnOnce(&mut [f32])) -> FlexTensor {
    let mut out = vec![0.0; shape.num_elements()];
    kernel(&mut out);
    FlexTensor::from_data(TensorData::new(out, shape))
}

impl KernelOps for Flex {
    fn own_tanh(x: FlexTensor) -> FlexTensor {
        let x = x.to_contiguous();
        fresh(x.layout().shape().clone(), |out| hyperbolic::forward(numbers(&x), out))
    }

    fn own_conv2d(
        x: FlexTensor,
        weight: FlexTensor,
        bias: FlexTensor,
        window: Window,
    ) -> FlexTensor {
        let (x, weight, bias) = (x.to_contiguous(), weight.to_contiguous(), bias.to_contiguous());
        fresh(output(&x, bias.layout().shape()[0], &window), |out| {
            conv::forward(&window, numbers(&x), numbers(&weight), numbers(&bias), out);
        })
    }

    fn own_max_pool(x: FlexTensor, window: Window) -> FlexTensor {
        let x = x.to_contiguous();
        fresh(output(&x, x.layout().shape()[1], &window), |out| {
            pool::forward(&window, numbers(&x), out)
        })
    }
}

impl KernelDerivatives for Flex {
    fn tanh_back(y: FlexTensor, gradient: FlexTensor) -> FlexTensor {
        let (y, gradient) = (y.to_contiguous(), gradient.to_contiguous());
        let shape = y.layout().shape().clone();
        fresh(shape, |out| hyperbolic::backward(numbers(&y), numbers(&gradient), out))
    }

    fn conv2d_back(weight: FlexTensor, gradient: FlexTensor, window: Window) -> FlexTensor {
        let (weight, gradient) = (weight.to_contiguous(), gradient.to_contiguous());
        let [height, width] = window.size;
        let n = gradient.layout().shape()[0];
        fresh(Shape::from([n, window.channels, height, width]), |out| {
            conv::backward(&window, numbers(&gradient), numbers(&weight), out);
        })
    }

    fn max_pool_back(
        x: FlexTensor,
        y: FlexTensor,
        gradient: FlexTensor,
        window: Window,
    ) -> FlexTensor {
        let (x, gradient) = (x.to_contiguous(), gradient.to_contiguous());
        fresh(x.layout().shape().clone(), |out| {
            pool::backward(&window, numbers(&x), numbers(&y), numbers(&gradient), out);
        })
    }
}

impl<B: KernelOps + KernelDerivatives, C: CheckpointStrategy> KernelOps for Autodiff<B, C> {
    fn own_tanh(x: FloatTensor<Self>) -> FloatTensor<Self> {
        #[derive(Debug)]
        struct Tanh;
        impl<B: KernelDerivatives> Backward<B, 1> for Tanh {
            type State = FloatTensor<B>;
            fn backward(
                self,
                ops: Ops<Self::State, 1>,
                grads: &mut Gradients,
                _: &mut Checkpointer,
            ) {
                let gradient = grads.consume::<B>(&ops.node);
                let [parent] = ops.parents;
                if let Some(parent) = parent {
                    grads.register::<B>(parent.id, B::tanh_back(ops.state, gradient));
                }
            }
        }
        let (x, node) = x.into_parts();
        let y = B::own_tanh(x);
        match Tanh.prepare::<C>([node]).compute_bound().stateful() {
            OpsKind::Tracked(step) => step.finish(y.clone(), y),
            OpsKind::UnTracked(step) => step.finish(y),
        }
    }

    fn own_conv2d(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        window: Window,
    ) -> FloatTensor<Self> {
        #[derive(Debug)]
        struct Conv2d;
        impl<B: KernelDerivatives> Backward<B, 1> for Conv2d {
            type State = (FloatTensor<B>, Window);
            fn backward(
                self,
                ops: Ops<Self::State, 1>,
                grads: &mut Gradients,
                _: &mut Checkpointer,
            ) {
                let gradient = grads.consume::<B>(&ops.node);
                let [parent] = ops.parents;
                if let Some(parent) = parent {
                    let (weight, window) = ops.state;
                    let gradient = B::conv2d_back(weight, gradient, window);
                    grads.register::<B>(parent.id, gradient);
                }
            }
        }
        let (x, node) = x.into_parts();
        let ((weight, _), (bias, _)) = (weight.into_parts(), bias.into_parts());
        let y = B::own_conv2d(x, weight.clone(), bias, window);
        match Conv2d.prepare::<C>([node]).compute_bound().stateful() {
            OpsKind::Tracked(step) => step.finish((weight, window), y),
            OpsKind::UnTracked(step) => step.finish(y),
        }
    }

    fn own_max_pool(x: FloatTensor<Self>, window: Window) -> FloatTensor<Self> {
        #[derive(Debug)]
        struct MaxPool;
        impl<B: KernelDerivatives> Backward<B, 1> for MaxPool {
            type State = (FloatTensor<B>, FloatTensor<B>, Window);
            fn backward(
                self,
                ops: Ops<Self::State, 1>,
                grads: &mut Gradients,
                _: &mut Checkpointer,
            ) {
                let gradient = grads.consume::<B>(&ops.node);
                let [parent] = ops.parents;
                if let Some(parent) = parent {
                    let (x, y, window) = ops.state;
                    let gradient = B::max_pool_back(x, y, gradient, window);
                    grads.register::<B>(parent.id, gradient);
                }
            }
        }
        let (x, node) = x.into_parts();
        let y = B::own_max_pool(x.clone(), window);
        match MaxPool.prepare::<C>([node]).compute_bound().stateful() {
            OpsKind::Tracked(step) => step.finish((x, y.clone(), window), y),
            OpsKind::UnTracked(step) => step.finish(y),
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::activation;

    use super::*;
    use crate::device::host::values;

    /// DeviceArray without ties, and their gradient through `f` with uneven weights.
    fn gradient(shape: [usize; 4], f: impl Fn(Tensor<4>) -> Tensor<4>) -> (Vec<f32>, Vec<f32>) {
        let n: usize = shape.iter().product();
        let numbers: Vec<f32> =
            (0..n).map(|i| ((i * 7919 + 3) % 1009) as f32 / 200.0 - 2.5).collect();
        let x = Tensor::<4>::from_data(TensorData::new(numbers, shape), &Device::flex());
        let x = x.autodiff().require_grad();
        let y = f(x.clone());
        let grads = (y.clone() * y.clone() * y.clone()).sum().backward();
        (values(y), values(x.grad(&grads).unwrap()))
    }

    #[track_caller]
    fn assert_same(a: (Vec<f32>, Vec<f32>), b: (Vec<f32>, Vec<f32>)) {
        assert_eq!((a.0.len(), a.1.len()), (b.0.len(), b.1.len()));
        for (a, b) in a.0.iter().zip(&b.0).chain(a.1.iter().zip(&b.1)) {
            assert!((a - b).abs() <= 1e-5 * (1.0 + b.abs()), "{a} {b}");
        }
    }

    #[test]
    fn tanh_and_its_derivative_are_burns() {
        let shape = [2, 3, 5, 7];
        assert_same(gradient(shape, tanh), gradient(shape, activation::tanh));
    }

    #[test]
    fn convolution_and_its_derivative_by_the_image_are_burns() {
        for (kernel, stride, padding, dilation) in [
            ([4, 4], [2, 2], [0, 0], [1, 1]),
            ([3, 2], [2, 1], [1, 0], [1, 1]),
            ([1, 6], [1, 3], [2, 5], [1, 1]),
            ([3, 3], [1, 2], [2, 1], [2, 3]),
            ([2, 4], [1, 1], [0, 3], [4, 1]),
        ] {
            let window = Window { channels: 3, size: [9, 11], kernel, stride, padding, dilation };
            let [v, h] = padding;
            let burns = nn::conv::Conv2dConfig::new([3, 5], kernel)
                .with_stride(stride)
                .with_padding(nn::PaddingConfig2d::Explicit(v, h, v, h))
                .with_dilation(dilation)
                .init(&Device::flex());
            let (weight, bias) = (burns.weight.val(), burns.bias.as_ref().unwrap().val());
            assert_same(
                gradient([2, 3, 9, 11], |x| conv2d(x, weight.clone(), bias.clone(), window)),
                gradient([2, 3, 9, 11], |x| burns.forward(x)),
            );
        }
    }

    #[test]
    fn max_pooling_and_its_derivative_are_burns() {
        for (kernel, stride) in [([2, 2], [1, 1]), ([3, 2], [2, 1]), ([2, 3], [1, 2])] {
            let window = Window {
                channels: 3,
                size: [9, 11],
                kernel,
                stride,
                padding: [0, 0],
                dilation: [1, 1],
            };
            let burns = nn::pool::MaxPool2dConfig::new(kernel).with_strides(stride).init();
            assert_same(
                gradient([2, 3, 9, 11], |x| max_pool(x, window)),
                gradient([2, 3, 9, 11], |x| burns.forward(x)),
            );
        }
    }
}
