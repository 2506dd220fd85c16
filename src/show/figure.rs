use std::fmt;
use std::sync::Arc;

use super::scene::Scene;
use super::{Bundle, render, sink};

/// A finished figure that is no line chart: bars, tiles, matrices. Cheap to clone.
///
/// The same input always gives the same bytes. Its text form carries the numbers that the drawing
/// shows, and those of parts that it has no room for.
#[derive(Clone, Debug)]
pub struct Figure(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    title: String,
    text: String,
    spoken: String,
    scene: Scene,
}

impl Figure {
    pub(super) fn new(title: String, text: String, spoken: String, scene: Scene) -> Self {
        Self(Arc::new(Inner { title, text, spoken, scene }))
    }

    /// What it is about, in a line.
    pub fn title(&self) -> &str {
        &self.0.title
    }

    /// The figure as text: title, notes, and its numbers as a table.
    pub fn text(&self) -> String {
        self.0.text.clone()
    }

    /// The figure as an SVG document, on its own light card; without style sheet, script or link.
    pub fn svg(&self) -> String {
        render::svg(&self.0.scene, &self.0.spoken)
    }

    /// The figure as a PNG file, two pixels per unit of the SVG.
    pub fn png(&self) -> Vec<u8> {
        render::png(&self.0.scene)
    }

    /// All forms: text, SVG and PNG.
    pub fn bundle(&self) -> Bundle {
        Bundle::text(self.text()).with_svg(self.svg()).with_png(self.png())
    }

    /// Shows the figure in the current sink.
    pub fn show(&self) {
        sink::display(&self.bundle());
    }

    /// The drawing, for tests of where things lie.
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
