//! An event documents a release completely; it computes nothing.

use serde::{Deserialize, Serialize};

use super::{NoiseMultiplier, SamplingRate};
use crate::{Error, Result};

mod display;
mod reduce;
mod single;

pub(crate) use reduce::STOPPING;
pub(crate) use single::{Single, singles};

/// What was, or will be, released about a data set.
///
/// As JSON an event is an object whose `kind` says which one it is, for example
/// `{"kind":"poisson_gaussian","sampling_rate":0.01,"noise_multiplier":1.1,"steps":10000}`: any
/// other library can re-check it in a few lines. The meaning of a kind never changes; a new
/// mechanism gets a new kind. A key that the kind does not have is refused: whoever wrote it meant
/// something that would otherwise be left out of the account.
///
/// # Guarantee
/// `noise_multiplier` is always the standard deviation of the Gaussian noise on the *sum*, divided
/// by the bound C on one example's contribution to that sum (L2 norm). It does not depend on the
/// neighbouring relation; the accountant converts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Event {
    /// `steps` times: every example joins with probability `sampling_rate`, independently; the
    /// sum of the bounded contributions is released with Gaussian noise.
    PoissonGaussian {
        /// Probability of each example to join a step, above 0, at most 1.
        sampling_rate: f64,
        /// Standard deviation of the noise on the sum over the bound on one contribution.
        noise_multiplier: f64,
        /// How many such steps.
        steps: u64,
    },
    /// `count` times: the sum of the bounded contributions of *all* examples, with noise.
    Gaussian {
        /// Standard deviation of the noise on the sum over the bound on one contribution.
        noise_multiplier: f64,
        /// How many such releases.
        count: u64,
    },
    /// As [`Event::PoissonGaussian`], but of a sample larger than `batch_cap` only a uniformly
    /// random part of that size is used (never the first ones).
    TruncatedPoissonGaussian {
        /// Number of examples in the data set, declared public.
        examples: u64,
        /// Probability of each example to be drawn, above 0, at most 1.
        sampling_rate: f64,
        /// The most examples that one step uses.
        batch_cap: u64,
        /// Standard deviation of the noise on the sum over the bound on one contribution.
        noise_multiplier: f64,
        /// How many such steps.
        steps: u64,
    },
    /// `steps` times: exactly `batch_size` examples, drawn anew without replacement.
    FixedSizeGaussian {
        /// Number of examples in the data set, declared public.
        examples: u64,
        /// Number of examples in each step.
        batch_size: u64,
        /// Standard deviation of the noise on the sum over the bound on one contribution.
        noise_multiplier: f64,
        /// How many such steps.
        steps: u64,
    },
    /// `epochs` times: the examples are dealt into disjoint batches without looking at them, and
    /// the noisy sum of every batch is released. Each example is in one batch per epoch, so an
    /// epoch counts as *one* release (parallel composition); shuffling amplifies nothing here.
    ShuffledEpochs {
        /// Standard deviation of the noise on the sum over the bound on one contribution.
        noise_multiplier: f64,
        /// How many passes over the data, begun ones included.
        epochs: u64,
    },
    /// `count` times the same event, each free to depend on the results of the earlier.
    Repeated {
        /// What is repeated.
        event: Box<Event>,
        /// How often.
        count: u64,
    },
    /// Several events on the same data set, each free to depend on the results of the earlier.
    Composed {
        /// The events, in time order.
        events: Vec<Event>,
    },
    /// A release without a sound guarantee. Every accountant refuses it.
    Unaccountable {
        /// Why nothing can be guaranteed, in words.
        why: String,
    },
}

impl Event {
    /// One release of the noisy sum over all examples.
    pub fn gaussian(noise_multiplier: f64) -> Self {
        Event::Gaussian { noise_multiplier, count: 1 }
    }

