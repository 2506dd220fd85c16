//! Some examples of a batch, ready for a pass on a GPU.

use std::ops::Range;

use burn::prelude::*;

use crate::device::kernels;
use crate::engine::Batch;

/// Some examples on the device, padded up with rows that don't count to a number of examples that
/// says nothing of how many there are: see [`Chunking`].
pub(in crate::engine::tap) struct PaddedChunk {
    /// `[size x copies, features]`; zeros for examples that are not finite, and behind the last.
    pub(super) rows: Tensor<2>,
    /// 1 for each example whose features are all finite, in every copy; else 0, `[size]`.
    pub(super) finite: Tensor<1>,
    /// One for each row.
    pub(super) labels: Vec<u32>,
    /// Which example of the batch each is, for its dropout masks.
    pub(super) examples: Vec<usize>,
    /// How many there really are.
    n: usize,
}

impl PaddedChunk {
    /// The examples `examples`. `features` are those of the whole batch, `[examples x copies, features]`.
    pub(super) fn new(
        features: &Tensor<2>,
        batch: &Batch,
        examples: Range<usize>,
        size: usize,
    ) -> Self {
        let ([_, each], copies, n) = (features.dims(), batch.copies(), examples.len());
        let rows = features.clone().narrow(0, examples.start * copies, n * copies);
        let rows = rows.reshape([n, copies * each]);
        let finite = kernels::finite(rows.clone());
        let rows = kernels::scaled(rows, &finite);
        let labels = batch.labels()[examples.clone()].iter().copied();
        let labels = labels.chain(std::iter::repeat(0)).take(size);
        let labels = labels.flat_map(|label| std::iter::repeat_n(label, copies)).collect();
        let (rows, finite) = match size - n {
            0 => (rows, finite),
            padding => {
                let device = features.device();
                let rows =
                    Tensor::cat(vec![rows, Tensor::zeros([padding, copies * each], &device)], 0);
                (rows, Tensor::cat(vec![finite, Tensor::zeros([padding], &device)], 0))
            }
        };
        // Whose masks the rows behind have does not matter.
        let first = examples.start;
        let examples = examples.chain(std::iter::repeat(first)).take(size).collect();
        Self { rows: rows.reshape([size * copies, each]), finite, labels, examples, n }
    }

    /// The numbers of the examples that there are.
    pub(super) fn without_padding(&self, each: Tensor<1>) -> Tensor<1> {
        each.narrow(0, 0, self.n)
    }
}

/// How a batch is cut into passes.
///
/// A GPU chooses how to compute a product by its shape, and so with which rounding. With passes of
/// one size for all batches, one example padding changes no other example's share; and the GPU need
/// not learn new shapes in every step.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::engine::tap) enum Chunking {
    /// Passes of about equal size, as few as possible.
    #[default]
    Even,
    /// Passes of one size, such that a batch of so many examples is cut evenly.
    Fixed(usize),
}

impl Chunking {
    /// Examples of one pass, where there is room for `max`.
    pub(in crate::engine::tap) fn size(self, max: usize) -> usize {
        match self {
            Self::Even => max,
            Self::Fixed(batch_size) => {
                batch_size.max(1).div_ceil(batch_size.max(1).div_ceil(max.max(1)))
            }
        }
    }

    /// The passes of a batch of `n`, where one takes `size`: which examples, and padded up to how
    /// many.
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

    /// Examples of the largest pass of a batch of `n`.
    pub(in crate::engine::tap) fn largest(self, n: usize, size: usize) -> usize {
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
                    let size = chunking.size(max);
                    assert!((1..=max).contains(&size));
                    let chunks = chunking.chunks(n, size);
                    let all: Vec<_> =
                        chunks.iter().flat_map(|(examples, _)| examples.clone()).collect();
                    assert_eq!(all, (0..n).collect::<Vec<_>>());
                    for (examples, padded) in &chunks {
                        assert!(!examples.is_empty() && examples.len() <= *padded);
                        let fixed = matches!(chunking, Chunking::Fixed(_));
                        assert_eq!(*padded, if fixed { size } else { examples.len() });
                        assert!(*padded <= chunking.largest(n, size));
                    }
                }
            }
        }
        assert_eq!(Chunking::Fixed(100).size(64), 50, "two passes of one size");
        assert_eq!(Chunking::Fixed(100).size(4096), 100);
    }
}
