//! Tables of text cells.

use super::format::{html_escape, to_single_line};
use super::{Coverage, MimeBundle, sink};
use serde_json::{Map, Value};
use std::fmt;

/// A table of text cells. Numeric columns are right-aligned.
#[derive(Clone, Debug, Default)]
pub struct Table {
    pub(super) caption: Option<String>,
    pub(super) headers: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
    pub(super) coverage: Coverage,
}

impl Table {
    /// Creates an empty table with these column names.
    pub fn new<H: Into<String>>(headers: impl IntoIterator<Item = H>) -> Self {
        Self { headers: headers.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Adds a row. Missing cells at the end stay empty; additional cells get a column without a
    /// name.
    pub fn row<C: Into<String>>(mut self, cells: impl IntoIterator<Item = C>) -> Self {
        self.rows.push(cells.into_iter().map(Into::into).collect());
        self
    }

    /// Adds rows, or the row of an option.
    pub(crate) fn rows<C: Into<String>, R: IntoIterator<Item = C>>(
        self,
        rows: impl IntoIterator<Item = R>,
    ) -> Self {
        rows.into_iter().fold(self, Self::row)
    }

    /// Adds a column behind the others. Rows without a text in it get a dash.
    pub fn column(mut self, name: impl Into<String>, texts: &[String]) -> Self {
        let columns = self.column_count();
        self.headers.resize(columns, String::new());
        self.headers.push(name.into());
        for (at, row) in self.rows.iter_mut().enumerate() {
            let text = texts.get(at).filter(|text| !text.is_empty());
            row.resize(columns, String::new());
            row.push(text.map_or("-", String::as_str).to_owned());
        }
        self
    }

    /// Sets the caption, a line above the table.
    pub fn caption(self, caption: impl Into<String>) -> Self {
        Self { caption: Some(caption.into()), ..self }
    }

    /// States what the table reveals of private data.
    pub fn coverage(self, coverage: Coverage) -> Self {
        Self { coverage, ..self }
    }

    /// Returns the coverage of the table: what it reveals of private data.
    pub(crate) fn stated_coverage(&self) -> Coverage {
        self.coverage
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether the table has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Formats the table as aligned lines.
    pub fn text(&self) -> String {
        let columns = self.column_count();
        let width = |c: usize| {
            let cells = self.rows.iter().map(|row| cell(row, c).chars().count());
            cells.chain([cell(&self.headers, c).chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let line = |row: &[String]| {
            let cells = (0..columns).map(|c| {
                let (text, width) = (cell(row, c), widths[c]);
                if self.is_numeric(c) {
                    format!("{text:>width$}")
                } else {
                    format!("{text:width$}")
                }
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_string()
        };
        let rule = widths.iter().map(|&w| "─".repeat(w)).collect::<Vec<_>>().join("  ");
        let mut lines: Vec<String> = self.caption.iter().map(|text| to_single_line(text)).collect();
        lines.extend([line(&self.headers), rule]);
        lines.extend(self.rows.iter().map(|row| line(row)));
        lines.join("\n")
    }

    /// Formats the table as an HTML fragment with inline styles only. It takes the colours of the
    /// page, so it is legible in light and dark themes.
    pub fn html(&self) -> String {
        let columns = self.column_count();
        let align = |c: usize| if self.is_numeric(c) { "right" } else { "left" };
        let line = |tag: &str, row: &[String], edge: &str| {
            let cells: String = (0..columns)
                .map(|c| {
                    format!(
                        "<{tag} style=\"text-align:{};padding:3px 12px 3px 0;border:0;\
                         border-bottom:{edge}\">{}</{tag}>",
                        align(c),
                        html_escape(&cell(row, c))
                    )
                })
                .collect();
            format!("<tr style=\"background:none\">{cells}</tr>\n")
        };
        let caption = self.caption.as_ref().map(|text| {
            let style = "text-align:left;font-weight:bold;padding:0 0 4px 0;caption-side:top";
            format!("<caption style=\"{style}\">{}</caption>\n", html_escape(text))
        });
        let body: String = self
            .rows
            .iter()
            .map(|row| line("td", row, "1px solid rgba(128,128,128,0.3)"))
            .collect();
        format!(
            "<table style=\"margin:0 0 8px 0;table-layout:auto;border-collapse:collapse;border:0;\
             font-variant-numeric:tabular-nums\">\n\
             {}<thead>{}</thead>\n<tbody>{body}</tbody>\n</table>",
            caption.unwrap_or_default(),
            line("th", &self.headers, "1px solid rgb(128,128,128)"),
        )
    }

    /// Formats the table as comma-separated values (RFC 4180) with a header. In columns of
    /// numbers, thousands separators are left out, and percent signs are moved to the header.
    pub fn csv(&self) -> String {
        let plain = self.machine_readable();
        let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
        for row in std::iter::once(&plain.headers).chain(&plain.rows) {
            let written = writer.write_record(row);
            debug_assert!(written.is_ok(), "writing to memory");
        }
        String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
    }

    /// Formats the table as a JSON array with an object for each row. Numbers are numbers, as in
    /// [`csv`](Self::csv); empty cells are null.
    pub fn json(&self) -> Value {
        let plain = self.machine_readable();
        let value = |column: usize, text: &str| match text {
            "" => Value::Null,
            text if self.is_numeric(column) => {
                let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
                number.map_or_else(|| Value::from(text), Value::from)
            }
            text => Value::from(text),
        };
        let rows = plain.rows.iter().map(|row| {
            let cells = plain.headers.iter().enumerate();
            let cells = cells.map(|(c, name)| (name.clone(), value(c, &row[c])));
            Value::Object(cells.collect::<Map<_, _>>())
        });
        rows.collect()
    }

    /// Returns the table for programs: unique column names, a cell for every column, and in
    /// columns of numbers cells that parse as numbers. A dash for a missing number becomes an
    /// empty cell.
    fn machine_readable(&self) -> Self {
        let columns = self.column_count();
        let mut headers: Vec<String> = Vec::new();
        for c in 0..columns {
            let percent =
                self.is_numeric(c) && self.rows.iter().any(|row| cell(row, c).ends_with(" %"));
            let name = match cell(&self.headers, c).as_str() {
                "" => format!("column {}", c + 1),
                name if percent && !name.contains('%') => format!("{name} (%)"),
                name => name.to_owned(),
            };
            let taken = headers.iter().filter(|other| **other == name).count();
            headers.push(if taken > 0 { format!("{name} {}", c + 1) } else { name });
        }
        let value = |row: &[String], c: usize| {
            let text = cell(row, c);
            if !self.is_numeric(c) {
                text
            } else if matches!(text.as_str(), "-" | "–") {
                String::new()
            } else {
                text.trim_end_matches(" %").replace(',', "").replace('∞', "inf")
            }
        };
        let rows =
            self.rows.iter().map(|row| (0..columns).map(|c| value(row, c)).collect()).collect();
        Self { headers, rows, ..self.clone() }
    }

    /// Renders the table as text and HTML.
    pub fn bundle(&self) -> MimeBundle {
        MimeBundle::text(self.text()).with_html(self.html()).with_coverage(self.coverage)
    }

    /// Shows the table in the current sink.
    pub fn show(&self) {
        sink::display(&self.bundle());
    }

    pub(super) fn column_count(&self) -> usize {
        self.rows.iter().map(Vec::len).chain([self.headers.len()]).max().unwrap_or(0)
    }

    /// Returns whether all cells of a column that are not empty start with a number.
    pub(super) fn is_numeric(&self, column: usize) -> bool {
        let cells = || self.rows.iter().map(|row| cell(row, column));
        let mut texts = cells().filter(|text| !matches!(text.as_str(), "" | "-" | "–")).peekable();
        texts.peek().is_some() && texts.all(|text| is_number(&text))
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

/// Returns the text of a cell, in one line; empty if the row is shorter.
pub(super) fn cell(row: &[String], column: usize) -> String {
    row.get(column).map(|text| to_single_line(text)).unwrap_or_default()
}

/// Returns whether text is a number, possibly with separators and a unit of up to three
/// characters: `60,000`, `95.3 %`.
fn is_number(text: &str) -> bool {
    let number = text.split(' ').next().unwrap_or("");
    let unit = text[number.len()..].trim();
    let digits = number.replace(',', "");
    let is_value = digits == "∞" || digits.parse::<f64>().is_ok();
    is_value && unit.chars().count() <= 3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        Table::new(["layer", "parameters", "share"])
            .row(["conv 1", "1,040", "4.0 %"])
            .row(["a <b> & \"c\"", "24,970", "96.0 %"])
            .row(["last"])
    }

    #[test]
    fn text_columns_line_up_and_numbers_are_flush_right() {
        let expected = "\
layer        parameters   share
───────────  ──────────  ──────
conv 1            1,040   4.0 %
a <b> & \"c\"      24,970  96.0 %
last";
        assert_eq!(table().text(), expected);
    }

    #[test]
    fn html_is_escaped_and_styled_inline_only() {
        let html = table().caption("<i>").html();
        assert!(html.contains("a &lt;b&gt; &amp; &quot;c&quot;") && html.contains("&lt;i&gt;"));
        for banned in ["<b>", "<i>", "<style", "<script", "class="] {
            assert!(!html.contains(banned), "{banned}");
        }
        assert_eq!(html.matches("<tr").count(), 4);
        assert_eq!(html.matches("<td").count(), 9);
        assert_eq!(html.matches("text-align:right").count(), 8);
    }

    #[test]
    fn programs_read_numbers_without_separators_and_units() {
        let csv = table().csv();
        let expected = "layer,parameters,share (%)\nconv 1,1040,4.0\n\
                        \"a <b> & \"\"c\"\"\",24970,96.0\nlast,,\n";
        assert_eq!(csv, expected);
        let json = table().json();
        assert_eq!(json[1]["parameters"], 24970.0);
        assert_eq!(json[0]["share (%)"], 4.0);
        assert_eq!(
            json[2],
            serde_json::json!({"layer": "last", "parameters": null,
            "share (%)": null})
        );
        let odd = Table::new(["a", "a"]).row(["-", "x"]).row(["∞", "y", "z"]);
        assert_eq!(odd.csv(), "a,a 2,column 3\n,x,\ninf,y,z\n");
        assert_eq!(odd.json()[1]["a"], "inf", "JSON has no infinity");
    }

    #[test]
    fn an_empty_table_still_has_its_head() {
        assert_eq!(Table::new(["a", "b"]).text(), "a  b\n─  ─");
    }
}
