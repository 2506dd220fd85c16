//! Clipped sum of one chunk of examples: forward pass, backward pass, norms, factors, sums.

use super::graph::Graph;
use super::op::{
    Context, ContextMut, Deferred, NormMethod, Op, Rows, Scratch, Sparse, resize_buffer,
};
use super::outer;
use super::packed::PackedWeights;
use super::plan::{Plan, Request};
use super::profile::{Phase, Times};
use crate::engine::batch::Chunk;
use crate::nn::kernels::product::{Store, add_scaled, transpose};

/// A node and an example whose norm from ghosts or transformed parameters is unreliable, so that
/// its gradient is formed.
type Recomputed = (usize, usize);

/// Buffers of one worker.
#[derive(Default)]
pub(super) struct Workspace {
    values: Vec<Vec<f32>>,
    gradients: Vec<Vec<f32>>,
    /// Unused buffers for the gradients that nothing reads after the backward pass.
    shared: Vec<Vec<f32>>,
    saved: Vec<Vec<f32>>,
    small: Vec<f32>,
    instance: Vec<f32>,
    /// The gradient of a pair that is recomputed.
    recomputed: Vec<f32>,
    scratch: Scratch,
    /// Unused buffers for the deferred sums of a segment.
    pub(super) deferred: Vec<Deferred>,
    pub(super) times: Times,
}

/// Sums, norms and losses of one or more chunks.
#[derive(Default)]
pub(super) struct Sums {
    pub(super) dense: Vec<f32>,
    /// One item per node; empty for nodes with dense sums.
    pub(super) sparse: Vec<Sparse>,
    /// One item per node, empty for nodes whose sums are not deferred; no items between segments.
    pub(super) deferred: Vec<Deferred>,
    /// The sum of the gradients that were formed because their norm is unreliable otherwise, one
    /// item per node; empty for nodes without.
    pub(super) recomputed: Vec<Vec<f32>>,
    /// Norms over all parameters, `[examples]`.
    pub(super) norms: Vec<f32>,
    /// Norms of each group, `[groups][examples]`; empty for one group.
    pub(super) group_norms: Vec<Vec<f32>>,
    pub(super) losses: Vec<f32>,
}

impl Workspace {
    /// Number of unused buffers for gradients.
    #[cfg(test)]
    pub(super) fn spare_gradients(&self) -> usize {
        self.shared.len()
    }

    /// Adds the clipped gradients of the given examples to `sums`.
    pub(super) fn run(
        &mut self,
        graph: &Graph,
        plan: &Plan,
        chunk: Chunk,
        request: &Request,
        sums: &mut Sums,
    ) {
        let rows = Rows { examples: chunk.len(), copies: chunk.batch.copies() };
        self.forward(graph, rows, chunk);
        self.losses(graph, rows, chunk, &mut sums.losses);
        self.backward(graph, plan, rows);
        let Request::ClippedSum { groups, weights } = request else {
            return self.add_sums(graph, plan, rows, None, sums);
        };
        let (mut squares, mut recomputed) =
            self.squared_norms(graph, plan, rows, groups.count(), *weights);
        for &(node, example) in &recomputed {
            let square = self.recompute_instance(graph, rows, node, example, *weights);
            squares[plan.group[node]][example] += square;
        }
        let mut factors = vec![vec![0.0; rows.examples]; groups.count()];
        for i in 0..rows.examples {
            for node in self.form_instances(graph, plan, rows, i, *weights, &mut squares) {
                let square = self.recompute_instance(graph, rows, node, i, *weights);
                squares[plan.group[node]][i] += square;
                recomputed.push((node, i));
            }
            let norm = squares.iter().map(|squares| squares[i]).sum::<f64>().sqrt() as f32;
            sums.norms.push(norm);
            // If a norm is not finite, the caller excludes the example and starts again.
            if norm.is_finite() {
                for (group, factors) in factors.iter_mut().enumerate() {
                    factors[i] = groups.rule(group).factor(squares[group][i].sqrt() as f32);
                }
            }
            let sum = &mut sums.dense[graph.small_len..graph.small_len + plan.instance_len];
            for (run, group) in &plan.instance_runs {
                add_scaled(&mut sum[run.clone()], factors[*group][i], &self.instance[run.clone()]);
            }
        }
        if groups.count() > 1 {
            sums.group_norms.resize_with(groups.count(), Vec::new);
            for (norms, squares) in sums.group_norms.iter_mut().zip(&squares) {
                norms.extend(squares.iter().map(|square| square.sqrt() as f32));
            }
        }
        for &(node, example) in &recomputed {
            self.recompute_instance(graph, rows, node, example, *weights);
            let sum = &mut sums.recomputed[node];
            sum.resize(graph.nodes[node].op.large_len(), 0.0);
            let gradient = &self.recomputed[..sum.len()];
            add_scaled(sum, factors[plan.group[node]][example], gradient);
        }
        self.add_sums(graph, plan, rows, Some((&factors, &recomputed)), sums);
    }

