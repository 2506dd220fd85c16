//! Per-example gradients of the parameters of a convolution.

use burn::prelude::*;
use burn::tensor::module::unfold4d;
use burn::tensor::ops::{PadMode, UnfoldOptions};

use super::site::ComputePath;
use crate::device::host::HostValues;
use crate::nn::Window;
use crate::nn::kernels::Im2col;
use crate::nn::kernels::product::{MatrixView, WriteMode, matmul};

/// Computes the gradients with respect to the weight that the convolution multiplies with,
/// `[examples, channels out, patch]`. `input` and `gradient` have `copies` rows per example.
pub(super) fn instantiate_gradients(
    window: Window,
    groups: usize,
    input: Tensor<4>,
    gradient: Tensor<4>,
    copies: usize,
    path: ComputePath,
) -> Tensor<3> {
    let [rows, channels, ..] = gradient.dims();
    // Burn's CPU backend unfolds element by element, often by way of a convolution; the lab's
    // kernels are several times as fast. Only this function distinguishes host tensors.
    if path == ComputePath::Host
        && let Some(images) = HostValues::try_shared(input.clone())
        && let Some(gradients) = HostValues::try_shared(gradient.clone())
    {
        let (images, gradients) = (images.slice(), gradients.slice());
        let sizes = [rows / copies, copies, channels, groups];
        return with_host_kernels(window, sizes, images, gradients, &gradient.device());
    }
    // The same with tensor operations: unfold into patches, then one batched product.
    let precision = path.precision();
    // Round before unfolding: this halves the memory traffic.
    let (input, gradient) = (precision.cast_operand(input), precision.cast_operand(gradient));
    let Window { kernel, stride, padding: [vertical, horizontal], dilation, .. } = window;
    // Burn unfolds images without padding and dilation as views, so padding is separate.
    let padded = match [vertical, horizontal] {
        [0, 0] => input,
        _ => input.pad([(vertical, vertical), (horizontal, horizontal)], PadMode::Constant(0.0)),
    };
    let patches = unfold4d(padded, kernel, UnfoldOptions::new(stride, [0, 0], dilation));
    let (patch, positions) = (window.patch_len() / groups, window.positions());
    let patches = patches.reshape([rows * groups, patch, positions]);
    let gradient = gradient.reshape([rows * groups, channels / groups, positions]);
    let each = precision.cast_result(gradient.matmul(patches.swap_dims(1, 2)));
    each.reshape([rows / copies, copies, channels * patch]).sum_dim(1).reshape([
        rows / copies,
        channels,
        patch,
    ])
}

/// Computes the gradients by the lab's CPU kernels, one product per row and group. Copies of an
/// example accumulate in place.
fn with_host_kernels(
    window: Window,
    [n, copies, channels, groups]: [usize; 4],
    images: &[f32],
    gradients: &[f32],
    device: &Device,
) -> Tensor<3> {
    let one = Window { channels: window.channels / groups, ..window };
    let (patch, positions) = (one.patch_len(), one.positions());
    let im2col = Im2col::channels_first(&one);
    let mut out = vec![0.0; n * channels * patch];
    let mut patches = vec![0.0; patch * positions];
    let (image, output) = (window.image(), channels * positions);
    let rows = images.chunks_exact(image).zip(gradients.chunks_exact(output)).enumerate();
    for (row, (image, gradient)) in rows {
        let example = row / copies * channels * patch;
        let instance = &mut out[example..example + channels * patch];
        let store = if row % copies == 0 { WriteMode::Overwrite } else { WriteMode::Accumulate };
        let parts = image
            .chunks_exact(one.image())
            .zip(instance.chunks_exact_mut(channels / groups * patch));
        for ((image, instance), gradient) in parts.zip(gradient.chunks_exact(output / groups)) {
            im2col.gather(image, &mut patches);
            let gradient = MatrixView::new(gradient, channels / groups, positions);
            matmul(instance, store, gradient, MatrixView::new(&patches, positions, patch));
        }
    }
    Tensor::from_data(TensorData::new(out, [n, channels, patch]), device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::host::tensor_to_vec;
    use crate::nn::Precision;

    fn test_tensor<const D: usize>(shape: [usize; D]) -> Tensor<D> {
        let n: usize = shape.iter().product();
        let values: Vec<f32> =
            (0..n).map(|i| ((i * 7919 + 3) % 1009) as f32 / 500.0 - 1.0).collect();
        Tensor::from_data(TensorData::new(values, shape), &Device::flex())
    }

    #[test]
    fn tensor_operations_and_host_kernels_agree() {
        for (kernel, stride, padding, dilation, groups, copies) in [
            ([3, 2], [2, 1], [1, 0], [1, 1], 1, 1),
            ([2, 3], [1, 2], [0, 2], [2, 1], 2, 1),
            ([1, 1], [1, 1], [0, 0], [1, 1], 4, 3),
            ([3, 3], [1, 1], [2, 2], [2, 2], 2, 2),
        ] {
            let window = Window { channels: 4, size: [6, 7], kernel, stride, padding, dilation };
            let [rows, columns] = window.output().unwrap();
            let (input, gradient) = (test_tensor([6, 4, 6, 7]), test_tensor([6, 8, rows, columns]));
            let host = instantiate_gradients(
                window,
                groups,
                input.clone(),
                gradient.clone(),
                copies,
                ComputePath::Host,
            );
            let device = instantiate_gradients(
                window,
                groups,
                input,
                gradient,
                copies,
                ComputePath::Device(Precision::F32),
            );
            assert_eq!(host.dims(), device.dims());
            for (a, b) in tensor_to_vec(host).iter().zip(tensor_to_vec(device)) {
                assert!((a - b).abs() < 1e-4 * (1.0 + b.abs()), "{a} {b}");
            }
        }
    }
}
