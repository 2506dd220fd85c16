//! Random networks with all kinds of layers, and random batches and weights for them.

use epsilab::engine::{Batch, CoordinateWeights, Gradients};
use epsilab::nn::{
    AvgPool2dSpec, Conv2dSpec, DropoutSpec, EmbeddingSpec, GroupNormSpec, GroupSpec, LayerNormSpec,
    LayerSpec, LinearSpec, LstmSpec, MaxPool2dSpec, Network, ResidualSpec, Standardisation,
    VarianceGuard, ZeroPad2dSpec,
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Number of classes of every network.
const CLASSES: usize = 3;
/// Vocabulary of every embedding.
const VOCABULARY: usize = 6;

pub struct Draw(ChaCha8Rng);

impl Draw {
    pub fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.0.next_u32() as usize) % n
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Uniform between -1 and 1.
    pub fn uniform(&mut self) -> f32 {
        (self.0.next_u32() >> 8) as f32 / (1u32 << 23) as f32 - 1.0
    }

    fn pair(&mut self, first: usize, count: usize) -> [usize; 2] {
        [first + self.below(count), first + self.below(count)]
    }
}

/// A list of layers under construction, with its output shape.
struct LayerList {
    specs: Vec<LayerSpec>,
    shape: Vec<usize>,
}

impl LayerList {
    /// Appends a layer if its random sizes fit.
    fn push(&mut self, spec: LayerSpec) {
        if let Ok(next) = spec.output_shape(&self.shape) {
            self.shape = next;
            self.specs.push(spec);
        }
    }
}

/// Random layers, the input shape, and whether inputs are token ids.
pub fn architecture(draw: &mut Draw) -> (Vec<LayerSpec>, Vec<usize>, bool) {
    let (shape, tokens) = match draw.below(5) {
        0 => (vec![1 + draw.below(9)], false),
        1 => (vec![1 + draw.below(6), 1 + draw.below(5)], false),
        2 => (vec![1 + draw.below(7)], true),
        _ => (vec![1 + draw.below(4), 5 + draw.below(5), 4 + draw.below(6)], false),
    };
    let mut list = LayerList { specs: Vec::new(), shape: shape.clone() };
    if tokens {
        let features = 1 + draw.below(5);
        list.push(LayerSpec::Embedding(EmbeddingSpec { vocabulary: VOCABULARY, features }));
    }
    for _ in 0..1 + draw.below(3) {
        match list.shape.len() {
            3 => image(draw, &mut list),
            2 => sequence(draw, &mut list),
            _ => plain(draw, &mut list),
        }
    }
    match list.shape.len() {
        3 if draw.one_in(2) => list.push(LayerSpec::GlobalAvgPool),
        2 if draw.one_in(2) => list.push(LayerSpec::MeanOverTime),
        3 | 2 => list.push(LayerSpec::Flatten),
        _ => {}
    }
    let inputs = list.shape[0];
    let bias = draw.one_in(2);
    list.push(LayerSpec::Linear(LinearSpec { inputs, outputs: CLASSES, bias }));
    (list.specs, shape, tokens)
}

/// Networks of convolutions whose outputs fill vectors, which the fused executor computes without
/// patches: by minimal filtering (3x3, stride 1, many channels), or with the pixels where they are;
/// on images of any size. And the input shape.
pub fn wide_architecture(draw: &mut Draw) -> (Vec<LayerSpec>, Vec<usize>) {
    let shape = vec![[1, 3, 48][draw.below(3)], 3 + draw.below(9), 3 + draw.below(9)];
    let mut list = LayerList { specs: Vec::new(), shape: shape.clone() };
    for _ in 0..1 + draw.below(3) {
        if draw.one_in(3) && list.shape[0] >= 48 {
            let block = residual(draw, list.shape[0]);
            list.push(block);
            continue;
        }
        let mut spec = Conv2dSpec::new(list.shape[0], [16, 48, 64][draw.below(3)], 3);
        if draw.one_in(2) {
            (spec.kernel, spec.stride) = (draw.pair(2, 4), draw.pair(1, 2));
        }
        (spec.padding, spec.bias) = (draw.pair(0, 3), draw.one_in(2));
        spec.standardised = draw.one_in(3).then(Standardisation::scaled);
        list.push(LayerSpec::Conv2d(spec));
        let layer = activation(draw);
        list.push(layer);
    }
    list.push(if draw.one_in(2) { LayerSpec::GlobalAvgPool } else { LayerSpec::Flatten });
    let inputs = list.shape[0];
    list.push(LayerSpec::Linear(LinearSpec { inputs, outputs: CLASSES, bias: true }));
    (list.specs, shape)
}

fn activation(draw: &mut Draw) -> LayerSpec {
    match draw.below(3) {
        0 => LayerSpec::Selu,
        1 => LayerSpec::Relu,
        _ => LayerSpec::Tanh,
    }
}

fn dropout(draw: &mut Draw, list: &mut LayerList) {
    if draw.one_in(3) {
        list.push(LayerSpec::Dropout(DropoutSpec { rate: 0.4 }));
    }
}

fn convolution(draw: &mut Draw, channels_in: usize) -> Conv2dSpec {
    let groups = if channels_in.is_multiple_of(2) && draw.one_in(2) { 2 } else { 1 };
    let mut spec = Conv2dSpec::new(channels_in, groups * (1 + draw.below(3)), 1);
    (spec.groups, spec.bias) = (groups, draw.one_in(2));
    (spec.kernel, spec.stride) = (draw.pair(1, 4), draw.pair(1, 2));
    (spec.padding, spec.dilation) = (draw.pair(0, 3), draw.pair(1, 2));
    if draw.one_in(2) {
        let guards = [
            VarianceGuard::Add(1e-2),
            VarianceGuard::AtLeast(1e-4),
            VarianceGuard::AtLeast(1e3),
            VarianceGuard::Unscaled(1e-2),
        ];
        let guard = guards[draw.below(4)];
        spec.standardised = Some(Standardisation { gain: draw.one_in(2), guard });
    }
    spec
}

