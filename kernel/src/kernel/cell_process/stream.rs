//! Filters between the streams of cells and evcxr.
//!
//! evcxr reads control words from the standard output of cells. So printed text is base64-encoded,
//! and no line of it looks like a control word. Markers are passed on twice: encoded, for the
//! kernel, and as evcxr's own words.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::super::markers::{Found, Marker, Markers};

const TEXT: char = 't';
const MARKER: char = 'm';

/// A decoded line.
#[derive(PartialEq, Debug)]
pub enum Line {
    /// The cell printed this.
    Text(String),
    /// A marker and its argument.
    Marker(Marker, String),
}

/// Decodes a line of [`Encoder`]; other lines have no meaning.
pub fn decode(line: &str) -> Option<Line> {
    let mut chars = line.chars();
    match (chars.next()?, chars.as_str()) {
        (TEXT, text) => {
            let bytes = STANDARD.decode(text).ok()?;
            Some(Line::Text(String::from_utf8_lossy(&bytes).into_owned()))
        }
        (MARKER, text) => {
            Marker::parse(text).map(|(marker, argument)| Line::Marker(marker, argument.to_owned()))
        }
        _ => None,
    }
}

/// Rewrites a stream part by part.
pub trait StreamFilter {
    /// Takes the bytes that were read and appends what to pass on to `out`.
    fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>);
    /// Appends what is left at the end of the stream.
    fn finish(&mut self, out: &mut Vec<u8>);
}

/// Filter for standard output: encodes text and translates markers.
pub struct Encoder {
    markers: Markers,
    held: Vec<u8>,
    discarding: bool,
}

impl Encoder {
    /// A filter that has read nothing.
    pub fn new(markers: Markers) -> Self {
        Self { markers, held: Vec::new(), discarding: false }
    }

    /// Passes on the first `length` held bytes as text.
    fn text(&mut self, length: usize, out: &mut Vec<u8>) {
        if length > 0 && !self.discarding {
            let packed = STANDARD.encode(&self.held[..length]);
            out.extend_from_slice(format!("{TEXT}{packed}\n").as_bytes());
        }
        self.held.drain(..length);
    }

    fn marker(&mut self, marker: Marker, argument: &str, out: &mut Vec<u8>) {
        self.discarding |= marker == Marker::Discard;
        if !self.discarding {
            out.extend_from_slice(format!("{MARKER}{}{argument}\n", marker.name()).as_bytes());
        }
        if let Some(of_evcxr) = marker.of_evcxr() {
            out.extend_from_slice(format!("{of_evcxr}{argument}\n").as_bytes());
        }
        self.discarding &= marker != Marker::Done;
    }
}

impl StreamFilter for Encoder {
    fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.held.extend_from_slice(bytes);
        loop {
            match self.markers.find(&self.held) {
                Found::Marker { start, end, marker, argument } => {
                    self.text(start, out);
                    self.held.drain(..end - start);
                    self.marker(marker, &argument, out);
                }
                Found::Incomplete { start } => return self.text(start, out),
                // A character that arrives in two parts is passed on whole.
                Found::Nothing => return self.text(complete_chars(&self.held), out),
            }
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        self.text(self.held.len(), out);
    }
}

/// Filter for standard error: whole lines of UTF-8, since evcxr stops reading at anything else.
#[derive(Default)]
pub struct Lines {
    held: Vec<u8>,
}

impl StreamFilter for Lines {
    fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.held.extend_from_slice(&bytes[..end]);
        if end > 0 {
            self.finish(out);
        }
        self.held.extend_from_slice(&bytes[end..]);
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(String::from_utf8_lossy(&self.held).as_bytes());
        self.held.clear();
    }
}

