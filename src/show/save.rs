//! Writes what is shown to files, in the format of the name's ending.

use super::{Bundle, Table};
use crate::{Error, Result, file};
use std::path::Path;

impl Bundle {
    /// Writes one of the formats to a file: the SVG for a name that ends in `.svg`, the PNG for
    /// `.png`, the HTML for `.html`, the text for `.txt`, and the Vega-Lite specification for
    /// `.vl.json`. An existing file is replaced.
    ///
    /// # Errors
    /// `Setting` for another ending or a format that the output does not have, `Io` if the file
    /// can't be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let ending = ending(path);
        let content: Option<Vec<u8>> = match ending.as_str() {
            "svg" => self.svg.clone().map(String::into_bytes),
            "png" => self.png.clone(),
            "html" => self.html.clone().map(String::into_bytes),
            "txt" => Some(format!("{}\n", self.text.trim_end_matches('\n')).into_bytes()),
            "vl.json" => self.vega_lite.as_ref().map(|spec| format!("{spec:#}\n").into_bytes()),
            _ => None,
        };
        match content {
            Some(content) => file::write(path, &content),
            None => Err(unknown(path, &self.endings())),
        }
    }

    /// Writes the text to a file with any ending.
    pub(crate) fn save_text(&self, path: &Path) -> Result<()> {
        file::write(path, format!("{}\n", self.text.trim_end_matches('\n')))
    }

    /// The endings that [`save`](Self::save) accepts.
    fn endings(&self) -> Vec<&'static str> {
        let all = [
            ("svg", self.svg.is_some()),
            ("png", self.png.is_some()),
            ("html", self.html.is_some()),
            ("txt", true),
            ("vl.json", self.vega_lite.is_some()),
        ];
        all.into_iter().filter(|(_, there)| *there).map(|(ending, _)| ending).collect()
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
        let path = path.as_ref();
        match self.as_file(&ending(path)) {
            Some(text) => file::write(path, text),
            None => Err(unknown(path, &["csv", "json", "html", "txt", "md", "tex"])),
        }
    }

    fn as_file(&self, ending: &str) -> Option<String> {
        Some(match ending {
            "csv" => self.csv(),
            "json" => format!("{:#}\n", self.json()),
            "html" => format!("{}\n", self.html()),
            "txt" => format!("{}\n", self.text()),
            "md" => self.markdown(),
            "tex" => self.latex(),
            _ => return None,
        })
    }
}

/// Writes a figure, or its values for `.csv` and `.json`.
pub(super) fn figure(
    path: &Path,
    drawn: impl FnOnce() -> Bundle,
    values: impl FnOnce() -> Table,
) -> Result<()> {
    match ending(path).as_str() {
        "csv" | "json" => values().save(path),
        _ => {
            let drawn = drawn();
            let mut endings = drawn.endings();
            endings.extend(["csv", "json"]);
            drawn.save(path).map_err(|error| match error.kind() {
                crate::ErrorKind::Setting => unknown(path, &endings),
                _ => error,
            })
        }
    }
}

/// The ending of a file's name in lower case, without the dot: `svg`, `vl.json`.
fn ending(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    if name.ends_with(".vl.json") {
        "vl.json".into()
    } else {
        name.rsplit_once('.').map_or(String::new(), |(_, ending)| ending.to_owned())
    }
}

fn unknown(path: &Path, endings: &[&str]) -> Error {
    let list = endings.iter().map(|ending| format!(".{ending}")).collect::<Vec<_>>().join(", ");
    Error::setting("path", path.display(), "its ending names no format that this output has")
        .fix(format!("end the name in one of {list}"))
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
