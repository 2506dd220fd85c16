//! The bound of backpropagation clipping on a network.

use std::sync::Arc;

use super::bound::{Groups, Rescale};
use super::rescaling::Rescaling;
use crate::nn::{LayerClips, LayerSpec, Network};
use crate::{Error, ErrorKind, Result};

/// One group per layer with parameters, with the sensitivity that its clips give it. A layer
/// without these clips has no bound, so its sensitivity is infinite; it has to be frozen.
///
/// # Errors
/// `Setting` if no layer has these clips.
pub(super) fn groups(network: &Network, clip: &LayerClips) -> Result<Groups> {
    let layers = network.leaf_specs();
    let bounds: Vec<f64> = layers
        .into_iter()
        .map(|layer| match layer {
            LayerSpec::BackpropClipped(clipped) if clipped.clip == *clip => clipped.sensitivity(),
            _ => f64::INFINITY,
        })
        .collect();
    if bounds.iter().all(|bound| bound.is_infinite()) {
        let what = format!("backpropagation clipping with {clip}");
        let why = "no layer of the network is between these clips";
        return Err(Error::new(ErrorKind::Setting, what, why)
            .fix("make the network with network.with_backprop_clips(&clip, &[])"));
    }
    let rule =
        |max_grad_norm| -> Arc<dyn Rescale> { Arc::new(Rescaling::Bounded { max_grad_norm }) };
    Groups::per_layer(network, bounds.into_iter().map(rule).collect())
}
