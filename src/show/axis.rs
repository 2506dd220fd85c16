//! Linear and logarithmic axes with ticks at round values.

use super::format;

/// Unit of the values of an axis, which decides how they are formatted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Unit {
    #[default]
    Plain,
    /// Fractions of one, formatted as percent.
    Percent,
    /// Fractions of one that are upper bounds, formatted as percent and rounded up.
    PercentBound,
    /// Epsilons, rounded up.
    Epsilon,
}

impl Unit {
    pub(super) fn is_percent(self) -> bool {
        matches!(self, Unit::Percent | Unit::PercentBound)
    }
}

/// An axis: its range, its scale, and its ticks with their labels.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    log: bool,
    pub(super) ticks: Vec<(f64, String)>,
}

impl Axis {
    /// Creates a linear axis over exactly this range, with about `count` ticks at round values.
    pub(super) fn linear_exact(low: f64, high: f64, count: usize, unit: Unit) -> Self {
        let (low, high) = non_empty_range(low, high);
        let step = nice_step((high - low) / count.max(1) as f64);
        Self { low, high, log: false, ticks: nice_ticks(low, high, step, unit) }
    }

    /// Creates a linear axis that contains this range and begins and ends at ticks.
    pub(super) fn linear_nice(low: f64, high: f64, count: usize, unit: Unit) -> Self {
        let (low, high) = non_empty_range(low, high);
        let step = nice_step((high - low) / count.max(1) as f64);
        let (low, high) = ((low / step + 1e-9).floor() * step, (high / step - 1e-9).ceil() * step);
        Self { low, high, log: false, ticks: nice_ticks(low, high, step, unit) }
    }

    /// Returns the same axis restricted to the interval from `low` to `high`.
    pub(super) fn restricted_to(mut self, low: f64, high: f64) -> Self {
        self.low = self.low.max(low);
        self.high = self.high.min(high);
        self.ticks.retain(|(t, _)| (self.low - 1e-9..=self.high + 1e-9).contains(t));
        self
    }

    /// Creates a logarithmic axis that contains this range of positive values. Ticks are at powers
    /// of ten, and at 2 and 5 times those where the range is short.
    pub(super) fn log_nice(low: f64, high: f64, unit: Unit) -> Self {
        let ((low, high), (first, last)) = decades(low, high);
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
        Self { low, high, log: true, ticks: labelled(at, unit) }
    }

