//! Convolutions with standardised weights: their gradients are bounded, and released, with respect
//! to the weights that they multiply with.

use burn::prelude::*;

use crate::Result;
use crate::device::host::tensors_to_vecs;
use crate::device::{DeviceArray, is_stub_device};
use crate::engine::{CoordinateWeights, Gradients};
use crate::nn::{BackpropClippedSpec, Conv2dSpec, LayerSpec, Network, Standardisation, map_layers};

/// A network with clips in which plain convolutions stand for those that standardise their weight.
/// Its parameters are the standardised weights, and there are no gains.
///
/// # Guarantee
/// The clips bound the gradient of a plain convolution. The gradient with respect to raw weight and
/// gain is a linear map of it that depends on the parameters only. These are released before the
/// step, so applying the map to a noisy sum is post-processing.
pub(super) struct PlainConvolutions {
    /// The layers of the network with standardised weights.
    specs: Vec<LayerSpec>,
    /// The network with plain convolutions. The values of its parameters are not used.
    plain: Network,
    /// The parameters that each parameter of the plain network is made of.
    sources: Vec<ParameterOrigin>,
    /// Trained tensors of the plain network, and the selection of their coordinates.
    selection: Option<(Vec<bool>, CoordinateWeights)>,
}

/// Origin of a parameter of the plain network: the entry of a parameter that is the same in both
/// networks, or of a raw weight.
struct ParameterOrigin {
    entry: usize,
    standardised: Option<WeightStandardisation>,
}

/// Rule by which the weight of a plain convolution follows from the raw weight.
#[derive(Clone, Copy)]
struct WeightStandardisation {
    rule: Standardisation,
    shape: [usize; 4],
    /// The entry of the gain.
    gain: Option<usize>,
}

impl ParameterOrigin {
    /// Returns the raw weight and the gain among the parameters of the network.
    fn raw_weight_and_gain(
        &self,
        rule: WeightStandardisation,
        tensors: &[Tensor<1>],
    ) -> (Tensor<4>, Option<Tensor<1>>) {
        let raw = tensors[self.entry].clone().reshape(rule.shape);
        (raw, rule.gain.map(|gain| tensors[gain].clone()))
    }
}

impl PlainConvolutions {
    /// Returns the network with plain convolutions; `None` if no convolution between clips has a
    /// standardised weight. `known` is returned if it is that of a network with the same layers.
    ///
    /// # Errors
    /// Never for a network that could be built.
    pub(super) fn for_network(network: &Network, known: Option<Self>) -> Result<Option<Self>> {
        if known.as_ref().is_some_and(|known| known.specs == network.specs()) {
            return Ok(known);
        }
        let mut sources: Vec<ParameterOrigin> = Vec::new();
        let mut first = 0;
        for spec in network.leaf_specs() {
            let count = spec.parameters().len();
            let standardised = standardised(spec).map(|(_, rule, conv)| {
                let [height, width] = conv.kernel;
                let shape = [conv.channels_out, conv.channels_in / conv.groups, height, width];
                // The order of the parameters: weight, bias, gain.
                let gain = rule.gain.then_some(first + count - 1);
                WeightStandardisation { rule, shape, gain }
            });
            let end = standardised.and_then(|layer| layer.gain).unwrap_or(first + count);
            sources.extend((first..end).map(|entry| {
                let standardised = standardised.filter(|_| entry == first);
                ParameterOrigin { entry, standardised }
            }));
            first += count;
        }
        if sources.iter().all(|source| source.standardised.is_none()) {
            return Ok(None);
        }
        let specs = map_layers(network.specs(), &mut |spec| match standardised(spec) {
            None => spec.clone(),
            Some((clipped, _, conv)) => {
                let layer = LayerSpec::Conv2d(Conv2dSpec { standardised: None, ..conv.clone() });
                let clip = clipped.clip;
                LayerSpec::BackpropClipped(BackpropClippedSpec { layer: Box::new(layer), clip })
            }
        });
        let zeros = |_: &str, shape: &[usize], _| vec![0.0; shape.iter().product()];
        let plain = Network::build(network.input_shape(), &specs, zeros)?;
        let specs = network.specs().to_vec();
        Ok(Some(Self { specs, plain, sources, selection: None }))
    }

    /// Returns the network with the standardised weights of `network`, on its device.
    pub(super) fn network(&self, network: &Network) -> Network {
        let tensors = network.tensors();
        let each = self.sources.iter().map(|source| match source.standardised {
            None => tensors[source.entry].clone(),
            Some(layer) => {
                let (raw, gain) = source.raw_weight_and_gain(layer, &tensors);
                layer.rule.apply(raw, gain).flatten(0, 3)
            }
        });
        self.plain.with_tensors(each.collect())
    }

