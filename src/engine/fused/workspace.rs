//! Clipped sum of one chunk of examples: forward pass, backward pass, norms, factors, sums.

use super::execution_plan::{ExecutionPlan, SumRequest};
use super::graph::Graph;
use super::op::{
    Backward, ChunkRows, Context, DeferredSum, Forward, InputGradient, Large, NormMethod, Op,
    Scratch, SparseRows, resize_buffer,
};
use super::outer_product;
use super::packed_weights::PackedWeights;
use super::profile::{NodeTimes, Phase};
use crate::engine::ClipGroups;
use crate::engine::batch::Chunk;
use crate::engine::per_example::PerExample;
use crate::nn::kernels::product::{WriteMode, add_scaled, transpose};

/// Node and example whose norm from ghosts or transformed parameters is unreliable, so that the
/// gradient is formed.
type Recomputed = (usize, usize);

/// Network, requested sum, its plan and the number of rows of a chunk.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) graph: &'a Graph,
    pub(super) plan: &'a ExecutionPlan,
    pub(super) request: &'a SumRequest<'a>,
    pub(super) rows: ChunkRows,
}

/// The values of a chunk, of all nodes.
#[derive(Default)]
struct Buffers {
    values: Vec<Vec<f32>>,
    gradients: Vec<Vec<f32>>,
    /// Unused buffers for gradients that nothing reads after the backward pass.
    shared: Vec<Vec<f32>>,
    saved: Vec<Vec<f32>>,
}

impl Buffers {
    /// Returns the values of node `i`.
    fn context<'a>(&'a self, job: &Job<'a>, i: usize) -> Context<'a> {
        let (node, n) = (&job.graph.nodes[i], job.rows.total());
        Context {
            rows: job.rows,
            x: &self.values[node.input][..n * job.graph.width(node.input)],
            y: &self.values[i + 1][..n * node.op.len()],
            saved: &self.saved[i][..n * node.op.saved_len()],
            g: &self.gradients[i + 1][..n * node.op.len()],
            weights: PackedWeights::for_node(job.request.weights, i),
            factors: None,
        }
    }
}

/// Buffers of one worker.
#[derive(Default)]
pub(super) struct Workspace {
    buffers: Buffers,
    /// The gradients of the small parameters, one row per example.
    small: Vec<f32>,
    instance_gradients: Vec<f32>,
    /// Gradient of a node and example that is recomputed.
    recomputed: Vec<f32>,
    scratch: Scratch,
    /// Unused buffers for the deferred sums of a segment.
    pub(super) deferred: Vec<DeferredSum>,
    pub(super) times: NodeTimes,
}

/// Sums, norms and losses of one or more chunks.
#[derive(Default)]
pub(super) struct PartialSums {
    pub(super) dense: Vec<f32>,
    /// Sparse sums, one item per node; empty for nodes with dense sums.
    pub(super) sparse: Vec<SparseRows>,
    /// Deferred sums, one item per node: empty for nodes whose sums are not deferred; no items
    /// between segments.
    pub(super) deferred: Vec<DeferredSum>,
    /// The sum of the gradients that were formed because their norm is unreliable otherwise, one
    /// item per node; empty for nodes without.
    pub(super) recomputed: Vec<Vec<f32>>,
    /// Norms and losses of the examples, without norms of groups if there is only one.
    pub(super) per_example: PerExample<f32>,
}

impl Workspace {
    /// Returns the number of unused buffers for gradients.
    #[cfg(test)]
    pub(super) fn spare_gradients(&self) -> usize {
        self.buffers.shared.len()
    }

    /// Adds the clipped gradients of the given examples to `sums`.
    pub(super) fn accumulate_chunk(&mut self, job: Job, chunk: Chunk, sums: &mut PartialSums) {
        self.forward(job, chunk);
        self.compute_losses(job, chunk, &mut sums.per_example.losses);
        self.backward(job);
        match job.request.groups {
            None => self.accumulate_sums(job, None, sums),
            Some(groups) => self.add_clipped(job, groups, sums),
        }
    }

