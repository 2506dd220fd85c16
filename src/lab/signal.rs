//! Signal and noise of the steps of a method.

use crate::data::Dataset;
use crate::mask::{PrePrune, SignalNoise, SignalSettings, TrainedCoordinates};
use crate::methods::DpSsgd;
use crate::nn::Model;
use crate::{Error, ErrorKind, Result};

/// Number of batches.
const BATCHES: u64 = 8;

impl DpSsgd {
    /// Returns the L2 norm of the clipped sum of a few batches and of its noise, on all
    /// coordinates and on those that this method selects, at the current parameters of the model.
    ///
    /// # Guarantee
    /// None: norms of private gradients without noise. Do not publish them.
    ///
    /// # Errors
    /// Those of making the plan and the mask; kind `Setting` for a DP-SNIP mask, which would have
    /// to be released first, and for a plan without noise.
    pub fn signal_and_noise(&self, model: &Model, data: &Dataset) -> Result<SignalNoise> {
        let plan = self.plan(data)?;
        let sparsity = plan.sparsity();
        if let Some(PrePrune::DpSnip(_)) = sparsity.and_then(|s| s.pre_prune.as_ref()) {
            let why = "measuring signal and noise would release the mask and charge its cost";
            return Err(Error::new(ErrorKind::Setting, "a mask by DP-SNIP", why)
                .fix("make the mask first: .pre_prune(&recipe.mask(&model, &data)?)"));
        }
        let privacy = plan.privacy().ok_or_else(|| {
            Error::new(
                ErrorKind::Setting,
                "signal and noise can't be compared",
                "the plan adds no noise",
            )
            .fix("set a noise multiplier, or a target epsilon and delta")
        })?;
        let seed = plan.seed().unwrap_or(0);
        let mask = TrainedCoordinates::prepare_mask(sparsity, model, data, seed)?;
        let settings = SignalSettings {
            clip: privacy.clip.noise_std(1.0),
            noise_multiplier: privacy.noise_multiplier,
            expected_batch_size: plan.expected_batch_size(),
            batches: BATCHES,
            seed,
        };
        let dropping = sparsity.and_then(|sparsity| sparsity.dropping);
        SignalNoise::measure(model, data, settings, mask.as_ref(), dropping)
    }
}
