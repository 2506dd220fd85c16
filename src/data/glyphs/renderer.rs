//! Draws a glyph with random variations of its shape and pen.
//!
//! It uses sums, products, quotients and square roots of `f32` only: these give equal bits on every
//! machine, so glyphs and their hash are equal too.

use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::page::{Dot, Page, SIDE};
use super::shapes::{SHAPES, Stroke};
use crate::data::canvas::turn;
use crate::data::signed_distance::Point;
use crate::data::synthetic;

/// Renderer of glyphs, which draws the random variations from one stream.
pub(super) struct GlyphRenderer {
    rng: ChaCha8Rng,
}

/// The map from shape coordinates to the page: bend, shear, rotation, scale, shift.
struct Pose {
    /// Bend: weights of the squares and the product of both coordinates.
    bend: [f32; 6],
    width: f32,
    height: f32,
    slant: f32,
    /// Cosine and sine of the rotation.
    turn: Point,
    centre: Point,
}

impl Pose {
    fn place(&self, (x, y): Point) -> Point {
        // Moves the centre of the shape to the origin and scales its height to 1.
        let (x, y) = ((x - 5.0) / 14.0, (y - 7.0) / 14.0);
        let b = &self.bend;
        let bent = (
            x + b[0] * y * y + b[1] * x * y + b[2] * x * x,
            y + b[3] * x * x + b[4] * x * y + b[5] * y * y,
        );
        let (x, y) =
            (bent.0 * self.width - bent.1 * self.slant * self.height, bent.1 * self.height);
        let (cos, sin) = self.turn;
        (self.centre.0 + cos * x - sin * y, self.centre.1 + sin * x + cos * y)
    }
}

impl GlyphRenderer {
    pub(super) fn new(rng: ChaCha8Rng) -> Self {
        Self { rng }
    }

    /// Draws a digit on an empty page.
    pub(super) fn write(&mut self, digit: usize) -> Page {
        let shape = self.pick(SHAPES[digit]);
        let pose = self.pose();
        let pen = self.between(0.75, 1.55);
        let mut page = Page::new(self.between(0.8, 1.6));
        for stroke in shape {
            let points = self.jittered(stroke, 0.36);
            self.trace(&points, &pose, pen).iter().for_each(|&(from, to)| page.line(from, to, 1.0));
        }
        page.scale_ink(self.between(0.62, 1.0));
        self.stray_marks(&mut page);
        page
    }

    /// Draws a digit of strong variation in a square box of 20 x 20 pixels at the middle of an
    /// empty page, as large as fits.
    pub(super) fn write_in_box(&mut self, digit: usize) -> Page {
        const BOX: f32 = 20.0;
        let shape = self.pick(SHAPES[digit]);
        let pose = self.wild_pose();
        let (jitter, pen) = (self.between(0.3, 1.1), self.between(0.75, 1.9));
        let mut page = Page::new(self.between(0.6, 1.5));
        let mut lines = Vec::new();
        for stroke in shape {
            let points = self.jittered(stroke, jitter);
            lines.extend(self.trace(&points, &pose, pen));
        }
        let ends = || lines.iter().flat_map(|(from, to)| [from.at, to.at]);
        let least = ends().fold((f32::MAX, f32::MAX), |a, b| (a.0.min(b.0), a.1.min(b.1)));
        let most = ends().fold((f32::MIN, f32::MIN), |a, b| (a.0.max(b.0), a.1.max(b.1)));
        let scale = (BOX - 2.0 * pen) / (most.0 - least.0).max(most.1 - least.1);
        let centre = (0.5 * (least.0 + most.0), 0.5 * (least.1 + most.1));
        let half = SIDE as f32 / 2.0;
        let moved = |dot: &Dot| {
            let at = ((dot.at.0 - centre.0) * scale + half, (dot.at.1 - centre.1) * scale + half);
            Dot { at, radius: dot.radius }
        };
        lines.iter().for_each(|(from, to)| page.line(moved(from), moved(to), 1.0));
        page.scale_ink(self.between(0.9, 1.15));
        page
    }

    /// Draws an approximately normal number: mean 0, standard deviation 1, absolute value at most
    /// 3.5.
    pub(super) fn normal(&mut self) -> f32 {
        synthetic::approx_normal(&mut self.rng)
    }

