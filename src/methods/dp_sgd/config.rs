//! Settings of DP-SGD, checked into a plan.

use crate::Result;
use crate::data::Dataset;
use crate::mask::{Dropping, PrePrune};
use crate::methods::private::{Private, private_settings};
use crate::methods::settings::shared_settings;
use crate::methods::{DpSsgd, Plan, Settings};

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
/// (epsilon, delta)-differential privacy of everything a run releases (the model after every
/// step), for data sets that differ by adding or removing one training example; each step has
/// sensitivity `clip`. Assumes that the size of the training part and all settings are public.
#[derive(Clone, Debug, PartialEq)]
pub struct DpSgd {
    pub(crate) settings: Settings,
    pub(in crate::methods) private: Private,
}

impl Default for DpSgd {
    fn default() -> Self {
        Self::new()
    }
}

shared_settings!(DpSgd);
private_settings!(DpSgd);

impl DpSgd {
    /// DP-SGD with clip norm 1, batches of 256 and 5 epochs; give it a [`target`](Self::target)
    /// or a [`noise_multiplier`](Self::noise_multiplier).
    pub fn new() -> Self {
        Self { settings: Settings::default(), private: Private::NEW }
    }

    /// DP-SSGD: the same with a mask, as [`DpSsgd::pre_prune`].
    pub fn pre_prune(self, mask: impl Into<PrePrune>) -> DpSsgd {
        DpSsgd::from(self).pre_prune(mask)
    }

    /// DP-SSGD: the same with gradient dropping, as [`DpSsgd::drop_gradients`].
    pub fn drop_gradients(self, dropping: Dropping) -> DpSsgd {
        DpSsgd::from(self).drop_gradients(dropping)
    }

    /// Checks the settings against the data and fixes the plan, noise included.
    ///
    /// # Errors
    /// `Setting` for values out of range or an augmentation that does not suit the data;
    /// `Accounting` if no noise multiplier reaches the target.
    pub fn plan(&self, data: &Dataset) -> Result<Plan> {
        let privacy = self.private.settle("DpSgd", &self.settings, data, &[])?;
        let learning_rate = self.private.learning_rate(&self.settings);
        Plan::new("DP-SGD", &self.settings, data, learning_rate, Some(privacy))
    }
}
