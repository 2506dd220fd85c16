//! Formatting of values for people: fractions as percent, epsilons rounded up, durations, and
//! numbers with significant digits or fixed decimals. Figures, tables and reports take their texts
//! from here. Begin with `percent` and `eps`.

use crate::privacy::digits::{RoundedUp, group_thousands};
pub use crate::privacy::digits::{format_count, pluralise};
/// Formats a fraction as percent with one decimal: `0.9532` is `95.3 %`.
pub fn percent(share: f64) -> String {
    if share.is_finite() {
        format!("{} %", fixed(share * 100.0, 1))
    } else {
        format_non_finite(share)
    }
}

/// Formats an epsilon with at most four significant digits, rounded **up**: a displayed epsilon
/// never understates the one that was spent. Infinity is `∞`. Figures, tables, statements and
/// previews all write epsilons this way.
pub fn eps(epsilon: f64) -> String {
    if epsilon.is_finite() { RoundedUp(epsilon).to_string() } else { format_non_finite(epsilon) }
}

/// Formats a delta in the shortest scientific notation: `1e-5`.
pub fn delta(delta: f64) -> String {
    if delta.is_finite() { format!("{delta:e}") } else { format_non_finite(delta) }
}

/// Formats a duration: `0.42 s`, `8.3 s`, `42 s`, `1 min 23 s`, `2 h 05 min`.
pub fn seconds(seconds: f64) -> String {
    if !seconds.is_finite() {
        return format_non_finite(seconds);
    }
    if seconds < 0.995 {
        return format!("{} s", fixed(seconds, 2));
    }
    if seconds < 9.95 {
        return format!("{} s", fixed(seconds, 1));
    }
    let rounded = seconds.round() as u64;
    match rounded {
        0..60 => format!("{rounded} s"),
        60..3600 => format!("{} min {:02} s", rounded / 60, rounded % 60),
        _ => {
            let minutes = (seconds / 60.0).round() as u64;
            format!("{} h {:02} min", group_thousands(&(minutes / 60).to_string()), minutes % 60)
        }
    }
}

/// Formats the pace of steps: `4.0 steps/s`, `120 steps/s`, `2.5 s/step`.
pub fn step_rate(steps: f64, seconds: f64) -> String {
    let rate = steps / seconds;
    if !rate.is_finite() || rate <= 0.0 {
        return format_non_finite(rate);
    }
    if rate >= 1.0 {
        format!("{} steps/s", significant(rate, if rate < 100.0 { 2 } else { 3 }))
    } else {
        format!("{} s/step", significant(1.0 / rate, 2))
    }
}

/// Formats a value with `digits` significant digits; in scientific notation below 1e-4 and from
/// 1e7 on.
pub fn significant(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return format_non_finite(value);
    }
    if value == 0.0 {
        return "0".into();
    }
    let digits = digits.clamp(1, 15);
    // Round first: 0.9996 with three digits is 1.00, not 1.000.
    let scientific = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..7).contains(&exponent) {
        return format!("{}e{exponent}", trim_zeros(mantissa));
    }
    let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
    let rounded: f64 = scientific.parse().unwrap_or(value);
    fixed(rounded, decimals)
}

/// Formats a number to `digits` significant digits without trailing zeros: `0.5`, `10`.
pub(super) fn short(value: f64, digits: usize) -> String {
    let text = significant(value, digits);
    if text.contains('e') { text } else { trim_zeros(&text).to_owned() }
}

/// Formats a value with a fixed number of decimals and thousands separators; never `-0`.
pub fn fixed(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return format_non_finite(value);
    }
    let text = format!("{value:.decimals$}");
    let is_zero = text.chars().all(|c| matches!(c, '-' | '0' | '.'));
    group_thousands(if is_zero { text.trim_start_matches('-') } else { &text })
}

/// Escapes text for an HTML element or attribute.
pub fn html_escape(text: &str) -> String {
    let tags = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    tags.replace('"', "&quot;").replace('\'', "&#39;")
}

