//! LSTM layers, unidirectional or bidirectional.

use super::backprop_clip::GradientClip;
use super::op::{
    Backward, Context, Forward, InputGradient, Large, LargeParameters, Op, Scratch, resize_buffer,
};
use super::outer_product;
use super::packed_layout::{PackedLayout, ParameterSlot};
use crate::nn::kernels::product::{MatrixView, WriteMode, matmul, matmul_strided};
use crate::nn::kernels::tanh::scalar as tanh;
use crate::nn::kernels::vectorised;

/// LSTM layer whose gates are blocks of `hidden` columns in matrices of `4 x hidden` columns:
/// input, forget, cell, output, as in Burn.
pub(super) struct Lstm {
    inputs: usize,
    hidden: usize,
    steps: usize,
    slots: Vec<ParameterSlot>,
    directions: Vec<Direction>,
    clip: Option<GradientClip>,
}

struct Direction {
    /// Whether time runs backwards: the step before `t` is then `t + 1`.
    reverse: bool,
    input: Vec<f32>,
    recurrent_weight: Vec<f32>,
    /// Sum of the two biases of each gate.
    bias: Vec<f32>,
}

impl Lstm {
    /// Creates the layer; a clip, if there is one, is that of the gradient of the pre-activations
    /// of all steps and directions.
    pub(super) fn new(
        [inputs, hidden, steps]: [usize; 3],
        bidirectional: bool,
        clip: Option<GradientClip>,
    ) -> Self {
        let width = 4 * hidden;
        let mut slots = Vec::new();
        let directions = if bidirectional { 2 } else { 1 };
        for direction in 0..directions {
            let large = direction * (inputs + hidden) * width;
            let small = direction * 2 * width;
            for gate in 0..4 {
                let offset = gate * hidden;
                let columns = |rows| PackedLayout::Columns { rows, columns: hidden, width };
                slots.extend([
                    ParameterSlot::large(large + offset, columns(inputs)),
                    ParameterSlot::small(small + offset, hidden),
                    ParameterSlot::large(large + inputs * width + offset, columns(hidden)),
                    ParameterSlot::small(small + width + offset, hidden),
                ]);
            }
        }
        let direction = |reverse| Direction {
            reverse,
            input: vec![0.0; inputs * width],
            recurrent_weight: vec![0.0; hidden * width],
            bias: vec![0.0; width],
        };
        let directions = (0..directions).map(|d| direction(d == 1)).collect();
        let clip = clip.map(|clip| GradientClip { channels: width, len: steps * width, ..clip });
        Self { inputs, hidden, steps, slots, directions, clip }
    }

    fn width(&self) -> usize {
        4 * self.hidden
    }

    /// Returns the number of output features per time step.
    fn outputs(&self) -> usize {
        self.directions.len() * self.hidden
    }

    /// Returns the number of large parameters per direction.
    fn large_per_direction(&self) -> usize {
        (self.inputs + self.hidden) * self.width()
    }

    /// Returns the offsets of a direction's gates and cell states in a row of saved values.
    fn offsets(&self, direction: usize) -> (usize, usize) {
        let gates = direction * self.steps * 5 * self.hidden;
        (gates, gates + self.steps * self.width())
    }

    /// Adds `factor` times the gradients of one row with respect to both matrices to `out`.
    fn add_gradients(
        &self,
        ctx: Context,
        row: usize,
        factor: f32,
        out: &mut [f32],
        scaled: &mut Vec<f32>,
    ) {
        let (steps, width, hidden) = (self.steps, self.width(), self.hidden);
        let x = &ctx.x[row * steps * self.inputs..(row + 1) * steps * self.inputs];
        let y = &ctx.y[row * self.len()..(row + 1) * self.len()];
        let saved = &ctx.saved[row * self.saved_len()..(row + 1) * self.saved_len()];
        for (d, (direction, out)) in
            self.directions.iter().zip(out.chunks_exact_mut(self.large_per_direction())).enumerate()
        {
            let (gates, _) = self.offsets(d);
            let mut g = &saved[gates..gates + steps * width];
            if factor != 1.0 {
                let to = resize_buffer(scaled, g.len());
                to.iter_mut().zip(g).for_each(|(to, g)| *to = factor * g);
                g = to;
            }
            let (input, recurrent) = out.split_at_mut(self.inputs * width);
            let x = MatrixView::new(x, steps, self.inputs);
            matmul(input, WriteMode::Accumulate, x.transposed(), MatrixView::new(g, steps, width));
            if steps == 1 {
                continue;
            }
            // All steps but the first of this direction have a previous output.
            let (before, after) = if direction.reverse { (1, 0) } else { (0, 1) };
            let y = &y[before * self.outputs() + d * hidden..];
            let before = MatrixView::strided(y, steps - 1, hidden, self.outputs());
            let g = &g[after * width..(after + steps - 1) * width];
            matmul(
                recurrent,
                WriteMode::Accumulate,
                before.transposed(),
                MatrixView::new(g, steps - 1, width),
            );
        }
    }
}

