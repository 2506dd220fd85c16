//! Single releases: events flattened into releases and their counts.

use super::{Event, nearly_equal};
use crate::accountant::unsupported;
use crate::{Error, Result};
use crate::{NeighbouringRelation, NoiseMultiplier, SamplingRate};
use std::collections::HashMap;

/// One noisy release. Composed and repeated events are flattened into these.
///
/// Every `noise_multiplier` is, as in [`Event`], the standard deviation of the noise on the sum
/// divided by the bound on one contribution, for every neighbouring relation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum SingleRelease {
    /// All examples take part. Includes Poisson sampling at rate 1.
    Gaussian { noise_multiplier: f64 },
    /// One Poisson-sampled step with a rate below 1.
    Poisson { sampling_rate: f64, noise_multiplier: f64 },
    /// One Poisson-sampled step with at most `batch_cap` examples.
    Truncated { examples: u64, sampling_rate: f64, batch_cap: u64, noise_multiplier: f64 },
    /// One step on fewer than all examples, a fixed number drawn without replacement.
    FixedSize { examples: u64, batch_size: u64, noise_multiplier: f64 },
    /// One pass over the data in disjoint batches.
    ShuffledEpoch { noise_multiplier: f64 },
}

impl SingleRelease {
    /// Returns the noise multiplier, as the event states it.
    pub(crate) fn noise_multiplier(&self) -> f64 {
        match *self {
            SingleRelease::Gaussian { noise_multiplier }
            | SingleRelease::Poisson { noise_multiplier, .. }
            | SingleRelease::Truncated { noise_multiplier, .. }
            | SingleRelease::FixedSize { noise_multiplier, .. }
            | SingleRelease::ShuffledEpoch { noise_multiplier } => noise_multiplier,
        }
    }

    /// Returns this release with another noise multiplier.
    pub(crate) fn with_noise_multiplier(mut self, sigma: f64) -> Self {
        match &mut self {
            SingleRelease::Gaussian { noise_multiplier }
            | SingleRelease::Poisson { noise_multiplier, .. }
            | SingleRelease::Truncated { noise_multiplier, .. }
            | SingleRelease::FixedSize { noise_multiplier, .. }
            | SingleRelease::ShuffledEpoch { noise_multiplier } => *noise_multiplier = sigma,
        }
        self
    }

    /// Computes the noise standard deviation divided by the sensitivity, for a release that is a
    /// Gaussian mechanism without amplification by sampling; `None` for all others.
    ///
    /// Under [`NeighbouringRelation::AddOrRemoveOne`] a shuffled epoch has no such value: removing
    /// an example shifts all later batches.
    pub(crate) fn unsampled_noise_multiplier(
        &self,
        neighbouring: NeighbouringRelation,
    ) -> Option<f64> {
        let noise_multiplier = match *self {
            SingleRelease::Gaussian { noise_multiplier } => noise_multiplier,
            SingleRelease::ShuffledEpoch { noise_multiplier }
                if neighbouring != NeighbouringRelation::AddOrRemoveOne =>
            {
                noise_multiplier
            }
            _ => return None,
        };
        match neighbouring {
            NeighbouringRelation::AddOrRemoveOne | NeighbouringRelation::ZeroOutOne => {
                Some(noise_multiplier)
            }
            NeighbouringRelation::ReplaceOne => Some(noise_multiplier / 2.0),
        }
    }

    /// Checks that all parameters are in range, for [`Event::check`].
    pub(super) fn check(&self) -> Result<()> {
        if let SingleRelease::Poisson { sampling_rate, .. }
        | SingleRelease::Truncated { sampling_rate, .. } = *self
        {
            SamplingRate(sampling_rate).check()?;
        }
        NoiseMultiplier(self.noise_multiplier()).check()?;
        match *self {
            SingleRelease::Truncated { examples, batch_cap, .. } => {
                at_least_one("examples", examples)?;
                at_least_one("batch_cap", batch_cap)
            }
            SingleRelease::FixedSize { examples, batch_size, .. } => {
                at_least_one("batch_size", batch_size)?;
                if batch_size <= examples {
                    return Ok(());
                }
                let why = format!("the data set has only {examples} examples");
                Err(Error::setting("batch_size", batch_size, why)
                    .fix("use a batch size of at most the number of examples"))
            }
            SingleRelease::Gaussian { .. }
            | SingleRelease::Poisson { .. }
            | SingleRelease::ShuffledEpoch { .. } => Ok(()),
        }
    }

