//! Colours of the figures.
//!
//! Figures are drawn on an opaque light card with a hairline border, in light and dark themes. On
//! a transparent background no five hues have a contrast of 4.5 : 1 (WCAG 2.2, 1.4.3) both on
//! white and on the dark grey of GitHub. On an opaque card the contrast is known, and a figure
//! copied into a slide or a paper looks the same.
//!
//! The series colours are the five of the Okabe-Ito palette for colour-blind readers that reach
//! 3 : 1 against the card (WCAG 2.2, 1.4.11); orange, sky blue and yellow don't. Series also differ
//! by marker and approximations by dashes, so no information rests on colour alone.

/// An sRGB colour: red, green, blue.
pub type Rgb = (u8, u8, u8);

/// Returns the colour as `#0072b2`.
pub(super) fn hex((red, green, blue): Rgb) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Colour of the background of every figure.
pub(crate) const CARD: Rgb = (0xff, 0xff, 0xff);
/// Colour of the border of the card.
pub(crate) const BORDER: Rgb = (0xd0, 0xd7, 0xde);
/// Colour of titles, values and names.
pub(crate) const INK: Rgb = (0x1f, 0x23, 0x28);
/// Colour of tick labels, axis names and remarks.
pub(crate) const MUTED: Rgb = (0x59, 0x63, 0x6e);
/// Colour of grid lines.
pub const GRID: Rgb = (0xe4, 0xe8, 0xec);
/// Colour of axis lines.
pub(crate) const AXIS: Rgb = (0x81, 0x8b, 0x98);
/// Colour of reference lines.
pub(crate) const REFERENCE: Rgb = (0x59, 0x63, 0x6e);
/// Colour of the text of a badge.
pub(crate) const BADGE_INK: Rgb = (0x7a, 0x3e, 0x00);
/// Colour of the background of a badge.
pub(crate) const BADGE: Rgb = (0xff, 0xf3, 0xe0);
/// Colour of the edge of a badge.
pub(crate) const BADGE_EDGE: Rgb = (0xe0, 0xb0, 0x72);

/// Colour of kept coordinates, in figures of masks.
pub const KEPT: Rgb = SERIES[0];
/// Colour of dropped coordinates, where they are drawn beside kept ones.
pub const DROPPED: Rgb = AXIS;

/// Series colours: Okabe and Ito's blue, vermillion, bluish green, reddish purple, black.
pub const SERIES: [Rgb; 5] = [
    (0x00, 0x72, 0xb2),
    (0xd5, 0x5e, 0x00),
    (0x00, 0x9e, 0x73),
    (0xcc, 0x79, 0xa7),
    (0x00, 0x00, 0x00),
];

/// Returns the colour of series number `i`, cyclically.
pub fn series(i: usize) -> Rgb {
    SERIES[i % SERIES.len()]
}

/// Blends `colour` with the card: `share` 1 gives the colour, 0 the card.
pub(crate) fn tint(colour: Rgb, share: f64) -> Rgb {
    let mix = |c: u8, card: u8| {
        (f64::from(c) * share + f64::from(card) * (1.0 - share)).round().clamp(0.0, 255.0) as u8
    };
    (mix(colour.0, CARD.0), mix(colour.1, CARD.1), mix(colour.2, CARD.2))
}

/// Returns a shade of blue: almost white for 0, saturated for 1. NaN counts as 0.
pub(crate) fn shade(share: f64) -> Rgb {
    let share = if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) };
    tint(SERIES[0], 0.06 + 0.94 * share)
}

/// Returns a colour for a value with a sign: blue for -1, almost white for 0, orange for 1. NaN
/// counts as 0.
pub fn diverging(value: f64) -> Rgb {
    const ORANGE: Rgb = (0xd5, 0x5e, 0x00);
    const BLUE: Rgb = (0x00, 0x4b, 0x8d);
    let value = if value.is_nan() { 0.0 } else { value.clamp(-1.0, 1.0) };
    tint(if value < 0.0 { BLUE } else { ORANGE }, 0.03 + 0.97 * value.abs())
}

/// Returns the text colour with the higher contrast on this background: ink or card.
pub(crate) fn text_colour_on(ground: Rgb) -> Rgb {
    if contrast(INK, ground) >= contrast(CARD, ground) { INK } else { CARD }
}

