//! Rendering of TeX mathematics as MathML, which browsers show without scripts.

use pulldown_latex::config::DisplayMode;
use pulldown_latex::{Event, Parser, ParserError, RenderConfig, Storage, push_mathml};

use super::escape::escape;

/// Maximum length of a rendered formula in bytes; longer or deeper formulas are shown as they are
/// written.
const MAX_LENGTH: usize = 10_000;
const MAX_DEPTH: usize = 64;

/// Renders inline mathematics.
pub fn render_inline(tex: &str) -> String {
    render(tex, DisplayMode::Inline).unwrap_or_else(|| render_source("code", tex))
}

/// Renders display mathematics.
pub fn render_block(tex: &str) -> String {
    render(tex, DisplayMode::Block).unwrap_or_else(|| render_source("pre", tex))
}

fn render_source(element: &str, tex: &str) -> String {
    format!("<{element} class=\"tex\">{}</{element}>", escape(tex))
}

/// Renders a formula as MathML; `None` if it can't be read.
fn render(tex: &str, display_mode: DisplayMode) -> Option<String> {
    if tex.len() > MAX_LENGTH || tex.matches(['{', '^', '_', '\\']).count() > MAX_DEPTH * MAX_DEPTH
    {
        return None;
    }
    let storage = Storage::new();
    let events: Result<Vec<Event<'_>>, ParserError> = Parser::new(tex, &storage).collect();
    let config = RenderConfig { display_mode, ..RenderConfig::default() };
    let mut out = String::new();
    push_mathml(&mut out, events.ok()?.into_iter().map(Ok::<_, ParserError>), config).ok()?;
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::super::attacks_tests::find_active_content;
    use super::*;

    #[test]
    fn formulas_become_mathml() {
        let html = render_inline(r"\bar{g} = \frac{1}{B} \sum_{i=1}^{n} \mathrm{clip}_C(g_i)");
        for part in ["<math display=\"inline\">", "<mfrac><mrow><mn>1</mn></mrow>", "∑"] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(render_block(r"\varepsilon = 3").starts_with("<math display=\"block\">"));
        let html = render_block(r"\begin{aligned} a &= b \\ c &\le d \end{aligned}");
        assert_eq!(html.matches("<mtr>").count(), 2, "{html}");
    }

    #[test]
    fn unreadable_formulas_are_shown_as_written() {
        for tex in ["{", "}", "^", "\\frac{1", "\\text{", "a}b", "\\sqrt", "\\unknown{x}", "<b>\\x"]
        {
            assert_eq!(render_inline(tex), format!("<code class=\"tex\">{}</code>", escape(tex)));
        }
        let deep = "{".repeat(10_000) + "x" + &"^{".repeat(10_000) + &"\\sqrt".repeat(10_000);
        assert!(render_inline(&deep).starts_with("<code"));
        let nested = "\\sqrt{".repeat(60) + "x" + &"}".repeat(60);
        assert!(render_inline(&nested).starts_with("<math"));
        for hostile in
            [r"\text{<script>alert(1)</script>}", r"<img src=x onerror=y>", r"\mathcal{<}"]
        {
            assert_eq!(
                find_active_content(&render_inline(hostile)),
                Vec::<String>::new(),
                "{}",
                render_inline(hostile)
            );
        }
    }
}
