//! Output to files, in the format of the name's ending.

use super::{MimeBundle, Table};
use crate::{Error, Result, file};
use std::path::Path;

/// Function that returns the content of a file in one format; `None` if the output does not have
/// this format.
type Content<T> = fn(&T) -> Option<Vec<u8>>;

/// The formats of outputs, by the ending of a file's name.
const OUTPUTS: [(&str, Content<MimeBundle>); 5] = [
    ("svg", |output| output.svg.clone().map(String::into_bytes)),
    ("png", |output| output.png.clone()),
    ("html", |output| output.html.clone().map(String::into_bytes)),
    ("txt", |output| Some(with_end(output.text.trim_end_matches('\n')))),
    ("vl.json", |output| output.vega_lite.as_ref().map(|spec| with_end(&format!("{spec:#}")))),
];

/// The formats of tables.
const TABLES: [(&str, Content<Table>); 6] = [
    ("csv", |table| Some(table.csv().into_bytes())),
    ("json", |table| Some(with_end(&format!("{:#}", table.json())))),
    ("html", |table| Some(with_end(&table.html()))),
    ("txt", |table| Some(with_end(&table.text()))),
    ("md", |table| Some(table.markdown().into_bytes())),
    ("tex", |table| Some(table.latex().into_bytes())),
];

/// Returns the bytes of text with a line break at its end.
fn with_end(text: &str) -> Vec<u8> {
    format!("{text}\n").into_bytes()
}

impl MimeBundle {
    /// Writes one of the formats to a file: the SVG for a name that ends in `.svg`, the PNG for
    /// `.png`, the HTML for `.html`, the text for `.txt`, and the Vega-Lite specification for
    /// `.vl.json`. An existing file is replaced.
    ///
    /// # Errors
    /// `Setting` for another ending or a format that the output does not have, `Io` if the file
    /// can't be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        write(path.as_ref(), self, &OUTPUTS, &[])
    }

    /// Writes the text to a file with any ending.
    pub(crate) fn save_text(&self, path: &Path) -> Result<()> {
        file::write(path, with_end(self.text.trim_end_matches('\n')))
    }
}

impl Table {
    /// Writes the table to a file: as comma-separated values for a name that ends in `.csv`, as
    /// JSON for `.json`, as HTML for `.html`, as text for `.txt`, as Markdown for `.md`, as a LaTeX
    /// `tabular` for `.tex`. An existing file is replaced.
    ///
    /// # Errors
    /// `Setting` for another ending, `Io` if the file can't be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        write(path.as_ref(), self, &TABLES, &[])
    }
}

/// Writes a figure, or its values for `.csv` and `.json`.
pub(super) fn save_figure(
    path: &Path,
    drawn: impl FnOnce() -> MimeBundle,
    values: impl FnOnce() -> Table,
) -> Result<()> {
    match file_extension(path).as_str() {
        "csv" | "json" => values().save(path),
        _ => write(path, &drawn(), &OUTPUTS, &["csv", "json"]),
    }
}

/// Writes the output in the format of the name's ending. An error lists the endings that would do,
/// and `more`.
fn write<T>(path: &Path, value: &T, formats: &[(&str, Content<T>)], more: &[&str]) -> Result<()> {
    let ending = file_extension(path);
    let format = formats.iter().find(|(known, _)| *known == ending);
    if let Some(content) = format.and_then(|(_, content)| content(value)) {
        return file::write(path, content);
    }
    let available = formats.iter().filter(|(_, content)| content(value).is_some());
    let endings = available.map(|(ending, _)| ending).chain(more);
    let list = endings.map(|ending| format!(".{ending}")).collect::<Vec<_>>().join(", ");
    Err(Error::setting("path", path.display(), "the file extension is not a format of this output")
        .fix(format!("end the name in one of {list}")))
}

/// Returns the ending of a file's name in lower case, without the dot: `svg`, `vl.json`.
fn file_extension(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    if name.ends_with(".vl.json") {
        "vl.json".into()
    } else {
        name.rsplit_once('.').map_or(String::new(), |(_, ending)| ending.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Chart, Panel, Series};

    #[test]
    fn a_chart_is_written_in_the_format_of_the_ending() {
        let folder = tempfile::tempdir().unwrap();
        let chart = Chart::new("t").panel(Panel::new("y").series(Series::line("s", [(0.0, 0.1)])));
        let starts = [
            ("a.svg", "<svg"),
            ("deep/a.PNG", "\u{fffd}PNG"),
            ("a.csv", "panel,series,"),
            ("a.json", "["),
            ("a.txt", "t\n"),
            ("a.vl.json", "{"),
        ];
        for (name, start) in starts {
            let path = folder.path().join(name);
            chart.save(&path).unwrap();
            let content = String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
            assert!(content.starts_with(start), "{name}: {content:.40}");
        }
        let error = chart.save(folder.path().join("a.pdf")).unwrap_err().to_string();
        assert!(error.contains("a.pdf") && error.contains(".svg, .png"), "{error}");
        assert!(!error.contains(".html"), "{error}");
        let file = folder.path().join("a.csv/b.svg");
        assert_eq!(chart.save(file).unwrap_err().kind(), crate::ErrorKind::Io);
    }
}
