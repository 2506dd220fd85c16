//! Charts as text with sparklines.

use super::chart::{Chart, Panel};
use super::format::to_single_line;
use super::panel_header::displayed_value;
use super::series::extent;

const COLUMNS: usize = 32;
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Formats the chart as text: title, one line per series (name, sparkline, value, references,
/// badge), and the range of x.
pub(super) fn text(chart: &Chart) -> String {
    let rows: Vec<TextRow> = chart.panels.iter().flat_map(text_rows).collect();
    let wide = |part: fn(&TextRow) -> &String| rows.iter().map(|r| part(r).chars().count()).max();
    let (name, value) = (wide(|r| &r.name).unwrap_or(0), wide(|r| &r.value).unwrap_or(0));
    let mut lines: Vec<String> = Vec::new();
    lines.extend([to_single_line(&chart.title)].into_iter().filter(|title| !title.is_empty()));
    lines.extend(chart.note.as_deref().map(to_single_line));
    lines.extend(chart.warning.as_deref().map(|text| format!("warning: {}", to_single_line(text))));
    for row in &rows {
        let line = format!(
            "  {:name$}  {:COLUMNS$}  {:>value$}  {}",
            row.name, row.curve, row.value, row.remark
        );
        lines.push(line.trim_end().to_string());
    }
    lines.extend(x_range_line(chart));
    lines.join("\n")
}

/// Returns the accessible name of the chart: title and values in one sentence.
pub(super) fn alt_text(chart: &Chart) -> String {
    let rows = chart.panels.iter().flat_map(text_rows);
    let parts: Vec<String> = rows
        .map(|row| match row.remark.as_str() {
            "" => format!("{} {}", row.name, row.value),
            remark => format!("{} {} ({remark})", row.name, row.value),
        })
        .collect();
    let title = match chart.warning.as_deref() {
        Some(warning) => {
            format!("{}. Warning: {}", to_single_line(&chart.title), to_single_line(warning))
        }
        None => to_single_line(&chart.title),
    };
    if parts.is_empty() { title } else { format!("{title}: {}", parts.join("; ")) }
}

struct TextRow {
    name: String,
    curve: String,
    value: String,
    remark: String,
}

fn text_rows(panel: &Panel) -> Vec<TextRow> {
    let label = to_single_line(&panel.label);
    let references = panel.references.iter().map(|r| to_single_line(&r.label));
    let badge = panel.badge.as_deref().map(|badge| format!("[{}]", to_single_line(badge)));
    let mark = panel.x_marker.as_ref().map(|mark| format!("at {}", to_single_line(&mark.label)));
    let values = panel.value_label.as_deref().map(to_single_line);
    let parts = mark.into_iter().chain(values).chain(references).chain(badge);
    let remark = parts.collect::<Vec<_>>().join("  ");
    let row = |name: String, curve: String, value: Option<f64>| TextRow {
        name,
        curve,
        value: value.map_or("no data yet".into(), |v| panel.format_value(v)),
        remark: remark.clone(),
    };
    if panel.series.is_empty() {
        return vec![row(label, String::new(), None)];
    }
    let several = panel.series.len() > 1;
    let series = panel.series.iter().map(|series| {
        let series_name = to_single_line(&series.name);
        let name = if several && !series_name.is_empty() {
            format!("{label}, {series_name}")
        } else {
            label.clone()
        };
        let name = if name.is_empty() { series_name } else { name };
        let points: Vec<_> = series.finite_points().filter(|p| !panel.log || p.1 > 0.0).collect();
        let y = |p: &(f64, f64)| if panel.log { p.1.ln() } else { p.1 };
        let curve = sparkline(&points.iter().map(y).collect::<Vec<_>>());
        row(name, curve, displayed_value(panel, series))
    });
    series.collect()
}

/// Returns a sparkline of the means of up to [`COLUMNS`] buckets.
fn sparkline(values: &[f64]) -> String {
    let columns = values.len().min(COLUMNS);
    let stretch = |c: usize| &values[c * values.len() / columns..(c + 1) * values.len() / columns];
    let means: Vec<f64> = (0..columns)
        .map(|c| stretch(c).iter().map(|v| v / stretch(c).len() as f64).sum())
        .collect();
    let (low, high) = extent(means.iter().copied()).unwrap_or_default();
    let level = |mean: f64| {
        let share = if high > low { (mean - low) / (high - low) } else { 0.5 };
        BLOCKS[((share * 7.0).round() as usize).min(7)]
    };
    means.into_iter().map(level).collect()
}

/// Returns the line that states label and range of the x axis; `None` for a chart without points or
/// without a label.
fn x_range_line(chart: &Chart) -> Option<String> {
    let (first, last) = extent(chart.points().map(|point| point.0))?;
    if chart.x_label.is_empty() {
        return None;
    }
    let number = |x: f64| {
        let is_whole = x.fract() == 0.0 && x.abs() < 1e7;
        if is_whole { super::format::fixed(x, 0) } else { super::format::short(x, 6) }
    };
    Some(format!("  {} {} to {}", to_single_line(&chart.x_label), number(first), number(last)))
}

#[cfg(test)]
mod tests {
    use super::super::Series;
    use super::*;

    #[test]
    fn a_sparkline_rises_where_the_values_rise() {
        let line = sparkline(&(0..1000).map(f64::from).collect::<Vec<_>>());
        assert_eq!(line.chars().count(), COLUMNS);
        assert!(line.starts_with('▁') && line.ends_with('█'));
        assert_eq!(sparkline(&[1.0, 1.0, 1.0]).chars().count(), 3);
        assert_eq!(sparkline(&[]), "");
    }

    #[test]
    fn the_ends_of_the_x_axis_keep_their_zeros() {
        let ends = |low: f64, high: f64| {
            let panel = Panel::new("y").series(Series::line("a", [(low, 1.0), (high, 2.0)]));
            let text = Chart::new("t").x_label("x").x_log().panel(panel).text();
            text.lines().last().unwrap_or("").trim().to_string()
        };
        assert_eq!(ends(1e-10, 0.01), "x 1e-10 to 0.01");
        assert_eq!(ends(0.5, 1e20), "x 0.5 to 1e20");
        assert_eq!(ends(10.0, 60_000.0), "x 10 to 60,000");
        assert_eq!(ends(-3.0, 2.5), "x 2.5 to 2.5");
    }

    #[test]
    fn text_has_names_last_values_references_and_badges() {
        let chart = Chart::new("Two rates").x_label("step").panel(
            Panel::new("error")
                .percent()
                .series(Series::line("a", [(0.0, 0.5), (1500.0, 0.25)]))
                .series(Series::line("b", []))
                .reference(0.1, "goal 10 %")
                .badge("guess"),
        );
        let text = chart.text();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "Two rates");
        assert!(lines[1].contains("error, a") && lines[1].contains("25.0 %"), "{text}");
        assert!(lines[1].contains("goal 10 %") && lines[1].contains("[guess]"), "{text}");
        assert!(lines[2].contains("error, b") && lines[2].contains("no data yet"), "{text}");
        assert_eq!(lines[3], "  step 0 to 1,500");
        assert!(alt_text(&chart).starts_with("Two rates: error, a 25.0 %"));
    }
}
