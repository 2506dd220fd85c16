//! Operations of layers in the fused executor: [`Op`], and [`LargeParameters`] for layers that
//! multiply matrices.

use super::activation::FusedActivation;
use super::binary_mask::BinaryMaskScratch;
use super::embedding::Embedding;
use super::outer_product::{add, weighted_squared_norm};
use super::packed_layout::ParameterSlot;
use super::packed_weights::PackedTensorWeights;
use super::stateless::Dropout;
use crate::nn::kernels::product::WriteMode;

/// Size of a chunk: number of examples and augmentation multiplicity. Buffers hold
/// `examples x copies` rows, the copies of an example next to each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkRows {
    pub(super) examples: usize,
    pub(super) copies: usize,
}

impl ChunkRows {
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
    /// Values per channel.
    pub(super) channels: Vec<f32>,
    /// The recurrent state of each row or its gradient, and the gradient of the cell state.
    pub(super) state: Vec<f32>,
    pub(super) cell: Vec<f32>,
    /// A dropout mask in Burn's order.
    pub(super) mask: Vec<f32>,
    pub(super) kept: BinaryMaskScratch,
}

/// Returns the first `len` elements of `buffer`, which grows if necessary. The contents are
/// unspecified.
pub(super) fn resize_buffer(buffer: &mut Vec<f32>, len: usize) -> &mut [f32] {
    if buffer.len() < len {
        buffer.resize(len, 0.0);
    }
    &mut buffer[..len]
}

/// The forward pass of a layer for one chunk: from the input `x` to the output `y`, with the
/// activation. `saved` are values for the backward pass.
pub(super) struct Forward<'a> {
    pub(super) rows: ChunkRows,
    pub(super) x: &'a [f32],
    pub(super) y: &'a mut [f32],
    pub(super) saved: &'a mut [f32],
    pub(super) activation: FusedActivation,
    pub(super) scratch: &'a mut Scratch,
}

/// The backward pass of a layer for one chunk: from the gradient `g` before the activation to that
/// of the input.
pub(super) struct Backward<'a> {
    pub(super) rows: ChunkRows,
    pub(super) x: &'a [f32],
    pub(super) y: &'a [f32],
    pub(super) saved: &'a mut [f32],
    pub(super) g: &'a mut [f32],
    /// Gradient with respect to the input; `None` if nothing needs it.
    pub(super) gx: Option<InputGradient<'a>>,
    /// Gradients of the small parameters, one row per example, to be written; zero before.
    pub(super) small: &'a mut [f32],
    pub(super) scratch: &'a mut Scratch,
}

/// The gradient of the loss with respect to a layer's input, which is written or added to.
pub(super) struct InputGradient<'a> {
    pub(super) values: &'a mut [f32],
    pub(super) store: WriteMode,
}

impl<'a> InputGradient<'a> {
    /// Returns the values as zeros, to be added to.
    pub(super) fn zeroed(self) -> &'a mut [f32] {
        if self.store == WriteMode::Overwrite {
            self.values.fill(0.0);
        }
        self.values
    }
}

/// Buffers that a convolution reads and writes.
pub(super) struct Convolution<'a> {
    pub(super) images: &'a [f32],
    /// Kernel, or for the gradient of the kernel the gradient of the output.
    pub(super) with: &'a [f32],
    pub(super) out: &'a mut [f32],
    pub(super) store: WriteMode,
    pub(super) scratch: &'a mut Vec<f32>,
}

impl WriteMode {
    /// Writes `from` to `to`, or adds `from` to `to`.
    pub(super) fn put(self, to: &mut [f32], from: &[f32]) {
        match self {
            Self::Overwrite => to.copy_from_slice(from),
            Self::Accumulate => add(to, from),
        }
    }
}

/// Values of a layer for one chunk after the backward pass, row by row: input `x`, output `y`,
/// `saved` values, and the gradient `g` of the loss with respect to the output before the
/// activation; with the weights and factors of sums and norms.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) rows: ChunkRows,
    pub(super) x: &'a [f32],
    pub(super) y: &'a [f32],
    pub(super) saved: &'a [f32],
    pub(super) g: &'a [f32],
    /// The weights of the large parameters; `None` for ones and zeros.
    pub(super) weights: Option<&'a PackedTensorWeights>,
    /// The factors of the examples in a sum; `None` for factors of 1.
    pub(super) factors: Option<&'a [f32]>,
}

impl<'a> Context<'a> {
    /// Computes the squared norm of a gradient of the large parameters.
    pub(super) fn squared_norm(self, gradient: &[f32]) -> f64 {
        weighted_squared_norm(gradient, self.weights.map(|weights| weights.values.as_slice()))
    }