    /// A training run: `steps` noisy sums, each over a Poisson sample.
    pub fn poisson(sampling_rate: f64, noise_multiplier: f64, steps: u64) -> Self {
        Event::PoissonGaussian { sampling_rate, noise_multiplier, steps }
    }

    /// The same event `count` times.
    pub fn times(&self, count: u64) -> Self {
        Event::Repeated { event: Box::new(self.clone()), count }
    }

    /// This event and then another one on the same data.
    pub fn then(&self, next: &Event) -> Self {
        Event::Composed { events: vec![self.clone(), next.clone()] }
    }

    /// The event itself if all its numbers are in range.
    ///
    /// # Errors
    /// Kind `Setting`, naming the first number that is out of range. Being unaccountable is not
    /// an error here: it is a true description.
    pub fn check(&self) -> Result<&Self> {
        match self {
            Event::PoissonGaussian { sampling_rate, noise_multiplier, .. } => {
                SamplingRate(*sampling_rate).check()?;
                NoiseMultiplier(*noise_multiplier).check()?;
            }
            Event::Gaussian { noise_multiplier, .. } => {
                NoiseMultiplier(*noise_multiplier).check()?;
            }
            Event::TruncatedPoissonGaussian {
                examples,
                sampling_rate,
                batch_cap,
                noise_multiplier,
                ..
            } => {
                SamplingRate(*sampling_rate).check()?;
                NoiseMultiplier(*noise_multiplier).check()?;
                at_least_one("examples", *examples)?;
                at_least_one("batch_cap", *batch_cap)?;
            }
            Event::FixedSizeGaussian { examples, batch_size, noise_multiplier, .. } => {
                NoiseMultiplier(*noise_multiplier).check()?;
                at_least_one("batch_size", *batch_size)?;
                if batch_size > examples {
                    let why = format!("there are only {examples} examples to draw from");
                    return Err(Error::setting("batch_size", batch_size, why)
                        .fix("draw at most as many examples as there are"));
                }
            }
            Event::ShuffledEpochs { noise_multiplier, .. } => {
                NoiseMultiplier(*noise_multiplier).check()?;
            }
            Event::Repeated { event, .. } => {
                event.check()?;
            }
            Event::Composed { events } => {
                for event in events {
                    event.check()?;
                }
            }
            Event::Unaccountable { .. } => {}
        }
        Ok(self)
    }

    /// Number of noisy releases in the event, a shuffled epoch counting as one (an unaccountable event counts as one).
    pub fn releases(&self) -> u64 {
        match self {
            Event::PoissonGaussian { steps, .. }
            | Event::TruncatedPoissonGaussian { steps, .. }
            | Event::FixedSizeGaussian { steps, .. } => *steps,
            Event::Gaussian { count, .. } => *count,
            Event::ShuffledEpochs { epochs, .. } => *epochs,
            Event::Repeated { event, count } => event.releases().saturating_mul(*count),
            Event::Composed { events } => {
                events.iter().fold(0, |sum, event| sum.saturating_add(event.releases()))
            }
            Event::Unaccountable { .. } => 1,
        }
    }
}

fn at_least_one(name: &str, value: u64) -> Result<()> {
    match value {
        0 => Err(Error::setting(name, value, "nothing would ever be released")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn training(steps: u64) -> Event {
        Event::PoissonGaussian { sampling_rate: 0.01, noise_multiplier: 1.1, steps }
    }

    #[test]
    fn an_event_is_json_that_names_its_kind_and_reads_back() {
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
        ] {
            let json = serde_json::to_string(&event).unwrap();
            assert_eq!(serde_json::from_str::<Event>(&json).unwrap(), event);
        }
        assert!(serde_json::from_str::<Event>(r#"{"kind":"laplace","scale":1.0}"#).is_err());
    }

    #[test]
    fn a_key_that_the_kind_does_not_have_is_refused_by_name_also_inside() {
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
    fn numbers_out_of_range_are_refused_also_inside_a_composition() {
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
