//! Wide residual networks.

use super::images;
use crate::data::Dataset;
use crate::layers;
use crate::nn::builder::{Activation, Family, Frame, ModelBuilder};
use crate::nn::{
    Conv2dSpec, GlobalAvgPool, GroupNormSpec, GroupSpec, Guard, LayerSpec, LinearSpec,
    ResidualSpec, Standardisation,
};
use crate::{Error, ErrorKind, Result};

/// Groups of every normalisation.
const NORM_GROUPS: usize = 16;

/// The options of a wide residual network.
#[derive(Clone, Debug)]
pub struct WideResnet {
    depth: usize,
    width: usize,
    gain: bool,
    conv_bias: bool,
    guard: Guard,
}

/// A wide residual network (Zagoruyko & Komodakis, 2016) as De et al. (2022), "Unlocking
/// high-accuracy differentially private image classification through scale", train it privately:
/// convolutions with standardised weights, group normalisation with 16 groups, ReLU. In groups
/// `stem`, `group1` to `group3`, and `head`.
///
/// The weight standardisation is, if nothing is said, the one that benchmarks of other libraries
/// use: `Guard::Add(1e-4)`, no gain, no biases. `wide_resnet(&data, 16, 4)` then has 2,748,890
/// parameters on CIFAR-10. De et al.'s own has more:
/// `.gain(true).conv_bias(true).guard(Guard::AtLeast(1e-4))`.
pub fn wide_resnet(data: &Dataset, depth: usize, width: usize) -> ModelBuilder<WideResnet> {
    let guard = Guard::Add(1e-4);
    let family = WideResnet { depth, width, gain: false, conv_bias: false, guard };
    ModelBuilder::new(&format!("wide_resnet_{depth}_{width}"), data, family)
        .activation(Activation::Relu)
}

impl ModelBuilder<WideResnet> {
    /// Whether each output channel of a convolution has a trainable factor; no if not said.
    pub fn gain(mut self, gain: bool) -> Self {
        self.family.gain = gain;
        self
    }

    /// Whether convolutions have biases; no if not said.
    pub fn conv_bias(mut self, bias: bool) -> Self {
        self.family.conv_bias = bias;
        self
    }

    /// What keeps the standardisation away from dividing by 0: `Guard::Add(1e-4)` if not said.
    /// De et al.'s own code has gains, biases and `Guard::AtLeast(1e-4)`.
    pub fn guard(mut self, guard: Guard) -> Self {
        self.family.guard = guard;
        self
    }
}

impl WideResnet {
    fn conv(&self, from: usize, to: usize, kernel: usize, step: usize) -> Conv2dSpec {
        let rule = Standardisation { gain: self.gain, guard: self.guard };
        let conv = Conv2dSpec { bias: self.conv_bias, ..Conv2dSpec::new(from, to, kernel) };
        conv.stride(step).padding(kernel / 2).standardised(rule)
    }

    /// Normalisation and activation come before each convolution. Where the width changes, what
    /// they give also goes through the shortcut, a convolution of one pixel.
    fn block(&self, from: usize, to: usize, step: usize, act: &LayerSpec) -> Vec<LayerSpec> {
        let before = layers![GroupNormSpec::new(NORM_GROUPS, from), act.clone()];
        let body = layers![
            self.conv(from, to, 3, step),
            GroupNormSpec::new(NORM_GROUPS, to),
            act.clone(),
            self.conv(to, to, 3, 1)
        ];
        if from == to && step == 1 {
            return layers![ResidualSpec::new([before, body].concat())];
        }
        let shortcut = layers![self.conv(from, to, 1, step)];
        [before, layers![ResidualSpec::new(body).shortcut(shortcut)]].concat()
    }
}

impl Family for WideResnet {
    fn layers(&self, frame: &Frame) -> Result<Vec<LayerSpec>> {
        let [channels, _, _] = images("wide_resnet", frame)?;
        if self.depth < 10 || self.depth % 6 != 4 || self.width == 0 {
            let what = format!("a wide_resnet of depth {} and width {}", self.depth, self.width);
            let why = "its depth is 6 n + 4 with n blocks in each of three groups, its width at \
                       least 1";
            return Err(Error::new(ErrorKind::Model, what, why).fix("try 16 and 4, or 28 and 10"));
        }
        let act = frame.activation.spec();
        let mut layers = layers![GroupSpec::new("stem", layers![self.conv(channels, 16, 3, 1)])];
        let mut from = 16;
        for (group, wide) in [16, 32, 64].into_iter().enumerate() {
            let to = wide * self.width;
            let mut blocks = Vec::new();
            for block in 0..(self.depth - 4) / 6 {
                let step = if group > 0 && block == 0 { 2 } else { 1 };
                blocks.extend(self.block(from, to, step, &act));
                from = to;
            }
            layers.push(GroupSpec::new(&format!("group{}", group + 1), blocks).into());
        }
        let head = layers![
            GroupNormSpec::new(NORM_GROUPS, from),
            act,
            GlobalAvgPool,
            LinearSpec::new(from, frame.classes)
        ];
        layers.push(GroupSpec::new("head", head).into());
        Ok(layers)
    }
}
