//! The largest further run that fits a budget.

use super::{Budget, LedgerState};
use crate::{
    Accountant, Event, NoiseMultiplier, Result, SamplingRate, noise_multiplier_given_prior,
};

/// The run with the least noise that still fits a budget.
#[derive(Clone, Debug, PartialEq)]
pub struct AffordableRun {
    /// Epsilon of the run by itself, at the budget's delta.
    pub epsilon: f64,
    /// Noise multiplier of the run; larger ones fit too.
    pub noise_multiplier: NoiseMultiplier,
    /// Sampling rate and number of steps of the run, those of the last run on record; `None` for
    /// one release on all examples, where there is no such run.
    pub reference_sampling: Option<(f64, u64)>,
}

impl LedgerState {
    /// Returns the largest further run under `budget`, with the sampling rate and the steps of the
    /// last run on record.
    ///
    /// The limit less what is spent is not its epsilon: composition costs less than the sum of the
    /// epsilons, so more fits.
    ///
    /// # Guarantee
    /// The epsilon of everything on record together with this run, by the
    /// [`TightestAccountant`](crate::TightestAccountant) accountant, is at most the limit.
    ///
    /// # Errors
    /// Kind `Accounting` if no further run fits, or if no accountant covers the runs on record.
    pub fn largest_affordable_run(&self, budget: Budget) -> Result<AffordableRun> {
        let like_the_last =
            self.charges().iter().rev().find_map(|run| poisson_parameters(&run.event));
        let (rate, steps) = like_the_last.unwrap_or((1.0, 1));
        let (events, tightest) = self.events_and_accountant();
        let found = noise_multiplier_given_prior(
            &events,
            budget.epsilon,
            budget.delta,
            SamplingRate(rate),
            steps,
            &tightest,
        )?;
        let noise_multiplier = found.noise_multiplier;
        let event = Event::poisson(rate, noise_multiplier.0, steps);
        let epsilon = tightest.epsilon(&[event], budget.delta)?.epsilon;
        Ok(AffordableRun { epsilon, noise_multiplier, reference_sampling: like_the_last })
    }
}

/// Returns the sampling rate and the steps of the training in a run's event: of its last
/// Poisson-sampled steps, with all stages of a noise schedule.
fn poisson_parameters(event: &Event) -> Option<(f64, u64)> {
    match event {
        Event::PoissonGaussian { sampling_rate, steps, .. } if *steps > 0 => {
            Some((*sampling_rate, *steps))
        }
        Event::Composed { events } => {
            let parts = events.iter().rev().map(poisson_parameters).skip_while(Option::is_none);
            let mut parts = parts.map_while(|part| part);
            let (rate, last) = parts.next()?;
            let stages = parts.take_while(|part| part.0 == rate).map(|part| part.1);
            Some((rate, stages.fold(last, u64::saturating_add)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stages_of_a_schedule_are_one_training() {
        let stage = |sigma: f64| Event::poisson(0.01, sigma, 10);
        let stages = Event::Composed { events: vec![stage(2.0), stage(1.5), stage(1.0)] };
        assert_eq!(poisson_parameters(&stages), Some((0.01, 30)));
        assert_eq!(
            poisson_parameters(&Event::gaussian(8.0).composed_with(&stages)),
            Some((0.01, 30))
        );
        assert_eq!(
            poisson_parameters(&Event::poisson(0.5, 1.0, 7).composed_with(&stage(1.0))),
            Some((0.01, 10))
        );
        assert_eq!(
            poisson_parameters(&stages.composed_with(&Event::gaussian(8.0))),
            Some((0.01, 30))
        );
        assert_eq!(poisson_parameters(&Event::gaussian(8.0)), None);
    }
}
