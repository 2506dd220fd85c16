//! Settings of DP-SSGD, checked into a plan.

use crate::Result;
use crate::data::Population;
use crate::methods::registry::method;
use crate::methods::settings::private::{PrivateSettings, private_settings};
use crate::methods::settings::{shared_settings, sparse_settings};
use crate::methods::{DpSgd, Method, Plan, Recipe, Settings};

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
/// every step. Neighbours: one training example added or removed. Each step has sensitivity `clip`
/// on its selected coordinates. The selection is a function of earlier releases and of independent
/// randomness, so data-free pre-pruning and gradient dropping do not change the accounting. A mask
/// by [`DpSnip`](crate::mask::DpSnip) is one more release, in the same ledger entry, and a target
/// is for both together. A mask made from private data without noise voids the guarantee, and the
/// badge says so.
#[derive(Clone, Debug, PartialEq)]
pub struct DpSsgd {
    pub(crate) settings: Settings,
    pub(in crate::methods) private: PrivateSettings,
}

impl Default for DpSsgd {
    fn default() -> Self {
        Self::new()
    }
}

impl From<DpSgd> for DpSsgd {
    fn from(DpSgd { settings, private }: DpSgd) -> Self {
        Self { settings, private }
    }
}

/// DP-SSGD in the registry: the steps of DP-SGD, on selected coordinates.
static RECIPE: Recipe = Recipe {
    name: "dp-ssgd",
    title: "DP-SSGD",
    summary: "DP-SGD with a pruning mask and gradient dropping",
    is_sparse: true,
    ..Recipe::DP_SGD
};
method!(
    DpSsgd,
    &RECIPE,
    |method| Some(&mut method.private),
    fn dense(&self) -> Box<dyn Method> {
        let DpSsgd { mut settings, private } = self.clone();
        settings.sparsity = None;
        Box::new(DpSgd { settings, private })
    }
);
shared_settings!(DpSsgd);
private_settings!(DpSsgd);
sparse_settings!(DpSsgd);

impl DpSsgd {
    /// DP-SSGD with the defaults of [`DpSgd`], without mask and dropping.
    pub fn new() -> Self {
        DpSgd::new().into()
    }

    /// Checks the settings against the size of the data and makes the plan, including its noise
    /// multiplier.
    ///
    /// # Errors
    /// `Setting` for values out of range, or unless exactly one of target and noise multiplier is
    /// given; `Accounting` if no noise multiplier reaches the target, for example because the mask
    /// alone costs as much.
    pub fn plan_for(&self, population: &Population) -> Result<Plan> {
        let mut settings = self.settings.clone();
        let mut beside = Vec::new();
        if let Some(sparsity) = settings.sparsity.take() {
            let sparsity = sparsity.calibrated(self.private.total()?)?;
            // No noise helps where a mask was made without any: only training is calibrated.
            if sparsity.not_private().is_none() {
                let released = sparsity.released_before(population)?;
                beside = released.into_iter().map(|(_, event)| event).collect();
                beside.extend(sparsity.released_within()?);
            }
            settings.sparsity = Some(sparsity);
        }
        let privacy = self.private.settle("DpSsgd", &settings, population, &beside)?;
        let learning_rate = self.private.learning_rate(&settings);
        Plan::new(&RECIPE, &settings, population, learning_rate, Some(privacy))
    }
}
