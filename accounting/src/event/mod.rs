//! Events: complete descriptions of releases, without any computation.

use serde::{Deserialize, Serialize};

use super::Trials;
use crate::Result;

mod display;
mod reduce;
mod single_release;

pub use reduce::STOPPING_ASSUMPTION;
pub(super) use reduce::nearly_equal;
pub(crate) use single_release::{SingleRelease, flatten_events, unsampled};

/// A complete description of what was, or will be, released about a data set.
///
/// In JSON an event is an object whose `kind` names the variant, for example
/// `{"kind":"poisson_gaussian","sampling_rate":0.01,"noise_multiplier":1.1,"steps":10000}`. Other
/// libraries can account it independently. The meaning of a kind never changes; a new mechanism
/// gets a new kind. Unknown keys are rejected, because ignoring one could leave a release out of
/// the account.
///
/// ```
/// use epsilab_accounting::Event;
/// let mask = Event::gaussian(20.0); // one release on all examples
/// let training = Event::poisson(0.01, 1.1, 10_000); // sampling rate, noise multiplier, steps
/// let run = mask.composed_with(&training);
/// assert_eq!(run.release_count(), 10_001);
/// assert!(run.check()?.has_guarantee());
/// # Ok::<(), epsilab_accounting::Error>(())
/// ```
///
/// # Guarantee
/// `noise_multiplier` is always the standard deviation of the Gaussian noise on the *sum*, divided
/// by the bound C on the L2 norm of one example's contribution to that sum. It does not depend on
/// the neighbouring relation; the accountant converts it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Event {
    /// `steps` releases of a Poisson-subsampled Gaussian mechanism: in each step every example
    /// joins independently with probability `sampling_rate`, and the sum of the bounded
    /// contributions is released with Gaussian noise.
    PoissonGaussian {
        /// Probability of each example to join a step, above 0, at most 1.
        sampling_rate: f64,
        /// Standard deviation of the noise on the sum, divided by the bound on one contribution.
        noise_multiplier: f64,
        /// Number of steps.
        steps: u64,
    },
    /// `count` releases of the Gaussian mechanism on *all* examples, without sampling.
    Gaussian {
        /// Standard deviation of the noise on the sum, divided by the bound on one contribution.
        noise_multiplier: f64,
        /// Number of releases.
        count: u64,
    },
    /// Poisson-sampled Gaussian steps with a maximum batch size. From a sample larger than
    /// `batch_cap` a uniformly random subset of that size is used, never the first examples.
    TruncatedPoissonGaussian {
        /// Number of examples in the data set, treated as public.
        examples: u64,
        /// Probability of each example to be drawn, above 0, at most 1.
        sampling_rate: f64,
        /// Maximum number of examples in one step.
        batch_cap: u64,
        /// Standard deviation of the noise on the sum, divided by the bound on one contribution.
        noise_multiplier: f64,
        /// Number of steps.
        steps: u64,
    },
    /// `steps` releases, each on exactly `batch_size` examples drawn without replacement.
    FixedSizeGaussian {
        /// Number of examples in the data set, treated as public.
        examples: u64,
        /// Number of examples in each step.
        batch_size: u64,
        /// Standard deviation of the noise on the sum, divided by the bound on one contribution.
        noise_multiplier: f64,
        /// Number of steps.
        steps: u64,
    },
    /// `epochs` passes over the data in disjoint batches; the noisy sum of every batch is released.
    /// The assignment of examples to batches does not depend on their content. Each example is in
    /// one batch per epoch, so an epoch counts as *one* release (parallel composition) under
    /// zero-out and replace-one. Under add-or-remove-one no accountant supports it, because a
    /// removed example shifts all later batches. No amplification by shuffling is claimed.
    ShuffledEpochs {
        /// Standard deviation of the noise on the sum, divided by the bound on one contribution.
        noise_multiplier: f64,
        /// Number of passes over the data; a partial pass counts as one.
        epochs: u64,
    },
    /// The same event `count` times, under adaptive composition.
    Repeated {
        /// The repeated event.
        event: Box<Event>,
        /// Number of repetitions.
        count: u64,
    },
    /// Several events on the same data set, under adaptive composition.
    Composed {
        /// The events, in chronological order.
        events: Vec<Event>,
    },
    /// The best of a random number of independent trials, each of which releases `event`. Nothing
    /// else of the trials is shown, not even their number (Papernot and Steinke, 2022).
    PrivateSelection {
        /// Event that one trial releases.
        event: Box<Event>,
        /// Distribution of the number of trials.
        trials: Trials,
    },
    /// A release without a sound guarantee. No accountant supports it.
    Unaccountable {
        /// The reason why no guarantee holds.
        why: String,
    },
}

