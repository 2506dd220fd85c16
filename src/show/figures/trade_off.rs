//! The trade-off curve of membership inference attacks.

use super::epsilon_panel::geomspace;
use super::{check_events, colour, describe_events};
use crate::Result;
use crate::privacy::{Accountant, Event, TightestAccountant, TradeOff};
use crate::show::{Chart, Coverage, Panel, Series};

/// Plots the upper bound on the true positive rate of any membership inference attack over its
/// false positive rate from 0.01 % on, beside the line of guessing. The values beside the names
/// are those at a false positive rate of 1 %.
///
/// ```
/// use epsilab::prelude::*;
/// let chart = figures::trade_off(&[Event::poisson(0.01, 1.0, 200)])?; // or &[plan.event()]
/// let attack = &chart.panels()[0].all_series()[0];
/// // Percent of false alarms, and the share of the members that is caught at most.
/// assert!(attack.points().iter().all(|(alarms, caught)| *caught >= alarms / 100.0 - 1e-9));
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// Kind `Setting` for an empty list of events; as
/// [`Accountant::epsilon`](crate::privacy::Accountant::epsilon) where no guarantee exists.
///
/// # Guarantee
/// As [`TradeOff`], for one added or removed example; for one that is zeroed out if the releases
/// are on disjoint batches.
pub fn trade_off(events: &[Event]) -> Result<Chart> {
    check_events(events)?;
    let relation = TightestAccountant::for_events(events).neighbouring();
    let bound = TradeOff::from_events(events, relation)?;
    Ok(trade_off_curve(&bound).note(describe_events(events)))
}

/// Draws the figure of [`trade_off`] for a trade-off curve that is already known.
pub(crate) fn trade_off_curve(trade_off: &TradeOff) -> Chart {
    // Ten points for each power of ten, 1 % among them. The axis is in percent.
    let alarms = geomspace(1e-4, 1.0, 41);
    let bound: Vec<_> = alarms.iter().map(|&a| (100.0 * a, trade_off.max_tpr(a))).collect();
    let guessing: Vec<_> = alarms.iter().map(|&a| (100.0 * a, a)).collect();
    let panel = Panel::new("members caught (true positive rate; both axes logarithmic)")
        .percent_bound()
        .log()
        .y_range(1e-4, 1.0)
        .values_at(1.0, "1 % false alarms")
        .series(Series::line("any attacker, at most", bound).colour(colour::PLD))
        .series(Series::line("guessing", guessing).colour(colour::GUESSING));
    Chart::new("How well the best attacker can tell who was in the data")
        .coverage(Coverage::Public)
        .panel(panel)
        .x_label("false alarms (false positive rate, %)")
        .x_log()
}
