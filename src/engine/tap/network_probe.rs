//! Probe of a network with one example of zeros: norm method of each parameter, and memory per
//! example.

use burn::prelude::*;

use super::recorder::RecordingTape;
use crate::Result;
use crate::device::memory_budget;
use crate::engine::Batch;
use crate::nn::{BatchTensor, Network, ParameterSite};

/// Norm methods and memory estimates of a network.
pub(super) struct NetworkProbe {
    /// Norm method of each parameter, in the network's order.
    pub(super) norm_methods: Vec<&'static str>,
    /// Estimated number of values saved for the backward pass, per row.
    activations: usize,
    /// Estimated number of instance gradient values, per example.
    instances: usize,
    /// Largest number of patch values of any convolution, per row. Patches exist for one layer at a
    /// time, and only where tensor operations form instance gradients.
    patches: usize,
    /// Number of values in the comparison of all token pairs of an example, for the longest
    /// sequence.
    token_pairs: usize,
}

impl NetworkProbe {
    /// Runs one example of zeros through the network, on the CPU: only shapes are of interest, and
    /// nothing would read a result that shows that a kernel of a GPU failed.
    pub(super) fn measure(network: &Network) -> Self {
        let network = &network.on_device(&Device::flex());
        let shape = network.input_shape();
        let size = shape.iter().product();
        let batch = Batch::new(vec![0.0; size], shape, vec![0]);
        let batch = batch.expect("one example of this shape");
        let mut tape = RecordingTape::new(&batch, &[0]);
        let x = BatchTensor::new(vec![0.0; size], 1, shape, &network.device());
        network.forward(x, &mut tape);
        let parameters = network.parameters();
        let shapes = tape.shapes();
        let norm_methods = parameters.iter().map(|parameter| {
            let mut sites =
                shapes.iter().filter(|(site, ..)| site.parameter_ids().contains(&parameter.id));
            match (sites.next(), sites.next()) {
                (Some((site, input, _)), None) if has_ghost_norm(site, input) => "ghost",
                _ => "instantiated",
            }
        });
        let norm_methods: Vec<_> = norm_methods.collect();
        // Inputs, outputs and their gradients, and as much again inside the backward pass.
        let activations: usize = shapes
            .iter()
            .map(|(_, input, output)| {
                3 * (input.iter().product::<usize>() + output.iter().product::<usize>())
            })
            .sum();
        let instances =
            parameters.iter().zip(&norm_methods).filter(|(_, method)| **method != "ghost");
        let instances: usize = instances.map(|(parameter, _)| 2 * parameter.len()).sum();
        let patches = shapes.iter().map(|(site, ..)| patches(site)).max().unwrap_or(0);
        let token_pairs =
            shapes.iter().map(|(site, input, _)| token_pairs(site, input)).max().unwrap_or(0);
        Self { norm_methods, activations, instances, patches, token_pairs }
    }

    /// Returns the number of examples per chunk, for clipped sums.
    ///
    /// # Errors
    /// If the memory of the device can't be queried.
    pub(super) fn clipped_chunk_size(&self, copies: usize, device: &Device) -> Result<usize> {
        // Not counted on the CPU: patches exist for one row at a time, and chunks are small.
        let temporary = if *device == Device::flex() {
            0
        } else {
            self.patches.max(self.token_pairs.saturating_mul(copies))
        };
        chunk_size((self.activations + self.instances).saturating_add(temporary), copies, device)
    }

    /// Returns the number of examples per chunk for plain sums, which form no instance gradients.
    ///
    /// # Errors
    /// As [`clipped_chunk_size`](Self::clipped_chunk_size).
    pub(super) fn unclipped_chunk_size(&self, copies: usize, device: &Device) -> Result<usize> {
        chunk_size(self.activations + self.patches, copies, device)
    }
}

fn chunk_size(elements: usize, copies: usize, device: &Device) -> Result<usize> {
    let max_chunk = if *device == Device::flex() { 32 } else { 4096 };
    let bytes_per_example = elements.saturating_mul(copies).saturating_mul(size_of::<f32>());
    Ok((memory_budget(device)? / bytes_per_example.max(1)).clamp(1, max_chunk))
}

/// Returns the number of values of all patches of an image, and of the padded image.
fn patches(site: &ParameterSite) -> usize {
    let ParameterSite::Conv2d { window, .. } = site else { return 0 };
    let [height, width] = window.size;
    let [vertical, horizontal] = window.padding;
    let padded = window.channels * (height + 2 * vertical) * (width + 2 * horizontal);
    window.patch_len() * window.positions() + padded
}

/// Returns the number of values in the tables of equal tokens of one sequence.
fn token_pairs(site: &ParameterSite, input: &[usize]) -> usize {
    let ParameterSite::Embedding { .. } = site else { return 0 };
    3 * input.iter().product::<usize>().pow(2)
}

/// Returns whether a parameter that is used once, at this site, has ghost norms.
fn has_ghost_norm(site: &ParameterSite, input: &[usize]) -> bool {
    match site {
        ParameterSite::Linear { .. } => input.len() == 2,
        ParameterSite::Embedding { .. } => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::{Conv2dSpec, EmbeddingSpec, LayerSpec};

    #[test]
    fn patches_and_pairs_enter_the_memory_estimate() {
        let zeros = |_: &str, shape: &[usize], _| vec![0.0; shape.iter().product()];
        let wide = Conv2dSpec { padding: [1, 1], ..Conv2dSpec::new(4, 2, 3) };
        let specs = [LayerSpec::Conv2d(wide), LayerSpec::GlobalAvgPool];
        let probe = NetworkProbe::measure(&Network::build(&[4, 6, 5], &specs, zeros).unwrap());
        // 36 values for each of 30 positions, and the padded image.
        assert_eq!((probe.patches, probe.token_pairs), (36 * 30 + 4 * 8 * 7, 0));
        assert_eq!(probe.instances, 2 * (2 * 36 + 2));
        assert_eq!(probe.activations, 3 * (4 * 30 + 2 * 30));

        let table = LayerSpec::Embedding(EmbeddingSpec { vocabulary: 9, features: 3 });
        let specs = [table, LayerSpec::MeanOverTime];
        let probe = NetworkProbe::measure(&Network::build(&[7], &specs, zeros).unwrap());
        assert_eq!((probe.patches, probe.token_pairs, probe.instances), (0, 3 * 49, 0));
        assert!(
            chunk_size(1 << 20, 1, &Device::flex()).unwrap()
                < chunk_size(1, 1, &Device::flex()).unwrap()
        );
    }
}
