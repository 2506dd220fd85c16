//! What cells print, as evcxr passes it on, becomes `stream` messages.
//!
//! Standard error is held back for a moment: when the cell fails, its last lines are the text of
//! the failure and belong into the error, not above it.

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, select, unbounded};

use super::cell::CurrentCell;
use super::cell_process::stream::{Line, unpack};
use super::content::{Content, Shown};
use super::crash;
use super::interrupt::Interrupts;
use super::markers::{Found, Markers, Word};

const HOLD: Duration = Duration::from_millis(30);
/// A panic may still unwind for a while after its message.
const HOLD_PANIC: Duration = Duration::from_millis(500);
/// Many short lines travel together.
const GATHER: Duration = Duration::from_millis(15);
const GATHER_BYTES: usize = 1 << 14;

/// How the cell ended, as its process tells.
#[derive(Debug, Default, PartialEq)]
pub struct Ended {
    /// It panicked.
    pub panicked: bool,
    /// It returned early by `?`.
    pub errored: bool,
    /// The last lines on standard error, if it failed.
    pub text: Vec<String>,
    /// The last lines on standard error, also those that were sent on long ago.
    pub last_words: Vec<String>,
    /// What its values displayed.
    pub shown: Shown,
}

/// So many lines are the last words of a process.
const LAST_WORDS: usize = 8;

/// Asks the thread that reads.
pub struct Output {
    asks: Sender<Ask>,
}

enum Ask {
    Begin { calls_display: bool },
    Finish { ran: bool, failed: bool, answer: Sender<Ended> },
}

impl Output {
    /// Starts reading what evcxr passes on.
    pub fn start(
        outputs: evcxr::EvalContextOutputs,
        current: CurrentCell,
        interrupts: Interrupts,
        markers: Markers,
    ) -> Self {
        let (asks, asked) = unbounded();
        std::thread::spawn(move || {
            let reader = Reader::new(current, interrupts, markers);
            reader.run(&outputs.stdout, &outputs.stderr, &asked);
        });
        Self { asks }
    }

    /// A cell is going to run. `calls_display`: its own code displays values.
    pub fn begin(&self, calls_display: bool) {
        let _ = self.asks.send(Ask::Begin { calls_display });
    }

    /// Waits until everything the cell printed was sent on. `ran`: the cell's process says so
    /// itself when it is done; `failed`: it ended in another way, keep its last lines.
    pub fn finish(&self, ran: bool, failed: bool) -> Ended {
        let (answer, answered) = bounded(1);
        let _ = self.asks.send(Ask::Finish { ran, failed, answer });
        answered.recv_timeout(Duration::from_secs(5)).unwrap_or_default()
    }
}

struct Reader {
    current: CurrentCell,
    interrupts: Interrupts,
    markers: Markers,
    content: Content,
    /// Something came on standard output that was not sent on yet.
    has_text: bool,
    gathered: String,
    gathered_since: Instant,
    held: Vec<String>,
    /// The last held line has no end yet.
    held_open: bool,
    held_since: Instant,
    ended: Ended,
    synced: bool,
}

impl Reader {
    fn new(current: CurrentCell, interrupts: Interrupts, markers: Markers) -> Self {
        let now = Instant::now();
        Self {
            current,
            interrupts,
            markers,
            content: Content::default(),
            has_text: false,
            gathered: String::new(),
            gathered_since: now,
            held: Vec::new(),
            held_open: false,
            held_since: now,
            ended: Ended::default(),
            synced: false,
        }
    }

    fn run(mut self, out: &Receiver<String>, err: &Receiver<String>, asks: &Receiver<Ask>) {
        loop {
            let busy = self.has_text || !self.held.is_empty();
            let wait = if busy { GATHER / 2 } else { Duration::from_secs(3600) };
            select! {
                recv(out) -> line => match line {
                    Ok(line) => self.out_line(&line),
                    Err(_) => return,
                },
                recv(err) -> line => match line {
                    Ok(line) => self.err_line(&line),
                    Err(_) => return,
                },
                recv(asks) -> ask => match ask {
                    Ok(Ask::Begin { calls_display }) => self.content.calls_display = calls_display,
                    Ok(Ask::Finish { ran, failed, answer }) => {
                        let _ = answer.send(self.finish(out, err, ran, failed));
                    }
                    Err(_) => return,
                },
                default(wait) => {}
            }
            self.release_what_is_due();
        }
    }