    fn forward(&mut self, graph: &Graph, rows: Rows, chunk: Chunk) {
        let n = graph.nodes.len();
        self.values.resize_with(n + 1, Vec::new);
        self.gradients.resize_with(n + 1, Vec::new);
        self.saved.resize_with(n, Vec::new);
        let first = resize_buffer(&mut self.values[0], rows.total() * graph.input_len);
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
            let (before, after) = self.values.split_at_mut(i + 1);
            let y = resize_buffer(&mut after[0], rows.total() * node.op.len());
            let saved = resize_buffer(&mut self.saved[i], rows.total() * node.op.saved_len());
            if let Some(dropout) = node.op.dropout() {
                for (row, saved) in saved.chunks_exact_mut(dropout.len()).enumerate() {
                    let (example, copy) = (row / rows.copies, row % rows.copies);
                    let row = chunk.examples[example] * rows.copies + copy;
                    let mask = resize_buffer(&mut self.scratch.second, saved.len());
                    chunk.batch.dropout_mask(row, layer, dropout.rate, mask);
                    transpose(mask, dropout.channels, saved, |to, from| *to = from);
                }
                layer += 1;
            }
            let x = &before[node.input][..rows.total() * graph.width(node.input)];
            node.op.forward(rows, x, y, saved, &mut self.scratch);
            if let Some(addend) = node.addend {
                let len = y.len();
                outer::add(y, &before[addend][..len]);
            }
            self.times.stop(i, Phase::Forward, start);
        }
    }

    /// Cross-entropy of each example, and the gradient with respect to the logits of its sum over
    /// examples and mean over copies.
    fn losses(&mut self, graph: &Graph, rows: Rows, chunk: Chunk, losses: &mut Vec<f32>) {
        let last = graph.nodes.len();
        let classes = graph.width(last);
        let logits = &self.values[last][..rows.total() * classes];
        if self.gradients[last].is_empty() {
            self.gradients[last] = self.shared.pop().unwrap_or_default();
        }
        let gradient = resize_buffer(&mut self.gradients[last], logits.len());
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

    fn backward(&mut self, graph: &Graph, plan: &Plan, rows: Rows) {
        let small = resize_buffer(&mut self.small, rows.examples * graph.small_len);
        small.fill(0.0);
        let mut small_gradients = Vec::new();
        let mut written = vec![false; graph.nodes.len() + 1];
        for (i, node) in graph.nodes.iter().enumerate().rev() {
            if !plan.needs_gradient[i + 1] {
                continue;
            }
            let start = self.times.start();
            let len = rows.total() * node.op.len();
            let x_len = rows.total() * graph.width(node.input);
            let (before, after) = self.gradients.split_at_mut(i + 1);
            let g = &mut after[0][..len];
            let inputs = node.addend.into_iter().chain([node.input]);
            for value in inputs.filter(|&value| plan.needs_gradient[value] && !written[value]) {
                if !plan.keeps_gradient(value) {
                    before[value] = self.shared.pop().unwrap_or_default();
                }
            }
            if let Some(addend) = node.addend.filter(|&addend| plan.needs_gradient[addend]) {
                let to = resize_buffer(&mut before[addend], len);
                if written[addend] {
                    outer::add(to, g)
                } else {
                    to.copy_from_slice(g)
                }
                written[addend] = true;
            }
            let input_needs_gradient = plan.needs_gradient[node.input];
            let store = if written[node.input] { Store::Add } else { Store::Replace };
            written[node.input] = true;
            let gx = input_needs_gradient
                .then(|| (resize_buffer(&mut before[node.input], x_len), store));
            let ctx = ContextMut {
                rows,
                x: &self.values[node.input][..x_len],
                y: &self.values[i + 1][..len],
                saved: &mut self.saved[i][..rows.total() * node.op.saved_len()],
                g,
            };
            let own = node.op.small_len();
            small_gradients.clear();
            small_gradients.resize(rows.examples * own, 0.0);
            node.op.backward(ctx, gx, &mut small_gradients, &mut self.scratch);
            if own > 0 {
                let each =
                    small.chunks_exact_mut(graph.small_len).zip(small_gradients.chunks_exact(own));
                each.for_each(|(row, own)| {
                    row[node.small..node.small + own.len()].copy_from_slice(own)
                });
            }
            if !plan.keeps_gradient(i + 1) {
                self.shared.push(std::mem::take(&mut self.gradients[i + 1]));
            }
            self.times.stop(i, Phase::Backward, start);
        }
    }

    /// Squared norms of all gradients except instances, `[groups][examples]`, and the pairs of node
    /// and example whose instance gradient has to be formed after all.
    fn squared_norms(
        &mut self,
        graph: &Graph,
        plan: &Plan,
        rows: Rows,
        groups: usize,
        weights: Option<&PackedWeights>,
    ) -> (Vec<Vec<f64>>, Vec<Recomputed>) {
        let small =
            self.small[..rows.examples * graph.small_len].chunks_exact(graph.small_len.max(1));
        let mut squares = vec![vec![0.0; rows.examples]; groups];
        for (i, own) in small.enumerate() {
            for (run, group) in &plan.small_runs {
                let weights = weights.map(|w| &w.small[run.clone()]);
                squares[*group][i] += outer::weighted_squared_norm(&own[run.clone()], weights);
            }
        }
        let (mut recomputed, mut pairs) = (Vec::new(), Vec::new());
        let mut scratch = std::mem::take(&mut self.scratch);
        for (i, node) in graph.nodes.iter().enumerate() {
            if plan.norm_methods[i] == Some(NormMethod::Ghost) {
                let start = self.times.start();
                let (ctx, weights) = (self.context(graph, i, rows), PackedWeights::of(weights, i));
                node.op.add_squared_norms(
                    ctx,
                    weights,
                    &mut squares[plan.group[i]],
                    &mut recomputed,
                    &mut scratch,
                );
                pairs.extend(recomputed.drain(..).map(|example| (i, example)));
                self.times.stop(i, Phase::Norms, start);
            }
        }
        self.scratch = scratch;
        (squares, pairs)
    }

    /// Forms one example's gradient of one node's large parameters; returns its squared norm.
    fn recompute_instance(
        &mut self,
        graph: &Graph,
        rows: Rows,
        node: usize,
        example: usize,
        weights: Option<&PackedWeights>,
    ) -> f64 {
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut gradient = std::mem::take(&mut self.recomputed);
        let out = resize_buffer(&mut gradient, graph.nodes[node].op.large_len());
        let ctx = self.context(graph, node, rows).example(example);
        let op = &graph.nodes[node].op;
        let weights = PackedWeights::of(weights, node).map(|weights| weights.values.as_slice());
        let square = op.instance_gradient(ctx, weights, out, &mut scratch);
        self.scratch = scratch;
        self.recomputed = gradient;
        square
    }

    /// Forms the instance gradients of example `i` and adds their squared norms to `squares`,
    /// `[groups][examples]`. Returns the nodes for which that is unreliable; their gradients are
    /// zero.
    fn form_instances(
        &mut self,
        graph: &Graph,
        plan: &Plan,
        rows: Rows,
        i: usize,
        weights: Option<&PackedWeights>,
        squares: &mut [Vec<f64>],
    ) -> Vec<usize> {
        let mut unreliable = Vec::new();
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut instance = std::mem::take(&mut self.instance);
        // Added to the others at the end, in the order of the nodes.
        let mut own = vec![0.0; squares.len()];
        resize_buffer(&mut instance, plan.instance_len);
        for (n, node) in graph.nodes.iter().enumerate() {
            if plan.norm_methods[n] == Some(NormMethod::Instance) {
                let begin = self.times.start();
                let range = &plan.sum_ranges[n];
                let out = &mut instance[range.start - graph.small_len..range.end - graph.small_len];
                let ctx = self.context(graph, n, rows).example(i);
                let weights =
                    PackedWeights::of(weights, n).map(|weights| weights.values.as_slice());
                let square = if plan.transformed[n] {
                    node.op.transformed_instance(ctx, out, &mut scratch)
                } else {
                    Some(node.op.instance_gradient(ctx, weights, out, &mut scratch))
                };
                match square {
                    Some(square) => own[plan.group[n]] += square,
                    None => {
                        out.fill(0.0);
                        unreliable.push(n);
                    }
                }
                self.times.stop(n, Phase::Norms, begin);
            }
        }
        self.scratch = scratch;
        self.instance = instance;
        squares.iter_mut().zip(own).for_each(|(squares, own)| squares[i] += own);
        unreliable
    }

    /// Adds the sums of all gradients except instances, without those of recomputed pairs. Without
    /// factors, adds everything.
    fn add_sums(
        &mut self,
        graph: &Graph,
        plan: &Plan,
        rows: Rows,
        factors: Option<(&[Vec<f32>], &[Recomputed])>,
        sums: &mut Sums,
    ) {
        let small =
            self.small[..rows.examples * graph.small_len].chunks_exact(graph.small_len.max(1));
        for (i, own) in small.enumerate() {
            for (run, group) in &plan.small_runs {
                let factor = factors.map_or(1.0, |(factors, _)| factors[*group][i]);
                add_scaled(&mut sums.dense[run.clone()], factor, &own[run.clone()]);
            }
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut remaining = Vec::new();
        for (i, node) in graph.nodes.iter().enumerate() {
            match plan.norm_methods[i] {
                None => continue,
                Some(NormMethod::Instance) if factors.is_some() => continue,
                _ => {}
            }
            let factors = factors.map(|(factors, recomputed)| {
                remaining.clear();
                remaining.extend_from_slice(&factors[plan.group[i]]);
                recomputed
                    .iter()
                    .filter(|pair| pair.0 == i)
                    .for_each(|pair| remaining[pair.1] = 0.0);
                remaining.as_slice()
            });
            let start = self.times.start();
            let ctx = self.context(graph, i, rows);
            if node.op.is_sparse() {
                node.op.sparse_sum(ctx, factors, &mut sums.sparse[i]);
            } else if plan.deferred[i] {
                let Deferred { x, g } = &mut sums.deferred[i];
                x.extend_from_slice(ctx.x);
                g.extend_from_slice(outer::weighted(ctx.g, factors, &mut scratch.third));
            } else {
                let sum = &mut sums.dense[plan.sum_ranges[i].clone()];
                node.op.weighted_sum(ctx, factors, sum, &mut scratch);
            }
            self.times.stop(i, Phase::Sums, start);
        }
        self.scratch = scratch;
    }

    /// Adds the deferred sums of a segment.
    pub(super) fn add_deferred(
        &mut self,
        graph: &Graph,
        plan: &Plan,
        copies: usize,
        sums: &mut Sums,
    ) {
        for (i, (node, deferred)) in graph.nodes.iter().zip(&mut sums.deferred).enumerate() {
            let Deferred { x, g } = deferred;
            if g.is_empty() {
                continue;
            }
            let start = self.times.start();
            let rows = Rows { examples: g.len() / node.op.len() / copies, copies };
            let ctx = Context { rows, x, y: &[], saved: &[], g };
            let sum = &mut sums.dense[plan.sum_ranges[i].clone()];
            node.op.weighted_sum(ctx, None, sum, &mut self.scratch);
            x.clear();
            g.clear();
            self.times.stop(i, Phase::Sums, start);
        }
    }

    fn context(&self, graph: &Graph, i: usize, rows: Rows) -> Context<'_> {
        let node = &graph.nodes[i];
        let (n, len) = (rows.total(), node.op.len());
        Context {
            rows,
            x: &self.values[node.input][..n * graph.width(node.input)],
            y: &self.values[i + 1][..n * len],
            saved: &self.saved[i][..n * node.op.saved_len()],
            g: &self.gradients[i + 1][..n * len],
        }
    }
}