    /// Computes norms and factors, and adds the clipped gradients.
    fn add_clipped(&mut self, job: Job, groups: &ClipGroups, sums: &mut PartialSums) {
        let Job { graph, plan, rows, .. } = job;
        let (mut squares, mut recomputed) = self.squared_norms(job, groups.group_count());
        for &(node, example) in &recomputed {
            squares[plan.group_of_node[node]][example] +=
                self.recompute_instance(job, node, example);
        }
        let mut factors = vec![vec![0.0; rows.examples]; groups.group_count()];
        for i in 0..rows.examples {
            for node in self.instantiate_gradients(job, i, &mut squares) {
                squares[plan.group_of_node[node]][i] += self.recompute_instance(job, node, i);
                recomputed.push((node, i));
            }
            let norm = squares.iter().map(|squares| squares[i]).sum::<f64>().sqrt() as f32;
            sums.per_example.norms.push(norm);
            // If a norm is not finite, the caller excludes the example and starts again.
            if norm.is_finite() {
                for (group, factors) in factors.iter_mut().enumerate() {
                    factors[i] =
                        groups.clip_function(group).factor(squares[group][i].sqrt() as f32);
                }
            }
            let sum = &mut sums.dense[graph.small_len..graph.small_len + plan.instance_len];
            for (run, group) in &plan.instance_group_ranges {
                add_scaled(
                    &mut sum[run.clone()],
                    factors[*group][i],
                    &self.instance_gradients[run.clone()],
                );
            }
        }
        if groups.group_count() > 1 {
            sums.per_example.group_norms.resize_with(groups.group_count(), Vec::new);
            for (norms, squares) in sums.per_example.group_norms.iter_mut().zip(&squares) {
                norms.extend(squares.iter().map(|square| square.sqrt() as f32));
            }
        }
        for &(node, example) in &recomputed {
            self.recompute_instance(job, node, example);
            let sum = &mut sums.recomputed[node];
            sum.resize(graph.nodes[node].large_len, 0.0);
            let gradient = &self.recomputed[..sum.len()];
            add_scaled(sum, factors[plan.group_of_node[node]][example], gradient);
        }
        self.accumulate_sums(job, Some((&factors, &recomputed)), sums);
    }

    fn forward(&mut self, Job { graph, rows, .. }: Job, chunk: Chunk) {
        let n = graph.nodes.len();
        let Buffers { values, gradients, saved, .. } = &mut self.buffers;
        values.resize_with(n + 1, Vec::new);
        gradients.resize_with(n + 1, Vec::new);
        saved.resize_with(n, Vec::new);
        let first = resize_buffer(&mut values[0], rows.total() * graph.input_len);
        let example_len = rows.copies * graph.input_len;
        for (i, to) in first.chunks_exact_mut(example_len).enumerate() {
            let images = chunk.features(i).chunks_exact(graph.input_len);
            for (from, to) in images.zip(to.chunks_exact_mut(graph.input_len)) {
                transpose(from, graph.channels, to, |to, from| *to = from);
            }
        }
        let mut layer = 0;
        for (i, node) in graph.nodes.iter().enumerate() {
            let start = self.times.start();
            let (before, after) = values.split_at_mut(i + 1);
            let y = resize_buffer(&mut after[0], rows.total() * node.op.len());
            let saved = resize_buffer(&mut saved[i], rows.total() * node.op.saved_len());
            if let Some(dropout) = node.op.as_dropout() {
                for (row, saved) in saved.chunks_exact_mut(dropout.len()).enumerate() {
                    let (example, copy) = (row / rows.copies, row % rows.copies);
                    let row = chunk.examples[example] * rows.copies + copy;
                    let mask = resize_buffer(&mut self.scratch.mask, saved.len());
                    chunk.batch.dropout_mask(row, layer, dropout.rate, mask);
                    transpose(mask, dropout.channels, saved, |to, from| *to = from);
                }
                layer += 1;
            }
            let x = &before[node.input][..rows.total() * graph.width(node.input)];
            let (activation, scratch) = (node.activation, &mut self.scratch);
            node.op.forward(Forward { rows, x, y, saved, activation, scratch });
            if let Some(addend) = node.residual_input {
                let y = &mut after[0][..rows.total() * node.op.len()];
                outer_product::add(y, &before[addend][..y.len()]);
            }
            self.times.stop(i, Phase::Forward, start);
        }
    }

