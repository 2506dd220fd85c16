//! Input of cells: the kernel asks the front end whose request runs.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::cell::CurrentCell;
use super::interrupt::Interrupts;

const CHECK_EVERY: Duration = Duration::from_millis(50);

#[derive(Default)]
struct State {
    /// The front end answers questions of the cell.
    allowed: bool,
    /// The cell asked and was not allowed to.
    refused: bool,
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A cell begins.
    pub fn begin(&self, allowed: bool) {
        *self.state() = State { allowed, ..State::default() };
    }

    /// The cell has ended: forgets its question, if one waits. True if it asked and the front end
    /// does not answer questions.
    pub fn end(&self) -> bool {
        std::mem::take(&mut *self.state()).refused
    }

    /// Asks the front end for a line and waits for it. `None` if it does not answer questions, if
    /// the cell is interrupted, or at the end of the input (Ctrl+D).
    pub fn ask(&self) -> Option<String> {
        let interrupts = self.interrupts.interrupt_count();
        let answered = self.question()?;
        loop {
            match answered.recv_timeout(CHECK_EVERY) {
                Ok(text) => return Some(text).filter(|text| text != "\u{4}"),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout)
                    if self.interrupts.interrupt_count() != interrupts =>
                {
                    return None;
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn question(&self) -> Option<Receiver<String>> {
        let mut state = self.state();
        if !state.allowed {
            state.refused = true;
            return None;
        }
        let (answer, answered) = channel();
        state.waiting = Some(answer);
        self.current.ask_for_input();
        Some(answered)
    }

    /// The front end has answered. An answer to no question is dropped.
    pub fn answer(&self, text: String) {
        if let Some(waiting) = self.state().waiting.take() {
            let _ = waiting.send(text);
        }
    }
}
