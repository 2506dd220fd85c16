//! Profile of the time of a step, layer by layer.

use std::time::{Duration, Instant};

use super::execution_plan::ExecutionPlan;
use super::graph::Graph;
use crate::engine::{CpuRoofline, LayerWork};

/// Profile of the time of one or more steps of a [`FusedExecutor`](super::FusedExecutor).
#[derive(Clone, Debug, PartialEq)]
pub struct StepProfile {
    /// Layers in the order of execution, activations directly after a layer with weights as part
    /// of it.
    pub layers: Vec<LayerProfile>,
    /// Number of examples that a thread takes through all layers together.
    pub chunk: usize,
    /// Bytes of a thread's inputs, outputs and gradients of all layers, for one chunk.
    pub buffer_bytes: usize,
    /// Wall-clock time: the layers' time divided by the number of threads, and the time in which
    /// threads wait or their sums are added.
    pub elapsed: Duration,
}

impl StepProfile {
    /// Adds the times of another step of the same network.
    pub fn add(&mut self, other: &Self) {
        self.elapsed += other.elapsed;
        for (layer, other) in self.layers.iter_mut().zip(&other.layers) {
            layer.forward += other.forward;
            layer.backward += other.backward;
            layer.norms += other.norms;
            layer.sums += other.sums;
        }
    }

    /// Returns the shortest time of one step with this many rows (examples times augmented copies)
    /// on a machine with these limits: that of its layers, one after the other. It contains no
    /// norms, noise or update, which a step without privacy does without or which take little
    /// time.
    pub fn min_time(&self, rows: usize, limits: &CpuRoofline) -> Duration {
        self.layers.iter().map(|layer| limits.min_time(&layer.work, rows)).sum()
    }
}

/// Time and work of one layer of a [`FusedExecutor`](super::FusedExecutor), summed over threads and
/// steps.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerProfile {
    /// Path of the layer's parameters, such as `"0"` or `"3.body.2"`; empty for layers without
    /// parameters.
    pub path: String,
    /// Description of the layer's computation, such as `"conv 3x3, 64 to 128, 16x16"`.
    pub description: String,
    /// Multiplications of the forward pass for one row, by the usual algorithm; 0 for layers that
    /// do not multiply matrices.
    pub multiplications: usize,
    /// Arithmetic and memory traffic of a step without privacy for one row.
    pub work: LayerWork,
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
    /// Returns the total time of all four phases.
    pub fn total(&self) -> Duration {
        self.forward + self.backward + self.norms + self.sums
    }
}

/// Returns the arithmetic and memory traffic of node `i` for one row, without norms.
pub(super) fn layer_work(
    graph: &Graph,
    plan: &ExecutionPlan,
    i: usize,
    copies: usize,
) -> LayerWork {
    let node = &graph.nodes[i];
    let done = node.matrices().map(|matrices| matrices.multiplications_done(copies));
    let [forward, mut backward, weights] = done.unwrap_or_default();
    let (input, output, saved) = (graph.width(node.input), node.op.len(), node.op.saved_len());
    // The forward pass reads the input and writes the output and what it saves; the backward pass
    // reads all of them and the output gradient, and writes the input gradient.
    let mut values = 2 * input + 3 * output + 2 * saved;
    if plan.needs_gradient[node.input] {
        values += input
    } else {
        backward = 0
    }
    // Tables of which few rows are used count nothing.
    let parameters = if forward > 0 { node.large_len } else { 0 };
    LayerWork { multiplications: forward + backward + weights, values, parameters }
}

/// Phase of the work for one layer.
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
pub(super) struct NodeTimes(Vec<[Duration; 4]>);

impl NodeTimes {
    pub(super) fn with_nodes(nodes: usize) -> Self {
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

    pub(super) fn get(&self, node: usize, phase: Phase) -> Duration {
        self.0[node][phase as usize]
    }
}