    /// Returns the tensors of the plain network that a selected coordinate of `network` depends
    /// on, whole.
    ///
    /// # Errors
    /// Never for weights of `network`.
    pub(super) fn selection(&mut self, selected: &CoordinateWeights) -> Result<&CoordinateWeights> {
        let nonzero = selected.nonzero_tensors();
        let trained = |source: &ParameterOrigin| {
            let gain = source.standardised.and_then(|layer| layer.gain);
            nonzero[source.entry] || gain.is_some_and(|gain| nonzero[gain])
        };
        let trained: Vec<bool> = self.sources.iter().map(trained).collect();
        let selection = match self.selection.take() {
            Some((known, selection)) if known == trained => selection,
            _ => {
                let mut all = Gradients::zeros_like(&self.plain);
                let entries = all.entries.iter_mut().zip(&trained).filter(|(_, trained)| **trained);
                entries.for_each(|(entry, _)| entry.values.fill(1.0));
                let on_device = selected.entries().iter().find_map(|entry| entry.values.device());
                let selection = CoordinateWeights::new(&self.plain, all)?;
                on_device.map_or(selection.clone(), |device| selection.with_copy_on(&device))
            }
        };
        Ok(&self.selection.insert((trained, selection)).1)
    }

    /// Computes the gradient with respect to the parameters of `network`, zero where `selected`
    /// is, from that with respect to the parameters of the plain network.
    pub(super) fn pull_back(
        &self,
        network: &Network,
        gradient: Gradients,
        selected: Option<&CoordinateWeights>,
    ) -> Gradients {
        let tensors = network.tensors();
        let mut all = Gradients::zeros_like(network);
        for (source, own) in self.sources.iter().zip(gradient.entries) {
            let Some(layer) = source.standardised else {
                all.entries[source.entry].values = own.values;
                continue;
            };
            let (raw, gain) = source.raw_weight_and_gain(layer, &tensors);
            let [out, inputs, height, width] = layer.shape;
            let g = own.values.to_tensor(&raw.device()).reshape([1, out, inputs * height * width]);
            let (by_raw, by_gain) = layer.rule.vjp(raw, gain, g);
            let by_gain = layer.gain.map(|gain| (gain, by_gain.flatten(0, 1)));
            let by_raw = (source.entry, by_raw.flatten(0, 2));
            for (entry, values) in std::iter::once(by_raw).chain(by_gain) {
                let values = DeviceArray::from_tensor(values);
                all.entries[entry].values = match own.values.device() {
                    Some(_) => values,
                    // Sums on the CPU are on the host.
                    None => values.to_vec().into(),
                };
            }
        }
        if let Some(selected) = selected {
            selected.apply_mask(&mut all);
        }
        all
    }

    /// Returns the standard deviations of the noise in the parameters of `network`, from those in
    /// the parameters of the plain network; for raw weights and gains, the root mean square over
    /// the tensor. Reads a few values from the device of the network.
    pub(super) fn noise_stds(&self, network: &Network, stds: &[f64]) -> Vec<f64> {
        let tensors = network.tensors();
        let standardised = || {
            let each = self.sources.iter().zip(stds);
            each.filter_map(|(source, std)| source.standardised.map(|layer| (source, layer, std)))
        };
        let squares = standardised().flat_map(|(source, layer, _)| {
            let (raw, gain) = source.raw_weight_and_gain(layer, &tensors);
            layer.rule.mean_squares(raw, gain)
        });
        let squares = tensors_to_vecs(squares.collect());
        let mut all = vec![0.0; tensors.len()];
        self.sources.iter().zip(stds).for_each(|(source, std)| all[source.entry] = *std);
        for ((source, layer, std), squares) in standardised().zip(squares.chunks(2)) {
            // What a device that computes nothing returns is any number.
            let computed = !is_stub_device();
            let root =
                |square: &[f32]| if computed { std * f64::from(square[0]).sqrt() } else { 0.0 };
            all[source.entry] = root(&squares[0]);
            layer.gain.into_iter().for_each(|gain| all[gain] = root(&squares[1]));
        }
        all
    }
}

/// Returns a convolution with a standardised weight between clips.
fn standardised(spec: &LayerSpec) -> Option<(&BackpropClippedSpec, Standardisation, &Conv2dSpec)> {
    let LayerSpec::BackpropClipped(clipped) = spec else { return None };
    let LayerSpec::Conv2d(conv) = &*clipped.layer else { return None };
    conv.standardised.map(|rule| (clipped, rule, conv))
}

#[cfg(test)]
mod tests;
