//! Probabilities as percentages, rounded up.

/// Formats a probability as a percentage, rounded **up** to one decimal place: `0.0931` is `9.4
/// %`, `0.5` is `50 %`. Values below 0.095 % keep two significant digits. The success of an attack
/// is never understated.
pub fn percent_rounded_up(probability: f64) -> String {
    if !probability.is_finite() {
        return "100 %".into();
    }
    let percent = probability.clamp(0.0, 1.0) * 100.0;
    // 0.013 % must not become 0.1 %.
    let decimals = if percent > 0.0 && percent < 0.095 {
        (1 - percent.log10().floor() as i32).min(12) as usize
    } else {
        1
    };
    let scale = 10f64.powi(decimals as i32);
    // The tolerance keeps 50 at 50, because the value has rounding errors.
    let up = ((percent * scale * (1.0 - 1e-12)) - 1e-9).ceil().max(0.0) / scale;
    let text = format!("{up:.decimals$}");
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_rounded_up_and_exact_ones_stay() {
        let cases = [
            (0.5, "50 %"),
            (0.0931, "9.4 %"),
            (0.093, "9.3 %"),
            (0.731_058, "73.2 %"),
            (1e-4, "0.01 %"),
            (1.23e-6, "0.00013 %"),
            (0.999_51, "100 %"),
            (0.0, "0 %"),
            (1.0, "100 %"),
            (f64::NAN, "100 %"),
        ];
        for (probability, shown) in cases {
            assert_eq!(percent_rounded_up(probability), shown, "{probability}");
        }
        for i in 1..3000 {
            let probability = f64::from(i) / 3000.0;
            let shown: f64 =
                percent_rounded_up(probability).trim_end_matches(" %").parse().unwrap();
            assert!(
                shown / 100.0 >= probability - 1e-12 && shown / 100.0 < probability + 0.00101,
                "{probability}"
            );
        }
    }
}
