//! Features of a batch: in memory, or gathered in chunks ahead of their use.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use burn::prelude::*;

use super::Batch;
use crate::data::batch_source::{BatchPrefetcher, BatchSource, is_finite};
use crate::data::prefetcher::{ChunkRanges, ChunkRequest, Chunks, Copies, Gather, Prefetcher};
use crate::device::DeviceArray;
use crate::{Error, Result};

/// Bytes of features gathered at a time on the host. Two such chunks exist at most.
const CHUNK_BYTES: usize = 1 << 24;

/// Storage of the features of a batch: in memory, or in a data set that is read lazily.
#[derive(Clone)]
pub(super) enum Features {
    /// Features of all examples in memory, `[examples, copies, shape…]`.
    Resident(Box<DeviceArray>),
    /// Features in a data set, gathered when they are needed.
    Lazy(LazyFeatures),
}

/// Examples of a data set whose features are gathered when they are needed.
#[derive(Clone)]
pub(super) struct LazyFeatures {
    pub(super) source: Arc<BatchSource>,
    /// Thread that gathers the batches of a run; `None` for a thread of the batch's own.
    pub(super) reader: Option<BatchPrefetcher>,
    /// Next batch of the run, which the reader begins to gather when it has finished this one.
    pub(super) next: Option<Arc<BatchSource>>,
}

/// Some examples of a batch with their features on the host.
#[derive(Clone, Copy)]
pub(in crate::engine) struct Chunk<'a> {
    pub(in crate::engine) batch: &'a Batch,
    /// Positions of the examples in the batch.
    pub(in crate::engine) examples: &'a [usize],
    /// Gathered features of the examples; `None` if they are read from the batch.
    gathered: Option<&'a [f32]>,
}

impl<'a> Chunk<'a> {
    /// Returns the number of examples.
    pub(in crate::engine) fn len(self) -> usize {
        self.examples.len()
    }

    /// Returns the features of the `i`-th example of the chunk: its copies, one after the other.
    pub(in crate::engine) fn features(self, i: usize) -> &'a [f32] {
        match self.gathered {
            Some(gathered) => {
                let size = self.batch.example_len();
                &gathered[i * size..(i + 1) * size]
            }
            None => self.batch.features(self.examples[i]),
        }
    }

    /// Returns the examples of this range of the chunk.
    pub(in crate::engine) fn slice(self, range: Range<usize>) -> Self {
        let size = self.batch.example_len();
        let gathered = self.gathered.map(|all| &all[range.start * size..range.end * size]);
        Self { examples: &self.examples[range], gathered, ..self }
    }

    /// Returns parts of at most `size` examples, in order.
    pub(in crate::engine) fn split_by(self, size: usize) -> impl Iterator<Item = Self> {
        let n = self.len();
        (0..n).step_by(size).map(move |start| self.slice(start..n.min(start + size)))
    }

    /// Returns a copy of all features, `[examples, copies, shape…]`, and one label per row.
    pub(in crate::engine) fn to_rows(self) -> (Vec<f32>, Vec<u32>) {
        let mut features = Vec::with_capacity(self.len() * self.batch.example_len());
        (0..self.len()).for_each(|i| features.extend_from_slice(self.features(i)));
        let copies = self.batch.copies();
        let labels = self.examples.iter().map(|&i| self.batch.label(i));
        (features, labels.flat_map(|label| std::iter::repeat_n(label, copies)).collect())
    }
}

impl LazyFeatures {
    /// Gathers chunks of these examples, which are in order, ahead on a thread.
    fn prefetch_chunks(
        &self,
        copies: Copies,
        examples: &[usize],
        split: &dyn Fn(usize) -> Vec<ChunkRanges>,
    ) -> Result<Chunks<BatchSource>> {
        let reader = match &self.reader {
            None => Arc::new(Prefetcher::start()?),
            Some(reader) => reader.clone(),
        };
        let request = |source: &Arc<BatchSource>, examples: Option<Vec<usize>>| {
            let chunks = split(examples.as_ref().map_or(source.len(), Vec::len));
            ChunkRequest { source: source.clone(), copies, examples, chunks }
        };
        // The next batch is expected to have no example that is left out.
        let next = self.next.as_ref().map(|next| request(next, None));
        let some = examples.len() < self.source.len();
        let request = request(&self.source, some.then(|| examples.to_vec()));
        Ok(reader.request_chunks(request, next))
    }

