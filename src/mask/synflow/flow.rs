//! The network as a linear map of its inputs.

use super::conv::Convolution;
use crate::Result;
use crate::mask::saliency::Scores;
use crate::nn::{LayerSpec, Model, Parameter, ResidualSpec, Window};

/// The network with |w| for every weight, without biases, and with layers that are not linear
/// taken for ones that are:
///
/// | layer | becomes |
/// |---|---|
/// | activation, dropout | nothing |
/// | max pooling | average pooling of the same windows |
/// | normalisation | its factors, as \|γ\| |
/// | weight standardisation | nothing but its gain, as \|gain\|: centred \|w\| would add up to 0 |
/// | embedding | ones |
/// | LSTM | the mean of its inputs, for each output: ones in, ones out |
pub(super) struct Flow {
    pub(super) steps: Vec<Step>,
    /// The scored weights, in the order of the model's parameters.
    pub(super) tensors: Vec<Tensor>,
    /// How many numbers an example has.
    pub(super) inputs: usize,
    /// Kinds of layers whose weights get no score.
    pub(super) unscored: Vec<&'static str>,
}

/// One weight tensor.
pub(super) struct Tensor {
    pub(super) path: String,
    pub(super) shape: Vec<usize>,
    /// |w|, or 0 where it was dropped; row-major.
    pub(super) weights: Vec<f64>,
    /// The scores of the last pass.
    pub(super) scores: Vec<f64>,
}

/// One linear map. `weight` is a place in [`Flow::tensors`].
pub(super) enum Step {
    /// Rows of `inputs` numbers times a weight `[inputs, outputs]`.
    Linear { weight: usize, inputs: usize, outputs: usize },
    /// A convolution.
    Conv { weight: usize, conv: Convolution },
    /// Means under windows, channel by channel.
    Pool { window: Window, output: [usize; 2] },
    /// `[_, count, inner]` to `[_, inner]`: the mean of `count` numbers.
    Mean { count: usize, inner: usize },
    /// Every number so many times.
    Repeat { times: usize },
    /// Each run of `run` numbers times its factor; the factors begin anew after the last.
    Scale { factors: Vec<f64>, run: usize },
    /// Ones, whatever comes in.
    Ones { inputs: usize, outputs: usize },
    /// The sum of two ways.
    Residual { body: Vec<Step>, shortcut: Vec<Step> },
}

impl Flow {
    /// The linear map of a model made of the lab's layers.
    ///
    /// # Errors
    /// If two layers do not fit together: then no model could have been built of them.
    pub(super) fn of(model: &Model) -> Result<Self> {
        let network = model.network();
        let mut reader = Reader {
            values: network.values().into_iter(),
            tensors: Vec::new(),
            unscored: Vec::new(),
        };
        let mut shape = network.input_shape().to_vec();
        let inputs = shape.iter().product();
        let steps = reader.steps(network.specs(), &mut shape)?;
        Ok(Self { steps, tensors: reader.tensors, inputs, unscored: reader.unscored })
    }

    /// How many weights are scored.
    pub(super) fn len(&self) -> usize {
        self.tensors.iter().map(|tensor| tensor.weights.len()).sum()
    }

    /// Sets the weights that are not kept to 0.
    pub(super) fn keep(&mut self, kept: &[Vec<bool>]) {
        for (tensor, kept) in self.tensors.iter_mut().zip(kept) {
            let pairs = tensor.weights.iter_mut().zip(kept);
            pairs.for_each(|(weight, &kept)| *weight = if kept { *weight } else { 0.0 });
        }
    }

    /// The scores of the last pass.
    pub(super) fn scores(&self) -> Vec<&[f64]> {
        self.tensors.iter().map(|tensor| tensor.scores.as_slice()).collect()
    }

    /// The scores of the last pass, with their paths.
    pub(super) fn into_scores(self) -> Vec<Scores> {
        let scores = self.tensors.into_iter();
        scores
            .map(|Tensor { path, shape, scores, .. }| Scores { path, shape, values: scores })
            .collect()
    }
}

/// Reads specifications together with the parameters they list, in order.
struct Reader {
    values: std::vec::IntoIter<(Parameter, Vec<f32>)>,
    tensors: Vec<Tensor>,
    unscored: Vec<&'static str>,
}