    /// Returns this release, as a Gaussian mechanism if its sampler takes all examples.
    fn simplified(self) -> Self {
        let noise_multiplier = self.noise_multiplier();
        match self {
            SingleRelease::Poisson { sampling_rate, .. } if sampling_rate >= 1.0 => {
                SingleRelease::Gaussian { noise_multiplier }
            }
            SingleRelease::FixedSize { examples, batch_size, .. } if batch_size >= examples => {
                SingleRelease::Gaussian { noise_multiplier }
            }
            other => other,
        }
    }

    /// Returns whether two releases are the same up to the rounding of numbers that were read from
    /// a file.
    pub(super) fn is_nearly(&self, other: &Self) -> bool {
        let numbers = |single: &Self| {
            let sigma = single.noise_multiplier();
            match *single {
                SingleRelease::Gaussian { .. } | SingleRelease::ShuffledEpoch { .. } => {
                    [sigma, 0.0, 0.0, 0.0]
                }
                SingleRelease::Poisson { sampling_rate, .. } => [sigma, sampling_rate, 0.0, 0.0],
                SingleRelease::Truncated { examples, sampling_rate, batch_cap, .. } => {
                    [sigma, sampling_rate, examples as f64, batch_cap as f64]
                }
                SingleRelease::FixedSize { examples, batch_size, .. } => {
                    [sigma, examples as f64, batch_size as f64, 0.0]
                }
            }
        };
        std::mem::discriminant(self) == std::mem::discriminant(other)
            && numbers(self).iter().zip(numbers(other)).all(|(a, b)| nearly_equal(*a, b))
    }

    /// Returns this release as an event with count `times`.
    pub(crate) fn repeated_event(&self, times: u64) -> Event {
        match *self {
            SingleRelease::Gaussian { noise_multiplier } => {
                Event::Gaussian { noise_multiplier, count: times }
            }
            SingleRelease::Poisson { sampling_rate, noise_multiplier } => {
                Event::PoissonGaussian { sampling_rate, noise_multiplier, steps: times }
            }
            SingleRelease::Truncated { examples, sampling_rate, batch_cap, noise_multiplier } => {
                Event::TruncatedPoissonGaussian {
                    examples,
                    sampling_rate,
                    batch_cap,
                    noise_multiplier,
                    steps: times,
                }
            }
            SingleRelease::FixedSize { examples, batch_size, noise_multiplier } => {
                Event::FixedSizeGaussian { examples, batch_size, noise_multiplier, steps: times }
            }
            SingleRelease::ShuffledEpoch { noise_multiplier } => {
                Event::ShuffledEpochs { noise_multiplier, epochs: times }
            }
        }
    }

    /// Returns the error of an accountant that does not support this release.
    pub(crate) fn unsupported(&self, accountant: &str, why: impl Into<String>) -> Error {
        unsupported(accountant, self.repeated_event(1), why)
    }

    /// Returns a hashable key, equal for equal releases.
    pub(crate) fn key(&self) -> (u8, [u64; 4]) {
        let sigma = self.noise_multiplier().to_bits();
        match *self {
            SingleRelease::Gaussian { .. } => (0, [sigma, 0, 0, 0]),
            SingleRelease::Poisson { sampling_rate, .. } => {
                (1, [sigma, sampling_rate.to_bits(), 0, 0])
            }
            SingleRelease::Truncated { examples, sampling_rate, batch_cap, .. } => {
                (2, [sigma, sampling_rate.to_bits(), examples, batch_cap])
            }
            SingleRelease::FixedSize { examples, batch_size, .. } => {
                (3, [sigma, examples, batch_size, 0])
            }
            SingleRelease::ShuffledEpoch { .. } => (4, [sigma, 0, 0, 0]),
        }
    }
}

