//! Layouts of the networks of other libraries whose weights are read: names of parameters, and
//! checks of the layers.

use super::parameter_location::{LayerKind, ParameterLocation};
use crate::nn::{
    Conv2dSpec, LayerSpec, MaxPool2dSpec, ResidualSpec, Standardisation, VarianceGuard,
    ZeroPad2dSpec,
};

/// Name of the layout of timm's `resnetv2` networks.
pub(super) const TIMM_RESNETV2: &str = "timm resnetv2";
/// Name of the layout of the wide ResNets of De et al.
pub(super) const DE_WIDE_RESNET: &str = "De et al.";
/// Name of the layout of torchvision's ResNets.
pub(super) const TORCHVISION: &str = "torchvision";

/// Returns the name of a parameter in timm's `resnetv2` networks.
pub(super) fn timm_name(location: &ParameterLocation) -> Option<String> {
    let ParameterLocation { group, block, shortcut, index_of_kind, .. } = location;
    let layer = match (group.as_str(), location.kind) {
        ("stem", LayerKind::Conv) if *index_of_kind == 0 => "stem.conv".to_owned(),
        ("head", LayerKind::Norm) if *index_of_kind == 0 => "norm".to_owned(),
        ("head", LayerKind::Linear) if *index_of_kind == 0 => "head.fc".to_owned(),
        (group, kind) => {
            let layer = match kind {
                LayerKind::Conv if *shortcut => "downsample.conv".to_owned(),
                LayerKind::Conv => format!("conv{}", index_of_kind + 1),
                LayerKind::Norm if !shortcut => format!("norm{}", index_of_kind + 1),
                _ => return None,
            };
            format!("stages.{}.blocks.{block}.{layer}", number(group)? - 1)
        }
    };
    let parameter = match location.parameter.as_str() {
        "gamma" => "weight",
        "beta" => "bias",
        same => same,
    };
    Some(format!("{layer}.{parameter}"))
}

/// Returns the name of a parameter in the networks of De et al.'s code, without that of the whole
/// module.
pub(super) fn haiku_name(location: &ParameterLocation) -> Option<String> {
    let ParameterLocation { group, block, shortcut, index_of_kind, .. } = location;
    let module = match (group.as_str(), location.kind) {
        ("stem", LayerKind::Conv) if *index_of_kind == 0 => "First_conv".to_owned(),
        ("head", LayerKind::Norm) if *index_of_kind == 0 => "Final_norm".to_owned(),
        ("head", LayerKind::Linear) if *index_of_kind == 0 => "Softmax".to_owned(),
        (group, kind) => {
            let name = format!("Block_{}", number(group)?);
            match kind {
                LayerKind::Conv if *shortcut => format!("{name}_skip_conv"),
                LayerKind::Norm if *shortcut => format!("{name}_skip_norm"),
                LayerKind::Conv => format!("{name}Conv_{block}_{index_of_kind}"),
                LayerKind::Norm => format!("{name}_norm_{block}_{index_of_kind}"),
                _ => return None,
            }
        }
    };
    let parameter = match (location.kind, location.parameter.as_str()) {
        (_, "gamma") => "scale",
        (_, "beta") => "offset",
        (_, "weight") => "w",
        (LayerKind::Linear, "bias") => "b",
        (_, same) => same,
    };
    Some(format!("{module}/{parameter}"))
}

/// Returns the name of a parameter in torchvision's ResNets, whose BatchNorm is folded into the
/// convolutions.
pub(super) fn torchvision_name(location: &ParameterLocation) -> Option<String> {
    let ParameterLocation { group, block, shortcut, index_of_kind: nth, parameter, .. } = location;
    let layer = match (group.as_str(), location.kind) {
        ("stem", LayerKind::Conv) if *nth == 0 => "conv1".to_owned(),
        ("head", LayerKind::Linear) if *nth == 0 => "fc".to_owned(),
        (group, LayerKind::Conv) => {
            let conv = if *shortcut { "downsample.0".into() } else { format!("conv{}", nth + 1) };
            format!("layer{}.{block}.{conv}", number(group)?)
        }
        _ => return None,
    };
    Some(format!("{layer}.{parameter}"))
}

/// Returns the name of the convolution before a BatchNorm layer of torchvision's ResNets.
pub(super) fn torchvision_conv(norm: &str) -> Option<String> {
    if let Some(block) = norm.strip_suffix("downsample.1") {
        return Some(format!("{block}downsample.0"));
    }
    let (block, number) = norm.rsplit_once("bn")?;
    let is_number = !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| format!("{block}conv{number}"))
}

/// Returns name and constructor of the layout that one of these names belongs to.
pub(super) fn detect_layout<'a>(
    mut names: impl Iterator<Item = &'a String>,
) -> Option<(&'static str, &'static str)> {
    names.find_map(|name| match name.as_str() {
        "stages.0.blocks.0.conv1.weight" => Some((TIMM_RESNETV2, "WeightLayout::timm_resnetv2()")),
        name if name.ends_with("/First_conv/w") => {
            Some((DE_WIDE_RESNET, "WeightLayout::de_wide_resnet()"))
        }
        _ => None,
    })
}

/// Returns the number in the name of a group: 2 for `group2`.
fn number(group: &str) -> Option<usize> {
    group.strip_prefix("group")?.parse().ok().filter(|number| *number > 0)
}

