//! What is kept from step to step: the graph with its weights, and the workers' buffers.

use std::sync::Mutex;

use rayon::prelude::*;

use super::graph::{Graph, Node};
use super::op::{NormMethod, Sparse};
use super::pass::{Sums, Workspace};
use super::plan::{Ask, PackedWeights, Plan, Weighted};
use crate::Result;
use crate::device::host::Host;
use crate::engine::{Batch, ClippedSum, Gradients, Weights};
use crate::nn::kernels::product::add_scaled;
use crate::nn::{LayerSpec, Network, workers};

/// DeviceArray in the buffers of the examples that a worker has in hand: about what its share of the
/// processor's caches holds.
const IN_HAND: usize = 1 << 21;

/// Parts of a batch whose sums are made one by one and added in order. More of them could be
/// worked on at once; each costs one pass over all parameters.
const SEGMENTS: usize = 16;

pub(super) struct State {
    specs: Vec<LayerSpec>,
    input_shape: Vec<usize>,
    graph: Graph,
    /// How many parameters there are.
    numbers: usize,
    workspaces: Mutex<Vec<Workspace>>,
    sums: Mutex<Vec<Sums>>,
}

impl State {
    pub(super) fn of(network: &Network) -> Self {
        let graph = Graph::of(network.input_shape(), network.specs());
        let numbers = graph.nodes.iter().map(|node| node.op.small() + node.op.large()).sum();
        Self {
            specs: network.specs().to_vec(),
            input_shape: network.input_shape().to_vec(),
            graph,
            numbers,
            workspaces: Mutex::default(),
            sums: Mutex::default(),
        }
    }

    /// Whether it was made for networks of this architecture.
    pub(super) fn suits(&self, network: &Network) -> bool {
        self.input_shape == network.input_shape() && self.specs == network.specs()
    }

    /// Takes over the network's parameters.
    pub(super) fn load(&mut self, network: &Network) {
        let hosts = network.hosts();
        let mut rest = hosts.as_slice();
        let each: Vec<(&mut Node, &[Host])> = self
            .graph
            .nodes
            .iter_mut()
            .map(|node| {
                let (own, others) = rest.split_at(node.op.layout().len());
                rest = others;
                (node, own)
            })
            .collect();
        for_each(each, self.numbers, |(node, hosts)| {
            let (mut small, mut large) = (vec![0.0; node.op.small()], vec![0.0; node.op.large()]);
            for (part, host) in node.op.layout().iter().zip(hosts) {
                part.take(host.slice(), if part.small { &mut small } else { &mut large });
            }
            node.op.load(&small, &large);
        });
    }

    /// Weights in the layers' own layouts.
    pub(super) fn own(&self, weights: &Weights) -> PackedWeights {
        let mut small = vec![0.0; self.graph.small];
        let mut large: Vec<Weighted> = self.graph.nodes.iter().map(|_| Weighted::Ones).collect();
        let (mut left, mut entries) = (small.as_mut_slice(), weights.entries());
        let each: Vec<_> = self
            .graph
            .nodes
            .iter()
            .zip(&mut large)
            .map(|(node, large)| {
                let (small, others) = std::mem::take(&mut left).split_at_mut(node.op.small());
                let (own, rest) = entries.split_at(node.op.layout().len());
                (left, entries) = (others, rest);
                (node, small, large, own)
            })
            .collect();
        for_each(each, self.numbers, |(node, small, large, entries)| {
            let mut own = vec![0.0; node.op.large()];
            for (part, entry) in node.op.layout().iter().zip(entries) {
                part.take(&entry.values, if part.small { &mut *small } else { &mut own });
            }
            *large = if own.iter().all(|&w| w == 1.0) {
                Weighted::Ones
            } else if own.iter().all(|&w| w == 0.0) {
                Weighted::Zeros
            } else {
                Weighted::Each(own)
            };
        });
        PackedWeights { small, large }
    }

