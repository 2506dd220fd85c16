//! Translation of a list of layers into a graph of CPU operations.

use rayon::prelude::*;

use super::activation::Activation;
use super::clip::{ClipInput, GradientClip};
use super::conv::{Conv, ConvSpec};
use super::dense::Dense;
use super::embedding::Embedding;
use super::lstm::Lstm;
use super::norm::Norm;
use super::op::Op;
use super::pool::Pool;
use super::standardise::Standardise;
use super::stateless::{ActivationLayer, Dropout, Flatten, Mean, Sum};
use super::zero_pad::ZeroPad;
use crate::nn::{BackpropClippedSpec, Conv2dSpec, LayerSpec};

/// Burn's LSTM gates in the order input, forget, cell, output.
const GATES: [usize; 4] = [0, 1, 2, 3];

/// An operation and its inputs. Value 0 is the network's input, value `i + 1` the output of node
/// `i`.
pub(super) struct Node {
    pub(super) op: Box<dyn Op>,
    pub(super) input: usize,
    /// The value that is added to the output: the shortcut of a residual block.
    pub(super) addend: Option<usize>,
    /// Offset of the node's small parameters among those of all nodes.
    pub(super) small: usize,
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

impl Graph {
    /// Builds the graph. Shapes have been checked by `Network::build`.
    pub(super) fn of(input_shape: &[usize], specs: &[LayerSpec]) -> Self {
        let mut graph = Self {
            nodes: Vec::new(),
            small_len: 0,
            parameter_count: 0,
            input_len: input_shape.iter().product(),
            channels: if let [channels, _, _] = *input_shape { channels } else { 1 },
        };
        graph.sequence(specs, 0, input_shape.to_vec());
        graph
    }

    /// Number of elements in one row of a value.
    pub(super) fn width(&self, value: usize) -> usize {
        match value {
            0 => self.input_len,
            _ => self.nodes[value - 1].op.len(),
        }
    }

    fn push(&mut self, op: impl Op + 'static, input: usize, addend: Option<usize>) -> usize {
        let small = self.small_len;
        self.small_len += op.small_len();
        self.parameter_count += op.small_len() + op.large_len();
        self.nodes.push(Node { op: Box::new(op), input, addend, small });
        self.nodes.len()
    }

    /// Appends layers in sequence. Returns the index and the shape of the last value.
    fn sequence(
        &mut self,
        specs: &[LayerSpec],
        value: usize,
        shape: Vec<usize>,
    ) -> (usize, Vec<usize>) {
        let (mut value, mut shape) = (value, shape);
        let mut specs = specs.iter().peekable();
        while let Some(spec) = specs.next() {
            // An activation directly after a layer with weights is fused into it.
            let mut activation = Activation::None;
            if takes_activation(spec)
                && let Some(next) = specs.peek().and_then(|next| activation_of(next))
            {
                activation = next;
                specs.next();
            }
            (value, shape) = self.layer(spec, activation, value, shape);
        }
        (value, shape)
    }

