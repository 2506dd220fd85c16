//! Values that display themselves as evcxr's documentation describes it, by printing blocks:
//!
//! ```text
//! EVCXR_BEGIN_CONTENT text/html
//! <b>bold</b>
//! EVCXR_END_CONTENT
//! ```
//!
//! Any cell may print such lines. A block is only taken for a display if it is complete and was
//! printed by displaying a value: directly before [`Marker::Displayed`], or in a cell that calls
//! `evcxr_display` itself. Everything else is text.

use std::collections::BTreeMap;

use super::markers::Marker;

const BEGIN: &str = "EVCXR_BEGIN_CONTENT ";
const END: &str = "\nEVCXR_END_CONTENT\n";
/// Maximum length of a block in bytes; longer ones are treated as text, so that they do not fill
/// the memory of the kernel.
const MAX_BLOCK: usize = 64 << 20;

/// Displays of a cell's value, by MIME type.
pub type MimeData = BTreeMap<String, String>;

/// Parser that separates displays from printed text.
#[derive(Default)]
pub struct DisplayParser {
    /// Whether the code of the cell calls `evcxr_display` itself.
    pub calls_display: bool,
    /// Buffered text that may belong to a display: complete blocks, and the beginning of another.
    buffer: String,
    /// End of the complete blocks at the beginning of `buffer`.
    complete: usize,
    /// Length of the part behind `complete` that was searched for the end of a block.
    searched: usize,
    /// Text of a value without a display method of its own.
    value: Option<String>,
    displayed: MimeData,
}

impl DisplayParser {
    /// Parses printed text and returns the part that does not belong to a display.
    pub fn push_text(&mut self, text: &str) -> String {
        if let Some(value) = &mut self.value {
            value.push_str(text);
            return String::new();
        }
        self.buffer.push_str(text);
        let mut free = String::new();
        // Blocks at the end stay: the next marker may say that a value displayed itself.
        while self.skip_complete_blocks() {
            let first = self.buffer[self.complete..].chars().next().map_or(0, char::len_utf8);
            let start = self.complete + first;
            let rest = &self.buffer[start..];
            let next = start + rest.find(BEGIN).unwrap_or(rest.len() - partial_begin_length(rest));
            free.extend(self.buffer.drain(..next));
            self.complete = 0;
            self.searched = 0;
        }
        free
    }

    /// Processes a marker and returns buffered text that does not belong to a display.
    pub fn push_marker(&mut self, marker: Marker) -> String {
        if marker == Marker::TextEnd
            && let Some(value) = self.value.take()
        {
            let value = value.strip_suffix('\n').unwrap_or(&value);
            self.displayed.insert("text/plain".into(), value.into());
        }
        if marker == Marker::Displayed {
            self.take_blocks();
        }
        let text = self.release();
        if marker == Marker::Text {
            self.value = Some(String::new());
        }
        text
    }

    /// Ends the cell, and returns the displays of its value and the buffered text.
    pub fn finish(&mut self) -> (MimeData, String) {
        let text = self.release();
        (std::mem::take(&mut self.displayed), text)
    }

    /// Returns buffered text unless it starts with the first words of a block.
    pub fn release_plain_text(&mut self) -> String {
        if self.buffer.starts_with(BEGIN) { String::new() } else { self.release() }
    }

    /// Returns whether text is buffered.
    pub fn has_buffered_text(&self) -> bool {
        !self.buffer.is_empty()
    }

    fn release(&mut self) -> String {
        self.complete = 0;
        self.searched = 0;
        let mut text = std::mem::take(&mut self.buffer);
        text.push_str(&self.value.take().unwrap_or_default());
        text
    }

    /// Moves past the complete blocks, and returns whether text follows them.
    fn skip_complete_blocks(&mut self) -> bool {
        loop {
            match parse_block(&self.buffer[self.complete..], self.searched) {
                BlockMatch::Complete { kind, content, length } if self.calls_display => {
                    self.displayed.insert(kind.into(), content.into());
                    self.buffer.drain(..length);
                }
                BlockMatch::Complete { length, .. } => self.complete += length,
                BlockMatch::Incomplete => {
                    self.searched = (self.buffer.len() - self.complete).saturating_sub(END.len());
                    return false;
                }
                BlockMatch::NoBlock => return self.complete < self.buffer.len(),
            }
            self.searched = 0;
        }
    }

    /// Takes the complete blocks in the buffer as the display of the value.
    fn take_blocks(&mut self) {
        let mut at = 0;
        while let BlockMatch::Complete { kind, content, length } =
            parse_block(&self.buffer[at..], 0)
        {
            self.displayed.insert(kind.into(), content.into());
            at += length;
        }
        self.buffer.drain(..at);
    }
}

/// Result of matching the start of a text with a block.
enum BlockMatch<'a> {
    Complete {
        kind: &'a str,
        content: &'a str,
        length: usize,
    },
    /// The text may become a block when more of it is read.
    Incomplete,
    NoBlock,
}

