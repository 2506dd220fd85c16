//! The operation trait of the fused executor.

use super::kept::KeptScratch;
use super::layout::ParameterSlot;
use super::packed::CoordinateWeights;
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
    pub(super) patches: Vec<f32>,
    pub(super) second: Vec<f32>,
    pub(super) third: Vec<f32>,
    pub(super) fourth: Vec<f32>,
    pub(super) fifth: Vec<f32>,
    pub(super) kept: KeptScratch,
}

/// The first `len` elements of `buffer`, which grows if necessary. The contents are unspecified.
pub(super) fn resize_buffer(buffer: &mut Vec<f32>, len: usize) -> &mut [f32] {
    if buffer.len() < len {
        buffer.resize(len, 0.0);
    }
    &mut buffer[..len]
}

/// A layer's values for one chunk, row by row: input `x`, output `y`, values `saved` by the forward
/// pass, and the gradient `g` of the loss with respect to the output before the activation.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) rows: Rows,
    pub(super) x: &'a [f32],
    pub(super) y: &'a [f32],
    pub(super) saved: &'a [f32],
    pub(super) g: &'a [f32],
}

impl<'a> Context<'a> {
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

    /// Number of small parameters.
    fn small_len(&self) -> usize {
        self.layout().iter().filter(|slot| slot.small).map(ParameterSlot::len).sum()
    }

    /// Number of large parameters.
    fn large_len(&self) -> usize {
        self.layout().iter().filter(|slot| !slot.small).map(ParameterSlot::len).sum()
    }

    /// What the layer computes, for people.
    fn describe(&self) -> String;

    /// Multiplications with the large parameters in the forward pass of one row, by the usual
    /// algorithm. 0 for layers that do not multiply matrices.
    fn multiplications(&self) -> usize {
        0
    }

    /// The same for the forward pass, the gradient with respect to the input and that with respect
    /// to the parameters, each by the algorithm that the layer uses.
    fn multiplications_done(&self, _copies: usize) -> [usize; 3] {
        [self.multiplications(); 3]
    }

    /// Copies the parameter values, in the layer's own layout.
    fn load(&mut self, _small: &[f32], _large: &[f32]) {}

    /// Computes `y` from `x`.
    fn forward(
        &self,
        rows: Rows,
        x: &[f32],
        y: &mut [f32],
        saved: &mut [f32],
        scratch: &mut Scratch,
    );

    /// Replaces the gradient `g` by that before the activation, adds the small parameters'
    /// gradients to `small` (one row per example, initially zero), and writes or adds the input
    /// gradient to `gx` unless it is `None`.
    fn backward(
        &self,
        ctx: ContextMut,
        gx: Option<(&mut [f32], Store)>,
        small: &mut [f32],
        scratch: &mut Scratch,
    );

    /// Norm method of the large parameters; `weighted` if there are coordinate weights.
    fn norm_method(&self, _copies: usize, _weighted: bool) -> NormMethod {
        NormMethod::Instance
    }

    /// Adds the squared norm of the large parameters' gradients to that of each example. Called
    /// only if [`norm_method`](Self::norm_method) is `Ghost`.
    ///
    /// Examples whose result could be mostly rounding error are appended to `recomputed` instead.
    /// Their gradients are formed, measured and added one by one: in a common product, their
    /// cancelling terms would not cancel among those of other examples.
    fn add_squared_norms(
        &self,
        _ctx: Context,
        _weights: Option<&CoordinateWeights>,
        _squares: &mut [f64],
        _recomputed: &mut Vec<usize>,
        _scratch: &mut Scratch,
    ) {
    }

    /// Writes one example's gradient of the large parameters to `out` and returns its weighted
    /// squared norm. The values that are measured are those that are added to the sum.
    fn instance_gradient(
        &self,
        _ctx: Context,
        _weights: Option<&[f32]>,
        _out: &mut [f32],
        _scratch: &mut Scratch,
    ) -> f64 {
        0.0
    }

    /// As [`instance_gradient`](Self::instance_gradient) without weights, of the transformed
    /// parameters; see [`transformed_len`](Self::transformed_len). Returns the squared norm of the
    /// gradient that follows from it; `None` if that could be mostly rounding error, so that the
    /// gradient itself has to be formed.
    fn transformed_instance(
        &self,
        _ctx: Context,
        _out: &mut [f32],
        _scratch: &mut Scratch,
    ) -> Option<f64> {
        None
    }

    /// Adds Σ factor · gradient of the large parameters over the examples of the chunk; `None`
    /// stands for factors of 1.
    fn weighted_sum(
        &self,
        _ctx: Context,
        _factors: Option<&[f32]>,
        _sum: &mut [f32],
        _scratch: &mut Scratch,
    ) {
    }

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

    /// The gradient of the large parameters that follows from a transformed sum.
    fn gradient_of_transformed(&self, transformed: &[f32]) -> Vec<f32> {
        transformed.to_vec()
    }

    /// The dropout layer, if it is one: its masks are drawn by the caller.
    fn dropout(&self) -> Option<&super::stateless::Dropout> {
        None
    }

    /// Whether the large parameters' sum is mostly zero, so that [`sparse_sum`](Self::sparse_sum)
    /// is used.
    fn is_sparse(&self) -> bool {
        false
    }

    /// As [`weighted_sum`](Self::weighted_sum), for layers whose examples use few rows of a table.
    fn sparse_sum(&self, _ctx: Context, _factors: Option<&[f32]>, _sum: &mut Sparse) {}
}

/// As [`Context`], for the backward pass, which writes to `saved` and `g`.
pub(super) struct ContextMut<'a> {
    pub(super) rows: Rows,
    pub(super) x: &'a [f32],
    pub(super) y: &'a [f32],
    pub(super) saved: &'a mut [f32],
    pub(super) g: &'a mut [f32],
}
