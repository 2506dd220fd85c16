//! Formatting of numbers, rounded towards the conservative side.

use std::fmt;

/// A number without superfluous digits: `0.01`, `1e-5`, never `0.000010000000000000001`.
pub struct Readable(pub f64);

impl fmt::Display for Readable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.0.abs();
        if size != 0.0 && size.is_finite() && !(1e-3..1e6).contains(&size) {
            write!(f, "{:e}", self.0)
        } else {
            write!(f, "{}", self.0)
        }
    }
}

/// At most four significant digits, rounded to nearest. For rates and sizes, which claim no
/// guarantee.
pub struct RoundedNearest(pub f64);

impl fmt::Display for RoundedNearest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rounded = format!("{:.3e}", self.0).parse().unwrap_or(self.0);
        fmt::Display::fmt(&Readable(rounded), f)
    }
}

/// At most four significant digits, rounded up. A displayed epsilon must not lie below the bound,
/// and a displayed noise multiplier not below the calibrated one.
pub struct RoundedUp(pub f64);

impl fmt::Display for RoundedUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == f64::INFINITY {
            return f.write_str("∞");
        }
        if self.0 <= 0.0 || !self.0.is_finite() {
            return write!(f, "{}", self.0);
        }
        let digits = 3 - self.0.log10().floor() as i32;
        let unit = 10f64.powi(-digits);
        // The tolerance keeps 3 at 3: (3.0 / 0.001).ceil() may be 3001.
        let up = (self.0 / unit * (1.0 - 1e-12)).ceil() * unit;
        if !(1e-3..1e6).contains(&up) {
            return write!(f, "{up:.3e}");
        }
        let text = format!("{up:.*}", digits.max(0) as usize);
        if text.contains('.') {
            f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
        } else {
            f.write_str(&text)
        }
    }
}

/// At most four significant digits, rounded down. For lower bounds and for noise multipliers of
/// recorded events.
pub struct RoundedDown(pub f64);

impl fmt::Display for RoundedDown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 <= 0.0 || !self.0.is_finite() {
            return write!(f, "{}", self.0);
        }
        let digits = 3 - self.0.log10().floor() as i32;
        let unit = 10f64.powi(-digits);
        // The tolerance keeps 1.72 at 1.72: (1.72 / 0.001).floor() may be 1719.
        fmt::Display::fmt(&RoundedUp((self.0 / unit * (1.0 + 1e-12)).floor() * unit), f)
    }
}

/// Inserts commas between groups of three digits of the integer part.
pub fn group_thousands(number: &str) -> String {
    let (sign, rest) = number.strip_prefix('-').map_or(("", number), |rest| ("-", rest));
    let (whole, fraction) = rest.split_at(rest.find('.').unwrap_or(rest.len()));
    let mut out = sign.to_string();
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out + fraction
}

/// Formats a count with thousands separated: `60,000`.
pub fn format_count(n: impl fmt::Display) -> String {
    group_thousands(&n.to_string())
}

/// Formats a count with its noun and without separators: `1 step`, `60000 steps`.
pub(crate) fn counted_plainly(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Formats a count with its noun: `1 example`, `60,000 examples`, `2 classes`, `3 entries`.
pub fn pluralise(n: impl fmt::Display, noun: &str) -> String {
    let number = format_count(n);
    let plural = match noun.strip_suffix('y') {
        _ if number == "1" => noun.to_owned(),
        Some(stem) => format!("{stem}ies"),
        None if noun.ends_with('s') => format!("{noun}es"),
        None => format!("{noun}s"),
    };
    format!("{number} {plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epsilon_has_four_digits_and_is_never_rounded_down() {
        let shown = |x: f64| RoundedUp(x).to_string();
        assert_eq!(shown(3.0), "3");
        assert_eq!(shown(2.99941), "3");
        assert_eq!(shown(2.10137), "2.102");
        assert_eq!(shown(0.0), "0");
        assert_eq!(shown(0.288572), "0.2886");
        assert_eq!(shown(66_884.36), "66890");
        assert_eq!(shown(9.770_538_87e8), "9.771e8");
        assert_eq!(shown(1.661e-4), "1.661e-4");
    }

    #[test]
    fn noise_is_never_rounded_up_and_rates_are_short() {
        let down = |x: f64| RoundedDown(x).to_string();
        assert_eq!(
            (down(1.72), down(0.94248), down(12.0)),
            ("1.72".into(), "0.9424".into(), "12".into())
        );
        assert_eq!(RoundedNearest(256.0 / 60_000.0).to_string(), "0.004267");
        assert_eq!(RoundedNearest(1e-6 / 3.0).to_string(), "3.333e-7");
    }
}
