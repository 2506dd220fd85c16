//! The tap executor: backward hooks on any module, on any device.

mod chunk_sum;
mod convolution;
mod device;
mod dropout_tape;
mod network_probe;
mod norm_weights;
mod recorder;
mod site;
mod site_gradient;

use burn::prelude::*;
use burn::tensor::FloatDType;

use super::batch::{Chunk, chunk_ranges};
use super::per_example::compute_on_finite_examples;
use super::{Batch, Bound, ClipRule, ClippedSum, CoordinateWeights, Executor, Gradients};
use crate::device::host::tensor_to_vec;
use crate::nn::{Network, Precision, worker_pool};
use crate::{Error, ErrorKind, Result};
use chunk_sum::{BatchJob, ChunkSum};
use device::{ChunkKey, ChunkSizer, Chunking, UnclippedPass};
pub(super) use dropout_tape::DropoutTape;
use network_probe::NetworkProbe;
use norm_weights::NormWeights;
use site::{ComputePath, RequestedGrads};

/// Executor that computes per-example gradients with backward hooks: one forward and one backward
/// pass per chunk of examples, in which Burn differentiates with respect to activations only. The
/// inputs and output gradients of each parameterised layer then give the norms and the clipped sum
/// by tensor operations on the network's device.
///
/// Linear layers on plain features and embeddings use ghost norms (Goodfellow, 2015; Li et al.,
/// 2022): norms follow from inputs and output gradients. All other layers form the instance
/// gradients of one chunk. This includes linear layers on sequences: ghost norms from Gram matrices
/// (Li et al., 2022) would be cheaper for short sequences and wide layers, but their terms can
/// cancel, and a large gradient could hide in the rounding error. Memory: the activations and
/// instance gradients of one chunk per core, never batch x parameters.
///
/// Chunks are summed in order, so the result does not depend on the number of threads.
///
/// On a GPU nothing is copied to the host: the sum, the norms and the losses stay on the device.
/// Chunks run one after the other and are as large as memory allows; convolutions and layers on
/// sequences keep chunk x parameters values there. If memory runs out all the same, the batch is
/// computed again in chunks of half the size. Only for a new network or a clearly larger batch does
/// the host wait to detect this. Use one executor for a whole training run, so that the chunk size
/// is remembered.
///
/// # Guarantee
/// As [`Executor`], with these differences:
///
/// - On a GPU, an excluded example adds exact zeros and does not change the contributions of the
///   others, but it keeps its position in the chunks. The order of additions, and with it the last
///   bits of the sum, may differ from those of the batch without it.
/// - A GPU may compute chunks of different sizes with different rounding, so an added example may
///   change the gradients of the others by rounding errors. [Fixed chunks](Self::fixed_chunks),
///   which training uses, prevent this.
/// - Tensor cores may round the factors of products in the forward and backward pass (to TF32, or
///   to bf16 with [`precision`](Self::precision)), which changes the gradient itself. Norms are
///   computed in f32 from the values that are added, and these are added in f32, so no contribution
///   exceeds the bound.
/// - An example whose gradient is not finite only in coordinates of weight 0 may be kept. Its
///   contribution then consists of its other coordinates, clipped as usual.
#[derive(Debug, Default)]
pub struct TapExecutor {
    chunk: Option<usize>,
    /// Whether the CPU uses the device path too: for tests, and for comparisons with GPU sums.
    device_path: bool,
    precision: Precision,
    chunking: Chunking,
    clipped_sizer: ChunkSizer,
    plain_sizer: ChunkSizer,
}

impl TapExecutor {
    /// Sets the number of examples per chunk (at least one). The default depends on the sizes of
    /// parameters and activations. The chunk size changes speed and memory, and sums by f32
    /// rounding only.
    pub fn with_chunk_size(self, examples: usize) -> Self {
        Self { chunk: Some(examples.max(1)), ..self }
    }

    /// Uses the device path on every device, including the CPU, where it is slower: all results
    /// stay on the device, and the host does not wait for them.
    pub fn with_device_path(self) -> Self {
        Self { device_path: true, ..self }
    }

    /// Sets one chunk size on a GPU, chosen for batches of this many examples; smaller chunks are
    /// padded with rows that are masked out. The contribution of an example then does not depend
    /// on the number of other examples: a GPU selects algorithms, and with them the rounding, by
    /// the shapes.
    pub fn fixed_chunks(self, examples: usize) -> Self {
        Self { chunking: Chunking::Fixed(examples), ..self }
    }

    /// Sets the precision of large matrix products on a GPU. Has no effect on the CPU.
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
        let why = "the GPU has no bf16 arithmetic";
        Err(Error::new(ErrorKind::Device, "precision bf16 on a GPU that does not support it", why)
            .fix("leave out .precision(…): the default is f32"))
    }
}

/// Returns the key of the chunk sizer, and the device of the network.
fn chunk_key(network: &Network, batch: &Batch) -> (ChunkKey, Device) {
    let device = network.device();
    let (parameters, copies) = (network.parameters(), batch.copies());
    (ChunkKey { parameters, copies, device: device.clone() }, device)
}

