//! Control markers on the streams that cells print to.
//!
//! The cell process tells the kernel what happens by lines on these streams. Each marker carries a
//! nonce that is drawn when the kernel starts, so that text printed by a cell is never taken for a
//! marker. evcxr's generated code prints fixed words instead;
//! [`rustc_wrapper`](super::rustc_wrapper) replaces them by markers before a cell is compiled.

/// Environment variable that passes the nonce to the cell process and to the compiler wrapper.
pub const NONCE_ENV_VAR: &str = "EPSILAB_CELL_MARKERS";

/// Message of a marker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Marker {
    /// The output of this cell has no reader: discard its text.
    Discard,
    /// The cell was compiled and starts to run.
    Begin,
    /// The cell has run, and all its output on this stream precedes the marker.
    Done,
    /// The cell panicked.
    Panic,
    /// The cell returns early by `?`. On standard error, the text of the error follows.
    Error,
    /// A variable changed its type. The name of the variable follows.
    Changed,
    /// The text of a value without a display method of its own follows.
    Text,
    /// End of the text of a value.
    TextEnd,
    /// A value displayed itself by the output just before the marker.
    Displayed,
    /// Marker that the kernel writes into the stream to learn when it has read all text before it.
    /// A number follows.
    Fence,
}

impl Marker {
    /// Markers in the order of their declaration, with their names in a stream and evcxr's own
    /// words for them, if it has any; a name that ends in a colon is followed by an argument.
    const NAMES: [(Self, &str, Option<&str>); 10] = [
        (Self::Discard, "discard", None),
        (Self::Begin, "begin", None),
        (Self::Done, "done", Some("EVCXR_EXECUTION_COMPLETE")),
        (Self::Panic, "panic", Some("EVCXR_PANIC_NOTIFICATION")),
        (Self::Error, "error", Some("EVCXR_ERROR_OCCURRED")),
        (Self::Changed, "changed:", Some("EVCXR_VARIABLE_CHANGED_TYPE:")),
        (Self::Text, "text", None),
        (Self::TextEnd, "text-end", None),
        (Self::Displayed, "displayed", None),
        (Self::Fence, "fence:", None),
    ];

    /// Returns the name of the marker in a stream, without nonce and argument.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize].1
    }

    /// Parses a name and the argument behind it, which is empty for most markers.
    pub fn parse(text: &str) -> Option<(Self, &str)> {
        Self::NAMES.into_iter().find_map(|(marker, name, _)| {
            let argument = text.strip_prefix(name)?;
            (name.ends_with(':') || argument.is_empty()).then_some((marker, argument))
        })
    }

    /// Returns evcxr's own word for the marker, at the beginning of a line. `None` for markers
    /// that evcxr has no word for.
    pub fn evcxr_keyword(self) -> Option<&'static str> {
        Self::NAMES[self as usize].2
    }
}

/// First character of every marker, which hardly any text contains.
const MARKER_START: char = '\u{1e}';

/// Writer and finder of the markers of one kernel.
#[derive(Clone)]
pub struct Markers {
    prefix: String,
}

impl Markers {
    /// Creates markers with a new nonce.
    pub fn new() -> Self {
        Self::with_nonce(&uuid::Uuid::new_v4().simple().to_string())
    }

    /// Creates markers with the nonce in [`NONCE_ENV_VAR`], if it is set.
    pub fn from_env() -> Option<Self> {
        Some(Self::with_nonce(
            &std::env::var(NONCE_ENV_VAR).ok().filter(|nonce| !nonce.is_empty())?,
        ))
    }

    fn with_nonce(nonce: &str) -> Self {
        Self { prefix: format!("{MARKER_START}{nonce}:") }
    }

    /// Returns the nonce, for [`NONCE_ENV_VAR`].
    pub fn nonce(&self) -> &str {
        self.prefix.trim_start_matches(MARKER_START).trim_end_matches(':')
    }

    /// Returns the marker as it stands in a stream. A line break must follow.
    pub fn text(&self, marker: Marker) -> String {
        format!("{}{}", self.prefix, marker.name())
    }

    /// Returns the marker as it stands in a string literal or byte string literal.
    pub fn to_literal(&self, marker: Marker) -> String {
        self.text(marker).replace(MARKER_START, "\\x1e")
    }

    /// Finds the first marker in `bytes`.
    pub fn find(&self, bytes: &[u8]) -> MarkerMatch {
        let prefix = self.prefix.as_bytes();
        let candidates = bytes.iter().enumerate().filter(|(_, byte)| **byte == prefix[0]);
        for (start, _) in candidates {
            let rest = &bytes[start..];
            if prefix.starts_with(rest) {
                return MarkerMatch::Incomplete { start };
            }
            if let Some(rest) = rest.strip_prefix(prefix) {
                let Some(length) = rest.iter().position(|byte| *byte == b'\n') else {
                    return MarkerMatch::Incomplete { start };
                };
                let parsed = std::str::from_utf8(&rest[..length]).ok().and_then(Marker::parse);
                if let Some((marker, argument)) = parsed {
                    let end = start + prefix.len() + length + 1;
                    return MarkerMatch::Marker {
                        start,
                        end,
                        marker,
                        argument: argument.to_owned(),
                    };
                }
            }
        }
        MarkerMatch::NoMatch
    }
}

/// Result of [`Markers::find`].
#[derive(PartialEq, Debug)]
pub enum MarkerMatch {
    /// A marker in `start..end`, line break included.
    Marker { start: usize, end: usize, marker: Marker, argument: String },
    /// The bytes end inside a possible marker.
    Incomplete { start: usize },
    /// The bytes contain only text.
    NoMatch,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_markers_with_the_nonce_are_found() {
        let markers = Markers::new();
        assert_eq!(markers.find(b"EVCXR_EXECUTION_COMPLETE\n"), MarkerMatch::NoMatch);
        let other = format!("{}\n", Markers::new().text(Marker::Done));
        assert_eq!(markers.find(other.as_bytes()), MarkerMatch::NoMatch);
        let bytes = format!("half{}\nmore", markers.text(Marker::TextEnd));
        let end = bytes.len() - 4;
        let argument = String::new();
        let expected = MarkerMatch::Marker { start: 4, end, marker: Marker::TextEnd, argument };
        assert_eq!(markers.find(bytes.as_bytes()), expected);
        for cut in 5..end - 1 {
            let found = markers.find(&bytes.as_bytes()[..cut]);
            assert_eq!(found, MarkerMatch::Incomplete { start: 4 }, "{cut}");
        }
        let unknown = format!("{}nonsense\n", markers.prefix);
        assert_eq!(markers.find(unknown.as_bytes()), MarkerMatch::NoMatch);
    }

    #[test]
    fn arguments_follow_their_marker() {
        let markers = Markers::new();
        let text = format!("{}größe\n", markers.text(Marker::Changed));
        let MarkerMatch::Marker { marker, argument, .. } = markers.find(text.as_bytes()) else {
            panic!("not found");
        };
        assert_eq!((marker, argument.as_str()), (Marker::Changed, "größe"));
        assert_eq!(Marker::parse("fence:12"), Some((Marker::Fence, "12")));
        assert_eq!(Marker::parse("done12"), None);
    }
}
