//! Wide residual networks.

use super::image_shape;
use crate::data::Dataset;
use crate::layers;
use crate::nn::builder::{Activation, ModelBuilder, ModelConfig, ModelFamily};
use crate::nn::{
    Conv2dSpec, GlobalAvgPool, GroupNormSpec, GroupSpec, LayerSpec, LinearSpec, ResidualSpec,
    Standardisation, VarianceGuard, ZeroPad2dSpec,
};
use crate::{Error, ErrorKind, Result};

/// Number of groups of every group normalisation.
const NORM_GROUPS: usize = 16;

/// Model family of [`wide_resnet`], with its options.
#[derive(Clone, Debug)]
pub struct WideResnet {
    depth: usize,
    width: usize,
    gain: bool,
    conv_bias: bool,
    guard: VarianceGuard,
    as_in_paper: bool,
}

/// Builds a wide residual network, WRN-`depth`-`width` (Zagoruyko & Komodakis, 2016, "Wide
/// residual networks"), in the form of De et al. (2022), "Unlocking high-accuracy differentially
/// private image classification through scale".
///
/// Convolutions have standardised weights, group normalisation has 16 groups, and the default
/// activation is ReLU. The layers are in groups `stem`, `group1` to `group3`, and `head`. `depth`
/// is 6 n + 4 for n blocks in each group.
///
/// The default weight standardisation is the one in the benchmarks of other libraries:
/// `VarianceGuard::Add(1e-4)`, no gain, no biases. `wide_resnet(&data, 16, 4)` then
/// has 2,748,890 parameters on CIFAR-10. The convolutions of De et al.'s network have more:
/// `.gain(true).conv_bias(true).guard(VarianceGuard::AtLeast(1e-4))`. Their code also orders and
/// pads the layers in another way; [`.as_published()`](ModelBuilder::as_published) is that
/// network.
pub fn wide_resnet(data: &Dataset, depth: usize, width: usize) -> ModelBuilder<WideResnet> {
    let guard = VarianceGuard::Add(1e-4);
    let family =
        WideResnet { depth, width, gain: false, conv_bias: false, guard, as_in_paper: false };
    ModelBuilder::new(&format!("wide_resnet_{depth}_{width}"), data, family)
        .activation(Activation::Relu)
}

impl ModelBuilder<WideResnet> {
    /// Sets whether each output channel of a convolution has a trainable gain. The default is no.
    pub fn gain(mut self, gain: bool) -> Self {
        self.family.gain = gain;
        self
    }

    /// Sets whether convolutions have biases. The default is no.
    pub fn conv_bias(mut self, bias: bool) -> Self {
        self.family.conv_bias = bias;
        self
    }

    /// Sets the guard of the weight standardisation against division by 0. The default is
    /// `VarianceGuard::Add(1e-4)`; De et al.'s code uses
    /// `VarianceGuard::AtLeast(1e-4)`.
    pub fn guard(mut self, guard: VarianceGuard) -> Self {
        self.family.guard = guard;
        self
    }

    /// Selects the network of De et al.'s code, whose published weights
    /// [`WeightLayout::de_wide_resnet`](crate::nn::WeightLayout::de_wide_resnet) reads.
    ///
    /// Convolutions have gains, biases and `VarianceGuard::AtLeast(1e-4)`. Each activation comes
    /// before the normalisation, not after it. The shortcut of every group's first block is an
    /// activation, a normalisation and a 1 x 1 convolution of the block's input. Where a
    /// convolution of stride 2 halves an even side, the padding is one row below or one column to
    /// the right (`SAME`). It has 2,753,818 parameters for depth 16, width 4 and CIFAR-10.
    pub fn as_published(mut self) -> Self {
        self.family.as_in_paper = true;
        self.gain(true).conv_bias(true).guard(VarianceGuard::AtLeast(1e-4))
    }
}

impl WideResnet {
    fn conv(&self, from: usize, to: usize, kernel: usize, stride: usize) -> Conv2dSpec {
        let rule = Standardisation { gain: self.gain, guard: self.guard };
        let conv = Conv2dSpec { bias: self.conv_bias, ..Conv2dSpec::new(from, to, kernel) };
        conv.stride(stride).padding(kernel / 2).standardised(rule)
    }

