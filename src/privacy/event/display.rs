//! Text form of events.

use std::fmt;

use super::Event;
use crate::privacy::digits::{RoundedDown, Short};

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::PoissonGaussian { sampling_rate, noise_multiplier, steps } => write!(
                f,
                "{} with Gaussian noise on Poisson samples (sampling rate {}, noise multiplier {})",
                counted(*steps, "step"),
                Short(*sampling_rate),
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
                Short(*sampling_rate),
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
                for (i, event) in events.iter().enumerate() {
                    if i > 0 {
                        f.write_str(", then ")?;
                    }
                    // Long compositions are abbreviated.
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
    fn an_event_has_a_text_form() {
        assert_eq!(
            training(1).to_string(),
            "1 step with Gaussian noise on Poisson samples (sampling rate 0.01, noise multiplier 1.1)"
        );
        let many = Event::Composed { events: vec![training(2); 20_000] };
        assert!(many.to_string().ends_with("then 19996 more"));
    }
}
