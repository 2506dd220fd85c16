//! Norms and losses of single examples, which executors compute beside the sum.

use super::{Batch, ClippedSum, Gradients};
use crate::Result;
use crate::device::DeviceArray;

/// Norms and losses of examples, in their order: numbers, or arrays of several examples each.
#[derive(Default)]
pub(super) struct PerExample<T> {
    /// Norms over all parameters; empty if they are not computed.
    pub(super) norms: Vec<T>,
    /// Norms of each group of parameters.
    pub(super) group_norms: Vec<Vec<T>>,
    pub(super) losses: Vec<T>,
}

impl<T: Clone> PerExample<T> {
    /// Returns the values of no examples.
    pub(super) fn none(groups: usize) -> Self {
        Self { norms: Vec::new(), group_norms: vec![Vec::new(); groups], losses: Vec::new() }
    }

    /// Moves the values of the next examples to the end.
    pub(super) fn append(&mut self, next: &mut Self) {
        self.norms.append(&mut next.norms);
        let groups = self.group_norms.len().max(next.group_norms.len());
        self.group_norms.resize_with(groups, Vec::new);
        for (all, norms) in self.group_norms.iter_mut().zip(&mut next.group_norms) {
            all.append(norms);
        }
        self.losses.append(&mut next.losses);
    }
}

impl PerExample<f32> {
    /// Returns the result of an executor, with these values of the given examples of a batch.
    pub(super) fn to_clipped_sum(
        &self,
        sum: Gradients,
        batch: &Batch,
        examples: &[usize],
    ) -> ClippedSum {
        // NaN for the excluded examples, and where no norms were computed.
        let all = |values: &Vec<f32>| -> DeviceArray {
            let mut all = vec![f32::NAN; batch.len()];
            examples.iter().zip(values).for_each(|(&example, &value)| all[example] = value);
            all.into()
        };
        let group_norms = match self.group_norms.len() {
            1 => Vec::new(),
            _ => self.group_norms.iter().map(all).collect(),
        };
        ClippedSum { sum, norms: all(&self.norms), group_norms, losses: all(&self.losses) }
    }
}

/// Returns the result of `compute` for the examples that are finite, with these examples.
/// `per_example` returns the values of the examples in a result.
///
/// An example with finite features can still have a gradient that overflows, and one in a file can
/// prove unreadable. It is removed and all chunks are computed again, so that the others are in the
/// same chunks, with the same rounding, as in a batch without it.
pub(super) fn compute_on_finite_examples<S>(
    batch: &Batch,
    mut compute: impl FnMut(&[usize]) -> Result<S>,
    per_example: impl Fn(&S) -> &PerExample<f32>,
) -> Result<(S, Vec<usize>)> {
    let mut examples = batch.finite_examples()?;
    loop {
        let sums = compute(&examples)?;
        let left_out = batch.excluded_examples();
        let values = per_example(&sums);
        let finite = |i: usize| {
            let norm = values.norms.get(i).is_none_or(|norm| norm.is_finite());
            norm && values.losses[i].is_finite() && !left_out.contains(&examples[i])
        };
        let kept = (0..examples.len()).filter(|&i| finite(i)).map(|i| examples[i]);
        let kept: Vec<usize> = kept.collect();
        if kept.len() == examples.len() {
            return Ok((sums, examples));
        }
        examples = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All executors place the values by this function, so comparisons of executors can't find an
    /// error in it.
    #[test]
    fn values_are_those_of_their_examples_and_excluded_ones_have_none() {
        let batch = Batch::new(vec![0.0; 3], &[1], vec![0; 3]).unwrap();
        let per_example = PerExample {
            norms: vec![1.0, 3.0],
            group_norms: vec![vec![0.5, 1.5], vec![0.25, 0.75]],
            losses: vec![7.0, 9.0],
        };
        let sum = per_example.to_clipped_sum(Gradients::default(), &batch, &[0, 2]);
        let check = |values: &DeviceArray, [first, last]: [f32; 2]| {
            let values = values.to_vec();
            assert!(values[1].is_nan(), "{values:?}");
            assert_eq!([values[0], values[2]], [first, last]);
        };
        check(&sum.norms, [1.0, 3.0]);
        assert_eq!(sum.group_norms.len(), 2);
        check(&sum.group_norms[0], [0.5, 1.5]);
        check(&sum.group_norms[1], [0.25, 0.75]);
        check(&sum.losses, [7.0, 9.0]);
        assert_eq!(sum.excluded_count(), 1);
    }
}
