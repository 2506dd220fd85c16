//! The bound of backpropagation clipping on a network.

use std::sync::Arc;

use super::bound::{Groups, Rescale};
use super::rescaling::Rescaling;
use crate::nn::{LayerClips, LayerSpec, Network};
use crate::{Error, ErrorKind, Result};

/// One group per layer with parameters, with the sensitivity that its clips give it. A layer
/// without clips has no bound, so its sensitivity is infinite; it has to be frozen.
///
/// # Errors
/// `Setting` if no layer has clips, or if one has others.
pub(super) fn groups(network: &Network, clip: &LayerClips) -> Result<Groups> {
    let layers = network.leaf_specs();
    let is_clipped = |layer: &&LayerSpec| matches!(layer, LayerSpec::BackpropClipped(_));
    if !layers.iter().any(is_clipped) {
        let why = "its layers are not between clips";
        return Err(Error::new(ErrorKind::Setting, "backpropagation clipping of a network", why)
            .fix("make the network with network.with_backprop_clips(&clip, &[])"));
    }
    let rule = |layer: &LayerSpec| -> Result<Arc<dyn Rescale>> {
        let max_grad_norm = match layer {
            LayerSpec::BackpropClipped(clipped) if clipped.clip == *clip => clipped.sensitivity(),
            LayerSpec::BackpropClipped(clipped) => {
                let what = format!("backpropagation clipping with {clip}");
                let why = format!("a layer of the network has {}", clipped.clip);
                return Err(Error::new(ErrorKind::Setting, what, why)
                    .fix("make the network with the clips of the bound"));
            }
            _ => f64::INFINITY,
        };
        Ok(Arc::new(Rescaling::Bounded { max_grad_norm }))
    };
    Groups::per_layer(network, layers.into_iter().map(rule).collect::<Result<_>>()?)
}
