//! The CPU kernels as differentiable Burn operations.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, Dispatch, Flex, backend_extension};
use burn::prelude::*;
use burn_autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn_autodiff::grads::Gradients;
use burn_autodiff::ops::{Backward, Ops, OpsKind};
use burn_flex::FlexTensor;

use super::{Window, conv, pool, tanh as hyperbolic};

/// Forward passes of the kernels, as an extension of Burn's backends.
#[backend_extension(Flex, Autodiff)]
pub trait KernelOps: Backend {
    /// Hyperbolic tangent.
    fn cpu_tanh(x: FloatTensor<Self>) -> FloatTensor<Self>;
    /// Convolution, differentiable with respect to `x` only: `weight` and `bias` are constants.
    fn cpu_conv2d(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        window: Window,
    ) -> FloatTensor<Self>;
    /// Max pooling.
    fn cpu_max_pool(x: FloatTensor<Self>, window: Window) -> FloatTensor<Self>;
}

/// Backward passes of the kernels, on tensors without autodiff. `gradient` is the output gradient;
/// each function returns the input gradient.
pub trait KernelGradients: Backend {
    /// Input gradient of tanh at its output `y`.
    fn tanh_backward(y: FloatTensor<Self>, gradient: FloatTensor<Self>) -> FloatTensor<Self>;
    /// Input gradient of the convolution.
    fn conv2d_backward(
        weight: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        window: Window,
    ) -> FloatTensor<Self>;
    /// Input gradient of max pooling at its input `x` and output `y`.
    fn max_pool_backward(
        x: FloatTensor<Self>,
        y: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        window: Window,
    ) -> FloatTensor<Self>;
}

/// Element-wise tanh of a CPU tensor.
pub(crate) fn tanh<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    Tensor::from_dispatch(Dispatch::cpu_tanh(x.into_dispatch()))
}

/// Convolution of a CPU tensor `[batch, channels, height, width]` with a weight
/// `[channels out, channels in, height, width]`. Gradients reach `x` only: weight and bias must
/// not be tracked by autodiff.
pub(crate) fn conv2d(
    x: Tensor<4>,
    weight: Tensor<4>,
    bias: Tensor<1>,
    window: Window,
) -> Tensor<4> {
    let (x, weight, bias) = (x.into_dispatch(), weight.into_dispatch(), bias.into_dispatch());
    Tensor::from_dispatch(Dispatch::cpu_conv2d(x, weight, bias, window))
}

/// Max pooling of a CPU tensor `[batch, channels, height, width]`, without padding.
pub(crate) fn max_pool(x: Tensor<4>, window: Window) -> Tensor<4> {
    Tensor::from_dispatch(Dispatch::cpu_max_pool(x.into_dispatch(), window))
}

/// The values of a contiguous f32 tensor, row-major.
fn slice(tensor: &FlexTensor) -> &[f32] {
    tensor.as_slice().expect("a contiguous f32 tensor")
}

/// Shape of the output of a window that slides over the images of `x`.
fn output_shape(x: &FlexTensor, channels: usize, window: &Window) -> Shape {
    let [rows, columns] = window.output().expect("checked when the network was built");
    Shape::from([x.layout().shape()[0], channels, rows, columns])
}

/// A new tensor of the given shape that `kernel` writes.
fn compute(shape: Shape, kernel: impl FnOnce(&mut [f32])) -> FlexTensor {
    let mut out = vec![0.0; shape.num_elements()];
    kernel(&mut out);
    FlexTensor::from_data(TensorData::new(out, shape))
}

impl KernelOps for Flex {
    fn cpu_tanh(x: FlexTensor) -> FlexTensor {
        let x = x.to_contiguous();
        compute(x.layout().shape().clone(), |out| hyperbolic::forward(slice(&x), out))
    }

    fn cpu_conv2d(
        x: FlexTensor,
        weight: FlexTensor,
        bias: FlexTensor,
        window: Window,
    ) -> FlexTensor {
        let (x, weight, bias) = (x.to_contiguous(), weight.to_contiguous(), bias.to_contiguous());
        compute(output_shape(&x, bias.layout().shape()[0], &window), |out| {
            conv::forward(&window, slice(&x), slice(&weight), slice(&bias), out);
        })
    }

    fn cpu_max_pool(x: FlexTensor, window: Window) -> FlexTensor {
        let x = x.to_contiguous();
        compute(output_shape(&x, x.layout().shape()[1], &window), |out| {
            pool::forward(&window, slice(&x), out)
        })
    }
}

impl KernelGradients for Flex {
    fn tanh_backward(y: FlexTensor, gradient: FlexTensor) -> FlexTensor {
        let (y, gradient) = (y.to_contiguous(), gradient.to_contiguous());
        let shape = y.layout().shape().clone();
        compute(shape, |out| hyperbolic::backward(slice(&y), slice(&gradient), out))
    }

    fn conv2d_backward(weight: FlexTensor, gradient: FlexTensor, window: Window) -> FlexTensor {
        let (weight, gradient) = (weight.to_contiguous(), gradient.to_contiguous());
        let [height, width] = window.size;
        let n = gradient.layout().shape()[0];
        compute(Shape::from([n, window.channels, height, width]), |out| {
            conv::backward(&window, slice(&gradient), slice(&weight), out);
        })
    }

    fn max_pool_backward(
        x: FlexTensor,
        y: FlexTensor,
        gradient: FlexTensor,
        window: Window,
    ) -> FlexTensor {
        let (x, gradient) = (x.to_contiguous(), gradient.to_contiguous());
        compute(x.layout().shape().clone(), |out| {
            pool::backward(&window, slice(&x), slice(&y), slice(&gradient), out);
        })
    }
}

