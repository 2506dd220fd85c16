//! Conversion of the output of cells, as evcxr passes it on, into `stream` messages.

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, select, unbounded};

use super::cell_process::stream_codec::{DecodedLine, decode_line};
use super::context::KernelContext;
use super::display_blocks::{DisplayParser, MimeData};
use super::interrupt::InterruptOutcome;
use super::markers::Marker;
use super::stream_buffer::{STDOUT_DELAY, StreamBuffer};

pub use super::stream_buffer::Stream;
use crate::options::name_of;

/// End of a cell as reported by its process.
#[derive(Debug, Default, PartialEq)]
pub struct CellEnd {
    /// Whether the cell began to run.
    pub started: bool,
    /// Whether the cell panicked.
    pub panicked: bool,
    /// Whether the cell returned early by `?`.
    pub returned_early: bool,
    /// Text of the failure, if the cell failed: the last lines on standard error.
    pub failure_text: Vec<String>,
    /// The last lines on standard error, including those that are published already.
    pub last_lines: Vec<String>,
    /// Displays of the cell's values.
    pub displayed: MimeData,
    /// Effect of interrupts on the cell, which the engine adds.
    pub interrupted: InterruptOutcome,
}

/// Maximum number of [`CellEnd::last_lines`].
const LAST_LINES: usize = 8;

/// Last part of a text.
#[derive(Default)]
struct TextTail(String);

impl TextTail {
    /// Number of bytes at the end of the text that are kept for sure.
    const LENGTH: usize = 1 << 13;

    fn push(&mut self, text: &str) {
        self.0.push_str(text);
        if self.0.len() > 2 * Self::LENGTH {
            let start = self.0.ceil_char_boundary(self.0.len() - Self::LENGTH);
            self.0.drain(..start);
        }
    }

    /// Removes and returns the last lines.
    fn take(&mut self) -> Vec<String> {
        let text = std::mem::take(&mut self.0);
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(LAST_LINES)..].iter().map(ToString::to_string).collect()
    }
}

/// Handle to the thread that reads the output of cells.
pub struct OutputReader {
    requests: Sender<ReaderRequest>,
}

enum ReaderRequest {
    Begin { calls_display: bool },
    Finish { ran: bool, failed: bool, answer: Sender<CellEnd> },
}

impl OutputReader {
    /// Starts the thread that reads the output of cells.
    pub fn start(outputs: evcxr::EvalContextOutputs, context: KernelContext) -> Self {
        let (requests, received) = unbounded();
        let reader = ReaderThread {
            context,
            display_parser: DisplayParser::default(),
            stream_buffer: StreamBuffer::default(),
            last_stdout: Instant::now(),
            end: CellEnd::default(),
            tail: TextTail::default(),
            stderr_done: false,
        };
        std::thread::spawn(move || reader.run(&outputs.stdout, &outputs.stderr, &received));
        Self { requests }
    }

    /// Announces a cell. `calls_display` is whether its own code calls `evcxr_display`.
    pub fn begin(&self, calls_display: bool) {
        let _ = self.requests.send(ReaderRequest::Begin { calls_display });
    }

    /// Waits until all output of the cell is published, at most 5 s. `ran` is whether the cell
    /// process reports the end itself; `failed` is whether the cell ended in another way, so that
    /// its last lines must be returned.
    pub fn finish(&self, ran: bool, failed: bool) -> CellEnd {
        let (answer, answered) = bounded(1);
        let _ = self.requests.send(ReaderRequest::Finish { ran, failed, answer });
        answered.recv_timeout(Duration::from_secs(5)).unwrap_or_default()
    }
}

struct ReaderThread {
    context: KernelContext,
    display_parser: DisplayParser,
    stream_buffer: StreamBuffer,
    /// Time at which text was last read from standard output.
    last_stdout: Instant,
    end: CellEnd,
    /// Last part of the cell's text on standard error.
    tail: TextTail,
    /// Whether the end of the cell was read from standard error.
    stderr_done: bool,
}