impl Event {
    /// Creates the event of one release of the Gaussian mechanism on all examples.
    pub fn gaussian(noise_multiplier: f64) -> Self {
        Event::Gaussian { noise_multiplier, count: 1 }
    }

    /// Creates the event of a training run: `steps` steps of the Poisson-subsampled Gaussian
    /// mechanism.
    pub fn poisson(sampling_rate: f64, noise_multiplier: f64, steps: u64) -> Self {
        Event::PoissonGaussian { sampling_rate, noise_multiplier, steps }
    }

    /// Returns this event repeated `count` times.
    pub fn repeated(&self, count: u64) -> Self {
        Event::Repeated { event: Box::new(self.clone()), count }
    }

    /// Returns the event of releasing only the best of a random number of trials, each of which
    /// releases this event.
    pub fn best_of(&self, trials: Trials) -> Self {
        Event::PrivateSelection { event: Box::new(self.clone()), trials }
    }

    /// Returns this event followed by `next` on the same data set.
    pub fn composed_with(&self, next: &Event) -> Self {
        Event::Composed { events: vec![self.clone(), next.clone()] }
    }

    /// Returns the event if all its parameters are in range.
    ///
    /// # Errors
    /// Kind `Setting`, naming the first parameter out of range. [`Event::Unaccountable`] is valid
    /// here: it is a truthful description.
    pub fn check(&self) -> Result<&Self> {
        match self {
            Event::Repeated { event, .. } => {
                event.check()?;
            }
            Event::Composed { events } => {
                for event in events {
                    event.check()?;
                }
            }
            Event::PrivateSelection { event, trials } => {
                event.check()?;
                trials.check()?;
            }
            _ => self.single().map_or(Ok(()), |(single, _)| single.check())?,
        }
        Ok(self)
    }

    /// Returns one event for several: the event itself if there is one, otherwise their
    /// composition.
    pub(crate) fn composed(events: impl IntoIterator<Item = Event>) -> Self {
        let mut events: Vec<Event> = events.into_iter().collect();
        match events.len() {
            1 => events.remove(0),
            _ => Event::Composed { events },
        }
    }

    /// Returns whether every release in it has a guarantee: none is
    /// [unaccountable](Event::Unaccountable).
    pub fn has_guarantee(&self) -> bool {
        match self {
            Event::Unaccountable { .. } => false,
            Event::Repeated { event, count } => *count == 0 || event.has_guarantee(),
            Event::PrivateSelection { event, .. } => event.has_guarantee(),
            Event::Composed { events } => events.iter().all(Event::has_guarantee),
            _ => true,
        }
    }

    /// Returns whether the event is, or contains, an event that `predicate` accepts.
    pub(crate) fn has(&self, predicate: fn(&Event) -> bool) -> bool {
        let inside = match self {
            Event::Repeated { event, .. } | Event::PrivateSelection { event, .. } => {
                event.has(predicate)
            }
            Event::Composed { events } => events.iter().any(|event| event.has(predicate)),
            _ => false,
        };
        inside || predicate(self)
    }

    /// Returns whether the event contains a private selection.
    pub(crate) fn has_private_selection(&self) -> bool {
        self.has(|event| matches!(event, Event::PrivateSelection { .. }))
    }