    /// Creates a logarithmic axis over exactly this range of positive values with at most about
    /// `count` ticks: at 1, 2 and 5 times the powers of ten, at the powers alone, or at every few
    /// of them.
    pub(super) fn log_exact(low: f64, high: f64, count: usize) -> Self {
        let ((low, high), (first, last)) = decades(low, high);
        let inside = |t: &f64| (low * 0.999_999..=high * 1.000_001).contains(t);
        // Parsed, because repeated multiplication does not give the float nearest to 10^-10.
        let power = |p: i32| format!("1e{p}").parse::<f64>().unwrap_or(f64::NAN);
        let ticks = |every: usize, multiples: &[f64]| -> Vec<f64> {
            let exponents = (first..=last).filter(|p| p.rem_euclid(every as i32) == 0);
            exponents
                .flat_map(|p| multiples.iter().map(move |m| m * power(p)))
                .filter(inside)
                .collect()
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
        Self { low, high, log: true, ticks: labelled(at, Unit::Plain) }
    }

    /// Returns the label of the low end of a linear axis of positive values that does not begin at
    /// 0.
    pub(super) fn truncated_start_label(&self, unit: Unit) -> Option<String> {
        let truncated = !self.log && self.low > 1e-9 * self.high.abs();
        truncated.then(|| {
            let at_low = |tick: &&(f64, String)| (tick.0 - self.low).abs() <= 1e-9 * self.high;
            let percent = || format!("{} %", format_short(self.low * 100.0));
            match self.ticks.iter().find(at_low) {
                Some((_, label)) => label.clone(),
                None if unit.is_percent() => percent(),
                None => format_short(self.low),
            }
        })
    }

    /// Returns the ends of the axis.
    pub(super) fn range(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    /// Returns whether the axis is logarithmic.
    pub(super) fn is_log(&self) -> bool {
        self.log
    }

    /// Returns whether a value can be shown on this axis: logarithmic axes show positive values
    /// only.
    pub(super) fn can_show(&self, value: f64) -> bool {
        !self.log || value > 0.0
    }

    /// Returns the position of a value: 0 at the low end, 1 at the high end, outside [0, 1] beyond
    /// them.
    pub(super) fn position(&self, value: f64) -> f64 {
        if self.log {
            let value = if value > 0.0 { value } else { self.low };
            // A difference of logarithms: the ratio itself can overflow.
            (value.ln() - self.low.ln()) / (self.high.ln() - self.low.ln())
        } else {
            (value - self.low) / (self.high - self.low)
        }
    }
}

/// Returns the range of a logarithmic axis and the powers of ten around it.
fn decades(low: f64, high: f64) -> ((f64, f64), (i32, i32)) {
    // Powers of ten below this limit are too inexact for ticks.
    let low = if low > 0.0 { low.max(1e-300) } else { 1e-3 };
    let high = if high > low { high } else { low * 10.0 };
    ((low, high), (low.log10().floor() as i32, high.log10().ceil() as i32))
}

/// Returns the ticks of a logarithmic axis with labels in one style: powers of ten if any of them
/// needs one.
fn labelled(at: Vec<f64>, unit: Unit) -> Vec<(f64, String)> {
    let is_wide = at.iter().any(|&t| !(1e-4..1e7).contains(&t));
    let label = |t: f64| match unit {
        Unit::Percent | Unit::PercentBound => format!("{} %", format_short(t * 100.0)),
        Unit::Plain | Unit::Epsilon if is_wide => with_superscript(&format!("{t:e}")),
        Unit::Plain | Unit::Epsilon => format_short(t),
    };
    at.into_iter().map(|t| (t, label(t))).collect()
}

/// Returns the smallest of 1, 2 and 5 times a power of ten that is at least `raw`.
fn nice_step(raw: f64) -> f64 {
    let power = 10f64.powf(raw.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|f| f * power >= raw * 0.999_999);
    factor.unwrap_or(10.0) * power
}

fn nice_ticks(low: f64, high: f64, step: f64, unit: Unit) -> Vec<(f64, String)> {
    let (first, last) = ((low / step - 1e-9).ceil(), (high / step + 1e-9).floor());
    let shown_step = if unit.is_percent() { step * 100.0 } else { step };
    let decimals = (-(shown_step.log10() + 1e-9).floor()).max(0.0) as usize;
    let largest = low.abs().max(high.abs());
    let plain = decimals <= 5 && largest < 1e7;
    let label = |value: f64| {
        let shown = if unit.is_percent() { value * 100.0 } else { value };
        let number = if plain { format::fixed(shown, decimals) } else { format_short(shown) };
        if unit.is_percent() { format!("{number} %") } else { number }
    };
    let count = ((last - first).max(0.0) as usize).min(50);
    (0..=count).map(|i| (first + i as f64) * step).map(|t| (t, label(t))).collect()
}

/// Formats a value with up to four significant digits and no trailing zeros.
fn format_short(value: f64) -> String {
    with_superscript(&format::short(value, 4))
}

/// Converts scientific notation to one with a superscript exponent: `1e-5` becomes `10⁻⁵`.
fn with_superscript(scientific: &str) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific.into() };
    let raised: String = exponent
        .chars()
        .filter_map(|c| match c {
            '-' => Some('⁻'),
            c => c.to_digit(10).map(|digit| DIGITS[digit as usize]),
        })
        .collect();
    match mantissa {
        "1" => format!("10{raised}"),
        "-1" => format!("-10{raised}"),
        mantissa => format!("{mantissa}·10{raised}"),
    }
}

