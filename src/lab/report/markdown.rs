//! Reports as Markdown.

use super::{Block, Report, figure_name};
use crate::show::markup::markdown;

/// Returns the document. Figures are the files of `folder`, or text without one.
pub(super) fn document(report: &Report, folder: Option<&str>) -> String {
    let mut text = format!("# {}\n", markdown(&report.title));
    let mut figures = 0;
    for section in &report.sections {
        if !section.heading.is_empty() {
            text += &format!("\n## {}\n", markdown(section.heading));
        }
        for block in &section.blocks {
            text.push('\n');
            match block {
                Block::Prose(prose, coverage) => {
                    text += &Block::paragraphs(prose, *coverage, markdown);
                }
                Block::Table(table) => text += &table.markdown(),
                Block::Figure(bundle) => {
                    text += &match folder {
                        Some(folder) => format!(
                            "![{}](<{folder}/{}>)\n",
                            markdown(bundle.first_line()),
                            figure_name(figures, "svg")
                        ),
                        None => fenced(&bundle.text),
                    };
                    figures += 1;
                }
                Block::Code(code, _) => text += &fenced(code),
            }
        }
    }
    text
}

/// Formats text as a fenced block, without changes. The fence is longer than any in the text.
fn fenced(text: &str) -> String {
    let fence = if text.contains("```") { "~~~~" } else { "```" };
    format!("{fence}\n{}\n{fence}\n", text.trim_end())
}
