//! Some examples of a batch, ready for a pass on a GPU.

use std::ops::Range;

use burn::prelude::*;

use crate::device::kernels;
use crate::engine::Batch;

/// Some examples on the device, filled up with rows that don't count to a number of examples that
/// says nothing of how many there are: see [`Chunking`].
pub(in crate::engine::tap) struct Slice {
    /// `[size x copies, features]`; zeros for examples that are not finite, and behind the last.
    pub(super) rows: Tensor<2>,
    /// 1 for each example whose features are all finite, in every copy; else 0, `[size]`.
    pub(super) readable: Tensor<1>,
    /// One for each row.
    pub(super) labels: Vec<u32>,
    /// Which example of the batch each is, for its dropout masks.
    pub(super) ids: Vec<usize>,
    /// How many there really are.
    n: usize,
}

impl Slice {
    /// The examples `ids`. `features` are those of the whole batch, `[examples x copies, features]`.
    pub(super) fn new(features: &Tensor<2>, batch: &Batch, ids: Range<usize>, size: usize) -> Self {
        let ([_, each], copies, n) = (features.dims(), batch.copies(), ids.len());
        let rows = features.clone().narrow(0, ids.start * copies, n * copies);
        let rows = rows.reshape([n, copies * each]);
        let readable = kernels::finite_rows(rows.clone());
        let rows = kernels::scale_rows(rows, &readable);
        let labels = batch.labels()[ids.clone()].iter().copied();
        let labels = labels.chain(std::iter::repeat(0)).take(size);
        let labels = labels.flat_map(|label| std::iter::repeat_n(label, copies)).collect();
        let (rows, readable) = match size - n {
            0 => (rows, readable),
            more => {
                let device = features.device();
                let rows =
                    Tensor::cat(vec![rows, Tensor::zeros([more, copies * each], &device)], 0);
                (rows, Tensor::cat(vec![readable, Tensor::zeros([more], &device)], 0))
            }
        };
        // Whose masks the rows behind have does not matter.
        let first = ids.start;
        let ids = ids.chain(std::iter::repeat(first)).take(size).collect();
        Self { rows: rows.reshape([size * copies, each]), readable, labels, ids, n }
    }

    /// The numbers of the examples that there are.
    pub(super) fn real(&self, each: Tensor<1>) -> Tensor<1> {
        each.narrow(0, 0, self.n)
    }
}

/// How a batch is cut into passes.
///
/// A GPU chooses how to compute a product by its shape, and so with which rounding. With passes of
/// one size for all batches, one example more changes no other example's share; and the GPU need
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
    /// Examples of one pass, where there is room for `most`.
    pub(in crate::engine::tap) fn size(self, most: usize) -> usize {
        match self {
            Self::Even => most,
            Self::Fixed(usual) => usual.max(1).div_ceil(usual.max(1).div_ceil(most.max(1))),
        }
    }

    /// The passes of a batch of `n`, where one takes `size`: which examples, and filled up to how
    /// many.
    pub(super) fn passes(self, n: usize, size: usize) -> Vec<(Range<usize>, usize)> {
        let parts = n.div_ceil(size.max(1));
        let pass = |part: usize| match self {
            Self::Even => {
                let ids = part * n / parts..(part + 1) * n / parts;
                (ids.clone(), ids.len())
            }
            Self::Fixed(_) => (part * size..n.min((part + 1) * size), size),
        };
        (0..parts).map(pass).collect()
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
    fn passes_cover_the_batch_and_steady_ones_have_one_size() {
        for chunking in [Chunking::Even, Chunking::Fixed(20)] {
            for n in 0..45 {
                for most in 1..45 {
                    let size = chunking.size(most);
                    assert!((1..=most).contains(&size));
                    let passes = chunking.passes(n, size);
                    let all: Vec<_> = passes.iter().flat_map(|(ids, _)| ids.clone()).collect();
                    assert_eq!(all, (0..n).collect::<Vec<_>>());
                    for (ids, filled) in &passes {
                        assert!(!ids.is_empty() && ids.len() <= *filled);
                        let steady = matches!(chunking, Chunking::Fixed(_));
                        assert_eq!(*filled, if steady { size } else { ids.len() });
                        assert!(*filled <= chunking.largest(n, size));
                    }
                }
            }
        }
        assert_eq!(Chunking::Fixed(100).size(64), 50, "two passes of one size");
        assert_eq!(Chunking::Fixed(100).size(4096), 100);
    }
}
