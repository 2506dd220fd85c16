//! [`LinearisedNetwork`]: the network as a linear map of its inputs.

use rayon::prelude::*;

use super::conv::Convolution;
use super::sums::FixedLinearMap;
use crate::Result;
use crate::mask::saliency::SaliencyTensor;
use crate::nn::{LayerSpec, Model, Parameter, ResidualSpec, Window};

/// The network with |w| for every weight and without biases, where each nonlinear layer is replaced
/// by a linear one:
///
/// | layer | replaced by |
/// |---|---|
/// | activation, dropout | the identity |
/// | max pooling | average pooling over the same windows |
/// | normalisation | multiplication by \|γ\| |
/// | weight standardisation | multiplication by \|gain\| only: centred \|w\| would sum to 0 |
/// | embedding | the constant 1 |
/// | LSTM | the mean of its inputs for each output, which maps ones to ones |
pub(super) struct LinearisedNetwork {
    pub(super) ops: Vec<Op>,
    /// The scored weights, in the order of the model's parameters.
    pub(super) tensors: Vec<ScoredTensor>,
    /// The number of features of an example.
    pub(super) inputs: usize,
    /// The kinds of layers whose weights are not scored.
    pub(super) unscored: Vec<&'static str>,
}

/// Weight tensor with a score for each weight.
pub(super) struct ScoredTensor {
    pub(super) path: String,
    pub(super) shape: Vec<usize>,
    /// Absolute weights |w|, or 0 for dropped weights; row-major.
    pub(super) weights: Vec<f64>,
    /// The scores of the last backward pass.
    pub(super) scores: Vec<f64>,
}

/// A linear operation. `weight` is an index into [`LinearisedNetwork::tensors`].
pub(super) enum Op {
    /// Product of `[_, inputs]` and a weight `[inputs, outputs]`.
    Linear { weight: usize, inputs: usize, outputs: usize },
    /// A 2D convolution.
    Conv { weight: usize, conv: Convolution },
    /// FixedLinearMap of inputs.
    FixedLinearMap(FixedLinearMap),
    /// Product of each run of `run` values and one factor, cycling through the factors.
    Scale { factors: Vec<f64>, run: usize },
    /// The constant 1 for every output.
    Ones { inputs: usize, outputs: usize },
    /// The sum of two branches.
    Residual { body: Vec<Op>, shortcut: Vec<Op> },
}

impl LinearisedNetwork {
    /// Creates the linearised network of a model that is a list of layers.
    ///
    /// # Errors
    /// If two layers do not fit together, which can't happen for a model that has been built.
    pub(super) fn new(model: &Model) -> Result<Self> {
        let network = model.network();
        let mut reader = OpBuilder {
            values: network.values().into_iter(),
            tensors: Vec::new(),
            unscored: Vec::new(),
        };
        let mut shape = network.input_shape().to_vec();
        let inputs = shape.iter().product();
        let ops = reader.read_all(network.specs(), &mut shape)?;
        Ok(Self { ops, tensors: reader.tensors, inputs, unscored: reader.unscored })
    }

    /// Returns the number of scored weights.
    pub(super) fn len(&self) -> usize {
        self.tensors.iter().map(|tensor| tensor.weights.len()).sum()
    }

    /// Sets the weights that are not kept to 0.
    pub(super) fn apply_mask(&mut self, kept: &[Vec<bool>]) {
        self.tensors.par_iter_mut().zip(kept).with_max_len(1).for_each(|(tensor, kept)| {
            let pairs = tensor.weights.iter_mut().zip(kept);
            pairs.for_each(|(weight, &kept)| *weight = if kept { *weight } else { 0.0 });
        });
    }

    /// Returns the scores of the last backward pass, one slice per tensor.
    pub(super) fn scores(&self) -> Vec<&[f64]> {
        self.tensors.iter().map(|tensor| tensor.scores.as_slice()).collect()
    }

    /// Returns the scores of the last backward pass, with paths and shapes.
    pub(super) fn into_scores(self) -> Vec<SaliencyTensor> {
        let scores = self.tensors.into_iter();
        scores
            .map(|ScoredTensor { path, shape, scores, .. }| SaliencyTensor {
                path,
                shape,
                values: scores,
            })
            .collect()
    }
}

/// Converts layer specifications to operations, consuming the parameters in order.
struct OpBuilder {
    values: std::vec::IntoIter<(Parameter, Vec<f32>)>,
    tensors: Vec<ScoredTensor>,
    unscored: Vec<&'static str>,
}

impl OpBuilder {
    /// Reads the operations of some layers for inputs of `shape`, which becomes the output shape.
    fn read_all(&mut self, specs: &[LayerSpec], shape: &mut Vec<usize>) -> Result<Vec<Op>> {
        let mut ops = Vec::new();
        for spec in specs {
            let output = spec.output_shape(shape)?;
            self.read(spec, shape, &output, &mut ops)?;
            *shape = output;
        }
        Ok(ops)
    }

