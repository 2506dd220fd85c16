//! Buffer of printed text on its way to the client, in the order in which it was read.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::crash;
use super::panics;
use crate::html::without_colours;
use crate::pattern::{Pattern, pattern};

/// One of the two streams that cells print to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Stream {
    Stdout,
    Stderr,
}

/// Time for which standard output is collected, so that many short lines travel in one message.
pub const STDOUT_DELAY: Duration = Duration::from_millis(15);
const MAX_STDOUT_CHUNK: usize = 1 << 14;
/// Time for which standard error is buffered. If the cell fails, its last lines are the text of
/// the failure and belong in the error, not above it.
const STDERR_DELAY: Duration = Duration::from_millis(30);
/// Time for which text is collected that overwrites itself by carriage returns, as progress bars
/// do: ten updates a second.
const PROGRESS_BAR_DELAY: Duration = Duration::from_millis(100);
/// Time for which the possible message of a failure is buffered, since a panic may unwind for a
/// while after its message.
const PANIC_DELAY: Duration = Duration::from_millis(500);

struct StreamChunk {
    stream: Stream,
    text: String,
    received_at: Instant,
}

impl StreamChunk {
    fn is_due(&self, now: Instant) -> bool {
        let hold = match self.stream {
            Stream::Stdout if self.text.len() > MAX_STDOUT_CHUNK => return true,
            Stream::Stderr if may_contain_failure(&self.text) => PANIC_DELAY,
            _ if self.text.contains('\r') => PROGRESS_BAR_DELAY,
            Stream::Stdout => STDOUT_DELAY,
            Stream::Stderr => STDERR_DELAY,
        };
        now.duration_since(self.received_at) > hold
    }

    fn into_text(self) -> (Stream, String) {
        let text = drop_overwritten_text(self.text);
        match self.stream {
            Stream::Stdout => (self.stream, text),
            Stream::Stderr => (self.stream, panics::strip_generated_locations(text)),
        }
    }
}

/// Queue of printed text, which a piece leaves only after all pieces before it.
#[derive(Default)]
pub struct StreamBuffer {
    chunks: VecDeque<StreamChunk>,
    /// Text on standard error after the cell returned early: the error, and the output of
    /// destructors.
    early_return: Option<String>,
}

impl StreamBuffer {
    /// Returns whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Appends text.
    pub fn push(&mut self, stream: Stream, text: &str) {
        if let Some(error) = self.early_return.as_mut().filter(|_| stream == Stream::Stderr) {
            return error.push_str(text);
        }
        match self.chunks.back_mut() {
            _ if text.is_empty() => {}
            Some(last) if last.stream == stream => last.text.push_str(text),
            _ => {
                self.chunks.push_back(StreamChunk {
                    stream,
                    text: text.into(),
                    received_at: Instant::now(),
                });
            }
        }
    }

    /// Removes and returns the pieces at the front whose time in the buffer is over.
    pub fn take_due(&mut self) -> Vec<(Stream, String)> {
        self.take_due_at(Instant::now())
    }

    fn take_due_at(&mut self, now: Instant) -> Vec<(Stream, String)> {
        let due = self.chunks.iter().take_while(|piece| piece.is_due(now)).count();
        self.chunks.drain(..due).map(StreamChunk::into_text).collect()
    }

    /// Records that the cell returns early: standard error is buffered until
    /// [`take_failure`](Self::take_failure), however long its destructors take.
    pub fn begin_early_return(&mut self) {
        self.early_return.get_or_insert_default();
    }

    /// Removes and returns everything but the text of an early return.
    pub fn take_all(&mut self) -> Vec<(Stream, String)> {
        self.chunks.drain(..).map(StreamChunk::into_text).collect()
    }

    /// Removes and returns the lines of a failure. After an early return: what came on standard
    /// error since. After a panic: what follows the last panic message, because earlier panics
    /// were caught. Otherwise what is held of standard error.
    pub fn take_failure(&mut self, panicked: bool) -> Vec<String> {
        if let Some(text) = self.early_return.take() {
            if !panicked {
                return text.lines().map(str::to_owned).collect();
            }
            // A destructor panicked.
            self.push(Stream::Stderr, &text);
        }
        let is_panic = |piece: &StreamChunk| last_panic_offset(piece).is_some();
        let first = if panicked {
            self.chunks.iter().rposition(is_panic).unwrap_or(self.chunks.len())
        } else {
            0
        };
        let mut lines = Vec::new();
        for (index, piece) in self.chunks.iter_mut().enumerate().skip(first) {
            if piece.stream != Stream::Stderr {
                continue;
            }
            let header = (panicked && index == first).then(|| last_panic_offset(piece)).flatten();
            let text = piece.text.split_off(header.unwrap_or(0));
            lines.extend(text.lines().map(str::to_owned));
            if ends_in_an_empty_line(&piece.text) {
                piece.text.pop();
            }
        }
        lines
    }
}