/// Length of `bytes` without an incomplete character at the end.
fn complete_chars(bytes: &[u8]) -> usize {
    let last = bytes.len().saturating_sub(3);
    match bytes[last..].iter().rposition(|byte| *byte >= 0xc0).map(|at| last + at) {
        Some(at) if std::str::from_utf8(&bytes[at..]).is_err_and(|e| e.error_len().is_none()) => at,
        _ => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines that evcxr reads as control words, and what the kernel decodes.
    fn filtered(markers: &Markers, parts: &[&[u8]]) -> (Vec<String>, Vec<Line>) {
        let (mut encoder, mut out) = (Encoder::new(markers.clone()), Vec::new());
        for part in parts {
            encoder.push(part, &mut out);
        }
        encoder.finish(&mut out);
        let text = String::from_utf8(out).expect("evcxr needs UTF-8");
        let (evcxr, ours): (Vec<_>, Vec<_>) = text.lines().partition(|l| l.contains("EVCXR"));
        let ours = ours.into_iter().map(|line| decode(line).expect("encoded")).collect();
        (evcxr.into_iter().map(str::to_owned).collect(), ours)
    }

    #[test]
    fn printed_text_is_never_a_control_word() {
        let markers = Markers::new();
        let hostile = "EVCXR_EXECUTION_COMPLETE\nEVCXR_PANIC_NOTIFICATION\n\
            EVCXR_BEGIN_CONTENT text/html\nx\nEVCXR_INPUT_REQUEST:name\n\u{1e}epsilab:done\n";
        let (evcxr, ours) = filtered(&markers, &[hostile.as_bytes()]);
        assert!(evcxr.is_empty(), "{evcxr:?}");
        assert_eq!(ours, [Line::Text(hostile.into())]);
    }

    #[test]
    fn markers_are_split_from_the_text_around_them_wherever_a_read_ends() {
        let markers = Markers::new();
        let said = format!("half{}\nlate", markers.text(Marker::Done));
        let (evcxr, ours) = filtered(&markers, &[said.as_bytes()]);
        assert_eq!(evcxr, ["EVCXR_EXECUTION_COMPLETE"]);
        let expected = [
            Line::Text("half".into()),
            Line::Marker(Marker::Done, String::new()),
            Line::Text("late".into()),
        ];
        assert_eq!(ours, expected);
        for cut in 5..said.len() - 5 {
            let parts = [&said.as_bytes()[..cut], &said.as_bytes()[cut..]];
            assert_eq!(filtered(&markers, &parts).1, expected, "{cut}");
        }
        let said = format!("{}x\n", markers.text(Marker::Changed));
        assert_eq!(filtered(&markers, &[said.as_bytes()]).0, ["EVCXR_VARIABLE_CHANGED_TYPE:x"]);
    }

    #[test]
    fn discarded_output_is_not_passed_on() {
        let markers = Markers::new();
        let line = |marker| format!("{}\n", markers.text(marker));
        let said = format!("{}42\n{}heard", line(Marker::Discard), line(Marker::Done));
        let (evcxr, ours) = filtered(&markers, &[said.as_bytes()]);
        assert_eq!(evcxr, ["EVCXR_EXECUTION_COMPLETE"]);
        assert_eq!(ours, [Line::Text("heard".into())]);
    }

    #[test]
    fn characters_stay_whole_and_invalid_bytes_are_replaced() {
        let text = "aé€🙂";
        for cut in 1..text.len() {
            let (_, ours) =
                filtered(&Markers::new(), &[&text.as_bytes()[..cut], &text.as_bytes()[cut..]]);
            let joined: String = ours
                .into_iter()
                .map(|line| match line {
                    Line::Text(text) => text,
                    Line::Marker(marker, _) => panic!("{marker:?}"),
                })
                .collect();
            assert_eq!(joined, text, "{cut}");
        }
        assert_eq!(complete_chars(b"a\xff"), 2);
        let (mut lines, mut out) = (Lines::default(), Vec::new());
        lines.push(b"a\xff\nb", &mut out);
        assert_eq!(out, "a\u{fffd}\n".as_bytes());
        lines.finish(&mut out);
        assert_eq!(out, "a\u{fffd}\nb".as_bytes());
    }
}