/// Returns text in which `~~struck~~` stands between two marks.
pub(super) fn replace_strikethrough(text: &str, (open_tag, close_tag): (&str, &str)) -> String {
    let parts: Vec<&str> = text.split("~~").collect();
    let (last, mut all) = (parts.len() - 1, String::new());
    for (i, part) in parts.into_iter().enumerate() {
        if i % 2 == 0 {
            all += part;
        } else if i < last {
            all += &format!("{open_tag}{part}{close_tag}");
        } else {
            all += &format!("~~{part}");
        }
    }
    all
}

/// Returns text as a single line for use in a figure: control characters, which XML forbids,
/// become spaces.
pub(super) fn to_single_line(text: &str) -> String {
    let allowed = |c: char| !c.is_control() && c != '\u{fffe}' && c != '\u{ffff}';
    text.chars().map(|c| if allowed(c) { c } else { ' ' }).collect::<String>().trim().to_string()
}

fn trim_zeros(mantissa: &str) -> &str {
    if mantissa.contains('.') {
        mantissa.trim_end_matches('0').trim_end_matches('.')
    } else {
        mantissa
    }
}

fn format_non_finite(value: f64) -> String {
    let text = match value {
        v if v.is_nan() => "not a number",
        v if v > 0.0 => "∞",
        _ => "-∞",
    };
    text.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_people_write_them() {
        assert_eq!(format_count(60_000), "60,000");
        assert_eq!(format_count(879usize), "879");
        assert_eq!(format_count(1_234_567u64), "1,234,567");
        assert_eq!((pluralise(1, "run"), pluralise(0, "run")), ("1 run".into(), "0 runs".into()));
        assert_eq!(pluralise(1200, "step"), "1,200 steps");
        assert_eq!(percent(0.9532), "95.3 %");
        assert_eq!(delta(1e-5), "1e-5");
        assert_eq!(fixed(-0.001, 2), "0.00");
        assert_eq!(fixed(-12345.678, 1), "-12,345.7");
    }

    #[test]
    fn durations_carry_into_the_next_unit() {
        assert_eq!(seconds(0.42), "0.42 s");
        assert_eq!(seconds(0.999), "1.0 s");
        assert_eq!(seconds(9.97), "10 s");
        assert_eq!(seconds(83.2), "1 min 23 s");
        assert_eq!(seconds(59.7), "1 min 00 s");
        assert_eq!(seconds(7_500.0), "2 h 05 min");
        assert_eq!(seconds(7_199.9), "2 h 00 min");
    }

    #[test]
    fn a_pace_is_a_rate_or_its_inverse() {
        assert_eq!(step_rate(120.0, 30.0), "4.0 steps/s");
        assert_eq!(step_rate(12_000.0, 100.0), "120 steps/s");
        assert_eq!(step_rate(4.0, 10.0), "2.5 s/step");
    }

    #[test]
    fn significant_digits_survive_rounding_over_a_power_of_ten() {
        assert_eq!(significant(0.41234, 2), "0.41");
        assert_eq!(significant(0.9996, 3), "1.00");
        assert_eq!(significant(12_345.0, 3), "12,300");
        assert_eq!(significant(1.5e9, 3), "1.5e9");
        assert_eq!(significant(2e-7, 3), "2e-7");
        assert_eq!(significant(0.0, 3), "0");
        assert_eq!(significant(f64::NAN, 3), "not a number");
    }

    #[test]
    fn a_displayed_epsilon_is_never_below_the_one_spent() {
        assert_eq!(eps(2.98), "2.98");
        assert_eq!(eps(2.38141), "2.382", "as in a statement");
        assert_eq!(eps(3.0), "3");
        assert_eq!(eps(0.01234), "0.01234");
        assert_eq!(eps(123.22), "123.3");
        assert_eq!(eps(0.0), "0");
        assert_eq!(eps(f64::INFINITY), "∞");
        for i in 1..4000 {
            let spent = f64::from(i) * 0.00731;
            let shown: f64 = eps(spent).replace(',', "").parse().unwrap();
            assert!(shown >= spent - 1e-7, "{spent} shown as {shown}");
        }
    }

    #[test]
    fn escaped_text_cannot_open_a_tag_or_leave_an_attribute() {
        assert_eq!(html_escape("<a b='\"&'>"), "&lt;a b=&#39;&quot;&amp;&#39;&gt;");
        assert_eq!(to_single_line("a\nb\u{0}"), "a b");
    }
}