    fn read(
        &mut self,
        spec: &LayerSpec,
        input: &[usize],
        output: &[usize],
        ops: &mut Vec<Op>,
    ) -> Result<()> {
        let size = |shape: &[usize]| shape.iter().product::<usize>();
        // The number of values per channel (1 for features).
        let channel = size(&output[1..]).max(1);
        match spec {
            LayerSpec::Linear(spec) => {
                let weight = self.scored_weight();
                self.skip(usize::from(spec.bias));
                ops.push(Op::Linear { weight, inputs: spec.inputs, outputs: spec.outputs });
            }
            LayerSpec::Conv2d(spec) => {
                let weight = self.scored_weight();
                self.skip(usize::from(spec.bias));
                let conv = Convolution::new(spec, [input[1], input[2]]);
                ops.push(Op::Conv { weight, conv });
                if spec.standardised.is_some_and(|rule| rule.gain) {
                    ops.push(Op::Scale { factors: self.factors(), run: channel });
                }
            }
            LayerSpec::GroupNorm(_) => {
                ops.push(Op::Scale { factors: self.factors(), run: channel });
                self.skip(1);
            }
            LayerSpec::LayerNorm(_) => {
                ops.push(Op::Scale { factors: self.factors(), run: 1 });
                self.skip(1);
            }
            LayerSpec::MaxPool2d(spec) => ops.push(pooling(spec.kernel, spec.stride, input)),
            LayerSpec::AvgPool2d(spec) => ops.push(pooling(spec.kernel, spec.stride, input)),
            LayerSpec::GlobalAvgPool => {
                ops.push(Op::FixedLinearMap(FixedLinearMap::means(
                    size(input),
                    size(&input[1..]),
                    1,
                )));
            }
            LayerSpec::ZeroPad2d(sides) => {
                let sums =
                    FixedLinearMap::padding([input[0], input[1], input[2]], *sides, size(output));
                ops.push(Op::FixedLinearMap(sums));
            }
            LayerSpec::MeanOverTime => {
                ops.push(Op::FixedLinearMap(FixedLinearMap::means(
                    size(input),
                    input[0],
                    input[1],
                )));
            }
            LayerSpec::Embedding(_) => {
                self.skip_unscored(spec);
                ops.push(Op::Ones { inputs: size(input), outputs: size(output) });
            }
            LayerSpec::Lstm(_) => {
                self.skip_unscored(spec);
                ops.push(Op::FixedLinearMap(FixedLinearMap::means(size(input), input[1], 1)));
                ops.push(Op::FixedLinearMap(FixedLinearMap::repeat(input[0], output[1])));
            }
            LayerSpec::Residual(ResidualSpec { body, shortcut }) => {
                let body = self.read_all(body, &mut input.to_vec())?;
                let shortcut = self.read_all(shortcut, &mut input.to_vec())?;
                ops.push(Op::Residual { body, shortcut });
            }
            LayerSpec::Group(group) => {
                ops.extend(self.read_all(&group.layers, &mut input.to_vec())?);
            }
            LayerSpec::BackpropClipped(clipped) => {
                self.read(&clipped.layer, input, output, ops)?;
            }
            LayerSpec::Tanh
            | LayerSpec::Relu
            | LayerSpec::Selu
            | LayerSpec::Flatten
            | LayerSpec::Dropout(_) => {}
        }
        Ok(())
    }

    fn next(&mut self) -> (Parameter, Vec<f32>) {
        self.values.next().expect("networks hold the parameters their layers list")
    }

    /// Consumes the next parameter as a scored weight and returns its index.
    fn scored_weight(&mut self) -> usize {
        let (Parameter { path, shape, .. }, values) = self.next();
        let weights: Vec<f64> = values.into_iter().map(|w| f64::from(w).abs()).collect();
        let scores = vec![0.0; weights.len()];
        self.tensors.push(ScoredTensor { path, shape, weights, scores });
        self.tensors.len() - 1
    }

    /// Consumes the next parameter as the factors of an [`Op::Scale`].
    fn factors(&mut self) -> Vec<f64> {
        self.next().1.into_iter().map(|factor| f64::from(factor).abs()).collect()
    }

    fn skip(&mut self, parameters: usize) {
        (0..parameters).for_each(|_| drop(self.next()));
    }

    /// Skips the parameters of a layer that is not scored, and records its kind.
    fn skip_unscored(&mut self, spec: &LayerSpec) {
        self.skip(spec.parameters().len());
        if !self.unscored.contains(&spec.kind()) {
            self.unscored.push(spec.kind());
        }
    }
}

/// Creates average pooling, for images of shape `input`.
fn pooling(kernel: [usize; 2], stride: [usize; 2], input: &[usize]) -> Op {
    let window = Window::pooling([input[0], input[1], input[2]], kernel, stride);
    Op::FixedLinearMap(FixedLinearMap::pooling(&window))
}
