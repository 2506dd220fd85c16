//! What the best attacker can do, as a curve.

use super::sweep::geometric;
use super::{colour, sentence};
use crate::Result;
use crate::privacy::{Event, Neighbouring, TradeOff};
use crate::show::{Chart, Panel, Series};

/// The largest share of members that any attacker catches, for every share of false alarms from
/// 0.01 % on, beside the line of guessing; marked and written out at 1 % false alarms.
///
/// # Errors
/// As [`Accountant::epsilon`](crate::privacy::Accountant::epsilon): without a guarantee there is
/// no bound to draw.
///
/// # Guarantee
/// As [`TradeOff`], for one added or removed example.
pub fn trade_off(events: &[Event]) -> Result<Chart> {
    let bound = TradeOff::from_events(events, Neighbouring::AddOrRemoveOne)?;
    Ok(of_trade_off(&bound).note(sentence(events)))
}

/// The same figure of a trade-off that is known already.
pub fn of_trade_off(trade_off: &TradeOff) -> Chart {
    // Ten points for each power of ten, 1 % among them. The axis counts in percent.
    let alarms = geometric(1e-4, 1.0, 41);
    let bound: Vec<_> = alarms.iter().map(|&a| (100.0 * a, trade_off.max_tpr(a))).collect();
    let guessing: Vec<_> = alarms.iter().map(|&a| (100.0 * a, a)).collect();
    let panel = Panel::new("members caught (true positive rate, %; both axes logarithmic)")
        .percent_bound()
        .log()
        .y_range(1e-4, 1.0)
        .values_at(1.0, "1 % false alarms")
        .series(Series::line("any attacker, at most", bound).colour(colour::PLD))
        .series(Series::line("guessing", guessing).colour(colour::GUESSING));
    Chart::new("How well the best attacker can tell who was in the data")
        .panel(panel)
        .x_label("false alarms (false positive rate, %)")
        .x_log()
}
