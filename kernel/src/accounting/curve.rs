//! Epsilon as a function of delta.

use epsilab::Result;
use epsilab::privacy::{Accountant, Delta, Event, Gdp, Pld, Rdp};

use super::accounting_options::{AccountantChoice, AccountingOptions};

/// Epsilon at one delta; `None` if the accountant refuses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EpsilonAtDelta {
    pub delta: Delta,
    pub epsilon: Option<f64>,
}

/// Returns 1, 2 and 5 of every decade of delta from 1e-10 to 1e-2.
fn delta_grid() -> Vec<Delta> {
    let decade = |power: i32| {
        // Parsed, because a product of powers would be rounded differently.
        [1, 2, 5].into_iter().filter_map(move |digit| format!("{digit}e{power}").parse().ok())
    };
    (-10..=-3).flat_map(decade).chain([0.01]).map(Delta).collect()
}

/// Computes the curve with the chosen accountant.
///
/// # Errors
/// Kind `Setting` for an event out of range.
pub fn epsilon_curve(options: &AccountingOptions, events: &[Event]) -> Result<Vec<EpsilonAtDelta>> {
    events.iter().try_for_each(|event| event.check().map(drop))?;
    let deltas = delta_grid();
    // The privacy loss distribution is slow to compute and the same for every delta.
    let shared = match options.choice {
        AccountantChoice::Pld | AccountantChoice::Tightest => {
            Pld::with_neighbouring(options.neighbouring).epsilons_at(events, &deltas).ok()
        }
        _ => None,
    };
    let Some(spent) = shared else {
        let epsilon =
            |delta| options.compute_epsilon(events, delta).cost.ok().map(|spent| spent.epsilon);
        return Ok(deltas
            .iter()
            .map(|&delta| EpsilonAtDelta { delta, epsilon: epsilon(delta) })
            .collect());
    };
    let exact = Gdp::with_neighbouring(options.neighbouring);
    let rdp = Rdp::with_neighbouring(options.neighbouring);
    let points = deltas.iter().zip(spent).map(|(&delta, spent)| {
        let epsilon_by = |accountant: &dyn Accountant| {
            accountant.epsilon(events, delta).ok().map(|spent| spent.epsilon)
        };
        let epsilon = match options.choice {
            AccountantChoice::Tightest => epsilon_by(&exact)
                .unwrap_or_else(|| epsilon_by(&rdp).unwrap_or(f64::INFINITY).min(spent.epsilon)),
            _ => spent.epsilon,
        };
        EpsilonAtDelta { delta, epsilon: Some(epsilon) }
    });
    Ok(points.collect())
}

/// Formats the curve as a text table.
pub fn format_table(curve: &[EpsilonAtDelta]) -> String {
    let line = |point: &EpsilonAtDelta| match point.epsilon {
        Some(epsilon) => format!("\n  {:<8} {}", point.delta.to_string(), rounded_up(epsilon)),
        None => format!("\n  {:<8} refused", point.delta.to_string()),
    };
    let lines: String = curve.iter().map(line).collect();
    format!("\n\n  {:<8} epsilon{lines}", "delta")
}

/// Formats an upper bound, rounded up: four decimals, or four digits of a large number.
fn rounded_up(epsilon: f64) -> String {
    if epsilon >= 1e6 {
        let unit = 10f64.powf(epsilon.log10().floor() - 3.0);
        return format!("{:.3e}", (epsilon / unit * (1.0 - 1e-12)).ceil() * unit);
    }
    format!("{:.4}", (epsilon * 1e4 * (1.0 - 1e-12)).ceil() / 1e4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deltas_are_those_that_one_would_type_and_epsilons_are_rounded_up() {
        let deltas = delta_grid();
        assert_eq!(deltas.len(), 25);
        assert_eq!((deltas[0].0, deltas[4].0, deltas[24].0), (1e-10, 2e-9, 1e-2));
        assert!(deltas.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert_eq!(rounded_up(1.23401), "1.2341");
        assert_eq!(rounded_up(3.0), "3.0000");
        assert_eq!((rounded_up(1.2341e9), rounded_up(2e6)), ("1.235e9".into(), "2.000e6".into()));
    }
}
