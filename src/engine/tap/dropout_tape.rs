//! Tape that supplies dropout masks, clips of upstream gradients and the precision of products.

use burn::prelude::*;

use crate::device::DeviceArray;
use crate::engine::Batch;
use crate::engine::gradient_hook::clip_gradient;
use crate::nn::{BatchTensor, Precision, Tape, UpstreamClip};

/// Tape that draws the batch's dropout masks for some examples, layer by layer, and ignores the
/// sites.
pub(in crate::engine) struct DropoutTape<'a> {
    batch: &'a Batch,
    rows: Vec<usize>,
    layer: usize,
    device: Option<Device>,
    precision: Precision,
}

impl<'a> DropoutTape<'a> {
    /// Creates a tape for these examples of the batch.
    pub(in crate::engine) fn new(batch: &'a Batch, examples: &[usize]) -> Self {
        Self {
            batch,
            rows: batch.row_indices(examples),
            layer: 0,
            device: None,
            precision: Precision::F32,
        }
    }

    /// Draws the same masks on `device`.
    pub(in crate::engine) fn on_device(self, device: &Device) -> Self {
        Self { device: Some(device.clone()), ..self }
    }

    /// Sets the precision in which layers compute products.
    pub(super) fn with_precision(self, precision: Precision) -> Self {
        Self { precision, ..self }
    }
}

impl Tape for DropoutTape<'_> {
    fn precision(&self) -> Precision {
        self.precision
    }

    fn use_cpu_kernels(&self) -> bool {
        false
    }

    fn clip_upstream(&mut self, y: BatchTensor, clip: &UpstreamClip) -> BatchTensor {
        clip_gradient(y, *clip, self.batch.copies())
    }

    fn dropout_mask(&mut self, rate: f64, shape: &[usize]) -> Option<DeviceArray> {
        let layer = self.layer;
        self.layer += 1;
        let each = (shape.iter().product::<usize>() / self.rows.len().max(1)).max(1);
        if let Some(device) = &self.device {
            let masks = self.batch.dropout_masks(&self.rows, layer, rate, each, device);
            return Some(DeviceArray::from_tensor(masks.flatten(0, 1)));
        }
        let mut mask = vec![0.0; shape.iter().product()];
        for (mask, &row) in mask.chunks_mut(each).zip(&self.rows) {
            self.batch.dropout_mask(row, layer, rate, mask);
        }
        Some(mask.into())
    }
}
