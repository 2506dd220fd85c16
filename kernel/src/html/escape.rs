//! Text made safe for a page.

use epsilab::show::format::html_escape;

/// Escapes text for element content and for attributes in double quotes.
pub fn escape(text: &str) -> String {
    let mut out = String::new();
    escape_into(&mut out, text);
    out
}

/// Like [`escape`], appending.
pub fn escape_into(out: &mut String, text: &str) {
    // Control characters are not allowed in HTML: a terminal's leftovers would make it invalid.
    let allowed = text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t'));
    out.push_str(&html_escape(&allowed.collect::<String>()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_means_something_to_a_browser_survives() {
        assert_eq!(escape("<a b=\"c\">'&\u{7}"), "&lt;a b=&quot;c&quot;&gt;&#39;&amp;");
        assert_eq!(escape("one\n\ttwo ε"), "one\n\ttwo ε");
    }
}