impl Op for Lstm {
    fn len(&self) -> usize {
        self.steps * self.outputs()
    }

    /// Returns the number of saved values, per direction and step: the four gates, which the
    /// backward pass overwrites with the gradients before their non-linearities, and the cell
    /// state.
    fn saved_len(&self) -> usize {
        self.directions.len() * self.steps * 5 * self.hidden
    }

    fn parameter_slots(&self) -> &[ParameterSlot] {
        &self.slots
    }

    fn describe(&self) -> String {
        let directions = if self.directions.len() > 1 { ", both directions" } else { "" };
        format!("lstm, {} to {}, {} steps{directions}", self.inputs, self.hidden, self.steps)
    }

    fn load(&mut self, small: &[f32], large: &[f32]) {
        let (width, inputs) = (4 * self.hidden, self.inputs);
        let each =
            small.chunks_exact(2 * width).zip(large.chunks_exact((inputs + self.hidden) * width));
        for (direction, (small, large)) in self.directions.iter_mut().zip(each) {
            direction.input.copy_from_slice(&large[..inputs * width]);
            direction.recurrent_weight.copy_from_slice(&large[inputs * width..]);
            let (first, second) = small.split_at(width);
            let sums = first.iter().zip(second).map(|(a, b)| a + b);
            direction.bias.iter_mut().zip(sums).for_each(|(b, sum)| *b = sum);
        }
    }

    fn forward(&self, pass: Forward) {
        let Forward { x, y, saved, .. } = pass;
        let (n, steps, hidden, width) = (pass.rows.total(), self.steps, self.hidden, self.width());
        let (len, row) = (self.len(), self.saved_len());
        let before = resize_buffer(&mut pass.scratch.state, n * hidden);
        for (d, direction) in self.directions.iter().enumerate() {
            let (gates, cells) = self.offsets(d);
            let input = MatrixView::new(&direction.input, self.inputs, width);
            let recurrent = MatrixView::new(&direction.recurrent_weight, hidden, width);
            for k in 0..steps {
                let t = if direction.reverse { steps - 1 - k } else { k };
                let x =
                    MatrixView::strided(&x[t * self.inputs..], n, self.inputs, steps * self.inputs);
                let z = &mut saved[gates + t * width..];
                matmul_strided(z, row, WriteMode::Overwrite, x, input);
                if k > 0 {
                    matmul_strided(
                        z,
                        row,
                        WriteMode::Accumulate,
                        MatrixView::new(before, n, hidden),
                        recurrent,
                    );
                }
                let previous = if direction.reverse { t + 1 } else { t.wrapping_sub(1) };
                for i in 0..n {
                    let saved = &mut saved[i * row..(i + 1) * row];
                    let (front, back) = saved.split_at_mut(cells);
                    let z = &mut front[gates + t * width..gates + (t + 1) * width];
                    let h = &mut before[i * hidden..(i + 1) * hidden];
                    if k == 0 {
                        h.fill(0.0);
                    } else {
                        h.copy_from_slice(&back[previous * hidden..(previous + 1) * hidden]);
                    }
                    let c = &mut back[t * hidden..(t + 1) * hidden];
                    step(z, &direction.bias, c, h);
                    let offset = i * len + t * self.outputs() + d * hidden;
                    y[offset..offset + hidden].copy_from_slice(h);
                }
            }
        }
    }

