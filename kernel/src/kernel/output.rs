//! What cells print, line by line as evcxr passes it on, becomes `stream` messages.
//!
//! Standard error is held back for a moment: when the cell fails, its last lines are the text of
//! the failure and belong into the error, not above it.

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, select, unbounded};

use super::cell::CurrentCell;
use super::cell_process::{BEGIN, ERROR, MARK, PANIC, PART, SYNC};
use super::interrupt::Interrupts;

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
}

/// Asks the thread that reads.
pub struct Output {
    asks: Sender<Ask>,
}

struct Ask {
    ran: bool,
    failed: bool,
    answer: Sender<Ended>,
}

impl Output {
    /// Starts reading what evcxr passes on.
    pub fn start(
        outputs: evcxr::EvalContextOutputs,
        current: CurrentCell,
        interrupts: Interrupts,
    ) -> Self {
        let (asks, asked) = unbounded();
        std::thread::spawn(move || {
            Reader::new(current, interrupts).run(&outputs.stdout, &outputs.stderr, &asked);
        });
        Self { asks }
    }

    /// Waits until everything the cell printed was sent on. `ran`: the cell's process says so
    /// itself when it is done; `failed`: it ended in another way, keep its last lines.
    pub fn finish(&self, ran: bool, failed: bool) -> Ended {
        let (answer, answered) = bounded(1);
        let _ = self.asks.send(Ask { ran, failed, answer });
        answered.recv_timeout(Duration::from_secs(5)).unwrap_or_default()
    }
}

struct Reader {
    current: CurrentCell,
    interrupts: Interrupts,
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
    fn new(current: CurrentCell, interrupts: Interrupts) -> Self {
        let now = Instant::now();
        Self {
            current,
            interrupts,
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
            let busy = !self.gathered.is_empty() || !self.held.is_empty();
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
                    Ok(ask) => self.finish(out, err, &ask),
                    Err(_) => return,
                },
                default(wait) => {}
            }
            self.release_what_is_due();
        }
    }

    fn out_line(&mut self, line: &str) {
        if self.gathered.is_empty() {
            self.gathered_since = Instant::now();
        }
        match line.strip_prefix(MARK) {
            None => {
                self.gathered.push_str(line);
                self.gathered.push('\n');
            }
            Some(PANIC) => self.ended.panicked = true,
            Some(ERROR) => self.ended.errored = true,
            Some(mark) => self.gathered.push_str(mark.strip_prefix(PART).unwrap_or_default()),
        }
    }

    fn err_line(&mut self, line: &str) {
        let (text, mark) = line.rsplit_once(MARK).unwrap_or((line, ""));
        match mark {
            BEGIN => self.interrupts.runs(true),
            SYNC => {
                self.interrupts.runs(false);
                self.synced = true;
            }
            _ => {}
        }
        if text.is_empty() && !mark.is_empty() {
            return;
        }
        self.held_open = !mark.is_empty();
        let line = text.to_owned();
        if self.held.is_empty() {
            self.held_since = Instant::now();
        }
        self.held.push(line);
    }

    fn release_what_is_due(&mut self) {
        if self.gathered.len() > GATHER_BYTES || self.gathered_since.elapsed() > GATHER {
            self.release_gathered();
        }
        let hold =
            if self.held.iter().any(|line| is_panic_header(line)) { HOLD_PANIC } else { HOLD };
        if self.held_since.elapsed() > hold {
            self.release_held();
        }
    }

    fn release_gathered(&mut self) {
        self.current.print("stdout", &std::mem::take(&mut self.gathered));
    }

    fn release_held(&mut self) {
        let mut text: String = self.held.drain(..).map(|line| line + "\n").collect();
        if std::mem::take(&mut self.held_open) {
            text.pop();
        }
        self.current.print("stderr", &text);
    }

    fn finish(&mut self, out: &Receiver<String>, err: &Receiver<String>, ask: &Ask) {
        for line in out.try_iter() {
            self.out_line(&line);
        }
        let until = Instant::now() + if ask.ran { Duration::from_secs(1) } else { HOLD / 6 };
        while !self.synced {
            match err.recv_deadline(until) {
                Ok(line) => self.err_line(&line),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        for line in err.try_iter() {
            self.err_line(&line);
        }
        self.release_gathered();
        let mut ended = std::mem::take(&mut self.ended);
        if ended.panicked || ended.errored || ask.failed {
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
        let _ = ask.answer.send(ended);
    }
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
