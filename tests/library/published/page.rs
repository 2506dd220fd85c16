//! The Markdown page of all sections.

use std::fmt::Write;

use super::row::{Claim, Ours, Row, Section, Verdict};

const HEAD: &str = "\
# Published claims, recomputed

This page recomputes published epsilons with the library, from the settings given in the papers.

| verdict | meaning |
|---|---|
| reproduced | the paper's own accountant, run by us, gives the published value up to \
rounding of the value or of the published settings; the deviation is in parentheses: at most 2 %, \
or 7 % of a value with a single digit |
| differs | the same computation gives another value |
| holds | the training is private with the published epsilon: our proved epsilon is not above it |
| **refuted** | epsilon is provably larger: a *lower* bound exceeds the claim by the given factor |
| open | the claim lies between our lower and our upper bound |
| – | the paper publishes no value |

Only a lower bound refutes a claim; an upper bound, however large, refutes nothing. \"Tight\" is the
accountant of privacy loss distributions, which gives both bounds. Upper bounds are rounded up to
three digits. A lower bound that differs in these digits is in brackets, rounded down. Neighbours
differ by one added or removed example and batches are Poisson samples, unless a section states
otherwise. This is how the papers account, not always how they sample.

A test computes all values and verdicts. To run it, and to write this page:

```sh
cargo test --workspace --test library published -- --nocapture
EPSILAB_WRITE_DOCS=1 cargo test --workspace --test library published
```
";

/// The whole page. Every row must have a value.
pub fn page(sections: &[Section]) -> String {
    let mut page = format!("{HEAD}\n{}", summary(sections));
    let mut paper = "";
    for section in sections {
        if section.paper != paper {
            paper = section.paper;
            writeln!(page, "\n## {paper}").unwrap();
        }
        writeln!(page, "\n### {}\n\n{}\n", section.title, section.method).unwrap();
        page.push_str("| setting | published | ours | verdict |\n|---|---|---|---|\n");
        for row in &section.rows {
            page.push_str(&line(row));
        }
        writeln!(page, "\n{}", section.note).unwrap();
    }
    page
}

/// The number of verdicts of each kind, by paper.
fn summary(sections: &[Section]) -> String {
    let mut papers: Vec<&str> = sections.iter().map(|section| section.paper).collect();
    papers.dedup();
    let mut text =
        "| paper | reproduced | differs | holds | refuted | open |\n|---|---|---|---|---|---|\n"
            .to_string();
    for paper in papers {
        let rows = || sections.iter().filter(|s| s.paper == paper).flat_map(|s| &s.rows);
        let count = |expected: fn(Verdict) -> bool| {
            rows().filter_map(Row::verdict).filter(|&verdict| expected(verdict)).count()
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
        Claim::Decreases { .. } => ("decreases".into(), None),
        Claim::None => ("–".into(), None),
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
        (Verdict::NoClaim, _) => "–".into(),
    };
    format!("| {} | {published} | {} | {verdict} |\n", row.setting, shown(row, ours))
}

/// Our value as text: a formula rounded to nearest, upper bounds up and lower bounds down.
fn shown(row: &Row, ours: &Ours) -> String {
    if matches!(row.claim, Claim::Number { .. }) {
        return format!("{} ({})", digits(ours.value, f64::round), ours.accountant);
    }
    let above = digits(ours.value, f64::ceil);
    match ours.lower_bound {
        Some(least) if digits(least, f64::ceil) != above => {
            format!("{above} [at least {}] ({})", digits(least, f64::floor), ours.accountant)
        }
        _ => format!("{above} ({})", ours.accountant),
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
    // Values within rounding errors of three digits are kept.
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
