//! What a layer computes in the fused executor: [`Op`], and [`LargeParameters`] for layers that
//! multiply matrices.

use super::activation::Activation;
use super::embedding::Embedding;
use super::kept::KeptScratch;
use super::layout::ParameterSlot;
use super::outer::{add, weighted_squared_norm};
use super::packed::CoordinateWeights;
use super::stateless::Dropout;
use crate::nn::kernels::product::Store;

/// Number of examples in a chunk and augmentation multiplicity. Buffers hold `examples x copies`
/// rows, the copies of an example next to each other.
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

/// Temporary buffers that a worker reuses from layer to layer.
#[derive(Default)]
pub(super) struct Scratch {
    /// Patches of images.
    pub(super) patches: Vec<f32>,
    /// The sum of each patch.
    pub(super) patch_sums: Vec<f32>,
    /// The output gradient of one group of channels.
    pub(super) group_outputs: Vec<f32>,
    /// Output gradients times factors.
    pub(super) weighted: Vec<f32>,
    /// A Gram matrix, and its product with output gradients.
    pub(super) gram: Vec<f32>,
    pub(super) gram_product: Vec<f32>,
    /// The Gram matrix of pixels, without and with padding.
    pub(super) pixels: Vec<f32>,
    pub(super) padded_pixels: Vec<f32>,
    /// Squares of inputs, and their weighted sums.
    pub(super) squares: Vec<f32>,
    pub(super) sums: Vec<f32>,
    /// A few values per channel.
    pub(super) channels: Vec<f32>,
    /// The recurrent state of each row or its gradient, and the gradient of the cell state.
    pub(super) state: Vec<f32>,
    pub(super) cell: Vec<f32>,
    /// A dropout mask in Burn's order.
    pub(super) mask: Vec<f32>,
    pub(super) kept: KeptScratch,
}

/// The first `len` elements of `buffer`, which grows if necessary. The contents are unspecified.
pub(super) fn resize_buffer(buffer: &mut Vec<f32>, len: usize) -> &mut [f32] {
    if buffer.len() < len {
        buffer.resize(len, 0.0);
    }
    &mut buffer[..len]
}

/// The forward pass of a layer for one chunk: from the input `x` to the output `y`, with the
/// activation. `saved` are values for the backward pass.
pub(super) struct Forward<'a> {
    pub(super) rows: Rows,
    pub(super) x: &'a [f32],
    pub(super) y: &'a mut [f32],
    pub(super) saved: &'a mut [f32],
    pub(super) activation: Activation,
    pub(super) scratch: &'a mut Scratch,
}

/// The backward pass of a layer for one chunk: from the gradient `g` before the activation to that
/// of the input.
pub(super) struct Backward<'a> {
    pub(super) rows: Rows,
    pub(super) x: &'a [f32],
    pub(super) y: &'a [f32],
    pub(super) saved: &'a mut [f32],
    pub(super) g: &'a mut [f32],
    /// `None` if nothing needs it.
    pub(super) gx: Option<InputGradient<'a>>,
    /// Receives the gradients of the small parameters, one row per example; zero before.
    pub(super) small: &'a mut [f32],
    pub(super) scratch: &'a mut Scratch,
}

/// The gradient of the loss with respect to a layer's input, which is written or added to.
pub(super) struct InputGradient<'a> {
    pub(super) values: &'a mut [f32],
    pub(super) store: Store,
}

impl<'a> InputGradient<'a> {
    /// The values, ready to be added to.
    pub(super) fn zeroed(self) -> &'a mut [f32] {
        if self.store == Store::Replace {
            self.values.fill(0.0);
        }
        self.values
    }
}

/// What a convolution reads and writes.
pub(super) struct Convolution<'a> {
    pub(super) images: &'a [f32],
    /// The kernel, or for the gradient of the kernel the gradient of the output.
    pub(super) with: &'a [f32],
    pub(super) out: &'a mut [f32],
    pub(super) store: Store,
    pub(super) scratch: &'a mut Vec<f32>,
}

impl Store {
    /// Writes `from` to `to`, or adds it.
    pub(super) fn put(self, to: &mut [f32], from: &[f32]) {
        match self {
            Self::Replace => to.copy_from_slice(from),
            Self::Add => add(to, from),
        }
    }
}

/// A layer's values for one chunk after the backward pass, row by row: input `x`, output `y`,
/// `saved` values, and the gradient `g` of the loss with respect to the output before the
/// activation; with what sums and norms take into account.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) rows: Rows,
    pub(super) x: &'a [f32],
    pub(super) y: &'a [f32],
    pub(super) saved: &'a [f32],
    pub(super) g: &'a [f32],
    /// The weights of the large parameters; `None` for ones and zeros.
    pub(super) weights: Option<&'a CoordinateWeights>,
    /// The factors of the examples in a sum; `None` for factors of 1.
    pub(super) factors: Option<&'a [f32]>,
}

impl<'a> Context<'a> {
    /// The squared norm of a gradient of the large parameters.
    pub(super) fn squared_norm(self, gradient: &[f32]) -> f64 {
        weighted_squared_norm(gradient, self.weights.map(|weights| weights.values.as_slice()))
    }

