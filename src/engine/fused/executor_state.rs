//! State between calls: the graph with its weights, and the buffers of the workers.

use std::borrow::Cow;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use super::execution_plan::{ExecutionPlan, SumRequest};
use super::gather_windows::plan_windows;
use super::graph::{Graph, Node, for_each_node, split};
use super::op::{ChunkRows, DeferredSum, NormMethod, SparseRows};
use super::packed_weights::PackedWeights;
use super::profile::{self, LayerProfile, NodeTimes, Phase, StepProfile};
use super::workspace::{Job, PartialSums, Workspace};
use crate::Result;
use crate::engine::per_example::{PerExample, compute_on_finite_examples};
use crate::engine::{Batch, ClippedSum, CoordinateWeights, Gradients};
use crate::nn::kernels::product::add_scaled;
use crate::nn::{LayerSpec, Network, worker_pool};

/// Number of buffer elements of the chunk that a worker processes: about a worker's part of the
/// caches.
const CHUNK_ELEMENTS: usize = 1 << 21;

/// Smallest number of examples that make good use of each pass over the parameters and their sums.
const EXAMPLES_PER_PASS: usize = 8;

/// Maximum number of parts of a batch that are summed separately and then added in order.
const MAX_SEGMENTS: usize = 16;

/// Cost of clearing and adding one value of a segment's sum, in multiplications (measured
/// roughly).
const SEGMENT_COST: usize = 32;

pub(super) struct ExecutorState {
    specs: Vec<LayerSpec>,
    input_shape: Vec<usize>,
    pub(super) graph: Graph,
    /// Weights of the last call that had any: training with a mask uses the same ones in every
    /// step.
    packed: Option<(Weak<Gradients>, PackedWeights)>,
    /// Multiplications of the forward pass for one row.
    multiplications_per_row: usize,
    workspaces: Mutex<Vec<Workspace>>,
    sums: Mutex<Vec<PartialSums>>,
    /// Times of the nodes, while a profile is measured.
    times: Option<Mutex<NodeTimes>>,
}

impl ExecutorState {
    pub(super) fn for_network(network: &Network) -> Self {
        let graph = Graph::from_specs(network.input_shape(), network.specs());
        let multiplications_per_row = graph.nodes.iter().map(Node::multiplications).sum();
        Self {
            specs: network.specs().to_vec(),
            input_shape: network.input_shape().to_vec(),
            graph,
            packed: None,
            multiplications_per_row,
            workspaces: Mutex::default(),
            sums: Mutex::default(),
            times: None,
        }
    }

    /// Computes the sum over the batch, measured layer by layer.
    pub(super) fn profile(
        &mut self,
        network: &Network,
        batch: &Batch,
        request: &SumRequest,
        chunk: Option<usize>,
    ) -> Result<(ClippedSum, StepProfile)> {
        self.times = Some(Mutex::new(NodeTimes::with_nodes(self.graph.nodes.len())));
        let start = Instant::now();
        let sum = self.sum_batch(network, batch, request, chunk);
        let elapsed = start.elapsed();
        let times = self.times.take().unwrap_or_default();
        let sum = sum?;
        let times = times.into_inner().unwrap_or_else(PoisonError::into_inner);
        let copies = batch.copies();
        let plan = ExecutionPlan::for_request(&self.graph, copies, request);
        let paths = network.paths();
        let layers = self.graph.nodes.iter().enumerate().map(|(i, node)| {
            let layer = paths[node.parameters.clone()].first().and_then(|p| p.rsplit_once('.'));
            LayerProfile {
                path: layer.map_or_else(String::new, |(layer, _)| layer.to_owned()),
                description: node.op.describe(),
                multiplications: node.multiplications(),
                work: profile::layer_work(&self.graph, &plan, i, copies),
                forward: times.get(i, Phase::Forward),
                backward: times.get(i, Phase::Backward),
                norms: times.get(i, Phase::Norms),
                sums: times.get(i, Phase::Sums),
            }
        });
        let chunk = chunk.unwrap_or_else(|| chunk_len(&plan, copies));
        let [_, chunk] = self.segment_and_chunk_len(&plan, batch, batch.len(), chunk);
        let shares = |(i, node): (usize, &Node)| {
            if plan.keeps_gradient(i + 1) { 0 } else { node.op.len() }
        };
        let shared: usize = self.graph.nodes.iter().enumerate().map(shares).sum();
        let buffer_bytes = size_of::<f32>() * chunk * copies * (plan.row_len - shared);
        Ok((sum, StepProfile { layers: layers.collect(), chunk, buffer_bytes, elapsed }))
    }