    /// Computes the cross-entropy of each example, and the gradient with respect to the logits of
    /// its sum over examples and mean over copies.
    fn compute_losses(
        &mut self,
        Job { graph, rows, .. }: Job,
        chunk: Chunk,
        losses: &mut Vec<f32>,
    ) {
        let Buffers { values, gradients, shared, .. } = &mut self.buffers;
        let last = graph.nodes.len();
        let classes = graph.width(last);
        let logits = &values[last][..rows.total() * classes];
        if gradients[last].is_empty() {
            gradients[last] = shared.pop().unwrap_or_default();
        }
        let gradient = resize_buffer(&mut gradients[last], logits.len());
        let each = logits.chunks_exact(rows.copies * classes);
        let each = each.zip(gradient.chunks_exact_mut(rows.copies * classes)).zip(chunk.examples);
        for ((logits, gradient), &example) in each {
            let label = chunk.batch.label(example) as usize;
            let mut loss = 0.0;
            for (z, g) in logits.chunks_exact(classes).zip(gradient.chunks_exact_mut(classes)) {
                let largest = z
                    .iter()
                    .fold(f32::NEG_INFINITY, |a, &b| if b > a || b.is_nan() { b } else { a });
                let exps = z.iter().map(|z| f64::from(z - largest).exp());
                let total: f64 = exps.sum();
                for (class, (g, z)) in g.iter_mut().zip(z).enumerate() {
                    let target = if class == label { 1.0 } else { 0.0 };
                    *g = (f64::from(z - largest).exp() / total - target) as f32;
                }
                loss += total.ln() - f64::from(z[label] - largest);
            }
            losses.push((loss / rows.copies as f64) as f32);
            if rows.copies > 1 {
                gradient.iter_mut().for_each(|g| *g /= rows.copies as f32);
            }
        }
    }

    fn backward(&mut self, Job { graph, plan, rows, .. }: Job) {
        let small = resize_buffer(&mut self.small, rows.examples * graph.small_len);
        small.fill(0.0);
        let Buffers { values, gradients, shared, saved } = &mut self.buffers;
        let mut small_gradients = Vec::new();
        let mut written = vec![false; graph.nodes.len() + 1];
        for (i, node) in graph.nodes.iter().enumerate().rev() {
            if !plan.needs_gradient[i + 1] {
                continue;
            }
            let start = self.times.start();
            let len = rows.total() * node.op.len();
            let x_len = rows.total() * graph.width(node.input);
            let (before, after) = gradients.split_at_mut(i + 1);
            let g = &mut after[0][..len];
            let inputs = node.residual_input.into_iter().chain([node.input]);
            for value in inputs.filter(|&value| plan.needs_gradient[value] && !written[value]) {
                if !plan.keeps_gradient(value) {
                    before[value] = shared.pop().unwrap_or_default();
                }
            }
            let store = |is_written: bool| {
                if is_written { WriteMode::Accumulate } else { WriteMode::Overwrite }
            };
            if let Some(addend) = node.residual_input.filter(|&addend| plan.needs_gradient[addend])
            {
                store(written[addend]).put(resize_buffer(&mut before[addend], len), g);
                written[addend] = true;
            }
            let store = store(written[node.input]);
            written[node.input] = true;
            let y = &values[i + 1][..len];
            node.activation.backward(y, g);
            if let Some(clip) = &node.clip {
                clip.apply(rows.copies, g);
            }
            small_gradients.clear();
            small_gradients.resize(rows.examples * node.small_offset.len(), 0.0);
            node.op.backward(Backward {
                rows,
                x: &values[node.input][..x_len],
                y,
                saved: &mut saved[i][..rows.total() * node.op.saved_len()],
                g,
                gx: plan.needs_gradient[node.input].then(|| {
                    let values = resize_buffer(&mut before[node.input], x_len);
                    InputGradient { values, store }
                }),
                small: &mut small_gradients,
                scratch: &mut self.scratch,
            });
            if !node.small_offset.is_empty() {
                let layer_gradients = small_gradients.chunks_exact(node.small_offset.len());
                let each = small.chunks_exact_mut(graph.small_len).zip(layer_gradients);
                each.for_each(|(row, gradients)| {
                    row[node.small_offset.clone()].copy_from_slice(gradients)
                });
            }
            if !plan.keeps_gradient(i + 1) {
                shared.push(std::mem::take(&mut gradients[i + 1]));
            }
            self.times.stop(i, Phase::Backward, start);
        }
    }

