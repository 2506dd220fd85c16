//! Escaping of text for HTML.

use epsilab::show::format::html_escape;

/// Escapes text for element content and for attributes in double quotes.
pub fn escape(text: &str) -> String {
    // HTML does not allow control characters.
    let allowed = text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t'));
    html_escape(&allowed.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_are_escaped() {
        assert_eq!(escape("<a b=\"c\">'&\u{7}"), "&lt;a b=&quot;c&quot;&gt;&#39;&amp;");
        assert_eq!(escape("one\n\ttwo ε"), "one\n\ttwo ε");
    }
}
