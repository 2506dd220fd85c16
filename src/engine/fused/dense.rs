//! Linear layers, on plain features or at every step of a sequence.

use super::activation::Activation;
use super::layout::{Map, Part};
use super::op::{Chunk, NormMethod, Op, Rows, Scratch, Seen, room};
use super::outer;
use crate::nn::kernels::product::{Matrix, Store, product};

pub(super) struct Dense {
    inputs: usize,
    outputs: usize,
    /// Steps of the sequence; 1 for plain features.
    steps: usize,
    activation: Activation,
    parts: Vec<Part>,
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
        let mut parts = vec![Part::large(0, Map::Plain { len: inputs * outputs })];
        if bias {
            parts.push(Part::small(0, outputs));
        }
        let bias = bias.then(|| vec![0.0; outputs]);
        Self {
            inputs,
            outputs,
            steps,
            activation,
            parts,
            weight: vec![0.0; inputs * outputs],
            bias,
        }
    }
}

impl Op for Dense {
    fn len(&self) -> usize {
        self.steps * self.outputs
    }

    fn layout(&self) -> &[Part] {
        &self.parts
    }

    fn load(&mut self, small: &[f32], large: &[f32]) {
        if let Some(bias) = &mut self.bias {
            bias.copy_from_slice(small);
        }
        self.weight.copy_from_slice(large);
    }

    fn forward(&self, rows: Rows, x: &[f32], y: &mut [f32], _: &mut [f32], _: &mut Scratch) {
        let x = Matrix::new(x, rows.all() * self.steps, self.inputs);
        let weight = Matrix::new(&self.weight, self.inputs, self.outputs);
        product(y, Store::Replace, x, weight);
        self.activation.apply(y, self.bias.as_deref());
    }

    fn backward(
        &self,
        seen: Chunk,
        gx: Option<(&mut [f32], Store)>,
        small: &mut [f32],
        _: &mut Scratch,
    ) {
        self.activation.back(seen.y, seen.g);
        if self.bias.is_some() {
            let each = small.chunks_exact_mut(self.outputs);
            let rows = seen.g.chunks_exact(seen.rows.copies * self.len());
            each.zip(rows).for_each(|(bias, g)| outer::add_rows(g, bias));
        }
        if let Some((gx, store)) = gx {
            let g = Matrix::new(seen.g, seen.rows.all() * self.steps, self.outputs);
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

    fn squares(
        &self,
        seen: Seen,
        weights: Option<&[f32]>,
        squares: &mut [f64],
        alone: &mut Vec<usize>,
        scratch: &mut Scratch,
    ) {
        let positions = seen.rows.copies * self.steps;
        if let (1, Some(weights)) = (positions, weights) {
            return self.weighted_squares(seen, weights, squares, alone, scratch);
        }
        if positions == 1 {
            let each = seen.x.chunks_exact(self.inputs).zip(seen.g.chunks_exact(self.outputs));
            each.zip(squares).for_each(|((x, g), square)| *square += outer::ghost_vector(x, g));
            return;
        }
        let (mut columns, mut aligned) = (vec![0.0; self.outputs], vec![0.0; self.outputs]);
        for (i, square) in squares.iter_mut().enumerate() {
            let seen = seen.example(i);
            let gram = outer::gram(seen.x, positions, &mut scratch.second);
            let gram = (gram, self.inputs);
            outer::ghost_columns(gram, seen.g, &mut columns, &mut aligned, &mut scratch.third);
            let found = columns.iter().sum::<f64>();
            let ordinary = outer::ordinary(seen.x) && outer::ordinary(seen.g);
            match ordinary && outer::clear(found, aligned.iter().sum()) {
                true => *square += found,
                false => alone.push(i),
            }
        }
    }

    fn instance(
        &self,
        seen: Seen,
        weights: Option<&[f32]>,
        out: &mut [f32],
        _: &mut Scratch,
    ) -> f64 {
        let positions = seen.rows.copies * self.steps;
        let x = Matrix::new(seen.x, positions, self.inputs);
        product(out, Store::Replace, x.transposed(), Matrix::new(seen.g, positions, self.outputs));
        outer::weighted_squares(out, weights)
    }

    fn weighted_sum(
        &self,
        seen: Seen,
        factors: Option<&[f32]>,
        sum: &mut [f32],
        scratch: &mut Scratch,
    ) {
        let rows = seen.rows.all() * self.steps;
        outer::weighted(seen.x, seen.g, rows, factors, sum, &mut scratch.third);
    }
}

impl Dense {
    /// `Σ w g² x²` for all examples by one product of squares; plain features only.
    ///
    /// The smallest normal number is added to each square, for it may be that much too small, and
    /// a large weight would make much of it: with weights above 1 a norm may come out too large.
    fn weighted_squares(
        &self,
        seen: Seen,
        weights: &[f32],
        squares: &mut [f64],
        alone: &mut Vec<usize>,
        scratch: &mut Scratch,
    ) {
        let examples = squares.len();
        let x = room(&mut scratch.second, examples * self.inputs);
        x.iter_mut().zip(seen.x).for_each(|(to, x)| *to = x * x + f32::MIN_POSITIVE);
        let sums = room(&mut scratch.third, examples * self.outputs);
        let x = Matrix::new(x, examples, self.inputs);
        product(sums, Store::Replace, x, Matrix::new(weights, self.inputs, self.outputs));
        let rows = sums.chunks_exact(self.outputs).zip(seen.g.chunks_exact(self.outputs));
        for (i, ((sums, g), square)) in rows.zip(squares).enumerate() {
            let (mut found, mut length) = (0.0, 0.0);
            for (&sum, &g) in sums.iter().zip(g) {
                let g = f64::from(g) * f64::from(g);
                found += f64::from(sum) * g;
                length += g;
            }
            // What that and weights below 1 can make of the result.
            let unseen = self.inputs as f64 * outer::UNSEEN * length;
            let x = seen.example(i).x;
            match outer::ordinary(x) && found.is_finite() && outer::clear(found, unseen) {
                true => *square += found,
                false => alone.push(i),
            }
        }
    }
}
