//! The page of a glyph: ink is a function of the distance to a stroke, so edges are smooth.

use super::renderer::GlyphRenderer;

/// Pixels along each side of a glyph.
pub(super) const SIDE: usize = 28;
/// Pixels of a glyph.
pub(super) const PIXELS: usize = SIDE * SIDE;

/// Position and radius of the pen, in pixels.
#[derive(Clone, Copy)]
pub(super) struct Dot {
    pub(super) at: (f32, f32),
    pub(super) radius: f32,
}

/// A page of pixels with ink from 0 (none) to 1 (full).
pub(super) struct Page {
    ink: [f32; PIXELS],
    /// Width of an edge in pixels.
    softness: f32,
}

impl Page {
    pub(super) fn new(softness: f32) -> Self {
        Self { ink: [0.0; PIXELS], softness }
    }

    /// Draws a straight line of this strength, 1 for full ink. Where lines overlap the darker one
    /// counts, so the segments of a stroke have no visible seams.
    pub(super) fn line(&mut self, from: Dot, to: Dot, strength: f32) {
        let (dx, dy) = (to.at.0 - from.at.0, to.at.1 - from.at.1);
        let length = dx * dx + dy * dy;
        let reach = from.radius.max(to.radius) + self.softness;
        let columns = span(from.at.0, to.at.0, reach);
        for row in span(from.at.1, to.at.1, reach) {
            for column in columns.clone() {
                // The distance is measured at the centre of the pixel.
                let (x, y) = (column as f32 + 0.5 - from.at.0, row as f32 + 0.5 - from.at.1);
                let along =
                    if length > 0.0 { ((x * dx + y * dy) / length).clamp(0.0, 1.0) } else { 0.0 };
                let (x, y) = (x - along * dx, y - along * dy);
                let radius = from.radius + along * (to.radius - from.radius);
                let beyond = (x * x + y * y).sqrt() - radius;
                let ink = strength * (0.5 - beyond / self.softness).clamp(0.0, 1.0);
                let pixel = &mut self.ink[row * SIDE + column];
                *pixel = pixel.max(ink);
            }
        }
    }

    /// Scales all ink on the page.
    pub(super) fn scale_ink(&mut self, contrast: f32) {
        self.ink.iter_mut().for_each(|ink| *ink *= contrast);
    }

    /// Returns the grey values, 0 to 255, without noise.
    pub(super) fn grey(&self) -> [u8; PIXELS] {
        self.ink.map(|ink| (255.0 * ink + 0.5) as u8)
    }

    /// Returns the grey values, 0 to 255, with pixel noise.
    pub(super) fn to_noisy_grey(&self, hand: &mut GlyphRenderer) -> [u8; PIXELS] {
        // One strength for the page, then a value per pixel.
        let noise = hand.between(0.0, 0.11);
        // `as` saturates: values beyond black become black.
        self.ink.map(|ink| (255.0 * (ink + noise * hand.normal()) + 0.5) as u8)
    }
}

/// Moves the centre of mass to the middle of the page, by whole pixels.
pub(super) fn centred(pixels: &[u8; PIXELS]) -> [u8; PIXELS] {
    let side = SIDE as i64;
    let (mut mass, mut x, mut y) = (0, 0, 0);
    for (i, &pixel) in (0..).zip(pixels) {
        let pixel = i64::from(pixel);
        mass += pixel;
        x += pixel * (i % side);
        y += pixel * (i / side);
    }
    // The middle is at (side - 1) / 2; rounded to the nearest pixel.
    let shift = |sum: i64| match mass {
        0 => 0,
        mass => ((side - 1) * mass - 2 * sum + mass).div_euclid(2 * mass),
    };
    let (right, down) = (shift(x), shift(y));
    std::array::from_fn(|i| {
        let (column, row) = (i as i64 % side - right, i as i64 / side - down);
        if (0..side).contains(&column) && (0..side).contains(&row) {
            pixels[(row * side + column) as usize]
        } else {
            0
        }
    })
}

/// Returns the rows or columns near a segment, clipped to the page.
fn span(a: f32, b: f32, reach: f32) -> std::ops::Range<usize> {
    let low = (a.min(b) - reach).max(0.0) as usize;
    let high = (a.max(b) + reach + 1.0).clamp(0.0, SIDE as f32) as usize;
    low.min(high)..high
}
