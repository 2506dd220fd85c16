//! Where the time of a step goes, layer by layer.

use std::time::{Duration, Instant};

/// Time and work of one layer of a [`FusedExecutor`](super::FusedExecutor), summed over threads.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerProfile {
    /// The path of the layer's parameters, such as `"0"` or `"3.body.2"`; empty for layers without
    /// parameters.
    pub path: String,
    /// What the layer computes, such as `"conv 3x3, 64 to 128, 16x16"`.
    pub description: String,
    /// Multiplications of the forward pass for one row, by the usual algorithm; 0 for layers that
    /// do not multiply matrices.
    pub multiplications: usize,
    /// Time of the forward pass.
    pub forward: Duration,
    /// Time of the backward pass, up to the gradient with respect to the layer's input.
    pub backward: Duration,
    /// Time for the norms of the per-example gradients. If these are formed for that, it includes
    /// most of their sum.
    pub norms: Duration,
    /// Time for the sum of the clipped gradients.
    pub sums: Duration,
}

impl LayerProfile {
    /// The time of all four parts.
    pub fn total(&self) -> Duration {
        self.forward + self.backward + self.norms + self.sums
    }
}

/// A part of the work for one layer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Phase {
    Forward,
    Backward,
    Norms,
    Sums,
}

/// Times of each node, `[nodes][phases]`. Empty unless a profile is being made: clocks take long on
/// some systems.
#[derive(Default)]
pub(super) struct Times(Vec<[Duration; 4]>);

impl Times {
    pub(super) fn of(nodes: usize) -> Self {
        Self(vec![[Duration::ZERO; 4]; nodes])
    }

    pub(super) fn start(&self) -> Option<Instant> {
        (!self.0.is_empty()).then(Instant::now)
    }

    /// Adds the time since `start`.
    pub(super) fn stop(&mut self, node: usize, phase: Phase, start: Option<Instant>) {
        if let Some(start) = start {
            self.0[node][phase as usize] += start.elapsed();
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        let pairs = self.0.iter_mut().flatten().zip(other.0.iter().flatten());
        pairs.for_each(|(time, other)| *time += *other);
    }

    pub(super) fn of_node(&self, node: usize, phase: Phase) -> Duration {
        self.0[node][phase as usize]
    }
}
