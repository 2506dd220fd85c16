//! Reports as HTML pages.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{Block, Report};
use crate::show::format::html_escape;
use crate::show::{Coverage, MimeBundle, NOT_COVERED};

const STYLE: &str = include_str!("style.css");

/// Returns the page, which loads nothing: figures are embedded as pictures.
pub(super) fn page(report: &Report) -> String {
    let title = html_escape(&report.title);
    let mut body = format!("<h1>{title}</h1>\n");
    for section in &report.sections {
        if !section.heading.is_empty() {
            body += &format!("<h2>{}</h2>\n", html_escape(section.heading));
        }
        section.blocks.iter().for_each(|shown| body += &block(shown));
    }
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; \
         style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n\
         </body>\n</html>\n"
    )
}

fn block(block: &Block) -> String {
    let badge = match block.coverage() {
        // A figure has the badge where it applies.
        Coverage::NotCovered if !matches!(block, Block::Figure(_)) => {
            format!("<p class=\"badge\">{NOT_COVERED}</p>\n")
        }
        _ => String::new(),
    };
    let content = match block {
        Block::Prose(text, _) => MimeBundle::prose(text).html.unwrap_or_default(),
        Block::Table(table) => format!("<div class=\"wide\">{}</div>\n", table.html()),
        Block::Figure(bundle) => figure(bundle),
        Block::Code(text, _) => format!("<pre>{}</pre>\n", html_escape(text)),
    };
    badge + &content
}

/// Returns a figure with its values as text, for readers who can't see it.
fn figure(bundle: &MimeBundle) -> String {
    let values = format!(
        "<details><summary>the figure as text</summary><pre>{}</pre></details>",
        html_escape(&bundle.text)
    );
    let picture = bundle.svg.as_ref().map(|svg| {
        format!(
            "<img alt=\"{}\" src=\"data:image/svg+xml;base64,{}\">",
            html_escape(bundle.first_line()),
            STANDARD.encode(svg)
        )
    });
    format!("<figure>{}{values}</figure>\n", picture.unwrap_or_default())
}
