//! ANSI escape sequences: colours become spans in HTML, or are removed for plain text.
//!
//! `anstyle-parse` finds the sequences. `ansi-to-html` would keep the colours of terminals, some of
//! which can't be read on light or on dark pages; the page has sixteen that can be read on both.

use anstyle_parse::{Params, Parser, Perform};

use super::escape::escape;

/// Style of the text at one point.
#[derive(Clone, Copy, Default, PartialEq)]
struct Style {
    foreground: Option<Colour>,
    background: Option<Colour>,
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
    for (look, text) in pieces(text) {
        if look == Style::default() {
            out.push_str(&escape(&text));
        } else {
            out.push_str(&format!("<span class=\"{}\">{}</span>", classes(look), escape(&text)));
        }
    }
    out
}

/// Removes all escape sequences.
pub fn strip(text: &str) -> String {
    pieces(text).into_iter().map(|(_, text)| text).collect()
}

/// Splits the text into pieces of one style, without escape sequences.
fn pieces(text: &str) -> Vec<(Style, String)> {
    let (mut parser, mut found) = (<Parser>::default(), Pieces::default());
    text.bytes().for_each(|byte| parser.advance(&mut found, byte));
    found.pieces
}

#[derive(Default)]
struct Pieces {
    pieces: Vec<(Style, String)>,
    /// Style of the text that follows.
    look: Style,
}

impl Perform for Pieces {
    fn print(&mut self, c: char) {
        match self.pieces.last_mut() {
            Some((look, text)) if *look == self.look => text.push(c),
            _ => self.pieces.push((self.look, c.into())),
        }
    }

    fn execute(&mut self, control: u8) {
        self.print(control.into());
    }

    fn csi_dispatch(&mut self, codes: &Params, intermediates: &[u8], _: bool, action: u8) {
        if action == b'm' && intermediates.is_empty() {
            apply_sgr(&mut self.look, codes.iter().flatten().copied());
        }
    }
}

fn apply_sgr(style: &mut Style, mut codes: impl Iterator<Item = u16>) {
    while let Some(code) = codes.next() {
        match code {
            0 => *style = Style::default(),
            1 => style.bold = true,
            2 => style.dim = true,
            3 => style.italic = true,
            4 => style.underline = true,
            22 => (style.bold, style.dim) = (false, false),
            23 => style.italic = false,
            24 => style.underline = false,
            30..=37 => style.foreground = Some((code - 30) as u8),
            38 => style.foreground = parse_extended_colour(&mut codes),
            39 => style.foreground = None,
            40..=47 => style.background = Some((code - 40) as u8),
            48 => style.background = parse_extended_colour(&mut codes),
            49 => style.background = None,
            90..=97 => style.foreground = Some((code - 90 + 8) as u8),
            100..=107 => style.background = Some((code - 100 + 8) as u8),
            _ => {}
        }
    }
}

/// Reads an extended colour: `5;n` (256 colours) or `2;r;g;b`.
fn parse_extended_colour(codes: &mut impl Iterator<Item = u16>) -> Option<Colour> {
    let byte = |n: u16| u8::try_from(n).ok();
    match codes.next()? {
        5 => match byte(codes.next()?)? {
            n @ 0..=15 => Some(n),
            // The 6 x 6 x 6 cube, whose first step is larger; 24 greys follow.
            n @ 16..=231 => {
                let level = |i: u8| if i == 0 { 0 } else { 55 + 40 * i };
                let n = n - 16;
                Some(nearest_page_colour(level(n / 36), level(n / 6 % 6), level(n % 6)))
            }
            _ => Some(GREY),
        },
        2 => {
            let (r, g, b) = (codes.next()?, codes.next()?, codes.next()?);
            Some(nearest_page_colour(byte(r)?, byte(g)?, byte(b)?))
        }
        _ => None,
    }
}

/// Returns the classes of a span in the style of the page.
fn classes(text_style: Style) -> String {
    let style = |is_on: bool, class: &str| is_on.then(|| class.to_owned());
    let classes = [
        text_style.foreground.map(|colour| format!("af{colour}")),
        text_style.background.map(|colour| format!("ab{colour}")),
        style(text_style.bold, "a-bold"),
        style(text_style.dim, "a-dim"),
        style(text_style.italic, "a-italic"),
        style(text_style.underline, "a-underline"),
    ];
    classes.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

const GREY: Colour = 8;

/// Returns the colour of the page with the same hue. Colours of terminals can be illegible on the
/// page.
fn nearest_page_colour(r: u8, g: u8, b: u8) -> Colour {
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