/// Matches the block at the start of `text`, whose end is not within the first `searched` bytes.
fn parse_block(text: &str, searched: usize) -> BlockMatch<'_> {
    if text.is_empty() {
        return BlockMatch::NoBlock;
    }
    let Some(rest) = text.strip_prefix(BEGIN) else {
        return if BEGIN.starts_with(text) { BlockMatch::Incomplete } else { BlockMatch::NoBlock };
    };
    let Some((kind, _)) = rest.split_once('\n') else {
        return if rest.len() < 256 { BlockMatch::Incomplete } else { BlockMatch::NoBlock };
    };
    let is_kind = |c: char| c.is_ascii_alphanumeric() || "/.+-_;=".contains(c);
    if !kind.contains('/') || !kind.chars().all(is_kind) || text.len() > MAX_BLOCK {
        return BlockMatch::NoBlock;
    }
    // Of empty content, the line break before it is the one before the end.
    let start = BEGIN.len() + kind.len();
    let mut from = searched.max(start);
    while !text.is_char_boundary(from) {
        from -= 1;
    }
    let Some(end) = text[from..].find(END).map(|end| from + end) else {
        return BlockMatch::Incomplete;
    };
    let content = text.get(start + 1..end).unwrap_or_default();
    BlockMatch::Complete { kind, content, length: end + END.len() }
}

/// Returns the number of bytes at the end of `text` that could start a block.
fn partial_begin_length(text: &str) -> usize {
    let longest = BEGIN.len().min(text.len());
    (1..=longest).rev().find(|n| text.as_bytes().ends_with(&BEGIN.as_bytes()[..*n])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block_of(kind: &str, content: &str) -> String {
        format!("EVCXR_BEGIN_CONTENT {kind}\n{content}\nEVCXR_END_CONTENT\n")
    }

    fn kinds(shown: &MimeData) -> Vec<(&str, &str)> {
        shown.iter().map(|(kind, text)| (kind.as_str(), text.as_str())).collect()
    }

    #[test]
    fn a_block_is_a_display_only_after_the_marker() {
        let html = block_of("text/html", "<b>\nx</b>");
        let mut content = DisplayParser::default();
        assert_eq!(content.push_text(&format!("x={html}")), "x=");
        assert_eq!(content.push_text(&block_of("text/plain", "")), "");
        assert_eq!(content.push_marker(Marker::Displayed), "");
        let (shown, text) = content.finish();
        assert_eq!(kinds(&shown), [("text/html", "<b>\nx</b>"), ("text/plain", "")]);
        assert_eq!(text, "");

        assert_eq!(content.push_text(&html), "");
        assert_eq!(
            content.finish(),
            (MimeData::new(), html.clone()),
            "without the marker it is text"
        );
        assert_eq!(content.push_text(&format!("{html}more\n")), format!("{html}more\n"));
        assert_eq!(content.push_marker(Marker::Displayed), "");
        assert_eq!(content.finish(), (MimeData::new(), String::new()));
    }

    #[test]
    fn an_unfinished_block_is_text() {
        let mut content = DisplayParser::default();
        let lines = "EVCXR_BEGIN_CONTENT text/html\nx\n";
        assert_eq!(content.push_text(lines), "");
        assert_eq!(content.push_marker(Marker::Displayed), lines);
        assert_eq!(content.push_text(lines), "");
        assert_eq!(content.finish(), (MimeData::new(), lines.into()));
        for not in ["EVCXR_BEGIN_CONTENT no kind\n", "EVCXR_BEGIN_CONTENT EVCXR_END_CONTENT\n"] {
            assert_eq!(content.push_text(not), not);
        }
    }

    #[test]
    fn the_text_of_a_value_is_what_stands_between_its_markers() {
        let mut content = DisplayParser::default();
        content.push_marker(Marker::Text);
        content.push_text("a\nEVCXR_END_CONTENT\nEVCXR_BEGIN_");
        content.push_text("CONTENT text/html\n\n");
        content.push_marker(Marker::TextEnd);
        let (shown, text) = content.finish();
        let block_text = "a\nEVCXR_END_CONTENT\nEVCXR_BEGIN_CONTENT text/html\n";
        assert_eq!((kinds(&shown), text.as_str()), (vec![("text/plain", block_text)], ""));
    }

    #[test]
    fn blocks_may_arrive_in_any_parts() {
        let input = format!("EVCXR EVCXR_BEGIN{}", block_of("image/svg+xml", "<svg>ä</svg>"));
        let mut content = DisplayParser::default();
        let mut text = String::new();
        for c in input.chars() {
            text += &content.push_text(&c.to_string());
        }
        text += &content.push_marker(Marker::Displayed);
        assert_eq!(text, "EVCXR EVCXR_BEGIN");
        assert_eq!(kinds(&content.finish().0), [("image/svg+xml", "<svg>ä</svg>")]);
    }

    #[test]
    fn text_that_could_start_a_block_is_released() {
        let mut content = DisplayParser::default();
        assert_eq!(content.push_text("DONE"), "DON");
        assert_eq!(content.release_plain_text(), "E");
    }

    #[test]
    fn a_cell_that_calls_evcxr_display_may_print_blocks_anywhere() {
        let mut content = DisplayParser { calls_display: true, ..DisplayParser::default() };
        assert_eq!(content.push_text(&format!("a\n{}b\n", block_of("text/html", "x"))), "a\nb\n");
        assert_eq!(kinds(&content.finish().0), [("text/html", "x")]);
    }
}
