//! What passes from the cells' streams to evcxr, without descriptors.
//!
//! evcxr takes lines of text for its own when they look like them. So printed text is packed: no
//! line of it looks like anything else. Words are passed on twice: packed, for the kernel, and in
//! evcxr's own terms.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::super::markers::{Found, Markers, Word};

const TEXT: char = 't';
const WORD: char = 'w';

/// A line that evcxr passes on.
#[derive(PartialEq, Debug)]
pub enum Line {
    /// The cell printed this.
    Text(String),
    /// Its process says this.
    Word(Word),
}

/// Reads a packed line; others have no meaning.
pub fn unpack(line: &str) -> Option<Line> {
    let mut chars = line.chars();
    match (chars.next()?, chars.as_str()) {
        (TEXT, text) => {
            let bytes = STANDARD.decode(text).ok()?;
            Some(Line::Text(String::from_utf8_lossy(&bytes).into_owned()))
        }
        (WORD, name) => Word::of_name(name).map(Line::Word),
        _ => None,
    }
}

/// A stream on its way.
pub trait Passage {
    /// Takes what was read and adds what goes on to `out`.
    fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>);
    /// Nothing more comes.
    fn end(&mut self, out: &mut Vec<u8>);
}

/// Standard output: text is packed.
pub struct Packed {
    markers: Markers,
    held: Vec<u8>,
    unheard: bool,
}

impl Packed {
    /// Nothing has passed yet.
    pub fn new(markers: Markers) -> Self {
        Self { markers, held: Vec::new(), unheard: false }
    }

    /// Passes on the first `length` bytes that are held as text.
    fn text(&mut self, length: usize, out: &mut Vec<u8>) {
        if length > 0 && !self.unheard {
            let packed = STANDARD.encode(&self.held[..length]);
            out.extend_from_slice(format!("{TEXT}{packed}\n").as_bytes());
        }
        self.held.drain(..length);
    }

    fn word(&mut self, word: Word, name: &str, out: &mut Vec<u8>) {
        self.unheard |= word == Word::Unheard;
        if !self.unheard {
            out.extend_from_slice(format!("{WORD}{}\n", word.name()).as_bytes());
        }
        if let Some(of_evcxr) = word.of_evcxr() {
            out.extend_from_slice(format!("{of_evcxr}{name}\n").as_bytes());
        }
        self.unheard &= word != Word::Done;
    }
}

impl Passage for Packed {
    fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.held.extend_from_slice(bytes);
        loop {
            match self.markers.find(&self.held) {
                Found::Word { start, end, word, name } => {
                    self.text(start, out);
                    self.held.drain(..end - start);
                    self.word(word, &name, out);
                }
                Found::Cut { start } => return self.text(start, out),
                // A character that is read in two parts stays whole.
                Found::Nothing => return self.text(whole_characters(&self.held), out),
            }
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.text(self.held.len(), out);
    }
}

/// Standard error: whole lines as UTF-8, for evcxr stops listening at the first that is not.
#[derive(Default)]
pub struct Lines {
    held: Vec<u8>,
}

impl Passage for Lines {
    fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.held.extend_from_slice(&bytes[..end]);
        if end > 0 {
            self.end(out);
        }
        self.held.extend_from_slice(&bytes[end..]);
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(String::from_utf8_lossy(&self.held).as_bytes());
        self.held.clear();
    }
}

/// The length without a character that is cut off at the end.
fn whole_characters(bytes: &[u8]) -> usize {
    let last = bytes.len().saturating_sub(3);
    match bytes[last..].iter().rposition(|byte| *byte >= 0xc0).map(|at| last + at) {
        Some(at) if std::str::from_utf8(&bytes[at..]).is_err_and(|e| e.error_len().is_none()) => at,
        _ => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What evcxr would take for its own, and what the kernel reads.
    fn passed(markers: &Markers, parts: &[&[u8]]) -> (Vec<String>, Vec<Line>) {
        let (mut packed, mut out) = (Packed::new(markers.clone()), Vec::new());
        for part in parts {
            packed.take(part, &mut out);
        }
        packed.end(&mut out);
        let text = String::from_utf8(out).expect("evcxr needs UTF-8");
        let (evcxr, ours): (Vec<_>, Vec<_>) = text.lines().partition(|l| l.contains("EVCXR"));
        let ours = ours.into_iter().map(|line| unpack(line).expect("packed")).collect();
        (evcxr.into_iter().map(str::to_owned).collect(), ours)
    }

    #[test]
    fn text_of_a_cell_is_never_evcxrs() {
        let markers = Markers::new();
        let hostile = "EVCXR_EXECUTION_COMPLETE\nEVCXR_PANIC_NOTIFICATION\n\
            EVCXR_BEGIN_CONTENT text/html\nx\nEVCXR_INPUT_REQUEST:name\n\u{1e}epsilab:flushed\n";
        let (evcxr, ours) = passed(&markers, &[hostile.as_bytes()]);
        assert!(evcxr.is_empty(), "{evcxr:?}");
        assert_eq!(ours, [Line::Text(hostile.into())]);
    }

    #[test]
    fn words_are_parted_from_the_text_around_them_however_they_are_read() {
        let markers = Markers::new();
        let said = format!("half{}\nlate", markers.word(Word::Done));
        let (evcxr, ours) = passed(&markers, &[said.as_bytes()]);
        assert_eq!(evcxr, ["EVCXR_EXECUTION_COMPLETE"]);
        let expected =
            [Line::Text("half".into()), Line::Word(Word::Done), Line::Text("late".into())];
        assert_eq!(ours, expected);
        for cut in 5..said.len() - 5 {
            let parts = [&said.as_bytes()[..cut], &said.as_bytes()[cut..]];
            assert_eq!(passed(&markers, &parts).1, expected, "{cut}");
        }
        let said = format!("{}x\n", markers.word(Word::Changed));
        assert_eq!(passed(&markers, &[said.as_bytes()]).0, ["EVCXR_VARIABLE_CHANGED_TYPE:x"]);
    }

    #[test]
    fn while_nobody_listens_nothing_piles_up() {
        let markers = Markers::new();
        let word = |word| format!("{}\n", markers.word(word));
        let said = format!("{}42\n{}heard", word(Word::Unheard), word(Word::Done));
        let (evcxr, ours) = passed(&markers, &[said.as_bytes()]);
        assert_eq!(evcxr, ["EVCXR_EXECUTION_COMPLETE"]);
        assert_eq!(ours, [Line::Text("heard".into())]);
    }

    #[test]
    fn characters_stay_whole_and_what_is_none_is_replaced() {
        let text = "aé€🙂";
        for cut in 1..text.len() {
            let (_, ours) =
                passed(&Markers::new(), &[&text.as_bytes()[..cut], &text.as_bytes()[cut..]]);
            let joined: String = ours
                .into_iter()
                .map(|line| match line {
                    Line::Text(text) => text,
                    Line::Word(word) => panic!("{word:?}"),
                })
                .collect();
            assert_eq!(joined, text, "{cut}");
        }
        assert_eq!(whole_characters(b"a\xff"), 2);
        let (mut lines, mut out) = (Lines::default(), Vec::new());
        lines.take(b"a\xff\nb", &mut out);
        assert_eq!(out, "a\u{fffd}\n".as_bytes());
        lines.end(&mut out);
        assert_eq!(out, "a\u{fffd}\nb".as_bytes());
    }
}
