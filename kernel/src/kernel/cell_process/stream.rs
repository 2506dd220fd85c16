//! Filters between the streams of cells and evcxr.
//!
//! evcxr reads both streams by lines of UTF-8, and standard output for control words. So printed
//! text is base64-encoded: no line of it looks like a control word, and incomplete lines, carriage
//! returns and other bytes arrive as they were printed. Markers on standard output are passed on
//! twice: encoded, for the kernel, and as evcxr's own words.

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

/// The message of an error of evcxr, with the text that it repeats as it was printed.
pub fn readable(message: &str) -> String {
    let printed = |word: &str| match decode(word.trim_end_matches([':', ',', '.'])) {
        // Some words happen to be in the form of an encoded text.
        Some(Line::Text(text)) if text.contains([' ', '\n']) && text.is_ascii() => text,
        _ => word.to_owned(),
    };
    message.split(' ').map(printed).collect::<Vec<_>>().join(" ")
}

/// What a filter passes on.
#[derive(Default)]
pub struct Passed {
    /// Lines for evcxr.
    pub lines: Vec<u8>,
    /// Standard output between cells, by threads and programs that outlive their cell. evcxr would
    /// not read it before the next cell runs, and whoever prints would wait.
    pub late: String,
}

/// Filter for one stream: encodes text and translates markers, part by part.
pub struct Encoder {
    markers: Markers,
    /// evcxr reads its own words from this stream, and it reads it only while a cell runs.
    for_evcxr: bool,
    held: Vec<u8>,
    discarding: bool,
    /// No cell runs.
    between: bool,
}

impl Encoder {
    /// A filter for standard output.
    pub fn of_stdout(markers: Markers) -> Self {
        Self { markers, for_evcxr: true, held: Vec::new(), discarding: false, between: false }
    }

    /// A filter for standard error.
    pub fn of_stderr(markers: Markers) -> Self {
        Self { for_evcxr: false, ..Self::of_stdout(markers) }
    }

    /// Takes the bytes that were read and appends what to pass on to `out`.
    pub fn push(&mut self, bytes: &[u8], out: &mut Passed) {
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

    /// Appends what is left at the end of the stream.
    pub fn finish(&mut self, out: &mut Passed) {
        self.text(self.held.len(), out);
    }

    /// Passes on the first `length` held bytes as text.
    fn text(&mut self, length: usize, out: &mut Passed) {
        let text = &self.held[..length];
        if length > 0 && self.between {
            out.late.push_str(&String::from_utf8_lossy(text));
        } else if length > 0 && !self.discarding {
            let packed = STANDARD.encode(text);
            out.lines.extend_from_slice(format!("{TEXT}{packed}\n").as_bytes());
        }
        self.held.drain(..length);
    }

    fn marker(&mut self, marker: Marker, argument: &str, out: &mut Passed) {
        self.discarding |= marker == Marker::Discard;
        self.between &= marker != Marker::Begin;
        if !self.discarding {
            out.lines
                .extend_from_slice(format!("{MARKER}{}{argument}\n", marker.name()).as_bytes());
        }
        if let Some(of_evcxr) = marker.of_evcxr()
            && self.for_evcxr
        {
            out.lines.extend_from_slice(format!("{of_evcxr}{argument}\n").as_bytes());
        }
        self.between |= marker == Marker::Done && self.for_evcxr;
        self.discarding &= marker != Marker::Done;
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

    #[test]
    fn a_message_repeats_what_was_printed_and_not_how_it_was_passed_on() {
        let encoded = format!("{TEXT}{}", STANDARD.encode("cell.so: failed to map\n"));
        let message = format!("evcxr stopped: {encoded} that them thistles");
        let expected = "evcxr stopped: cell.so: failed to map\n that them thistles";
        assert_eq!(readable(&message), expected);
    }

    /// Late text as a line of its own, behind the others.
    fn late(text: &str) -> String {
        if text.is_empty() { String::new() } else { format!("{TEXT}{}\n", STANDARD.encode(text)) }
    }

    /// The lines that evcxr reads as control words, and what the kernel decodes.
    fn filtered(markers: &Markers, parts: &[&[u8]]) -> (Vec<String>, Vec<Line>) {
        let (mut encoder, mut out) = (Encoder::of_stdout(markers.clone()), Passed::default());
        for part in parts {
            encoder.push(part, &mut out);
        }
        encoder.finish(&mut out);
        let text = String::from_utf8(out.lines).expect("evcxr needs UTF-8") + &late(&out.late);
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
    fn text_between_cells_is_late() {
        let markers = Markers::new();
        let line = |marker| format!("{}\n", markers.text(marker));
        let said = format!("a{}late{}b", line(Marker::Done), line(Marker::Begin));
        let (mut encoder, mut out) = (Encoder::of_stdout(markers.clone()), Passed::default());
        encoder.push(said.as_bytes(), &mut out);
        encoder.finish(&mut out);
        assert_eq!(out.late, "late");
        let lines = String::from_utf8(out.lines).expect("evcxr needs UTF-8");
        let texts: Vec<_> = lines.lines().filter_map(decode).collect();
        let text = |text: &str| Line::Text(text.into());
        let marker = |marker| Line::Marker(marker, String::new());
        assert_eq!(texts, [text("a"), marker(Marker::Done), marker(Marker::Begin), text("b")]);
        // evcxr reads standard error all the time.
        let (mut encoder, mut out) = (Encoder::of_stderr(markers.clone()), Passed::default());
        encoder.push(said.as_bytes(), &mut out);
        assert!(out.late.is_empty());
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
    }

    #[test]
    fn standard_error_has_no_words_for_evcxr_and_keeps_incomplete_lines() {
        let markers = Markers::new();
        let (mut encoder, mut out) = (Encoder::of_stderr(markers.clone()), Passed::default());
        for part in ["\r10 %", "\r20 %\r\n", &format!("{}\n", markers.text(Marker::Done))] {
            encoder.push(part.as_bytes(), &mut out);
        }
        let out = String::from_utf8(out.lines).expect("evcxr needs UTF-8");
        let text = |text: &str| Line::Text(text.into());
        let expected =
            [text("\r10 %"), text("\r20 %\r\n"), Line::Marker(Marker::Done, String::new())];
        assert_eq!(out.lines().filter_map(decode).collect::<Vec<_>>(), expected);
        assert_eq!(out.lines().count(), 3);
    }
}