    fn layer(
        &mut self,
        spec: &LayerSpec,
        activation: Activation,
        value: usize,
        shape: Vec<usize>,
    ) -> (usize, Vec<usize>) {
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
                    _ => self.push(ClipInput { max_norm, len }, value, None),
                };
                (&*clipped.layer, value)
            }
            spec => (spec, value),
        };
        let value = match spec {
            // A clipped layer is none of these; `Network::build` has checked it.
            LayerSpec::BackpropClipped(_) => value,
            LayerSpec::Group(group) => return self.sequence(&group.layers, value, shape),
            LayerSpec::Residual(spec) => {
                let (body, out) = self.sequence(&spec.body, value, shape.clone());
                let (shortcut, _) = self.sequence(&spec.shortcut, value, shape);
                let len = out.iter().product();
                return (self.push(Sum { len }, body, Some(shortcut)), out);
            }
            LayerSpec::Linear(spec) => {
                let size = [spec.inputs, spec.outputs];
                let dense = Dense::new(size, positions, spec.bias, activation);
                self.push(dense.with_clip(clip), value, None)
            }
            LayerSpec::Conv2d(spec) => {
                let conv = conv(spec, activation, &shape, &out);
                self.push(conv.with_clip(clip), value, None)
            }
            LayerSpec::MaxPool2d(spec) => {
                self.pool(true, spec.kernel, spec.stride, value, &shape, &out)
            }
            LayerSpec::AvgPool2d(spec) => {
                self.pool(false, spec.kernel, spec.stride, value, &shape, &out)
            }
            LayerSpec::GlobalAvgPool | LayerSpec::MeanOverTime => {
                self.push(Mean { positions, channels }, value, None)
            }
            LayerSpec::ZeroPad2d(spec) => {
                self.push(ZeroPad::new(*spec, [shape[0], shape[1], shape[2]]), value, None)
            }
            LayerSpec::GroupNorm(spec) => {
                let sizes = [1, positions, channels, spec.groups];
                self.push(Norm::new(sizes, spec.epsilon, activation), value, None)
            }
            LayerSpec::LayerNorm(spec) => {
                let sizes = [positions, 1, channels, 1];
                self.push(Norm::new(sizes, spec.epsilon, activation), value, None)
            }
            LayerSpec::Embedding(spec) => {
                let embedding = Embedding::new(spec.vocabulary, spec.features, len);
                self.push(embedding.with_clip(clip), value, None)
            }
            LayerSpec::Lstm(spec) => {
                let sizes = [spec.inputs, spec.hidden, positions];
                let lstm = Lstm::new(sizes, spec.bidirectional, GATES);
                self.push(lstm.with_clip(clip), value, None)
            }
            LayerSpec::Dropout(spec) => {
                // Masks are drawn in Burn's order, which differs from ours for images only.
                let [positions, channels] =
                    if shape.len() == 3 { [positions, channels] } else { [len, 1] };
                self.push(Dropout { rate: spec.rate, positions, channels }, value, None)
            }
            LayerSpec::Flatten => match shape.len() {
                3 => self.push(Flatten { positions, channels }, value, None),
                _ => value,
            },
            LayerSpec::Relu | LayerSpec::Tanh | LayerSpec::Selu => {
                let activation = activation_of(spec).unwrap_or(Activation::None);
                self.push(ActivationLayer { activation, len }, value, None)
            }
        };
        (value, out)
    }

    fn pool(
        &mut self,
        is_max: bool,
        kernel: [usize; 2],
        stride: [usize; 2],
        value: usize,
        shape: &[usize],
        out: &[usize],
    ) -> usize {
        let (size, output) = ([shape[1], shape[2]], [out[1], out[2]]);
        let pool = Pool { is_max, size, channels: shape[0], kernel, stride, output };
        self.push(pool, value, None)
    }
}

fn conv(spec: &Conv2dSpec, activation: Activation, shape: &[usize], out: &[usize]) -> Conv {
    let patch = spec.kernel[0] * spec.kernel[1] * spec.channels_in / spec.groups;
    let standardise = spec
        .standardised
        .as_ref()
        .map(|rule| Standardise::new(rule.guard, rule.gain, spec.groups, patch, spec.channels_out));
    let spec = ConvSpec {
        input: [shape[0], shape[1], shape[2]],
        out: spec.channels_out,
        output: [out[1], out[2]],
        kernel: spec.kernel,
        stride: spec.stride,
        padding: spec.padding,
        dilation: spec.dilation,
        groups: spec.groups,
        bias: spec.bias,
        activation,
    };
    Conv::new(&spec, standardise)
}

/// Whether the operation of a layer applies the activation after it.
fn takes_activation(spec: &LayerSpec) -> bool {
    match spec {
        LayerSpec::BackpropClipped(clipped) => takes_activation(&clipped.layer),
        LayerSpec::Conv2d(_) | LayerSpec::Linear(_) => true,
        LayerSpec::GroupNorm(_) | LayerSpec::LayerNorm(_) => true,
        _ => false,
    }
}

/// The clip of the output gradient of a layer whose examples have outputs of shape `out`.
fn gradient_clip(spec: &BackpropClippedSpec, out: &[usize]) -> GradientClip {
    let of_batch: Vec<usize> = std::iter::once(1).chain(out.iter().copied()).collect();
    let channels = match *out {
        [channels, _, _] | [_, channels] => channels,
        _ => out.iter().product(),
    };
    GradientClip { clip: spec.upstream(&of_batch), channels, len: out.iter().product() }
}

fn activation_of(spec: &LayerSpec) -> Option<Activation> {
    match spec {
        LayerSpec::Relu => Some(Activation::Relu),
        LayerSpec::Tanh => Some(Activation::Tanh),
        LayerSpec::Selu => Some(Activation::Selu),
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
