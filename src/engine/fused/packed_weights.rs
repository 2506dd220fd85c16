//! Weights of the parameter coordinates in the layers' own layouts.

use std::sync::OnceLock;

use super::binary_mask::BinaryMask;
use super::graph::{Graph, for_each_node, split};
use crate::engine::CoordinateWeights;

/// Coordinate weights in the packed layout of the nodes.
pub(super) struct PackedWeights {
    pub(super) small: Vec<f32>,
    /// The weights of large parameters, per node.
    pub(super) large: Vec<NodeWeights>,
}

/// Weights of one node's large parameters.
pub(super) enum NodeWeights {
    /// Weights that are all ones: treated as unweighted.
    Ones,
    /// Weights that are all zeros: the node computes no weight gradient.
    Zeros,
    /// Weights of any other values.
    PerCoordinate(PackedTensorWeights),
}

/// Weights of the coordinates of large parameters, in the layer's own layout.
pub(super) struct PackedTensorWeights {
    pub(super) values: Vec<f32>,
    kept: OnceLock<Option<BinaryMask>>,
}

impl PackedTensorWeights {
    /// Returns the selected inputs of each of `outputs` outputs, if the weights are a matrix of
    /// flags. It is made once.
    pub(super) fn binary_mask(&self, outputs: usize) -> Option<&BinaryMask> {
        self.kept.get_or_init(|| BinaryMask::from_weights(&self.values, outputs)).as_ref()
    }
}

impl PackedWeights {
    pub(super) fn new(weights: &CoordinateWeights, graph: &Graph) -> Self {
        let mut small = vec![0.0; graph.small_len];
        let mut large: Vec<NodeWeights> = graph.nodes.iter().map(|_| NodeWeights::Ones).collect();
        let small_parts = split(&mut small, graph.nodes.iter().map(|node| node.small_offset.len()));
        let each = graph.nodes.iter().zip(small_parts).zip(&mut large).collect();
        for_each_node(each, graph.parameter_count, |((node, small), large)| {
            let mut packed = vec![0.0; node.large_len];
            let entries = &weights.entries()[node.parameters.clone()];
            for (slot, entry) in node.op.parameter_slots().iter().zip(entries) {
                slot.pack(&entry.values, if slot.is_small { &mut *small } else { &mut packed });
            }
            *large = if packed.iter().all(|&w| w == 1.0) {
                NodeWeights::Ones
            } else if packed.iter().all(|&w| w == 0.0) {
                NodeWeights::Zeros
            } else {
                let kept = OnceLock::new();
                NodeWeights::PerCoordinate(PackedTensorWeights { values: packed, kept })
            };
        });
        Self { small, large }
    }

    /// Returns the weights of one node's large parameters, `None` for ones and zeros.
    pub(super) fn for_node(packed: Option<&Self>, node: usize) -> Option<&PackedTensorWeights> {
        match packed.map(|packed| &packed.large[node]) {
            Some(NodeWeights::PerCoordinate(weights)) => Some(weights),
            _ => None,
        }
    }
}
