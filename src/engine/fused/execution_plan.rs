//! Request of a sum, and the execution plan that it gives for each node.

use std::ops::Range;

use super::graph::{Graph, Node};
use super::op::{LargeParameters, NormMethod};
use super::packed_weights::{NodeWeights, PackedWeights};
use crate::engine::ClipGroups;

/// Request of a sum over a batch: clip groups and coordinate weights.
#[derive(Clone, Copy, Default)]
pub(super) struct SumRequest<'a> {
    /// Clip groups of Σ factor(norm) · gradient; `None` for the sum of gradients without norms, in
    /// which weights only say which tensors are left out.
    pub(super) groups: Option<&'a ClipGroups>,
    /// The weights of the coordinates.
    pub(super) weights: Option<&'a PackedWeights>,
}

/// Norm methods, required gradients and buffer offsets of a call.
pub(super) struct ExecutionPlan {
    /// Norm method of each node: `None` if it has no large parameters or they are masked out.
    pub(super) norm_methods: Vec<Option<NormMethod>>,
    /// Whether the gradient of each value is needed.
    pub(super) needs_gradient: Vec<bool>,
    /// Range of each node's large parameters in the dense sums; empty for sparse sums. Instance
    /// gradients come first after the small parameters, in the order of an example's instances.
    pub(super) sum_ranges: Vec<Range<usize>>,
    /// Whether each node's sum is taken over transformed parameters.
    pub(super) transformed: Vec<bool>,
    /// Whether each node's weighted sums are taken once per segment, not once per chunk.
    pub(super) deferred: Vec<bool>,
    /// Number of values in an example's instance gradients.
    pub(super) instance_len: usize,
    /// Group of each node's parameters.
    pub(super) group_of_node: Vec<usize>,
    /// Ranges of the small parameters that are in one group, with that group.
    pub(super) small_group_ranges: Vec<(Range<usize>, usize)>,
    /// Ranges of an example's instance gradients that are in one group, with that group.
    pub(super) instance_group_ranges: Vec<(Range<usize>, usize)>,
    pub(super) len: usize,
    /// Number of inputs, outputs and gradients of one row, also of gradients that share buffers.
    pub(super) row_len: usize,
}

impl ExecutionPlan {
    pub(super) fn for_request(graph: &Graph, copies: usize, request: &SumRequest) -> Self {
        let nodes = &graph.nodes;
        let SumRequest { groups, weights } = *request;
        let group = node_groups(graph, groups);
        let mut needs_gradient = vec![false];
        let norm_methods: Vec<Option<NormMethod>> = nodes
            .iter()
            .enumerate()
            .map(|(i, node)| {
                let (large, small) = match weights {
                    None => (true, true),
                    Some(packed) => {
                        let large = !matches!(packed.large[i], NodeWeights::Zeros);
                        (large, packed.small[node.small_offset.clone()].iter().any(|&w| w != 0.0))
                    }
                };
                let large = large && node.large_len > 0;
                let trainable = large || small && !node.small_offset.is_empty();
                let addend = node.residual_input.is_some_and(|addend| needs_gradient[addend]);
                needs_gradient.push(trainable || needs_gradient[node.input] || addend);
                let weighted = PackedWeights::for_node(weights, i).is_some();
                let method =
                    |matrices: &dyn LargeParameters| matrices.norm_method(copies, weighted);
                large.then(|| node.matrices().map_or(NormMethod::Ghost, method))
            })
            .collect();
        let small = nodes.iter().zip(&group).map(|(node, &group)| (node.small_offset.len(), group));
        let small_runs = merge_group_ranges(small);
        let mut instances = Vec::new();
        let mut transformed = vec![false; nodes.len()];
        let mut sum_ranges = vec![0..0; nodes.len()];
        let (mut offset, mut instance_len) = (graph.small_len, 0);
        for round in [NormMethod::Instantiated, NormMethod::Ghost] {
            for (i, node) in nodes.iter().enumerate() {
                let matrices = node.matrices().filter(|_| norm_methods[i] == Some(round));
                if let Some(matrices) = matrices {
                    // A weighted norm is that of the gradient itself, coordinate by coordinate.
                    let weighted =
                        groups.is_some() && PackedWeights::for_node(weights, i).is_some();
                    let transformed_len = matrices.transformed_len().filter(|_| !weighted);
                    transformed[i] = transformed_len.is_some();
                    let len = transformed_len.unwrap_or(node.large_len);
                    sum_ranges[i] = offset..offset + len;
                    offset += len;
                    if round == NormMethod::Instantiated {
                        instances.push((len, group[i]));
                    }
                }
            }
            if round == NormMethod::Instantiated {
                instance_len = offset - graph.small_len;
            }
        }
        let row_len = graph.input_len
            + nodes.iter().map(|n| 2 * n.op.len() + n.op.saved_len()).sum::<usize>();
        Self {
            norm_methods,
            needs_gradient,
            sum_ranges,
            transformed,
            deferred: vec![false; nodes.len()],
            instance_len,
            group_of_node: group,
            small_group_ranges: small_runs,
            instance_group_ranges: merge_group_ranges(instances.into_iter()),
            len: offset,
            row_len,
        }
    }

    /// Returns whether the gradient of a value is read after the backward pass: by norms and sums
    /// of the parameters of its node. Others share buffers.
    pub(super) fn keeps_gradient(&self, value: usize) -> bool {
        value > 0 && self.norm_methods[value - 1].is_some()
    }

    /// Defers the sums that are faster over more examples than a chunk has, where a segment has
    /// more than one chunk.
    pub(super) fn defer_sums(
        &mut self,
        graph: &Graph,
        copies: usize,
        [segment, chunk]: [usize; 2],
    ) {
        let gains = |matrices: &dyn LargeParameters| matrices.sums_more_rows(chunk * copies);
        let deferred = graph.nodes.iter().map(|node| node.matrices().is_some_and(gains));
        self.deferred = deferred.map(|gains| chunk < segment && gains).collect();
    }
}

/// Returns the group of each node. The parameters of a node are one layer, so they are in one
/// group; a node without parameters may be in any.
fn node_groups(graph: &Graph, groups: Option<&ClipGroups>) -> Vec<usize> {
    let of_parameters = groups.map_or(&[][..], ClipGroups::group_indices);
    let first = |node: &Node| {
        of_parameters.get(node.parameters.start).filter(|_| !node.parameters.is_empty())
    };
    graph.nodes.iter().map(|node| first(node).copied().unwrap_or(0)).collect()
}

/// Returns ranges of consecutive lengths, joined where the group is the same.
fn merge_group_ranges(lengths: impl Iterator<Item = (usize, usize)>) -> Vec<(Range<usize>, usize)> {
    let mut runs: Vec<(Range<usize>, usize)> = Vec::new();
    let mut end = 0;
    for (len, group) in lengths.filter(|&(len, _)| len > 0) {
        match runs.last_mut() {
            Some((run, known)) if *known == group => run.end += len,
            _ => runs.push((end..end + len, group)),
        }
        end += len;
    }
    runs
}
