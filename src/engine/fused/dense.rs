//! Linear layers, on plain features or at every time step of a sequence.

use super::activation::Activation;
use super::clip::GradientClip;
use super::layout::{Layout, ParameterSlot};
use super::op::{Context, ContextMut, NormMethod, Op, Rows, Scratch, resize_buffer};
use super::outer;
use super::packed::CoordinateWeights;
use crate::nn::kernels::product::{Matrix, Store, product};

pub(super) struct Dense {
    inputs: usize,
    outputs: usize,
    /// Number of time steps; 1 for plain features.
    steps: usize,
    activation: Activation,
    clip: Option<GradientClip>,
    slots: Vec<ParameterSlot>,
    weight: Vec<f32>,
    bias: Option<Vec<f32>>,
}

impl Dense {
    pub(super) fn new(
        [inputs, outputs]: [usize; 2],
        steps: usize,
        bias: bool,
        activation: Activation,
    ) -> Self {
        let mut slots = vec![ParameterSlot::large(0, Layout::Plain { len: inputs * outputs })];
        if bias {
            slots.push(ParameterSlot::small(0, outputs));
        }
        let bias = bias.then(|| vec![0.0; outputs]);
        Self {
            inputs,
            outputs,
            steps,
            activation,
            clip: None,
            slots,
            weight: vec![0.0; inputs * outputs],
            bias,
        }
    }

    /// Clips the gradient of the output, if there is a clip.
    pub(super) fn with_clip(self, clip: Option<GradientClip>) -> Self {
        Self { clip, ..self }
    }
}

impl Op for Dense {
    fn len(&self) -> usize {
        self.steps * self.outputs
    }

    fn layout(&self) -> &[ParameterSlot] {
        &self.slots
    }

    fn describe(&self) -> String {
        let per_step =
            if self.steps > 1 { format!(", {} steps", self.steps) } else { String::new() };
        format!("linear, {} to {}{per_step}", self.inputs, self.outputs)
    }

    fn multiplications(&self) -> usize {
        self.steps * self.inputs * self.outputs
    }

    fn load(&mut self, small: &[f32], large: &[f32]) {
        if let Some(bias) = &mut self.bias {
            bias.copy_from_slice(small);
        }
        self.weight.copy_from_slice(large);
    }

    fn forward(&self, rows: Rows, x: &[f32], y: &mut [f32], _: &mut [f32], _: &mut Scratch) {
        let x = Matrix::new(x, rows.total() * self.steps, self.inputs);
        let weight = Matrix::new(&self.weight, self.inputs, self.outputs);
        product(y, Store::Replace, x, weight);
        self.activation.apply(y, self.bias.as_deref());
    }

    fn backward(
        &self,
        ctx: ContextMut,
        gx: Option<(&mut [f32], Store)>,
        small: &mut [f32],
        _: &mut Scratch,
    ) {
        self.activation.backward(ctx.y, ctx.g);
        if let Some(clip) = &self.clip {
            clip.apply(ctx.rows.copies, ctx.g);
        }
        if self.bias.is_some() {
            let each = small.chunks_exact_mut(self.outputs);
            let rows = ctx.g.chunks_exact(ctx.rows.copies * self.len());
            each.zip(rows).for_each(|(bias, g)| outer::add_rows(g, bias));
        }
        if let Some((gx, store)) = gx {
            let g = Matrix::new(ctx.g, ctx.rows.total() * self.steps, self.outputs);
            let weight = Matrix::new(&self.weight, self.inputs, self.outputs);
            product(gx, store, g, weight.transposed());
        }
    }

    fn norm_method(&self, copies: usize, weighted: bool) -> NormMethod {
        let positions = copies * self.steps;
        match (positions, weighted) {
            (1, _) => NormMethod::Ghost,
            (_, true) => NormMethod::Instance,
            _ => outer::norm_method(positions, self.inputs, self.outputs),
        }
    }

