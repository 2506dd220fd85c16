//! The tensor executor: one backward pass per chunk of examples, on any device.

mod chunk;
mod convolution;
mod device;
mod dropout_tape;
mod norm_weights;
mod probe;
mod recorder;
mod site;
mod site_gradient;

use std::collections::BTreeMap;

use burn::prelude::*;
use burn::tensor::FloatDType;

use super::{Batch, ClipRule, ClippedSum, Executor, Gradients, Weights};
use crate::device::host::values;
use crate::nn::{Network, Precision, workers};
use crate::{Error, ErrorKind, Result};
use chunk::{ChunkSum, Job};
use device::{ChunkKey, ChunkSizer, Chunking, PlainSum};
use norm_weights::NormWeights;
use probe::Probe;
use site::{ComputePath, RequestedGrads};

/// Per-example gradients by taps: one forward and one backward pass per chunk of examples, in
/// which Burn computes gradients by activations only. What each map with parameters saw gives the
/// norms and the clipped sum by tensor operations on the device of the network.
///
/// Norms of linear maps of plain features and of embeddings come from inputs and output gradients
/// ("ghost"); everything else forms the gradients of one chunk's examples. (Linear maps of
/// sequences too: their Gram matrices would be cheaper for short sequences and wide maps, but an
/// example could hide a long gradient in the rounding of terms that cancel.) Memory: activations
/// and instances of one chunk per core, never batch x parameters.
///
/// The result does not depend on the number of threads: chunks are summed in order.
///
/// On a GPU nothing is copied to the host: the sum, the norms and the losses stay on the device,
/// and one chunk after the other is as large as its memory allows
/// ([`device::memory_budget`](crate::device::memory_budget)). Convolutions and maps of sequences keep chunk x
/// parameters numbers there. If memory runs out all the same, the batch is done again in chunks of
/// half the size; that is found out, and the host waits for it, only when a network or a clearly
/// larger batch is seen for the first time. So hold on to one executor for a whole training.
///
/// # Guarantee
/// As [`Executor`], with two differences on a GPU. An example that is left out adds exact zeros
/// and changes no other example's share, but it keeps its place in the chunks: the order of the
/// additions, and with it the last bits of the sum, may differ from those of the batch without it.
/// And a GPU may compute chunks of different sizes in different precision, so that one example more
/// changes what the others' gradients are, by their rounding; chunks that are
/// [`steady`](Self::fixed_chunks), which training uses, do not.
/// Its tensor cores may round the factors of products (to TF32, or to bf16 if asked for), which
/// changes what a gradient is; norms are taken in f32 of the numbers that are added up, in f32 too,
/// so that no share is longer than the bound. A coordinate of weight 0 that is not finite may leave its example in:
/// it adds what the others make it add.
#[derive(Debug, Default)]
pub struct TapExecutor {
    chunk: Option<usize>,
    /// Goes the way of a GPU on the CPU too: for tests, and for the sums of a GPU made by hand.
    device_path: bool,
    precision: Precision,
    chunking: Chunking,
    clipped_sizer: ChunkSizer,
    plain_sizer: ChunkSizer,
}

impl TapExecutor {
    /// Works on this many examples at a time (at least one); chosen from the sizes of parameters
    /// and activations if not given. It changes speed and memory, and the sums by f32 rounding
    /// only.
    pub fn with_chunk(self, examples: usize) -> Self {
        Self { chunk: Some(examples.max(1)), ..self }
    }

    /// Works as on a GPU wherever the network is: everything stays on the device, nothing is
    /// looked at. Slower than the usual way on the CPU.
    pub fn with_device_path(self) -> Self {
        Self { device_path: true, ..self }
    }

    /// On a GPU, works in passes of one size, as batches of so many examples need them: with it, no
    /// example's share depends on how many others there are, for a GPU chooses by the shapes how it
    /// computes, and how it rounds. Smaller batches are filled up with examples that don't count.
    pub fn fixed_chunks(self, examples: usize) -> Self {
        Self { chunking: Chunking::Fixed(examples), ..self }
    }

    /// In which numbers large products are computed on a GPU. Nothing changes on the CPU.
    pub fn precision(self, precision: Precision) -> Self {
        Self { precision, ..self }
    }

    fn uses_device_path(&self, network: &Network) -> bool {
        self.device_path || network.device() != Device::flex()
    }

    fn checked_precision(&self, device: &Device) -> Result<Precision> {
        let supported = device.supports_dtype(FloatDType::BF16);
        if self.precision.is_default() || supported {
            return Ok(self.precision);
        }
        let why = "its numbers have no such type";
        Err(Error::new(ErrorKind::Device, "bf16 was asked for on a GPU without it", why)
            .fix("leave out .precision(…), for f32"))
    }