    /// How the norms of the parameters are found, in the network's order.
    pub(super) fn norm_methods(&self) -> Vec<&'static str> {
        let plan = Plan::of(&self.graph, 1, false, None);
        let each = self.graph.nodes.iter().zip(plan.norm_method).flat_map(|(node, norm_method)| {
            node.op.layout().iter().map(move |part| match norm_method {
                Some(NormMethod::Ghost) if !part.small => "ghost",
                _ => "instantiated",
            })
        });
        each.collect()
    }

    /// The sums over the batch's examples, those that are not finite left out.
    pub(super) fn sum(
        &self,
        network: &Network,
        batch: &Batch,
        ask: &Ask,
        chunk: Option<usize>,
    ) -> Result<ClippedSum> {
        let weights = if let Ask::Clip { weights, .. } = ask { *weights } else { None };
        let plain = matches!(ask, Ask::Sum);
        let plan = Plan::of(&self.graph, batch.copies(), plain, weights);
        let chunk = chunk.unwrap_or_else(|| (IN_HAND / (plan.row * batch.copies())).clamp(2, 64));
        let mut ids = batch.finite();
        // An example with finite features can still have a gradient that overflows. It is then
        // taken out and all is done again, so that the others fall into the very chunks, and
        // into the very rounding, of a batch without it.
        let (sums, sparse) = loop {
            let (sums, sparse) = self.segments(&plan, batch, &ids, ask, chunk)?;
            let norm = |i: usize| sums.norms.get(i).is_none_or(|norm| norm.is_finite());
            let finite = |i: usize| norm(i) && sums.losses[i].is_finite();
            if (0..ids.len()).all(finite) {
                break (sums, sparse);
            }
            let mut i = 0..ids.len();
            ids.retain(|_| i.next().is_some_and(finite));
        };
        let mut norms = vec![f32::NAN; batch.len()];
        let mut losses = vec![f32::NAN; batch.len()];
        for (i, &id) in ids.iter().enumerate() {
            losses[id] = sums.losses[i];
            if let Some(&norm) = sums.norms.get(i) {
                norms[id] = norm;
            }
        }
        let sum = self.unload(&plan, network, &sums, sparse);
        Ok(ClippedSum { sum, norms: norms.into(), losses: losses.into() })
    }

    /// Adds up the segments' sums in their order; those of sparse layers as full tables.
    fn segments(
        &self,
        plan: &Plan,
        batch: &Batch,
        ids: &[usize],
        ask: &Ask,
        chunk: usize,
    ) -> Result<(Sums, Vec<Vec<f32>>)> {
        // At least eight examples in each, so that passes over all parameters stay rare.
        let segment = ids.len().div_ceil(SEGMENTS).max(8).next_multiple_of(chunk.min(8));
        let segments: Vec<&[usize]> = ids.chunks(segment).collect();
        let nodes = &self.graph.nodes;
        let mut all = Sums { dense: vec![0.0; plan.len], ..Sums::default() };
        let mut tables: Vec<Vec<f32>> = nodes
            .iter()
            .map(|node| vec![0.0; if node.op.is_sparse() { node.op.large() } else { 0 }])
            .collect();
        workers::in_order(
            segments.len(),
            |i| {
                let mut workspace = taken(&self.workspaces);
                let mut sums: Sums = taken(&self.sums);
                sums.clear(plan.len, nodes.len());
                for ids in segments[i].chunks(chunk) {
                    workspace.run(&self.graph, plan, batch, ids, ask, &mut sums);
                }
                put_back(&self.workspaces, workspace);
                sums
            },
            |_, mut sums| {
                add_scaled(&mut all.dense, 1.0, &sums.dense);
                all.norms.append(&mut sums.norms);
                all.losses.append(&mut sums.losses);
                for (table, sparse) in tables.iter_mut().zip(&sums.sparse) {
                    sparse.add_to(table);
                }
                put_back(&self.sums, sums);
            },
        )?;
        Ok((all, tables))
    }

    /// From sums in the layers' own layouts to gradients in the network's.
    fn unload(
        &self,
        plan: &Plan,
        network: &Network,
        sums: &Sums,
        tables: Vec<Vec<f32>>,
    ) -> Gradients {
        let mut gradients = Gradients::zeros_like(network);
        let mut rest = gradients.entries.as_mut_slice();
        let each: Vec<_> = self
            .graph
            .nodes
            .iter()
            .zip(tables)
            .enumerate()
            .map(|(i, (node, table))| {
                let (own, others) = std::mem::take(&mut rest).split_at_mut(node.op.layout().len());
                rest = others;
                (i, node, table, own)
            })
            .collect();
        for_each(each, self.numbers, |(i, node, mut large, entries)| {
            if plan.norm_method[i].is_some() && !node.op.is_sparse() {
                let (direct, merged) = (plan.direct[i], plan.merged[i]);
                large.extend_from_slice(&sums.dense[direct..direct + node.op.large()]);
                if let (true, Some(len)) = (merged != direct, node.op.indirect()) {
                    node.op.finish(&sums.dense[merged..merged + len], &mut large);
                }
            }
            let small = &sums.dense[node.small..node.small + node.op.small()];
            for (part, entry) in node.op.layout().iter().zip(entries) {
                match part.small {
                    true => part.give(small, &mut entry.values),
                    // Nothing was computed: its weights are all zero.
                    false if large.is_empty() => {}
                    false => part.give(&large, &mut entry.values),
                }
            }
        });
        gradients
    }
}

impl Sums {
    fn clear(&mut self, len: usize, nodes: usize) {
        self.dense.clear();
        self.dense.resize(len, 0.0);
        self.norms.clear();
        self.losses.clear();
        self.sparse.resize_with(nodes, Sparse::default);
        self.sparse.iter_mut().for_each(Sparse::clear);
    }
}

impl Sparse {
    fn clear(&mut self) {
        self.at.clear();
        self.values.clear();
    }

    fn add_to(&self, table: &mut [f32]) {
        let width = self.values.len() / self.at.len().max(1);
        for (&at, row) in self.at.iter().zip(self.values.chunks_exact(width.max(1))) {
            add_scaled(&mut table[at..at + width], 1.0, row);
        }
    }
}

/// Handles each item, on all cores if that is worth waking them: if there is much to copy.
fn for_each<T: Send>(items: Vec<T>, numbers: usize, handle: impl Fn(T) + Sync + Send) {
    const MUCH: usize = 1 << 17;
    match numbers > MUCH {
        true => items.into_par_iter().for_each(handle),
        false => items.into_iter().for_each(handle),
    }
}

/// One of the buffers that nobody uses, or a new one.
fn taken<T: Default>(spare: &Mutex<Vec<T>>) -> T {
    spare.lock().ok().and_then(|mut spare| spare.pop()).unwrap_or_default()
}

fn put_back<T>(spare: &Mutex<Vec<T>>, used: T) {
    if let Ok(mut spare) = spare.lock() {
        spare.push(used);
    }
}
