//! Tables and text as Markdown and LaTeX.

use super::format::replace_strikethrough;
use super::table::cell;
use super::{Coverage, NOT_COVERED, Table};

/// Number of characters in a line of a LaTeX page, at the size of its tables.
const LATEX_LINE_CHARS: usize = 92;
/// Width in characters above which columns of text are wrapped in LaTeX.
const LATEX_WRAP_CHARS: usize = 34;

impl Table {
    /// Formats the table as Markdown with pipes, as GitHub and Pandoc read it. The caption is a
    /// line above.
    pub fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let text = |row: &[String]| {
            line(
                (0..self.column_count())
                    .map(|c| markdown(&cell(row, c)).replace('|', "\\|"))
                    .collect(),
            )
        };
        let rule =
            (0..self.column_count()).map(|c| if self.is_numeric(c) { "---:" } else { "---" });
        let mut all = String::new();
        if let Some(caption) = self.full_caption() {
            all += &format!("{}\n\n", markdown(&caption));
        }
        all += &text(&self.headers);
        all += &line(rule.map(String::from).collect());
        self.rows.iter().for_each(|row| all += &text(row));
        all
    }

    /// Formats the table as a LaTeX `tabular`, with the rules of the package `booktabs`. The
    /// caption is a line above. Long texts are wrapped.
    pub fn latex(&self) -> String {
        self.latex_with_environment("tabular")
    }

    /// Formats the table in LaTeX, in an environment other than `tabular` with the same argument.
    pub(crate) fn latex_with_environment(&self, environment: &str) -> String {
        let line = |row: &[String]| {
            let cells = (0..self.column_count()).map(|c| latex(&cell(row, c)));
            format!("{} \\\\\n", cells.collect::<Vec<_>>().join(" & "))
        };
        let caption = self.full_caption().map(|text| format!("{}\\par\\smallskip\n", latex(&text)));
        let rows: String = self.rows.iter().map(|row| line(row)).collect();
        format!(
            "{}\\begin{{{environment}}}{{{}}}\n\\toprule\n{}\\midrule\n{rows}\\bottomrule\n\
             \\end{{{environment}}}\n",
            caption.unwrap_or_default(),
            self.latex_column_spec(),
            line(&self.headers),
        )
    }

    /// Returns the caption, with the badge of a table that no epsilon covers.
    fn full_caption(&self) -> Option<String> {
        let badge = (self.coverage == Coverage::NotCovered).then_some(NOT_COVERED);
        let all: Vec<&str> = self.caption.as_deref().into_iter().chain(badge).collect();
        (!all.is_empty()).then(|| all.join(" · "))
    }

    /// Returns the specification of the columns: numbers are flush right, and long texts share
    /// what the others leave of the line.
    fn latex_column_spec(&self) -> String {
        let width = |c: usize| {
            let cells = self.rows.iter().chain([&self.headers]);
            cells.map(|row| cell(row, c).chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.column_count()).map(width).collect();
        let is_wide = |c: usize| widths[c] > LATEX_WRAP_CHARS && !self.is_numeric(c);
        let wide = (0..widths.len()).filter(|&c| is_wide(c)).count().max(1);
        let fixed: usize = (0..widths.len()).filter(|&c| !is_wide(c)).map(|c| widths[c] + 2).sum();
        let share = LATEX_LINE_CHARS.saturating_sub(fixed).max(LATEX_LINE_CHARS / 5) as f64
            / LATEX_LINE_CHARS as f64
            / wide as f64;
        let column = |c: usize| match (self.is_numeric(c), is_wide(c)) {
            (true, _) => "r".to_owned(),
            (_, true) => format!("p{{{share:.2}\\linewidth}}"),
            _ => "l".to_owned(),
        };
        (0..widths.len()).map(column).collect()
    }
}

/// Returns text in which no character is markup for Markdown; `~~struck~~` stays.
pub(crate) fn markdown(text: &str) -> String {
    let escaped = |c: char| match c {
        '\\' | '`' | '*' | '_' | '<' | '[' | ']' | '#' | '$' => format!("\\{c}"),
        _ => c.to_string(),
    };
    text.chars().map(escaped).collect()
}

/// Returns text as LaTeX: special characters are escaped, symbols become commands that pdfLaTeX
/// knows, and `~~struck~~` becomes `\sout{struck}` of the package `ulem`.
pub(crate) fn latex(text: &str) -> String {
    let escaped = |c: char| match SYMBOLS.iter().find(|(symbol, _)| *symbol == c) {
        Some((_, command)) => (*command).to_owned(),
        None if "&%$#_{}".contains(c) => format!("\\{c}"),
        None => c.to_string(),
    };
    let escaped: String = text.chars().map(escaped).collect();
    replace_strikethrough(&escaped, ("\\sout{", "}")).replace('~', "\\textasciitilde{}")
}

/// Symbols of the library's texts that pdfLaTeX can't set as they are.
const SYMBOLS: [(char, &str); 23] = [
    ('\\', "\\textbackslash{}"),
    ('^', "\\textasciicircum{}"),
    ('<', "\\textless{}"),
    ('>', "\\textgreater{}"),
    ('"', "\\textquotedbl{}"),
    ('∞', "$\\infty$"),
    ('ε', "$\\varepsilon$"),
    ('δ', "$\\delta$"),
    ('σ', "$\\sigma$"),
    ('γ', "$\\gamma$"),
    ('Δ', "$\\Delta$"),
    ('≤', "$\\leq$"),
    ('≥', "$\\geq$"),
    ('≈', "$\\approx$"),
    ('−', "$-$"),
    ('×', "$\\times$"),
    ('±', "$\\pm$"),
    ('·', "$\\cdot$"),
    ('√', "$\\surd$"),
    ('→', "$\\to$"),
    ('…', "\\dots{}"),
    ('–', "--"),
    ('µ', "$\\mu$"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        Table::new(["layer", "share"]).row(["a|b_1 & <c>", "4.0 %"]).row(["∞ 50 $", "96.0 %"])
    }

    #[test]
    fn markdown_has_one_line_per_row_and_no_stray_markup() {
        let expected = "\
| layer | share |
| --- | ---: |
| a\\|b\\_1 & \\<c> | 4.0 % |
| ∞ 50 \\$ | 96.0 % |
";
        assert_eq!(table().markdown(), expected);
        let marked = table().caption("cost").coverage(Coverage::NotCovered).markdown();
        assert!(marked.starts_with(&format!("cost · {NOT_COVERED}\n\n| layer")), "{marked}");
    }

    #[test]
    fn latex_is_escaped_and_numbers_are_flush_right() {
        let expected = "\
\\begin{tabular}{lr}
\\toprule
layer & share \\\\
\\midrule
a|b\\_1 \\& \\textless{}c\\textgreater{} & 4.0 \\% \\\\
$\\infty$ 50 \\$ & 96.0 \\% \\\\
\\bottomrule
\\end{tabular}
";
        assert_eq!(table().latex(), expected);
        assert_eq!(
            latex("{~~1~~ ~ \\^"),
            "\\{\\sout{1} \\textasciitilde{} \\textbackslash{}\\textasciicircum{}"
        );
    }

    #[test]
    fn long_texts_are_wrapped_within_the_line() {
        let long = "word ".repeat(40);
        let table = Table::new(["a", "b", "c"]).row(["x", &long, &long]);
        let columns = table.latex_column_spec();
        assert_eq!(columns, "lp{0.48\\linewidth}p{0.48\\linewidth}");
    }
}
