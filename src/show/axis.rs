//! Scales and round ticks.

use super::format;

/// What the numbers of an axis are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Unit {
    #[default]
    Plain,
    /// Shares of one, shown as percent.
    Percent,
    /// Shares of one that are upper bounds, shown as percent: values are rounded up.
    PercentBound,
    /// Epsilons: values are rounded up.
    Epsilon,
}

impl Unit {
    pub(super) fn is_percent(self) -> bool {
        matches!(self, Unit::Percent | Unit::PercentBound)
    }
}

/// One axis: the shown range, its scale, and the ticks with their labels.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    log: bool,
    pub(super) ticks: Vec<(f64, String)>,
}

impl Axis {
    /// A linear axis over exactly this range, with about `count` ticks at round numbers in it.
    pub(super) fn linear(low: f64, high: f64, count: usize, unit: Unit) -> Self {
        let (low, high) = widened(low, high);
        let step = round_step((high - low) / count.max(1) as f64);
        Self { low, high, log: false, ticks: ticks(low, high, step, unit) }
    }

    /// A linear axis whose ends are ticks and that holds this range.
    pub(super) fn rounded(low: f64, high: f64, count: usize, unit: Unit) -> Self {
        let (low, high) = widened(low, high);
        let step = round_step((high - low) / count.max(1) as f64);
        let (low, high) = ((low / step + 1e-9).floor() * step, (high / step - 1e-9).ceil() * step);
        Self { low, high, log: false, ticks: ticks(low, high, step, unit) }
    }

    /// The same axis, cut to values that are possible at all.
    pub(super) fn within(mut self, low: f64, high: f64) -> Self {
        (self.low, self.high) = (self.low.max(low), self.high.min(high));
        self.ticks.retain(|(t, _)| (self.low - 1e-9..=self.high + 1e-9).contains(t));
        self
    }

    /// A logarithmic axis over at least this range of positive numbers, ticks at powers of ten
    /// (and at 2 and 5 times those where the range is short).
    pub(super) fn log(low: f64, high: f64, unit: Unit) -> Self {
        // Below, powers of ten are no longer exact enough to tick at.
        let low = if low > 0.0 { low.max(1e-300) } else { 1e-3 };
        let high = if high > low { high } else { low * 10.0 };
        let (from, to) = (low.log10(), high.log10());
        let (first, last) = (from.floor() as i32, to.ceil() as i32);
        let every = ((last - first) / 6).max(1) as usize;
        let multiples: &[f64] = if last - first <= 2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let mut at: Vec<f64> = (first..=last)
            .step_by(every)
            .flat_map(|power| multiples.iter().map(move |m| m * 10f64.powi(power)))
            .collect();
        let below = at.iter().rposition(|&t| t <= low * 1.000_001).unwrap_or(0);
        let above = at.iter().position(|&t| t >= high * 0.999_999).unwrap_or(at.len() - 1);
        at = at[below..=above.max(below)].to_vec();
        let (low, high) = (low.min(at[0]), high.max(at[at.len() - 1]));
        let label = |t: f64| match unit {
            Unit::Percent | Unit::PercentBound => format!("{} %", short(t * 100.0)),
            Unit::Plain | Unit::Epsilon => short(t),
        };
        Self { low, high, log: true, ticks: at.into_iter().map(|t| (t, label(t))).collect() }
    }

    /// A logarithmic axis over exactly this range of positive numbers, with at most about `count`
    /// ticks at round numbers in it: 1, 2 and 5 times the powers of ten, or the powers alone, or
    /// every so many of them.
    pub(super) fn log_within(low: f64, high: f64, count: usize) -> Self {
        let low = if low > 0.0 { low.max(1e-300) } else { 1e-3 };
        let high = if high > low { high } else { low * 10.0 };
        let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
        let inside = |t: &f64| (low * 0.999_999..=high * 1.000_001).contains(t);
        // Parsed, because 10^-10 by multiplication is not the nearest float.
        let power = |p: i32| format!("1e{p}").parse::<f64>().unwrap_or(f64::NAN);
        let ticks = |every: usize, multiples: &[f64]| -> Vec<f64> {
            let whole = (first..=last).filter(|p| p.rem_euclid(every as i32) == 0);
            whole.flat_map(|p| multiples.iter().map(move |m| m * power(p))).filter(inside).collect()
        };
        let choices: [(usize, &[f64]); 6] = [
            (1, &[1.0, 2.0, 5.0]),
            (1, &[1.0, 3.0]),
            (1, &[1.0]),
            (2, &[1.0]),
            (3, &[1.0]),
            (5, &[1.0]),
        ];
        let rest = ((last - first) as usize / count.max(1)).max(10);
        let at = choices
            .iter()
            .map(|&(every, multiples)| ticks(every, multiples))
            .find(|at| at.len() <= count.max(2))
            .unwrap_or_else(|| ticks(rest, &[1.0]));
        // All in one style: 1e-4 beside 0.001 would look like another sort of number.
        let is_wide = at.iter().any(|&t| !(1e-4..1e7).contains(&t));
        let label = |t: f64| if is_wide { format!("{t:e}") } else { short(t) };
        Self { low, high, log: true, ticks: at.into_iter().map(|t| (t, label(t))).collect() }
    }

    /// Whether a value has a place on this sort of axis.
    pub(super) fn can_show(&self, value: f64) -> bool {
        !self.log || value > 0.0
    }