impl ReaderThread {
    fn run(
        mut self,
        out: &Receiver<String>,
        err: &Receiver<String>,
        requests: &Receiver<ReaderRequest>,
    ) {
        loop {
            let idle = self.stream_buffer.is_empty() && !self.display_parser.has_buffered_text();
            let wait = if idle { Duration::from_secs(3600) } else { STDOUT_DELAY / 2 };
            select! {
                recv(out) -> line => match line {
                    Ok(line) => self.handle_stdout_line(&line),
                    Err(_) => return,
                },
                recv(err) -> line => match line {
                    Ok(line) => self.handle_stderr_line(&line),
                    Err(_) => return,
                },
                recv(requests) -> request => match request {
                    Ok(ReaderRequest::Begin { calls_display }) => {
                        self.display_parser.calls_display = calls_display;
                    }
                    Ok(ReaderRequest::Finish { ran, failed, answer }) => {
                        let _ = answer.send(self.finish(out, err, ran, failed));
                    }
                    Err(_) => return,
                },
                default(wait) => {}
            }
            if self.last_stdout.elapsed() > STDOUT_DELAY {
                let text = self.display_parser.release_plain_text();
                self.stream_buffer.push(Stream::Stdout, &text);
            }
            let due = self.stream_buffer.take_due();
            self.publish(due);
        }
    }

    fn handle_stdout_line(&mut self, line: &str) {
        self.last_stdout = Instant::now();
        let text = match decode_line(line) {
            Some(DecodedLine::Text(text)) => self.display_parser.push_text(&text),
            Some(DecodedLine::Marker(Marker::Fence, number)) => {
                let text = self.display_parser.release_plain_text();
                self.stream_buffer.push(Stream::Stdout, &text);
                return self.fence(Stream::Stdout, &number);
            }
            Some(DecodedLine::Marker(Marker::Begin, _)) | None => String::new(),
            Some(DecodedLine::Marker(marker, _)) => {
                self.end.panicked |= marker == Marker::Panic;
                self.end.returned_early |= marker == Marker::Error;
                self.display_parser.push_marker(marker)
            }
        };
        self.stream_buffer.push(Stream::Stdout, &text);
    }

    fn handle_stderr_line(&mut self, line: &str) {
        let text = match decode_line(line) {
            Some(DecodedLine::Text(text)) => text,
            Some(DecodedLine::Marker(marker, argument)) => {
                return self.handle_stderr_marker(marker, &argument);
            }
            // Of the cell process before its streams are filtered.
            None => format!("{line}\n"),
        };
        self.tail.push(&text);
        self.stream_buffer.push(Stream::Stderr, &text);
    }

    fn handle_stderr_marker(&mut self, marker: Marker, argument: &str) {
        match marker {
            Marker::Begin => {
                self.end.started = true;
                self.context.interrupts.set_running(true);
            }
            Marker::Done => {
                self.context.interrupts.set_running(false);
                self.stderr_done = true;
            }
            Marker::Error => self.stream_buffer.begin_early_return(),
            Marker::Fence => self.fence(Stream::Stderr, argument),
            _ => {}
        }
    }

    fn fence(&mut self, stream: Stream, number: &str) {
        let Ok(number) = number.parse() else { return };
        if self.context.fences.record_read(stream, number) {
            let all = self.stream_buffer.take_all();
            self.publish(all);
            self.context.fences.mark_published();
        }
    }

    fn publish(&self, pieces: Vec<(Stream, String)>) {
        for (stream, text) in pieces {
            self.context.current.print(&name_of(&stream), &text);
        }
    }

    fn finish(
        &mut self,
        out: &Receiver<String>,
        err: &Receiver<String>,
        ran: bool,
        failed: bool,
    ) -> CellEnd {
        for line in out.try_iter() {
            self.handle_stdout_line(&line);
        }
        const LITTLE: Duration = Duration::from_millis(5);
        let patience = match (ran, failed) {
            (true, _) => Duration::from_secs(1),
            // Whether it began decides what is said of a crash.
            (false, true) => Duration::from_millis(300),
            (false, false) => LITTLE,
        };
        let mut until = Instant::now() + patience;
        while !self.stderr_done
            && let Ok(line) = err.recv_deadline(until)
        {
            self.handle_stderr_line(&line);
            if !ran && self.end.started {
                until = until.min(Instant::now() + LITTLE);
            }
        }
        for line in err.try_iter() {
            self.handle_stderr_line(&line);
        }
        let (shown, text) = self.display_parser.finish();
        self.stream_buffer.push(Stream::Stdout, &text);
        let mut end = CellEnd {
            displayed: shown,
            last_lines: self.tail.take(),
            ..std::mem::take(&mut self.end)
        };
        if end.panicked || end.returned_early || failed {
            end.failure_text = self.stream_buffer.take_failure(end.panicked);
        }
        let all = self.stream_buffer.take_all();
        self.publish(all);
        self.stderr_done = false;
        end
    }
}
