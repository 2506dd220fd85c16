//! ANSI escape sequences: colours become spans in HTML, or are removed for plain text.
//!
//! `ansi-to-html` keeps the colours of terminals, some of which can't be read on light or on dark
//! pages. The page has sixteen colours that can be read on both.

use std::iter::Peekable;
use std::str::Chars;

use super::escape::escape_into;

const ESC: char = '\u{1b}';

/// Style of the text at one point.
#[derive(Clone, Default, PartialEq)]
struct Style {
    fore: Option<Colour>,
    back: Option<Colour>,
    bold: bool,
    dim: bool,
    italic: bool,
    underline: bool,
}

/// Index into the sixteen colours of the page, which suit light and dark backgrounds.
type Colour = u8;

/// Converts text with escape sequences to HTML. Colours become spans; other sequences are removed.
pub fn to_html(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let mut look = Style::default();
    let mut open = false;
    walk(text, |piece| match piece {
        Piece::Text(plain) => escape_into(&mut out, plain),
        Piece::Codes(codes) => {
            let before = look.clone();
            apply(&mut look, codes);
            if look != before {
                if open {
                    out.push_str("</span>");
                }
                open = look != Style::default();
                if open {
                    open_span(&mut out, &look);
                }
            }
        }
    });
    if open {
        out.push_str("</span>");
    }
    out
}

/// Removes all escape sequences.
pub fn strip(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    walk(text, |piece| {
        if let Piece::Text(plain) = piece {
            out.push_str(plain);
        }
    });
    out
}

enum Piece<'a> {
    Text(&'a str),
    Codes(&'a [u32]),
}

fn walk(text: &str, mut each: impl FnMut(Piece<'_>)) {
    let mut rest = text;
    while let Some(at) = rest.find(ESC) {
        if at > 0 {
            each(Piece::Text(&rest[..at]));
        }
        let mut chars = rest[at + ESC.len_utf8()..].chars().peekable();
        match chars.next() {
            Some('[') => {
                if let Some(codes) = control_sequence(&mut chars) {
                    each(Piece::Codes(&codes));
                }
            }
            Some(']') => operating_system_command(&mut chars),
            // A sequence of two characters, or the end of the text.
            _ => {}
        }
        let left: usize = chars.map(char::len_utf8).sum();
        rest = &rest[rest.len() - left..];
    }
    if !rest.is_empty() {
        each(Piece::Text(rest));
    }
}

/// Reads `ESC [ ...` up to its final byte. Returns the numbers if it sets a style.
fn control_sequence(chars: &mut Peekable<Chars<'_>>) -> Option<Vec<u32>> {
    let mut body = String::new();
    for c in chars.by_ref() {
        match c {
            '\u{40}'..='\u{7e}' => {
                return (c == 'm')
                    .then(|| body.split([';', ':']).map(|n| n.parse().unwrap_or(0)).collect());
            }
            '\u{20}'..='\u{3f}' => body.push(c),
            _ => return None,
        }
    }
    None
}

/// Skips `ESC ] ... BEL` and `ESC ] ... ESC \` (links, window titles).
fn operating_system_command(chars: &mut Peekable<Chars<'_>>) {
    while let Some(c) = chars.next() {
        if c == '\u{7}' {
            return;
        }
        if c == ESC {
            chars.next_if_eq(&'\\');
            return;
        }
    }
}

fn apply(look: &mut Style, codes: &[u32]) {
    let mut codes = codes.iter().copied();
    while let Some(code) = codes.next() {
        match code {
            0 => *look = Style::default(),
            1 => look.bold = true,
            2 => look.dim = true,
            3 => look.italic = true,
            4 => look.underline = true,
            22 => (look.bold, look.dim) = (false, false),
            23 => look.italic = false,
            24 => look.underline = false,
            30..=37 => look.fore = Some((code - 30) as u8),
            38 => look.fore = extended(&mut codes),
            39 => look.fore = None,
            40..=47 => look.back = Some((code - 40) as u8),
            48 => look.back = extended(&mut codes),
            49 => look.back = None,
            90..=97 => look.fore = Some((code - 90 + 8) as u8),
            100..=107 => look.back = Some((code - 100 + 8) as u8),
            _ => {}
        }
    }
}

/// Reads an extended colour: `5;n` (256 colours) or `2;r;g;b`.
fn extended(codes: &mut impl Iterator<Item = u32>) -> Option<Colour> {
    let byte = |n: u32| u8::try_from(n).ok();
    match codes.next()? {
        5 => match byte(codes.next()?)? {
            n @ 0..=15 => Some(n),
            // The 6 x 6 x 6 cube, whose first step is larger; 24 greys follow.
            n @ 16..=231 => {
                let level = |i: u8| if i == 0 { 0 } else { 55 + 40 * i };
                let n = n - 16;
                Some(nearest(level(n / 36), level(n / 6 % 6), level(n % 6)))
            }
            _ => Some(GREY),
        },
        2 => {
            let (r, g, b) = (codes.next()?, codes.next()?, codes.next()?);
            Some(nearest(byte(r)?, byte(g)?, byte(b)?))
        }
        _ => None,
    }
}

fn open_span(out: &mut String, look: &Style) {
    let mut classes = Vec::new();
    for (colour, class) in [(look.fore, "af"), (look.back, "ab")] {
        classes.extend(colour.map(|n| format!("{class}{n}")));
    }
    for (on, class) in [
        (look.bold, "bold"),
        (look.dim, "dim"),
        (look.italic, "italic"),
        (look.underline, "underline"),
    ] {
        if on {
            classes.push(format!("a-{class}"));
        }
    }
    out.push_str(&format!("<span class=\"{}\">", classes.join(" ")));
}

const GREY: Colour = 8;

/// The colour of the page with the same hue. Colours of terminals can be illegible on the page.
fn nearest(r: u8, g: u8, b: u8) -> Colour {
    let (most, least) = (r.max(g).max(b), r.min(g).min(b));
    if most - least < 40 {
        return GREY;
    }
    let half = least + (most - least) / 2;
    match (r > half, g > half, b > half) {
        (true, false, false) => 1,
        (false, true, false) => 2,
        (true, true, false) => 3,
        (false, false, true) => 4,
        (true, false, true) => 5,
        (false, true, true) => 6,
        _ => GREY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_become_spans_and_text_is_escaped() {
        assert_eq!(
            to_html("\u{1b}[31;1merror\u{1b}[0m: a < b"),
            "<span class=\"af1 a-bold\">error</span>: a &lt; b"
        );
        assert_eq!(
            to_html("\u{1b}[38;5;196mred\u{1b}[39m \u{1b}[38;2;80;0;120mx"),
            "<span class=\"af1\">red</span> <span class=\"af5\">x</span>"
        );
        assert_eq!(to_html("\u{1b}[38;5;246m|"), "<span class=\"af8\">|</span>");
    }

    #[test]
    fn other_sequences_disappear_even_when_cut_off() {
        assert_eq!(strip("a\u{1b}[2Kb\u{1b}]8;;http://x\u{7}c\u{1b}]0;t\u{1b}\\d"), "abcd");
        assert_eq!(strip("end\u{1b}[3"), "end");
        assert_eq!(strip("end\u{1b}"), "end");
        assert_eq!(to_html("\u{1b}[38;5mx\u{1b}[48;2;1my"), "xy");
    }
}
