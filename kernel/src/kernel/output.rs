//! Turns what cells print, as evcxr passes it on, into `stream` messages.

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, select, unbounded};

use super::cell_process::stream::{Line, decode};
use super::content::{Content, Shown};
use super::context::Context;
use super::interrupt::Interrupted;
use super::markers::Marker;
use super::printed::{COLLECT, Printed};

pub use super::printed::Stream;
use crate::options::name_of;

/// How a cell ended, as its process reports it.
#[derive(Debug, Default, PartialEq)]
pub struct CellEnd {
    /// It began to run.
    pub began: bool,
    /// It panicked.
    pub panicked: bool,
    /// It returned early by `?`.
    pub errored: bool,
    /// The text of the failure, if it failed: the last lines on standard error.
    pub text: Vec<String>,
    /// The last lines on standard error, including those that are published already.
    pub last_lines: Vec<String>,
    /// What its values displayed.
    pub shown: Shown,
    /// What interrupts did to it, which the engine adds.
    pub interrupted: Interrupted,
}

/// Length of [`CellEnd::last_lines`].
const LAST_LINES: usize = 8;

/// The end of a text.
#[derive(Default)]
struct Tail(String);

impl Tail {
    /// Bytes that are kept for sure.
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
pub struct Output {
    requests: Sender<Request>,
}

enum Request {
    Begin { calls_display: bool },
    Finish { ran: bool, failed: bool, answer: Sender<CellEnd> },
}

impl Output {
    /// Starts the thread.
    pub fn start(outputs: evcxr::EvalContextOutputs, context: Context) -> Self {
        let (requests, received) = unbounded();
        let reader = Reader {
            context,
            content: Content::default(),
            printed: Printed::default(),
            last_stdout: Instant::now(),
            end: CellEnd::default(),
            tail: Tail::default(),
            stderr_done: false,
        };
        std::thread::spawn(move || reader.run(&outputs.stdout, &outputs.stderr, &received));
        Self { requests }
    }

    /// Announces a cell. `calls_display`: its own code calls `evcxr_display`.
    pub fn begin(&self, calls_display: bool) {
        let _ = self.requests.send(Request::Begin { calls_display });
    }

    /// Waits until everything that the cell printed is published. `ran`: the cell process reports
    /// the end itself. `failed`: the cell ended in another way; keep its last lines.
    pub fn finish(&self, ran: bool, failed: bool) -> CellEnd {
        let (answer, answered) = bounded(1);
        let _ = self.requests.send(Request::Finish { ran, failed, answer });
        answered.recv_timeout(Duration::from_secs(5)).unwrap_or_default()
    }
}

struct Reader {
    context: Context,
    content: Content,
    printed: Printed,
    /// When text was last read from standard output.
    last_stdout: Instant,
    end: CellEnd,
    /// Of what the cell printed to standard error.
    tail: Tail,
    /// The end of the cell was read from standard error.
    stderr_done: bool,
}

impl Reader {
    fn run(mut self, out: &Receiver<String>, err: &Receiver<String>, requests: &Receiver<Request>) {
        loop {
            let idle = self.printed.is_empty() && !self.content.holds_text();
            let wait = if idle { Duration::from_secs(3600) } else { COLLECT / 2 };
            select! {
                recv(out) -> line => match line {
                    Ok(line) => self.out_line(&line),
                    Err(_) => return,
                },
                recv(err) -> line => match line {
                    Ok(line) => self.err_line(&line),
                    Err(_) => return,
                },
                recv(requests) -> request => match request {
                    Ok(Request::Begin { calls_display }) => {
                        self.content.calls_display = calls_display;
                    }
                    Ok(Request::Finish { ran, failed, answer }) => {
                        let _ = answer.send(self.finish(out, err, ran, failed));
                    }
                    Err(_) => return,
                },
                default(wait) => {}
            }
            if self.last_stdout.elapsed() > COLLECT {
                let text = self.content.release_part();
                self.printed.push(Stream::Stdout, &text);
            }
            let due = self.printed.take_due();
            self.publish(due);
        }
    }

    fn out_line(&mut self, line: &str) {
        self.last_stdout = Instant::now();
        let text = match decode(line) {
            Some(Line::Text(text)) => self.content.text(&text),
            Some(Line::Marker(Marker::Fence, number)) => {
                let text = self.content.release_part();
                self.printed.push(Stream::Stdout, &text);
                return self.fence(Stream::Stdout, &number);
            }
            Some(Line::Marker(Marker::Begin, _)) | None => String::new(),
            Some(Line::Marker(marker, _)) => {
                self.end.panicked |= marker == Marker::Panic;
                self.end.errored |= marker == Marker::Error;
                self.content.marker(marker)
            }
        };
        self.printed.push(Stream::Stdout, &text);
    }

    fn err_line(&mut self, line: &str) {
        let text = match decode(line) {
            Some(Line::Text(text)) => text,
            Some(Line::Marker(marker, argument)) => return self.err_marker(marker, &argument),
            // Of the cell process before its streams are filtered.
            None => format!("{line}\n"),
        };
        self.tail.push(&text);
        self.printed.push(Stream::Stderr, &text);
    }

    fn err_marker(&mut self, marker: Marker, argument: &str) {
        match marker {
            Marker::Begin => {
                self.end.began = true;
                self.context.interrupts.runs(true);
            }
            Marker::Done => {
                self.context.interrupts.runs(false);
                self.stderr_done = true;
            }
            Marker::Error => self.printed.begin_early_return(),
            Marker::Fence => self.fence(Stream::Stderr, argument),
            _ => {}
        }
    }

    fn fence(&mut self, stream: Stream, number: &str) {
        let Ok(number) = number.parse() else { return };
        if self.context.fences.read_back(stream, number) {
            let all = self.printed.take_all();
            self.publish(all);
            self.context.fences.text_published();
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
            self.out_line(&line);
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
            self.err_line(&line);
            if !ran && self.end.began {
                until = until.min(Instant::now() + LITTLE);
            }
        }
        for line in err.try_iter() {
            self.err_line(&line);
        }
        let (shown, text) = self.content.end();
        self.printed.push(Stream::Stdout, &text);
        let mut end =
            CellEnd { shown, last_lines: self.tail.take(), ..std::mem::take(&mut self.end) };
        if end.panicked || end.errored || failed {
            end.text = self.printed.take_failure(end.panicked);
        }
        let all = self.printed.take_all();
        self.publish(all);
        self.stderr_done = false;
        end
    }
}