    /// The rows of example `i`.
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
            factors: self.factors.map(|factors| &factors[i..=i]),
            ..self
        }
    }
}

/// Rows to be added to a table: the offset of each row, and the values of all rows.
#[derive(Default)]
pub(super) struct Sparse {
    pub(super) offsets: Vec<usize>,
    pub(super) values: Vec<f32>,
}

/// The inputs and the weighted output gradients of examples whose sum is still to be taken.
#[derive(Default)]
pub(super) struct Deferred {
    pub(super) x: Vec<f32>,
    pub(super) g: Vec<f32>,
}

/// How the norms of a layer's large parameters are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NormMethod {
    /// From layer inputs and output gradients, without forming per-example gradients.
    Ghost,
    /// By forming each example's gradient in turn.
    Instance,
}

/// A layer on channels-last buffers. Each row of a buffer is one copy of one example.
///
/// There are two kinds of parameters. The per-example gradients of small ones (biases, gains) are
/// written during the backward pass. Those of large ones are either not formed
/// ([`NormMethod::Ghost`]) or formed for one example at a time ([`NormMethod::Instance`]).
pub(super) trait Op: Send + Sync {
    /// What the layer computes, for people.
    fn describe(&self) -> String;

    /// Number of elements in one row of the output.
    fn len(&self) -> usize;

    /// Number of elements per row saved for the backward pass, besides input and output.
    fn saved_len(&self) -> usize {
        0
    }

    /// The parameters, in the network's order.
    fn layout(&self) -> &[ParameterSlot] {
        &[]
    }

    /// Copies the values of the small and of the large parameters, in the layer's own layout.
    fn load(&mut self, _small: &[f32], _large: &[f32]) {}

    /// Computes the output.
    fn forward(&self, pass: Forward);

    /// Writes the gradients of the small parameters and of the input.
    fn backward(&self, pass: Backward);

    /// The large parameters, if it has some.
    fn large(&self) -> Option<Large<'_>> {
        None
    }

    /// The dropout layer, if it is one: its masks are drawn by the caller.
    fn dropout(&self) -> Option<&Dropout> {
        None
    }
}

/// The large parameters of a layer.
pub(super) enum Large<'a> {
    /// Matrices that are multiplied with.
    Matrices(&'a dyn LargeParameters),
    /// A table of which each example uses a few rows.
    Table(&'a Embedding),
}

/// The gradients of matrices that a layer multiplies with.
pub(super) trait LargeParameters {
    /// Multiplications in the forward pass of one row, by the usual algorithm.
    fn multiplications(&self) -> usize;

    /// The same for the forward pass, the gradient with respect to the input and that with respect
    /// to the parameters, each by the algorithm that the layer uses.
    fn multiplications_done(&self, _copies: usize) -> [usize; 3] {
        [self.multiplications(); 3]
    }

    /// The cheaper method for the norms; `weighted` if there are coordinate weights.
    fn norm_method(&self, _copies: usize, _weighted: bool) -> NormMethod {
        NormMethod::Instance
    }

    /// The squared norm of each example's gradient, for layers whose [`norm_method`] is `Ghost`.
    ///
    /// `None` stands for a result that could be mostly rounding error. These gradients are formed,
    /// measured and added one by one: in a common product, their cancelling terms would not cancel
    /// among those of other examples.
    ///
    /// [`norm_method`]: Self::norm_method
    fn squared_norms(&self, _ctx: Context, _scratch: &mut Scratch) -> Vec<Option<f64>> {
        Vec::new()
    }

    /// Writes one example's gradient to `out` and returns its weighted squared norm. The values
    /// that are measured are those that are added to the sum.
    fn instance_gradient(&self, ctx: Context, out: &mut [f32], scratch: &mut Scratch) -> f64;

    /// Adds Σ factor · gradient over the examples of the chunk.
    fn weighted_sum(&self, ctx: Context, sum: &mut [f32], scratch: &mut Scratch);

    /// Whether a weighted sum over more than this many rows takes considerably less time per row.
    /// Inputs and output gradients are then kept until all examples of a segment have passed.
    fn sums_more_rows(&self, _rows: usize) -> bool {
        false
    }

    /// Number of values of a gradient of transformed parameters, if sums are taken over these;
    /// [`gradient_of_transformed`](Self::gradient_of_transformed) converts a sum.
    fn transformed_len(&self) -> Option<usize> {
        None
    }

    /// As [`instance_gradient`](Self::instance_gradient) without weights, of the transformed
    /// parameters. Returns the squared norm of the gradient that follows from it; `None` if that
    /// could be mostly rounding error, so that the gradient itself has to be formed.
    fn transformed_instance(
        &self,
        _ctx: Context,
        _out: &mut [f32],
        _scratch: &mut Scratch,
    ) -> Option<f64> {
        None
    }

    /// The gradient that follows from a transformed sum.
    fn gradient_of_transformed(&self, transformed: &[f32]) -> Vec<f32> {
        transformed.to_vec()
    }
}