/// Sums the given examples in chunks; norms and losses are in the order of the examples.
fn sum_chunks(job: &BatchJob, examples: &[usize], chunk: usize) -> Result<ChunkSum> {
    let mut total = ChunkSum::empty(job.groups.group_count());
    // One chunk for each worker, or more.
    let together =
        (job.batch.chunk_len() / chunk).max(worker_pool::worker_count()).saturating_mul(chunk);
    let split = |n: usize| chunk_ranges(n, together);
    job.batch.for_each_chunk(examples, &split, |_, gathered| {
        let chunks: Vec<Chunk> = gathered.split_by(chunk).collect();
        let mut first_error = None;
        let mut collect = |chunk: Result<ChunkSum>| match chunk {
            Ok(chunk) => total.add(chunk),
            Err(error) => first_error = first_error.take().or(Some(error)),
        };
        if job.device == Device::flex() {
            worker_pool::run_in_order(
                chunks.len(),
                |i| job.sum_chunk(chunks[i]),
                |_, chunk| collect(chunk),
            )?;
        } else {
            // Other devices parallelise within a chunk.
            chunks.into_iter().for_each(|chunk| collect(job.sum_chunk(chunk)));
        }
        first_error.map_or(Ok(()), Err)
    })?;
    Ok(total)
}

impl Executor for TapExecutor {
    fn weighted_sum(
        &self,
        network: &Network,
        batch: &Batch,
        bound: &dyn Bound,
        weights: Option<&CoordinateWeights>,
    ) -> Result<ClippedSum> {
        let groups = super::validated_groups(network, batch, bound, weights)?;
        let on_device = self.uses_device_path(network);
        let (key, device) = chunk_key(network, batch);
        let path = if on_device {
            ComputePath::Device(self.checked_precision(&device)?)
        } else {
            ComputePath::Host
        };
        let norm_weights =
            NormWeights::per_parameter(weights, key.parameters.len(), &device, !on_device);
        let requested =
            RequestedGrads::new(&key.parameters, path, |entry| norm_weights[entry].is_zero());
        let job = BatchJob { network, device, batch, groups, norm_weights, requested };
        let probe =
            || NetworkProbe::measure(network).clipped_chunk_size(batch.copies(), &job.device);
        let estimate = || self.chunk.map_or_else(probe, Ok);
        if on_device {
            let chunking = self.chunking;
            return self.clipped_sizer.run(
                key,
                (chunking, batch.len()),
                estimate,
                |size, verify| {
                    let chunking = (chunking, size);
                    device::sum_batch(
                        &job,
                        network.parameters(),
                        batch,
                        &job.device,
                        chunking,
                        verify,
                    )
                },
            );
        }
        let chunk = if batch.is_empty() { 1 } else { estimate()? };
        let compute = |examples: &[usize]| sum_chunks(&job, examples, chunk);
        let (sums, examples) =
            compute_on_finite_examples(batch, compute, |sums| &sums.per_example)?;
        let mut sum = Gradients::zeros_like(network);
        for (entry, tensor) in sums.sum {
            sum.entries[entry].values = tensor_to_vec(tensor).into();
        }
        if let Some(weights) = weights {
            weights.apply_mask(&mut sum);
        }
        Ok(sums.per_example.to_clipped_sum(sum, batch, &examples))
    }

    fn unclipped_sum(
        &self,
        network: &Network,
        batch: &Batch,
        weights: Option<&CoordinateWeights>,
    ) -> Result<ClippedSum> {
        // Autodiff needs a tracked parameter.
        let selects_nothing =
            weights.is_some_and(|weights| !weights.nonzero_tensors().contains(&true));
        if selects_nothing || !self.uses_device_path(network) {
            return self.weighted_sum(network, batch, &ClipRule::unclipped(), weights);
        }
        super::validated_groups(network, batch, &ClipRule::unclipped(), weights)?;
        let (key, device) = chunk_key(network, batch);
        let probe = || NetworkProbe::measure(network).unclipped_chunk_size(batch.copies(), &device);
        let estimate = || self.chunk.map_or_else(probe, Ok);
        let precision = self.checked_precision(&device)?;
        let left_out = |entry| weights.is_some_and(|weights| weights.is_zero_tensor(entry));
        let tracked = network.tracked_where(|entry| !left_out(entry));
        let pass = UnclippedPass { network: tracked, batch, precision };
        let chunking = self.chunking;
        let sizes = (chunking, batch.len());
        let mut plain = self.plain_sizer.run(key, sizes, estimate, |size, verify| {
            device::sum_batch(&pass, network.parameters(), batch, &device, (chunking, size), verify)
        })?;
        if let Some(weights) = weights {
            weights.apply_mask(&mut plain.sum);
        }
        Ok(plain)
    }

    fn norm_methods(&self, network: &Network) -> Vec<&'static str> {
        NetworkProbe::measure(network).norm_methods
    }
}

#[cfg(test)]
mod tests;
