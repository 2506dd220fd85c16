//! Masks, saliencies and gradient dropping: which coordinates are trained.
//!
//! A [`Mask`] is made once, before training. Coordinates that it does not keep are frozen: they
//! keep their value, take part in the forward pass, and get no gradient, no noise and no optimizer
//! state. [`RandomMask`], [`Synflow`], [`DpSnip`], [`Snip`] and [`MagnitudeMask`] make masks;
//! [`Mask::new`] takes your own. Each mask records what its choice reveals about a data set
//! ([`PrivacyStatus`]).
//!
//! [`Dropping`] (gradient dropping) selects coordinates anew in every step, from the parameters and
//! from randomness that is independent of the data, never from gradients.
//!
//! Pre-pruning and gradient dropping follow the paper "Pre-Pruning and Gradient-Dropping Improve
//! Differentially Private Image Classification", called the pre-pruning paper below.

mod coordinates;
mod dropping;
mod file;
mod freezing;
mod magnitude;
#[allow(clippy::module_inception)] // The module is named after its one type.
mod mask;
mod origin;
mod plan;
mod random;
mod rate;
mod saliency;
mod selection_log;
mod signal;
mod snip;
mod subset;
mod synflow;
mod top_k;

pub(crate) use coordinates::{Coordinates, CoordinatesOf, MaskSeeds, Selected};
pub use dropping::{Dropping, DroppingRule, Selector};
pub use freezing::Freezing;
pub use magnitude::MagnitudeMask;
pub use mask::{Mask, MaskTensor, Overlap};
pub use origin::{Origin, PrivacyStatus};
pub(crate) use plan::assumptions;
pub use plan::{PrePrune, Sparsity, StateOfDropped};
pub use random::RandomMask;
pub(crate) use rate::check_rate;
pub use rate::{Rate, dropped_of};
pub use saliency::{Saliency, Scores};
pub(crate) use selection_log::Recorder;
pub use selection_log::{SelectionLog, SelectionLogTensor};
pub use signal::{SignalNoise, SignalPoint, SignalSettings};
pub(crate) use snip::check as check_snip;
pub use snip::{DpSnip, Snip};
pub use synflow::Synflow;
