//! Rendering of markdown cells: CommonMark with tables, footnotes and mathematics.

use std::path::Path;

use base64::Engine;
use pulldown_cmark::{
    CodeBlockKind, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html,
};
use serde_json::Value;

use super::escape::escape;
use super::sanitize::{is_safe_link, sanitize};
use super::{highlight, math};

/// Maximum size of an embedded picture in bytes; larger ones are named instead.
const MAX_PICTURE_BYTES: u64 = 20 * 1024 * 1024;

/// Sources of the pictures of a cell: a folder and attachments.
pub struct PictureSource<'a> {
    /// The folder of the notebook.
    pub folder: &'a Path,
    /// `attachments` of the cell, or null.
    pub attachments: &'a Value,
}

/// Renders a markdown cell as safe HTML.
pub fn render(source: &str, pictures: &PictureSource<'_>) -> String {
    let mut events: Vec<Event<'_>> = Vec::new();
    let mut parser = parser(source);
    // Index of the event that begins the open heading, and the heading's text so far.
    let mut heading: Option<(usize, String)> = None;
    while let Some(event) = parser.next() {
        if let (Some((_, text)), Event::Text(t) | Event::Code(t)) = (&mut heading, &event) {
            text.push_str(t);
        }
        match event {
            Event::InlineMath(tex) => {
                events.push(Event::InlineHtml(math::render_inline(&tex).into()))
            }
            Event::DisplayMath(tex) => {
                events.push(Event::InlineHtml(math::render_block(&tex).into()))
            }
            Event::Start(Tag::CodeBlock(kind)) => {
                let code = text_until(&mut parser, |end| matches!(end, TagEnd::CodeBlock));
                events.push(Event::Html(code_block(&kind, &code).into()));
            }
            Event::Start(Tag::Image { dest_url, title, .. }) => {
                let alt = text_until(&mut parser, |end| matches!(end, TagEnd::Image));
                events.push(Event::InlineHtml(
                    render_picture(&dest_url, &title, &alt, pictures).into(),
                ));
            }
            Event::Start(Tag::Heading { .. }) => {
                heading = Some((events.len(), String::new()));
                events.push(event);
            }
            Event::End(TagEnd::Heading(_)) => {
                // The same ids as in JupyterLab, so that links within the notebook work.
                if let Some((start, text)) = heading.take()
                    && let Event::Start(Tag::Heading { id: id @ None, .. }) = &mut events[start]
                {
                    *id = Some(CowStr::from(text.trim().replace(' ', "-")));
                }
                events.push(event);
            }
            other => events.push(other),
        }
    }
    let mut page = String::with_capacity(source.len() * 2);
    html::push_html(&mut page, events.into_iter());
    sanitize(&page, "")
}

/// Returns level and text of the first heading of the highest level.
pub fn first_heading(source: &str) -> Option<(HeadingLevel, String)> {
    let mut events = parser(source);
    let headings = std::iter::from_fn(|| {
        events
            .find_map(|event| match event {
                Event::Start(Tag::Heading { level, .. }) => Some(level),
                _ => None,
            })
            .map(|level| (level, text_until(&mut events, |end| matches!(end, TagEnd::Heading(_)))))
    });
    headings.filter(|(_, text)| !text.trim().is_empty()).min_by_key(|(level, _)| *level)
}

fn parser(source: &str) -> Parser<'_> {
    Parser::new_ext(
        source,
        Options::ENABLE_TABLES
            | Options::ENABLE_STRIKETHROUGH
            | Options::ENABLE_TASKLISTS
            | Options::ENABLE_FOOTNOTES
            | Options::ENABLE_MATH,
    )
}

fn text_until<'a>(parser: &mut Parser<'a>, is_end: impl Fn(&TagEnd) -> bool) -> String {
    let mut text = String::new();
    for event in parser {
        match event {
            Event::End(end) if is_end(&end) => break,
            Event::Text(t) | Event::Code(t) | Event::InlineMath(t) => text.push_str(&t),
            Event::SoftBreak | Event::HardBreak => text.push('\n'),
            _ => {}
        }
    }
    text
}

