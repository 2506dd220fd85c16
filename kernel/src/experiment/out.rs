//! The results as tables.

use epsilab::device::marked;
use epsilab::show::{Table, format};

use super::file::Experiment;
use super::paper::printed;
use super::rows::Row;

/// Heads and rows of a table.
pub type Cells = (Vec<String>, Vec<Vec<String>>);

/// Names, numbers of runs and titles, a line for each experiment.
pub fn list(experiments: &[Experiment]) -> String {
    let width = experiments.iter().map(|e| e.name.len()).max().unwrap_or(0);
    let line = |e: &Experiment| {
        let runs = format!("{} x {}", e.cases.len(), e.seeds);
        format!("{:width$}  {runs:>8}  {}", e.name, e.title)
    };
    let lines: Vec<String> = experiments.iter().map(line).collect();
    let runs: usize = experiments.iter().map(Experiment::runs).sum();
    format!("{}\n{runs} runs (cases x seeds)", lines.join("\n"))
}

/// Aligned text, a table for each experiment.
pub fn text(experiments: &[Experiment], cells: impl Fn(&Experiment) -> Cells) -> String {
    let table = |e: &Experiment| {
        let (heads, lines) = cells(e);
        let name = marked(&e.name);
        let caption = if e.title.is_empty() { name } else { format!("{name}: {}", e.title) };
        lines.into_iter().fold(Table::new(heads).caption(caption), Table::row).text()
    };
    experiments.iter().map(table).collect::<Vec<_>>().join("\n\n")
}

/// Markdown, a section for each experiment.
pub fn markdown(experiments: &[Experiment], cells: impl Fn(&Experiment) -> Cells) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | ").replace('\n', " "));
    let section = |e: &Experiment| {
        let (heads, lines) = cells(e);
        let body: String = lines.iter().map(|cells| line(cells)).collect();
        let rule = "|---".repeat(heads.len());
        let name = marked(&e.name);
        format!("## {name}\n\n{}\n\n{}{rule}|\n{body}", e.title, line(&heads))
    };
    experiments.iter().map(section).collect::<Vec<_>>().join("\n")
}

/// A column of results: its head, and its text for a row that has it.
pub type Column<'a, R> = (&'static str, &'a dyn Fn(&R) -> Option<String>);

/// The results of training: accuracy and cost.
pub fn results(experiment: &Experiment, rows: &[Row]) -> Cells {
    let rows: Vec<&Row> = {
        let name = marked(&experiment.name);
        rows.iter().filter(|row| row.experiment == name).collect()
    };
    let number = |value: f64| format!("{}", (value * 1e4).round() / 1e4);
    let timed = rows.iter().any(|row| row.paper.seconds_per_epoch.is_some());
    let columns: [Column<'_, &Row>; 12] = [
        ("accuracy %", &|row| row.accuracy_mean.map(|mean| format!("{:.2}", 100.0 * mean))),
        ("± sd", &|row| row.accuracy_std.map(|std| format!("{:.2}", 100.0 * std))),
        ("paper's accuracy %", &|row| row.paper.accuracy.map(printed)),
        ("epsilon of a run", &|row| match row.badge? {
            "none" => Some("none".into()),
            _ => row.epsilon.map(format::eps),
        }),
        ("at delta", &|row| row.epsilon.and(row.delta).map(format::delta)),
        ("paper's epsilon", &|row| row.paper.epsilon.map(printed)),
        ("guarantee", &|row| row.badge.map(str::to_owned)),
        ("claimed epsilon", &|row| row.claimed_epsilon.map(format::eps)),
        ("mean threshold", &|row| row.mean_threshold.map(number)),
        ("s per epoch", &|row| row.seconds_per_epoch.filter(|_| timed).map(format::seconds)),
        ("paper's s per epoch", &|row| row.paper.seconds_per_epoch.map(printed)),
        ("runs", &|row| Some(format!("{} of {}", row.runs, experiment.seeds))),
    ];
    table(experiment, &[], &rows, &columns)
}

/// The options that differ, but for those that columns show, then the columns. Columns that no row
/// has are left out.
pub fn table<R>(
    experiment: &Experiment,
    shown_anyway: &[&str],
    rows: &[R],
    columns: &[Column<'_, R>],
) -> Cells {
    let mut varied = experiment.varied();
    varied.retain(|name| !shown_anyway.contains(name));
    let has = |(_, of): &&Column<'_, R>| rows.iter().any(|row| of(row).is_some());
    let shown: Vec<_> = columns.iter().filter(has).collect();
    let heads = varied.iter().map(|name| (*name).to_owned());
    let heads = heads.chain(shown.iter().map(|(name, _)| (*name).to_owned())).collect();
    let lines = experiment.cases.iter().zip(rows).map(|(case, row)| {
        let options = varied.iter().map(|name| case.get(name).unwrap_or_else(|| "-".into()));
        options.chain(shown.iter().map(|(_, of)| of(row).unwrap_or_else(|| "-".into()))).collect()
    });
    (heads, lines.collect())
}
