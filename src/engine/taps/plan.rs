//! Where each parameter lies in the flat sum of a chunk, and how its norm is found.

use std::ops::Range;

use crate::engine::Gradients;
use crate::nn::{Layer, Network, Window};

/// How one layer's gradients are made from its inputs and output gradients.
pub(super) enum Part {
    /// Weight `[inputs, outputs]`: norms from sizes, then one product for the whole chunk.
    Ghost { inputs: usize, outputs: usize, weight: Range<usize>, bias: Option<Range<usize>> },
    /// Weight `[channels, patch]`: each example's gradient in turn.
    Instance { window: Window, channels: usize, weight: Range<usize>, bias: Option<Range<usize>> },
}

/// Offsets into one flat vector of all parameters. The instantiated ones come first, so that one
/// example's instances are one contiguous block.
pub(super) struct Plan {
    /// One per layer with parameters, in the order of the layers.
    pub(super) parts: Vec<Part>,
    /// How many numbers are instantiated.
    pub(super) instances: usize,
    /// Where each entry of the gradients lies, in their order.
    places: Vec<Range<usize>>,
}

impl Plan {
    pub(super) fn of(network: &Network) -> Self {
        let (mut parts, mut at) = (Vec::new(), 0);
        let mut next = |len: usize| {
            at += len;
            at - len..at
        };
        // Two rounds over the layers: instances first, ghosts after them.
        let mut laid: Vec<Option<Part>> = network
            .layers()
            .iter()
            .zip(network.input_shapes())
            .map(|(layer, shape)| match (layer, shape.as_slice()) {
                (Layer::Conv2d(layer), &[_, height, width]) => {
                    let window = layer.spec().window([height, width]);
                    let channels = layer.spec().channels_out;
                    let weight = next(channels * window.patch());
                    let bias = layer.spec().bias.then(|| next(channels));
                    Some(Part::Instance { window, channels, weight, bias })
                }
                _ => None,
            })
            .collect();
        let instances = next(0).start;
        for (part, layer) in laid.iter_mut().zip(network.layers()) {
            if let Layer::Linear(layer) = layer {
                let [inputs, outputs] = layer.inner.weight.val().dims();
                let weight = next(inputs * outputs);
                let bias = layer.inner.bias.is_some().then(|| next(outputs));
                *part = Some(Part::Ghost { inputs, outputs, weight, bias });
            }
        }
        parts.extend(laid.into_iter().flatten());
        let places = parts.iter().flat_map(|part| {
            let (Part::Ghost { weight, bias, .. } | Part::Instance { weight, bias, .. }) = part;
            [Some(weight.clone()), bias.clone()].into_iter().flatten()
        });
        let places = places.collect();
        Self { parts, instances, places }
    }

    /// How many numbers in all.
    pub(super) fn len(&self) -> usize {
        self.places.iter().map(Range::len).sum()
    }

    /// Copies the flat sum to where the network's parameters are.
    pub(super) fn scatter(&self, sum: &[f32], into: &mut Gradients) {
        for (entry, place) in into.entries.iter_mut().zip(&self.places) {
            entry.values.copy_from_slice(&sum[place.clone()]);
        }
    }
}