    /// Returns the largest number of unused gradient buffers of a worker.
    #[cfg(test)]
    pub(super) fn spare_gradients(&self) -> usize {
        lock(&self.workspaces).iter().map(Workspace::spare_gradients).max().unwrap_or(0)
    }

    /// Returns whether the network has the architecture that this state was built for.
    pub(super) fn matches(&self, network: &Network) -> bool {
        self.input_shape == network.input_shape() && self.specs == network.specs()
    }

    /// Copies the network's parameters.
    pub(super) fn load_parameters(&mut self, network: &Network) {
        let parameter_count = self.graph.parameter_count;
        let hosts = network.host_values();
        for_each_node(self.graph.nodes.iter_mut().collect(), parameter_count, |node| {
            let (mut small, mut large) =
                (vec![0.0; node.small_offset.len()], vec![0.0; node.large_len]);
            let hosts = &hosts[node.parameters.clone()];
            for (slot, host) in node.op.parameter_slots().iter().zip(hosts) {
                slot.pack(host.slice(), if slot.is_small { &mut small } else { &mut large });
            }
            node.op.load(&small, &large);
        });
    }

    /// Packs these weights, unless the last call packed them already.
    pub(super) fn load_weights(&mut self, weights: &CoordinateWeights) {
        let values = weights.shared_values();
        if self.packed.as_ref().is_some_and(|(known, _)| known.ptr_eq(&values)) {
            return;
        }
        // Dropped first, so that both are never in memory together.
        self.packed = None;
        self.packed = Some((values, PackedWeights::new(weights, &self.graph)));
    }

    /// Returns the weights of [`load_weights`](Self::load_weights).
    pub(super) fn packed_weights(&self) -> Option<&PackedWeights> {
        self.packed.as_ref().map(|(_, packed)| packed)
    }