/// Returns a range that is never empty: one of (almost) equal ends is widened.
fn non_empty_range(low: f64, high: f64) -> (f64, f64) {
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
            labels(&Axis::linear_exact(0.0, 879.0, 4, Unit::Plain)),
            ["0", "500"],
            "a step of 220 rounds up to 500"
        );
        assert_eq!(
            labels(&Axis::linear_exact(0.0, 879.0, 5, Unit::Plain)),
            ["0", "200", "400", "600", "800"]
        );
        assert_eq!(
            labels(&Axis::linear_nice(0.13, 2.3, 5, Unit::Plain)),
            ["0.0", "0.5", "1.0", "1.5", "2.0", "2.5"]
        );
        assert_eq!(
            labels(&Axis::linear_nice(0.1, 0.976, 5, Unit::Percent)),
            ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]
        );
        assert_eq!(
            labels(&Axis::linear_nice(0.0, 3.0, 5, Unit::Plain)),
            ["0", "1", "2", "3"],
            "an end on a tick stays there"
        );
        assert_eq!(
            labels(&Axis::linear_exact(0.0, 60_000.0, 3, Unit::Plain)),
            ["0", "20,000", "40,000", "60,000"]
        );
    }

    #[test]
    fn a_logarithmic_axis_ticks_at_powers_of_ten() {
        assert_eq!(
            labels(&Axis::log_nice(2e-5, 0.3, Unit::Plain)),
            ["10⁻⁵", "10⁻⁴", "10⁻³", "10⁻²", "10⁻¹", "10⁰"]
        );
        assert_eq!(with_superscript("2.5e7"), "2.5·10⁷");
        assert_eq!(labels(&Axis::log_nice(0.3, 4.0, Unit::Plain)), ["0.2", "0.5", "1", "2", "5"]);
        let axis = Axis::log_nice(0.01, 100.0, Unit::Plain);
        assert!((axis.position(1.0) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_logarithmic_axis_within_a_range_ticks_at_round_numbers_in_one_style() {
        let all = Axis::log_exact(1e-10, 1e-2, 9);
        assert_eq!(
            labels(&all),
            ["10⁻¹⁰", "10⁻⁹", "10⁻⁸", "10⁻⁷", "10⁻⁶", "10⁻⁵", "10⁻⁴", "10⁻³", "10⁻²"]
        );
        assert_eq!((all.position(1e-10), all.position(1e-2)), (0.0, 1.0));
        assert_eq!(
            labels(&Axis::log_exact(1e-10, 1e-2, 5)),
            ["10⁻¹⁰", "10⁻⁸", "10⁻⁶", "10⁻⁴", "10⁻²"]
        );
        assert_eq!(
            labels(&Axis::log_exact(64.0, 2000.0, 6)),
            ["100", "200", "500", "1,000", "2,000"]
        );
        assert_eq!(labels(&Axis::log_exact(0.3, 12.0, 8)), ["0.5", "1", "2", "5", "10"]);
        assert!(Axis::log_exact(1e-300, 1e300, 4).ticks.len() <= 5);
    }

    #[test]
    fn a_range_without_height_still_has_an_axis() {
        for (low, high) in [(0.0, 0.0), (5.0, 5.0), (-1e-200, -1e-200), (1e300, 1e300), (1.0, 0.5)]
        {
            for axis in [
                Axis::linear_exact(low, high, 4, Unit::Plain),
                Axis::linear_nice(low, high, 4, Unit::Percent),
                Axis::log_nice(low, high, Unit::Plain),
                Axis::log_exact(low, high, 5),
            ] {
                assert!(axis.high > axis.low, "{axis:?}");
                assert!(axis.ticks.len() < 60);
            }
        }
    }

    #[test]
    fn place_runs_from_zero_to_one() {
        let axis = Axis::linear_exact(2.0, 4.0, 4, Unit::Plain);
        assert_eq!([2.0, 3.0, 4.0].map(|v| axis.position(v)), [0.0, 0.5, 1.0]);
    }
}
