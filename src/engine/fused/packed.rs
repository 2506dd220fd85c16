//! Weights of the parameter coordinates in the layers' own layouts.

use std::sync::OnceLock;

use super::graph::{Graph, for_each_node, split};
use super::kept::Kept;
use crate::engine::Weights;

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
    PerCoordinate(CoordinateWeights),
}

/// Weights of the coordinates of large parameters, in the layer's own layout.
pub(super) struct CoordinateWeights {
    pub(super) values: Vec<f32>,
    kept: OnceLock<Option<Kept>>,
}

impl CoordinateWeights {
    /// The kept inputs of each of `outputs` outputs, if the weights are a matrix of flags. It is
    /// made once.
    pub(super) fn kept(&self, outputs: usize) -> Option<&Kept> {
        self.kept.get_or_init(|| Kept::of(&self.values, outputs)).as_ref()
    }
}

impl PackedWeights {
    pub(super) fn new(weights: &Weights, graph: &Graph) -> Self {
        let mut small = vec![0.0; graph.small_len];
        let mut large: Vec<LayerWeights> = graph.nodes.iter().map(|_| LayerWeights::Ones).collect();
        let small_parts = split(&mut small, graph.nodes.iter().map(|node| node.small.len()));
        let each = graph.nodes.iter().zip(small_parts).zip(&mut large).collect();
        for_each_node(each, graph.parameter_count, |((node, small), large)| {
            let mut packed = vec![0.0; node.large_len];
            let entries = &weights.entries()[node.parameters.clone()];
            for (slot, entry) in node.op.layout().iter().zip(entries) {
                slot.pack(&entry.values, if slot.small { &mut *small } else { &mut packed });
            }
            *large = if packed.iter().all(|&w| w == 1.0) {
                LayerWeights::Ones
            } else if packed.iter().all(|&w| w == 0.0) {
                LayerWeights::Zeros
            } else {
                let kept = OnceLock::new();
                LayerWeights::PerCoordinate(CoordinateWeights { values: packed, kept })
            };
        });
        Self { small, large }
    }

    /// The weights of one node's large parameters, `None` for ones and zeros.
    pub(super) fn of(packed: Option<&Self>, node: usize) -> Option<&CoordinateWeights> {
        match packed.map(|packed| &packed.large[node]) {
            Some(LayerWeights::PerCoordinate(weights)) => Some(weights),
            _ => None,
        }
    }
}