    /// Returns the number of noisy releases. A shuffled epoch and an unaccountable event count as
    /// one each, a private selection as one trial.
    pub fn release_count(&self) -> u64 {
        match self {
            Event::Repeated { event, count } => event.release_count().saturating_mul(*count),
            Event::Composed { events } => {
                events.iter().fold(0, |sum, event| sum.saturating_add(event.release_count()))
            }
            Event::PrivateSelection { event, .. } => event.release_count(),
            _ => self.single().map_or(1, |(_, count)| count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn training(steps: u64) -> Event {
        Event::PoissonGaussian { sampling_rate: 0.01, noise_multiplier: 1.1, steps }
    }

    #[test]
    fn events_round_trip_through_json() {
        let event = Event::Composed {
            events: vec![
                training(100),
                Event::Gaussian { noise_multiplier: 8.0, count: 1 },
                Event::Unaccountable { why: "threshold from the private batch".into() },
            ],
        };
        let json = serde_json::to_string(&event).unwrap();
        assert_eq!(
            json,
            r#"{"kind":"composed","events":[{"kind":"poisson_gaussian","sampling_rate":0.01,"noise_multiplier":1.1,"steps":100},{"kind":"gaussian","noise_multiplier":8.0,"count":1},{"kind":"unaccountable","why":"threshold from the private batch"}]}"#
        );
        assert_eq!(serde_json::from_str::<Event>(&json).unwrap(), event);
        for event in [
            Event::TruncatedPoissonGaussian {
                examples: 60_000,
                sampling_rate: 0.01,
                batch_cap: 700,
                noise_multiplier: 1.0,
                steps: 5,
            },
            Event::FixedSizeGaussian {
                examples: 60_000,
                batch_size: 600,
                noise_multiplier: 1.0,
                steps: 5,
            },
            Event::ShuffledEpochs { noise_multiplier: 1.0, epochs: 5 },
            Event::Repeated { event: Box::new(training(2)), count: 3 },
            training(2).best_of(Trials::geometric(10.0)),
        ] {
            let json = serde_json::to_string(&event).unwrap();
            assert_eq!(serde_json::from_str::<Event>(&json).unwrap(), event);
        }
        assert!(serde_json::from_str::<Event>(r#"{"kind":"laplace","scale":1.0}"#).is_err());
    }

    #[test]
    fn unknown_keys_are_rejected_by_name_also_when_nested() {
        for (json, key) in [
            (
                r#"{"kind":"gaussian","noise_multiplier":1.0,"count":1,"sampling_rate":0.1}"#,
                "sampling_rate",
            ),
            (
                r#"{"kind":"poisson_gaussian","sampling_rate":0.1,"noise_multiplier":1.0,"stepz":5}"#,
                "stepz",
            ),
            (r#"{"kind":"unaccountable","why":"raw","count":2}"#, "count"),
        ] {
            let inside = format!(r#"{{"kind":"composed","events":[{json}]}}"#);
            for json in [json, &inside] {
                let error = serde_json::from_str::<Event>(json).unwrap_err().to_string();
                assert!(error.contains(&format!("unknown field `{key}`")), "{error}");
            }
        }
    }

    #[test]
    fn out_of_range_parameters_are_rejected_also_when_nested() {
        for (q, sigma) in [(0.0, 1.0), (1.5, 1.0), (f64::NAN, 1.0), (0.1, 0.0), (0.1, f64::NAN)] {
            let bad =
                Event::PoissonGaussian { sampling_rate: q, noise_multiplier: sigma, steps: 1 };
            assert!(bad.check().is_err(), "{bad}");
            assert!(Event::Composed { events: vec![training(1), bad] }.check().is_err());
        }
        assert!(Event::Gaussian { noise_multiplier: -1.0, count: 1 }.check().is_err());
        assert!(training(0).check().is_ok());
    }
}