    fn out_line(&mut self, line: &str) {
        if !std::mem::replace(&mut self.has_text, true) {
            self.gathered_since = Instant::now();
        }
        let text = match unpack(line) {
            Some(Line::Text(text)) => self.content.text(&text),
            Some(Line::Word(word)) => {
                self.ended.panicked |= word == Word::Panic;
                self.ended.errored |= word == Word::Error;
                self.content.word(word)
            }
            None => String::new(),
        };
        self.gathered.push_str(&text);
    }

    fn err_line(&mut self, line: &str) {
        // Lines come without their ends.
        let (text, mark) = match self.markers.find(format!("{line}\n").as_bytes()) {
            Found::Word { start, word, .. } => (&line[..start], Some(word)),
            _ => (line, None),
        };
        match mark {
            Some(Word::Begin) => self.interrupts.runs(true),
            Some(Word::Done) => {
                self.interrupts.runs(false);
                self.synced = true;
            }
            _ => {}
        }
        if text.is_empty() && mark.is_some() {
            return;
        }
        self.held_open = mark.is_some();
        let line = text.to_owned();
        let words = &mut self.ended.last_words;
        words.drain(..words.len().saturating_sub(LAST_WORDS - 1));
        words.push(line.clone());
        if self.held.is_empty() {
            self.held_since = Instant::now();
        }
        self.held.push(line);
    }

    fn release_what_is_due(&mut self) {
        if self.gathered.len() > GATHER_BYTES || self.gathered_since.elapsed() > GATHER {
            self.gathered.push_str(&self.content.release_part());
            self.release_gathered();
        }
        let hold = if self.held.iter().any(|line| is_of_an_end(line)) { HOLD_PANIC } else { HOLD };
        if self.held_since.elapsed() > hold {
            self.release_held();
        }
    }

    fn release_gathered(&mut self) {
        self.has_text = false;
        self.current.print("stdout", &std::mem::take(&mut self.gathered));
    }

    fn release_held(&mut self) {
        let mut text: String = self.held.drain(..).map(|line| line + "\n").collect();
        if std::mem::take(&mut self.held_open) {
            text.pop();
        }
        self.current.print("stderr", &text);
    }

    fn finish(
        &mut self,
        out: &Receiver<String>,
        err: &Receiver<String>,
        ran: bool,
        failed: bool,
    ) -> Ended {
        for line in out.try_iter() {
            self.out_line(&line);
        }
        let until = Instant::now() + if ran { Duration::from_secs(1) } else { HOLD / 6 };
        while !self.synced {
            match err.recv_deadline(until) {
                Ok(line) => self.err_line(&line),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        for line in err.try_iter() {
            self.err_line(&line);
        }
        let (shown, text) = self.content.end();
        self.gathered.push_str(&text);
        self.release_gathered();
        let mut ended = Ended { shown, ..std::mem::take(&mut self.ended) };
        if ended.panicked || ended.errored || failed {
            let start = match ended.panicked {
                true => self.held.iter().position(|line| is_panic_header(line)).unwrap_or(0),
                false => 0,
            };
            ended.text = self.held.split_off(start);
            // The header is preceded by an empty line.
            while self.held.last().is_some_and(|line| line.is_empty()) {
                self.held.pop();
            }
        }
        self.release_held();
        self.synced = false;
        ended
    }
}

/// Begins the text of a failure, which comes a while before the failure itself.
fn is_of_an_end(line: &str) -> bool {
    is_panic_header(line) || crash::is_of_runtime(line)
}

/// `thread 'main' (123) panicked at src/lib.rs:1:2:`
pub fn is_panic_header(line: &str) -> bool {
    line.starts_with("thread '") && line.contains(" panicked at ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_headers_are_told_from_what_cells_print() {
        assert!(is_panic_header("thread 'main' (71) panicked at src/lib.rs:5:9:"));
        assert!(!is_panic_header("thread 'main' is fine"));
    }
}
