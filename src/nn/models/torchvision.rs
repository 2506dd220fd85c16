//! The residual networks of torchvision, with their BatchNorm folded into the convolutions.

use super::image_shape;
use crate::data::Dataset;
use crate::layers;
use crate::nn::builder::{Activation, ModelBuilder, ModelConfig, ModelFamily};
use crate::nn::{
    Conv2dSpec, GlobalAvgPool, GroupSpec, LayerSpec, LinearSpec, MaxPool2dSpec, ResidualSpec,
    ZeroPad2dSpec,
};
use crate::{Error, ErrorKind, Result};

/// Number of groups of blocks.
const GROUPS: usize = 4;
/// Upper bounds of the sizes, well above those of every published network.
const MAX_BLOCKS: usize = 100;
const MAX_CHANNELS: usize = 4096;

/// Model family of [`torchvision_resnet18`] and its larger versions, with its options.
#[derive(Clone, Debug)]
pub struct TorchvisionResnet {
    name: String,
    /// Number of blocks in each group.
    blocks: [usize; GROUPS],
    /// Whether a block has three convolutions (1 x 1, 3 x 3, 1 x 1) instead of two (3 x 3).
    bottleneck: bool,
    /// Number of channels of the stem, and of the 3 x 3 convolutions of the first group.
    base_channels: usize,
}

/// Builds ResNet-18 (He et al., 2016, "Deep residual learning for image recognition") as in
/// torchvision, for the weights that it publishes:
/// [`WeightLayout::torchvision`](crate::nn::WeightLayout::torchvision) reads them.
///
/// It starts private training from these weights; trained from initial parameters, it is worse
/// than [`resnet18`](super::resnet18), which has group normalisation. The activation comes after
/// each convolution and after each block. BatchNorm with the fixed statistics of the pre-training
/// data is an affine map per channel and mixes no examples, so it is folded into the convolution
/// before it: every convolution has a bias. What is trained are these folded weights and biases,
/// and the head; the statistics do not change. The layers are in groups `stem`, `group1` to
/// `group4`, and `head`, which are torchvision's `conv1`, `layer1` to `layer4`, and `fc`.
pub fn torchvision_resnet18(data: &Dataset) -> ModelBuilder<TorchvisionResnet> {
    torchvision_resnet("torchvision_resnet18", data, [2, 2, 2, 2], false)
}

/// Builds ResNet-34; otherwise as [`torchvision_resnet18`].
pub fn torchvision_resnet34(data: &Dataset) -> ModelBuilder<TorchvisionResnet> {
    torchvision_resnet("torchvision_resnet34", data, [3, 4, 6, 3], false)
}

/// Builds ResNet-50, whose bottleneck blocks have their stride in the 3 x 3 convolution; otherwise
/// as [`torchvision_resnet18`].
pub fn torchvision_resnet50(data: &Dataset) -> ModelBuilder<TorchvisionResnet> {
    torchvision_resnet("torchvision_resnet50", data, [3, 4, 6, 3], true)
}

fn torchvision_resnet(
    name: &str,
    data: &Dataset,
    blocks: [usize; GROUPS],
    bottleneck: bool,
) -> ModelBuilder<TorchvisionResnet> {
    let name = name.to_owned();
    let family = TorchvisionResnet { name: name.clone(), blocks, bottleneck, base_channels: 64 };
    ModelBuilder::new(&name, data, family).activation(Activation::Relu)
}

impl ModelBuilder<TorchvisionResnet> {
    /// Sets the number of channels of the stem and of the 3 x 3 convolutions of the first group;
    /// each later group has twice as many. The default is 64, as in torchvision.
    pub fn base_channels(mut self, channels: usize) -> Self {
        self.family.base_channels = channels;
        self
    }

    /// Sets the number of blocks in each group.
    pub fn blocks(mut self, blocks: [usize; GROUPS]) -> Self {
        self.family.blocks = blocks;
        self
    }
}

impl TorchvisionResnet {
    fn check_sizes(&self) -> Result<()> {
        let Self { name, blocks, base_channels, .. } = self;
        if blocks.iter().all(|count| (1..=MAX_BLOCKS).contains(count))
            && (1..=MAX_CHANNELS).contains(base_channels)
        {
            return Ok(());
        }
        let what = format!("{name} with blocks {blocks:?} and {base_channels} base channels");
        let why = format!(
            "each group has 1 to {MAX_BLOCKS} blocks, and there are 1 to {MAX_CHANNELS} base \
             channels"
        );
        Err(Error::new(ErrorKind::Model, what, why).fix("use the blocks and channels of the name"))
    }

    /// Returns a block from `from` channels to those of a group of `width`, and the activation
    /// after it.
    fn block(&self, from: usize, width: usize, stride: usize, act: &LayerSpec) -> Vec<LayerSpec> {
        let to = self.block_channels(width);
        let body = if self.bottleneck {
            let (first, last) = (conv(from, width, 1, 1), conv(width, to, 1, 1));
            layers![first, act.clone(), conv(width, width, 3, stride), act.clone(), last]
        } else {
            layers![conv(from, to, 3, stride), act.clone(), conv(to, to, 3, 1)]
        };
        let block = ResidualSpec::new(body);
        let block = if from == to && stride == 1 {
            block
        } else {
            block.shortcut(layers![conv(from, to, 1, stride)])
        };
        layers![block, act.clone()]
    }

    /// Returns the number of output channels of a block in a group of `width`.
    fn block_channels(&self, width: usize) -> usize {
        if self.bottleneck { 4 * width } else { width }
    }
}

/// Returns a convolution that keeps the size of the image, except for its stride.
fn conv(from: usize, to: usize, kernel: usize, stride: usize) -> Conv2dSpec {
    Conv2dSpec::new(from, to, kernel).stride(stride).padding(kernel / 2)
}

impl ModelFamily for TorchvisionResnet {
    fn layers(&self, config: &ModelConfig) -> Result<Vec<LayerSpec>> {
        let [channels, ..] = image_shape(&self.name, config)?;
        self.check_sizes()?;
        let act = config.activation.spec();
        // Zeros around the image are never the maximum alone, because ReLU comes before.
        let pool = layers![ZeroPad2dSpec::new(1), MaxPool2dSpec::new(3).stride(2)];
        let stem = layers![conv(channels, self.base_channels, 7, 2), act.clone()];
        let mut layers = layers![GroupSpec::new("stem", [stem, pool].concat())];
        let mut from = self.base_channels;
        for (group, &count) in self.blocks.iter().enumerate() {
            let width = self.base_channels << group;
            let mut blocks = Vec::new();
            for block in 0..count {
                let stride = if group > 0 && block == 0 { 2 } else { 1 };
                blocks.extend(self.block(from, width, stride, &act));
                from = self.block_channels(width);
            }
            layers.push(GroupSpec::new(&format!("group{}", group + 1), blocks).into());
        }
        let head = layers![GlobalAvgPool, LinearSpec::new(from, config.classes)];
        layers.push(GroupSpec::new("head", head).into());
        Ok(layers)
    }
}
