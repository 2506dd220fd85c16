//! Per-example softmax cross-entropy.

use burn::prelude::*;
use burn::tensor::activation::log_softmax;

/// Computes the softmax cross-entropy of each example in nats, `[batch]`, for logits
/// `[batch, classes]`.
///
/// The losses are not reduced. Code that computes the per-example gradients of a batch must sum
/// them: a mean divides every per-example gradient by the batch size, and clipping would act on
/// the wrong norms.
pub(crate) fn cross_entropy(logits: Tensor<2>, labels: &[u32]) -> Tensor<1> {
    let n = labels.len();
    let labels: Vec<i64> = labels.iter().map(|&label| i64::from(label)).collect();
    let device = logits.device();
    let labels = Tensor::<2, Int>::from_data(TensorData::new(labels, [n, 1]), &device);
    log_softmax(logits, 1).gather(1, labels).neg().reshape([n])
}