/// Returns the contrast ratio of two colours, 1 to 21 (WCAG 2.2, definition of contrast ratio).
pub fn contrast(a: Rgb, b: Rgb) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

fn luminance((r, g, b): Rgb) -> f64 {
    0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b)
}

fn linear(channel: u8) -> f64 {
    let c = f64::from(channel) / 255.0;
    if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contrast_is_one_to_itself_and_twenty_one_from_black_to_white() {
        assert!((contrast((0, 0, 0), (255, 255, 255)) - 21.0).abs() < 1e-9);
        assert!((contrast(INK, INK) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn every_text_colour_reads_on_its_ground() {
        for (ink, ground) in [(INK, CARD), (MUTED, CARD), (REFERENCE, CARD), (BADGE_INK, BADGE)] {
            assert!(contrast(ink, ground) >= 4.5, "{ink:?} on {ground:?}");
        }
        assert!(contrast(GRID, CARD) < 1.5, "the grid should stay behind the data");
    }

    #[test]
    fn every_series_colour_reaches_three_to_one_on_the_card() {
        for colour in SERIES {
            assert!(contrast(colour, CARD) >= 3.0, "{colour:?}: {}", contrast(colour, CARD));
        }
        let orange = (0xe6, 0x9f, 0x00);
        assert!(contrast(orange, CARD) < 3.0, "the check would let orange pass");
    }

    #[test]
    fn numbers_read_on_every_shade_and_shades_only_darken() {
        let mut last = 0.0;
        for share in (0..=20).map(|i| f64::from(i) / 20.0) {
            let ground = shade(share);
            // Between these shades no ink reaches 4.5 : 1; heat maps stay below.
            let is_ground = share <= 0.75 || share >= 0.95;
            assert_eq!(contrast(text_colour_on(ground), ground) >= 4.5, is_ground, "{share}");
            assert!(contrast(CARD, ground) > last, "{share}");
            last = contrast(CARD, ground);
        }
        assert!(contrast(DROPPED, CARD) >= 3.0 && contrast(KEPT, CARD) >= 3.0);
        assert_eq!(shade(f64::NAN), shade(0.0));
    }

    #[test]
    fn values_with_a_sign_are_blue_or_orange_and_equally_dark() {
        let (zero, low, high) = (diverging(0.0), diverging(-1.0), diverging(1.0));
        assert!(contrast(zero, CARD) < 1.15, "{zero:?}");
        assert!(low.2 > low.0 && high.0 > high.2);
        assert_eq!((diverging(-9.0), diverging(f64::NAN)), (low, zero));
        for share in (1..=10).map(|i| f64::from(i) / 10.0) {
            let (less, more) = (diverging(-share), diverging(share));
            assert!(less.0 < less.2 && more.2 < more.0, "{less:?} {more:?}");
        }
    }

    /// Red-green blindness, complete: matrices of Machado, Oliveira and Fernandes (2009), table 1,
    /// severity 1.0, on linear RGB. Distance: Euclidean in linear RGB.
    #[test]
    fn series_colours_stay_apart_for_colour_blind_readers() {
        const PROTAN: [[f64; 3]; 3] = [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ];
        const DEUTAN: [[f64; 3]; 3] = [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ];
        let seen = |(r, g, b): Rgb, m: &[[f64; 3]; 3]| {
            let rgb = [linear(r), linear(g), linear(b)];
            m.map(|row| row.iter().zip(rgb).map(|(a, b)| a * b).sum::<f64>())
        };
        let apart = |a: Rgb, b: Rgb, m: &[[f64; 3]; 3]| {
            let (a, b) = (seen(a, m), seen(b, m));
            a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
        };
        for m in [PROTAN, DEUTAN] {
            for (i, &a) in SERIES.iter().enumerate() {
                for &b in &SERIES[..i] {
                    assert!(apart(a, b, &m) > 0.15, "{a:?} and {b:?}: {}", apart(a, b, &m));
                }
            }
            let (red, green) = ((0xa0, 0x60, 0x30), (0x80, 0x70, 0x30));
            assert!(apart(red, green, &m) < 0.15, "the check would let a red-green pair pass");
        }
    }
}