/// Returns the start of the last panic message in a piece of standard error.
fn last_panic_offset(piece: &StreamChunk) -> Option<usize> {
    let headers = HEADER.find_iter(&piece.text).map(|header| header.start());
    headers.last().filter(|_| piece.stream == Stream::Stderr)
}

/// Removes text that carriage returns overwrite, so that a progress bar does not use up the text
/// limit of its cell. What a terminal shows stays the same: a part is removed only if a later one
/// of its line is at least as long. The first part stays, because it may continue a line that is
/// published already.
fn drop_overwritten_text(text: String) -> String {
    if !text.contains('\r') {
        return text;
    }
    let mut left = String::new();
    for line in text.split_inclusive('\n') {
        let body = line.trim_end_matches('\n').trim_end_matches('\r');
        let (first, rest) = body.split_once('\r').map_or((body, None), |(a, b)| (a, Some(b)));
        let mut longest = None;
        let mut kept: Vec<_> = rest
            .into_iter()
            .flat_map(|rest| rest.rsplit('\r'))
            .filter(|part| {
                let is_seen = longest.is_none_or(|longest| terminal_width(part) > longest);
                longest = longest.max(Some(terminal_width(part)));
                is_seen
            })
            .collect();
        kept.reverse();
        left.push_str(first);
        for part in kept {
            left.push('\r');
            left.push_str(part);
        }
        left.push_str(&line[body.len()..]);
    }
    left
}

/// Returns the number of characters that a terminal shows, without escape sequences such as
/// colours.
fn terminal_width(text: &str) -> usize {
    without_colours(text).chars().count()
}

/// Returns whether the last line is empty, as the line before a panic message is.
fn ends_in_an_empty_line(text: &str) -> bool {
    text == "\n" || text.ends_with("\n\n")
}

/// Returns whether text contains the message of a failure, or ends where the message of a panic
/// may follow.
fn may_contain_failure(text: &str) -> bool {
    let last = text.rsplit('\n').next().unwrap_or_default();
    let may_follow = match last {
        "" => ends_in_an_empty_line(text),
        last => last.starts_with(PANIC_HEADER) || PANIC_HEADER.starts_with(last),
    };
    may_follow || text.lines().any(|line| is_panic_header(line) || crash::is_runtime_message(line))
}

/// Start of the first line of a panic message.
const PANIC_HEADER: &str = "thread '";

static HEADER: Pattern = Pattern::new(|| pattern("(?m)^thread '.* panicked at "));

