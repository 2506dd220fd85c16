//! Masks, saliencies and gradient dropping: selection of the coordinates that are trained.
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
//!
//! ```
//! use epsilab::prelude::*;
//! let data = data::glyphs_with(20, 0, 1)?;
//! let model = models::mlp(&data, &[4]).seed(1).build()?;
//! let kept = Synflow::keep(0.25).mask(&model)?;
//! assert_eq!((kept.kept_count(), kept.len()), (794, 784 * 4 + 4 * 10));
//! assert_eq!(kept.origin().privacy, [mask::PrivacyStatus::DataFree]);
//! let method = DpSgd::new()
//!     .target(Epsilon(3.0), Delta(1e-5))
//!     .pre_prune(&kept) // for the whole run
//!     .drop_gradients(Dropping::random(0.5)); // anew in every step
//! # Ok::<(), Error>(())
//! ```

mod coordinates;
mod dropping;
mod file;
mod freezing;
mod magnitude;
#[allow(clippy::module_inception)] // The module is named after its one type.
mod mask;
mod origin;
mod random;
mod rate;
mod saliency;
mod selection_log;
mod signal;
mod snip;
mod sparsity;
mod subset;
mod synflow;
mod top_k;

pub(crate) use coordinates::{CoordinateConfig, MaskSeeds, SelectionState, TrainedCoordinates};
pub use dropping::{CoordinateSelector, Dropping, DroppingRule};
pub use freezing::FreezeConfig;
pub use magnitude::MagnitudeMask;
pub use mask::{Mask, MaskTensor, Overlap};
pub use origin::{MaskOrigin, PrivacyStatus};
pub use random::RandomMask;
pub(crate) use rate::check_rate;
pub use rate::{DropRate, dropped_count};
pub use saliency::{Saliency, SaliencyTensor};
pub(crate) use selection_log::SelectionRecorder;
pub use selection_log::{SelectionLog, SelectionLogTensor};
pub use signal::{SignalNoise, SignalPoint, SignalSettings};
pub(crate) use snip::check_model_and_examples as check_snip;
pub use snip::{DpSnip, Snip};
pub(crate) use sparsity::mask_assumptions;
pub use sparsity::{DroppedStatePolicy, PrePrune, Sparsity};
pub use synflow::Synflow;