    /// Returns whether the features of example `i` are finite in all copies; features in files are
    /// checked when they are gathered.
    fn is_finite(&self, i: usize) -> Result<bool> {
        match self.source.raw_features(i) {
            None => Ok(true),
            // Copies have no other values than the example.
            Some(plain) if is_finite(plain) => Ok(true),
            Some(_) if self.source.features_in_place(i).is_some() => Ok(false),
            Some(_) => {
                let mut features = Vec::new();
                self.source.gather(&[i], Copies::Augmented, &mut features)?;
                Ok(is_finite(&features))
            }
        }
    }
}

/// Returns chunks of at most `size` of `n` examples, in order.
pub(in crate::engine) fn chunk_ranges(n: usize, size: usize) -> Vec<ChunkRanges> {
    let piece = |start: usize| start..n.min(start.saturating_add(size));
    (0..n).step_by(size).map(|start| vec![piece(start)]).collect()
}

/// Returns the examples of some pieces of a list; without a copy if these follow each other.
fn select_examples<'a>(examples: &'a [usize], pieces: &ChunkRanges) -> Cow<'a, [usize]> {
    match (pieces.first(), pieces.last()) {
        (Some(first), Some(last)) if pieces.windows(2).all(|two| two[0].end == two[1].start) => {
            Cow::Borrowed(&examples[first.start..last.end])
        }
        _ => pieces.iter().cloned().flatten().map(|i| examples[i]).collect(),
    }
}

impl Batch {
    /// Returns the examples whose features are finite in all copies, and those in files, which are
    /// checked when they are gathered: [`excluded_examples`](Self::excluded_examples).
    ///
    /// # Errors
    /// If the features of an example can't be made.
    pub(in crate::engine) fn finite_examples(&self) -> Result<Vec<usize>> {
        let mut finite = Vec::with_capacity(self.len());
        for i in 0..self.len() {
            let is_finite = match &self.features {
                Features::Resident(_) => is_finite(self.features(i)),
                Features::Lazy(drawn) => drawn.is_finite(i)?,
            };
            finite.extend(is_finite.then_some(i));
        }
        Ok(finite)
    }

    /// Returns the examples that could not be read, or were not finite, when they were gathered.
    /// An executor must not use their features.
    pub(in crate::engine) fn excluded_examples(&self) -> BTreeSet<usize> {
        match &self.features {
            Features::Resident(_) => BTreeSet::new(),
            Features::Lazy(drawn) => drawn.source.skipped_positions(),
        }
    }

    /// Returns whether the features can be read in place on the host.
    fn is_host_resident(&self) -> bool {
        match &self.features {
            Features::Resident(_) => true,
            Features::Lazy(drawn) => self.is_empty() || drawn.source.features_in_place(0).is_some(),
        }
    }

    /// Returns all features, `[examples, copies, shape…]`, on the device that makes them if there
    /// is one.
    pub(super) fn gather_all(&self) -> Result<DeviceArray> {
        let drawn = match &self.features {
            Features::Resident(features) => return Ok(DeviceArray::clone(features)),
            Features::Lazy(drawn) => drawn,
        };
        let all: Vec<usize> = (0..self.len()).collect();
        let mut features = Vec::new();
        let Some(device) = drawn.source.device().filter(|_| !self.is_empty()) else {
            drawn.source.gather(&all, Copies::Augmented, &mut features)?;
            return Ok(features.into());
        };
        let is_uploaded = drawn.source.is_uploaded_to(device);
        if !is_uploaded {
            drawn.source.gather(&all, Copies::Plain, &mut features)?;
        }
        let features =
            drawn.source.features_on_device(device, &all, (!is_uploaded).then_some(features))?;
        Ok(DeviceArray::from_tensor(features.flatten(0, 1)))
    }

