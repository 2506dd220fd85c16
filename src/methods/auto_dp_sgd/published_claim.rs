//! The epsilon that the paper claims for a run.

use crate::methods::{ClaimedEpsilon, Plan};
use crate::privacy::tcdp::{self, auto_dp_sgd_as_published};

/// Returns the claim of Table 17 for the epochs of these steps, computed from the mean threshold,
/// which the paper calls sensitivity. `None` before the first step.
///
/// # Guarantee
/// None: [`auto_dp_sgd_as_published`] says why the formula is wrong.
pub(super) fn claimed_epsilon(
    plan: &Plan,
    steps: u64,
    mean_threshold: Option<f64>,
) -> Option<ClaimedEpsilon> {
    let (privacy, stages) = (plan.privacy()?, plan.stages().ok()??);
    let epochs = (steps as f64 * plan.sampling_rate() - 1e-9).ceil() as u64;
    let noise = |epoch: u64| {
        let step = (epoch as f64 / plan.sampling_rate()).ceil() as u64;
        stages.at(step).noise_multiplier
    };
    let sigmas: Vec<f64> = (0..epochs).map(noise).collect();
    let claim = auto_dp_sgd_as_published(tcdp::AutoDpSgdInputs {
        examples: plan.examples() as u64,
        batch_size: plan.expected_batch_size() as u64,
        sensitivity: mean_threshold?,
        sigma0: privacy.noise_multiplier,
        smallest_sigma: sigmas.iter().copied().fold(f64::INFINITY, f64::min),
        schedule_sum: sigmas.iter().map(|sigma| (privacy.noise_multiplier / sigma).powi(2)).sum(),
        delta: privacy.delta.0,
    });
    let source = "Table 17 of the paper, with the mean threshold of this run";
    claim.ok().map(|claim| ClaimedEpsilon {
        epsilon: claim.epsilon_claimed,
        delta: privacy.delta,
        source,
    })
}
