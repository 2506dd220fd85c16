//! Finished figures other than line charts.

use std::fmt;
use std::sync::Arc;

use super::scene::Scene;
use super::{Coverage, MimeBundle, Table, render, save, sink};
use crate::Result;
use serde_json::Value;
use std::path::Path;

/// Figure other than a line chart, finished: bars, tiles or a matrix. Cheap to clone.
///
/// Rendering is deterministic. The text format holds the values that the drawing shows and those of
/// the parts that do not fit into it.
#[derive(Clone, Debug)]
pub struct Figure(Arc<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    title: String,
    text: String,
    alt_text: String,
    scene: Scene,
    table: Table,
    coverage: Coverage,
    vega_lite: Option<Value>,
}

impl Figure {
    /// Creates a figure with its lines of text above the table of its values, its drawing, and its
    /// interactive format if it has one: a Vega-Lite 5 specification.
    pub(super) fn new(
        title: String,
        lines: &[String],
        table: Table,
        (scene, vega_lite): (Scene, Option<Value>),
    ) -> Self {
        let text = lines.iter().cloned().chain([table.text()]).filter(|line| !line.is_empty());
        Self(Arc::new(Inner {
            title,
            text: text.collect::<Vec<_>>().join("\n"),
            alt_text: lines.join(". "),
            scene,
            table,
            coverage: Coverage::default(),
            vega_lite,
        }))
    }

    /// States what the figure reveals of private data.
    pub fn coverage(mut self, coverage: Coverage) -> Self {
        Arc::make_mut(&mut self.0).coverage = coverage;
        self
    }

    /// Returns the title.
    pub fn title(&self) -> &str {
        &self.0.title
    }

    /// Formats the figure as text: title, notes, and its values as a table.
    pub fn text(&self) -> String {
        self.0.text.clone()
    }

    /// Returns the values that the figure shows.
    pub fn table(&self) -> Table {
        self.0.table.clone()
    }

    /// Renders the figure as an SVG document on an opaque light card, without style sheets,
    /// scripts or links.
    pub fn svg(&self) -> String {
        render::svg(&self.0.scene, &self.0.alt_text)
    }

    /// Renders the figure as a PNG file with two pixels per unit of the SVG.
    pub fn png(&self) -> Vec<u8> {
        render::png(&self.0.scene)
    }

    /// Renders the figure as text, SVG, PNG and, if it is interactive, Vega-Lite.
    pub fn bundle(&self) -> MimeBundle {
        let bundle =
            MimeBundle::text(self.text()).with_svg(self.svg()).with_coverage(self.0.coverage);
        MimeBundle { png: Some(self.png()), vega_lite: self.0.vega_lite.clone(), ..bundle }
    }

    /// Writes the figure to a file, in the format of the name's ending: see [`MimeBundle::save`]
    /// and [`Table::save`].
    ///
    /// # Errors
    /// `Setting` for another ending, `Io` if the file can't be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        save::save_figure(path.as_ref(), || self.bundle(), || self.table())
    }

    /// Shows the figure in the current sink.
    pub fn show(&self) {
        sink::display(&self.bundle());
    }

    /// Returns the drawing, for tests of the layout.
    #[cfg(test)]
    pub(super) fn scene(&self) -> &Scene {
        &self.0.scene
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}