impl Reader {
    /// The steps of some layers for examples of `shape`, which becomes that of the last output.
    fn steps(&mut self, specs: &[LayerSpec], shape: &mut Vec<usize>) -> Result<Vec<Step>> {
        let mut steps = Vec::new();
        for spec in specs {
            let output = spec.output_shape(shape)?;
            self.step(spec, shape, &output, &mut steps)?;
            *shape = output;
        }
        Ok(steps)
    }

    fn step(
        &mut self,
        spec: &LayerSpec,
        input: &[usize],
        output: &[usize],
        steps: &mut Vec<Step>,
    ) -> Result<()> {
        let numbers = |shape: &[usize]| shape.iter().product::<usize>();
        // All numbers of one channel, or of one feature.
        let channel = numbers(&output[1..]).max(1);
        match spec {
            LayerSpec::Linear(spec) => {
                let weight = self.weight();
                self.skip(usize::from(spec.bias));
                steps.push(Step::Linear { weight, inputs: spec.inputs, outputs: spec.outputs });
            }
            LayerSpec::Conv2d(spec) => {
                let weight = self.weight();
                self.skip(usize::from(spec.bias));
                let conv = Convolution::new(spec, [input[1], input[2]], [output[1], output[2]]);
                steps.push(Step::Conv { weight, conv });
                if spec.standardised.is_some_and(|rule| rule.gain) {
                    steps.push(Step::Scale { factors: self.factors(), run: channel });
                }
            }
            LayerSpec::GroupNorm(_) => {
                steps.push(Step::Scale { factors: self.factors(), run: channel });
                self.skip(1);
            }
            LayerSpec::LayerNorm(_) => {
                steps.push(Step::Scale { factors: self.factors(), run: 1 });
                self.skip(1);
            }
            LayerSpec::MaxPool2d(spec) => steps.push(pool(spec.kernel, spec.stride, input, output)),
            LayerSpec::AvgPool2d(spec) => steps.push(pool(spec.kernel, spec.stride, input, output)),
            LayerSpec::GlobalAvgPool => {
                steps.push(Step::Mean { count: numbers(&input[1..]), inner: 1 });
            }
            LayerSpec::MeanOverTime => {
                steps.push(Step::Mean { count: input[0], inner: input[1] });
            }
            LayerSpec::Embedding(_) => {
                self.leave_out(spec);
                steps.push(Step::Ones { inputs: numbers(input), outputs: numbers(output) });
            }
            LayerSpec::Lstm(_) => {
                self.leave_out(spec);
                steps.push(Step::Mean { count: input[1], inner: 1 });
                steps.push(Step::Repeat { times: output[1] });
            }
            LayerSpec::Residual(ResidualSpec { body, shortcut }) => {
                let body = self.steps(body, &mut input.to_vec())?;
                let shortcut = self.steps(shortcut, &mut input.to_vec())?;
                steps.push(Step::Residual { body, shortcut });
            }
            LayerSpec::Group(group) => {
                steps.extend(self.steps(&group.layers, &mut input.to_vec())?);
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

    /// The next parameter, a weight that is scored: its place.
    fn weight(&mut self) -> usize {
        let (Parameter { path, shape, .. }, values) = self.next();
        let weights: Vec<f64> = values.into_iter().map(|w| f64::from(w).abs()).collect();
        let scores = vec![0.0; weights.len()];
        self.tensors.push(Tensor { path, shape, weights, scores });
        self.tensors.len() - 1
    }

    /// The next parameter, as factors.
    fn factors(&mut self) -> Vec<f64> {
        self.next().1.into_iter().map(|factor| f64::from(factor).abs()).collect()
    }

    fn skip(&mut self, parameters: usize) {
        (0..parameters).for_each(|_| drop(self.next()));
    }

    /// Passes over the parameters of a layer that isn't scored.
    fn leave_out(&mut self, spec: &LayerSpec) {
        self.skip(spec.parameters().len());
        if !self.unscored.contains(&spec.kind()) {
            self.unscored.push(spec.kind());
        }
    }
}

fn pool(kernel: [usize; 2], stride: [usize; 2], input: &[usize], output: &[usize]) -> Step {
    let window = Window {
        channels: input[0],
        size: [input[1], input[2]],
        kernel,
        stride,
        padding: [0; 2],
        dilation: [1; 2],
    };
    Step::Pool { window, output: [output[1], output[2]] }
}
