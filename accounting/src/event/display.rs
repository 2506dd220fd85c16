//! Text form of events.

use std::fmt;

use super::Event;
use crate::digits::{RoundedDown, RoundedNearest, counted_plainly as counted};

/// Maximum number of parts of a composition that are written out.
const LISTED: usize = 5;

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::PoissonGaussian { sampling_rate, noise_multiplier, steps } => write!(
                f,
                "{} with Gaussian noise on Poisson samples (sampling rate {}, noise multiplier {})",
                counted(*steps, "step"),
                RoundedNearest(*sampling_rate),
                RoundedDown(*noise_multiplier),
            ),
            Event::Gaussian { noise_multiplier, count } => write!(
                f,
                "{} of all examples with Gaussian noise (noise multiplier {})",
                counted(*count, "release"),
                RoundedDown(*noise_multiplier),
            ),
            Event::TruncatedPoissonGaussian {
                examples,
                sampling_rate,
                batch_cap,
                noise_multiplier,
                steps,
            } => write!(
                f,
                "{} with Gaussian noise on Poisson samples of {examples} examples cut to at most \
                 {batch_cap} (sampling rate {}, noise multiplier {})",
                counted(*steps, "step"),
                RoundedNearest(*sampling_rate),
                RoundedDown(*noise_multiplier),
            ),
            Event::FixedSizeGaussian { examples, batch_size, noise_multiplier, steps } => write!(
                f,
                "{} with Gaussian noise on exactly {batch_size} of {examples} examples, drawn \
                 without replacement (noise multiplier {})",
                counted(*steps, "step"),
                RoundedDown(*noise_multiplier),
            ),
            Event::ShuffledEpochs { noise_multiplier, epochs } => write!(
                f,
                "{} over disjoint batches with Gaussian noise (noise multiplier {})",
                counted(*epochs, "shuffled epoch"),
                RoundedDown(*noise_multiplier),
            ),
            Event::Repeated { event, count } => {
                write!(f, "{} ({event})", counted(*count, "time"))
            }
            Event::Composed { events } if events.is_empty() => f.write_str("nothing"),
            Event::Composed { events } => {
                if let Some(schedule) = schedule(events) {
                    return f.write_str(&schedule);
                }
                // Long compositions are abbreviated.
                let listed = if events.len() > LISTED { LISTED - 1 } else { events.len() };
                let mut parts: Vec<String> =
                    events[..listed].iter().map(Event::to_string).collect();
                if listed < events.len() {
                    parts.push(format!("{} more", events.len() - listed));
                }
                f.write_str(&parts.join(", then "))
            }
            Event::PrivateSelection { event, trials } => {
                write!(f, "the best of a random number of trials ({trials}) of: {event}")
            }
            Event::Unaccountable { why } => {
                write!(f, "a release without a guarantee ({why})")
            }
        }
    }
}

/// Describes many Poisson-sampled steps that differ in their noise only: `1000 steps with Gaussian
/// noise on Poisson samples (sampling rate 0.01, noise multipliers from 1.49 down to 0.91)`.
fn schedule(events: &[Event]) -> Option<String> {
    let parts = events.iter().map(|event| match *event {
        Event::PoissonGaussian { sampling_rate, noise_multiplier, steps } => {
            Some((sampling_rate, noise_multiplier, steps))
        }
        _ => None,
    });
    let parts: Vec<(f64, f64, u64)> = parts.collect::<Option<_>>()?;
    let rate = parts.first()?.0;
    if parts.len() <= LISTED || parts.iter().any(|part| part.0 != rate) {
        return None;
    }
    let total = parts.iter().fold(0u64, |total, part| total.saturating_add(part.2));
    let noises: Vec<f64> = parts.iter().map(|part| part.1).collect();
    let text = |noise: f64| RoundedDown(noise).to_string();
    let (first, last) = (text(noises[0]), text(noises[noises.len() - 1]));
    let noise = if noises.windows(2).all(|pair| pair[0] == pair[1]) {
        format!("noise multiplier {first}")
    } else if noises.is_sorted() {
        format!("noise multipliers from {first} up to {last}")
    } else if noises.is_sorted_by(|a, b| a >= b) {
        format!("noise multipliers from {first} down to {last}")
    } else {
        let least = noises.iter().copied().fold(f64::INFINITY, f64::min);
        let most = noises.iter().copied().fold(0.0, f64::max);
        format!("noise multipliers between {} and {}", text(least), text(most))
    };
    Some(format!(
        "{} with Gaussian noise on Poisson samples (sampling rate {}, {noise})",
        counted(total, "step"),
        RoundedNearest(rate),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn training(steps: u64) -> Event {
        Event::PoissonGaussian { sampling_rate: 0.01, noise_multiplier: 1.1, steps }
    }

    #[test]
    fn an_event_has_a_text_form() {
        assert_eq!(
            training(1).to_string(),
            "1 step with Gaussian noise on Poisson samples (sampling rate 0.01, noise multiplier 1.1)"
        );
        let probe = Event::Gaussian { noise_multiplier: 8.0, count: 1 };
        let many = Event::Composed { events: vec![[training(2), probe]; 10_000].concat() };
        assert!(many.to_string().ends_with("then 19996 more"));
    }

    #[test]
    fn a_schedule_is_one_phrase_also_beside_another_release() {
        let step = |sigma: f64| Event::poisson(0.01, sigma, 2);
        let composed = |noises: &[f64]| Event::Composed {
            events: noises.iter().map(|&sigma| step(sigma)).collect(),
        };
        let text = "12 steps with Gaussian noise on Poisson samples (sampling rate 0.01, ";
        for (noises, end) in [
            ([1.49, 1.4, 1.3, 1.2, 1.1, 0.91], "noise multipliers from 1.49 down to 0.91)"),
            ([0.91, 1.1, 1.2, 1.3, 1.4, 1.49], "noise multipliers from 0.91 up to 1.49)"),
            ([1.0, 1.2, 0.8, 1.1, 0.9, 1.0], "noise multipliers between 0.8 and 1.2)"),
            ([1.5; 6], "noise multiplier 1.5)"),
        ] {
            assert_eq!(composed(&noises).to_string(), format!("{text}{end}"));
        }
        let run = composed(&[1.49, 1.4, 1.3, 1.2, 1.1, 0.91]);
        let both = Event::gaussian(8.0).composed_with(&run).to_string();
        assert!(both.ends_with(&format!("then {run}")), "{both}");
        // Another sampling rate is not a schedule.
        let Event::Composed { mut events } = run else { unreachable!() };
        events.push(Event::poisson(0.02, 1.0, 2));
        assert!(Event::Composed { events }.to_string().ends_with("then 3 more"));
    }
}
