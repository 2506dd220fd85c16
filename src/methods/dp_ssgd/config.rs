//! Settings of DP-SSGD.

use crate::Result;
use crate::data::Population;
use crate::methods::builder::{self, Builder, Clip, MethodSettings, Noise, Sparse};
use crate::methods::{DpSgd, FigureStyle, Method, MethodDescriptor, Plan};

/// Differentially private sparse stochastic gradient descent ("Pre-Pruning and Gradient-Dropping
/// Improve Differentially Private Image Classification", Algorithm 1 with the per-example clipping
/// of eq. 3 and 4): DP-SGD on the coordinates that a mask keeps and the step does not drop.
///
/// ```
/// use epsilab::prelude::*;
/// let method = DpSsgd::new()
///     .target(Epsilon(3.0), Delta(1e-5))
///     .pre_prune(Synflow::keep(0.5))
///     .drop_gradients(Dropping::random(0.5))
///     .batch_size(256)
///     .epochs(5);
/// ```
///
/// # Guarantee
/// (epsilon, delta)-differential privacy of all releases of a run: the mask, and the model after
/// every step. Neighbours: one training example added or removed; with disjoint batches, zeroed out
/// or replaced. Each step has sensitivity `clip` on its selected coordinates. The selection is a
/// function of earlier releases and of independent randomness, so data-free pre-pruning and
/// gradient dropping do not change the accounting. A mask by [`DpSnip`](crate::mask::DpSnip) is one
/// more release, in the same ledger entry, and a target is for both together. A mask made from
/// private data without noise voids the guarantee, and the badge says so.
///
/// # Defaults
/// Those of [`DpSgd`], without mask and dropping.
pub type DpSsgd = Builder<DpSsgdSettings>;

/// The settings that only [`DpSsgd`] has: none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DpSsgdSettings;

/// Descriptor of DP-SSGD in the registry: the steps of DP-SGD, on selected coordinates.
static DESCRIPTOR: MethodDescriptor = MethodDescriptor {
    name: "dp-ssgd",
    title: "DP-SSGD",
    summary: "DP-SGD with a pruning mask and gradient dropping",
    method: || Box::new(DpSsgd::new()),
    supports_sparsity: true,
    style: FigureStyle::new(1, 1),
    ..MethodDescriptor::DP_SGD
};

impl MethodSettings for DpSsgdSettings {
    fn descriptor() -> &'static MethodDescriptor {
        &DESCRIPTOR
    }

    /// Creates the plan; a mask that costs as much as the target is an error of kind `Accounting`.
    fn plan(builder: &DpSsgd, population: &Population) -> Result<Plan> {
        let mut builder = builder.clone();
        let mut other_releases = Vec::new();
        if let Some(sparsity) = builder.settings.sparsity.take() {
            let sparsity = sparsity.calibrated(builder.private.total()?)?;
            // No noise helps where a mask was made without any: only training is calibrated.
            if sparsity.non_private_reason().is_none() {
                let released = sparsity.prior_releases(population)?;
                other_releases = released.into_iter().map(|(_, event)| event).collect();
                other_releases.extend(sparsity.mask_release()?);
            }
            builder.settings.sparsity = Some(sparsity);
        }
        let privacy = builder::privacy(&builder, population, &other_releases)?;
        builder::plan(&builder, population, builder.private.learning_rate(), Some(privacy))
    }

    fn dense(builder: &DpSsgd) -> Box<dyn Method> {
        let Builder { mut settings, private, .. } = builder.clone();
        settings.sparsity = None;
        Box::new(DpSgd { settings, private, own: Default::default() })
    }
}
impl Noise for DpSsgdSettings {}
impl Clip for DpSsgdSettings {}
impl Sparse for DpSsgdSettings {}

impl From<DpSgd> for DpSsgd {
    fn from(Builder { settings, private, .. }: DpSgd) -> Self {
        Self { settings, private, own: DpSsgdSettings }
    }
}
