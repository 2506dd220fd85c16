//! Translation of a list of layers into a graph of CPU operations.

use std::ops::Range;

use rayon::prelude::*;

use super::activation::FusedActivation;
use super::backprop_clip::{ClipInput, GradientClip};
use super::conv::Conv;
use super::dense::Dense;
use super::embedding::Embedding;
use super::lstm::Lstm;
use super::norm_layer::NormLayer;
use super::op::{Large, LargeParameters, Op};
use super::packed_layout::ParameterSlot;
use super::pool::Pool;
use super::stateless::{Dropout, Flatten, Identity, PositionMean};
use super::zero_pad::ZeroPad;
use crate::nn::{BackpropClippedSpec, LayerSpec, Window};

/// Node of the graph: an operation and its inputs. Value 0 is the network's input, value `i + 1`
/// the output of node `i`.
pub(super) struct Node {
    pub(super) op: Box<dyn Op>,
    pub(super) input: usize,
    /// Index of the value that is added to the output: the shortcut of a residual block.
    pub(super) residual_input: Option<usize>,
    /// The activation after the operation.
    pub(super) activation: FusedActivation,
    /// Clip of the gradient before the activation.
    pub(super) clip: Option<GradientClip>,
    /// Ranges of the node's small parameters among those of all nodes, and of its parameter
    /// tensors in the network.
    pub(super) small_offset: Range<usize>,
    pub(super) parameters: Range<usize>,
    /// Number of large parameters.
    pub(super) large_len: usize,
}

impl Node {
    /// Returns the matrices among the node's large parameters.
    pub(super) fn matrices(&self) -> Option<&dyn LargeParameters> {
        match self.op.large() {
            Some(Large::Matrices(matrices)) => Some(matrices),
            _ => None,
        }
    }

    /// Returns whether the node's large parameters are a table, with sparse sums.
    pub(super) fn is_table(&self) -> bool {
        matches!(self.op.large(), Some(Large::Table(_)))
    }

    /// Returns the number of multiplications in the forward pass of one row, by the usual
    /// algorithm; 0 for layers that do not multiply matrices.
    pub(super) fn multiplications(&self) -> usize {
        self.matrices().map_or(0, LargeParameters::multiplications)
    }
}

/// Nodes in topological order, and the sizes of their parameters.
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    pub(super) small_len: usize,
    pub(super) parameter_count: usize,
    /// Features per example, and its number of channels (1 unless it is an image).
    pub(super) input_len: usize,
    pub(super) channels: usize,
}

/// Index of a node, and the shape of its output.
type NodeOutput = (usize, Vec<usize>);

impl Graph {
    /// Builds the graph. Shapes have been checked by `Network::build`.
    pub(super) fn from_specs(input_shape: &[usize], specs: &[LayerSpec]) -> Self {
        let mut graph = Self {
            nodes: Vec::new(),
            small_len: 0,
            parameter_count: 0,
            input_len: input_shape.iter().product(),
            channels: if let [channels, _, _] = *input_shape { channels } else { 1 },
        };
        graph.push_sequence(specs, (0, input_shape.to_vec()));
        graph
    }

    /// Returns the number of elements in one row of a value.
    pub(super) fn width(&self, value: usize) -> usize {
        match value {
            0 => self.input_len,
            _ => self.nodes[value - 1].op.len(),
        }
    }

    /// Appends a node for an operation on `input`, and returns its value.
    fn push(&mut self, op: impl Op + 'static, input: usize) -> usize {
        let len = |small: bool| {
            let slots = op.parameter_slots().iter().filter(|slot| slot.is_small == small);
            slots.map(ParameterSlot::len).sum::<usize>()
        };
        let (small_len, large_len) = (len(true), len(false));
        let first = self.nodes.last().map_or(0, |node| node.parameters.end);
        let node = Node {
            input,
            residual_input: None,
            activation: FusedActivation::None,
            clip: None,
            small_offset: self.small_len..self.small_len + small_len,
            parameters: first..first + op.parameter_slots().len(),
            large_len,
            op: Box::new(op),
        };
        self.small_len += small_len;
        self.parameter_count += small_len + large_len;
        self.nodes.push(node);
        self.nodes.len()
    }

    /// Appends layers in sequence. Returns the index and the shape of the last value.
    fn push_sequence(
        &mut self,
        specs: &[LayerSpec],
        (mut value, mut shape): NodeOutput,
    ) -> NodeOutput {
        let mut specs = specs.iter().peekable();
        while let Some(spec) = specs.next() {
            // An activation directly after a layer with weights is fused into it.
            let mut activation = FusedActivation::None;
            if can_fuse_activation(spec)
                && let Some(next) = specs.peek().and_then(|next| as_activation(next))
            {
                activation = next;
                specs.next();
            }
            (value, shape) = self.push_layer(spec, activation, (value, shape));
        }
        (value, shape)
    }