    /// Returns the norm method of each parameter, in the network's order.
    pub(super) fn norm_methods(&self) -> Vec<&'static str> {
        let plan = ExecutionPlan::for_request(&self.graph, 1, &SumRequest::default());
        let each =
            self.graph.nodes.iter().zip(plan.norm_methods).flat_map(|(node, norm_method)| {
                node.op.parameter_slots().iter().map(move |slot| match norm_method {
                    Some(NormMethod::Ghost) if !slot.is_small => "ghost",
                    _ => "instantiated",
                })
            });
        each.collect()
    }

    /// Computes the sum over the batch, excluding examples that are not finite.
    pub(super) fn sum_batch(
        &self,
        network: &Network,
        batch: &Batch,
        request: &SumRequest,
        chunk: Option<usize>,
    ) -> Result<ClippedSum> {
        let mut plan = ExecutionPlan::for_request(&self.graph, batch.copies(), request);
        let chunk = chunk.unwrap_or_else(|| chunk_len(&plan, batch.copies()));
        let compute = |examples: &[usize]| {
            let lengths = self.segment_and_chunk_len(&plan, batch, examples.len(), chunk);
            plan.defer_sums(&self.graph, batch.copies(), lengths);
            self.sum_segments(&plan, batch, examples, request, chunk)
        };
        let ((sums, sparse), examples) =
            compute_on_finite_examples(batch, compute, |(sums, _)| &sums.per_example)?;
        let sum = self.to_gradients(&plan, network, &sums, sparse);
        let sum = sums.per_example.to_clipped_sum(sum, batch, &examples);
        recycle(&self.sums, sums);
        Ok(sum)
    }

    /// Adds the sums of the segments in order; sparse sums become full tables. Segments and their
    /// chunks depend on batch and network only, not on what is gathered together.
    fn sum_segments(
        &self,
        plan: &ExecutionPlan,
        batch: &Batch,
        examples: &[usize],
        request: &SumRequest,
        chunk: usize,
    ) -> Result<(PartialSums, Vec<Vec<f32>>)> {
        let lengths_of = |n: usize| self.segment_and_chunk_len(plan, batch, n, chunk);
        let windows_of = |n: usize| {
            plan_windows(n, lengths_of(n), batch.chunk_len(), worker_pool::worker_count())
        };
        let nodes = &self.graph.nodes;
        // The sums of the segments so far, in the buffers of the first.
        let mut total: Option<PartialSums> = None;
        let mut tables: Vec<Vec<f32>> = nodes
            .iter()
            .map(|node| vec![0.0; if node.is_table() { node.large_len } else { 0 }])
            .collect();
        let mut add = |mut sums: PartialSums| {
            for (table, sparse) in tables.iter_mut().zip(&sums.sparse) {
                sparse.add_to(table);
            }
            let Some(total) = &mut total else { return total = Some(sums) };
            add_scaled(&mut total.dense, 1.0, &sums.dense);
            let recomputed = total.recomputed.iter_mut().zip(&sums.recomputed);
            for (total, gradient) in recomputed.filter(|(_, gradient)| !gradient.is_empty()) {
                total.resize(gradient.len(), 0.0);
                add_scaled(total, 1.0, gradient);
            }
            total.per_example.append(&mut sums.per_example);
            recycle(&self.sums, sums);
        };
        let windows = windows_of(examples.len());
        let [_, chunk] = lengths_of(examples.len());
        let split = |n: usize| windows_of(n).into_iter().map(|window| window.ranges).collect();
        // The sums of segments of which some windows are still to come.
        let mut unfinished: Vec<Mutex<Option<PartialSums>>> = Vec::new();
        batch.for_each_chunk(examples, &split, |number, gathered| {
            let (window, places) = (&windows[number], windows[number].range_offsets());
            unfinished.resize_with(places.len(), Mutex::default);
            let sums_of = |i: usize| lock(&unfinished[i]).take();
            worker_pool::run_in_order(
                places.len(),
                |i| {
                    let mut workspace: Workspace = take_spare(&self.workspaces);
                    if self.times.is_some() {
                        workspace.times = NodeTimes::with_nodes(nodes.len());
                    }
                    let mut sums = sums_of(i).unwrap_or_else(|| self.cleared_sums(plan));
                    if sums.deferred.is_empty() {
                        std::mem::swap(&mut workspace.deferred, &mut sums.deferred);
                        sums.deferred.resize_with(nodes.len(), DeferredSum::default);
                    }
                    let job = |examples: usize| {
                        let rows = ChunkRows { examples, copies: batch.copies() };
                        Job { graph: &self.graph, plan, request, rows }
                    };
                    for chunk in gathered.slice(places[i].clone()).split_by(chunk) {
                        workspace.accumulate_chunk(job(chunk.len()), chunk, &mut sums);
                    }
                    if window.is_last {
                        workspace.add_deferred(job(0), &mut sums);
                        // Few workers share these buffers, but there are sums for each segment.
                        std::mem::swap(&mut workspace.deferred, &mut sums.deferred);
                    }
                    if let Some(times) = &self.times {
                        lock(times).add(&std::mem::take(&mut workspace.times));
                    }
                    recycle(&self.workspaces, workspace);
                    sums
                },
                |i, sums| {
                    if window.is_last { add(sums) } else { *lock(&unfinished[i]) = Some(sums) }
                },
            )
        })?;
        Ok((total.unwrap_or_else(|| self.cleared_sums(plan)), tables))
    }

    /// Returns the number of examples in each segment of `n` examples and in each of its chunks,
    /// which have at most `chunk`.
    fn segment_and_chunk_len(
        &self,
        plan: &ExecutionPlan,
        batch: &Batch,
        n: usize,
        chunk: usize,
    ) -> [usize; 2] {
        let multiplications = self.multiplications_per_row * batch.copies();
        let segment = segment_len(n, multiplications, plan.len);
        [segment, segment.div_ceil(segment.div_ceil(chunk))]
    }

    fn cleared_sums(&self, plan: &ExecutionPlan) -> PartialSums {
        let mut sums: PartialSums = take_spare(&self.sums);
        sums.clear(plan.len, self.graph.nodes.len());
        sums
    }

    /// Converts sums in the layers' own layouts to gradients in the network's layout.
    fn to_gradients(
        &self,
        plan: &ExecutionPlan,
        network: &Network,
        sums: &PartialSums,
        tables: Vec<Vec<f32>>,
    ) -> Gradients {
        let mut gradients = Gradients::zeros_like(network);
        let nodes = &self.graph.nodes;
        let node_tensors =
            split(&mut gradients.entries, nodes.iter().map(|node| node.parameters.len()));
        let each = nodes.iter().zip(tables).zip(node_tensors).enumerate().collect();
        for_each_node(each, self.graph.parameter_count, |(i, ((node, table), entries))| {
            let mut large = Cow::Owned(table);
            if let Some(matrices) = node.matrices().filter(|_| plan.norm_methods[i].is_some()) {
                let sum = &sums.dense[plan.sum_ranges[i].clone()];
                large = if plan.transformed[i] {
                    Cow::Owned(matrices.gradient_of_transformed(sum))
                } else {
                    Cow::Borrowed(sum)
                };
                if !sums.recomputed[i].is_empty() {
                    add_scaled(large.to_mut(), 1.0, &sums.recomputed[i]);
                }
            }
            let small = &sums.dense[node.small_offset.clone()];
            for (slot, entry) in node.op.parameter_slots().iter().zip(entries) {
                let packed = if slot.is_small { small } else { &large[..] };
                // Not computed if all its weights are zero.
                if !packed.is_empty() {
                    slot.unpack(packed, &mut entry.values);
                }
            }
        });
        gradients
    }
}