    fn backward(&self, pass: Backward) {
        let Backward { rows, saved, scratch, .. } = pass;
        let (n, steps, hidden, width) = (rows.total(), self.steps, self.hidden, self.width());
        let (len, row) = (self.len(), self.saved_len());
        let dh = resize_buffer(&mut scratch.state, n * hidden);
        let dc = resize_buffer(&mut scratch.cell, n * hidden);
        let zeros = vec![0.0; hidden];
        for (d, direction) in self.directions.iter().enumerate() {
            let (gates, cells) = self.offsets(d);
            dh.fill(0.0);
            dc.fill(0.0);
            for k in (0..steps).rev() {
                let t = if direction.reverse { steps - 1 - k } else { k };
                let previous = if direction.reverse { t + 1 } else { t.wrapping_sub(1) };
                for i in 0..n {
                    let saved = &mut saved[i * row..(i + 1) * row];
                    let (front, back) = saved.split_at_mut(cells);
                    let z = &mut front[gates + t * width..gates + (t + 1) * width];
                    let before = if k == 0 {
                        &zeros[..]
                    } else {
                        &back[previous * hidden..(previous + 1) * hidden]
                    };
                    let c = &back[t * hidden..(t + 1) * hidden];
                    let offset = i * len + t * self.outputs() + d * hidden;
                    let range = i * hidden..(i + 1) * hidden;
                    let g = &pass.g[offset..offset + hidden];
                    step_back(z, c, before, g, &dh[range.clone()], &mut dc[range]);
                }
                let z = MatrixView::strided(&saved[gates + t * width..], n, width, row);
                let recurrent = MatrixView::new(&direction.recurrent_weight, hidden, width);
                matmul(dh, WriteMode::Overwrite, z, recurrent.transposed());
            }
        }
        let (copies, each) = (rows.copies, self.directions.len() * 2 * width);
        if let Some(clip) = &self.clip {
            for saved in saved.chunks_exact_mut(row) {
                // The first part of each direction's values are the gradients.
                let directions = saved.chunks_exact_mut(steps * 5 * hidden);
                let gates = directions.map(|values| &mut values[..steps * width]);
                clip.apply_to_parts(copies, &mut gates.collect::<Vec<_>>());
            }
        }
        for d in 0..self.directions.len() {
            let (gates, _) = self.offsets(d);
            for i in 0..n {
                let g = &saved[i * row + gates..i * row + gates + steps * width];
                let bias = &mut pass.small[i / copies * each + d * 2 * width..][..2 * width];
                let (first, second) = bias.split_at_mut(width);
                outer_product::add_rows(g, first);
                second.copy_from_slice(first);
            }
        }
        let Some(InputGradient { values, store }) = pass.gx else { return };
        for (d, direction) in self.directions.iter().enumerate() {
            let (gates, _) = self.offsets(d);
            let input = MatrixView::new(&direction.input, self.inputs, width);
            let store = if d == 0 { store } else { WriteMode::Accumulate };
            for (i, gx) in values.chunks_exact_mut(steps * self.inputs).enumerate() {
                let g = &saved[i * row + gates..i * row + gates + steps * width];
                matmul(gx, store, MatrixView::new(g, steps, width), input.transposed());
            }
        }
    }

    fn large(&self) -> Option<Large<'_>> {
        Some(Large::Matrices(self))
    }
}

impl LargeParameters for Lstm {
    fn multiplications(&self) -> usize {
        self.steps * self.directions.len() * self.large_per_direction()
    }

    fn instance_gradient(&self, ctx: Context, out: &mut [f32], scratch: &mut Scratch) -> f64 {
        out.fill(0.0);
        for row in 0..ctx.rows.copies {
            self.add_gradients(ctx, row, 1.0, out, &mut scratch.weighted);
        }
        ctx.squared_norm(out)
    }

    fn weighted_sum(&self, ctx: Context, sum: &mut [f32], scratch: &mut Scratch) {
        for row in 0..ctx.rows.total() {
            let factor = ctx.factors.map_or(1.0, |f| f[row / ctx.rows.copies]);
            self.add_gradients(ctx, row, factor, sum, &mut scratch.weighted);
        }
    }
}

#[inline(always)]
fn sigmoid(x: f32) -> f32 {
    0.5 + 0.5 * tanh(0.5 * x)
}

vectorised! {
    /// Computes one time step of one row. `z` holds the pre-activations and receives the gates,
    /// `h` holds the previous cell state and receives the output, `c` receives the cell state.
    fn step(z: &mut [f32], bias: &[f32], c: &mut [f32], h: &mut [f32]) {
        let n = c.len();
        let (z, bias) = (&mut z[..4 * n], &bias[..4 * n]);
        let h = &mut h[..n];
        for j in 0..n {
            let i = sigmoid(z[j] + bias[j]);
            let f = sigmoid(z[n + j] + bias[n + j]);
            let g = tanh(z[2 * n + j] + bias[2 * n + j]);
            let o = sigmoid(z[3 * n + j] + bias[3 * n + j]);
            z[j] = i;
            z[n + j] = f;
            z[2 * n + j] = g;
            z[3 * n + j] = o;
            c[j] = f * h[j] + i * g;
            h[j] = o * tanh(c[j]);
        }
    }
}

vectorised! {
    /// Computes the backward pass of [`step`]: `z` holds the gates and receives the gradients of
    /// the pre-activations.
    fn step_back(z: &mut [f32], c: &[f32], before: &[f32], g: &[f32], dh: &[f32], dc: &mut [f32]) {
        let n = c.len();
        let (z, before) = (&mut z[..4 * n], &before[..n]);
        let (g, dh, dc) = (&g[..n], &dh[..n], &mut dc[..n]);
        for j in 0..n {
            let (i, f, u, o) = (z[j], z[n + j], z[2 * n + j], z[3 * n + j]);
            let t = tanh(c[j]);
            let by_h = g[j] + dh[j];
            let by_c = dc[j] + by_h * o * (1.0 - t * t);
            z[j] = by_c * u * i * (1.0 - i);
            z[n + j] = by_c * before[j] * f * (1.0 - f);
            z[2 * n + j] = by_c * i * (1.0 - u * u);
            z[3 * n + j] = by_h * t * o * (1.0 - o);
            dc[j] = by_c * f;
        }
    }
}
