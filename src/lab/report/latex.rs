//! Reports as LaTeX documents.

use super::{Block, Report, figure_name};
use crate::show::markup::latex;

const PREAMBLE: &str = "\
\\documentclass[11pt]{article}
\\usepackage[T1]{fontenc}
\\usepackage[utf8]{inputenc}
\\usepackage[margin=25mm]{geometry}
\\usepackage{booktabs,longtable,graphicx,textcomp}
\\usepackage[normalem]{ulem}
\\setlength{\\parindent}{0pt}
\\setlength{\\parskip}{0.6em}
\\setlength{\\LTleft}{0pt}
\\raggedbottom
";

/// Returns the document, for pdfLaTeX, LuaLaTeX or XeLaTeX. Figures are the files of `folder`.
pub(super) fn document(report: &Report, folder: &str) -> String {
    let title = latex(&report.title);
    let mut text = format!("{PREAMBLE}\\begin{{document}}\n{{\\Large\\bfseries {title}\\par}}\n");
    let mut figures = 0;
    for section in &report.sections {
        if !section.heading.is_empty() {
            text += &format!("\n\\section*{{{}}}\n", latex(section.heading));
        }
        for block in &section.blocks {
            text.push('\n');
            match block {
                Block::Prose(prose, coverage) => {
                    text += &Block::paragraphs(prose, *coverage, latex);
                }
                Block::Table(table) => {
                    text +=
                        &format!("{{\\small\n{}}}\n", table.latex_with_environment("longtable"));
                }
                Block::Figure(_) => {
                    let file = figure_name(figures, "png");
                    text += &format!(
                        "\\begin{{center}}\\includegraphics[width=\\linewidth]{{{folder}/{file}}}\
                         \\end{{center}}\n"
                    );
                    figures += 1;
                }
                Block::Code(code, _) => {
                    let code = code.trim_end().replace("\\end{verbatim}", "\\end {verbatim}");
                    text += &format!(
                        "{{\\footnotesize\n\\begin{{verbatim}}\n{code}\n\\end{{verbatim}}\n}}\n"
                    );
                }
            }
        }
    }
    text + "\\end{document}\n"
}
