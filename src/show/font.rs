//! The font of the figures: DejaVu Sans, embedded by the crate `dejavu`.
//!
//! Licence: the fonts are under the Bitstream Vera and Arev licences (free to use, embed and
//! pass on with their notices; the DejaVu changes are in the public domain). The notices are in
//! `LICENSES-fonts.md` beside this file and must go along with every binary that embeds the
//! fonts. The crate that wraps them is MIT or Apache-2.0.

use plotters::style::{FontDesc, FontFamily, FontStyle, register_font};
use std::sync::Once;

/// What an SVG asks for. The viewer's own copy is used where it has one (Linux, most notebooks);
/// Verdana has the same widths within a few percent.
pub(super) const FAMILY: &str = "DejaVu Sans, Verdana, sans-serif";

/// Height of a line of DejaVu Sans (ascender - descender) over its em: plotters' bitmap text is
/// sized by that height, everything else by the em.
pub(super) const LINE_PER_EM: f64 = (1901.0 + 483.0) / 2048.0;

/// Share of the em to fall back on where a text can't be measured.
const MEAN_ADVANCE: f64 = 0.6;

/// A plotters font of `size` in plotters' own measure. The first call registers the fonts.
pub(super) fn font(size: f64, bold: bool) -> FontDesc<'static> {
    static REGISTER: Once = Once::new();
    REGISTER.call_once(|| {
        let faces =
            [(FontStyle::Normal, dejavu::sans::regular()), (FontStyle::Bold, dejavu::sans::bold())];
        for (style, bytes) in faces {
            // A font that can't be parsed shows as text of estimated width in the SVG; there is
            // nothing a user could do about it. The test below sees to it that it parses.
            let _ = register_font(FAMILY, style, bytes);
        }
    });
    let style = if bold { FontStyle::Bold } else { FontStyle::Normal };
    FontDesc::new(FontFamily::Name(FAMILY), size, style)
}

/// Width of `text` in units of the em times `size`.
pub(super) fn width(text: &str, size: f64, bold: bool) -> f64 {
    // Plotters gives whole pixels: measured large, they are thousandths of an em.
    const EM: f64 = 1000.0;
    match font(EM * LINE_PER_EM, bold).layout_box(text) {
        Ok((_, (right, _))) => f64::from(right) / EM * size,
        Err(_) => text.chars().count() as f64 * MEAN_ADVANCE * size,
    }
}

/// `text`, cut with an ellipsis where it is wider than `room`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_faces_are_registered_and_measured() {
        assert!(font(10.0, false).layout_box("m").is_ok());
        // Advances of DejaVu Sans: "m" 1995 / 2048 em, bold 2134 / 2048.
        assert!((width("m", 1.0, false) - 0.974).abs() < 0.002);
        assert!((width("m", 1.0, true) - 1.042).abs() < 0.002);
        assert!((width("mm", 24.0, false) - 2.0 * width("m", 24.0, false)).abs() < 0.1);
    }

    #[test]
    fn long_text_is_cut_to_its_room() {
        let cut = fit("a very long title indeed", 12.0, true, 80.0);
        assert!(cut.ends_with('…') && width(&cut, 12.0, true) <= 80.0, "{cut}");
        assert_eq!(fit("short", 12.0, true, 80.0), "short");
        assert_eq!(fit("no room at all", 12.0, false, 1.0), "");
    }
}
