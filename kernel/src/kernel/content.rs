//! Values that display themselves the way of stock evcxr, by blocks in what the cell prints:
//!
//! ```text
//! EVCXR_BEGIN_CONTENT text/html
//! <b>bold</b>
//! EVCXR_END_CONTENT
//! ```
//!
//! Anybody may print such lines, so a block only counts if it is whole and was printed by
//! displaying a value: directly before the word that says so, or in a cell that itself calls
//! `evcxr_display`. Everything else is text.

use std::collections::BTreeMap;

use super::markers::Word;

const BEGIN: &str = "EVCXR_BEGIN_CONTENT ";
const END: &str = "\nEVCXR_END_CONTENT\n";
/// What is longer is text: it would fill the memory of the kernel.
const LONGEST: usize = 64 << 20;

/// What a cell has shown, by MIME type.
pub type Shown = BTreeMap<String, String>;

/// Tells displays from text.
#[derive(Default)]
pub struct Content {
    /// The cell's code calls `evcxr_display` itself.
    pub calls_display: bool,
    /// May belong to a display: whole blocks, and what may become one.
    held: String,
    /// The whole blocks at the beginning of `held` end here.
    whole: usize,
    /// In so much of the block that begins there, its end was looked for.
    searched: usize,
    /// Text of a value without a display of its own.
    value: Option<String>,
    shown: Shown,
}

impl Content {
    /// Takes printed text; gives back what is only text.
    pub fn text(&mut self, text: &str) -> String {
        if let Some(value) = &mut self.value {
            value.push_str(text);
            return String::new();
        }
        self.held.push_str(text);
        let mut free = String::new();
        // Blocks at the end stay: the next word may say that a value has displayed itself.
        while self.text_follows() {
            let first = self.held[self.whole..].chars().next().map_or(0, char::len_utf8);
            let start = self.whole + first;
            let rest = &self.held[start..];
            let next = start + rest.find(BEGIN).unwrap_or(rest.len() - cut_prefix(rest));
            free.extend(self.held.drain(..next));
            (self.whole, self.searched) = (0, 0);
        }
        free
    }

    /// Takes a word of the cell's process; gives back what is only text.
    pub fn word(&mut self, word: Word) -> String {
        if word == Word::TextEnd
            && let Some(value) = self.value.take()
        {
            let value = value.strip_suffix('\n').unwrap_or(&value);
            self.shown.insert("text/plain".into(), value.into());
        }
        if word == Word::Displayed {
            self.show_held();
        }
        let text = self.release();
        if word == Word::Text {
            self.value = Some(String::new());
        }
        text
    }

    /// The cell is at its end: what it has shown, and what is only text.
    pub fn end(&mut self) -> (Shown, String) {
        let text = self.release();
        (std::mem::take(&mut self.shown), text)
    }

    /// Nothing came for a while: what has not even the beginning of a block is text.
    pub fn release_part(&mut self) -> String {
        if self.held.starts_with(BEGIN) { String::new() } else { self.release() }
    }

    fn release(&mut self) -> String {
        (self.whole, self.searched) = (0, 0);
        let mut text = std::mem::take(&mut self.held);
        text.push_str(&self.value.take().unwrap_or_default());
        text
    }

    /// Goes on to what follows the whole blocks that are held; true if that is text.
    fn text_follows(&mut self) -> bool {
        loop {
            match block(&self.held[self.whole..], self.searched) {
                Block::Whole { kind, content, length } if self.calls_display => {
                    self.shown.insert(kind.into(), content.into());
                    self.held.drain(..length);
                }
                Block::Whole { length, .. } => self.whole += length,
                Block::Cut => {
                    self.searched = (self.held.len() - self.whole).saturating_sub(END.len());
                    return false;
                }
                Block::Not => return self.whole < self.held.len(),
            }
            self.searched = 0;
        }
    }

    /// A value has displayed itself by the whole blocks that are held.
    fn show_held(&mut self) {
        let mut at = 0;
        while let Block::Whole { kind, content, length } = block(&self.held[at..], 0) {
            self.shown.insert(kind.into(), content.into());
            at += length;
        }
        self.held.drain(..at);
    }
}

/// What a text begins with.
enum Block<'a> {
    Whole {
        kind: &'a str,
        content: &'a str,
        length: usize,
    },
    /// It may become a block.
    Cut,
    Not,
}

