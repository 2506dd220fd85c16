//! What is asked of a pass, and what follows from it for each node.

use super::graph::Graph;
use super::op::NormMethod;
use crate::engine::ClipRule;

/// What is asked of a pass.
pub(super) enum Ask<'a> {
    /// The plain sum of gradients; no norms.
    Sum,
    /// Σ factor(norm) gradient.
    Clip { rule: &'a ClipRule, weights: Option<&'a PackedWeights> },
}

/// A weight per parameter, in the order of the nodes' own layouts.
pub(super) struct PackedWeights {
    pub(super) small: Vec<f32>,
    /// Per node, for the large ones.
    pub(super) large: Vec<Weighted>,
}

/// The weights of a node's large parameters.
pub(super) enum Weighted {
    /// All ones: the node may take its shortest way.
    Ones,
    /// All zeros: nothing is computed.
    Zeros,
    /// Any others.
    Each(Vec<f32>),
}

impl PackedWeights {
    pub(super) fn of(own: Option<&Self>, node: usize) -> Option<&[f32]> {
        match own.map(|own| &own.large[node]) {
            Some(Weighted::Each(weights)) => Some(weights),
            _ => None,
        }
    }
}

/// Which nodes' parameters count and how their norms are found, worked out once per call.
pub(super) struct Plan {
    /// Per node: `None` if it has no large parameters or they are left out.
    pub(super) norm_method: Vec<Option<NormMethod>>,
    /// Per value: whether its gradient is needed.
    pub(super) needed: Vec<bool>,
    /// Per node: where the gradients by its large parameters begin in the dense sum. Those of
    /// instances come first after the small ones, in the order of an example's instances.
    pub(super) direct: Vec<usize>,
    /// Per node: where its weighted sums begin, which for indirect ones is elsewhere.
    pub(super) merged: Vec<usize>,
    /// DeviceArray in an example's instances.
    pub(super) instance: usize,
    pub(super) len: usize,
    /// DeviceArray of one row in all buffers.
    pub(super) row: usize,
}

impl Plan {
    /// `plain` if sums are without norms.
    pub(super) fn of(
        graph: &Graph,
        copies: usize,
        plain: bool,
        weights: Option<&PackedWeights>,
    ) -> Self {
        let nodes = &graph.nodes;
        let mut needed = vec![false];
        let norm_method: Vec<Option<NormMethod>> = nodes
            .iter()
            .enumerate()
            .map(|(i, node)| {
                let small = node.small..node.small + node.op.small();
                let (large, small) = match weights {
                    None => (true, true),
                    Some(own) => {
                        let large = !matches!(own.large[i], Weighted::Zeros);
                        (large, own.small[small.clone()].iter().any(|&w| w != 0.0))
                    }
                };
                let large = large && node.op.large() > 0;
                let learns = large || small && node.op.small() > 0;
                let second = node.second.is_some_and(|second| needed[second]);
                needed.push(learns || needed[node.input] || second);
                large.then(|| node.op.norm_method(copies, PackedWeights::of(weights, i).is_some()))
            })
            .collect();
        let mut direct = vec![0; nodes.len()];
        let (mut at, mut instance) = (graph.small, 0);
        for round in [NormMethod::Instance, NormMethod::Ghost] {
            for (i, node) in nodes.iter().enumerate() {
                if norm_method[i] == Some(round) && !node.op.is_sparse() {
                    direct[i] = at;
                    at += node.op.large();
                }
            }
            if round == NormMethod::Instance {
                instance = at - graph.small;
            }
        }
        let mut merged = direct.clone();
        for (i, node) in nodes.iter().enumerate() {
            let merges =
                norm_method[i] == Some(NormMethod::Ghost) || plain && norm_method[i].is_some();
            if let (true, Some(len)) = (merges, node.op.indirect()) {
                merged[i] = at;
                at += len;
            }
        }
        let row = graph.input + nodes.iter().map(|n| 2 * n.op.len() + n.op.kept()).sum::<usize>();
        Self { norm_method, needed, direct, merged, instance, len: at, row }
    }
}
