//! [`ClippedFractions`]: the fractions of examples that the clips of backpropagation clipping
//! scale down.

use serde::{Deserialize, Serialize};

use burn::prelude::*;

use super::Batch;
use super::batch::{Chunk, chunk_ranges};
use super::gradient_hook::{attach_tap, clip_gradient, take_tapped_gradient};
use super::tap::DropoutTape;
use crate::device::DeviceArray;
use crate::device::host::tensor_to_vec;
use crate::nn::loss::cross_entropy;
use crate::nn::{BatchTensor, LayerClips, LayerSpec, Network, Tape, UpstreamClip};
use crate::{Error, ErrorKind, Result};

/// Largest number of examples in a forward and backward pass.
const CHUNK: usize = 256;
/// Relative excess over a bound that f32 rounding explains. Such a row does not count as clipped.
const ROUNDING: f64 = 1e-6;

/// Fractions of the examples that the clips of one layer scale down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayerClippedFractions {
    /// Path of the layer, the prefix of its parameters' paths.
    pub layer: String,
    /// Kind of the layer, such as `"Conv2d"`.
    pub kind: String,
    /// Clips of the layer.
    pub clips: LayerClips,
    /// Fraction of the examples whose input exceeds the input clip, in 0..=1. `None` for an
    /// embedding: token ids are not clipped.
    pub inputs: Option<f64>,
    /// Fraction of the examples whose upstream gradient exceeds the upstream clip, in 0..=1.
    pub upstream: f64,
}

/// Fractions of the examples whose input or upstream gradient is scaled down by the clips of
/// backpropagation clipping, layer by layer.
///
/// The upstream gradient of a layer is computed as in training: the layers behind it have clipped
/// the gradient that arrives there.
///
/// # Guarantee
/// None: the fractions are computed from the examples without noise. Do not publish them. The
/// figure carries [`NOT_COVERED`](crate::show::NOT_COVERED).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClippedFractions {
    /// The layers with clips, in the order of the forward pass.
    pub layers: Vec<LayerClippedFractions>,
    /// Number of examples.
    pub examples: usize,
}

impl ClippedFractions {
    /// Counts the examples of a batch that the clips of a network scale down, in one forward and
    /// one backward pass.
    ///
    /// As in training, dropout masks are those of the batch, and examples whose features are not
    /// finite or whose files can't be read are left out. An input or gradient that overflows is set
    /// to zero by its clip and counts as clipped. Augmented copies count like examples.
    ///
    /// # Guarantee
    /// None (see the type): do not publish the result.
    ///
    /// # Errors
    /// `Model` if no layer has clips; `Setting` if no example is left; if the batch does not fit
    /// the network.
    pub(crate) fn measure(network: &Network, batch: &Batch) -> Result<Self> {
        let layers = network.clipped_layers();
        if layers.is_empty() {
            let why = "no layer has the clips of backpropagation clipping";
            return Err(Error::new(ErrorKind::Model, "the fractions of clipped examples", why)
                .fix("train the model with BackpropClip, and measure the fractions of its run"));
        }
        batch.check(network)?;
        let mut examples = batch.finite_examples()?;
        let counts = loop {
            if examples.is_empty() {
                let why = "a fraction needs at least one example with finite features";
                return Err(Error::setting("examples", 0, why)
                    .fix("pass data with training examples, or a batch that is not empty"));
            }
            let mut counts = vec![[0; 2]; layers.len()];
            let split = |n: usize| chunk_ranges(n, CHUNK.min(batch.chunk_len()));
            batch.for_each_chunk(&examples, &split, |_, chunk| {
                for (total, clipped) in counts.iter_mut().zip(count_clipped(network, chunk)) {
                    total.iter_mut().zip(clipped).for_each(|(total, clipped)| *total += clipped);
                }
                Ok(())
            })?;
            let (left_out, all) = (batch.excluded_examples(), examples.len());
            examples.retain(|example| !left_out.contains(example));
            if examples.len() == all {
                break counts;
            }
        };
        let rows = (examples.len() * batch.copies()) as f64;
        let share = |clipped: usize| clipped as f64 / rows;
        let shares = layers.into_iter().zip(counts).map(|((layer, spec), [inputs, upstream])| {
            let is_lookup = matches!(*spec.layer, LayerSpec::Embedding(_));
            LayerClippedFractions {
                layer,
                kind: spec.layer.kind().to_owned(),
                clips: spec.clip,
                inputs: (!is_lookup).then(|| share(inputs)),
                upstream: share(upstream),
            }
        });
        Ok(Self { layers: shares.collect(), examples: examples.len() })
    }
}