    pub(super) fn between(&mut self, low: f32, high: f32) -> f32 {
        synthetic::uniform(&mut self.rng, low, high)
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.rng.next_u32() as usize % from.len()]
    }

    fn pose(&mut self) -> Pose {
        let height = self.between(15.5, 21.5);
        let lean = (0.20 * self.normal() + 0.06).clamp(-0.4, 0.5);
        let turn = turn((0.13 * self.normal()).clamp(-0.32, 0.32));
        let middle = SIDE as f32 / 2.0;
        Pose {
            bend: std::array::from_fn(|_| 0.13 * self.normal()),
            width: height * self.between(0.80, 1.22),
            height,
            slant: lean,
            turn,
            centre: (middle + self.between(-2.8, 2.8), middle + self.between(-2.3, 2.3)),
        }
    }

    /// Returns a pose of strong variation, of height 1 around the origin.
    fn wild_pose(&mut self) -> Pose {
        let turn = turn((0.26 * self.normal()).clamp(-0.4, 0.4));
        Pose {
            bend: std::array::from_fn(|_| 0.26 * self.normal()),
            width: self.between(0.75, 1.8),
            height: 1.0,
            slant: (0.44 * self.normal() + 0.06).clamp(-0.6, 0.7),
            turn,
            centre: (0.0, 0.0),
        }
    }

    /// Shifts each point at random. A corner (a point that is given twice) stays one point.
    fn jittered(&mut self, stroke: Stroke, scale: f32) -> Vec<Point> {
        let mut moved: Vec<Point> = Vec::with_capacity(stroke.len());
        for (i, &(x, y)) in stroke.iter().enumerate() {
            let corner = i > 0 && stroke[i - 1] == (x, y);
            moved.push(match moved.last() {
                Some(&last) if corner => last,
                _ => (x + scale * self.normal(), y + scale * self.normal()),
            });
        }
        moved
    }

    /// Returns a smooth curve through the points, with varying pressure, as straight lines.
    fn trace(&mut self, points: &[Point], pose: &Pose, pen: f32) -> Vec<(Dot, Dot)> {
        /// Number of straight segments between two points of a stroke.
        const PIECES: usize = 10;
        let mut lines = Vec::new();
        let mut pressure = pen * (1.0 + 0.12 * self.normal());
        for i in 1..points.len() {
            let (from, to) = (points[i - 1], points[i]);
            if from == to {
                continue;
            }
            // At an end or a corner, the point itself replaces the missing neighbour.
            let before = if i >= 2 { points[i - 2] } else { from };
            let after = points.get(i + 1).copied().unwrap_or(to);
            let next = (pressure + pen * 0.10 * self.normal()).clamp(0.65 * pen, 1.35 * pen);
            let mut last = Dot { at: pose.place(from), radius: pressure };
            for piece in 1..=PIECES {
                let t = piece as f32 / PIECES as f32;
                let at = pose.place(curve(before, from, to, after, t));
                let dot = Dot { at, radius: pressure + t * (next - pressure) };
                lines.push((last, dot));
                last = dot;
            }
            pressure = next;
        }
        lines
    }

    /// Draws specks and scratches, paler than the digit.
    fn stray_marks(&mut self, page: &mut Page) {
        for _ in 0..self.pick(&[0, 0, 1, 1, 2, 3]) {
            let side = SIDE as f32;
            let from = (self.between(0.0, side), self.between(0.0, side));
            let to = (from.0 + 1.7 * self.normal(), from.1 + 1.7 * self.normal());
            let radius = self.between(0.3, 0.8);
            let strength = self.between(0.25, 0.6);
            page.line(Dot { at: from, radius }, Dot { at: to, radius }, strength);
        }
    }
}

/// Returns the Catmull-Rom curve from `b` to `c`, `t` from 0 to 1.
fn curve(a: Point, b: Point, c: Point, d: Point, t: f32) -> Point {
    let axis = |a: f32, b: f32, c: f32, d: f32| {
        let cubic = 3.0 * (b - c) + d - a;
        let square = 2.0 * a - 5.0 * b + 4.0 * c - d;
        b + 0.5 * t * ((c - a) + t * (square + t * cubic))
    };
    (axis(a.0, b.0, c.0, d.0), axis(a.1, b.1, c.1, d.1))
}