/// Returns `true` for the first line of a panic message: `thread 'main' panicked at
/// src/lib.rs:1:2:`.
pub fn is_panic_header(line: &str) -> bool {
    HEADER.is_match(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the text that is due `time` after all of the queue was printed.
    fn due_after(printed: &mut StreamBuffer, time: Duration) -> Vec<(Stream, String)> {
        let now = Instant::now();
        printed.chunks.iter_mut().for_each(|piece| piece.received_at = now);
        printed.take_due_at(now + time)
    }

    /// Duration a little longer than text is buffered.
    const HELD: Duration = Duration::from_millis(35);

    #[test]
    fn panic_headers_differ_from_other_text() {
        assert!(is_panic_header("thread 'main' (71) panicked at src/lib.rs:5:9:"));
        assert!(!is_panic_header("thread 'main' is fine"));
    }

    #[test]
    fn text_keeps_its_order_and_stdout_waits_for_stderr() {
        let mut printed = StreamBuffer::default();
        printed.push(Stream::Stderr, "a\n");
        printed.push(Stream::Stdout, &"x".repeat(MAX_STDOUT_CHUNK + 1));
        assert!(due_after(&mut printed, Duration::ZERO).is_empty());
        let due = due_after(&mut printed, HELD);
        let streams: Vec<_> = due.into_iter().map(|(stream, _)| stream).collect();
        assert_eq!(streams, [Stream::Stderr, Stream::Stdout]);
    }

    #[test]
    fn an_empty_line_waits_for_the_panic_message_that_may_follow() {
        let mut printed = StreamBuffer::default();
        printed.push(Stream::Stderr, "\n");
        assert!(due_after(&mut printed, HELD).is_empty());
        printed.push(Stream::Stderr, "thread 'main' panicked at a:1:2:\nwhy\n");
        assert_eq!(printed.take_failure(true), ["thread 'main' panicked at a:1:2:", "why"]);
        assert_eq!(printed.take_all(), [(Stream::Stderr, String::new())]);
        // Nothing else waits longer than before.
        printed.push(Stream::Stderr, "said\n");
        assert_eq!(due_after(&mut printed, HELD).len(), 1);
    }

    #[test]
    fn the_text_of_an_early_return_is_kept_until_the_cell_has_ended() {
        let mut printed = StreamBuffer::default();
        printed.push(Stream::Stderr, "said\n");
        printed.begin_early_return();
        printed.push(Stream::Stderr, "why\n\n  what to do\n");
        printed.push(Stream::Stdout, "a destructor\n");
        let due = due_after(&mut printed, HELD);
        let texts: Vec<_> = due.into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts, ["said\n", "a destructor\n"]);
        assert!(printed.take_all().is_empty());
        assert_eq!(printed.take_failure(false), ["why", "", "  what to do"]);
        printed.push(Stream::Stderr, "next cell\n");
        assert_eq!(printed.take_all().len(), 1);
    }

    #[test]
    fn a_panic_after_an_early_return_is_the_failure() {
        let mut printed = StreamBuffer::default();
        printed.begin_early_return();
        printed.push(Stream::Stderr, "why\n");
        printed.push(Stream::Stderr, "\nthread 'main' panicked at a:1:2:\nin drop\n");
        assert_eq!(printed.take_failure(true), ["thread 'main' panicked at a:1:2:", "in drop"]);
        assert_eq!(printed.take_all(), [(Stream::Stderr, "why\n".to_owned())]);
    }

    #[test]
    fn a_failure_takes_its_own_lines_only() {
        let mut printed = StreamBuffer::default();
        printed.push(Stream::Stderr, "said\n\nthread 'main' panicked at a:1:2:\nwhy\n");
        printed.push(Stream::Stdout, "out\n");
        printed.push(Stream::Stderr, "more\n");
        let lines = printed.take_failure(true);
        assert_eq!(lines, ["thread 'main' panicked at a:1:2:", "why", "more"]);
        let left: String = printed.take_all().into_iter().map(|(_, text)| text).collect();
        assert_eq!(left, "said\nout\n");
    }

    #[test]
    fn caught_panics_are_not_part_of_the_failure() {
        let mut printed = StreamBuffer::default();
        let caught = "\nthread 'main' panicked at a:1:2:\ncaught\n";
        printed.push(Stream::Stderr, caught);
        printed.push(Stream::Stderr, "\nthread 'main' panicked at b:1:2:\nwhy\n");
        assert_eq!(printed.take_failure(true), ["thread 'main' panicked at b:1:2:", "why"]);
        assert_eq!(printed.take_all(), [(Stream::Stderr, caught.to_owned())]);
    }

    #[test]
    fn the_panic_of_a_thread_names_no_place_in_generated_code() {
        let mut printed = StreamBuffer::default();
        printed.push(Stream::Stderr, "\nthread 'a' panicked at src/lib.rs:9:1:\nwhy\n");
        let text: String = printed.take_all().into_iter().map(|(_, text)| text).collect();
        assert_eq!(text, "\nthread 'a' panicked:\nwhy\n");
    }

    #[test]
    fn a_panic_header_that_arrives_in_parts_is_held() {
        let mut printed = StreamBuffer::default();
        printed.push(Stream::Stderr, "\nthread '");
        assert!(due_after(&mut printed, HELD).is_empty());
        printed.push(Stream::Stderr, "main' panicked at a:1:2:\nwhy\n");
        assert_eq!(printed.take_failure(true), ["thread 'main' panicked at a:1:2:", "why"]);
        for (text, may) in [("thr", true), ("thread 'x", true), ("a\n", false), ("three", false)] {
            assert_eq!(may_contain_failure(text), may, "{text}");
        }
    }

    #[test]
    fn progress_bars_are_shortened_to_what_is_seen() {
        let cases = [
            ("\r1 %\r2 %\r3 %", "\r3 %"),
            // The end of the longer line stays visible.
            ("\rone\rfour\rb\rcc", "\rfour\rcc"),
            ("ab\rc\rd\nx\ry\n", "ab\rd\nx\ry\n"),
            ("Windows\r\nline\r\n", "Windows\r\nline\r\n"),
            ("1\r2\r", "1\r2\r"),
            ("\r\u{1b}[32mgreen\u{1b}[0m\rplain", "\rplain"),
            ("\rplainer\r\u{1b}[32mgreen\u{1b}[0m", "\rplainer\r\u{1b}[32mgreen\u{1b}[0m"),
        ];
        for (text, left) in cases {
            assert_eq!(drop_overwritten_text(text.into()), left, "{text:?}");
        }
        let mut printed = StreamBuffer::default();
        printed.push(Stream::Stdout, "\r1 %");
        assert!(due_after(&mut printed, HELD).is_empty(), "ten updates a second");
    }
}
