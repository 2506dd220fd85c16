//! Shortening of an item's documentation for a tooltip: signature, first paragraph, then the rest
//! as far as it fits.

use epsilab::show::format::html_escape;
use regex::{Captures, Regex};

use crate::pattern::{Pattern, pattern};

/// Maximum number of lines of a signature.
const MAX_SIGNATURE_LINES: usize = 14;
/// Maximum number of characters before the first heading.
const MAX_INTRODUCTION_CHARS: usize = 700;
/// Maximum number of characters of a section with a heading.
const MAX_SECTION_CHARS: usize = 280;

const TRUNCATION_NOTE: &str =
    "<p>(shortened; <code>cargo doc --open</code> has the full text)</p>\n";

/// Shortens the HTML that evcxr makes of the documentation.
pub fn shorten(html: &str) -> String {
    let (signature, text) = match html.rfind("</pre>\n<hr />") {
        Some(at) => html.split_at(at + "</pre>\n".len()),
        None => (html, ""),
    };
    let mut out: String =
        lines_of_signature(signature).into_iter().map(|line| line + "\n").collect();
    let mut cut = false;
    for (index, section) in sections(text).into_iter().enumerate() {
        let room = if index == 0 { MAX_INTRODUCTION_CHARS } else { MAX_SECTION_CHARS };
        let (short, shortened) = shorten_section(section, room, index == 0);
        out.push_str(&short);
        cut |= shortened;
    }
    if cut {
        out.push_str(TRUNCATION_NOTE);
    }
    without_dead_links(&out)
}

fn lines_of_signature(html: &str) -> Vec<String> {
    let mut lines = without_private_fields(html);
    if lines.len() > MAX_SIGNATURE_LINES {
        lines.truncate(MAX_SIGNATURE_LINES);
        lines.push("…</code></pre>".into());
    }
    lines
}

/// Returns the lines of a public struct as rustdoc shows it, without private fields.
fn without_private_fields(html: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let (mut inside, mut dropped) = (false, false);
    for line in html.lines() {
        let is_field = inside && line.starts_with("    ");
        if is_field && !line.trim_start().starts_with("pub ") {
            dropped = true;
            continue;
        }
        if inside && line.starts_with('}') {
            if std::mem::take(&mut dropped) {
                lines.push("    /* private fields */".into());
            }
            inside = false;
        }
        inside |= line.contains("pub struct ") && line.ends_with('{');
        lines.push(line.into());
    }
    lines
}

/// Splits the text at its headings; the first part has none.
fn sections(html: &str) -> Vec<&str> {
    static HEADING: Pattern = Pattern::new(|| pattern("<h1>"));
    parts(html, &HEADING)
}

/// Splits the text at the places that the pattern finds: the text before the first, and the parts
/// that begin there.
fn parts<'a>(html: &'a str, start: &Regex) -> Vec<&'a str> {
    let starts = start.find_iter(html).map(|found| found.start());
    let places: Vec<usize> = std::iter::once(0).chain(starts).chain([html.len()]).collect();
    places.windows(2).map(|pair| &html[pair[0]..pair[1]]).collect()
}

/// Shortens a section to the whole paragraphs that fit; a first paragraph that is too long is cut,
/// unless it is the first of all.
fn shorten_section(section: &str, room: usize, introduction: bool) -> (String, bool) {
    let mut out = String::new();
    let mut used = 0;
    let mut paragraphs = 0;
    for block in blocks(section) {
        let length = html_to_text(block).chars().count();
        let is_text = !block.starts_with("<h1>") && !block.starts_with("<hr");
        if is_text && used + length > room {
            if introduction && paragraphs == 0 {
                out.push_str(block);
            } else if paragraphs == 0 {
                let text: String = html_to_text(block).chars().take(room).collect();
                let end = text.rfind(' ').unwrap_or(text.len());
                out.push_str(&format!("<p>{} …</p>\n", html_escape(&text[..end])));
            }
            return (out, true);
        }
        out.push_str(block);
        used += if is_text { length } else { 0 };
        paragraphs += usize::from(is_text);
    }
    (out, false)
}

/// Returns the top-level elements, each with the line break behind it.
fn blocks(html: &str) -> impl Iterator<Item = &str> {
    static START: Pattern = Pattern::new(|| pattern("(?m)^<(?:p>|h1>|h2>|ul>|ol>|pre>|table>|hr)"));
    parts(html, &START).into_iter().filter(|block| !block.is_empty())
}

/// Replaces links of the lab by their text: it has no pages at docs.rs.
fn without_dead_links(html: &str) -> String {
    static LINK: Pattern =
        Pattern::new(|| pattern(r#"(?s)<a href="https://docs\.rs/epsilab/[^>]*>(.*?)</a>"#));
    LINK.replace_all(html, "$1").into_owned()
}

/// Returns the text of HTML that [`shorten`] made, for terminals.
pub fn html_to_text(html: &str) -> String {
    static TAG: Pattern = Pattern::new(|| pattern("<[^>]*>?"));
    static GAP: Pattern = Pattern::new(|| pattern("\n{3,}"));
    let text = TAG.replace_all(html, |tag: &Captures<'_>| match &tag[0] {
        "</p>" | "</h1>" | "</pre>" | "</ul>" | "</ol>" => "\n",
        "<li>" => "- ",
        _ => "",
    });
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    let text = entities.iter().fold(text.into_owned(), |text, (name, c)| text.replace(name, c));
    GAP.replace_all(text.trim(), "\n\n").into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_fields_are_not_shown() {
        let html = "<pre><code>pub struct A {\n    pub(crate) a: u8,\n    pub b: u8,\n    \
                    pub(in ...) c: u8,\n}\n</code></pre>";
        let expected = "<pre><code>pub struct A {\n    pub b: u8,\n    /* private fields */\n}\n\
                        </code></pre>";
        assert_eq!(without_private_fields(html).join("\n"), expected);
        let public = "struct A {\n    a: u8,\n}";
        assert_eq!(without_private_fields(public).join("\n"), public);
    }

    #[test]
    fn signature_and_first_paragraph_stay_and_long_sections_are_cut() {
        let sentence = "Every word of it matters. ".repeat(40);
        let html = format!(
            "<pre><code>epsilab::data</code></pre>\n<pre><code>pub fn csv() -&gt; u8</code></pre>\n\
             <hr />\n<p>Reads a file.</p>\n<p>{sentence}</p>\n<h1>Errors</h1>\n\
             <p>{sentence}</p>\n<h1>Short</h1>\n<p>See \
             <a href=\"https://docs.rs/epsilab/0.1.0/x.html\"><code>x</code></a>.</p>\n"
        );
        let text = html_to_text(&shorten(&html));
        for part in ["epsilab::data\n", "pub fn csv() -> u8", "Reads a file.", "Errors\n", "See x."]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.contains("cargo doc --open") && text.len() < 700, "{text}");
        assert!(!shorten(&html).contains("docs.rs"));
        let short = "<pre><code>u8</code></pre>\n";
        assert_eq!(shorten(short), short);
    }
}
