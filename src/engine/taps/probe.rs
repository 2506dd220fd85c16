//! What one example leads to: how norms are found, and how many examples fit into memory.

use burn::prelude::*;

use super::recorder::Recorder;
use crate::engine::Batch;
use crate::nn::{Network, Site, Value};

/// Numbers per chunk on the CPU, for each thread: what its caches and a small machine hold.
const CPU: usize = 1 << 24;
/// Numbers per chunk elsewhere: a gigabyte.
const DEVICE: usize = 1 << 28;

/// What one example leads to.
pub(super) struct Probe {
    /// How each parameter's norms are found.
    pub(super) how: Vec<&'static str>,
    /// About how many numbers are kept for one example with one copy.
    numbers: usize,
}

impl Probe {
    /// Sends one example of zeros through the network.
    pub(super) fn of(network: &Network) -> Self {
        let shape = network.input_shape();
        let size = shape.iter().product();
        let batch = Batch::new(vec![0.0; size], shape, vec![0]);
        let batch = batch.expect("one example of this shape");
        let mut tape = Recorder::new(&batch, &[0]);
        let x = Value::new(vec![0.0; size], 1, shape, &network.device());
        network.forward(x, &mut tape);
        let parameters = network.parameters();
        let sizes = tape.sizes();
        let how = parameters.iter().map(|parameter| {
            let mut sites =
                sizes.iter().filter(|(site, ..)| site.parameters().contains(&parameter.id));
            match (sites.next(), sites.next()) {
                (Some((site, input, _)), None) if is_ghost(site, input) => "ghost",
                _ => "instantiated",
            }
        });
        let how: Vec<_> = how.collect();
        // Inputs, outputs and their gradients, and as much again inside the backward pass.
        let activations: usize = sizes
            .iter()
            .map(|(_, input, output)| {
                3 * (input.iter().product::<usize>() + output.iter().product::<usize>())
            })
            .sum();
        let instances = parameters.iter().zip(&how).filter(|(_, how)| **how != "ghost");
        let instances: usize = instances.map(|(parameter, _)| 2 * parameter.len()).sum();
        Self { how, numbers: activations + instances }
    }

    /// How many examples to work on at a time.
    pub(super) fn chunk(&self, copies: usize, device: &Device) -> usize {
        let (room, most) = if *device == Device::flex() { (CPU, 32) } else { (DEVICE, 4096) };
        (room / (self.numbers * copies).max(1)).clamp(1, most)
    }
}

/// Whether a map used once, by this site, needs no gradients of single examples.
fn is_ghost(site: &Site, input: &[usize]) -> bool {
    match site {
        Site::Linear { .. } => input.len() == 2,
        Site::Embedding { .. } => true,
        _ => false,
    }
}
