//! A card with a header (title, notes, badge, colour key) above a drawing.

use super::font;
use super::format::to_single_line;
use super::layout::{MARGIN, SMALL_SIZE, TITLE_SIZE, muted, text_style};
use super::palette::{self, Rgb};
use super::panel_header::draw_badge;
use super::scene::{Align, Rect, Scene};
use super::{Coverage, Figure, NOT_COVERED, Table, vega};
use serde_json::{Value, json};

const LINE_HEIGHT: f64 = 16.0;
const SWATCH_SIZE: f64 = 11.0;

/// The header of a figure, which also begins its text format.
#[derive(Clone, Debug, Default)]
pub(super) struct FigureHeader {
    title: String,
    notes: Vec<String>,
    warning: String,
    coverage: Coverage,
    key: Vec<(Rgb, String)>,
}

impl FigureHeader {
    pub(super) fn new(title: impl Into<String>) -> Self {
        Self { title: to_single_line(&title.into()), ..Self::default() }
    }

    /// Adds a note; empty notes are left out.
    pub(super) fn note(mut self, note: impl Into<String>) -> Self {
        let note = to_single_line(&note.into());
        self.notes.extend([note].into_iter().filter(|note| !note.is_empty()));
        self
    }

    /// Adds a note where it applies.
    pub(super) fn note_if(self, applies: bool, note: impl FnOnce() -> String) -> Self {
        if applies { self.note(note()) } else { self }
    }

    /// Adds a warning in a frame.
    pub(super) fn warning(self, warning: &str) -> Self {
        Self { warning: to_single_line(warning), ..self }
    }

    /// Returns the title of a Vega-Lite specification that is `room` wide, with `remark` as its
    /// last line.
    pub(super) fn vega_lite(&self, room: f64, remark: Option<&str>) -> Value {
        let badge = self.is_not_covered().then(|| format!("[{NOT_COVERED}]"));
        let warning = Some(format!("Warning: {}", self.warning));
        let warning = warning.filter(|_| !self.warning.is_empty());
        let texts = self.notes.iter().chain(&warning);
        let wrapped = texts.flat_map(|text| font::wrap_to_width(text, SMALL_SIZE, false, room));
        let remark = remark.map(str::to_owned);
        let lines: Vec<String> = badge.into_iter().chain(wrapped).chain(remark).collect();
        let mut title = json!({ "text": self.title, "subtitle": lines });
        if self.is_not_covered() {
            title["subtitleColor"] = palette::hex(palette::BADGE_INK).into();
        }
        title
    }

    /// States what the figure reveals of private data. If no epsilon covers it, it carries the
    /// badge [`NOT_COVERED`].
    pub(super) fn coverage(self, coverage: Coverage) -> Self {
        Self { coverage, ..self }
    }

    fn is_not_covered(&self) -> bool {
        self.coverage == Coverage::NotCovered
    }

    /// Adds an entry to the colour key.
    pub(super) fn key(mut self, colour: Rgb, label: impl Into<String>) -> Self {
        self.key.push((colour, label.into()));
        self
    }

    /// Returns the figure with this header; the values in `table` end its text.
    pub(super) fn figure(self, drawing: &impl Drawing, table: Table) -> Figure {
        let mut page = FigureCard::new(drawing.width(), &self);
        let bottom = drawing.draw(&mut page);
        let body = drawing.vega_lite();
        let specification =
            body.map(|body| vega::specification(self.vega_lite(page.content_width(), None), body));
        let lines: Vec<String> = self.text_lines().collect();
        Figure::new(self.title, &lines, table, (page.card(bottom), specification))
            .coverage(self.coverage)
    }

    fn text_lines(&self) -> impl Iterator<Item = String> + '_ {
        let badge = self.is_not_covered().then(|| format!("[{NOT_COVERED}]"));
        std::iter::once(self.title.clone()).chain(badge).chain(self.notes.clone())
    }
}

/// Content of a figure below its header: one description with a drawing and an interactive form.
pub(super) trait Drawing {
    /// Returns the width of the drawing's card.
    fn width(&self) -> f64;

    /// Draws the content below the header of a page and returns its lower edge.
    fn draw(&self, page: &mut FigureCard) -> f64;

    /// Returns the body of the Vega-Lite specification; `None` if it is not interactive.
    fn vega_lite(&self) -> Option<Value> {
        None
    }
}

/// A card under construction.
pub(super) struct FigureCard {
    pub(super) scene: Scene,
    /// Upper edge of the drawing.
    pub(super) top: f64,
}

