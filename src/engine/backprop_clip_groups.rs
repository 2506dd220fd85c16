//! Clip groups of a network with backpropagation clipping.

use std::sync::Arc;

use super::bound::{ClipFunction, ClipGroups};
use super::clip_functions::{BuiltinClipFunction, ClipFactor};
use crate::nn::{BackpropClippedSpec, LayerClips, LayerSpec, Network};
use crate::{Error, ErrorKind, Result};

/// Creates one clip group per layer with parameters, with the sensitivity that its clips give it.
/// A layer without these clips has no bound, so its sensitivity is infinite; it has to be frozen.
/// So is that of a convolution with a standardised weight: see
/// [`BackpropClippedSpec::sensitivity`].
///
/// [`BackpropClippedSpec::sensitivity`]: crate::nn::BackpropClippedSpec::sensitivity
///
/// # Errors
/// `Setting` if no layer has these clips.
pub(super) fn groups(network: &Network, clip: &LayerClips) -> Result<ClipGroups> {
    let between = |layer: &LayerSpec| {
        let clipped = layer.clipped().filter(|clipped| clipped.clip == *clip);
        clipped.map(BackpropClippedSpec::sensitivity)
    };
    let bounds: Vec<Option<f64>> = network.leaf_specs().into_iter().map(between).collect();
    if bounds.iter().all(Option::is_none) {
        let what = format!("backpropagation clipping with {clip}");
        let why = "no layer of the network has these clips";
        return Err(Error::new(ErrorKind::Setting, what, why)
            .fix("create the network with network.with_backprop_clips(&clip, &[])"));
    }
    let bounds = bounds.into_iter().map(|bound| -> Arc<dyn ClipFunction> {
        let max_grad_norm = bound.unwrap_or(f64::INFINITY);
        Arc::new(BuiltinClipFunction { max_grad_norm, form: ClipFactor::Bounded })
    });
    ClipGroups::per_layer(network, bounds.collect())
}