/// The block that `text` begins with; before `searched` there is no end of it.
fn block(text: &str, searched: usize) -> Block<'_> {
    if text.is_empty() {
        return Block::Not;
    }
    let Some(rest) = text.strip_prefix(BEGIN) else {
        return if BEGIN.starts_with(text) { Block::Cut } else { Block::Not };
    };
    let Some((kind, _)) = rest.split_once('\n') else {
        return if rest.len() < 256 { Block::Cut } else { Block::Not };
    };
    let is_kind = |c: char| c.is_ascii_alphanumeric() || "/.+-_;=".contains(c);
    if !kind.contains('/') || !kind.chars().all(is_kind) || text.len() > LONGEST {
        return Block::Not;
    }
    // The line break before the content may be the one before its end: it is empty then.
    let start = BEGIN.len() + kind.len();
    let mut from = searched.max(start);
    while !text.is_char_boundary(from) {
        from -= 1;
    }
    let Some(end) = text[from..].find(END).map(|end| from + end) else { return Block::Cut };
    let content = text.get(start + 1..end).unwrap_or_default();
    Block::Whole { kind, content, length: end + END.len() }
}

/// How many bytes at the end of `text` could begin a block.
fn cut_prefix(text: &str) -> usize {
    let longest = BEGIN.len().min(text.len());
    (1..=longest).rev().find(|n| text.as_bytes().ends_with(&BEGIN.as_bytes()[..*n])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block_of(kind: &str, content: &str) -> String {
        format!("EVCXR_BEGIN_CONTENT {kind}\n{content}\nEVCXR_END_CONTENT\n")
    }

    fn kinds(shown: &Shown) -> Vec<(&str, &str)> {
        shown.iter().map(|(kind, text)| (kind.as_str(), text.as_str())).collect()
    }

    #[test]
    fn a_whole_block_counts_only_if_a_value_was_displayed() {
        let html = block_of("text/html", "<b>\nx</b>");
        let mut content = Content::default();
        assert_eq!(content.text(&format!("x={html}")), "x=");
        assert_eq!(content.text(&block_of("text/plain", "")), "");
        assert_eq!(content.word(Word::Displayed), "");
        let (shown, text) = content.end();
        assert_eq!(kinds(&shown), [("text/html", "<b>\nx</b>"), ("text/plain", "")]);
        assert_eq!(text, "");

        assert_eq!(content.text(&html), "");
        assert_eq!(content.end(), (Shown::new(), html.clone()), "nobody displayed it");
        assert_eq!(content.text(&format!("{html}more\n")), format!("{html}more\n"));
        assert_eq!(content.word(Word::Displayed), "");
        assert_eq!(content.end(), (Shown::new(), String::new()));
    }

    #[test]
    fn a_block_that_never_ends_is_text() {
        let mut content = Content::default();
        let lines = "EVCXR_BEGIN_CONTENT text/html\nx\n";
        assert_eq!(content.text(lines), "");
        assert_eq!(content.word(Word::Displayed), lines);
        assert_eq!(content.text(lines), "");
        assert_eq!(content.end(), (Shown::new(), lines.into()));
        for not in ["EVCXR_BEGIN_CONTENT no kind\n", "EVCXR_BEGIN_CONTENT EVCXR_END_CONTENT\n"] {
            assert_eq!(content.text(not), not);
        }
    }

    #[test]
    fn a_value_is_what_stands_between_its_words_whatever_it_says() {
        let mut content = Content::default();
        content.word(Word::Text);
        content.text("a\nEVCXR_END_CONTENT\nEVCXR_BEGIN_");
        content.text("CONTENT text/html\n\n");
        content.word(Word::TextEnd);
        let (shown, text) = content.end();
        let said = "a\nEVCXR_END_CONTENT\nEVCXR_BEGIN_CONTENT text/html\n";
        assert_eq!((kinds(&shown), text.as_str()), (vec![("text/plain", said)], ""));
    }

    #[test]
    fn blocks_may_come_in_any_parts() {
        let said = format!("EVCXR EVCXR_BEGIN{}", block_of("image/svg+xml", "<svg>ä</svg>"));
        let mut content = Content::default();
        let mut text = String::new();
        for c in said.chars() {
            text += &content.text(&c.to_string());
        }
        text += &content.word(Word::Displayed);
        assert_eq!(text, "EVCXR EVCXR_BEGIN");
        assert_eq!(kinds(&content.end().0), [("image/svg+xml", "<svg>ä</svg>")]);
    }

    #[test]
    fn what_only_looks_like_a_beginning_is_not_held_for_long() {
        let mut content = Content::default();
        assert_eq!(content.text("DONE"), "DON");
        assert_eq!(content.release_part(), "E");
    }

    #[test]
    fn a_cell_that_calls_for_displays_gets_them_anywhere() {
        let mut content = Content { calls_display: true, ..Content::default() };
        assert_eq!(content.text(&format!("a\n{}b\n", block_of("text/html", "x"))), "a\nb\n");
        assert_eq!(kinds(&content.end().0), [("text/html", "x")]);
    }
}