    /// Returns a pre-activation block. If shape or channels change, the shortcut is a 1 x 1
    /// convolution of the pre-activation.
    fn block(&self, from: usize, to: usize, stride: usize, act: &LayerSpec) -> Vec<LayerSpec> {
        let pre_activation = layers![GroupNormSpec::new(NORM_GROUPS, from), act.clone()];
        let body = layers![
            self.conv(from, to, 3, stride),
            GroupNormSpec::new(NORM_GROUPS, to),
            act.clone(),
            self.conv(to, to, 3, 1)
        ];
        if from == to && stride == 1 {
            return layers![ResidualSpec::new([pre_activation, body].concat())];
        }
        let shortcut = layers![self.conv(from, to, 1, stride)];
        [pre_activation, layers![ResidualSpec::new(body).shortcut(shortcut)]].concat()
    }

    /// Returns a layer of De et al.'s code: an activation, a normalisation and a 3 x 3 convolution
    /// of images of this size, which become smaller by the stride, rounded up.
    fn published_layer(
        &self,
        [from, to]: [usize; 2],
        stride: usize,
        size: [usize; 2],
        act: &LayerSpec,
    ) -> Vec<LayerSpec> {
        let padding = size.map(|side| {
            let windows_end = side.div_ceil(stride).saturating_sub(1) * stride + 3;
            let total = windows_end.saturating_sub(side);
            (total / 2, total.div_ceil(2))
        });
        let mut layers = layers![act.clone(), GroupNormSpec::new(NORM_GROUPS, from)];
        let mut conv = self.conv(from, to, 3, stride);
        if padding.iter().all(|(before, after)| before == after) {
            conv.padding = padding.map(|(before, _)| before);
        } else {
            conv.padding = [0, 0];
            let (before, after) =
                (padding.map(|(before, _)| before), padding.map(|(_, after)| after));
            layers.push(ZeroPad2dSpec { before, after }.into());
        }
        layers.push(conv.into());
        layers
    }

    fn published_block(
        &self,
        [from, to]: [usize; 2],
        stride: usize,
        size: [usize; 2],
        act: &LayerSpec,
        first: bool,
    ) -> Vec<LayerSpec> {
        let first_layer = self.published_layer([from, to], stride, size, act);
        let size = size.map(|side| side.div_ceil(stride));
        let body = [first_layer, self.published_layer([to, to], 1, size, act)].concat();
        let shortcut = if first {
            layers![
                act.clone(),
                GroupNormSpec::new(NORM_GROUPS, from),
                self.conv(from, to, 1, stride)
            ]
        } else {
            Vec::new()
        };
        layers![ResidualSpec::new(body).shortcut(shortcut)]
    }
}

impl ModelFamily for WideResnet {
    fn layers(&self, config: &ModelConfig) -> Result<Vec<LayerSpec>> {
        let [channels, height, width] = image_shape("wide_resnet", config)?;
        let mut size = [height, width];
        if self.depth < 10 || self.depth % 6 != 4 || self.width == 0 {
            let what = format!("a wide_resnet of depth {} and width {}", self.depth, self.width);
            let why = "the depth must be 6 n + 4 for n blocks in each of three groups, and the \
                       width at least 1";
            let fix = "use depth 16 and width 4, or depth 28 and width 10";
            return Err(Error::new(ErrorKind::Model, what, why).fix(fix));
        }
        let act = config.activation.spec();
        let mut layers = layers![GroupSpec::new("stem", layers![self.conv(channels, 16, 3, 1)])];
        let mut from = 16;
        for (group, base) in [16, 32, 64].into_iter().enumerate() {
            let to = base * self.width;
            let mut blocks = Vec::new();
            for block in 0..(self.depth - 4) / 6 {
                let stride = if group > 0 && block == 0 { 2 } else { 1 };
                blocks.extend(if self.as_in_paper {
                    self.published_block([from, to], stride, size, &act, block == 0)
                } else {
                    self.block(from, to, stride, &act)
                });
                (from, size) = (to, size.map(|side| side.div_ceil(stride)));
            }
            layers.push(GroupSpec::new(&format!("group{}", group + 1), blocks).into());
        }
        let mut head = layers![GroupNormSpec::new(NORM_GROUPS, from), act];
        if self.as_in_paper {
            head.reverse();
        }
        head.extend(layers![GlobalAvgPool, LinearSpec::new(from, config.classes)]);
        layers.push(GroupSpec::new("head", head).into());
        Ok(layers)
    }
}