/// Returns the reason why layers with the parameters of a BiT network compute something else;
/// `None` if they do not.
pub(super) fn bit_mismatch(specs: &[LayerSpec]) -> Option<&'static str> {
    let lists = lists(specs);
    let is_standardised = |layer: &LayerSpec| match layer {
        LayerSpec::Conv2d(Conv2dSpec { standardised, .. }) => {
            matches!(
                standardised,
                Some(Standardisation { gain: false, guard: VarianceGuard::Unscaled(_) })
            )
        }
        _ => true,
    };
    let stem = lists.iter().rev().find_map(|layers| {
        let at = layers.iter().position(|layer| matches!(layer, LayerSpec::MaxPool2d(_)))?;
        Some(layers[at.saturating_sub(1)..=at].to_vec())
    });
    let one = ZeroPad2dSpec::new(1).into();
    let pool = MaxPool2dSpec::new(3).stride(2).into();
    if !lists.iter().all(|layers| layers.iter().all(is_standardised)) {
        Some("the convolutions of a BiT network have standardised weights, without fan-in or gain")
    } else if stem != Some(vec![one, pool]) {
        Some("the stem of a BiT network pools images with a border of zeros")
    } else if !only_relu(specs) {
        Some("the activation of a BiT network is ReLU")
    } else {
        None
    }
}

/// Returns the reason why layers with the parameters of De et al.'s network compute something
/// else; `None` if they do not.
pub(super) fn de_mismatch(specs: &[LayerSpec]) -> Option<&'static str> {
    let (mut standardised, mut ordered) = (true, true);
    for layers in lists(specs) {
        for (i, layer) in layers.iter().enumerate() {
            match layer {
                LayerSpec::Conv2d(conv) => {
                    standardised &= conv.standardised == Some(Standardisation::scaled());
                }
                LayerSpec::GroupNorm(_) => ordered &= i > 0 && layers[i - 1] == LayerSpec::Relu,
                _ => {}
            }
        }
    }
    if !standardised {
        Some("the convolutions of De et al.'s code have standardised weights with a gain")
    } else if !ordered || !only_relu(specs) {
        Some("in De et al.'s code, a ReLU comes before each normalisation")
    } else {
        None
    }
}

/// Returns the reason why layers with the parameters of a ResNet of torchvision compute something
/// else; `None` if they do not.
pub(super) fn torchvision_mismatch(specs: &[LayerSpec]) -> Option<&'static str> {
    let lists = lists(specs);
    let border: LayerSpec = ZeroPad2dSpec::new(1).into();
    let pool: LayerSpec = MaxPool2dSpec::new(3).stride(2).into();
    let stem = [LayerSpec::Relu, border, pool];
    let is_plain = |layer: &LayerSpec| match layer {
        LayerSpec::Conv2d(conv) => {
            let kernel = conv.kernel[0];
            let plain = Conv2dSpec::new(conv.channels_in, conv.channels_out, kernel);
            *conv == plain.stride(conv.stride[0]).padding(kernel / 2)
        }
        LayerSpec::GroupNorm(_) | LayerSpec::LayerNorm(_) => false,
        _ => true,
    };
    // The stride of a bottleneck block is in its 3 x 3 convolution.
    let begins_as_published = |block: &ResidualSpec| match block.body.first() {
        Some(LayerSpec::Conv2d(conv)) => conv.kernel != [1, 1] || conv.stride == [1, 1],
        _ => false,
    };
    let has_published_blocks = |layers: &&[LayerSpec]| {
        let each = layers.iter().enumerate();
        let mut blocks = each.filter_map(|(i, layer)| Some((i, residual(layer)?)));
        blocks.all(|(i, block)| {
            layers.get(i + 1) == Some(&LayerSpec::Relu) && begins_as_published(block)
        })
    };
    if !lists.iter().all(|layers| layers.iter().all(is_plain)) {
        Some("torchvision's ResNets have convolutions with biases and no other normalisation")
    } else if !lists.iter().any(|layers| layers.windows(3).any(|three| three == stem)) {
        Some("the stem of torchvision's ResNets has a ReLU and pools images with a border")
    } else if !lists.iter().all(has_published_blocks) || !only_relu(specs) {
        Some("each block of torchvision's ResNets begins with a convolution and ends with a ReLU")
    } else {
        None
    }
}

fn residual(layer: &LayerSpec) -> Option<&ResidualSpec> {
    match layer {
        LayerSpec::Residual(block) => Some(block),
        _ => None,
    }
}

fn only_relu(specs: &[LayerSpec]) -> bool {
    let other = |layer: &LayerSpec| matches!(layer, LayerSpec::Tanh | LayerSpec::Selu);
    !lists(specs).iter().any(|layers| layers.iter().any(other))
}

/// Returns all lists of layers, including those inside of groups and blocks.
fn lists(specs: &[LayerSpec]) -> Vec<&[LayerSpec]> {
    let inner = specs.iter().flat_map(|spec| match spec {
        LayerSpec::Group(group) => lists(&group.layers),
        LayerSpec::Residual(block) => [lists(&block.body), lists(&block.shortcut)].concat(),
        _ => Vec::new(),
    });
    std::iter::once(specs).chain(inner).collect()
}
