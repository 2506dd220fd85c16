//! The font of the figures: DejaVu Sans, embedded by the crate `dejavu`.
//!
//! Licence: the fonts are under the Bitstream Vera and Arev licences (free to use, embed and
//! pass on with their notices; the DejaVu changes are in the public domain). The notices are in
//! `LICENSES-fonts.md` beside this file and must go along with every binary that embeds the
//! fonts. The crate that wraps them is MIT or Apache-2.0.

use ab_glyph::{Font, FontRef, PxScale, ScaleFont, point};
use plotters::style::{FontDesc, FontFamily, FontStyle, register_font};
use std::sync::{LazyLock, Once};

/// Font family of SVG documents. A viewer without DejaVu Sans uses Verdana, whose advance widths
/// differ by a few percent.
pub(super) const FAMILY: &str = "DejaVu Sans, Verdana, sans-serif";

/// Line height of DejaVu Sans (ascender - descender) in ems. Plotters sizes bitmap text by the line
/// height; SVG and our own metrics use the em.
pub(super) const LINE_PER_EM: f64 = (1901.0 + 483.0) / 2048.0;

/// x-height in ems. Text is centred on it, as in the SVG backend.
pub(super) const X_HEIGHT: f64 = 0.547;

/// Mean advance width in ems, used where a text can't be measured.
const MEAN_ADVANCE: f64 = 0.6;

/// A plotters font; `size` is the line height. The first call registers the fonts.
pub(super) fn font(size: f64, bold: bool) -> FontDesc<'static> {
    static REGISTER: Once = Once::new();
    REGISTER.call_once(|| {
        let faces =
            [(FontStyle::Normal, dejavu::sans::regular()), (FontStyle::Bold, dejavu::sans::bold())];
        for (style, bytes) in faces {
            // Without a registered font widths are estimated, so the error is ignored. A test
            // checks that both faces parse.
            let _ = register_font(FAMILY, style, bytes);
        }
    });
    let style = if bold { FontStyle::Bold } else { FontStyle::Normal };
    FontDesc::new(FontFamily::Name(FAMILY), size, style)
}

/// Width of `text` set with an em of `size`.
pub(super) fn width(text: &str, size: f64, bold: bool) -> f64 {
    // Plotters returns whole pixels, so the text is measured at a large size.
    const EM: f64 = 1000.0;
    match font(EM * LINE_PER_EM, bold).layout_box(text) {
        Ok((_, (right, _))) => f64::from(right) / EM * size,
        Err(_) => text.chars().count() as f64 * MEAN_ADVANCE * size,
    }
}

/// Rasterises `text`: calls `dab` with each covered pixel and its coverage. `em` is in pixels,
/// `start` is the left end of the base line.
///
/// Plotters' bitmap text ignores the left side bearing of glyphs, which spaces letters unevenly.
pub(super) fn paint(
    text: &str,
    em: f64,
    bold: bool,
    start: (f64, f64),
    mut dab: impl FnMut(i32, i32, f32),
) {
    type Face = Option<FontRef<'static>>;
    static REGULAR: LazyLock<Face> =
        LazyLock::new(|| FontRef::try_from_slice(dejavu::sans::regular()).ok());
    static BOLD: LazyLock<Face> =
        LazyLock::new(|| FontRef::try_from_slice(dejavu::sans::bold()).ok());
    let Some(face) = (if bold { &*BOLD } else { &*REGULAR }) else { return };
    let scale = PxScale::from((em * LINE_PER_EM) as f32);
    let scaled = face.as_scaled(scale);
    let (mut x, y) = (start.0 as f32, start.1 as f32);
    let mut before = None;
    for letter in text.chars() {
        let id = face.glyph_id(letter);
        x += before.map_or(0.0, |before| scaled.kern(before, id));
        if let Some(outline) = face.outline_glyph(id.with_scale_and_position(scale, point(x, y))) {
            let corner = outline.px_bounds().min;
            outline.draw(|column, row, covered| {
                dab(corner.x as i32 + column as i32, corner.y as i32 + row as i32, covered);
            });
        }
        x += scaled.h_advance(id);
        before = Some(id);
    }
}

/// `text`, truncated with an ellipsis where it is wider than `room`.
pub(super) fn fit(text: &str, size: f64, bold: bool, room: f64) -> String {
    if width(text, size, bold) <= room {
        return text.to_string();
    }
    let mut kept: Vec<char> = text.chars().collect();
    while kept.pop().is_some() {
        let shorter = kept.iter().collect::<String>().trim_end().to_string() + "…";
        if width(&shorter, size, bold) <= room {
            return shorter;
        }
    }
    String::new()
}

/// `text` broken between words into lines no wider than `room`. A word that is wider is cut.
pub(super) fn wrapped(text: &str, size: f64, bold: bool, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split(' ') {
        let longer = match lines.last() {
            Some(line) if !line.is_empty() => format!("{line} {word}"),
            _ => word.to_owned(),
        };
        if width(&longer, size, bold) <= room || longer == word {
            lines.pop();
            lines.push(fit(&longer, size, bold, room));
        } else {
            lines.push(fit(word, size, bold, room));
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
        let lines = wrapped(text, 11.0, false, 120.0);
        assert!(lines.len() > 2 && lines.iter().all(|l| width(l, 11.0, false) <= 120.0));
        assert_eq!(lines.join(" "), text);
        assert_eq!(wrapped("short", 11.0, false, 120.0), ["short"]);
        assert_eq!(wrapped("", 11.0, false, 120.0), [""]);
    }

    #[test]
    fn both_faces_are_registered_and_measured() {
        assert!(font(10.0, false).layout_box("m").is_ok());
        // Advances of DejaVu Sans: "m" 1995 / 2048 em, bold 2134 / 2048.
        assert!((width("m", 1.0, false) - 0.974).abs() < 0.002);
        assert!((width("m", 1.0, true) - 1.042).abs() < 0.002);
        assert!((width("mm", 24.0, false) - 2.0 * width("m", 24.0, false)).abs() < 0.1);
    }

    #[test]
    fn painted_letters_fill_the_measured_width_and_stand_on_the_base_line() {
        for bold in [false, true] {
            let (mut left, mut right, mut low, mut ink) = (i32::MAX, i32::MIN, i32::MIN, 0.0);
            paint("HHHH", 100.0, bold, (10.0, 200.0), |x, y, covered| {
                if covered > 0.5 {
                    left = left.min(x);
                    right = right.max(x);
                    low = low.max(y);
                    ink += covered;
                }
            });
            let end = 10.0 + width("HHHH", 100.0, bold);
            // The side bearings of "H" are about a tenth of an em.
            assert!(
                (15..30).contains(&left) && f64::from(right) < end && f64::from(right) > end - 15.0
            );
            assert_eq!(low, 199);
            assert!(ink > 4.0 * 1500.0, "{ink}");
        }
    }

    #[test]
    fn long_text_is_cut_to_its_room() {
        let cut = fit("a very long title indeed", 12.0, true, 80.0);
        assert!(cut.ends_with('…') && width(&cut, 12.0, true) <= 80.0, "{cut}");
        assert_eq!(fit("short", 12.0, true, 80.0), "short");
        assert_eq!(fit("no room at all", 12.0, false, 1.0), "");
    }
}
