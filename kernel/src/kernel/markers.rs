//! Words between the kernel and the process of its cells, on the streams that cells print to.
//!
//! Each is a line of its own and carries a nonce that is drawn when the kernel starts, so that no
//! text of a cell is ever taken for one. What evcxr's generated code prints has no nonce of its
//! own; [`rustc`](super::rustc) puts it in before a cell is compiled.

use std::fmt;

/// Where the process of the cells and the compiler find the nonce.
pub const VARIABLE: &str = "EPSILAB_CELL_MARKERS";

/// A word, with what evcxr calls it. Those that evcxr has no name for concern the kernel alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    /// Nobody listens yet: until the cell is done, nothing but evcxr's own words goes on.
    Unheard,
    /// The cell is compiled and begins to run.
    Begin,
    /// The cell has run, and all that it printed on this stream came before.
    Done,
    /// The cell panicked.
    Panic,
    /// The cell returned early by `?`.
    Error,
    /// A variable has another type than it had; its name follows.
    Changed,
    /// The text of a value without a display of its own follows.
    Text,
    /// That text is at its end.
    TextEnd,
    /// A value has displayed itself, by what was printed just before.
    Displayed,
}

impl Word {
    const ALL: [Self; 9] = [
        Self::Unheard,
        Self::Begin,
        Self::Done,
        Self::Panic,
        Self::Error,
        Self::Changed,
        Self::Text,
        Self::TextEnd,
        Self::Displayed,
    ];

    /// The word without what makes it unmistakable.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unheard => "unheard",
            Self::Begin => "begin",
            Self::Done => "done",
            Self::Panic => "panic",
            Self::Error => "error",
            Self::Changed => "changed:",
            Self::Text => "text",
            Self::TextEnd => "text-end",
            Self::Displayed => "displayed",
        }
    }

    /// The word with this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|word| word.name() == name)
    }

    /// How evcxr itself says it, at the beginning of a line.
    pub fn of_evcxr(self) -> Option<&'static str> {
        match self {
            Self::Done => Some("EVCXR_EXECUTION_COMPLETE"),
            Self::Panic => Some("EVCXR_PANIC_NOTIFICATION"),
            Self::Error => Some("EVCXR_ERROR_OCCURRED"),
            Self::Changed => Some("EVCXR_VARIABLE_CHANGED_TYPE:"),
            Self::Unheard | Self::Begin | Self::Text | Self::TextEnd | Self::Displayed => None,
        }
    }
}

/// The marker's words begin with this character, which hardly any text holds.
const START: char = '\u{1e}';

/// What begins the words of one kernel.
#[derive(Clone)]
pub struct Markers {
    prefix: String,
}

impl Markers {
    /// With a new nonce.
    pub fn new() -> Self {
        Self::with(&uuid::Uuid::new_v4().simple().to_string())
    }

    /// With the nonce that the kernel handed down.
    pub fn inherited() -> Option<Self> {
        Some(Self::with(&std::env::var(VARIABLE).ok().filter(|nonce| !nonce.is_empty())?))
    }

    fn with(nonce: &str) -> Self {
        Self { prefix: format!("{START}{nonce}:") }
    }

    /// To be handed down.
    pub fn nonce(&self) -> &str {
        self.prefix.trim_start_matches(START).trim_end_matches(':')
    }

    /// The word as it stands in a stream; a line break is to follow.
    pub fn word(&self, word: Word) -> String {
        format!("{}{}", self.prefix, word.name())
    }

    /// The word as it stands in a string literal, also in one of bytes.
    pub fn literal(&self, word: Word) -> String {
        self.word(word).replace(START, "\\x1e")
    }

    /// The first word in `bytes`.
    pub fn find(&self, bytes: &[u8]) -> Found {
        let prefix = self.prefix.as_bytes();
        let candidates = bytes.iter().enumerate().filter(|(_, byte)| **byte == prefix[0]);
        for (start, _) in candidates {
            let rest = &bytes[start..];
            if prefix.starts_with(rest) {
                return Found::Cut { start };
            }
            if let Some(rest) = rest.strip_prefix(prefix) {
                let Some(length) = rest.iter().position(|byte| *byte == b'\n') else {
                    return Found::Cut { start };
                };
                if let Some((word, name)) = parse(&rest[..length]) {
                    let end = start + prefix.len() + length + 1;
                    return Found::Word { start, end, word, name };
                }
            }
        }
        Found::Nothing
    }
}

impl fmt::Debug for Markers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Markers")
    }
}

/// What [`Markers::find`] finds.
#[derive(PartialEq, Debug)]
pub enum Found {
    /// A word, where it begins and what comes after it.
    Word { start: usize, end: usize, word: Word, name: String },
    /// The bytes end within what may become a word.
    Cut { start: usize },
    /// Only text.
    Nothing,
}

fn parse(line: &[u8]) -> Option<(Word, String)> {
    let line = std::str::from_utf8(line).ok()?;
    Word::ALL.into_iter().find_map(|word| {
        let rest = line.strip_prefix(word.name())?;
        let named = word == Word::Changed;
        (named || rest.is_empty()).then(|| (word, rest.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_with_the_nonce_are_found() {
        let markers = Markers::new();
        assert_eq!(markers.find(b"EVCXR_EXECUTION_COMPLETE\n"), Found::Nothing);
        let other = format!("{}\n", Markers::new().word(Word::Done));
        assert_eq!(markers.find(other.as_bytes()), Found::Nothing);
        let own = format!("half{}\nmore", markers.word(Word::TextEnd));
        let end = own.len() - 4;
        let name = String::new();
        let expected = Found::Word { start: 4, end, word: Word::TextEnd, name };
        assert_eq!(markers.find(own.as_bytes()), expected);
        for cut in 5..end - 1 {
            assert_eq!(markers.find(&own.as_bytes()[..cut]), Found::Cut { start: 4 }, "{cut}");
        }
        let unknown = format!("{}nonsense\n", markers.prefix);
        assert_eq!(markers.find(unknown.as_bytes()), Found::Nothing);
    }

    #[test]
    fn names_of_variables_follow_their_word() {
        let markers = Markers::new();
        let text = format!("{}größe\n", markers.word(Word::Changed));
        let Found::Word { word, name, .. } = markers.find(text.as_bytes()) else {
            panic!("not found");
        };
        assert_eq!((word, name.as_str()), (Word::Changed, "größe"));
    }
}
