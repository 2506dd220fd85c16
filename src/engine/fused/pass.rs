//! One chunk of examples: forward, backward, norms, factors, sums.

use super::graph::Graph;
use super::op::{Chunk, NormMethod, Op, Rows, Scratch, Seen, Sparse, room};
use super::outer;
use super::plan::{Ask, PackedWeights, Plan};
use crate::engine::Batch;
use crate::nn::kernels::product::{Store, add_scaled, turn};

/// A node and an example whose gradient has to be formed after all.
type Alone = (usize, usize);

/// The buffers of one worker.
#[derive(Default)]
pub(super) struct Workspace {
    values: Vec<Vec<f32>>,
    gradients: Vec<Vec<f32>>,
    kept: Vec<Vec<f32>>,
    small: Vec<f32>,
    instance: Vec<f32>,
    scratch: Scratch,
}

/// Sums over some chunks.
#[derive(Default)]
pub(super) struct Sums {
    pub(super) dense: Vec<f32>,
    /// Per node; empty for those whose sums are dense.
    pub(super) sparse: Vec<Sparse>,
    pub(super) norms: Vec<f32>,
    pub(super) losses: Vec<f32>,
}

impl Workspace {
    /// Adds the share of the batch's examples `ids` to the sums.
    pub(super) fn run(
        &mut self,
        graph: &Graph,
        plan: &Plan,
        batch: &Batch,
        ids: &[usize],
        ask: &Ask,
        sums: &mut Sums,
    ) {
        let rows = Rows { examples: ids.len(), copies: batch.copies() };
        self.forward(graph, rows, batch, ids);
        self.losses(graph, rows, batch, ids, &mut sums.losses);
        self.backward(graph, plan, rows);
        let Ask::Clip { rule, weights } = ask else {
            return self.add(graph, plan, rows, None, sums);
        };
        let (mut squares, alone) = self.squares(graph, plan, rows, *weights);
        for &(node, example) in &alone {
            squares[example] += self.alone(graph, rows, node, example, *weights);
        }
        let mut factors = Vec::with_capacity(rows.examples);
        for (i, square) in squares.into_iter().enumerate() {
            let square = square + self.instances(graph, plan, rows, i, *weights);
            let norm = square.sqrt() as f32;
            sums.norms.push(norm);
            // Where the norm is not finite, the caller leaves the example out and starts again.
            let factor = if norm.is_finite() { rule.factor(norm) } else { 0.0 };
            factors.push(factor);
            let sum = &mut sums.dense[graph.small..graph.small + plan.instance];
            add_scaled(sum, factor, &self.instance[..plan.instance]);
        }
        for &(node, example) in &alone {
            self.alone(graph, rows, node, example, *weights);
            let len = graph.nodes[node].op.large();
            let sum = &mut sums.dense[plan.direct[node]..plan.direct[node] + len];
            add_scaled(sum, factors[example], &self.instance[..len]);
        }
        self.add(graph, plan, rows, Some((&factors, &alone)), sums);
    }

    fn forward(&mut self, graph: &Graph, rows: Rows, batch: &Batch, ids: &[usize]) {
        let n = graph.nodes.len();
        self.values.resize_with(n + 1, Vec::new);
        self.gradients.resize_with(n + 1, Vec::new);
        self.kept.resize_with(n, Vec::new);
        let first = room(&mut self.values[0], rows.all() * graph.input);
        let per = rows.copies * graph.input;
        for (&id, to) in ids.iter().zip(first.chunks_exact_mut(per)) {
            let images = batch.features(id).chunks_exact(graph.input);
            for (from, to) in images.zip(to.chunks_exact_mut(graph.input)) {
                turn(from, graph.channels, to, |to, from| *to = from);
            }
        }
        let mut layer = 0;
        for (i, node) in graph.nodes.iter().enumerate() {
            let (before, after) = self.values.split_at_mut(i + 1);
            let y = room(&mut after[0], rows.all() * node.op.len());
            let kept = room(&mut self.kept[i], rows.all() * node.op.kept());
            if let Some(dropout) = node.op.dropout() {
                for (row, kept) in kept.chunks_exact_mut(dropout.len()).enumerate() {
                    let (example, copy) = (row / rows.copies, row % rows.copies);
                    let row = ids[example] * rows.copies + copy;
                    let mask = room(&mut self.scratch.second, kept.len());
                    batch.dropout_mask(row, layer, dropout.rate, mask);
                    turn(mask, dropout.channels, kept, |to, from| *to = from);
                }
                layer += 1;
            }
            let x = &before[node.input][..rows.all() * graph.width(node.input)];
            node.op.forward(rows, x, y, kept, &mut self.scratch);
            if let Some(second) = node.second {
                let len = y.len();
                outer::add(y, &before[second][..len]);
            }
        }
    }