impl<B: KernelOps + KernelGradients, C: CheckpointStrategy> KernelOps for Autodiff<B, C> {
    fn cpu_tanh(x: FloatTensor<Self>) -> FloatTensor<Self> {
        #[derive(Debug)]
        struct Tanh;
        impl<B: KernelGradients> Backward<B, 1> for Tanh {
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
                    grads.register::<B>(parent.id, B::tanh_backward(ops.state, gradient));
                }
            }
        }
        let (x, node) = x.into_parts();
        let y = B::cpu_tanh(x);
        match Tanh.prepare::<C>([node]).compute_bound().stateful() {
            OpsKind::Tracked(step) => step.finish(y.clone(), y),
            OpsKind::UnTracked(step) => step.finish(y),
        }
    }

    fn cpu_conv2d(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        window: Window,
    ) -> FloatTensor<Self> {
        #[derive(Debug)]
        struct Conv2d;
        impl<B: KernelGradients> Backward<B, 1> for Conv2d {
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
                    let gradient = B::conv2d_backward(weight, gradient, window);
                    grads.register::<B>(parent.id, gradient);
                }
            }
        }
        let (x, node) = x.into_parts();
        let ((weight, _), (bias, _)) = (weight.into_parts(), bias.into_parts());
        let y = B::cpu_conv2d(x, weight.clone(), bias, window);
        match Conv2d.prepare::<C>([node]).compute_bound().stateful() {
            OpsKind::Tracked(step) => step.finish((weight, window), y),
            OpsKind::UnTracked(step) => step.finish(y),
        }
    }

    fn cpu_max_pool(x: FloatTensor<Self>, window: Window) -> FloatTensor<Self> {
        #[derive(Debug)]
        struct MaxPool;
        impl<B: KernelGradients> Backward<B, 1> for MaxPool {
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
                    let gradient = B::max_pool_backward(x, y, gradient, window);
                    grads.register::<B>(parent.id, gradient);
                }
            }
        }
        let (x, node) = x.into_parts();
        let y = B::cpu_max_pool(x.clone(), window);
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

    /// Output of `f` for distinct input values, and the input gradient of the sum of the output's
    /// cubes.
    fn gradient(shape: [usize; 4], f: impl Fn(Tensor<4>) -> Tensor<4>) -> (Vec<f32>, Vec<f32>) {
        let n: usize = shape.iter().product();
        let input: Vec<f32> =
            (0..n).map(|i| ((i * 7919 + 3) % 1009) as f32 / 200.0 - 2.5).collect();
        let x = Tensor::<4>::from_data(TensorData::new(input, shape), &Device::flex());
        let x = x.autodiff().require_grad();
        let y = f(x.clone());
        let grads = (y.clone() * y.clone() * y.clone()).sum().backward();
        (values(y), values(x.grad(&grads).unwrap()))
    }

    #[track_caller]
    fn assert_close(a: (Vec<f32>, Vec<f32>), b: (Vec<f32>, Vec<f32>)) {
        assert_eq!((a.0.len(), a.1.len()), (b.0.len(), b.1.len()));
        for (a, b) in a.0.iter().zip(&b.0).chain(a.1.iter().zip(&b.1)) {
            assert!((a - b).abs() <= 1e-5 * (1.0 + b.abs()), "{a} {b}");
        }
    }

    #[test]
    fn tanh_and_its_gradient_match_burn() {
        let shape = [2, 3, 5, 7];
        assert_close(gradient(shape, tanh), gradient(shape, activation::tanh));
    }

    #[test]
    fn convolution_and_its_input_gradient_match_burn() {
        for (kernel, stride, padding, dilation) in [
            ([4, 4], [2, 2], [0, 0], [1, 1]),
            ([3, 2], [2, 1], [1, 0], [1, 1]),
            ([1, 6], [1, 3], [2, 5], [1, 1]),
            ([3, 3], [1, 2], [2, 1], [2, 3]),
            ([2, 4], [1, 1], [0, 3], [4, 1]),
        ] {
            let window = Window { channels: 3, size: [9, 11], kernel, stride, padding, dilation };
            let [v, h] = padding;
            let reference = nn::conv::Conv2dConfig::new([3, 5], kernel)
                .with_stride(stride)
                .with_padding(nn::PaddingConfig2d::Explicit(v, h, v, h))
                .with_dilation(dilation)
                .init(&Device::flex());
            let (weight, bias) = (reference.weight.val(), reference.bias.as_ref().unwrap().val());
            assert_close(
                gradient([2, 3, 9, 11], |x| conv2d(x, weight.clone(), bias.clone(), window)),
                gradient([2, 3, 9, 11], |x| reference.forward(x)),
            );
        }
    }

    #[test]
    fn max_pooling_and_its_gradient_match_burn() {
        for (kernel, stride) in [([2, 2], [1, 1]), ([3, 2], [2, 1]), ([2, 3], [1, 2])] {
            let window = Window {
                channels: 3,
                size: [9, 11],
                kernel,
                stride,
                padding: [0, 0],
                dilation: [1, 1],
            };
            let reference = nn::pool::MaxPool2dConfig::new(kernel).with_strides(stride).init();
            assert_close(
                gradient([2, 3, 9, 11], |x| max_pool(x, window)),
                gradient([2, 3, 9, 11], |x| reference.forward(x)),
            );
        }
    }
}
