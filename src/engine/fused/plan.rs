//! What a call computes, and the resulting plan for each node.

use super::graph::Graph;
use super::op::NormMethod;
use crate::engine::ClipRule;

/// What a call computes.
pub(super) enum Request<'a> {
    /// The sum of gradients, without norms.
    PlainSum,
    /// Σ factor(norm) · gradient.
    ClippedSum { rule: &'a ClipRule, weights: Option<&'a PackedWeights> },
}

/// Coordinate weights in the packed layout of the nodes.
pub(super) struct PackedWeights {
    pub(super) small: Vec<f32>,
    /// The weights of large parameters, per node.
    pub(super) large: Vec<LayerWeights>,
}

/// Weights of one node's large parameters.
pub(super) enum LayerWeights {
    /// All ones: treated as unweighted.
    Ones,
    /// All zeros: the node computes no weight gradient.
    Zeros,
    /// Any other weights.
    PerCoordinate(Vec<f32>),
}

impl PackedWeights {
    pub(super) fn of(packed: Option<&Self>, node: usize) -> Option<&[f32]> {
        match packed.map(|packed| &packed.large[node]) {
            Some(LayerWeights::PerCoordinate(weights)) => Some(weights),
            _ => None,
        }
    }
}

/// Norm methods, required gradients and buffer offsets of a call.
pub(super) struct Plan {
    /// Per node: `None` if it has no large parameters or they are masked out.
    pub(super) norm_methods: Vec<Option<NormMethod>>,
    /// Per value: whether its gradient is needed.
    pub(super) needs_gradient: Vec<bool>,
    /// Per node: offset of the large parameters' gradients in the dense sum. Instance gradients
    /// come first after the small parameters, in the order of an example's instances.
    pub(super) gradient_offset: Vec<usize>,
    /// Per node: offset of its weighted sums, which differs for transformed sums.
    pub(super) sum_offset: Vec<usize>,
    /// Number of values in an example's instance gradients.
    pub(super) instance_len: usize,
    pub(super) len: usize,
    /// Number of values of one row in all buffers.
    pub(super) row_len: usize,
}

impl Plan {
    /// `plain` if no norms are computed.
    pub(super) fn of(
        graph: &Graph,
        copies: usize,
        plain: bool,
        weights: Option<&PackedWeights>,
    ) -> Self {
        let nodes = &graph.nodes;
        let mut needs_gradient = vec![false];
        let norm_methods: Vec<Option<NormMethod>> = nodes
            .iter()
            .enumerate()
            .map(|(i, node)| {
                let small = node.small..node.small + node.op.small_len();
                let (large, small) = match weights {
                    None => (true, true),
                    Some(packed) => {
                        let large = !matches!(packed.large[i], LayerWeights::Zeros);
                        (large, packed.small[small.clone()].iter().any(|&w| w != 0.0))
                    }
                };
                let large = large && node.op.large_len() > 0;
                let trainable = large || small && node.op.small_len() > 0;
                let addend = node.addend.is_some_and(|addend| needs_gradient[addend]);
                needs_gradient.push(trainable || needs_gradient[node.input] || addend);
                large.then(|| node.op.norm_method(copies, PackedWeights::of(weights, i).is_some()))
            })
            .collect();
        let mut gradient_offset = vec![0; nodes.len()];
        let (mut offset, mut instance_len) = (graph.small_len, 0);
        for round in [NormMethod::Instance, NormMethod::Ghost] {
            for (i, node) in nodes.iter().enumerate() {
                if norm_methods[i] == Some(round) && !node.op.is_sparse() {
                    gradient_offset[i] = offset;
                    offset += node.op.large_len();
                }
            }
            if round == NormMethod::Instance {
                instance_len = offset - graph.small_len;
            }
        }
        let mut sum_offset = gradient_offset.clone();
        for (i, node) in nodes.iter().enumerate() {
            let summed_transformed =
                norm_methods[i] == Some(NormMethod::Ghost) || plain && norm_methods[i].is_some();
            if let (true, Some(len)) = (summed_transformed, node.op.transformed_len()) {
                sum_offset[i] = offset;
                offset += len;
            }
        }
        let row_len = graph.input_len
            + nodes.iter().map(|n| 2 * n.op.len() + n.op.saved_len()).sum::<usize>();
        Self {
            norm_methods,
            needs_gradient,
            gradient_offset,
            sum_offset,
            instance_len,
            len: offset,
            row_len,
        }
    }
}