    /// Each example's cross-entropy, and the gradient by the logits: of the SUM over examples of
    /// the mean over copies.
    fn losses(
        &mut self,
        graph: &Graph,
        rows: Rows,
        batch: &Batch,
        ids: &[usize],
        losses: &mut Vec<f32>,
    ) {
        let last = graph.nodes.len();
        let classes = graph.width(last);
        let logits = &self.values[last][..rows.all() * classes];
        let gradient = room(&mut self.gradients[last], logits.len());
        let each = logits.chunks_exact(rows.copies * classes);
        let each = each.zip(gradient.chunks_exact_mut(rows.copies * classes)).zip(ids);
        for ((logits, gradient), &id) in each {
            let label = batch.label(id) as usize;
            let mut loss = 0.0;
            for (z, g) in logits.chunks_exact(classes).zip(gradient.chunks_exact_mut(classes)) {
                let largest = z
                    .iter()
                    .fold(f32::NEG_INFINITY, |a, &b| if b > a || b.is_nan() { b } else { a });
                let exps = z.iter().map(|z| f64::from(z - largest).exp());
                let total: f64 = exps.sum();
                for (class, (g, z)) in g.iter_mut().zip(z).enumerate() {
                    let own = if class == label { 1.0 } else { 0.0 };
                    *g = (f64::from(z - largest).exp() / total - own) as f32;
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
        let small = room(&mut self.small, rows.examples * graph.small);
        small.fill(0.0);
        let mut line = Vec::new();
        let mut written = vec![false; graph.nodes.len() + 1];
        for (i, node) in graph.nodes.iter().enumerate().rev() {
            if !plan.needed[i + 1] {
                continue;
            }
            let len = rows.all() * node.op.len();
            let x_len = rows.all() * graph.width(node.input);
            let (before, after) = self.gradients.split_at_mut(i + 1);
            let g = &mut after[0][..len];
            if let Some(second) = node.second.filter(|&second| plan.needed[second]) {
                let to = room(&mut before[second], len);
                match written[second] {
                    true => outer::add(to, g),
                    false => to.copy_from_slice(g),
                }
                written[second] = true;
            }
            let wanted = plan.needed[node.input];
            let store = if written[node.input] { Store::Add } else { Store::Replace };
            written[node.input] = true;
            let gx = wanted.then(|| (room(&mut before[node.input], x_len), store));
            let chunk = Chunk {
                rows,
                x: &self.values[node.input][..x_len],
                y: &self.values[i + 1][..len],
                kept: &mut self.kept[i][..rows.all() * node.op.kept()],
                g,
            };
            let own = node.op.small();
            line.clear();
            line.resize(rows.examples * own, 0.0);
            node.op.backward(chunk, gx, &mut line, &mut self.scratch);
            if own > 0 {
                let each = small.chunks_exact_mut(graph.small).zip(line.chunks_exact(own));
                each.for_each(|(row, own)| {
                    row[node.small..node.small + own.len()].copy_from_slice(own)
                });
            }
        }
    }

    /// The squares of the norms of all that is not instantiated, and the pairs of node and example
    /// that have to be after all.
    fn squares(
        &mut self,
        graph: &Graph,
        plan: &Plan,
        rows: Rows,
        weights: Option<&PackedWeights>,
    ) -> (Vec<f64>, Vec<Alone>) {
        let small = self.small[..rows.examples * graph.small].chunks_exact(graph.small.max(1));
        let mut squares: Vec<f64> =
            small.map(|own| outer::weighted_squares(own, weights.map(|w| &w.small[..]))).collect();
        squares.resize(rows.examples, 0.0);
        let (mut alone, mut pairs) = (Vec::new(), Vec::new());
        let mut scratch = std::mem::take(&mut self.scratch);
        for (i, node) in graph.nodes.iter().enumerate() {
            if plan.norm_method[i] == Some(NormMethod::Ghost) {
                let (seen, weights) = (self.seen(graph, i, rows), PackedWeights::of(weights, i));
                node.op.squares(seen, weights, &mut squares, &mut alone, &mut scratch);
                pairs.extend(alone.drain(..).map(|example| (i, example)));
            }
        }
        self.scratch = scratch;
        (squares, pairs)
    }

    /// Forms one example's gradient by one node's large parameters; the square of its norm.
    fn alone(
        &mut self,
        graph: &Graph,
        rows: Rows,
        node: usize,
        example: usize,
        weights: Option<&PackedWeights>,
    ) -> f64 {
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut instance = std::mem::take(&mut self.instance);
        let out = room(&mut instance, graph.nodes[node].op.large());
        let seen = self.seen(graph, node, rows).example(example);
        let op = &graph.nodes[node].op;
        let square = op.instance(seen, PackedWeights::of(weights, node), out, &mut scratch);
        (self.scratch, self.instance) = (scratch, instance);
        square
    }

    /// Forms example `i`'s instances; the square of their norm.
    fn instances(
        &mut self,
        graph: &Graph,
        plan: &Plan,
        rows: Rows,
        i: usize,
        weights: Option<&PackedWeights>,
    ) -> f64 {
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut instance = std::mem::take(&mut self.instance);
        let mut square = 0.0;
        room(&mut instance, plan.instance);
        for (at, node) in graph.nodes.iter().enumerate() {
            if plan.norm_method[at] == Some(NormMethod::Instance) {
                let start = plan.direct[at] - graph.small;
                let out = &mut instance[start..start + node.op.large()];
                let seen = self.seen(graph, at, rows).example(i);
                square += node.op.instance(seen, PackedWeights::of(weights, at), out, &mut scratch);
            }
        }
        (self.scratch, self.instance) = (scratch, instance);
        square
    }

    /// Adds the sums of all that is not instantiated: with factors those of the examples that are
    /// not summed alone, without factors everything.
    fn add(
        &mut self,
        graph: &Graph,
        plan: &Plan,
        rows: Rows,
        factors: Option<(&[f32], &[Alone])>,
        sums: &mut Sums,
    ) {
        let small = self.small[..rows.examples * graph.small].chunks_exact(graph.small.max(1));
        for (i, own) in small.enumerate() {
            add_scaled(&mut sums.dense[..graph.small], factors.map_or(1.0, |(f, _)| f[i]), own);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut others = Vec::new();
        for (i, node) in graph.nodes.iter().enumerate() {
            match plan.norm_method[i] {
                None => continue,
                Some(NormMethod::Instance) if factors.is_some() => continue,
                _ => {}
            }
            let factors = factors.map(|(factors, alone)| {
                others.clear();
                others.extend_from_slice(factors);
                alone.iter().filter(|pair| pair.0 == i).for_each(|pair| others[pair.1] = 0.0);
                others.as_slice()
            });
            let seen = self.seen(graph, i, rows);
            if node.op.is_sparse() {
                node.op.rows(seen, factors, &mut sums.sparse[i]);
                continue;
            }
            let len = node.op.indirect().unwrap_or(node.op.large());
            let sum = &mut sums.dense[plan.merged[i]..plan.merged[i] + len];
            node.op.weighted_sum(seen, factors, sum, &mut scratch);
        }
        self.scratch = scratch;
    }

    fn seen(&self, graph: &Graph, i: usize, rows: Rows) -> Seen<'_> {
        let node = &graph.nodes[i];
        let (n, len) = (rows.all(), node.op.len());
        Seen {
            rows,
            x: &self.values[node.input][..n * graph.width(node.input)],
            y: &self.values[i + 1][..n * len],
            kept: &self.kept[i][..n * node.op.kept()],
            g: &self.gradients[i + 1][..n * len],
        }
    }
}
