//! Correction of a planned event to what was released. It can only lower the number of steps.

use super::Event;
use crate::{Error, ErrorKind, Result};

/// The condition under which a run that stopped early costs no more than the steps it took. If the
/// stopping time depends on released results, an adversary learns more than those steps alone
/// reveal.
pub const STOPPING_ASSUMPTION: &str =
    "the moment of stopping was chosen independently of the data and of everything the run showed";

impl Event {
    /// Returns the part of this planned event that `spent` reports as released.
    ///
    /// The parts of a composed event correspond one to one. Trailing parts that `spent` does not
    /// mention were not started. The result has the noise multipliers and sampling rates of the
    /// plan.
    ///
    /// # Errors
    /// Kind `Ledger` if `spent` exceeds the plan or is a different event: a correction can only
    /// lower the number of steps.
    ///
    /// # Guarantee
    /// The result covers every release if `spent` counts every step whose result was used, and if
    /// the stopping time was chosen independently of the data and of everything the run showed. A
    /// stopping time that depends on released results is covered only by the whole plan. One that
    /// depends on values without noise is covered by no epsilon.
    pub fn reduced_to(&self, spent: &Event) -> Result<Event> {
        let reject = || {
            Err(Error::new(
                ErrorKind::Ledger,
                format!("spent: {spent}; planned: {self}"),
                "the spent event is not part of the planned one, so the whole plan stays charged",
            )
            .fix("close a run with the event of its plan and at most the planned number of steps"))
        };
        let (Some((release, planned)), Some((other, taken))) = (self.single(), spent.single())
        else {
            return match (self, spent) {
                (Event::Composed { events }, Event::Composed { events: taken })
                    if taken.len() <= events.len() =>
                {
                    let parts = events.iter().zip(taken);
                    let kept = parts.map(|(planned, part)| planned.reduced_to(part));
                    Ok(Event::Composed { events: kept.collect::<Result<_>>()? })
                }
                (
                    Event::Repeated { event, count },
                    Event::Repeated { event: inner, count: taken },
                ) if event.is_nearly(inner) && taken <= count => {
                    Ok(Event::Repeated { event: event.clone(), count: *taken })
                }
                (Event::Unaccountable { .. }, _) if self == spent => Ok(self.clone()),
                (
                    Event::PrivateSelection { event, trials },
                    Event::PrivateSelection { event: inner, trials: law },
                ) if trials.is_nearly(law) && event.is_nearly(inner) => Ok(self.clone()),
                // A run that ended before it released anything.
                (
                    Event::Unaccountable { .. } | Event::PrivateSelection { .. },
                    Event::Composed { events },
                ) if events.is_empty() => Ok(spent.clone()),
                _ => reject(),
            };
        };
        if taken > planned || !release.is_nearly(&other) {
            return reject();
        }
        Ok(release.repeated_event(taken))
    }

    /// Returns the larger of two parts of one planned event, which covers both; `None` if neither
    /// is a part of the other.
    pub(crate) fn larger_part<'a>(&'a self, other: &'a Event) -> Option<&'a Event> {
        match (self.reduced_to(other), other.reduced_to(self)) {
            (Ok(_), _) => Some(self),
            (_, Ok(_)) => Some(other),
            _ => None,
        }
    }

    /// Returns whether two events are the same up to the rounding of numbers that were read from a
    /// file.
    fn is_nearly(&self, other: &Event) -> bool {
        self.reduced_to(other).is_ok() && other.reduced_to(self).is_ok()
    }
}

