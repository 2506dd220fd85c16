//! Pre-activation residual networks.

use super::image_shape;
use crate::data::Dataset;
use crate::layers;
use crate::nn::builder::{Activation, ModelBuilder, ModelConfig, ModelFamily};
use crate::nn::{
    Conv2dSpec, GlobalAvgPool, GroupNormSpec, GroupSpec, LayerSpec, LinearSpec, MaxPool2dSpec,
    ResidualSpec, Standardisation, ZeroPad2dSpec,
};
use crate::{Error, ErrorKind, Result};

/// Upper bounds of the sizes, well above those of every published network.
const MAX_GROUPS: usize = 6;
const MAX_BLOCKS: usize = 100;
const MAX_CHANNELS: usize = 4096;

/// The first layers of a residual network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stem {
    /// A 3 x 3 convolution with stride 1, for images of about 32 x 32 pixels.
    #[default]
    Cifar,
    /// A 7 x 7 convolution and 3 x 3 max pooling without padding, both with stride 2, for images of
    /// 64 x 64 pixels and more.
    ImageNet,
    /// Stem of BiT networks: that of [`ImageNet`](Self::ImageNet), with one row and column of
    /// zeros around the images that are pooled.
    Bit,
}

/// Model family of [`resnet18`], [`resnet50`] and [`bit_resnet`], with its options.
#[derive(Clone, Debug)]
pub struct Resnet {
    name: String,
    /// Number of blocks in each group.
    blocks: Vec<usize>,
    /// Whether a block has three convolutions (1 x 1, 3 x 3, 1 x 1) instead of two (3 x 3).
    bottleneck: bool,
    /// Number of channels of the stem, and of the 3 x 3 convolutions of the first group.
    base_channels: usize,
    stem: Stem,
    norm_groups: usize,
    standardised: Option<Standardisation>,
}

/// Builds ResNet-18 with pre-activation (ResNet v2; He et al., 2016, "Identity mappings in deep
/// residual networks").
///
/// Group normalisation replaces batch normalisation, which can't be trained with per-example
/// clipping. The layers are in groups `stem`, `group1` to `group4`, and `head`. The default
/// activation is ReLU.
pub fn resnet18(data: &Dataset) -> ModelBuilder<Resnet> {
    resnet("resnet18", data, &[2, 2, 2, 2], false)
}

/// Builds ResNet-50 with pre-activation and bottleneck blocks; otherwise as [`resnet18`].
pub fn resnet50(data: &Dataset) -> ModelBuilder<Resnet> {
    resnet("resnet50", data, &[3, 4, 6, 3], true)
}

/// Builds a residual network of BiT (Kolesnikov et al., 2020, "Big Transfer (BiT): general visual
/// representation learning"), as in the PyTorch library timm, which publishes its weights:
/// [`WeightLayout::timm_resnetv2`](crate::nn::WeightLayout::timm_resnetv2) reads them.
///
/// [`resnet50`] with [`Stem::Bit`] and [standardised weights](Standardisation::unscaled). `blocks`
/// are the numbers of blocks in each group, and `width` multiplies all numbers of channels.
/// BiT-R50x1 is `bit_resnet(&data, &[3, 4, 6, 3], 1)`, R101x3 has `&[3, 4, 23, 3]` and width 3,
/// R152x4 has `&[3, 8, 36, 3]` and width 4. The name counts the layers: `"bit_resnet50x1"`.
///
/// BiT networks were trained on images with values from -1 to 1, (pixel - 0.5) / 0.5.
pub fn bit_resnet(data: &Dataset, blocks: &[usize], width: usize) -> ModelBuilder<Resnet> {
    let blocks_in_all = blocks.iter().fold(0usize, |all, &count| all.saturating_add(count));
    let layers = blocks_in_all.saturating_mul(3).saturating_add(2);
    resnet(&format!("bit_resnet{layers}x{width}"), data, blocks, true)
        .base_channels(width.saturating_mul(64))
        .stem(Stem::Bit)
        .standardised(Standardisation::unscaled())
}

/// Builds BiT-R50x1, the smallest network of BiT: see [`bit_resnet`].
pub fn bit_resnet50(data: &Dataset) -> ModelBuilder<Resnet> {
    bit_resnet(data, &[3, 4, 6, 3], 1)
}

fn resnet(name: &str, data: &Dataset, blocks: &[usize], bottleneck: bool) -> ModelBuilder<Resnet> {
    let family = Resnet {
        name: name.to_owned(),
        blocks: blocks.to_vec(),
        bottleneck,
        base_channels: 64,
        stem: Stem::default(),
        norm_groups: 32,
        standardised: None,
    };
    ModelBuilder::new(name, data, family).activation(Activation::Relu)
}

impl ModelBuilder<Resnet> {
    /// Sets the first layers. The default is [`Stem::Cifar`].
    pub fn stem(mut self, stem: Stem) -> Self {
        self.family.stem = stem;
        self
    }

