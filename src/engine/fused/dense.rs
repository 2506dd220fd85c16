//! Linear layers, on plain features or at every time step of a sequence.

use super::op::{
    Backward, Context, Forward, InputGradient, Large, LargeParameters, NormMethod, Op, Scratch,
    resize_buffer,
};
use super::outer_product;
use super::packed_layout::{PackedLayout, ParameterSlot};
use super::packed_weights::PackedTensorWeights;
use crate::nn::kernels::product::{MatrixView, WriteMode, matmul};

pub(super) struct Dense {
    inputs: usize,
    outputs: usize,
    /// Number of time steps; 1 for plain features.
    steps: usize,
    slots: Vec<ParameterSlot>,
    weight: Vec<f32>,
    /// Empty without a bias.
    bias: Vec<f32>,
}

impl Dense {
    pub(super) fn new([inputs, outputs]: [usize; 2], steps: usize, bias: bool) -> Self {
        let mut slots =
            vec![ParameterSlot::large(0, PackedLayout::Plain { len: inputs * outputs })];
        if bias {
            slots.push(ParameterSlot::small(0, outputs));
        }
        let bias = vec![0.0; if bias { outputs } else { 0 }];
        Self { inputs, outputs, steps, slots, weight: vec![0.0; inputs * outputs], bias }
    }
}

impl Op for Dense {
    fn len(&self) -> usize {
        self.steps * self.outputs
    }

    fn parameter_slots(&self) -> &[ParameterSlot] {
        &self.slots
    }

    fn describe(&self) -> String {
        let per_step =
            if self.steps > 1 { format!(", {} steps", self.steps) } else { String::new() };
        format!("linear, {} to {}{per_step}", self.inputs, self.outputs)
    }

    fn load(&mut self, small: &[f32], large: &[f32]) {
        self.bias.copy_from_slice(small);
        self.weight.copy_from_slice(large);
    }

    fn forward(&self, pass: Forward) {
        let x = MatrixView::new(pass.x, pass.rows.total() * self.steps, self.inputs);
        let weight = MatrixView::new(&self.weight, self.inputs, self.outputs);
        matmul(pass.y, WriteMode::Overwrite, x, weight);
        pass.activation.apply(pass.y, &self.bias);
    }

    fn backward(&self, pass: Backward) {
        outer_product::add_bias_gradients(pass.g, pass.rows.examples, pass.small);
        if let Some(InputGradient { values, store }) = pass.gx {
            let g = MatrixView::new(pass.g, pass.rows.total() * self.steps, self.outputs);
            let weight = MatrixView::new(&self.weight, self.inputs, self.outputs);
            matmul(values, store, g, weight.transposed());
        }
    }

    fn large(&self) -> Option<Large<'_>> {
        Some(Large::Matrices(self))
    }
}

impl LargeParameters for Dense {
    fn multiplications(&self) -> usize {
        self.steps * self.inputs * self.outputs
    }

    fn norm_method(&self, copies: usize, weighted: bool) -> NormMethod {
        let positions = copies * self.steps;
        match (positions, weighted) {
            (1, _) => NormMethod::Ghost,
            (_, true) => NormMethod::Instantiated,
            _ => outer_product::choose_norm_method(positions, self.inputs, self.outputs),
        }
    }

    fn squared_norms(&self, ctx: Context, scratch: &mut Scratch) -> Vec<Option<f64>> {
        let positions = ctx.rows.copies * self.steps;
        if let (1, Some(weights)) = (positions, ctx.weights) {
            return self.weighted_squared_norms(ctx, weights, scratch);
        }
        if positions == 1 {
            let each = ctx.x.chunks_exact(self.inputs).zip(ctx.g.chunks_exact(self.outputs));
            return each
                .map(|(x, g)| Some(outer_product::outer_product_squared_norm(x, g)))
                .collect();
        }
        let (mut columns, mut aligned) = (vec![0.0; self.outputs], vec![0.0; self.outputs]);
        let square = |i: usize| {
            let Context { x, g, .. } = ctx.example(i);
            let gram = (outer_product::gram_matrix(x, positions, &mut scratch.gram), self.inputs);
            let product = &mut scratch.gram_product;
            outer_product::column_squared_norms(gram, g, &mut columns, &mut aligned, product);
            let square = columns.iter().sum::<f64>();
            let mid_range = outer_product::is_mid_range(x) && outer_product::is_mid_range(g);
            let is_reliable = mid_range && outer_product::is_reliable(square, aligned.iter().sum());
            is_reliable.then_some(square)
        };
        (0..ctx.rows.examples).map(square).collect()
    }

    fn instance_gradient(&self, ctx: Context, out: &mut [f32], _: &mut Scratch) -> f64 {
        let positions = ctx.rows.copies * self.steps;
        let x = MatrixView::new(ctx.x, positions, self.inputs);
        matmul(
            out,
            WriteMode::Overwrite,
            x.transposed(),
            MatrixView::new(ctx.g, positions, self.outputs),
        );
        ctx.squared_norm(out)
    }

    fn sums_more_rows(&self, rows: usize) -> bool {
        outer_product::is_memory_bound_sum(rows * self.steps, self.inputs * self.outputs)
    }

    fn weighted_sum(&self, ctx: Context, sum: &mut [f32], scratch: &mut Scratch) {
        let rows = ctx.rows.total() * self.steps;
        outer_product::add_weighted_product(
            ctx.x,
            ctx.g,
            rows,
            ctx.factors,
            sum,
            &mut scratch.weighted,
        );
    }
}

impl Dense {
    /// Computes `Σ w g² x²` of each example: sums over inputs first, which need additions only if
    /// the weights are flags, and one matrix product of squares otherwise. Only for plain
    /// features.
    ///
    /// The smallest normal f32 is added to each square, because underflow may have lost that much
    /// and a large weight would amplify the loss. With weights above 1, a norm may therefore come
    /// out too large.
    fn weighted_squared_norms(
        &self,
        ctx: Context,
        weights: &PackedTensorWeights,
        scratch: &mut Scratch,
    ) -> Vec<Option<f64>> {
        let examples = ctx.rows.examples;
        let square = |x: f32| x * x + f32::MIN_POSITIVE;
        let sums = resize_buffer(&mut scratch.sums, examples * self.outputs);
        if let Some(kept) = weights.binary_mask(self.outputs) {
            kept.masked_sums(ctx.x, square, sums, &mut scratch.kept);
        } else {
            let x = resize_buffer(&mut scratch.squares, examples * self.inputs);
            x.iter_mut().zip(ctx.x).for_each(|(to, &x)| *to = square(x));
            let x = MatrixView::new(x, examples, self.inputs);
            let weights = MatrixView::new(&weights.values, self.inputs, self.outputs);
            matmul(sums, WriteMode::Overwrite, x, weights);
        }
        let rows = sums.chunks_exact(self.outputs).zip(ctx.g.chunks_exact(self.outputs));
        let square = |((sums, g), x): ((&[f32], &[f32]), &[f32])| {
            let square = outer_product::weighted_squared_norm_f64(g, sums);
            // The effect of these additions and of weights below 1 on the result.
            let g_squared = outer_product::squared_norm_f64(g);
            let underflow = self.inputs as f64 * outer_product::UNDERFLOW_ERROR * g_squared;
            let is_reliable = outer_product::is_mid_range(x)
                && square.is_finite()
                && outer_product::is_reliable(square, underflow);
            is_reliable.then_some(square)
        };
        rows.zip(ctx.x.chunks_exact(self.inputs)).map(square).collect()
    }
}