    fn on_device_path(
        &self,
        network: &Network,
        batch: &Batch,
        rule: &ClipRule,
        weights: Option<&Weights>,
    ) -> Result<ClippedSum> {
        let (key, device) = chunk_key(network, batch);
        let norm_weights =
            NormWeights::per_parameter_on_device(weights, key.parameters.len(), &device);
        let path = ComputePath::Device(self.checked_precision(&device)?);
        let requested =
            RequestedGrads::new(&key.parameters, path, |entry| norm_weights[entry].is_zero());
        let job = Job { network, device, batch, rule, norm_weights, requested };
        let estimate = || match self.chunk {
            Some(chunk) => Ok(chunk),
            None => Probe::of(network).chunk(batch.copies(), &job.device),
        };
        let chunking = self.chunking;
        self.clipped_sizer.run(key, (chunking, batch.len()), estimate, |size, verify| {
            device::sum(&job, network.parameters(), batch, &job.device, (chunking, size), verify)
        })
    }
}

/// What is to be done, and where.
fn chunk_key(network: &Network, batch: &Batch) -> (ChunkKey, Device) {
    let device = network.device();
    let (parameters, copies) = (network.parameters(), batch.copies());
    (ChunkKey { parameters, copies, device: device.clone() }, device)
}

/// One pass over the examples `examples`; norms and losses in their order.
fn sum_chunks(job: &Job, examples: &[usize], chunk: usize) -> Result<ChunkSum> {
    let mut total = ChunkSum { sum: BTreeMap::new(), norms: Vec::new(), losses: Vec::new() };
    let chunks: Vec<&[usize]> = examples.chunks(chunk).collect();
    let mut first_error = None;
    let mut collect = |chunk: Result<ChunkSum>| match chunk {
        Ok(chunk) => total.add(chunk),
        Err(error) => first_error = first_error.take().or(Some(error)),
    };
    if job.device == Device::flex() {
        workers::in_order(chunks.len(), |i| job.run(chunks[i]), |_, chunk| collect(chunk))?;
    } else {
        // Other devices collect one chunk at a time and spread it themselves.
        chunks.into_iter().for_each(|examples| collect(job.run(examples)));
    }
    first_error.map_or(Ok(total), Err)
}

impl Executor for TapExecutor {
    fn weighted_sum(
        &self,
        network: &Network,
        batch: &Batch,
        rule: &ClipRule,
        weights: Option<&Weights>,
    ) -> Result<ClippedSum> {
        super::check(network, batch, rule, weights)?;
        if self.uses_device_path(network) {
            return self.on_device_path(network, batch, rule, weights);
        }
        let (parameters, device) = (network.parameters(), network.device());
        let norm_weights = NormWeights::per_parameter(weights, parameters.len(), &device);
        let requested = RequestedGrads::new(&parameters, ComputePath::Host, |entry| {
            norm_weights[entry].is_zero()
        });
        let job = Job { network, device, batch, rule, norm_weights, requested };
        let mut examples = batch.finite();
        let chunk = match self.chunk {
            Some(chunk) => chunk,
            None if examples.is_empty() => 1,
            None => Probe::of(network).chunk(batch.copies(), &job.device)?,
        };
        // An example with finite features can still have a gradient that overflows. It is then
        // taken out and all is done again, so that the others fall into the very chunks, and
        // into the very rounding, of a batch without it.
        let pass = loop {
            let pass = sum_chunks(&job, &examples, chunk)?;
            let finite = |i: usize| pass.norms[i].is_finite() && pass.losses[i].is_finite();
            if (0..examples.len()).all(finite) {
                break pass;
            }
            let mut i = 0..examples.len();
            examples.retain(|_| i.next().is_some_and(finite));
        };
        let mut norms = vec![f32::NAN; batch.len()];
        let mut losses = vec![f32::NAN; batch.len()];
        for (i, &example) in examples.iter().enumerate() {
            (norms[example], losses[example]) = (pass.norms[i], pass.losses[i]);
        }
        let mut sum = Gradients::zeros_like(network);
        for (entry, values_sum) in pass.sum {
            sum.entries[entry].values = values(values_sum).into();
        }
        if let Some(weights) = weights {
            weights.select(&mut sum);
        }
        Ok(ClippedSum { sum, norms: norms.into(), losses: losses.into() })
    }

    fn plain_sum(&self, network: &Network, batch: &Batch) -> Result<ClippedSum> {
        if !self.uses_device_path(network) {
            return self.clipped_sum(network, batch, &ClipRule::unclipped());
        }
        super::check(network, batch, &ClipRule::unclipped(), None)?;
        let (key, device) = chunk_key(network, batch);
        let estimate = || match self.chunk {
            Some(chunk) => Ok(chunk),
            None => Probe::of(network).plain_chunk(batch.copies(), &device),
        };
        let precision = self.checked_precision(&device)?;
        let pass = PlainSum { network: network.tracked(), batch, precision };
        let chunking = self.chunking;
        self.plain_sizer.run(key, (chunking, batch.len()), estimate, |size, verify| {
            device::sum(&pass, network.parameters(), batch, &device, (chunking, size), verify)
        })
    }

    fn norm_methods(&self, network: &Network) -> Vec<&'static str> {
        Probe::of(network).norm_methods
    }
}

#[cfg(test)]
mod tests;