fn code_block(kind: &CodeBlockKind<'_>, code: &str) -> String {
    let language = match kind {
        CodeBlockKind::Fenced(info) => info.split([' ', ',']).next().unwrap_or_default(),
        CodeBlockKind::Indented => "",
    };
    let code = code.strip_suffix('\n').unwrap_or(code);
    let inner =
        if matches!(language, "rust" | "rs") { highlight::highlight(code) } else { escape(code) };
    format!("<pre class=\"code\"><code>{inner}</code></pre>\n")
}

/// Embeds a picture, or names it if it can't be embedded. The page loads nothing.
fn render_picture(link: &str, title: &str, alt: &str, pictures: &PictureSource<'_>) -> String {
    let name = escape(if alt.is_empty() { link } else { alt });
    match picture_data_url(link, pictures) {
        Some(data) => format!(
            "<img src=\"{}\" alt=\"{}\" title=\"{}\">",
            escape(&data),
            escape(alt),
            escape(title)
        ),
        None if link.starts_with("http") && is_safe_link(link) => {
            format!("<a href=\"{}\">[picture: {name}]</a>", escape(link))
        }
        None => format!("<em>[picture: {name}]</em>"),
    }
}

fn picture_data_url(link: &str, pictures: &PictureSource<'_>) -> Option<String> {
    if let Some(name) = link.strip_prefix("attachment:") {
        let (kind, data) = pictures.attachments.get(name)?.as_object()?.iter().next()?;
        let data = crate::run::notebook::multiline_to_string(data);
        return Some(format!("data:{kind};base64,{}", data.replace(char::is_whitespace, "")));
    }
    if link.starts_with("data:image/") {
        return Some(link.to_owned());
    }
    if link.contains("://") {
        return None;
    }
    let link = link.replace("%20", " ");
    let path = pictures.folder.join(link);
    let ending = path.extension()?.to_str()?.to_ascii_lowercase();
    let kind = match ending.as_str() {
        "jpg" => "jpeg",
        "svg" => "svg+xml",
        "png" | "jpeg" | "gif" | "webp" => &ending,
        _ => return None,
    };
    if std::fs::metadata(&path).ok()?.len() > MAX_PICTURE_BYTES {
        return None;
    }
    let bytes = std::fs::read(&path).ok()?;
    let data = base64::engine::general_purpose::STANDARD.encode(bytes);
    Some(format!("data:image/{kind};base64,{data}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(source: &str) -> String {
        render(source, &PictureSource { folder: Path::new("."), attachments: &Value::Null })
    }

    #[test]
    fn tables_headings_code_and_mathematics_are_rendered() {
        let html = page("# A *title* with $\\varepsilon$\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n");
        assert!(html.contains("<h1 id=\"A-title-with\">"), "{html}");
        assert!(html.contains("<math display=\"inline\"><mi>ε</mi></math></h1>"), "{html}");
        assert!(html.contains("<td style=\"text-align: right\">2</td>"), "{html}");
        let html = page("```rust\nlet x = 1;\n```\n\n- [x] done");
        assert!(html.contains("<span class=\"k\">let</span>"), "{html}");
        assert!(html.contains("type=\"checkbox\""), "{html}");
    }

    #[test]
    fn raw_html_is_cleaned_and_remote_pictures_become_links() {
        let html = page("a <b onclick=x>b</b> <script>alert(1)</script>\n\n</main>");
        assert!(html.contains("<b>b</b>"), "{html}");
        assert!(!html.contains("script") && !html.contains("</main>"), "{html}");
        let html = page("![a plot](https://example.org/p.png)");
        assert!(html.contains("<a href=\"https://example.org/p.png\">[picture: a plot]</a>"));
        assert!(!html.contains("<img"));
    }

    #[test]
    fn pictures_beside_the_notebook_and_attachments_are_embedded() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("dot.png"), b"png").expect("written");
        let attachments = serde_json::json!({"a.png": {"image/png": "QUJD"}});
        let pictures = PictureSource { folder: folder.path(), attachments: &attachments };
        assert!(render("![dot](dot.png)", &pictures).contains("data:image/png;base64,cG5n"));
        assert!(render("![a](attachment:a.png)", &pictures).contains("data:image/png;base64,QUJD"));
        assert!(render("![no](gone.png)", &pictures).contains("[picture: no]"));
    }

    #[test]
    fn the_title_is_the_highest_heading() {
        assert_eq!(
            first_heading("## Part\n\n# The `lab`\n"),
            Some((HeadingLevel::H1, "The lab".to_owned()))
        );
        assert_eq!(first_heading("no heading"), None);
    }
}
