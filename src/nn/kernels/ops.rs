//! The CPU kernels as differentiable Burn operations.

use std::fmt::{self, Debug};

use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, Dispatch, Flex, backend_extension};
use burn::prelude::*;
use burn_autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn_autodiff::grads::Gradients;
use burn_autodiff::ops::{Backward, NodeGuard, Ops, OpsKind, unary};
use burn_flex::FlexTensor;

use super::{Window, conv, pool, tanh as hyperbolic};

/// Forward passes of the kernels, as an extension of Burn's backends.
#[backend_extension(Flex, Autodiff)]
pub trait CpuKernelOps: Backend {
    /// Computes the hyperbolic tangent.
    fn cpu_tanh(x: FloatTensor<Self>) -> FloatTensor<Self>;
    /// Computes a convolution, differentiable with respect to `x` only: `weight` and `bias` are
    /// constants.
    fn cpu_conv2d(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        window: Window,
    ) -> FloatTensor<Self>;
    /// Computes max pooling.
    fn cpu_max_pool(x: FloatTensor<Self>, window: Window) -> FloatTensor<Self>;
}

/// Computes the element-wise tanh of a CPU tensor.
pub(crate) fn tanh<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    Tensor::from_dispatch(Dispatch::cpu_tanh(x.into_dispatch()))
}

/// Computes the convolution of a CPU tensor `[batch, channels, height, width]` with a weight
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

/// Computes max pooling of a CPU tensor `[batch, channels, height, width]`, without padding.
pub(crate) fn max_pool(x: Tensor<4>, window: Window) -> Tensor<4> {
    Tensor::from_dispatch(Dispatch::cpu_max_pool(x.into_dispatch(), window))
}

/// Returns the values of a contiguous f32 tensor, row-major.
fn as_f32_slice(tensor: &FlexTensor) -> &[f32] {
    tensor.as_slice().expect("a contiguous f32 tensor")
}

/// Returns the shape of the output of a window that slides over the images of `x`.
fn output_shape(x: &FlexTensor, channels: usize, window: &Window) -> Shape {
    let [rows, columns] = window.output().expect("checked when the network was built");
    Shape::from([x.layout().shape()[0], channels, rows, columns])
}

/// Creates a tensor of the given shape whose values `kernel` writes.
fn compute(shape: Shape, kernel: impl FnOnce(&mut [f32])) -> FlexTensor {
    let mut out = vec![0.0; shape.num_elements()];
    kernel(&mut out);
    FlexTensor::from_data(TensorData::new(out, shape))
}

impl CpuKernelOps for Flex {
    fn cpu_tanh(x: FlexTensor) -> FlexTensor {
        let x = x.to_contiguous();
        compute(x.layout().shape().clone(), |out| {
            out.copy_from_slice(as_f32_slice(&x));
            hyperbolic::in_place(out);
        })
    }

    fn cpu_conv2d(
        x: FlexTensor,
        weight: FlexTensor,
        bias: FlexTensor,
        window: Window,
    ) -> FlexTensor {
        let (x, weight, bias) = (x.to_contiguous(), weight.to_contiguous(), bias.to_contiguous());
        compute(output_shape(&x, bias.layout().shape()[0], &window), |out| {
            conv::forward(
                &window,
                as_f32_slice(&x),
                as_f32_slice(&weight),
                as_f32_slice(&bias),
                out,
            );
        })
    }

    fn cpu_max_pool(x: FlexTensor, window: Window) -> FlexTensor {
        let x = x.to_contiguous();
        compute(output_shape(&x, x.layout().shape()[1], &window), |out| {
            pool::forward(&window, as_f32_slice(&x), out)
        })
    }
}

/// Computes the input gradient of tanh at its output `y`.
fn tanh_backward(y: &FlexTensor, gradient: FlexTensor) -> FlexTensor {
    let (y, gradient) = (y.to_contiguous(), gradient.to_contiguous());
    let shape = y.layout().shape().clone();
    compute(shape, |out| {
        out.copy_from_slice(as_f32_slice(&gradient));
        hyperbolic::backward(as_f32_slice(&y), out);
    })
}