/// Returns whether two numbers are equal up to rounding: the last bit of a float may change when
/// it is read back from JSON.
pub(crate) fn nearly_equal(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-12 * a.abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Trials;

    fn training(steps: u64) -> Event {
        Event::PoissonGaussian { sampling_rate: 0.01, noise_multiplier: 1.1, steps }
    }

    #[test]
    fn a_correction_can_only_lower_the_steps() {
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

    /// A record that another program has read and written may differ in the last place.
    #[test]
    fn nested_events_are_found_again_after_they_were_written_and_read() {
        for i in 0..200 {
            let poisson = |sampling_rate: f64, noise_multiplier: f64| Event::PoissonGaussian {
                sampling_rate,
                noise_multiplier,
                steps: 9,
            };
            let rate = 0.1 + 0.001_234_567 * f64::from(i);
            let noise = (0.5 + 0.017 * f64::from(i)).sqrt();
            let (trial, earlier) = (poisson(rate, noise), poisson(rate.next_up(), noise.next_up()));
            let law = Trials::geometric(1.5 + 0.321 * f64::from(i));
            for (planned, earlier) in [
                (trial.best_of(law), earlier.best_of(law)),
                (trial.repeated(7), earlier.repeated(7)),
            ] {
                let text = serde_json::to_string(&planned).unwrap();
                let read: Event = serde_json::from_str(&text).unwrap();
                assert_eq!(read, planned, "bit by bit");
                assert_eq!(planned.reduced_to(&earlier).unwrap(), planned);
                assert_eq!(earlier.reduced_to(&planned).unwrap(), earlier);
            }
            let other = training(9).best_of(law);
            assert!(trial.best_of(law).reduced_to(&other).is_err(), "another trial");
            let more = Trials::geometric(1.0 + law.mean());
            assert!(trial.best_of(law).reduced_to(&trial.best_of(more)).is_err(), "another law");
            let poisson = Trials::poisson(law.mean());
            assert!(trial.best_of(law).reduced_to(&trial.best_of(poisson)).is_err());
        }
    }

    #[test]
    fn parts_of_a_composition_that_were_not_started_are_dropped() {
        let probe = Event::Gaussian { noise_multiplier: 8.0, count: 1 };
        let plan = Event::Composed { events: vec![probe.clone(), training(100)] };
        let spent = Event::Composed { events: vec![probe.clone()] };
        assert_eq!(plan.reduced_to(&spent).unwrap(), spent);
        let swapped = Event::Composed { events: vec![training(1)] };
        assert!(plan.reduced_to(&swapped).is_err());
        let longer = Event::Composed { events: vec![probe.clone(), training(1), probe] };
        assert!(plan.reduced_to(&longer).is_err());
    }

    #[test]
    fn an_unaccountable_plan_is_kept_whole_or_was_never_begun() {
        let raw = Event::Unaccountable { why: "raw gradients".into() };
        let nothing = Event::Composed { events: vec![] };
        assert_eq!(raw.reduced_to(&nothing).unwrap(), nothing);
        let probe = Event::Gaussian { noise_multiplier: 8.0, count: 1 };
        let with = |last: &Event| Event::Composed { events: vec![probe.clone(), last.clone()] };
        assert_eq!(with(&raw).reduced_to(&with(&nothing)).unwrap(), with(&nothing));
        for other in [training(0), with(&nothing), Event::Unaccountable { why: "else".into() }] {
            assert!(raw.reduced_to(&other).is_err(), "{other}");
        }
    }

    #[test]
    fn every_kind_of_plan_can_only_be_lowered() {
        let plans = |count: u64| {
            [
                Event::TruncatedPoissonGaussian {
                    examples: 100,
                    sampling_rate: 0.1,
                    batch_cap: 20,
                    noise_multiplier: 1.0,
                    steps: count,
                },
                Event::FixedSizeGaussian {
                    examples: 100,
                    batch_size: 10,
                    noise_multiplier: 1.0,
                    steps: count,
                },
                Event::ShuffledEpochs { noise_multiplier: 1.0, epochs: count },
                Event::Repeated { event: Box::new(training(2)), count },
            ]
        };
        for ((planned, less), more) in plans(9).into_iter().zip(plans(4)).zip(plans(10)) {
            assert_eq!(planned.reduced_to(&less).unwrap(), less);
            assert!(planned.reduced_to(&more).is_err(), "{more}");
            assert!(planned.reduced_to(&training(1)).is_err(), "another kind than {planned}");
        }
        let fewer_drawn = Event::FixedSizeGaussian {
            examples: 100,
            batch_size: 9,
            noise_multiplier: 1.0,
            steps: 1,
        };
        assert!(plans(9)[1].reduced_to(&fewer_drawn).is_err());
    }
}
