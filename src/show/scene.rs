//! A drawing in page units (CSS pixels), independent of the output format.

use super::bitmap::Bitmap;
use super::palette::Rgb;

pub(super) type Point = (f64, f64);

/// An axis-aligned box.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rect {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

impl Rect {
    pub(super) fn width(&self) -> f64 {
        self.right - self.left
    }

    pub(super) fn height(&self) -> f64 {
        self.bottom - self.top
    }

    /// Returns the box with its edges moved outwards by this much, across and down.
    pub(super) fn grown(&self, across: f64, down: f64) -> Self {
        Self {
            left: self.left - across,
            top: self.top - down,
            right: self.right + across,
            bottom: self.bottom + down,
        }
    }

    pub(super) fn contains(&self, (x, y): Point) -> bool {
        (self.left..=self.right).contains(&x) && (self.top..=self.bottom).contains(&y)
    }

    /// Returns the part of the segment from `a` to `b` inside the box (Liang and Barsky, 1984).
    pub(super) fn clip(&self, a: Point, b: Point) -> Option<(Point, Point)> {
        let (dx, dy) = (b.0 - a.0, b.1 - a.1);
        let (mut enter, mut leave) = (0.0f64, 1.0f64);
        let edges = [
            (-dx, a.0 - self.left),
            (dx, self.right - a.0),
            (-dy, a.1 - self.top),
            (dy, self.bottom - a.1),
        ];
        for (speed, distance) in edges {
            if speed == 0.0 {
                if distance < 0.0 {
                    return None;
                }
            } else if speed < 0.0 {
                enter = enter.max(distance / speed);
            } else {
                leave = leave.min(distance / speed);
            }
        }
        // Clamped: for far-away points rounding could move the ends outside.
        let at = |t: f64| {
            let (x, y) = (a.0 + t * dx, a.1 + t * dy);
            (x.max(self.left).min(self.right), y.max(self.top).min(self.bottom))
        };
        (enter <= leave).then(|| (at(enter), at(leave)))
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Align {
    Left,
    Middle,
    Right,
}

#[derive(Clone, Debug)]
pub(super) enum Mark {
    Fill {
        area: Rect,
        colour: Rgb,
    },
    /// Many boxes of one colour; one path in an SVG, which keeps it small.
    Cells {
        areas: Vec<Rect>,
        colour: Rgb,
    },
    Stroke {
        points: Vec<Point>,
        colour: Rgb,
        width: f64,
        /// Lengths of dashes and gaps; `None` for a solid line.
        dash: Option<(f64, f64)>,
    },
    Polygon {
        points: Vec<Point>,
        colour: Rgb,
    },
    Dot {
        at: Point,
        radius: f64,
        colour: Rgb,
    },
    /// A picture whose pixels are drawn as boxes, without smoothing.
    Picture {
        area: Rect,
        bitmap: Bitmap,
    },
    Text {
        at: Point,
        text: String,
        style: TextStyle,
    },
}

/// All marks of a figure in drawing order.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    pub width: f64,
    pub height: f64,
    pub marks: Vec<Mark>,
}

/// Size, weight, colour and alignment of a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextStyle {
    pub size: f64,
    pub bold: bool,
    pub colour: Rgb,
    pub align: Align,
}

impl Scene {
    pub(super) fn new(width: f64, height: f64) -> Self {
        Self { width, height, marks: Vec::new() }
    }

    pub(super) fn fill(&mut self, area: Rect, colour: Rgb) {
        self.marks.push(Mark::Fill { area, colour });
    }

    pub(super) fn cells(&mut self, areas: Vec<Rect>, colour: Rgb) {
        if !areas.is_empty() {
            self.marks.push(Mark::Cells { areas, colour });
        }
    }

    /// Draws a box with a border of one unit inside it.
    pub(super) fn framed_rect(&mut self, area: Rect, ground: Rgb, edge: Rgb) {
        self.fill(area, edge);
        self.fill(area.grown(-1.0, -1.0), ground);
    }

    pub(super) fn stroke(&mut self, points: Vec<Point>, colour: Rgb, width: f64) {
        self.polyline(points, colour, width, None);
    }

    /// Draws a polyline of dashes and gaps of these lengths.
    pub(super) fn dashed(
        &mut self,
        points: &[Point],
        colour: Rgb,
        width: f64,
        dash_and_gap: (f64, f64),
    ) {
        self.polyline(points.to_vec(), colour, width, Some(dash_and_gap));
    }

    fn polyline(&mut self, points: Vec<Point>, colour: Rgb, width: f64, dash: Option<(f64, f64)>) {
        if points.len() > 1 {
            self.marks.push(Mark::Stroke { points, colour, width, dash });
        }
    }

    pub(super) fn dot(&mut self, at: Point, radius: f64, colour: Rgb) {
        self.marks.push(Mark::Dot { at, radius, colour });
    }

    pub(super) fn picture(&mut self, area: Rect, bitmap: Bitmap) {
        self.marks.push(Mark::Picture { area, bitmap });
    }

    pub(super) fn polygon(&mut self, points: Vec<Point>, colour: Rgb) {
        self.marks.push(Mark::Polygon { points, colour });
    }

    /// Draws text whose x-height is centred at `at.1`.
    pub(super) fn text(&mut self, at: Point, text: impl Into<String>, style: TextStyle) {
        let text = text.into();
        if !text.is_empty() {
            self.marks.push(Mark::Text { at, text, style });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clipping_keeps_what_is_inside() {
        let area = Rect { left: 0.0, top: 0.0, right: 10.0, bottom: 10.0 };
        assert_eq!(area.clip((-5.0, 5.0), (15.0, 5.0)), Some(((0.0, 5.0), (10.0, 5.0))));
        assert_eq!(area.clip((1.0, 1.0), (2.0, 2.0)), Some(((1.0, 1.0), (2.0, 2.0))));
        assert_eq!(area.clip((-5.0, -1.0), (15.0, -1.0)), None);
        assert_eq!(area.clip((-5.0, 8.0), (3.0, 16.0)), None);
        let (a, b) = area.clip((-1e17, 5.0), (1e17, 5.0)).unwrap();
        assert!(area.contains(a) && area.contains(b));
    }
}
