//! The results as tables.

use epsilab::device::marked;
use epsilab::show::{Table, format};

use super::file::{Experiment, Experiments};
use super::rows::Row;

/// Aligned text, a table for each experiment.
pub fn text(experiments: &Experiments, rows: &[Row]) -> String {
    let table = |e: &Experiment| {
        let (heads, lines) = cells(e, rows);
        let name = marked(&e.name);
        let caption = if e.title.is_empty() { name } else { format!("{name}: {}", e.title) };
        lines.into_iter().fold(Table::new(heads).caption(caption), Table::row).text()
    };
    experiments.0.iter().map(table).collect::<Vec<_>>().join("\n\n")
}

/// Markdown, a section for each experiment.
pub fn markdown(experiments: &Experiments, rows: &[Row]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | ").replace('\n', " "));
    let section = |e: &Experiment| {
        let (heads, lines) = cells(e, rows);
        let body: String = lines.iter().map(|cells| line(cells)).collect();
        let rule = "|---".repeat(heads.len());
        let name = marked(&e.name);
        format!("## {name}\n\n{}\n\n{}{rule}|\n{body}", e.title, line(&heads))
    };
    experiments.0.iter().map(section).collect::<Vec<_>>().join("\n")
}

/// A column of results: its head, and its text for a row that has it.
type Column<'a> = (&'static str, &'a dyn Fn(&Row) -> Option<String>);

/// Heads and rows: the options that differ, then the results. Columns that no case has are left
/// out.
fn cells(experiment: &Experiment, rows: &[Row]) -> (Vec<String>, Vec<Vec<String>>) {
    let rows: Vec<&Row> = {
        let name = marked(&experiment.name);
        rows.iter().filter(|row| row.experiment == name).collect()
    };
    let varied = experiment.varied();
    let number = |value: f64| format!("{}", (value * 1e4).round() / 1e4);
    let results: [Column<'_>; 8] = [
        ("accuracy %", &|row| row.accuracy_mean.map(|mean| format!("{:.2}", 100.0 * mean))),
        ("± sd", &|row| row.accuracy_std.map(|std| format!("{:.2}", 100.0 * std))),
        ("epsilon of a run", &|row| match row.badge? {
            "none" => Some("none".into()),
            _ => row.epsilon.map(format::eps),
        }),
        ("at delta", &|row| row.epsilon.and(row.delta).map(format::delta)),
        ("guarantee", &|row| row.badge.map(str::to_owned)),
        ("claimed epsilon", &|row| row.claimed_epsilon.map(format::eps)),
        ("mean threshold", &|row| row.mean_threshold.map(number)),
        ("runs", &|row| Some(format!("{} of {}", row.runs, experiment.seeds))),
    ];
    let shown: Vec<_> =
        results.into_iter().filter(|(_, of)| rows.iter().any(|row| of(row).is_some())).collect();
    let heads = varied.iter().map(|name| (*name).to_owned());
    let heads = heads.chain(shown.iter().map(|(name, _)| (*name).to_owned())).collect();
    let lines = experiment.cases.iter().zip(&rows).map(|(case, row)| {
        let options = varied.iter().map(|name| case.get(name).unwrap_or_else(|| "-".into()));
        options.chain(shown.iter().map(|(_, of)| of(row).unwrap_or_else(|| "-".into()))).collect()
    });
    (heads, lines.collect())
}