/// Computes the input gradient of the convolution.
fn conv2d_backward(weight: &FlexTensor, gradient: FlexTensor, window: &Window) -> FlexTensor {
    let (weight, gradient) = (weight.to_contiguous(), gradient.to_contiguous());
    let [height, width] = window.size;
    let n = gradient.layout().shape()[0];
    compute(Shape::from([n, window.channels, height, width]), |out| {
        conv::backward(window, as_f32_slice(&gradient), as_f32_slice(&weight), out);
    })
}

/// Computes the input gradient of max pooling at its input `x` and output `y`.
fn max_pool_backward(
    [x, y]: &[FlexTensor; 2],
    gradient: FlexTensor,
    window: &Window,
) -> FlexTensor {
    let (x, gradient) = (x.to_contiguous(), gradient.to_contiguous());
    compute(x.layout().shape().clone(), |out| {
        pool::backward(window, as_f32_slice(&x), as_f32_slice(y), as_f32_slice(&gradient), out);
    })
}

/// Backward step through one kernel: a function from the gradient of the output to that of the
/// input.
struct Step<F>(F);

impl<F> Debug for Step<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Step")
    }
}

impl<B, F> Backward<B, 1> for Step<F>
where
    B: Backend,
    F: FnOnce(FloatTensor<B>) -> FloatTensor<B> + Send + 'static,
{
    type State = ();

    fn backward(self, ops: Ops<(), 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        unary::<B, _>(ops.parents, ops.node, grads, self.0);
    }
}

/// Records the output `y` of a kernel at an input, with its step in the backward pass.
pub(crate) fn record<B: Backend, C: CheckpointStrategy>(
    input: NodeGuard,
    y: FloatTensor<B>,
    backward: impl FnOnce(FloatTensor<B>) -> FloatTensor<B> + Send + 'static,
) -> FloatTensor<Autodiff<B, C>> {
    let step = Step(backward);
    match Backward::<B, 1>::prepare::<C>(step, [input]).compute_bound().stateful() {
        OpsKind::Tracked(step) => step.finish((), y),
        OpsKind::UnTracked(step) => step.finish(y),
    }
}

impl<C: CheckpointStrategy> CpuKernelOps for Autodiff<Flex, C> {
    fn cpu_tanh(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let (x, input) = x.into_parts();
        let y = Flex::cpu_tanh(x);
        record::<Flex, C>(input, y.clone(), move |gradient| tanh_backward(&y, gradient))
    }

    fn cpu_conv2d(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        window: Window,
    ) -> FloatTensor<Self> {
        let (x, input) = x.into_parts();
        let ((weight, _), (bias, _)) = (weight.into_parts(), bias.into_parts());
        let y = Flex::cpu_conv2d(x, weight.clone(), bias, window);
        record::<Flex, C>(input, y, move |gradient| conv2d_backward(&weight, gradient, &window))
    }

    fn cpu_max_pool(x: FloatTensor<Self>, window: Window) -> FloatTensor<Self> {
        let (x, input) = x.into_parts();
        let y = Flex::cpu_max_pool(x.clone(), window);
        let values = [x, y.clone()];
        record::<Flex, C>(input, y, move |gradient| max_pool_backward(&values, gradient, &window))
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::activation;

    use super::*;
    use crate::device::host::tensor_to_vec;

    /// Returns the output of `f` for distinct input values, and the input gradient of the sum of
    /// the output's cubes.
    fn gradient(shape: [usize; 4], f: impl Fn(Tensor<4>) -> Tensor<4>) -> (Vec<f32>, Vec<f32>) {
        let n: usize = shape.iter().product();
        let input: Vec<f32> =
            (0..n).map(|i| ((i * 7919 + 3) % 1009) as f32 / 200.0 - 2.5).collect();
        let x = Tensor::<4>::from_data(TensorData::new(input, shape), &Device::flex());
        let x = x.autodiff().require_grad();
        let y = f(x.clone());
        let grads = (y.clone() * y.clone() * y.clone()).sum().backward();
        (tensor_to_vec(y), tensor_to_vec(x.grad(&grads).unwrap()))
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
