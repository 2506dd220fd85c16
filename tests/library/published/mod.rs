//! Published epsilons, recomputed with the library: reproduced or refuted.
//!
//! Every verdict follows from the values. With `EPSILAB_WRITE_DOCS=1` the tests write
//! book/src/evidence/published_claims.md and the table of samplers in
//! book/src/understanding/accounting.md. Without it they check that both are up to date.

mod auto_dp_sgd;
mod imagenet;
mod others;
mod page;
mod row;
mod support;

use std::path::PathBuf;
use std::sync::LazyLock;

use row::{Claim, Row, Section, Verdict};

static SECTIONS: LazyLock<Vec<Section>> = LazyLock::new(|| {
    [imagenet::sections(), auto_dp_sgd::sections(), others::sections()]
        .into_iter()
        .flatten()
        .collect()
});

/// All rows with the id of their section.
fn rows() -> impl Iterator<Item = (&'static str, &'static Row)> {
    SECTIONS.iter().flat_map(|section| section.rows.iter().map(|row| (section.id, row)))
}

fn section(id: &str) -> &'static [Row] {
    &SECTIONS.iter().find(|section| section.id == id).expect("a section of this name").rows
}

/// Fails with all rows for which `wrong` returns a description.
#[track_caller]
fn check_rows(wrong: impl Fn(&str, &Row) -> Option<String>) {
    let found: Vec<String> = rows()
        .filter_map(|(id, row)| wrong(id, row).map(|what| format!("{id}, {}: {what}", row.setting)))
        .collect();
    assert!(found.is_empty(), "{} rows:\n{}", found.len(), found.join("\n"));
}

#[test]
fn every_row_has_a_value_that_agrees_with_other_software() {
    check_rows(|_, row| match (&row.ours, row.check) {
        (Err(error), _) => Some(error.to_string()),
        (Ok(ours), _) if !ours.value.is_finite() => Some(format!("{} is no number", ours.value)),
        (Ok(ours), Some((known, relative))) if (ours.value / known - 1.0).abs() > relative => {
            Some(format!("{} is not {known} within {relative}", ours.value))
        }
        (Ok(ours), _) if ours.lower_bound.is_some_and(|least| least > ours.value) => {
            Some(format!("{:?} is above {}", ours.lower_bound, ours.value))
        }
        _ => None,
    });
}

#[test]
fn all_but_two_published_values_are_reproduced() {
    check_rows(|id, row| {
        let misprint = matches!(row.claim, Claim::Number { printed: "16.86", .. });
        let expected = match row.claim {
            Claim::Number { .. } if misprint || id == "pruning-as-printed" => Verdict::Differs,
            Claim::Number { .. } => Verdict::Reproduced,
            _ => return None,
        };
        (row.verdict() != Some(expected)).then(|| format!("{:?}", row.verdict()))
    });
    assert_eq!(rows().filter(|(_, row)| matches!(row.claim, Claim::Number { .. })).count(), 88);
    check_rows(|_, row| {
        let Claim::Number { printed, within } = row.claim else { return None };
        let one_digit = printed.find('e') == Some(1);
        let most = if one_digit { 0.07 } else { 0.02 };
        (within > most).then(|| format!("{printed} may be off by {within}"))
    });
}

#[test]
fn the_curves_of_the_figures_decrease() {
    let decreases = |id: &str, points: usize| {
        let falling = section(id).iter().filter(|row| {
            matches!(row.claim, Claim::Decreases { .. })
                && row.verdict() == Some(Verdict::Reproduced)
        });
        assert_eq!(falling.count(), points, "{id}");
    };
    decreases("imagenet-figure-2", 5);
    decreases("imagenet-figure-7", 7);
}

#[test]
fn sound_claims_hold() {
    check_rows(|id, row| {
        let sound =
            id.starts_with("imagenet") || id == "de-tight" || row.setting.contains("constant");
        let claims = sound && matches!(row.claim, Claim::Guarantee { .. });
        (claims && row.verdict() != Some(Verdict::Holds)).then(|| format!("{:?}", row.verdict()))
    });
}

#[test]
fn composing_epochs_instead_of_steps_is_refuted() {
    let times = |row: &Row| match row.verdict() {
        Some(Verdict::Refuted { times }) => times,
        other => panic!("{}: {other:?}", row.setting),
    };
    for (row, factor) in
        section("auto-section-10-real-clipping").iter().zip([14.0, 11.0, 9.0, 900.0])
    {
        assert!(times(row) > factor, "{}: {}", row.setting, times(row));
    }
    for row in section("auto-real-clipping") {
        let [data, schedule, _] = *row.setting.split(", ").collect::<Vec<_>>() else {
            panic!("{}", row.setting)
        };
        let factor = match (data, schedule) {
            (_, "constant") => continue,
            ("MNIST" | "CIFAR-10" | "CIFAR-100", "exponential") => 30.0,
            ("MNIST" | "CIFAR-10", _) => 1.2,
            _ => continue,
        };
        assert!(times(row) > factor, "{}: {}", row.setting, times(row));
    }
}

#[test]
fn every_epsilon_of_the_auto_dp_sgd_tables_has_a_verdict() {
    assert_eq!(section("auto-sigmas").len(), 16);
    assert_eq!(section("auto-adaptive").len(), 16);
    // Four data sets, four noise multipliers; constant and four decays.
    assert_eq!(section("auto-real-clipping").len(), 4 * 4 * 5);
    check_rows(|id, row| {
        let silent = matches!(row.claim, Claim::None) || row.verdict() == Some(Verdict::Open);
        (id.starts_with("auto") && silent).then(|| "no verdict".to_owned())
    });
}

#[test]
fn a_sensitivity_4096_times_too_small_is_refuted() {
    for row in section("backpropagation-as-coded") {
        let verdict = row.verdict();
        assert!(
            matches!(verdict, Some(Verdict::Refuted { times }) if times > 60.0),
            "{}: {verdict:?}",
            row.setting
        );
    }
}

#[test]
fn clipping_the_average_is_refuted() {
    let verdict = section("pruning-as-printed")[1].verdict();
    assert!(matches!(verdict, Some(Verdict::Refuted { times }) if times > 1.9), "{verdict:?}");
}

#[test]
fn the_page_of_claims_is_up_to_date() {
    check_page("book/src/evidence/published_claims.md", |_| page::page(&SECTIONS));
}

#[test]
fn the_table_of_supported_events_is_up_to_date() {
    let (start, end) = ("<!-- support: begin -->\n", "<!-- support: end -->");
    check_page("book/src/understanding/accounting.md", |page| {
        let (head, rest) = page.split_once(start).expect("where the table begins");
        let (_, tail) = rest.split_once(end).expect("where the table ends");
        format!("{head}{start}{}{end}{tail}", support::table())
    });
}

/// Compares the page with the output of `make`, or writes it if `EPSILAB_WRITE_DOCS` is set.
fn check_page(name: &str, make: impl Fn(&str) -> String) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name);
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let expected = make(&found);
    if std::env::var_os("EPSILAB_WRITE_DOCS").is_some() {
        std::fs::write(&path, &expected).expect("the page can be written");
        return println!("wrote {}", path.display());
    }
    let lines = expected.lines().zip(found.lines().chain(std::iter::repeat("")));
    if let Some((expected, found)) = lines.into_iter().find(|(expected, found)| expected != found) {
        panic!(
            "{name} is out of date; write it with EPSILAB_WRITE_DOCS=1\n \
             on disk: {found}\n numbers: {expected}"
        );
    }
    assert_eq!(found.lines().count(), expected.lines().count(), "{name} has lines too many");
}
