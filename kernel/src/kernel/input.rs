//! Input of cells: the kernel asks the front end whose request runs.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::cell::CurrentCell;
use super::interrupt::Interrupts;

const CHECK_EVERY: Duration = Duration::from_millis(50);

/// Why a cell got no answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unanswered {
    /// The front end answers no questions.
    Refused,
    /// The user interrupted the cell instead of answering.
    Interrupted,
}

/// What a cell gets that reads its input; it travels to the cell process as JSON.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
pub enum Answer {
    /// A line.
    Line(String),
    /// The end of the input.
    End,
    /// An error: there is nobody to ask, or the user stopped the cell instead of answering. An
    /// empty answer would let the cell go on with what it asked about.
    Failed,
}

#[derive(Default)]
struct State {
    /// The front end answers questions of the cell.
    allowed: bool,
    unanswered: Option<Unanswered>,
    /// The question that waits for an answer.
    waiting: Option<Sender<String>>,
}

/// Shared by the thread that runs cells, the side channel and the one that receives answers.
#[derive(Clone)]
pub struct Inputs {
    current: CurrentCell,
    interrupts: Interrupts,
    state: Arc<Mutex<State>>,
}

impl Inputs {
    /// No cell yet: nothing is allowed.
    pub fn new(current: CurrentCell, interrupts: Interrupts) -> Self {
        Self { current, interrupts, state: Arc::default() }
    }

    /// A cell begins.
    pub fn begin(&self, allowed: bool) {
        *self.state.lock() = State { allowed, ..State::default() };
    }

    /// The cell has ended: forgets its question, if one waits. Says whether one had no answer.
    pub fn end(&self) -> Option<Unanswered> {
        std::mem::take(&mut *self.state.lock()).unanswered
    }

    /// Asks the front end for a line and waits for it. The input ends by Ctrl+D; an interrupt makes
    /// the read fail. Where nobody can be asked, the cell stops at its next loop too: one that asks
    /// until the answer is right would ask for ever.
    pub fn ask(&self) -> Answer {
        let interrupts = self.interrupts.interrupt_count();
        let Some(answered) = self.question() else {
            self.interrupts.stop_cell();
            return Answer::Failed;
        };
        loop {
            match answered.recv_timeout(CHECK_EVERY) {
                Ok(text) if text == "\u{4}" => return Answer::End,
                Ok(text) => return Answer::Line(text),
                Err(RecvTimeoutError::Disconnected) => return Answer::Failed,
                Err(RecvTimeoutError::Timeout)
                    if self.interrupts.interrupt_count() != interrupts =>
                {
                    self.state.lock().unanswered = Some(Unanswered::Interrupted);
                    return Answer::Failed;
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn question(&self) -> Option<Receiver<String>> {
        let mut state = self.state.lock();
        if !state.allowed {
            state.unanswered = Some(Unanswered::Refused);
            return None;
        }
        let (answer, answered) = channel();
        state.waiting = Some(answer);
        self.current.ask_for_input();
        Some(answered)
    }

    /// The front end has answered. An answer to no question is dropped.
    pub fn answer(&self, text: String) {
        if let Some(waiting) = self.state.lock().waiting.take() {
            let _ = waiting.send(text);
        }
    }
}