    /// Sets the number of channels of the stem and of the 3 x 3 convolutions of the first group;
    /// each later group has twice as many. The default is 64; for a BiT network, 64 times its
    /// width.
    pub fn base_channels(mut self, channels: usize) -> Self {
        self.family.base_channels = channels;
        self
    }

    /// Sets the number of groups of every group normalisation. The default is 32 (Wu & He, 2018).
    pub fn norm_groups(mut self, groups: usize) -> Self {
        self.family.norm_groups = groups;
        self
    }

    /// Standardises the weights of all convolutions by `rule`. By default they are not.
    pub fn standardised(mut self, rule: Standardisation) -> Self {
        self.family.standardised = Some(rule);
        self
    }
}

impl Resnet {
    fn check_sizes(&self) -> Result<()> {
        let Self { name, blocks, base_channels, .. } = self;
        let sizes = (1..=MAX_GROUPS).contains(&blocks.len())
            && blocks.iter().all(|count| (1..=MAX_BLOCKS).contains(count))
            && (1..=MAX_CHANNELS).contains(base_channels);
        if sizes {
            return Ok(());
        }
        let what = format!("{name} with blocks {blocks:?} and {base_channels} base channels");
        let why = format!(
            "the model needs 1 to {MAX_GROUPS} groups of 1 to {MAX_BLOCKS} blocks, and 1 to \
             {MAX_CHANNELS} base channels"
        );
        Err(Error::new(ErrorKind::Model, what, why).fix("use blocks [3, 4, 6, 3] and width 1"))
    }

    fn conv(&self, from: usize, to: usize, kernel: usize, stride: usize) -> LayerSpec {
        let conv = Conv2dSpec::new(from, to, kernel).stride(stride).padding(kernel / 2);
        LayerSpec::Conv2d(Conv2dSpec { standardised: self.standardised, ..conv.without_bias() })
    }

    fn norm(&self, channels: usize, act: &LayerSpec) -> Vec<LayerSpec> {
        layers![GroupNormSpec::new(self.norm_groups, channels), act.clone()]
    }

    /// Returns a block from `from` channels to those of a group of `width`. If shape or channels
    /// change, the shortcut is a 1 x 1 convolution of the pre-activation.
    fn block(&self, from: usize, width: usize, stride: usize, act: &LayerSpec) -> Vec<LayerSpec> {
        let to = self.block_channels(width);
        let pre_activation = self.norm(from, act);
        let body = if self.bottleneck {
            [
                layers![self.conv(from, width, 1, 1)],
                self.norm(width, act),
                layers![self.conv(width, width, 3, stride)],
                self.norm(width, act),
                layers![self.conv(width, to, 1, 1)],
            ]
            .concat()
        } else {
            let (first, second) = (self.conv(from, to, 3, stride), self.conv(to, to, 3, 1));
            [layers![first], self.norm(to, act), layers![second]].concat()
        };
        if from == to && stride == 1 {
            return layers![ResidualSpec::new([pre_activation, body].concat())];
        }
        let shortcut = layers![self.conv(from, to, 1, stride)];
        [pre_activation, layers![ResidualSpec::new(body).shortcut(shortcut)]].concat()
    }

    /// Returns the number of output channels of a block in a group of `width`.
    fn block_channels(&self, width: usize) -> usize {
        if self.bottleneck { 4 * width } else { width }
    }
}

impl ModelFamily for Resnet {
    fn layers(&self, config: &ModelConfig) -> Result<Vec<LayerSpec>> {
        let [channels, height, width] = image_shape(&self.name, config)?;
        self.check_sizes()?;
        if self.stem == Stem::ImageNet && height.min(width) < 11 {
            let what = format!("{} for images of {height} x {width} pixels", self.name);
            let why = "Stem::ImageNet needs sides of at least 11 pixels: it divides them by four";
            return Err(Error::new(ErrorKind::Model, what, why).fix("use .stem(Stem::Cifar)"));
        }
        let act = config.activation.spec();
        let stem = match self.stem {
            Stem::Cifar => layers![self.conv(channels, self.base_channels, 3, 1)],
            Stem::ImageNet => {
                let conv = self.conv(channels, self.base_channels, 7, 2);
                layers![conv, MaxPool2dSpec::new(3).stride(2)]
            }
            Stem::Bit => {
                let conv = self.conv(channels, self.base_channels, 7, 2);
                layers![conv, ZeroPad2dSpec::new(1), MaxPool2dSpec::new(3).stride(2)]
            }
        };
        let mut layers = layers![GroupSpec::new("stem", stem)];
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
        let last = layers![GlobalAvgPool, LinearSpec::new(from, config.classes)];
        let head = [self.norm(from, &act), last].concat();
        layers.push(GroupSpec::new("head", head).into());
        Ok(layers)
    }
}
