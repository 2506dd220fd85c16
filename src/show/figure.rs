//! Finished figures other than line charts.

use std::fmt;
use std::sync::Arc;

use super::scene::Scene;
use super::{Bundle, render, sink};

/// A finished figure other than a line chart: bars, tiles or a matrix. Cheap to clone.
///
/// Rendering is deterministic. The text format holds the values that the drawing shows and those of
/// the parts that do not fit into it.
#[derive(Clone, Debug)]
pub struct Figure(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    title: String,
    text: String,
    alt_text: String,
    scene: Scene,
}

impl Figure {
    pub(super) fn new(title: String, text: String, alt_text: String, scene: Scene) -> Self {
        Self(Arc::new(Inner { title, text, alt_text, scene }))
    }

    /// The title.
    pub fn title(&self) -> &str {
        &self.0.title
    }

    /// The figure as text: title, notes, and its values as a table.
    pub fn text(&self) -> String {
        self.0.text.clone()
    }

    /// The figure as an SVG document on an opaque light card, without style sheets, scripts or
    /// links.
    pub fn svg(&self) -> String {
        render::svg(&self.0.scene, &self.0.alt_text)
    }

    /// The figure as a PNG file with two pixels per unit of the SVG.
    pub fn png(&self) -> Vec<u8> {
        render::png(&self.0.scene)
    }

    /// The figure as text, SVG and PNG.
    pub fn bundle(&self) -> Bundle {
        Bundle::text(self.text()).with_svg(self.svg()).with_png(self.png())
    }

    /// Shows the figure in the current sink.
    pub fn show(&self) {
        sink::display(&self.bundle());
    }

    /// The drawing, for tests of the layout.
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
