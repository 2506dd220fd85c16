//! Networks with the clips of backpropagation clipping.

use super::{BackpropClippedSpec, GroupSpec, LayerClips, LayerSpec, Network, ResidualSpec};
use crate::{Error, ErrorKind, Result};

impl Network {
    /// Returns this network with the clips of backpropagation clipping around every layer with
    /// parameters, in place of other clips. `frozen` says which tensors are not trained; a layer
    /// without trained ones stays as it is. Empty means that all are trained.
    ///
    /// # Errors
    /// `Setting` for clips out of range; `Model` for a user-defined module, and for a trained layer
    /// that the clips do not bound.
    pub fn with_backprop_clips(&self, clip: &LayerClips, frozen: &[bool]) -> Result<Self> {
        clip.check()?;
        if self.user_module.is_some() {
            let why = "clips wrap the layers of the lab, but the layers of a user-defined module \
                       are unknown";
            let what = "backpropagation clipping of a user-defined module";
            return Err(Error::new(ErrorKind::Model, what, why)
                .fix("build the model from layers, or use DP-SGD"));
        }
        self.check_backprop_clips(frozen)?;
        let mut frozen = frozen.iter().copied().chain(std::iter::repeat(false));
        let specs = map_layers(self.specs(), &mut |spec| {
            let layer = spec.clipped().map_or(spec, |clipped| &*clipped.layer);
            let parameters = layer.parameters().len();
            // `all` would leave items of this layer.
            if (&mut frozen).take(parameters).filter(|&frozen| frozen).count() == parameters {
                return spec.clone();
            }
            let layer = Box::new(layer.clone());
            LayerSpec::BackpropClipped(BackpropClippedSpec { layer, clip: *clip })
        });
        let mut values = self.values().into_iter();
        Self::build_from_specs(self.input_shape(), &specs, &mut |_| {
            values.next().map(|(_, values)| values).unwrap_or_default()
        })
    }

    /// Returns the layers with clips and their paths, in the order of the forward pass; empty for
    /// a user-defined module.
    pub(crate) fn clipped_layers(&self) -> Vec<(String, &BackpropClippedSpec)> {
        let mut paths = self.paths().into_iter();
        let each = self.leaf_specs().into_iter().filter_map(|layer| {
            let layer_paths: Vec<String> = (&mut paths).take(layer.parameters().len()).collect();
            let path = common_path(layer_paths.first()?, layer_paths.last()?);
            Some((path, layer.clipped()?))
        });
        each.collect()
    }

    /// Refuses trained layers that clips do not bound, with every reason.
    fn check_backprop_clips(&self, frozen: &[bool]) -> Result<()> {
        let paths = self.paths();
        let mut tensors = 0..paths.len();
        let mut reasons: Vec<(String, &str, &str)> = Vec::new();
        for layer in self.leaf_specs() {
            let layer_tensors = (&mut tensors).take(layer.parameters().len());
            let trained: Vec<usize> =
                layer_tensors.filter(|&i| frozen.get(i) != Some(&true)).collect();
            if let ([first, .., last] | [first @ last], Some(why)) =
                (trained.as_slice(), layer.backprop_clip_obstacle())
            {
                reasons.push((common_path(&paths[*first], &paths[*last]), layer.kind(), why));
            }
        }
        if reasons.is_empty() {
            return Ok(());
        }
        // One entry per reason, with the first layers that it holds for.
        let mut grouped: Vec<(&str, &str, Vec<&str>)> = Vec::new();
        for (path, kind, why) in &reasons {
            match grouped.iter_mut().find(|group| (group.0, group.1) == (*kind, *why)) {
                Some(group) => group.2.push(path),
                None => grouped.push((kind, why, vec![path])),
            }
        }
        let in_words = |(kind, why, paths): &(&str, &str, Vec<&str>)| {
            let more = match paths.len() {
                0..=3 => String::new(),
                all => format!(" and {} more", all - 3),
            };
            let first = paths.iter().take(3).copied().collect::<Vec<_>>().join(", ");
            format!("{first}{more} ({kind}): {why}")
        };
        let why = grouped.iter().map(in_words).collect::<Vec<_>>().join("; ");
        let what = "backpropagation clipping of a model with layers that the clips do not bound";
        let freeze: String =
            reasons.iter().take(3).map(|(path, ..)| format!(".freeze(\"{path}\")")).collect();
        let others = if reasons.len() > 3 { " and so on" } else { "" };
        let fix = format!("freeze these layers, {freeze}{others}, or use DP-SGD");
        Err(Error::new(ErrorKind::Model, what, why).fix(fix))
    }
}

/// Returns the path of the layer that contains two parameters.
fn common_path(a: &str, b: &str) -> String {
    let parent =
        |path: &str| path.rsplit_once('.').map_or(String::new(), |(layer, _)| layer.into());
    let (a, b): (String, String) = (parent(a), parent(b));
    let same = a.split('.').zip(b.split('.')).take_while(|(a, b)| a == b);
    same.map(|(segment, _)| segment).collect::<Vec<_>>().join(".")
}

/// Returns the layers with `change` applied to each of them, also within groups and residual
/// blocks.
pub(crate) fn map_layers(
    specs: &[LayerSpec],
    change: &mut dyn FnMut(&LayerSpec) -> LayerSpec,
) -> Vec<LayerSpec> {
    let each = specs.iter().map(|spec| match spec {
        LayerSpec::Group(group) => {
            let layers = map_layers(&group.layers, change);
            LayerSpec::Group(GroupSpec { layers, name: group.name.clone() })
        }
        LayerSpec::Residual(block) => {
            let body = map_layers(&block.body, change);
            let shortcut = map_layers(&block.shortcut, change);
            LayerSpec::Residual(ResidualSpec { body, shortcut })
        }
        layer => change(layer),
    });
    each.collect()
}
