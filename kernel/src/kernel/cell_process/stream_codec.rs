//! Filters between the streams of cells and evcxr.
//!
//! evcxr reads both streams by lines of UTF-8, and standard output for control words. So printed
//! text is base64-encoded: no line of it looks like a control word, and incomplete lines, carriage
//! returns and other bytes arrive as they were printed. Markers on standard output are passed on
//! twice: encoded, for the kernel, and as evcxr's own words.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::super::markers::{Marker, MarkerMatch, Markers};

const TEXT: char = 't';
const MARKER: char = 'm';

/// Line of the stream, decoded.
#[derive(PartialEq, Debug)]
pub enum DecodedLine {
    /// Text that the cell printed.
    Text(String),
    /// A marker and its argument.
    Marker(Marker, String),
}

/// Decodes a line of [`StreamEncoder`]; returns `None` for other lines.
pub fn decode_line(line: &str) -> Option<DecodedLine> {
    let mut chars = line.chars();
    match (chars.next()?, chars.as_str()) {
        (TEXT, text) => {
            let bytes = STANDARD.decode(text).ok()?;
            Some(DecodedLine::Text(String::from_utf8_lossy(&bytes).into_owned()))
        }
        (MARKER, text) => Marker::parse(text)
            .map(|(marker, argument)| DecodedLine::Marker(marker, argument.to_owned())),
        _ => None,
    }
}

/// Decodes the printed text that a message of evcxr repeats in encoded form.
pub fn readable(message: &str) -> String {
    let printed = |word: &str| match decode_line(word.trim_end_matches([':', ',', '.'])) {
        // Some words happen to be in the form of an encoded text.
        Some(DecodedLine::Text(text)) if text.contains([' ', '\n']) && text.is_ascii() => text,
        _ => word.to_owned(),
    };
    message.split(' ').map(printed).collect::<Vec<_>>().join(" ")
}

/// Output of a [`StreamEncoder`].
#[derive(Default)]
pub struct EncodedOutput {
    /// Lines for evcxr.
    pub lines: Vec<u8>,
    /// Standard output between cells, by threads and programs that outlive their cell; evcxr would
    /// not read it before the next cell runs, and the writer would wait.
    pub late: String,
}

/// Filter for one stream: encodes text and translates markers, part by part.
pub struct StreamEncoder {
    markers: Markers,
    /// Whether evcxr reads its own words from this stream; it reads it only while a cell runs.
    for_evcxr: bool,
    buffer: Vec<u8>,
    is_discarding: bool,
    /// Whether no cell runs.
    is_between_cells: bool,
}

impl StreamEncoder {
    /// Creates a filter for standard output.
    pub fn for_stdout(markers: Markers) -> Self {
        Self {
            markers,
            for_evcxr: true,
            buffer: Vec::new(),
            is_discarding: false,
            is_between_cells: false,
        }
    }

    /// Creates a filter for standard error.
    pub fn for_stderr(markers: Markers) -> Self {
        Self { for_evcxr: false, ..Self::for_stdout(markers) }
    }

    /// Encodes the bytes that were read, and appends the result to `out`.
    pub fn push(&mut self, bytes: &[u8], out: &mut EncodedOutput) {
        self.buffer.extend_from_slice(bytes);
        loop {
            match self.markers.find(&self.buffer) {
                MarkerMatch::Marker { start, end, marker, argument } => {
                    self.encode_text(start, out);
                    self.buffer.drain(..end - start);
                    self.encode_marker(marker, &argument, out);
                }
                MarkerMatch::Incomplete { start } => return self.encode_text(start, out),
                // A character that arrives in two parts is passed on whole.
                MarkerMatch::NoMatch => {
                    return self.encode_text(complete_utf8_length(&self.buffer), out);
                }
            }
        }
    }

    /// Encodes the remaining bytes at the end of the stream.
    pub fn finish(&mut self, out: &mut EncodedOutput) {
        self.encode_text(self.buffer.len(), out);
    }

    /// Encodes the first `length` buffered bytes as text.
    fn encode_text(&mut self, length: usize, out: &mut EncodedOutput) {
        let text = &self.buffer[..length];
        if length > 0 && self.is_between_cells {
            out.late.push_str(&String::from_utf8_lossy(text));
        } else if length > 0 && !self.is_discarding {
            let packed = STANDARD.encode(text);
            out.lines.extend_from_slice(format!("{TEXT}{packed}\n").as_bytes());
        }
        self.buffer.drain(..length);
    }

    /// Encodes a marker for the kernel, and as a line of evcxr's if it has one.
    fn encode_marker(&mut self, marker: Marker, argument: &str, out: &mut EncodedOutput) {
        self.is_discarding |= marker == Marker::Discard;
        self.is_between_cells &= marker != Marker::Begin;
        if !self.is_discarding {
            out.lines
                .extend_from_slice(format!("{MARKER}{}{argument}\n", marker.name()).as_bytes());
        }
        if let Some(of_evcxr) = marker.evcxr_keyword()
            && self.for_evcxr
        {
            out.lines.extend_from_slice(format!("{of_evcxr}{argument}\n").as_bytes());
        }
        self.is_between_cells |= marker == Marker::Done && self.for_evcxr;
        self.is_discarding &= marker != Marker::Done;
    }
}

