//! What is asked of a pass, and what follows from it for each node.

use super::graph::Graph;
use super::op::How;
use crate::engine::ClipRule;

/// What is asked of a pass.
pub(super) enum Ask<'a> {
    /// The plain sum of gradients; no norms.
    Sum,
    /// Σ factor(norm) gradient.
    Clip { rule: &'a ClipRule, weights: Option<&'a Own> },
}

/// A weight per parameter, in the order of the nodes' own layouts.
pub(super) struct Own {
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

impl Own {
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
    pub(super) how: Vec<Option<How>>,
    /// Per value: whether its gradient is needed.
    pub(super) needed: Vec<bool>,
    /// Per node: where the gradients by its large parameters begin in the dense sum. Those of
    /// instances come first after the small ones, in the order of an example's instances.
    pub(super) direct: Vec<usize>,
    /// Per node: where its weighted sums begin, which for indirect ones is elsewhere.
    pub(super) merged: Vec<usize>,
    /// Numbers in an example's instances.
    pub(super) instance: usize,
    pub(super) len: usize,
    /// Numbers of one row in all buffers.
    pub(super) row: usize,
}

impl Plan {
    /// `plain` if sums are without norms.
    pub(super) fn of(graph: &Graph, copies: usize, plain: bool, weights: Option<&Own>) -> Self {
        let nodes = &graph.nodes;
        let mut needed = vec![false];
        let how: Vec<Option<How>> = nodes
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
                large.then(|| node.op.how(copies, Own::of(weights, i).is_some()))
            })
            .collect();
        let mut direct = vec![0; nodes.len()];
        let (mut at, mut instance) = (graph.small, 0);
        for round in [How::Instance, How::Ghost] {
            for (i, node) in nodes.iter().enumerate() {
                if how[i] == Some(round) && !node.op.is_sparse() {
                    direct[i] = at;
                    at += node.op.large();
                }
            }
            if round == How::Instance {
                instance = at - graph.small;
            }
        }
        let mut merged = direct.clone();
        for (i, node) in nodes.iter().enumerate() {
            let merges = how[i] == Some(How::Ghost) || plain && how[i].is_some();
            if let (true, Some(len)) = (merges, node.op.indirect()) {
                merged[i] = at;
                at += len;
            }
        }
        let row = graph.input + nodes.iter().map(|n| 2 * n.op.len() + n.op.kept()).sum::<usize>();
        Self { how, needed, direct, merged, instance, len: at, row }
    }
}
