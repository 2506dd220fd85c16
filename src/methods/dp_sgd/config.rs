//! Settings of DP-SGD.

use crate::mask::{Dropping, PrePrune};
use crate::methods::builder::{Builder, Clip, MethodSettings, Noise};
use crate::methods::{DpSsgd, MethodDescriptor};

/// Differentially private stochastic gradient descent (Abadi et al., 2016).
///
/// ```
/// use epsilab::prelude::*;
/// let plan = DpSgd::new()
///     .target(Epsilon(3.0), Delta(1e-5))
///     .clip(1.0)
///     .batch_size(256)
///     .epochs(5);
/// ```
///
/// # Guarantee
/// (epsilon, delta)-differential privacy of all releases of a run (the model after every step), for
/// neighbours that differ by one added or removed training example; with [disjoint
/// batches](Builder::disjoint_batches), by one zeroed out or replaced. Each step has sensitivity
/// `clip`. The size of the training part and all settings are assumed to be public.
///
/// # Defaults
/// Clip norm 1, batches of 256 and 5 epochs.
pub type DpSgd = Builder<DpSgdSettings>;

/// The settings that only [`DpSgd`] has: none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DpSgdSettings;

/// Descriptor of DP-SGD in the registry.
static DESCRIPTOR: MethodDescriptor = MethodDescriptor::DP_SGD;

impl MethodSettings for DpSgdSettings {
    fn descriptor() -> &'static MethodDescriptor {
        &DESCRIPTOR
    }
}
impl Noise for DpSgdSettings {}
impl Clip for DpSgdSettings {}

impl DpSgd {
    /// Returns DP-SSGD with these settings and a mask, as [`DpSsgd::pre_prune`].
    pub fn pre_prune(self, mask: impl Into<PrePrune>) -> DpSsgd {
        DpSsgd::from(self).pre_prune(mask)
    }

    /// Returns DP-SSGD with these settings and gradient dropping, as [`DpSsgd::drop_gradients`].
    pub fn drop_gradients(self, dropping: Dropping) -> DpSsgd {
        DpSsgd::from(self).drop_gradients(dropping)
    }
}
