//! What the fused executor asks of a layer.

use super::layout::ParameterSlot;
use crate::nn::kernels::product::Store;

/// How many examples a chunk holds, and how many augmented copies there are of each. Buffers hold
/// one row per copy, the copies of an example one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    pub(super) examples: usize,
    pub(super) copies: usize,
}

impl Rows {
    pub(super) fn total(self) -> usize {
        self.examples * self.copies
    }
}

/// Buffers that a worker reuses from layer to layer.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) patches: Vec<f32>,
    pub(super) second: Vec<f32>,
    pub(super) third: Vec<f32>,
    pub(super) fourth: Vec<f32>,
    pub(super) fifth: Vec<f32>,
}

/// A buffer of exactly this length; what it holds is whatever was there.
pub(super) fn resize_buffer(buffer: &mut Vec<f32>, len: usize) -> &mut [f32] {
    if buffer.len() < len {
        buffer.resize(len, 0.0);
    }
    &mut buffer[..len]
}

/// What a layer saw of one chunk, row by row: its input, its output and what it saved of the
/// forward pass, and the gradient by its output before the activation.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) rows: Rows,
    pub(super) x: &'a [f32],
    pub(super) y: &'a [f32],
    pub(super) saved: &'a [f32],
    pub(super) g: &'a [f32],
}

impl<'a> Context<'a> {
    /// The part of example `i`: all its copies.
    pub(super) fn example(self, i: usize) -> Self {
        let part = |all: &'a [f32]| {
            let len = all.len() / self.rows.examples;
            &all[i * len..(i + 1) * len]
        };
        Self {
            rows: Rows { examples: 1, copies: self.rows.copies },
            x: part(self.x),
            y: part(self.y),
            saved: part(self.saved),
            g: part(self.g),
        }
    }
}

/// Rows to be added to a sum: where each begins, and all their numbers.
#[derive(Default)]
pub(super) struct Sparse {
    pub(super) offsets: Vec<usize>,
    pub(super) values: Vec<f32>,
}

/// How the norms of a layer's large parameters are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NormMethod {
    /// From inputs and output gradients, for a whole chunk, without the gradients themselves.
    Ghost,
    /// Each example's gradient in turn.
    Instance,
}

/// A layer on plain numbers, channels last. A row of its buffers is one copy of one example.
///
/// Parameters are of two kinds. Small ones (biases, gains) have their per-example gradients
/// written down during the backward pass. Large ones are either never formed per example
/// ([`NormMethod::Ghost`]) or formed for one example at a time ([`NormMethod::Instance`]).
pub(super) trait Op: Send + Sync {
    /// DeviceArray in one row of the output.
    fn len(&self) -> usize;

    /// DeviceArray saved per row for the backward pass besides input and output.
    fn saved_len(&self) -> usize {
        0
    }

    /// The parameters, in the network's order.
    fn layout(&self) -> &[ParameterSlot] {
        &[]
    }

    /// DeviceArray of the small parameters.
    fn small_len(&self) -> usize {
        self.layout().iter().filter(|slot| slot.small).map(ParameterSlot::len).sum()
    }

    /// DeviceArray of the large parameters.
    fn large_len(&self) -> usize {
        self.layout().iter().filter(|slot| !slot.small).map(ParameterSlot::len).sum()
    }

    /// Takes over the values of its parameters, small and large, in its own layout.
    fn load(&mut self, _small: &[f32], _large: &[f32]) {}

    /// `y` from `x`.
    fn forward(
        &self,
        rows: Rows,
        x: &[f32],
        y: &mut [f32],
        saved: &mut [f32],
        scratch: &mut Scratch,
    );

    /// From the gradient `g` by the output: first that before the activation, in its place; then
    /// the small parameters' gradients, `small`, one row per example, which starts at zero; then
    /// the gradient by the input into `gx`, if anybody wants it.
    fn backward(
        &self,
        ctx: ContextMut,
        gx: Option<(&mut [f32], Store)>,
        small: &mut [f32],
        scratch: &mut Scratch,
    );

    /// How the large parameters' norms are found; `weighted` if coordinates have weights.
    fn norm_method(&self, _copies: usize, _weighted: bool) -> NormMethod {
        NormMethod::Instance
    }

    /// Adds to each example's square of the norm that of the large parameters' gradients. Only
    /// asked if [`how`](Self::how) says `Ghost`. An example whose square is mostly rounding goes
    /// to `recomputed` instead: its gradient is formed, measured and added by itself, for the terms
    /// that cancel in it would not among those of other examples.
    fn add_squared_norms(
        &self,
        _ctx: Context,
        _weights: Option<&[f32]>,
        _squares: &mut [f64],
        _recomputed: &mut Vec<usize>,
        _scratch: &mut Scratch,
    ) {
    }

    /// One example's gradient by the large parameters, and the square of its weighted norm: the
    /// very numbers that are measured are added to the sum.
    fn instance_gradient(
        &self,
        _ctx: Context,
        _weights: Option<&[f32]>,
        _out: &mut [f32],
        _scratch: &mut Scratch,
    ) -> f64 {
        0.0
    }

    /// Adds the sum over the chunk's examples of factor times gradient by the large parameters;
    /// `None` for factors that are all one.
    fn weighted_sum(
        &self,
        _ctx: Context,
        _factors: Option<&[f32]>,
        _sum: &mut [f32],
        _scratch: &mut Scratch,
    ) {
    }

    /// DeviceArray in a weighted sum if it is not by the parameters themselves but by what is made
    /// of them, with [`finish`](Self::finish) as the way back; it then has a place of its own.
    fn transformed_len(&self) -> Option<usize> {
        None
    }

    /// Adds to `large` the gradient by the parameters that follows from an indirect sum.
    fn add_transformed_sum(&self, _transformed: &[f32], _large: &mut [f32]) {}

    /// Itself, if it is a dropout layer: the pass draws what is saved.
    fn dropout(&self) -> Option<&super::stateless::Dropout> {
        None
    }

    /// Whether most of the large parameters' sum is zero: then [`rows`](Self::rows) makes it.
    fn is_sparse(&self) -> bool {
        false
    }

    /// As [`weighted_sum`](Self::weighted_sum), for layers whose examples touch few rows.
    fn sparse_sum(&self, _ctx: Context, _factors: Option<&[f32]>, _sum: &mut Sparse) {}
}

/// What a layer is given for its backward pass.
pub(super) struct ContextMut<'a> {
    pub(super) rows: Rows,
    pub(super) x: &'a [f32],
    pub(super) y: &'a [f32],
    pub(super) saved: &'a mut [f32],
    pub(super) g: &'a mut [f32],
}
