//! Residual networks with normalisation and activation before the convolutions.

use super::images;
use crate::data::Dataset;
use crate::layers;
use crate::nn::builder::{Activation, Family, Frame, ModelBuilder};
use crate::nn::{
    Conv2dSpec, GlobalAvgPool, GroupNormSpec, GroupSpec, LayerSpec, LinearSpec, MaxPool2dSpec,
    ResidualSpec, Standardisation,
};
use crate::{Error, ErrorKind, Result};

/// How a residual network begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stem {
    /// One convolution of 3 x 3 pixels that keeps the size: for images of about 32 pixels.
    #[default]
    Cifar,
    /// A convolution of 7 x 7 pixels and a maximum of 3 x 3 (without padding), both with step 2:
    /// for images of 64 pixels and more.
    ImageNet,
}

/// The options of a residual network.
#[derive(Clone, Debug)]
pub struct Resnet {
    name: &'static str,
    blocks: [usize; 4],
    /// Three convolutions to a block, of which the outer ones look at one pixel.
    bottleneck: bool,
    stem: Stem,
    norm_groups: usize,
    standardised: Option<Standardisation>,
}

/// ResNet-18 in its second version (He et al., 2016, "Identity mappings in deep residual
/// networks"), with group normalisation for the batch normalisation that can't be trained
/// privately. In groups `stem`, `group1` to `group4`, and `head`; ReLU if not said otherwise.
pub fn resnet18(data: &Dataset) -> ModelBuilder<Resnet> {
    resnet("resnet18", data, [2, 2, 2, 2], false)
}

/// ResNet-50 in its second version, likewise: blocks of three convolutions.
pub fn resnet50(data: &Dataset) -> ModelBuilder<Resnet> {
    resnet("resnet50", data, [3, 4, 6, 3], true)
}

fn resnet(
    name: &'static str,
    data: &Dataset,
    blocks: [usize; 4],
    bottleneck: bool,
) -> ModelBuilder<Resnet> {
    let stem = Stem::default();
    let family = Resnet { name, blocks, bottleneck, stem, norm_groups: 32, standardised: None };
    ModelBuilder::new(name, data, family).activation(Activation::Relu)
}

impl ModelBuilder<Resnet> {
    /// How the network begins; [`Stem::Cifar`] if not said.
    pub fn stem(mut self, stem: Stem) -> Self {
        self.family.stem = stem;
        self
    }

    /// Groups of every normalisation; 32 if not said (Wu & He, 2018).
    pub fn norm_groups(mut self, groups: usize) -> Self {
        self.family.norm_groups = groups;
        self
    }

    /// Standardises the weights of all convolutions; they are plain if not said.
    pub fn standardised(mut self, rule: Standardisation) -> Self {
        self.family.standardised = Some(rule);
        self
    }
}

impl Resnet {
    fn conv(&self, from: usize, to: usize, kernel: usize, step: usize) -> LayerSpec {
        let conv = Conv2dSpec::new(from, to, kernel).stride(step).padding(kernel / 2);
        LayerSpec::Conv2d(Conv2dSpec { standardised: self.standardised, ..conv.without_bias() })
    }

    fn norm(&self, channels: usize, act: &LayerSpec) -> Vec<LayerSpec> {
        layers![GroupNormSpec::new(self.norm_groups, channels), act.clone()]
    }

    fn block(&self, from: usize, width: usize, step: usize, act: &LayerSpec) -> Vec<LayerSpec> {
        let to = self.widened(width);
        let before = self.norm(from, act);
        let body = if self.bottleneck {
            [
                layers![self.conv(from, width, 1, 1)],
                self.norm(width, act),
                layers![self.conv(width, width, 3, step)],
                self.norm(width, act),
                layers![self.conv(width, to, 1, 1)],
            ]
            .concat()
        } else {
            let (first, second) = (self.conv(from, to, 3, step), self.conv(to, to, 3, 1));
            [layers![first], self.norm(to, act), layers![second]].concat()
        };
        if from == to && step == 1 {
            return layers![ResidualSpec::new([before, body].concat())];
        }
        let shortcut = layers![self.conv(from, to, 1, step)];
        [before, layers![ResidualSpec::new(body).shortcut(shortcut)]].concat()
    }

    fn widened(&self, width: usize) -> usize {
        if self.bottleneck { 4 * width } else { width }
    }
}

impl Family for Resnet {
    fn layers(&self, frame: &Frame) -> Result<Vec<LayerSpec>> {
        let [channels, height, width] = images(self.name, frame)?;
        if self.stem == Stem::ImageNet && height.min(width) < 11 {
            let what = format!("{} for images of {height} x {width} pixels", self.name);
            let why = "Stem::ImageNet divides their sides by four before anything else";
            return Err(Error::new(ErrorKind::Model, what, why).fix("use .stem(Stem::Cifar)"));
        }
        let act = frame.activation.spec();
        let stem = match self.stem {
            Stem::Cifar => layers![self.conv(channels, 64, 3, 1)],
            Stem::ImageNet => {
                layers![self.conv(channels, 64, 7, 2), MaxPool2dSpec::new(3).stride(2)]
            }
        };
        let mut layers = layers![GroupSpec::new("stem", stem)];
        let mut from = 64;
        for (group, count) in self.blocks.into_iter().enumerate() {
            let width = 64 << group;
            let mut blocks = Vec::new();
            for block in 0..count {
                let step = if group > 0 && block == 0 { 2 } else { 1 };
                blocks.extend(self.block(from, width, step, &act));
                from = self.widened(width);
            }
            layers.push(GroupSpec::new(&format!("group{}", group + 1), blocks).into());
        }
        let last = layers![GlobalAvgPool, LinearSpec::new(from, frame.classes)];
        let head = [self.norm(from, &act), last].concat();
        layers.push(GroupSpec::new("head", head).into());
        Ok(layers)
    }
}