impl FigureCard {
    /// Creates a card of this width with its header. [`card`](Self::card) sets the height.
    pub(super) fn new(width: f64, head: &FigureHeader) -> Self {
        let mut page = Self { scene: Scene::new(width, 0.0), top: MARGIN + 6.0 };
        page.draw_header(head);
        page
    }

    /// Returns the width between the margins.
    pub(super) fn content_width(&self) -> f64 {
        self.scene.width - 2.0 * MARGIN
    }

    fn draw_header(&mut self, head: &FigureHeader) {
        let room = self.content_width();
        let bold = text_style(TITLE_SIZE, true, palette::INK, Align::Left);
        let title = font::wrap_to_width(&head.title, TITLE_SIZE, true, room);
        for line in title.into_iter().filter(|line| !line.is_empty()) {
            self.scene.text((MARGIN, self.top), line, bold);
            self.top += 21.0;
        }
        for note in
            head.notes.iter().flat_map(|note| font::wrap_to_width(note, SMALL_SIZE, false, room))
        {
            self.scene.text((MARGIN, self.top), note, muted(Align::Left));
            self.top += LINE_HEIGHT;
        }
        if head.is_not_covered() {
            self.top += 3.0;
            draw_badge(&mut self.scene, NOT_COVERED, MARGIN, self.top, room);
            self.top += LINE_HEIGHT + 4.0;
        }
        self.draw_warning(&head.warning, room);
        let mut x = MARGIN;
        for (i, (colour, meaning)) in head.key.iter().enumerate() {
            let wide = SWATCH_SIZE + 6.0 + font::text_width(meaning, SMALL_SIZE, false);
            if i > 0 && x + wide > MARGIN + room {
                x = MARGIN;
                self.top += LINE_HEIGHT;
            }
            let (top, y) = ((self.top - SWATCH_SIZE / 2.0).round(), self.top);
            let area = Rect { left: x, top, right: x + SWATCH_SIZE, bottom: top + SWATCH_SIZE };
            self.scene.framed_rect(area, *colour, palette::AXIS);
            let ink = text_style(SMALL_SIZE, false, palette::INK, Align::Left);
            self.scene.text((x + SWATCH_SIZE + 6.0, y), meaning, ink);
            x += wide + 18.0;
        }
        self.top += if head.key.is_empty() { 0.0 } else { LINE_HEIGHT };
    }

    fn draw_warning(&mut self, warning: &str, room: f64) {
        const PADDING: f64 = 8.0;
        if warning.is_empty() {
            return;
        }
        let lines = font::wrap_to_width(warning, SMALL_SIZE, false, room - 2.0 * PADDING);
        let top = (self.top - LINE_HEIGHT / 2.0).round();
        let bottom = top + LINE_HEIGHT * lines.len() as f64 + PADDING;
        let area = Rect { left: MARGIN, top, right: MARGIN + room, bottom };
        self.scene.framed_rect(area, palette::BADGE, palette::BADGE_EDGE);
        for (i, line) in lines.into_iter().enumerate() {
            let style = text_style(SMALL_SIZE, false, palette::BADGE_INK, Align::Left);
            let y = top + (PADDING + LINE_HEIGHT) / 2.0 + LINE_HEIGHT * i as f64;
            self.scene.text((MARGIN + PADDING, y), line, style);
        }
        self.top = bottom + LINE_HEIGHT;
    }

    /// Returns the finished drawing with its lower edge at `bottom`.
    pub(super) fn card(self, bottom: f64) -> Scene {
        let mut scene = self.scene;
        scene.height = (bottom + MARGIN - 4.0).round();
        let mut card = Scene::new(scene.width, scene.height);
        let card_area = Rect { left: 0.0, top: 0.0, right: scene.width, bottom: scene.height };
        card.framed_rect(card_area, palette::CARD, palette::BORDER);
        scene.marks.splice(0..0, card.marks);
        scene
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl Drawing for Nothing {
        fn width(&self) -> f64 {
            400.0
        }

        fn draw(&self, page: &mut FigureCard) -> f64 {
            page.top
        }
    }

    #[test]
    fn the_badge_is_in_drawing_and_text_only_where_it_applies() {
        for applies in [true, false] {
            let coverage = Coverage::for_raw_data(applies);
            let head =
                FigureHeader::new("t").note("n").coverage(coverage).key(palette::KEPT, "kept");
            let figure = head.figure(&Nothing, Table::new(["table"]));
            assert_eq!(figure.svg().contains(&format!("\n{NOT_COVERED}\n")), applies);
            let text = if applies {
                format!("t\n[{NOT_COVERED}]\nn\ntable\n─────")
            } else {
                "t\nn\ntable\n─────".into()
            };
            assert_eq!(figure.text(), text);
        }
    }
}