    /// Where a value lies: 0 at the low end, 1 at the high end, beyond them outside.
    pub(super) fn place(&self, value: f64) -> f64 {
        if self.log {
            let value = if value > 0.0 { value } else { self.low };
            // Not the logarithm of a ratio, which may be more than a float can hold.
            (value.ln() - self.low.ln()) / (self.high.ln() - self.low.ln())
        } else {
            (value - self.low) / (self.high - self.low)
        }
    }
}

/// 1, 2 or 5 times a power of ten, not below `raw`.
fn round_step(raw: f64) -> f64 {
    let power = 10f64.powf(raw.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|f| f * power >= raw * 0.999_999);
    factor.unwrap_or(10.0) * power
}

fn ticks(low: f64, high: f64, step: f64, unit: Unit) -> Vec<(f64, String)> {
    let (first, last) = ((low / step - 1e-9).ceil(), (high / step + 1e-9).floor());
    let shown_step = if unit.is_percent() { step * 100.0 } else { step };
    let decimals = (-(shown_step.log10() + 1e-9).floor()).max(0.0) as usize;
    let largest = low.abs().max(high.abs());
    let plain = decimals <= 5 && largest < 1e7;
    let label = |value: f64| {
        let shown = if unit.is_percent() { value * 100.0 } else { value };
        let number = if plain { format::fixed(shown, decimals) } else { short(shown) };
        if unit.is_percent() { format!("{number} %") } else { number }
    };
    let count = ((last - first).max(0.0) as usize).min(50);
    (0..=count).map(|i| (first + i as f64) * step).map(|t| (t, label(t))).collect()
}

/// A number in as few characters as it needs, up to four significant digits.
fn short(value: f64) -> String {
    let text = format::significant(value, 4);
    let is_decimal = text.contains('.') && !text.contains('e');
    if is_decimal { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

/// Gives a range some height where it has none (or less than floats can tell apart).
fn widened(low: f64, high: f64) -> (f64, f64) {
    let (low, high) = (low.min(high), low.max(high));
    let size = low.abs().max(high.abs());
    if high - low > size * 1e-9 && high > low {
        return (low, high);
    }
    if size == 0.0 { (0.0, 1.0) } else { (low - size * 0.1, high + size * 0.1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|t| t.1.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_numbers_with_no_more_digits_than_the_step() {
        assert_eq!(
            labels(&Axis::linear(0.0, 879.0, 4, Unit::Plain)),
            ["0", "500"],
            "a step of 220 rounds up to 500"
        );
        assert_eq!(
            labels(&Axis::linear(0.0, 879.0, 5, Unit::Plain)),
            ["0", "200", "400", "600", "800"]
        );
        assert_eq!(
            labels(&Axis::rounded(0.13, 2.3, 5, Unit::Plain)),
            ["0.0", "0.5", "1.0", "1.5", "2.0", "2.5"]
        );
        assert_eq!(
            labels(&Axis::rounded(0.1, 0.976, 5, Unit::Percent)),
            ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]
        );
        assert_eq!(
            labels(&Axis::rounded(0.0, 3.0, 5, Unit::Plain)),
            ["0", "1", "2", "3"],
            "an end on a tick stays there"
        );
        assert_eq!(
            labels(&Axis::linear(0.0, 60_000.0, 3, Unit::Plain)),
            ["0", "20,000", "40,000", "60,000"]
        );
    }

    #[test]
    fn a_logarithmic_axis_ticks_at_powers_of_ten() {
        assert_eq!(
            labels(&Axis::log(2e-5, 0.3, Unit::Plain)),
            ["1e-5", "0.0001", "0.001", "0.01", "0.1", "1"]
        );
        assert_eq!(labels(&Axis::log(0.3, 4.0, Unit::Plain)), ["0.2", "0.5", "1", "2", "5"]);
        let axis = Axis::log(0.01, 100.0, Unit::Plain);
        assert!((axis.place(1.0) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_logarithmic_axis_within_a_range_ticks_at_round_numbers_in_one_style() {
        let all = Axis::log_within(1e-10, 1e-2, 9);
        assert_eq!(
            labels(&all),
            ["1e-10", "1e-9", "1e-8", "1e-7", "1e-6", "1e-5", "1e-4", "1e-3", "1e-2"]
        );
        assert_eq!((all.place(1e-10), all.place(1e-2)), (0.0, 1.0));
        assert_eq!(
            labels(&Axis::log_within(1e-10, 1e-2, 5)),
            ["1e-10", "1e-8", "1e-6", "1e-4", "1e-2"]
        );
        assert_eq!(
            labels(&Axis::log_within(64.0, 2000.0, 6)),
            ["100", "200", "500", "1,000", "2,000"]
        );
        assert_eq!(labels(&Axis::log_within(0.3, 12.0, 8)), ["0.5", "1", "2", "5", "10"]);
        assert!(Axis::log_within(1e-300, 1e300, 4).ticks.len() <= 5);
    }

    #[test]
    fn a_range_without_height_still_has_an_axis() {
        for (low, high) in [(0.0, 0.0), (5.0, 5.0), (-1e-200, -1e-200), (1e300, 1e300), (1.0, 0.5)]
        {
            for axis in [
                Axis::linear(low, high, 4, Unit::Plain),
                Axis::rounded(low, high, 4, Unit::Percent),
                Axis::log(low, high, Unit::Plain),
                Axis::log_within(low, high, 5),
            ] {
                assert!(axis.high > axis.low, "{axis:?}");
                assert!(axis.ticks.len() < 60);
            }
        }
    }

    #[test]
    fn place_runs_from_zero_to_one() {
        let axis = Axis::linear(2.0, 4.0, 4, Unit::Plain);
        assert_eq!([2.0, 3.0, 4.0].map(|v| axis.place(v)), [0.0, 0.5, 1.0]);
    }
}
