//! What the executor needs to know of a model, and how much of it fits into memory at a time.

use burn::prelude::*;

use super::recorder::Recorder;
use crate::engine::Batch;
use crate::nn::{Network, Parameter, Site, Tape, Value};

/// Numbers per chunk on the CPU, for each thread: what its caches and a small machine hold.
const CPU: usize = 1 << 24;
/// Numbers per chunk elsewhere: a gigabyte.
const DEVICE: usize = 1 << 28;

/// Logits of a batch; every map with parameters is told to the tape.
pub(super) type Forward<'a> = dyn Fn(Value, &mut dyn Tape) -> Tensor<2> + Sync + 'a;

/// Anything that computes logits and tells a tape what its parameters saw.
pub(super) struct Subject<'a> {
    pub(super) forward: &'a Forward<'a>,
    pub(super) parameters: Vec<Parameter>,
    pub(super) device: Device,
}

/// What one example leads to.
pub(super) struct Probe {
    /// How each parameter's norms are found.
    pub(super) how: Vec<&'static str>,
    /// About how many numbers are kept for one example with one copy.
    numbers: usize,
}

impl Subject<'_> {
    pub(super) fn probe(&self, shape: &[usize]) -> Probe {
        let size = shape.iter().product();
        let batch = Batch::new(vec![0.0; size], shape, vec![0]);
        let batch = batch.expect("one example of this shape");
        let mut tape = Recorder::new(&batch, &[0]);
        let x = Value::new(vec![0.0; size], 1, shape, &self.device);
        let _ = (self.forward)(x, &mut tape);
        let sizes = tape.sizes();
        let how = self.parameters.iter().map(|parameter| {
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
        let instances = self.parameters.iter().zip(&how).filter(|(_, how)| **how != "ghost");
        let instances: usize = instances.map(|(parameter, _)| 2 * parameter.len()).sum();
        Probe { how, numbers: activations + instances }
    }
}

impl Probe {
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

/// Borrows a network for an executor.
pub(super) fn with_network<T>(network: &Network, then: impl FnOnce(&Subject) -> T) -> T {
    let forward = |x: Value, tape: &mut dyn Tape| network.forward(x, tape);
    let (parameters, device) = (network.parameters(), network.device());
    then(&Subject { forward: &forward, parameters, device })
}
