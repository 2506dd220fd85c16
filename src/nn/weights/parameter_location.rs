//! Locations of the parameters of a network, from which the names of other libraries are made.

use crate::nn::LayerSpec;

/// Parameter tensor and its location in the network.
#[derive(Clone, Debug)]
pub(super) struct ParameterLocation {
    /// Path of the parameter, as in [`Network::paths`](crate::nn::Network::paths).
    pub(super) path: String,
    pub(super) shape: Vec<usize>,
    pub(super) kind: LayerKind,
    /// Name of the parameter within the layer, such as `weight`.
    pub(super) parameter: String,
    /// Name of the outermost group; empty outside of groups.
    pub(super) group: String,
    /// Index of the residual block within the group, from 0. Layers before a block belong to it.
    pub(super) block: usize,
    /// Whether the parameter is in the shortcut of the block.
    pub(super) shortcut: bool,
    /// Index of the layer among those of the kind, from 0: in the shortcut, or in the rest of the
    /// block.
    pub(super) index_of_kind: usize,
}

/// The kind of a layer with parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LayerKind {
    Conv,
    Norm,
    Linear,
    Other,
}

impl ParameterLocation {
    /// Creates the location of a parameter of which only the path is known.
    pub(super) fn from_path(path: String, shape: Vec<usize>) -> Self {
        let parameter = path.rsplit('.').next().unwrap_or_default().to_owned();
        let (kind, group) = (LayerKind::Other, String::new());
        Self { path, shape, kind, parameter, group, block: 0, shortcut: false, index_of_kind: 0 }
    }
}

/// Returns the locations of all parameters, in the network's order.
pub(super) fn parameter_locations(specs: &[LayerSpec]) -> Vec<ParameterLocation> {
    let mut walk = LocationCollector::default();
    walk.list(specs, "");
    walk.places
}

#[derive(Default)]
struct LocationCollector {
    places: Vec<ParameterLocation>,
    group: String,
    block: usize,
    shortcut: bool,
    /// The kinds of the layers so far.
    kinds: Vec<LayerKind>,
}

impl LocationCollector {
    /// Collects the layers of a list whose paths begin with `prefix`.
    fn list(&mut self, specs: &[LayerSpec], prefix: &str) {
        for (index, spec) in specs.iter().enumerate() {
            let path = format!("{prefix}{}", spec.path_segment(index));
            match spec {
                LayerSpec::Group(group) => {
                    if prefix.is_empty() {
                        self.group = group.name.clone();
                        self.block = 0;
                        self.kinds.clear();
                    }
                    self.list(&group.layers, &format!("{path}."));
                    if prefix.is_empty() {
                        self.group.clear();
                    }
                }
                LayerSpec::Residual(block) => {
                    self.list(&block.body, &format!("{path}.body."));
                    self.kinds.clear();
                    let outer = std::mem::replace(&mut self.shortcut, true);
                    self.list(&block.shortcut, &format!("{path}.shortcut."));
                    self.shortcut = outer;
                    self.kinds.clear();
                    self.block += 1;
                }
                layer => self.layer(layer, &path),
            }
        }
    }

    fn layer(&mut self, spec: &LayerSpec, path: &str) {
        let kind = kind(spec);
        let index_of_kind = self.kinds.iter().filter(|earlier| **earlier == kind).count();
        for (parameter, shape) in spec.parameters() {
            self.places.push(ParameterLocation {
                path: format!("{path}.{parameter}"),
                shape,
                kind,
                parameter,
                group: self.group.clone(),
                block: self.block,
                shortcut: self.shortcut,
                index_of_kind,
            });
        }
        self.kinds.push(kind);
    }
}

fn kind(spec: &LayerSpec) -> LayerKind {
    match spec {
        LayerSpec::Conv2d(_) => LayerKind::Conv,
        LayerSpec::GroupNorm(_) | LayerSpec::LayerNorm(_) => LayerKind::Norm,
        LayerSpec::Linear(_) => LayerKind::Linear,
        LayerSpec::BackpropClipped(clipped) => kind(&clipped.layer),
        _ => LayerKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Result;
    use crate::data;
    use crate::nn::{LayerClips, models};

    #[test]
    fn places_are_those_of_the_network_in_its_order() -> Result<()> {
        let data = data::from_vecs(vec![0.0; 3 * 1024], &[3, 32, 32], vec![0], 10)?;
        let tokens = data::from_vecs(vec![0.0; 5], &[5], vec![0], 3)?;
        let zoo = [
            models::resnet18(&data).seed(1).build()?,
            models::bit_resnet(&data, &[2, 1], 1).seed(1).build()?,
            models::wide_resnet(&data, 16, 1).as_published().seed(1).build()?,
            models::stevens_mnist_cnn(&data).seed(1).build()?,
            models::bilstm(&tokens, 9, 4, 4).seed(1).build()?,
        ];
        let clipped = zoo[3].network().with_backprop_clips(&LayerClips::new(1.0, 0.1), &[])?;
        let networks = zoo.iter().map(|model| model.network()).chain([&clipped]);
        for network in networks {
            let places = parameter_locations(network.specs());
            let expected: Vec<_> =
                network.parameters().into_iter().map(|p| (p.path, p.shape)).collect();
            let found: Vec<_> = places.into_iter().map(|p| (p.path, p.shape)).collect();
            assert_eq!(found, expected);
        }
        Ok(())
    }

    #[test]
    fn layers_before_a_block_belong_to_it() -> Result<()> {
        let data = data::from_vecs(vec![0.0; 3 * 1024], &[3, 32, 32], vec![0], 10)?;
        let layers = models::bit_resnet(&data, &[2, 1], 1).layers()?;
        let at = |path: &str| {
            let location = parameter_locations(&layers)
                .into_iter()
                .find(|location| location.path == path)
                .unwrap();
            (
                location.group,
                location.block,
                location.shortcut,
                location.kind,
                location.index_of_kind,
            )
        };
        let group = |name: &str| name.to_owned();
        assert_eq!(at("group1.0.gamma"), (group("group1"), 0, false, LayerKind::Norm, 0));
        assert_eq!(at("group1.2.body.1.beta"), (group("group1"), 0, false, LayerKind::Norm, 1));
        assert_eq!(at("group1.2.body.6.weight"), (group("group1"), 0, false, LayerKind::Conv, 2));
        assert_eq!(
            at("group1.2.shortcut.0.weight"),
            (group("group1"), 0, true, LayerKind::Conv, 0)
        );
        assert_eq!(at("group1.3.body.0.gamma"), (group("group1"), 1, false, LayerKind::Norm, 0));
        assert_eq!(at("group2.0.gamma"), (group("group2"), 0, false, LayerKind::Norm, 0));
        assert_eq!(at("head.3.weight"), (group("head"), 0, false, LayerKind::Linear, 0));
        Ok(())
    }
}
