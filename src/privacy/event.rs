//! An event documents a release completely; it computes nothing.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::units::Readable;
use super::{NoiseMultiplier, SamplingRate};
use crate::{Error, ErrorKind, Result};

/// What was, or will be, released about a data set.
///
/// As JSON an event is an object whose `kind` says which one it is, for example
/// `{"kind":"poisson_gaussian","sampling_rate":0.01,"noise_multiplier":1.1,"steps":10000}`: any
/// other library can re-check it in a few lines. The meaning of a kind never changes; a new
/// mechanism gets a new kind.
///
/// # Guarantee
/// `noise_multiplier` is always the standard deviation of the Gaussian noise on the *sum*, divided
/// by the bound C on one example's contribution to that sum (L2 norm). It does not depend on the
/// neighbouring relation; the accountant converts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
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
            Event::Composed { events } => {
                for event in events {
                    event.check()?;
                }
            }
            Event::Unaccountable { .. } => {}
        }
        Ok(self)
    }

    /// Number of noisy releases in the event (an unaccountable event counts as one).
    pub fn releases(&self) -> u64 {
        match self {
            Event::PoissonGaussian { steps, .. } => *steps,
            Event::Gaussian { count, .. } => *count,
            Event::Composed { events } => {
                events.iter().fold(0, |sum, event| sum.saturating_add(event.releases()))
            }
            Event::Unaccountable { .. } => 1,
        }
    }

    /// The part of this planned event that `spent` says was truly released.
    ///
    /// The parts of a composed event correspond one to one; parts at the end that `spent` does
    /// not mention were not begun. The result carries this plan's own multipliers and rates.
    ///
    /// # Errors
    /// Kind `Ledger` if `spent` is more than the plan, or something else: the correction of a
    /// plan can only lower its number of steps.
    ///
    /// # Guarantee
    /// What remains covers every release, provided `spent` counts every step whose result was
    /// used. The decision to stop may depend on released results, never on the data itself.
    pub fn reduced_to(&self, spent: &Event) -> Result<Event> {
        let refuse = || {
            Err(Error::new(
                ErrorKind::Ledger,
                format!("spent: {spent}; planned: {self}"),
                "what was spent is not a part of what was planned, so the plan stays charged",
            )
            .fix("close a run with its own event and at most its own number of steps"))
        };
        match (self, spent) {
            (
                Event::PoissonGaussian { sampling_rate, noise_multiplier, steps },
                Event::PoissonGaussian { sampling_rate: q, noise_multiplier: sigma, steps: taken },
            ) if same(*sampling_rate, *q) && same(*noise_multiplier, *sigma) && taken <= steps => {
                Ok(Event::PoissonGaussian {
                    sampling_rate: *sampling_rate,
                    noise_multiplier: *noise_multiplier,
                    steps: *taken,
                })
            }
            (
                Event::Gaussian { noise_multiplier, count },
                Event::Gaussian { noise_multiplier: sigma, count: taken },
            ) if same(*noise_multiplier, *sigma) && taken <= count => {
                Ok(Event::Gaussian { noise_multiplier: *noise_multiplier, count: *taken })
            }
            (Event::Composed { events }, Event::Composed { events: taken })
                if taken.len() <= events.len() =>
            {
                let kept = events.iter().zip(taken).map(|(planned, part)| planned.reduced_to(part));
                Ok(Event::Composed { events: kept.collect::<Result<_>>()? })
            }
            (Event::Unaccountable { .. }, Event::Unaccountable { .. }) if self == spent => {
                Ok(self.clone())
            }
            _ => refuse(),
        }
    }
}

/// Equal up to the last digits: reading a float back from JSON may move its last bit.
fn same(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-12 * a.abs()
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::PoissonGaussian { sampling_rate, noise_multiplier, steps } => write!(
                f,
                "{} with Gaussian noise on Poisson samples (sampling rate {}, noise multiplier {})",
                counted(*steps, "step"),
                Readable(*sampling_rate),
                Readable(*noise_multiplier),
            ),
            Event::Gaussian { noise_multiplier, count } => write!(
                f,
                "{} of all examples with Gaussian noise (noise multiplier {})",
                counted(*count, "release"),
                Readable(*noise_multiplier),
            ),
            Event::Composed { events } if events.is_empty() => f.write_str("nothing"),
            Event::Composed { events } => {
                for (i, event) in events.iter().enumerate() {
                    if i > 0 {
                        f.write_str(", then ")?;
                    }
                    // A composition of 20,000 parts must not become a wall of text.
                    if i == 4 && events.len() > 5 {
                        return write!(f, "{} more", events.len() - 4);
                    }
                    write!(f, "{event}")?;
                }
                Ok(())
            }
            Event::Unaccountable { why } => {
                write!(f, "a release without a guarantee ({why})")
            }
        }
    }
}

fn counted(number: u64, word: &str) -> String {
    format!("{number} {word}{}", if number == 1 { "" } else { "s" })
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
        assert!(serde_json::from_str::<Event>(r#"{"kind":"laplace","scale":1.0}"#).is_err());
    }

    #[test]
    fn an_event_reads_as_a_sentence() {
        assert_eq!(
            training(1).to_string(),
            "1 step with Gaussian noise on Poisson samples (sampling rate 0.01, noise multiplier 1.1)"
        );
        let many = Event::Composed { events: vec![training(2); 20_000] };
        assert!(many.to_string().ends_with("then 19996 more"));
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

    #[test]
    fn a_correction_lowers_the_steps_and_can_do_nothing_else() {
        let plan = training(100);
        assert_eq!(plan.reduced_to(&training(40)).unwrap(), training(40));
        assert!(plan.reduced_to(&training(101)).is_err(), "more steps than planned");
        let noisier =
            Event::PoissonGaussian { sampling_rate: 0.01, noise_multiplier: 2.0, steps: 9 };
        assert!(plan.reduced_to(&noisier).is_err(), "another noise multiplier");
        let rarer =
            Event::PoissonGaussian { sampling_rate: 0.001, noise_multiplier: 1.1, steps: 9 };
        assert!(plan.reduced_to(&rarer).is_err(), "another sampling rate");
        assert!(plan.reduced_to(&Event::Gaussian { noise_multiplier: 1.1, count: 1 }).is_err());
        let nan =
            Event::PoissonGaussian { sampling_rate: f64::NAN, noise_multiplier: 1.1, steps: 1 };
        assert!(plan.reduced_to(&nan).is_err(), "NaN is equal to nothing");
    }

    #[test]
    fn parts_of_a_composition_that_were_not_begun_are_dropped() {
        let probe = Event::Gaussian { noise_multiplier: 8.0, count: 1 };
        let plan = Event::Composed { events: vec![probe.clone(), training(100)] };
        let spent = Event::Composed { events: vec![probe.clone()] };
        assert_eq!(plan.reduced_to(&spent).unwrap(), spent);
        let swapped = Event::Composed { events: vec![training(1)] };
        assert!(plan.reduced_to(&swapped).is_err());
        let longer = Event::Composed { events: vec![probe.clone(), training(1), probe] };
        assert!(plan.reduced_to(&longer).is_err());
    }
}