    /// Returns the number of examples to gather at a time on the host. Unlimited if the batch
    /// holds its features, or can read them in place.
    pub(in crate::engine) fn chunk_len(&self) -> usize {
        #[cfg(test)]
        if let Some(len) = self.chunk_len {
            return len;
        }
        if self.is_host_resident() {
            usize::MAX
        } else {
            (CHUNK_BYTES / (self.example_len() * size_of::<f32>()).max(1)).max(1)
        }
    }

    /// Passes the given examples to `each` in chunks, with their number, while a thread gathers the
    /// next chunk. `split(n)` divides `0..n`, the positions in a list of examples, into chunks. The
    /// batch that follows in a run is expected to be divided by it, too.
    ///
    /// # Errors
    /// The first error of `each`, or of reading the examples. No chunk follows it.
    pub(in crate::engine) fn for_each_chunk(
        &self,
        examples: &[usize],
        split: &dyn Fn(usize) -> Vec<ChunkRanges>,
        mut each: impl FnMut(usize, Chunk<'_>) -> Result<()>,
    ) -> Result<()> {
        let drawn = match &self.features {
            Features::Lazy(drawn) if !self.is_host_resident() => drawn,
            _ => {
                for (number, pieces) in split(examples.len()).into_iter().enumerate() {
                    let examples = select_examples(examples, &pieces);
                    each(number, Chunk { batch: self, examples: &examples, gathered: None })?;
                }
                return Ok(());
            }
        };
        let chunks = drawn.prefetch_chunks(Copies::Augmented, examples, split)?;
        let request = chunks.request();
        for (number, gathered) in chunks.enumerate() {
            let gathered = gathered?;
            let examples = &request.positions(number);
            each(number, Chunk { batch: self, examples, gathered: Some(&gathered) })?;
        }
        Ok(())
    }

    /// Passes the features of all examples to `each` in chunks on `device`, with their number:
    /// `[examples x copies, features]`. `split(n)` divides the examples `0..n` into chunks of one
    /// piece each, as in [`for_each_chunk`](Self::for_each_chunk). Features that the device holds
    /// are selected there.
    ///
    /// # Errors
    /// As [`for_each_chunk`](Self::for_each_chunk).
    pub(in crate::engine) fn for_each_chunk_on<E: From<Error>>(
        &self,
        device: &Device,
        split: &dyn Fn(usize) -> Vec<ChunkRanges>,
        mut each: impl FnMut(usize, Tensor<2>) -> Result<(), E>,
    ) -> Result<(), E> {
        let drawn = match &self.features {
            Features::Lazy(drawn) => drawn,
            Features::Resident(features) => {
                for (number, piece) in split(self.len()).into_iter().flatten().enumerate() {
                    each(number, self.resident_rows_on(features, device, piece))?;
                }
                return Ok(());
            }
        };
        let source = &drawn.source;
        if source.is_uploaded_to(device) {
            for (number, piece) in split(self.len()).into_iter().flatten().enumerate() {
                each(number, source.features_on_device(device, &piece.collect::<Vec<_>>(), None)?)?;
            }
            return Ok(());
        }
        let all: Vec<usize> = (0..self.len()).collect();
        let chunks = drawn.prefetch_chunks(Copies::Plain, &all, split)?;
        let request = chunks.request();
        for (number, gathered) in chunks.enumerate() {
            let mut gathered = gathered?;
            let positions = request.positions(number);
            let features = source.features_on_device(device, &positions, Some(gathered.take()))?;
            drop(gathered);
            each(number, features)?;
        }
        Ok(())
    }

    /// Returns in-memory features of some examples on a device; without a copy if they are there.
    fn resident_rows_on(
        &self,
        features: &DeviceArray,
        device: &Device,
        range: Range<usize>,
    ) -> Tensor<2> {
        let (rows, size) = (range.len() * self.copies, self.example_len());
        let part = range.start * size..range.end * size;
        let part = match features.device() {
            Some(resident_device) if resident_device == *device => {
                features.to_tensor(device).narrow(0, part.start, part.len())
            }
            _ => Tensor::from_data(
                TensorData::new(features[part.clone()].to_vec(), [part.len()]),
                device,
            ),
        };
        part.reshape([rows, size / self.copies])
    }
}

#[cfg(test)]
mod tests;
