//! Softmax cross-entropy, one value per example.

use burn::prelude::*;
use burn::tensor::activation::log_softmax;

/// Natural-log softmax cross-entropy of each example, `[batch]`, never reduced.
///
/// Callers that need gradients of single examples SUM these: a mean would divide every norm by
/// the batch size, and with it the sensitivity the noise is made for.
pub(crate) fn cross_entropy(logits: Tensor<2>, labels: &[u32]) -> Tensor<1> {
    let n = labels.len();
    let labels: Vec<i64> = labels.iter().map(|&label| i64::from(label)).collect();
    let device = logits.device();
    let labels = Tensor::<2, Int>::from_data(TensorData::new(labels, [n, 1]), &device);
    log_softmax(logits, 1).gather(1, labels).neg().reshape([n])
}
