//! Text made safe for a page.

/// Escapes text for element content and for attributes in double quotes.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    escape_into(&mut out, text);
    out
}

/// Like [`escape`], appending.
pub fn escape_into(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Not allowed in HTML; a terminal's leftovers would make the page invalid.
            c if c.is_control() && c != '\n' && c != '\t' => {}
            c => out.push(c),
        }
    }
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