impl Event {
    /// Returns the release that this event repeats, and the number of repetitions; `None` for
    /// events that are made of others, and for a release without a guarantee.
    pub(super) fn single(&self) -> Option<(SingleRelease, u64)> {
        Some(match *self {
            Event::PoissonGaussian { sampling_rate, noise_multiplier, steps } => {
                (SingleRelease::Poisson { sampling_rate, noise_multiplier }, steps)
            }
            Event::Gaussian { noise_multiplier, count } => {
                (SingleRelease::Gaussian { noise_multiplier }, count)
            }
            Event::TruncatedPoissonGaussian {
                examples,
                sampling_rate,
                batch_cap,
                noise_multiplier,
                steps,
            } => (
                SingleRelease::Truncated { examples, sampling_rate, batch_cap, noise_multiplier },
                steps,
            ),
            Event::FixedSizeGaussian { examples, batch_size, noise_multiplier, steps } => {
                (SingleRelease::FixedSize { examples, batch_size, noise_multiplier }, steps)
            }
            Event::ShuffledEpochs { noise_multiplier, epochs } => {
                (SingleRelease::ShuffledEpoch { noise_multiplier }, epochs)
            }
            Event::Repeated { .. }
            | Event::Composed { .. }
            | Event::PrivateSelection { .. }
            | Event::Unaccountable { .. } => return None,
        })
    }
}

fn at_least_one(name: &str, value: u64) -> Result<()> {
    match value {
        0 => Err(Error::setting(name, value, "with 0 nothing is released").fix("use at least 1")),
        _ => Ok(()),
    }
}

/// Flattens events into single releases and their counts.
///
/// Equal releases are merged, in the order of first appearance. Releases with count 0 are left out.
///
/// # Errors
/// Kind `Setting` for a parameter out of range. Kind `Accounting`, naming `accountant`, for a
/// release without a guarantee and for a private selection.
pub(crate) fn flatten_events(
    accountant: &str,
    events: &[Event],
) -> Result<Vec<(SingleRelease, u64)>> {
    let mut found = ReleaseCounts::default();
    for event in events {
        event.check()?;
        found.add(accountant, event, 1)?;
    }
    Ok(found.list)
}

/// Returns the noise multiplier and the count of each release, where all of them are Gaussian
/// mechanisms without sampling, relative to the sensitivity under `neighbouring`.
///
/// # Errors
/// As [`flatten_events`]. Kind `Accounting` for any other release; `exception` ends the reason.
pub(crate) fn unsampled(
    accountant: &str,
    events: &[Event],
    neighbouring: NeighbouringRelation,
    exception: &str,
) -> Result<Vec<(f64, u64)>> {
    let multiplier = |(single, times): (SingleRelease, u64)| {
        let sigma = single.unsampled_noise_multiplier(neighbouring).ok_or_else(|| {
            let why = format!(
                "under \"{neighbouring}\" the release is not a Gaussian mechanism without \
                 sampling, {exception}"
            );
            let error = unsupported(accountant, single.repeated_event(times), why);
            error.fix("use the PLD or the RDP accountant")
        })?;
        Ok((sigma, times))
    };
    flatten_events(accountant, events)?.into_iter().map(multiplier).collect()
}

#[derive(Default)]
struct ReleaseCounts {
    list: Vec<(SingleRelease, u64)>,
    index: HashMap<(u8, [u64; 4]), usize>,
}

