//! Rényi divergences of releases under a neighbouring relation.

use super::fixed_size::FixedSizeStep;
use super::sampled_gaussian::renyi_divergence;
use super::truncated::{binomial_tail_upper, renyi_divergence_truncated};
use crate::privacy::event::{Single, singles};
use crate::privacy::{Event, Neighbouring};
use crate::{Error, Result};

/// Releases with a known Rényi divergence, and how often each happens.
#[derive(Default)]
pub(super) struct Releases {
    list: Vec<(Release, f64)>,
}

/// A release with a known Rényi divergence.
enum Release {
    /// A step of the Poisson-subsampled Gaussian mechanism; no sampling at rate 1.
    Sampled { sampling_rate: f64, noise_multiplier: f64 },
    /// The same with a maximum batch size. `p_cap` is the probability that the other examples alone
    /// reach it.
    Truncated { neighbouring: Neighbouring, p_cap: f64, sampling_rate: f64, noise_multiplier: f64 },
    /// A fixed number of examples, drawn without replacement.
    FixedSize(FixedSizeStep),
}

impl Releases {
    /// Flattens events into releases.
    ///
    /// # Errors
    /// Kind `Setting` for a number outside its range. Kind `Accounting` for a release without a
    /// known divergence under this neighbouring relation.
    pub(super) fn from_events(events: &[Event], neighbouring: Neighbouring) -> Result<Self> {
        let mut releases = Self::default();
        // The steps of a noise schedule have the same sampler, so its tail probability is reused.
        let mut last_tail = None;
        for (single, count) in singles("rdp", events)? {
            let release = match single {
                Single::Poisson { sampling_rate, noise_multiplier }
                    if neighbouring != Neighbouring::ReplaceOne =>
                {
                    Release::Sampled { sampling_rate, noise_multiplier }
                }
                Single::Truncated { examples, sampling_rate, batch_cap, noise_multiplier }
                    if neighbouring != Neighbouring::ReplaceOne =>
                {
                    let sampler = (examples, sampling_rate, batch_cap);
                    let p_cap = match last_tail {
                        Some((known, p_cap)) if known == sampler => p_cap,
                        _ => binomial_tail_upper(examples, sampling_rate, batch_cap),
                    };
                    last_tail = Some((sampler, p_cap));
                    Release::Truncated { neighbouring, p_cap, sampling_rate, noise_multiplier }
                }
                Single::FixedSize { examples, batch_size, noise_multiplier }
                    if neighbouring == Neighbouring::ReplaceOne =>
                {
                    // Replacing one example removes one contribution and adds another.
                    let sigma = noise_multiplier / 2.0;
                    Release::FixedSize(FixedSizeStep::new(examples, batch_size, sigma))
                }
                other => match other.unsampled_noise_multiplier(neighbouring) {
                    Some(noise_multiplier) => {
                        Release::Sampled { sampling_rate: 1.0, noise_multiplier }
                    }
                    None => return Err(unsupported(&other, neighbouring)),
                },
            };
            releases.list.push((release, count as f64));
        }
        Ok(releases)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The Rényi divergence of order `order` of all releases together, in nats.
    pub(super) fn divergence(&self, order: f64) -> f64 {
        self.list.iter().map(|(release, count)| count * release.divergence(order)).sum()
    }
}

impl Release {
    fn divergence(&self, order: f64) -> f64 {
        match *self {
            Release::Sampled { sampling_rate, noise_multiplier } => {
                renyi_divergence(sampling_rate, noise_multiplier, order)
            }
            Release::Truncated { neighbouring, p_cap, sampling_rate, noise_multiplier } => {
                renyi_divergence_truncated(
                    neighbouring,
                    p_cap,
                    sampling_rate,
                    noise_multiplier,
                    order,
                )
            }
            Release::FixedSize(ref step) => step.renyi_divergence(order),
        }
    }
}

/// The error of a release without a known divergence: why, and which accountant to use instead.
fn unsupported(single: &Single, neighbouring: Neighbouring) -> Error {
    let (why, fix) = match single {
        Single::Poisson { .. } => (
            "a closed-form Rényi divergence of Poisson sampling is known for add-or-remove-one and \
             zero-out, not for replace-one",
            "use the PLD accountant, which supports Poisson sampling under replace-one",
        ),
        Single::Truncated { .. } => (
            "no bound is known for an example that is replaced and also takes the place of another",
            "use the PLD accountant, or the add-or-remove or the zero-out relation",
        ),
        Single::FixedSize { .. } => (
            "sampling a fixed number of examples is accounted only under replace-one",
            "use the replace-one relation",
        ),
        Single::ShuffledEpoch { .. } | Single::Gaussian { .. } => (
            "an added or removed example moves other examples to other batches",
            "use the zero-out or the replace-one relation",
        ),
    };
    single.unsupported("rdp", format!("under \"{neighbouring}\" {why}")).fix(fix)
}