    fn push_layer(
        &mut self,
        spec: &LayerSpec,
        mut activation: FusedActivation,
        (value, shape): NodeOutput,
    ) -> NodeOutput {
        // Checked by `Network::build`.
        let out = spec.output_shape(&shape).unwrap_or_default();
        let len: usize = shape.iter().product();
        // Images are `[channels, height, width]`, sequences `[time, features]`.
        let (positions, channels) = match shape[..] {
            [channels, height, width] => (height * width, channels),
            [steps, features] => (steps, features),
            _ => (1, len),
        };
        let mut clip = None;
        let (spec, value) = match spec {
            LayerSpec::BackpropClipped(clipped) => {
                clip = Some(gradient_clip(clipped, &out));
                let max_norm = clipped.clip.max_input_norm;
                let value = match &*clipped.layer {
                    // Token ids.
                    LayerSpec::Embedding(_) => value,
                    _ => self.push(ClipInput { max_norm, len }, value),
                };
                (&*clipped.layer, value)
            }
            spec => (spec, value),
        };
        let value = match spec {
            // A clipped layer is none of these; `Network::build` has checked it.
            LayerSpec::BackpropClipped(_) => return (value, out),
            LayerSpec::Group(group) => return self.push_sequence(&group.layers, (value, shape)),
            LayerSpec::Residual(spec) => {
                let (body, out) = self.push_sequence(&spec.body, (value, shape.clone()));
                let (shortcut, _) = self.push_sequence(&spec.shortcut, (value, shape));
                let end = Identity { name: "shortcut", len: out.iter().product() };
                let value = self.push(end, body);
                self.nodes[value - 1].residual_input = Some(shortcut);
                return (value, out);
            }
            LayerSpec::Linear(spec) => {
                let size = [spec.inputs, spec.outputs];
                self.push(Dense::new(size, positions, spec.bias), value)
            }
            LayerSpec::Conv2d(spec) => {
                self.push(Conv::new(spec, [shape[1], shape[2]], activation), value)
            }
            LayerSpec::MaxPool2d(spec) => {
                let window = Window::pooling(image(&shape), spec.kernel, spec.stride);
                self.push(Pool::new(true, window), value)
            }
            LayerSpec::AvgPool2d(spec) => {
                let window = Window::pooling(image(&shape), spec.kernel, spec.stride);
                self.push(Pool::new(false, window), value)
            }
            LayerSpec::GlobalAvgPool | LayerSpec::MeanOverTime => {
                self.push(PositionMean { positions, channels }, value)
            }
            LayerSpec::ZeroPad2d(spec) => self.push(ZeroPad::new(*spec, image(&shape)), value),
            LayerSpec::GroupNorm(spec) => {
                let sizes = [1, positions, channels, spec.groups];
                self.push(NormLayer::new(sizes, spec.epsilon), value)
            }
            LayerSpec::LayerNorm(spec) => {
                let sizes = [positions, 1, channels, 1];
                self.push(NormLayer::new(sizes, spec.epsilon), value)
            }
            LayerSpec::Embedding(spec) => {
                self.push(Embedding::new(spec.vocabulary, spec.features, len), value)
            }
            LayerSpec::Lstm(spec) => {
                let sizes = [spec.inputs, spec.hidden, positions];
                // It clips the gradients of its gates, not that of its output.
                self.push(Lstm::new(sizes, spec.bidirectional, clip.take()), value)
            }
            LayerSpec::Dropout(spec) => {
                // Masks are drawn in Burn's order, which differs from ours for images only.
                let [positions, channels] =
                    if shape.len() == 3 { [positions, channels] } else { [len, 1] };
                self.push(Dropout { rate: spec.rate, positions, channels }, value)
            }
            LayerSpec::Flatten => match shape.len() {
                3 => self.push(Flatten { positions, channels }, value),
                _ => return (value, out),
            },
            LayerSpec::Relu | LayerSpec::Tanh | LayerSpec::Selu => {
                activation = as_activation(spec).unwrap_or(FusedActivation::None);
                self.push(Identity { name: "activation", len }, value)
            }
        };
        let node = &mut self.nodes[value - 1];
        (node.activation, node.clip) = (activation, clip);
        (value, out)
    }
}

/// Returns the shape of an image, `[channels, height, width]`.
fn image(shape: &[usize]) -> [usize; 3] {
    [shape[0], shape[1], shape[2]]
}

/// Returns whether the operation of a layer applies the activation after it.
fn can_fuse_activation(spec: &LayerSpec) -> bool {
    match spec {
        LayerSpec::BackpropClipped(clipped) => can_fuse_activation(&clipped.layer),
        LayerSpec::Conv2d(_) | LayerSpec::Linear(_) => true,
        LayerSpec::GroupNorm(_) | LayerSpec::LayerNorm(_) => true,
        _ => false,
    }
}

/// Returns the clip of the output gradient of a layer whose examples have outputs of shape `out`.
fn gradient_clip(spec: &BackpropClippedSpec, out: &[usize]) -> GradientClip {
    let of_batch: Vec<usize> = std::iter::once(1).chain(out.iter().copied()).collect();
    let channels = match *out {
        [channels, _, _] | [_, channels] => channels,
        _ => out.iter().product(),
    };
    GradientClip { clip: spec.upstream_clip(&of_batch), channels, len: out.iter().product() }
}

fn as_activation(spec: &LayerSpec) -> Option<FusedActivation> {
    match spec {
        LayerSpec::Relu => Some(FusedActivation::Relu),
        LayerSpec::Tanh => Some(FusedActivation::Tanh),
        LayerSpec::Selu => Some(FusedActivation::Selu),
        _ => None,
    }
}

/// Processes each item, in parallel if there are enough parameters to copy.
pub(super) fn for_each_node<T: Send>(
    items: Vec<T>,
    parameter_count: usize,
    handle: impl Fn(T) + Sync + Send,
) {
    const MIN_PARALLEL_ELEMENTS: usize = 1 << 17;
    if parameter_count > MIN_PARALLEL_ELEMENTS {
        items.into_par_iter().for_each(handle)
    } else {
        items.into_iter().for_each(handle)
    }
}

/// Splits a slice into consecutive parts of these lengths.
pub(super) fn split<T>(all: &mut [T], lengths: impl Iterator<Item = usize>) -> Vec<&mut [T]> {
    let mut rest = all;
    let part = |len| {
        let (part, others) = std::mem::take(&mut rest).split_at_mut(len);
        rest = others;
        part
    };
    lengths.map(part).collect()
}