impl ReleaseCounts {
    fn add(&mut self, accountant: &str, event: &Event, times: u64) -> Result<()> {
        match event {
            Event::Repeated { event, count } => {
                return match times.saturating_mul(*count) {
                    0 => Ok(()),
                    times => self.add(accountant, event, times),
                };
            }
            Event::Composed { events } => {
                return events.iter().try_for_each(|event| self.add(accountant, event, times));
            }
            _ => {}
        }
        let (single, count) = event.single().ok_or_else(|| {
            let (why, fix) = match event {
                Event::Unaccountable { why } => (
                    format!("no finite epsilon holds for this release: {why}"),
                    "use a method with a sound guarantee instead of this release",
                ),
                _ => (
                    "the cost of selecting the best trial is known in Rényi divergences only"
                        .to_owned(),
                    "use the RDP accountant",
                ),
            };
            unsupported(accountant, event, why).fix(fix)
        })?;
        let single = single.simplified();
        let times = times.saturating_mul(count);
        if times > 0 {
            let at = *self.index.entry(single.key()).or_insert(self.list.len());
            match self.list.get_mut(at) {
                Some((_, total)) => *total = total.saturating_add(times),
                None => self.list.push((single, times)),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(noise_multiplier: f64, steps: u64) -> Event {
        Event::PoissonGaussian { sampling_rate: 0.5, noise_multiplier, steps }
    }

    #[test]
    fn nested_events_are_flattened_and_merged() {
        let events = [
            step(1.0, 3),
            Event::Repeated {
                event: Box::new(Event::Composed { events: vec![step(1.0, 2), step(2.0, 1)] }),
                count: 10,
            },
            Event::Gaussian { noise_multiplier: 4.0, count: 0 },
        ];
        let poisson =
            |noise_multiplier| SingleRelease::Poisson { sampling_rate: 0.5, noise_multiplier };
        assert_eq!(flatten_events("x", &events).unwrap(), [(poisson(1.0), 23), (poisson(2.0), 10)]);
    }

    #[test]
    fn sampling_at_rate_one_is_a_gaussian_mechanism() {
        let all = Event::PoissonGaussian { sampling_rate: 1.0, noise_multiplier: 2.0, steps: 1 };
        let fixed = Event::FixedSizeGaussian {
            examples: 9,
            batch_size: 9,
            noise_multiplier: 2.0,
            steps: 1,
        };
        let gaussian = SingleRelease::Gaussian { noise_multiplier: 2.0 };
        assert_eq!(flatten_events("x", &[all, fixed]).unwrap(), [(gaussian, 2)]);
    }

    #[test]
    fn noise_is_halved_under_replace_one() {
        let gaussian = SingleRelease::Gaussian { noise_multiplier: 2.0 };
        assert_eq!(
            gaussian.unsampled_noise_multiplier(NeighbouringRelation::AddOrRemoveOne),
            Some(2.0)
        );
        assert_eq!(
            gaussian.unsampled_noise_multiplier(NeighbouringRelation::ReplaceOne),
            Some(1.0)
        );
        let epoch = SingleRelease::ShuffledEpoch { noise_multiplier: 2.0 };
        assert_eq!(epoch.unsampled_noise_multiplier(NeighbouringRelation::AddOrRemoveOne), None);
        assert_eq!(epoch.unsampled_noise_multiplier(NeighbouringRelation::ZeroOutOne), Some(2.0));
        assert_eq!(epoch.unsampled_noise_multiplier(NeighbouringRelation::ReplaceOne), Some(1.0));
    }

    #[test]
    fn counts_saturate() {
        let huge = Event::Repeated { event: Box::new(step(1.0, u64::MAX)), count: 9 };
        assert_eq!(flatten_events("x", &[huge.clone(), huge]).unwrap()[0].1, u64::MAX);
    }

    #[test]
    fn a_release_without_a_guarantee_is_rejected_by_name() {
        let why = Event::Unaccountable { why: "raw gradients".into() };
        let error = flatten_events("the accountant", &[why]).unwrap_err().to_string();
        assert!(error.contains("the accountant") && error.contains("raw gradients"), "{error}");
    }
}
