//! Epsilon along a run.

use super::epsilon_panel::{POINTS, epsilon_panel, rdp_jump_note};
use super::{describe_events, sorted};
use crate::privacy::{Delta, Event};
use crate::show::{Chart, Coverage};
use crate::{Error, Result};

/// Plots epsilon over the number of noisy releases of a run: the reported value and RDP's.
///
/// ```
/// use epsilab::prelude::*;
/// let training = Event::poisson(0.01, 1.0, 200);
/// let chart = figures::epsilon_over_steps(&training, Delta(1e-5))?; // or of plan.event()
/// let points = chart.panels()[0].all_series()[0].points();
/// assert_eq!((points[0], points[points.len() - 1].0), ((0.0, 0.0), 200.0));
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// Kind `Setting` for a value outside its range or a run without a step, kind `Accounting` if no
/// accountant can account for the event.
pub fn epsilon_over_steps(event: &Event, delta: Delta) -> Result<Chart> {
    event.check()?;
    let all = event.release_count();
    if all == 0 {
        return Err(Error::setting("steps", 0, "nothing is released, so there is nothing to draw")
            .fix("use at least one step"));
    }
    let points = (POINTS as u64 - 1).min(all);
    // In 128 bits, so that large counts do not overflow.
    let even = (0..=points).map(|i| u128::from(all) * u128::from(i) / u128::from(points));
    // Epsilon grows about like the square root of the steps: square numbers resolve the bend near
    // 0, powers of two the first steps, which cost most.
    let squares = (1..).map(|i| i * i).take_while(|&n| n < 4 * u128::from(points));
    let squares = squares.map(|n| u128::from(all) * n / u128::from(points).pow(2));
    let early = (0..8).map(|i| 1u128 << i).filter(|&n| n < u128::from(all / points));
    let squares = squares.filter(|&n| n <= u128::from(all));
    let steps = sorted(even.chain(squares).chain(early).map(|n| n as f64));
    let panel = epsilon_panel(&steps, delta, |steps| truncate_event(event, steps as u64))?;
    Ok(Chart::new("Epsilon along the run")
        .coverage(Coverage::Public)
        .note(format!("{}{}", describe_events(std::slice::from_ref(event)), rdp_jump_note(&panel)))
        .panel(panel)
        .x_label(match event {
            Event::ShuffledEpochs { .. } => "epoch",
            _ => "step",
        }))
}

/// Returns the first `releases` noisy releases of an event.
fn truncate_event(event: &Event, releases: u64) -> Event {
    let mut event = event.clone();
    match &mut event {
        Event::PoissonGaussian { steps, .. }
        | Event::TruncatedPoissonGaussian { steps, .. }
        | Event::FixedSizeGaussian { steps, .. } => *steps = releases.min(*steps),
        Event::Gaussian { count, .. } => *count = releases.min(*count),
        Event::ShuffledEpochs { epochs, .. } => *epochs = releases.min(*epochs),
        Event::Repeated { event: part, count } => {
            let each = part.release_count().max(1);
            let repeats = (releases / each).min(*count);
            let rest = if repeats < *count { releases % each } else { 0 };
            let partial = truncate_event(part, rest);
            let complete = Event::Repeated { event: part.clone(), count: repeats };
            return Event::Composed { events: vec![complete, partial] };
        }
        Event::Composed { events } => {
            let mut left = releases;
            for part in events.iter_mut() {
                let has = part.release_count();
                *part = truncate_event(part, left);
                left = left.saturating_sub(has);
            }
            events.retain(|part| part.release_count() > 0);
        }
        // A single release: all of it or nothing. Unknown kinds of events are drawn whole.
        _ if releases == 0 => return Event::Composed { events: Vec::new() },
        _ => {}
    }
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    fn training(noise_multiplier: f64, steps: u64) -> Event {
        Event::PoissonGaussian { sampling_rate: 0.01, noise_multiplier, steps }
    }

    #[test]
    fn a_prefix_of_nested_events_has_the_right_releases() {
        let epoch = Event::Composed { events: vec![training(1.0, 3), training(2.0, 2)] };
        let run = Event::Repeated { event: Box::new(epoch), count: 10 };
        for n in 0..=50 {
            assert_eq!(truncate_event(&run, n).release_count(), n);
        }
        assert_eq!(truncate_event(&run, 99).release_count(), 50);
        let part = truncate_event(&run, 9);
        let expected = Event::Composed {
            events: vec![
                Event::Repeated {
                    event: Box::new(Event::Composed {
                        events: vec![training(1.0, 3), training(2.0, 2)],
                    }),
                    count: 1,
                },
                Event::Composed { events: vec![training(1.0, 3), training(2.0, 1)] },
            ],
        };
        assert_eq!(part, expected);
        let open = Event::Unaccountable { why: "raw".into() };
        assert_eq!(truncate_event(&open, 0).release_count(), 0);
        assert_eq!(truncate_event(&open, 1), open);
    }

    #[test]
    fn a_run_without_a_step_is_refused_and_a_short_one_has_a_point_per_step() {
        assert!(epsilon_over_steps(&training(1.0, 0), Delta(1e-5)).is_err());
        let chart = epsilon_over_steps(&training(1.0, 3), Delta(1e-5)).unwrap();
        let xs: Vec<f64> = chart.panels()[0].all_series()[0].points().iter().map(|p| p.0).collect();
        assert_eq!(xs, [0.0, 1.0, 2.0, 3.0]);
    }
}
