//! Splitting of a batch into chunks, with padding to a fixed size.

use std::ops::Range;

use burn::prelude::*;

use crate::device::kernels;
use crate::engine::Batch;

/// Examples of a batch on the device, padded to the size of a chunk. With [`Chunking::Fixed`],
/// padding rows bring the chunk to a size that does not depend on the batch.
pub(in crate::engine::tap) struct PaddedChunk {
    /// Features, `[size x copies, features]`. Zeros for non-finite examples and for padding.
    pub(super) rows: Tensor<2>,
    /// Flags of the examples: 1 if the features are finite in all copies, else 0, `[size]`. 0 for
    /// padding.
    pub(super) finite: Tensor<1>,
    /// Labels, one per row.
    pub(super) labels: Vec<u32>,
    /// Position of each example in the batch, from which its dropout masks are derived.
    pub(super) examples: Vec<usize>,
    /// Number of examples without padding.
    n: usize,
}

impl PaddedChunk {
    /// Pads the given examples, whose features are `[examples x copies, features]`, to `size`
    /// examples.
    pub(super) fn new(
        features: Tensor<2>,
        batch: &Batch,
        examples: Range<usize>,
        size: usize,
    ) -> Self {
        let ([_, each], copies, n) = (features.dims(), batch.copies(), examples.len());
        let device = features.device();
        let rows = features.reshape([n, copies * each]);
        let finite = kernels::finite_rows(rows.clone());
        let rows = kernels::scale_rows(rows, &finite);
        let labels = batch.labels()[examples.clone()].iter().copied();
        let labels = labels.chain(std::iter::repeat(0)).take(size);
        let labels = labels.flat_map(|label| std::iter::repeat_n(label, copies)).collect();
        let (rows, finite) = match size - n {
            0 => (rows, finite),
            padding => {
                let zeros = |count: usize| Tensor::zeros([count], &device);
                let rows =
                    kernels::concat(vec![rows.flatten(0, 1), zeros(padding * copies * each)]);
                (rows.reshape([size, copies * each]), kernels::concat(vec![finite, zeros(padding)]))
            }
        };
        // Padding may use any dropout masks.
        let first = examples.start;
        let examples = examples.chain(std::iter::repeat(first)).take(size).collect();
        Self { rows: rows.reshape([size * copies, each]), finite, labels, examples, n }
    }

    /// Removes the padding from per-example values, `[size]`.
    pub(super) fn without_padding(&self, each: Tensor<1>) -> Tensor<1> {
        each.narrow(0, 0, self.n)
    }
}

/// Rule by which a batch is split into chunks.
///
/// A GPU selects the algorithm of a product, and with it the rounding, by the shapes. With one
/// chunk size for all batches, adding an example does not change the contributions of the others,
/// and no new shapes have to be compiled or tuned in later steps.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::engine::tap) enum Chunking {
    /// Fewest possible chunks, of about equal size.
    #[default]
    Even,
    /// Chunks of one size, chosen such that a batch of this many examples is split evenly.
    Fixed(usize),
}

impl Chunking {
    /// Returns the chunk size if at most `max` examples fit into memory.
    pub(in crate::engine::tap) fn chunk_size(self, max: usize) -> usize {
        match self {
            Self::Even => max,
            Self::Fixed(batch_size) => {
                batch_size.max(1).div_ceil(batch_size.max(1).div_ceil(max.max(1)))
            }
        }
    }

    /// Returns the chunks of a batch of `n` examples for this chunk size: the examples, and the
    /// size to pad to.
    pub(super) fn chunks(self, n: usize, size: usize) -> Vec<(Range<usize>, usize)> {
        let count = n.div_ceil(size.max(1));
        let chunk = |index: usize| match self {
            Self::Even => {
                let examples = index * n / count..(index + 1) * n / count;
                (examples.clone(), examples.len())
            }
            Self::Fixed(_) => (index * size..n.min((index + 1) * size), size),
        };
        (0..count).map(chunk).collect()
    }

    /// Returns the size of the largest chunk of a batch of `n` examples, with padding.
    pub(in crate::engine::tap) fn max_padded_size(self, n: usize, size: usize) -> usize {
        match self {
            Self::Even => size.min(n),
            Self::Fixed(_) => size,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_the_batch_and_fixed_ones_have_one_size() {
        for chunking in [Chunking::Even, Chunking::Fixed(20)] {
            for n in 0..45 {
                for max in 1..45 {
                    let size = chunking.chunk_size(max);
                    assert!((1..=max).contains(&size));
                    let chunks = chunking.chunks(n, size);
                    let all: Vec<_> =
                        chunks.iter().flat_map(|(examples, _)| examples.clone()).collect();
                    assert_eq!(all, (0..n).collect::<Vec<_>>());
                    for (examples, padded) in &chunks {
                        assert!(!examples.is_empty() && examples.len() <= *padded);
                        let fixed = matches!(chunking, Chunking::Fixed(_));
                        assert_eq!(*padded, if fixed { size } else { examples.len() });
                        assert!(*padded <= chunking.max_padded_size(n, size));
                    }
                }
            }
        }
        assert_eq!(Chunking::Fixed(100).chunk_size(64), 50, "two chunks of one size");
        assert_eq!(Chunking::Fixed(100).chunk_size(4096), 100);
    }
}
