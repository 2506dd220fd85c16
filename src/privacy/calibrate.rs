//! From a target epsilon back to the noise multiplier.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::accountant::Rounded;
use super::{Accountant, Delta, Epsilon, Event, NoiseMultiplier, SamplingRate};
use crate::{Error, ErrorKind, Result};

/// Relative width at which the bisection stops.
const TOLERANCE: f64 = 1e-6;

/// Noise multipliers beyond this are not looked for.
const LARGEST: f64 = 1e12;

/// Noise multipliers below this are not looked for.
const SMALLEST: f64 = 1e-9;

/// A noise multiplier and the epsilon it truly gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibrated {
    /// The noise multiplier: at most a millionth above the smallest that meets the target.
    pub noise_multiplier: NoiseMultiplier,
    /// The epsilon of this very multiplier, at most the target.
    pub epsilon: f64,
    /// Name of the accountant that found it.
    pub accountant: String,
}

impl fmt::Display for Calibrated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "noise multiplier {} gives epsilon {} ({})",
            Rounded(self.noise_multiplier.0),
            Rounded(self.epsilon),
            self.accountant
        )
    }
}

/// The smallest noise multiplier with which `steps` Poisson-sampled Gaussian steps stay within
/// (`target`, `delta`), by bisection in ln sigma.
///
/// # Errors
/// Kind `Setting` for a number outside its range or zero steps; kind `Accounting` if the target
/// is at or below the accountant's floor, or out of reach in any other way.
///
/// # Guarantee
/// The result errs on the safe side: its epsilon was evaluated by the same accountant and is at
/// most `target`. Neighbouring relation and assumptions are the accountant's.
///
/// ```
/// use epsilab::privacy::{Delta, Epsilon, Rdp, SamplingRate, noise_multiplier_for};
/// let found = noise_multiplier_for(
///     Epsilon(3.0), Delta(1e-5), SamplingRate(2048.0 / 60_000.0), 879, &Rdp::default(),
/// )?;
/// assert!(found.epsilon <= 3.0 && (found.noise_multiplier.0 - 1.72).abs() < 0.01);
/// # Ok::<(), epsilab::Error>(())
/// ```
pub fn noise_multiplier_for(
    target: Epsilon,
    delta: Delta,
    sampling_rate: SamplingRate,
    steps: u64,
    accountant: &dyn Accountant,
) -> Result<Calibrated> {
    let target = target.check()?;
    let sampling_rate = sampling_rate.check()?.0;
    if steps == 0 {
        return Err(Error::setting("steps", 0, "without a step there is nothing to calibrate"));
    }
    let floor = accountant.floor(delta)?;
    if target.0 <= floor {
        return Err(out_of_reach(
            target,
            accountant,
            format!("at delta {delta} this accountant can't report less than {floor:.4}"),
        ));
    }
    let spent = |sigma: f64| {
        let event = Event::PoissonGaussian { sampling_rate, noise_multiplier: sigma, steps };
        accountant.epsilon(&[event], delta).map(|spent| spent.epsilon)
    };
    // Too little noise for any finite epsilon is just too little noise.
    let meets = |sigma: f64| spent(sigma).is_ok_and(|epsilon| epsilon <= target.0);

    let mut enough = 1.0;
    while !meets(enough) {
        enough *= 2.0;
        if enough > LARGEST {
            // Not a question of noise if the accountant refuses altogether: pass its reason on.
            spent(enough)?;
            return Err(out_of_reach(target, accountant, format!("not even at {LARGEST:e}")));
        }
    }
    let mut too_little = enough / 2.0;
    while meets(too_little) {
        enough = too_little;
        too_little /= 2.0;
        if too_little < SMALLEST {
            break;
        }
    }
    while enough / too_little > 1.0 + TOLERANCE && too_little >= SMALLEST {
        let middle = (enough * too_little).sqrt();
        if meets(middle) { enough = middle } else { too_little = middle }
    }
    Ok(Calibrated {
        noise_multiplier: NoiseMultiplier(enough),
        epsilon: spent(enough)?,
        accountant: accountant.name().to_string(),
    })
}

fn out_of_reach(target: Epsilon, accountant: &dyn Accountant, why: String) -> Error {
    Error::new(
        ErrorKind::Accounting,
        format!("no noise multiplier reaches epsilon = {target} by {}", accountant.name()),
        why,
    )
    .fix("ask for a larger epsilon or delta, or use a longer list of orders")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privacy::Rdp;

    fn find(epsilon: f64, delta: f64, q: f64, steps: u64, rdp: &Rdp) -> Result<Calibrated> {
        noise_multiplier_for(Epsilon(epsilon), Delta(delta), SamplingRate(q), steps, rdp)
    }

    #[test]
    fn the_result_meets_the_target_and_a_little_less_noise_does_not() {
        let rdp = Rdp::default();
        for (epsilon, q, steps) in [
            (0.05, 0.01, 100),
            (1.0, 1.0, 1),
            (3.0, 2048.0 / 6e4, 879),
            (50.0, 0.2, 1000),
            (1e9, 0.5, 9),
        ] {
            let found = find(epsilon, 1e-5, q, steps, &rdp).unwrap();
            let sigma = found.noise_multiplier.0;
            let at = |sigma| {
                let event =
                    Event::PoissonGaussian { sampling_rate: q, noise_multiplier: sigma, steps };
                rdp.epsilon(&[event], Delta(1e-5)).unwrap().epsilon
            };
            assert_eq!(found.epsilon, at(sigma));
            assert!(found.epsilon <= epsilon, "{found}");
            assert!(at(sigma * (1.0 - 3e-6)) > epsilon, "not the smallest: {found}");
        }
    }

    #[test]
    fn a_target_at_or_below_the_floor_of_a_short_list_is_a_typed_error() {
        let short = Rdp::with_orders("opacus_default".parse().unwrap());
        let error = find(0.1, 1e-5, 0.01, 100, &short).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Accounting);
        assert!(error.to_string().contains("0.1029"), "{error}");
        assert!(find(0.1, 1e-5, 0.01, 100, &Rdp::default()).is_ok());
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        let rdp = Rdp::default();
        assert!(find(0.0, 1e-5, 0.1, 1, &rdp).is_err());
        assert!(find(f64::NAN, 1e-5, 0.1, 1, &rdp).is_err());
        assert!(find(1.0, 0.0, 0.1, 1, &rdp).is_err());
        assert!(find(1.0, 1e-5, 0.0, 1, &rdp).is_err());
        assert!(find(1.0, 1e-5, 0.1, 0, &rdp).is_err());
    }

    #[test]
    fn an_accountant_that_refuses_is_quoted() {
        struct Refuses;
        impl Accountant for Refuses {
            fn name(&self) -> &str {
                "refuses"
            }
            fn epsilon(&self, _: &[Event], _: Delta) -> Result<crate::privacy::Spent> {
                Err(Error::new(ErrorKind::Accounting, "this sampler", "is not for me"))
            }
        }
        let error = noise_multiplier_for(Epsilon(1.0), Delta(1e-5), SamplingRate(0.1), 1, &Refuses)
            .unwrap_err();
        assert!(error.to_string().contains("is not for me"), "{error}");
    }
}
