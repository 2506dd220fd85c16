//! The sections as a page for readers.

use std::fmt::Write;

use super::row::{Claim, Ours, Row, Section, Verdict};

const HEAD: &str = "\
# Published claims, computed again

Papers print epsilons. Here the library computes them again, from the settings that the papers give.

| verdict | meaning |
|---|---|
| reproduced | the paper's own accountant, run by us, gives the printed number up to rounding (its own, or that of the printed settings): at most 2 % off, as said beside it |
| differs | the same computation gives another number |
| holds | the training is private with the printed epsilon: our proved epsilon is not above it |
| **refuted** | epsilon is provably larger: a bound from *below* exceeds the claim, by the factor given |
| open | our bounds from above and from below enclose the claim |
| – | the paper prints nothing to compare with |

A claim is refuted only by a bound from below; an upper bound, however large, refutes nothing. \"Tight\"
is the accountant of privacy loss distributions, which gives both bounds. Bounds are rounded up to three
digits; where the one from below differs in them, it stands in brackets, rounded down. Neighbours differ by one added or removed example and batches
are Poisson samples unless a section says otherwise; this is how the papers account, not always how
they sample.

Numbers and verdicts come out of a test; none is typed in. To compute them again, and to write this
page:

```sh
cargo test --test published -- --nocapture
EPSILAB_WRITE_DOCS=1 cargo test --test published
```
";

/// The whole page. Every row must have its number.
pub fn page(sections: &[Section]) -> String {
    let mut page = format!("{HEAD}\n{}", summary(sections));
    let mut paper = "";
    for section in sections {
        if section.paper != paper {
            paper = section.paper;
            writeln!(page, "\n## {paper}").unwrap();
        }
        writeln!(page, "\n### {}\n\n{}\n", section.title, section.how).unwrap();
        page.push_str("| setting | published | ours | verdict |\n|---|---|---|---|\n");
        for row in &section.rows {
            page.push_str(&line(row));
        }
        writeln!(page, "\n{}", section.why).unwrap();
    }
    page
}

/// How many of each verdict, paper by paper.
fn summary(sections: &[Section]) -> String {
    let mut papers: Vec<&str> = sections.iter().map(|section| section.paper).collect();
    papers.dedup();
    let mut text =
        "| paper | reproduced | differs | holds | refuted | open |\n|---|---|---|---|---|---|\n"
            .to_string();
    for paper in papers {
        let rows = || sections.iter().filter(|s| s.paper == paper).flat_map(|s| &s.rows);
        let count = |wanted: fn(Verdict) -> bool| {
            rows().filter_map(Row::verdict).filter(|&verdict| wanted(verdict)).count()
        };
        writeln!(
            text,
            "| {paper} | {} | {} | {} | {} | {} |",
            count(|v| v == Verdict::Reproduced),
            count(|v| v == Verdict::Differs),
            count(|v| v == Verdict::Holds),
            count(|v| matches!(v, Verdict::Refuted { .. })),
            count(|v| v == Verdict::Open),
        )
        .unwrap();
    }
    text
}

fn line(row: &Row) -> String {
    let ours = row.ours.as_ref().expect("every row has its number");
    let verdict = row.verdict().expect("every row has its verdict");
    let (published, off) = match row.claim {
        Claim::Number { printed, .. } | Claim::Guarantee { printed } => {
            let off = ours.value / super::row::number(printed) - 1.0;
            (printed.to_string(), Some(off))
        }
        Claim::Falls { .. } => ("falls".into(), None),
        Claim::Silent => ("–".into(), None),
    };
    let percent = |off: f64| match 100.0 * off {
        none if none.abs() < 0.05 => "0.0 %".into(),
        some => format!("{some:+.1} %").replace('-', "−"),
    };
    let verdict = match (verdict, off) {
        (Verdict::Reproduced, Some(off)) => format!("reproduced ({})", percent(off)),
        (Verdict::Reproduced, None) => "reproduced".into(),
        (Verdict::Differs, Some(off)) => format!("differs ({})", percent(off)),
        (Verdict::Differs, None) => "differs".into(),
        (Verdict::Holds, _) => "holds".into(),
        (Verdict::Refuted { times }, _) => {
            format!("**refuted**: at least {} times", digits(times, f64::floor))
        }
        (Verdict::Open, _) => "open".into(),
        (Verdict::Silent, _) => "–".into(),
    };
    format!("| {} | {published} | {} | {verdict} |\n", row.setting, shown(row, ours))
}

/// Our number as text: to the nearest for a formula, bounds away from the truth.
fn shown(row: &Row, ours: &Ours) -> String {
    if matches!(row.claim, Claim::Number { .. }) {
        return format!("{} ({})", digits(ours.value, f64::round), ours.by);
    }
    let above = digits(ours.value, f64::ceil);
    match ours.at_least {
        Some(least) if digits(least, f64::ceil) != above => {
            format!("{above} [at least {}] ({})", digits(least, f64::floor), ours.by)
        }
        _ => format!("{above} ({})", ours.by),
    }
}

/// Three significant digits, rounded by `round`.
fn digits(x: f64, round: fn(f64) -> f64) -> String {
    if x == 0.0 {
        return "0".into();
    }
    let unit = 10f64.powi(x.abs().log10().floor() as i32 - 2);
    let scaled = x / unit;
    let near = scaled.round();
    // What is a three-digit number but for the last bits is left alone.
    let rounded = if (scaled - near).abs() < 1e-9 { near } else { round(scaled) } * unit;
    let decimals = (2 - rounded.abs().log10().floor() as i32).max(0) as usize;
    match rounded {
        _ if !(1e-3..1e5).contains(&rounded) => format!("{rounded:.2e}"),
        _ if rounded < 1e3 => format!("{rounded:.decimals$}"),
        _ => format!("{},{:03}", (rounded / 1e3).floor(), (rounded % 1e3).round()),
    }
}

mod tests {
    use super::digits;

    #[test]
    fn values_have_three_significant_digits() {
        let shown = |x| digits(x, f64::round);
        assert_eq!(shown(0.242_925), "0.243");
        assert_eq!(shown(70.8), "70.8");
        assert_eq!((shown(1004.0), shown(66_884.0)), ("1,000".into(), "66,900".into()));
        assert_eq!(shown(9.770_5e8), "9.77e8");
        assert_eq!(digits(3.451, f64::ceil), "3.46");
        assert_eq!(digits(3.459, f64::floor), "3.45");
        assert_eq!(digits(3.0, f64::ceil), "3.00");
    }
}