    /// Returns the gradients of the small parameters, a row for each example.
    fn small_rows(&self, Job { graph, rows, .. }: Job) -> impl Iterator<Item = &[f32]> {
        self.small[..rows.examples * graph.small_len].chunks_exact(graph.small_len.max(1))
    }

    /// Computes the squared norms of all gradients except instances, `[groups][examples]`, and the
    /// pairs of node and example whose instance gradient has to be formed after all.
    fn squared_norms(&mut self, job: Job, groups: usize) -> (Vec<Vec<f64>>, Vec<Recomputed>) {
        let plan = job.plan;
        let mut squares = vec![vec![0.0; job.rows.examples]; groups];
        for (i, row) in self.small_rows(job).enumerate() {
            for (run, group) in &plan.small_group_ranges {
                let weights = job.request.weights.map(|w| &w.small[run.clone()]);
                squares[*group][i] +=
                    outer_product::weighted_squared_norm(&row[run.clone()], weights);
            }
        }
        let mut unreliable = Vec::new();
        for (i, node) in job.graph.nodes.iter().enumerate() {
            if plan.norm_methods[i] != Some(NormMethod::Ghost) {
                continue;
            }
            let start = self.times.start();
            let ctx = self.buffers.context(&job, i);
            let squares = &mut squares[plan.group_of_node[i]];
            match node.op.large() {
                Some(Large::Matrices(matrices)) => {
                    let found = matrices.squared_norms(ctx, &mut self.scratch);
                    // A norm left out would leave a gradient unclipped.
                    assert_eq!(found.len(), job.rows.examples, "a norm of each example");
                    for (example, found) in found.into_iter().enumerate() {
                        match found {
                            Some(square) => squares[example] += square,
                            None => unreliable.push((i, example)),
                        }
                    }
                }
                Some(Large::Table(table)) => table.add_squared_norms(ctx, squares),
                None => {}
            }
            self.times.stop(i, Phase::Norms, start);
        }
        (squares, unreliable)
    }

    /// Forms one example's gradient of one node's large parameters; returns its squared norm.
    fn recompute_instance(&mut self, job: Job, node: usize, example: usize) -> f64 {
        let Some(matrices) = job.graph.nodes[node].matrices() else { return 0.0 };
        let out = resize_buffer(&mut self.recomputed, job.graph.nodes[node].large_len);
        let ctx = self.buffers.context(&job, node).example(example);
        matrices.instance_gradient(ctx, out, &mut self.scratch)
    }