fn group_norm(draw: &mut Draw, channels: usize) -> LayerSpec {
    let groups = if channels.is_multiple_of(2) && draw.one_in(2) { 2 } else { 1 };
    LayerSpec::GroupNorm(GroupNormSpec { groups, channels, epsilon: 1e-2 })
}

/// A residual block that keeps the shape, with or without a shortcut layer.
fn residual(draw: &mut Draw, channels: usize) -> LayerSpec {
    let mut body = vec![group_norm(draw, channels), activation(draw)];
    let mut last = Conv2dSpec::new(channels, channels, 3);
    last.padding = [1, 1];
    last.standardised = draw.one_in(2).then(Standardisation::scaled);
    body.push(LayerSpec::Conv2d(last));
    let mut shortcut = Vec::new();
    if draw.one_in(2) {
        shortcut.push(LayerSpec::Conv2d(Conv2dSpec::new(channels, channels, 1)));
    }
    LayerSpec::Residual(ResidualSpec { body, shortcut })
}

fn image(draw: &mut Draw, list: &mut LayerList) {
    if draw.one_in(3) {
        let layers = vec![residual(draw, list.shape[0]), activation(draw)];
        let name = format!("block{}", list.specs.len());
        return list.push(LayerSpec::Group(GroupSpec { name, layers }));
    }
    let spec = convolution(draw, list.shape[0]);
    list.push(LayerSpec::Conv2d(spec));
    if draw.one_in(2) {
        let norm = group_norm(draw, list.shape[0]);
        list.push(norm);
    }
    list.push(activation(draw));
    dropout(draw, list);
    if draw.one_in(3) {
        let (before, after) = (draw.pair(0, 3), draw.pair(0, 3));
        list.push(LayerSpec::ZeroPad2d(ZeroPad2dSpec { before, after }));
    }
    let (kernel, stride) = (draw.pair(1, 2), draw.pair(1, 2));
    match draw.below(3) {
        0 => list.push(LayerSpec::MaxPool2d(MaxPool2dSpec { kernel, stride })),
        1 => list.push(LayerSpec::AvgPool2d(AvgPool2dSpec { kernel, stride })),
        _ => {}
    }
}

fn sequence(draw: &mut Draw, list: &mut LayerList) {
    let inputs = list.shape[1];
    match draw.below(3) {
        0 => list.push(LayerSpec::Lstm(LstmSpec {
            inputs,
            hidden: 1 + draw.below(4),
            bidirectional: draw.one_in(2),
        })),
        1 => list.push(LayerSpec::LayerNorm(LayerNormSpec { features: inputs, epsilon: 1e-2 })),
        _ => {
            let (outputs, bias) = (1 + draw.below(5), draw.one_in(2));
            list.push(LayerSpec::Linear(LinearSpec { inputs, outputs, bias }));
            list.push(activation(draw));
        }
    }
    dropout(draw, list);
}

fn plain(draw: &mut Draw, list: &mut LayerList) {
    let (inputs, outputs, bias) = (list.shape[0], 1 + draw.below(9), draw.one_in(2));
    list.push(LayerSpec::Linear(LinearSpec { inputs, outputs, bias }));
    if draw.one_in(3) {
        list.push(LayerSpec::LayerNorm(LayerNormSpec { features: outputs, epsilon: 1e-2 }));
    }
    list.push(activation(draw));
    dropout(draw, list);
}

/// A network with parameters that keep activations and gradients in a normal range.
pub fn network(draw: &mut Draw, shape: &[usize], specs: &[LayerSpec]) -> Network {
    let network = Network::build(shape, specs, |path, shape, fan_in| {
        let scale = 1.5 / (fan_in as f32).sqrt();
        let around = if path.ends_with("gamma") || path.ends_with("gain") { 1.0 } else { 0.0 };
        (0..shape.iter().product()).map(|_| around + scale * draw.uniform()).collect()
    });
    network.unwrap()
}

pub fn batch(draw: &mut Draw, shape: &[usize], tokens: bool, n: usize, copies: usize) -> Batch {
    let size: usize = shape.iter().product();
    let mut number = || if tokens { draw.below(VOCABULARY) as f32 } else { 2.0 * draw.uniform() };
    let features = (0..n * copies * size).map(|_| number()).collect();
    let labels = (0..n).map(|_| draw.below(CLASSES) as u32).collect();
    Batch::with_copies(features, shape, labels, copies).unwrap().seed(draw.below(1000) as u64)
}

/// No weights, a random mask, or positive weights; with all zeros for some tensors.
pub fn weights(draw: &mut Draw, network: &Network) -> Option<CoordinateWeights> {
    let kind = draw.below(3);
    if kind == 0 {
        return None;
    }
    let mut weights = Gradients::zeros_like(network);
    let last = weights.entries.len() - 1;
    for (i, entry) in weights.entries.iter_mut().enumerate() {
        if i < last && draw.one_in(5) {
            continue;
        }
        for value in &mut entry.values {
            *value = if kind == 1 { draw.below(2) as f32 } else { draw.uniform().powi(2) };
        }
    }
    Some(CoordinateWeights::new(network, weights).unwrap())
}
