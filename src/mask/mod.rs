//! Which coordinates are trained: masks made once, before training, and coordinates dropped in
//! every step.
//!
//! A [`Mask`] freezes: coordinates it does not keep stay at their value, are used in the forward
//! pass, and get no gradient, no noise and no optimizer state. Masks come from a [`RandomMask`],
//! [`Synflow`], [`DpSnip`], [`Snip`], a [`MagnitudeMask`] or from you ([`Mask::of`]); each says
//! what its choice has cost ([`Covered`]). [`Dropping`] chooses anew in every step, from the
//! parameters and independent randomness, never from gradients. Pre-pruning and gradient dropping
//! are those of "Pre-Pruning and Gradient-Dropping Improve Differentially Private Image
//! Classification".

mod choose;
mod covered;
mod dropping;
mod file;
mod magnitude;
#[allow(clippy::module_inception)] // The type is what the module is about.
mod mask;
mod plan;
mod random;
mod rate;
mod saliency;
mod selection_log;
mod signal;
mod snip;
mod synflow;
mod top_k;

pub use covered::{Covered, Origin};
pub use dropping::{Dropping, DroppingRule, Selector};
pub use magnitude::MagnitudeMask;
pub use mask::{Kept, Mask, Overlap};
pub(crate) use plan::assumptions;
pub use plan::{PrePrune, Sparsity, StateOfDropped};
pub use random::RandomMask;
pub(crate) use rate::check_rate;
pub use rate::{Rate, dropped_of};
pub use saliency::{Saliency, Scores};
pub(crate) use selection_log::Recorder;
pub use selection_log::{SelectionLog, SelectionLogTensor};
pub use signal::{SignalNoise, SignalPoint, SignalSettings};
pub(crate) use snip::check as snip_check;
pub use snip::{DpSnip, Snip};
pub use synflow::Synflow;