    /// Forms the instance gradients of example `i` and adds their squared norms to `squares`,
    /// `[groups][examples]`. Returns the nodes for which that is unreliable; their gradients are
    /// zero.
    fn instantiate_gradients(
        &mut self,
        job: Job,
        i: usize,
        squares: &mut [Vec<f64>],
    ) -> Vec<usize> {
        let Job { graph, plan, .. } = job;
        let mut unreliable = Vec::new();
        // Added to the others at the end, in the order of the nodes.
        let mut example_squares = vec![0.0; squares.len()];
        resize_buffer(&mut self.instance_gradients, plan.instance_len);
        for (n, node) in graph.nodes.iter().enumerate() {
            let instance = plan.norm_methods[n] == Some(NormMethod::Instantiated);
            let Some(matrices) = node.matrices().filter(|_| instance) else { continue };
            let start = self.times.start();
            let range = &plan.sum_ranges[n];
            let range = range.start - graph.small_len..range.end - graph.small_len;
            let (out, scratch) = (&mut self.instance_gradients[range], &mut self.scratch);
            let ctx = self.buffers.context(&job, n).example(i);
            let square = if plan.transformed[n] {
                matrices.transformed_instance(ctx, out, scratch)
            } else {
                Some(matrices.instance_gradient(ctx, out, scratch))
            };
            match square {
                Some(square) => example_squares[plan.group_of_node[n]] += square,
                None => {
                    out.fill(0.0);
                    unreliable.push(n);
                }
            }
            self.times.stop(n, Phase::Norms, start);
        }
        squares
            .iter_mut()
            .zip(example_squares)
            .for_each(|(squares, example_squares)| squares[i] += example_squares);
        unreliable
    }

    /// Adds the sums of all gradients except instances, without those of recomputed pairs. Without
    /// factors, adds everything.
    fn accumulate_sums(
        &mut self,
        job: Job,
        factors: Option<(&[Vec<f32>], &[Recomputed])>,
        sums: &mut PartialSums,
    ) {
        let plan = job.plan;
        for (i, row) in self.small_rows(job).enumerate() {
            for (run, group) in &plan.small_group_ranges {
                let factor = factors.map_or(1.0, |(factors, _)| factors[*group][i]);
                add_scaled(&mut sums.dense[run.clone()], factor, &row[run.clone()]);
            }
        }
        let mut remaining = Vec::new();
        for (i, node) in job.graph.nodes.iter().enumerate() {
            match plan.norm_methods[i] {
                None => continue,
                Some(NormMethod::Instantiated) if factors.is_some() => continue,
                _ => {}
            }
            let factors = factors.map(|(factors, recomputed)| {
                remaining.clear();
                remaining.extend_from_slice(&factors[plan.group_of_node[i]]);
                recomputed
                    .iter()
                    .filter(|pair| pair.0 == i)
                    .for_each(|pair| remaining[pair.1] = 0.0);
                remaining.as_slice()
            });
            let start = self.times.start();
            let ctx = Context { factors, ..self.buffers.context(&job, i) };
            match node.op.large() {
                Some(Large::Table(table)) => table.add_sum(ctx, &mut sums.sparse[i]),
                Some(Large::Matrices(_)) if plan.deferred[i] => {
                    let DeferredSum { x, g } = &mut sums.deferred[i];
                    x.extend_from_slice(ctx.x);
                    g.extend_from_slice(outer_product::scale_by_factors(
                        ctx.g,
                        factors,
                        &mut self.scratch.weighted,
                    ));
                }
                Some(Large::Matrices(matrices)) => {
                    let sum = &mut sums.dense[plan.sum_ranges[i].clone()];
                    matrices.weighted_sum(ctx, sum, &mut self.scratch);
                }
                None => {}
            }
            self.times.stop(i, Phase::Sums, start);
        }
    }

    /// Adds the deferred sums of a segment.
    pub(super) fn add_deferred(&mut self, job: Job, sums: &mut PartialSums) {
        for (i, (node, deferred)) in job.graph.nodes.iter().zip(&mut sums.deferred).enumerate() {
            let DeferredSum { x, g } = deferred;
            let Some(matrices) = node.matrices().filter(|_| !g.is_empty()) else { continue };
            let start = self.times.start();
            let copies = job.rows.copies;
            let rows = ChunkRows { examples: g.len() / node.op.len() / copies, copies };
            let ctx = Context { rows, x, y: &[], saved: &[], g, weights: None, factors: None };
            let sum = &mut sums.dense[job.plan.sum_ranges[i].clone()];
            matrices.weighted_sum(ctx, sum, &mut self.scratch);
            x.clear();
            g.clear();
            self.times.stop(i, Phase::Sums, start);
        }
    }
}