/// Counts the clipped inputs and upstream gradients of each layer with clips.
fn count_clipped(network: &Network, chunk: Chunk) -> Vec<[usize; 2]> {
    let (batch, device) = (chunk.batch, network.device());
    let (features, labels) = chunk.to_rows();
    let x = BatchTensor::new(features, labels.len(), batch.shape(), &device);
    let mut tape = ClipTape::new(DropoutTape::new(batch, chunk.examples).on_device(&device));
    let logits = network.forward(x, &mut tape);
    // The sum, not the mean: a gradient must not depend on the number of examples.
    tape.into_counts(cross_entropy(logits, &labels).sum())
}

/// Tape that counts clipped inputs, and taps upstream gradients before they are clipped.
struct ClipTape<'a> {
    dropouts: DropoutTape<'a>,
    /// Number of clipped inputs of the layer whose call of `clip_upstream` comes next.
    inputs: usize,
    layers: Vec<TappedLayer>,
}

/// A layer with clips.
struct TappedLayer {
    inputs: usize,
    clip: UpstreamClip,
    /// Shape of the layer's output, batch first.
    shape: Vec<usize>,
    anchor: Tensor<1>,
}

impl<'a> ClipTape<'a> {
    fn new(dropouts: DropoutTape<'a>) -> Self {
        Self { dropouts, inputs: 0, layers: Vec::new() }
    }

    /// Returns the numbers of clipped inputs and upstream gradients of each layer.
    fn into_counts(self, loss: Tensor<1>) -> Vec<[usize; 2]> {
        let mut grads = loss.backward();
        let each = self.layers.into_iter().map(|TappedLayer { inputs, clip, shape, anchor }| {
            let gradient = take_tapped_gradient(&anchor, &mut grads, shape.len());
            let norm = |row: &[f32]| clip.norm(row, &shape[1..]);
            // A gradient of zero if the loss does not depend on the layer.
            [
                inputs,
                gradient.map_or(0, |gradient| count_exceeding(gradient, clip.max_norm(), norm)),
            ]
        });
        each.collect()
    }
}

/// Counts the rows whose norm exceeds `max_norm` or is not a number.
fn count_exceeding(rows: BatchTensor, max_norm: f64, norm: impl Fn(&[f32]) -> f64) -> usize {
    let len = rows.dims()[1..].iter().product::<usize>().max(1);
    let is_within = |row: &&[f32]| norm(row) <= max_norm * (1.0 + ROUNDING);
    tensor_to_vec(rows.into_flat()).chunks(len).filter(|row| !is_within(row)).count()
}

impl Tape for ClipTape<'_> {
    fn record_unclipped_input(&mut self, x: &BatchTensor, max_norm: f64) {
        let l2 = |row: &[f32]| row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
        self.inputs = count_exceeding(x.detach(), max_norm, l2);
    }

    fn clip_upstream(&mut self, y: BatchTensor, clip: &UpstreamClip) -> BatchTensor {
        let shape = y.dims();
        // The tap comes after the clip in the forward pass, so before it in the backward pass.
        let (y, anchor) = attach_tap(clip_gradient(y, *clip, 1));
        let inputs = std::mem::take(&mut self.inputs);
        self.layers.push(TappedLayer { inputs, clip: *clip, shape, anchor });
        y
    }

    fn use_cpu_kernels(&self) -> bool {
        self.dropouts.use_cpu_kernels()
    }

    fn dropout_mask(&mut self, rate: f64, shape: &[usize]) -> Option<DeviceArray> {
        self.dropouts.dropout_mask(rate, shape)
    }
}

#[cfg(test)]
mod tests;