/// Returns the length of `bytes` without an incomplete character at the end.
fn complete_utf8_length(bytes: &[u8]) -> usize {
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

    /// Encodes late text as a line of its own.
    fn late(text: &str) -> String {
        if text.is_empty() { String::new() } else { format!("{TEXT}{}\n", STANDARD.encode(text)) }
    }

    /// Returns the lines that evcxr reads as control words, and those that the kernel decodes.
    fn filtered(markers: &Markers, parts: &[&[u8]]) -> (Vec<String>, Vec<DecodedLine>) {
        let (mut encoder, mut out) =
            (StreamEncoder::for_stdout(markers.clone()), EncodedOutput::default());
        for part in parts {
            encoder.push(part, &mut out);
        }
        encoder.finish(&mut out);
        let text = String::from_utf8(out.lines).expect("evcxr needs UTF-8") + &late(&out.late);
        let (evcxr, ours): (Vec<_>, Vec<_>) = text.lines().partition(|l| l.contains("EVCXR"));
        let ours = ours.into_iter().map(|line| decode_line(line).expect("encoded")).collect();
        (evcxr.into_iter().map(str::to_owned).collect(), ours)
    }

    #[test]
    fn printed_text_is_never_a_control_word() {
        let markers = Markers::new();
        let hostile = "EVCXR_EXECUTION_COMPLETE\nEVCXR_PANIC_NOTIFICATION\n\
            EVCXR_BEGIN_CONTENT text/html\nx\nEVCXR_INPUT_REQUEST:name\n\u{1e}epsilab:done\n";
        let (evcxr, ours) = filtered(&markers, &[hostile.as_bytes()]);
        assert!(evcxr.is_empty(), "{evcxr:?}");
        assert_eq!(ours, [DecodedLine::Text(hostile.into())]);
    }

    #[test]
    fn markers_are_split_from_the_text_around_them_wherever_a_read_ends() {
        let markers = Markers::new();
        let input = format!("half{}\nlate", markers.text(Marker::Done));
        let (evcxr, ours) = filtered(&markers, &[input.as_bytes()]);
        assert_eq!(evcxr, ["EVCXR_EXECUTION_COMPLETE"]);
        let expected = [
            DecodedLine::Text("half".into()),
            DecodedLine::Marker(Marker::Done, String::new()),
            DecodedLine::Text("late".into()),
        ];
        assert_eq!(ours, expected);
        for cut in 5..input.len() - 5 {
            let parts = [&input.as_bytes()[..cut], &input.as_bytes()[cut..]];
            assert_eq!(filtered(&markers, &parts).1, expected, "{cut}");
        }
        let input = format!("{}x\n", markers.text(Marker::Changed));
        assert_eq!(filtered(&markers, &[input.as_bytes()]).0, ["EVCXR_VARIABLE_CHANGED_TYPE:x"]);
    }

    #[test]
    fn text_between_cells_is_late() {
        let markers = Markers::new();
        let line = |marker| format!("{}\n", markers.text(marker));
        let input = format!("a{}late{}b", line(Marker::Done), line(Marker::Begin));
        let (mut encoder, mut out) =
            (StreamEncoder::for_stdout(markers.clone()), EncodedOutput::default());
        encoder.push(input.as_bytes(), &mut out);
        encoder.finish(&mut out);
        assert_eq!(out.late, "late");
        let lines = String::from_utf8(out.lines).expect("evcxr needs UTF-8");
        let texts: Vec<_> = lines.lines().filter_map(decode_line).collect();
        let text = |text: &str| DecodedLine::Text(text.into());
        let marker = |marker| DecodedLine::Marker(marker, String::new());
        assert_eq!(texts, [text("a"), marker(Marker::Done), marker(Marker::Begin), text("b")]);
        // evcxr reads standard error all the time.
        let (mut encoder, mut out) =
            (StreamEncoder::for_stderr(markers.clone()), EncodedOutput::default());
        encoder.push(input.as_bytes(), &mut out);
        assert!(out.late.is_empty());
    }

    #[test]
    fn discarded_output_is_not_passed_on() {
        let markers = Markers::new();
        let line = |marker| format!("{}\n", markers.text(marker));
        let input = format!("{}42\n{}heard", line(Marker::Discard), line(Marker::Done));
        let (evcxr, ours) = filtered(&markers, &[input.as_bytes()]);
        assert_eq!(evcxr, ["EVCXR_EXECUTION_COMPLETE"]);
        assert_eq!(ours, [DecodedLine::Text("heard".into())]);
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
                    DecodedLine::Text(text) => text,
                    DecodedLine::Marker(marker, _) => panic!("{marker:?}"),
                })
                .collect();
            assert_eq!(joined, text, "{cut}");
        }
        assert_eq!(complete_utf8_length(b"a\xff"), 2);
    }

    #[test]
    fn standard_error_has_no_words_for_evcxr_and_keeps_incomplete_lines() {
        let markers = Markers::new();
        let (mut encoder, mut out) =
            (StreamEncoder::for_stderr(markers.clone()), EncodedOutput::default());
        for part in ["\r10 %", "\r20 %\r\n", &format!("{}\n", markers.text(Marker::Done))] {
            encoder.push(part.as_bytes(), &mut out);
        }
        let out = String::from_utf8(out.lines).expect("evcxr needs UTF-8");
        let text = |text: &str| DecodedLine::Text(text.into());
        let expected =
            [text("\r10 %"), text("\r20 %\r\n"), DecodedLine::Marker(Marker::Done, String::new())];
        assert_eq!(out.lines().filter_map(decode_line).collect::<Vec<_>>(), expected);
        assert_eq!(out.lines().count(), 3);
    }
}