    /// Returns the context of the rows of example `i`.
    pub(super) fn example(self, i: usize) -> Self {
        let part = |all: &'a [f32]| {
            let len = all.len() / self.rows.examples;
            &all[i * len..(i + 1) * len]
        };
        Self {
            rows: ChunkRows { examples: 1, copies: self.rows.copies },
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
pub(super) struct SparseRows {
    pub(super) offsets: Vec<usize>,
    pub(super) values: Vec<f32>,
}

/// Inputs and weighted output gradients of examples whose sum is deferred.
#[derive(Default)]
pub(super) struct DeferredSum {
    pub(super) x: Vec<f32>,
    pub(super) g: Vec<f32>,
}

/// Method that computes the norms of a layer's large parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NormMethod {
    /// Ghost norms: from layer inputs and output gradients, without forming per-example gradients.
    Ghost,
    /// Instance norms: each example's gradient is formed in turn.
    Instantiated,
}

/// A layer on channels-last buffers. Each row of a buffer is one copy of one example.
///
/// There are two kinds of parameters. The per-example gradients of small ones (biases, gains) are
/// written during the backward pass. Those of large ones are either not formed
/// ([`NormMethod::Ghost`]) or formed for one example at a time ([`NormMethod::Instantiated`]).
pub(super) trait Op: Send + Sync {
    /// Returns a description of the computation for display.
    fn describe(&self) -> String;

    /// Returns the number of elements in one row of the output.
    fn len(&self) -> usize;

    /// Returns the number of elements per row saved for the backward pass, besides input and
    /// output.
    fn saved_len(&self) -> usize {
        0
    }

    /// Returns the parameters, in the network's order.
    fn parameter_slots(&self) -> &[ParameterSlot] {
        &[]
    }

    /// Copies the values of the small and of the large parameters, in the layer's own layout.
    fn load(&mut self, _small: &[f32], _large: &[f32]) {}

    /// Computes the output.
    fn forward(&self, pass: Forward);

    /// Writes the gradients of the small parameters and of the input.
    fn backward(&self, pass: Backward);

    /// Returns the large parameters, if the layer has some.
    fn large(&self) -> Option<Large<'_>> {
        None
    }

    /// Returns the dropout layer, if this is one: its masks are drawn by the caller.
    fn as_dropout(&self) -> Option<&Dropout> {
        None
    }
}

/// The large parameters of a layer.
pub(super) enum Large<'a> {
    /// Matrices that inputs are multiplied with.
    Matrices(&'a dyn LargeParameters),
    /// Embedding table, where each example uses a few rows.
    Table(&'a Embedding),
}

/// The gradients of matrices that a layer multiplies with.
pub(super) trait LargeParameters {
    /// Returns the multiplications in the forward pass of one row, by the usual algorithm.
    fn multiplications(&self) -> usize;

    /// Returns the multiplications of one row for the forward pass, the gradient with respect to
    /// the input and that with respect to the parameters, each by the algorithm that the layer
    /// uses.
    fn multiplications_done(&self, _copies: usize) -> [usize; 3] {
        [self.multiplications(); 3]
    }

    /// Returns the cheaper method for the norms; `weighted` if there are coordinate weights.
    fn norm_method(&self, _copies: usize, _weighted: bool) -> NormMethod {
        NormMethod::Instantiated
    }

    /// Computes the squared norm of each example's gradient, for layers whose [`norm_method`] is
    /// `Ghost`.
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

    /// Returns whether a weighted sum over more than this many rows takes considerably less time
    /// per row. Inputs and output gradients are then kept until all examples of a segment have
    /// passed.
    fn sums_more_rows(&self, _rows: usize) -> bool {
        false
    }

    /// Returns the number of values of a gradient of transformed parameters, if sums are taken over
    /// these; [`gradient_of_transformed`](Self::gradient_of_transformed) converts a sum.
    fn transformed_len(&self) -> Option<usize> {
        None
    }

    /// Writes one example's gradient of the transformed parameters to `out`, as
    /// [`instance_gradient`](Self::instance_gradient) without weights. Returns the squared norm of
    /// the gradient that follows from it; `None` if that could be mostly rounding error, so that
    /// the gradient itself has to be formed.
    fn transformed_instance(
        &self,
        _ctx: Context,
        _out: &mut [f32],
        _scratch: &mut Scratch,
    ) -> Option<f64> {
        None
    }

    /// Returns the gradient that follows from a transformed sum.
    fn gradient_of_transformed(&self, transformed: &[f32]) -> Vec<f32> {
        transformed.to_vec()
    }
}