impl PartialSums {
    fn clear(&mut self, len: usize, nodes: usize) {
        self.dense.clear();
        self.dense.resize(len, 0.0);
        self.per_example = PerExample::default();
        self.recomputed.resize_with(nodes, Vec::new);
        self.recomputed.iter_mut().for_each(Vec::clear);
        self.sparse.resize_with(nodes, SparseRows::default);
        self.sparse.iter_mut().for_each(SparseRows::clear);
        self.deferred.iter_mut().for_each(|DeferredSum { x, g }| {
            x.clear();
            g.clear();
        });
    }
}

impl SparseRows {
    fn clear(&mut self) {
        self.offsets.clear();
        self.values.clear();
    }

    fn add_to(&self, table: &mut [f32]) {
        let width = self.values.len() / self.offsets.len().max(1);
        for (&offset, row) in self.offsets.iter().zip(self.values.chunks_exact(width.max(1))) {
            add_scaled(&mut table[offset..offset + width], 1.0, row);
        }
    }
}

/// Returns the number of examples that a worker processes at a time. Each chunk reads all
/// parameters and adds to all their sums, so where these take more memory than the values of a few
/// examples, the chunk is larger than a worker's part of the caches.
fn chunk_len(plan: &ExecutionPlan, copies: usize) -> usize {
    let row = plan.row_len * copies;
    (CHUNK_ELEMENTS / row).clamp(2, 64).max((plan.len / row).min(EXAMPLES_PER_PASS))
}

/// Returns the number of examples in each segment of `n` examples with this many multiplications
/// each, for `sums` values: 16 segments, or fewer if clearing and adding them took a considerable
/// part of the time. It must not depend on the number of threads, or results would.
fn segment_len(n: usize, multiplications: usize, sums: usize) -> usize {
    let worthwhile = n * multiplications / (SEGMENT_COST * sums).max(1);
    let segments = worthwhile.clamp(1, MAX_SEGMENTS);
    // A power of two divides among most numbers of threads.
    let segments = 1 << segments.ilog2();
    n.div_ceil(segments).max(EXAMPLES_PER_PASS)
}

/// Locks a mutex, poisoned or not: a job that panicked leaves nothing behind.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes an unused buffer, or creates one.
fn take_spare<T: Default>(spare: &Mutex<Vec<T>>) -> T {
    lock(spare).pop().unwrap_or_default()
}

fn recycle<T>(spare: &Mutex<Vec<T>>, used: T) {
    lock(spare).push(used);
}
