//! The font of the figures: DejaVu Sans, embedded by the crate `dejavu`.
//!
//! Licence: the fonts are under the Bitstream Vera and Arev licences (free to use, embed and
//! pass on with their notices; the DejaVu changes are in the public domain). The notices are in
//! `LICENSES-fonts.md` beside this file and must go along with every binary that embeds the
//! fonts. The crate that wraps them is MIT or Apache-2.0.

use ab_glyph::{Font, FontRef, GlyphId, OutlineCurve, PxScale, ScaleFont};
use std::sync::LazyLock;
use tiny_skia::{Path, PathBuilder};

/// Font family of SVG documents. A viewer without DejaVu Sans uses Verdana, whose advance widths
/// differ by a few percent.
pub(super) const FONT_FAMILY: &str = "DejaVu Sans, Verdana, sans-serif";

/// Line height of DejaVu Sans (ascender - descender) in ems. `ab_glyph` scales by the line height;
/// SVG and our own metrics use the em.
const LINE_HEIGHT_EM: f64 = (1901.0 + 483.0) / 2048.0;

/// x-height in ems. Text is centred on it, as in the SVG.
pub(super) const X_HEIGHT_EM: f64 = 0.547;

/// Size of the em in which text is measured and its outlines are placed.
const EM: f64 = 1000.0;

/// Returns the face; `None` if it does not parse, which a test excludes.
fn face(bold: bool) -> Option<&'static FontRef<'static>> {
    type Face = LazyLock<Option<FontRef<'static>>>;
    static REGULAR: Face = LazyLock::new(|| FontRef::try_from_slice(dejavu::sans::regular()).ok());
    static BOLD: Face = LazyLock::new(|| FontRef::try_from_slice(dejavu::sans::bold()).ok());
    if bold { BOLD.as_ref() } else { REGULAR.as_ref() }
}

/// Returns the glyphs of `text` with their left ends, and the right end of the last, all in
/// thousandths of an em.
fn placed(text: &str, face: &FontRef<'_>) -> (Vec<(GlyphId, f32)>, f32) {
    let scaled = face.as_scaled(PxScale::from((EM * LINE_HEIGHT_EM) as f32));
    let (mut glyphs, mut x) = (Vec::new(), 0.0);
    for letter in text.chars() {
        let id = scaled.glyph_id(letter);
        if let Some((before, _)) = glyphs.last() {
            x += scaled.kern(*before, id);
        }
        glyphs.push((id, x));
        x += scaled.h_advance(id);
    }
    (glyphs, x)
}

/// Returns the width of `text` set with an em of `size`.
pub(super) fn text_width(text: &str, size: f64, bold: bool) -> f64 {
    face(bold).map_or(0.0, |face| f64::from(placed(text, face).1.trunc()) / EM * size)
}

/// Returns the outlines of `text` set with an em of `size`, whose base line starts at `start`.
pub(super) fn outline(text: &str, size: f64, bold: bool, start: (f64, f64)) -> Option<Path> {
    let face = face(bold)?;
    let unit = size as f32 / face.units_per_em()?;
    let mut path = PathBuilder::new();
    for (glyph, left) in placed(text, face).0 {
        let left = start.0 as f32 + left * (size / EM) as f32;
        let at = |p: ab_glyph::Point| (left + p.x * unit, start.1 as f32 - p.y * unit);
        let mut end = None;
        for curve in face.outline(glyph).into_iter().flat_map(|outline| outline.curves) {
            let (OutlineCurve::Line(from, to)
            | OutlineCurve::Quad(from, _, to)
            | OutlineCurve::Cubic(from, _, _, to)) = curve;
            if end.replace(to) != Some(from) {
                path.move_to(at(from).0, at(from).1);
            }
            let (x, y) = at(to);
            match curve {
                OutlineCurve::Line(..) => path.line_to(x, y),
                OutlineCurve::Quad(_, a, _) => path.quad_to(at(a).0, at(a).1, x, y),
                OutlineCurve::Cubic(_, a, b, _) => {
                    path.cubic_to(at(a).0, at(a).1, at(b).0, at(b).1, x, y);
                }
            }
        }
    }
    path.finish()
}

/// Returns `text`, truncated with an ellipsis where it is wider than `max_width`.
pub(super) fn truncate_to_width(text: &str, size: f64, bold: bool, max_width: f64) -> String {
    if text_width(text, size, bold) <= max_width {
        return text.to_string();
    }
    let mut kept: Vec<char> = text.chars().collect();
    while kept.pop().is_some() {
        let shorter = kept.iter().collect::<String>().trim_end().to_string() + "…";
        if text_width(&shorter, size, bold) <= max_width {
            return shorter;
        }
    }
    String::new()
}

/// Returns `text` broken between words into lines no wider than `max_width`. A word that is wider
/// is cut.
pub(super) fn wrap_to_width(text: &str, size: f64, bold: bool, max_width: f64) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split(' ') {
        let longer = match lines.last() {
            Some(line) if !line.is_empty() => format!("{line} {word}"),
            _ => word.to_owned(),
        };
        if text_width(&longer, size, bold) <= max_width || longer == word {
            lines.pop();
            lines.push(truncate_to_width(&longer, size, bold, max_width));
        } else {
            lines.push(truncate_to_width(word, size, bold, max_width));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_notes_are_broken_between_words_and_nothing_is_lost() {
        let text = "a note that goes on and on until it does not fit into any single line";
        let lines = wrap_to_width(text, 11.0, false, 120.0);
        assert!(lines.len() > 2 && lines.iter().all(|l| text_width(l, 11.0, false) <= 120.0));
        assert_eq!(lines.join(" "), text);
        assert_eq!(wrap_to_width("short", 11.0, false, 120.0), ["short"]);
        assert_eq!(wrap_to_width("", 11.0, false, 120.0), [""]);
    }

    #[test]
    fn both_faces_parse_and_are_measured() {
        assert!(face(false).is_some() && face(true).is_some());
        // Advances of DejaVu Sans: "m" 1995 / 2048 em, bold 2134 / 2048.
        assert!((text_width("m", 1.0, false) - 0.974).abs() < 0.002);
        assert!((text_width("m", 1.0, true) - 1.042).abs() < 0.002);
        assert!((text_width("mm", 24.0, false) - 2.0 * text_width("m", 24.0, false)).abs() < 0.1);
    }

    #[test]
    fn outlines_fill_the_measured_width_and_stand_on_the_base_line() {
        for bold in [false, true] {
            let bounds = outline("HHHH", 100.0, bold, (10.0, 200.0)).unwrap().bounds();
            let end = 10.0 + text_width("HHHH", 100.0, bold);
            // The side bearings of "H" are about a tenth of an em.
            let (left, right) = (f64::from(bounds.left()), f64::from(bounds.right()));
            assert!((15.0..30.0).contains(&left) && right < end && right > end - 15.0);
            assert!((bounds.bottom() - 200.0).abs() < 1e-3 && bounds.top() < 130.0, "{bounds:?}");
        }
    }

    #[test]
    fn long_text_is_cut_to_its_room() {
        let cut = truncate_to_width("a very long title indeed", 12.0, true, 80.0);
        assert!(cut.ends_with('…') && text_width(&cut, 12.0, true) <= 80.0, "{cut}");
        assert_eq!(truncate_to_width("short", 12.0, true, 80.0), "short");
        assert_eq!(truncate_to_width("no room at all", 12.0, false, 1.0), "");
    }
}