    fn add_squared_norms(
        &self,
        ctx: Context,
        weights: Option<&CoordinateWeights>,
        squares: &mut [f64],
        recomputed: &mut Vec<usize>,
        scratch: &mut Scratch,
    ) {
        let positions = ctx.rows.copies * self.steps;
        if let (1, Some(weights)) = (positions, weights) {
            return self.add_weighted_squared_norms(ctx, weights, squares, recomputed, scratch);
        }
        if positions == 1 {
            let each = ctx.x.chunks_exact(self.inputs).zip(ctx.g.chunks_exact(self.outputs));
            each.zip(squares)
                .for_each(|((x, g), square)| *square += outer::outer_product_squared_norm(x, g));
            return;
        }
        let (mut columns, mut aligned) = (vec![0.0; self.outputs], vec![0.0; self.outputs]);
        for (i, square) in squares.iter_mut().enumerate() {
            let ctx = ctx.example(i);
            let gram = outer::gram(ctx.x, positions, &mut scratch.second);
            let gram = (gram, self.inputs);
            outer::column_squared_norms(
                gram,
                ctx.g,
                &mut columns,
                &mut aligned,
                &mut scratch.third,
            );
            let found = columns.iter().sum::<f64>();
            let mid_range = outer::is_mid_range(ctx.x) && outer::is_mid_range(ctx.g);
            if mid_range && outer::is_reliable(found, aligned.iter().sum()) {
                *square += found
            } else {
                recomputed.push(i)
            }
        }
    }

    fn instance_gradient(
        &self,
        ctx: Context,
        weights: Option<&[f32]>,
        out: &mut [f32],
        _: &mut Scratch,
    ) -> f64 {
        let positions = ctx.rows.copies * self.steps;
        let x = Matrix::new(ctx.x, positions, self.inputs);
        product(out, Store::Replace, x.transposed(), Matrix::new(ctx.g, positions, self.outputs));
        outer::weighted_squared_norm(out, weights)
    }

    fn sums_more_rows(&self, rows: usize) -> bool {
        outer::sums_more_positions(rows * self.steps, self.inputs * self.outputs)
    }

    fn weighted_sum(
        &self,
        ctx: Context,
        factors: Option<&[f32]>,
        sum: &mut [f32],
        scratch: &mut Scratch,
    ) {
        let rows = ctx.rows.total() * self.steps;
        outer::add_weighted_product(ctx.x, ctx.g, rows, factors, sum, &mut scratch.third);
    }
}

impl Dense {
    /// Adds `Σ w g² x²` for all examples: sums over inputs first, which need additions only if the
    /// weights are flags, and one matrix product of squares otherwise. Only for plain features.
    ///
    /// The smallest normal f32 is added to each square, because underflow may have lost that much
    /// and a large weight would amplify the loss. With weights above 1, a norm may therefore come
    /// out too large.
    fn add_weighted_squared_norms(
        &self,
        ctx: Context,
        weights: &CoordinateWeights,
        squares: &mut [f64],
        recomputed: &mut Vec<usize>,
        scratch: &mut Scratch,
    ) {
        let examples = squares.len();
        let square = |x: f32| x * x + f32::MIN_POSITIVE;
        let sums = resize_buffer(&mut scratch.third, examples * self.outputs);
        if let Some(kept) = weights.kept(self.outputs) {
            kept.sums(ctx.x, square, sums, &mut scratch.kept);
        } else {
            let x = resize_buffer(&mut scratch.second, examples * self.inputs);
            x.iter_mut().zip(ctx.x).for_each(|(to, &x)| *to = square(x));
            let x = Matrix::new(x, examples, self.inputs);
            let weights = Matrix::new(&weights.values, self.inputs, self.outputs);
            product(sums, Store::Replace, x, weights);
        }
        let rows = sums.chunks_exact(self.outputs).zip(ctx.g.chunks_exact(self.outputs));
        for (i, ((sums, g), square)) in rows.zip(squares).enumerate() {
            let found = outer::weighted_squared_norm_f64(g, sums);
            // The effect of these additions and of weights below 1 on the result.
            let g_squared = outer::squared_norm_f64(g);
            let underflow = self.inputs as f64 * outer::UNDERFLOW_ERROR * g_squared;
            let x = ctx.example(i).x;
            if outer::is_mid_range(x) && found.is_finite() && outer::is_reliable(found, underflow) {
                *square += found
            } else {
                recomputed.push(i)
            }
        }
    }
}
