//! Input of cells: the kernel asks the front end that sent the request of the running cell.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::current_cell::CurrentCell;
use super::interrupt::InterruptController;

const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Reason why a read of standard input got no answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum InputFailure {
    /// The front end answers no questions.
    Unsupported,
    /// The user interrupted the cell instead of answering.
    Interrupted,
}

/// Reply to a cell that reads standard input; it travels to the cell process as JSON.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
pub enum InputReply {
    /// One line of input.
    Line(String),
    /// The end of the input.
    End,
    /// An error: no front end can be asked, or the user stopped the cell instead of answering. An
    /// empty answer would let the cell continue with what it asked about.
    Failed,
}

#[derive(Default)]
struct InputState {
    /// Whether the front end answers questions of the cell.
    allowed: bool,
    failure: Option<InputFailure>,
    /// Channel for the answer to the pending question.
    reply_sender: Option<Sender<String>>,
}

/// Input requests, shared by the thread that runs cells, the side channel and the one that
/// receives answers.
#[derive(Clone)]
pub struct InputRequests {
    current: CurrentCell,
    interrupts: InterruptController,
    state: Arc<Mutex<InputState>>,
}

impl InputRequests {
    /// Creates the state without a cell, in which no questions are allowed.
    pub fn new(current: CurrentCell, interrupts: InterruptController) -> Self {
        Self { current, interrupts, state: Arc::default() }
    }

    /// Starts a cell; `allowed` is whether its front end answers questions.
    pub fn begin_cell(&self, allowed: bool) {
        *self.state.lock() = InputState { allowed, ..InputState::default() };
    }

    /// Ends the cell and drops its pending question, if there is one. Returns the reason why a
    /// question had no answer.
    pub fn end_cell(&self) -> Option<InputFailure> {
        std::mem::take(&mut *self.state.lock()).failure
    }

    /// Requests a line from the front end and waits for it. The input ends by Ctrl+D; an interrupt
    /// makes the read fail. Where nobody can be asked, the cell stops at its next loop too: one
    /// that asks until the answer is right would ask for ever.
    pub fn request_line(&self) -> InputReply {
        let interrupts = self.interrupts.interrupt_count();
        let Some(answered) = self.send_request() else {
            self.interrupts.request_stop();
            return InputReply::Failed;
        };
        loop {
            match answered.recv_timeout(POLL_INTERVAL) {
                Ok(text) if text == "\u{4}" => return InputReply::End,
                Ok(text) => return InputReply::Line(text),
                Err(RecvTimeoutError::Disconnected) => return InputReply::Failed,
                Err(RecvTimeoutError::Timeout)
                    if self.interrupts.interrupt_count() != interrupts =>
                {
                    self.state.lock().failure = Some(InputFailure::Interrupted);
                    return InputReply::Failed;
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn send_request(&self) -> Option<Receiver<String>> {
        let mut state = self.state.lock();
        if !state.allowed {
            state.failure = Some(InputFailure::Unsupported);
            return None;
        }
        let (reply_sender, answered) = channel();
        state.reply_sender = Some(reply_sender);
        self.current.ask_for_input();
        Some(answered)
    }

    /// Passes on the front end's answer; without a pending question it is dropped.
    pub fn deliver_reply(&self, text: String) {
        if let Some(waiting) = self.state.lock().reply_sender.take() {
            let _ = waiting.send(text);
        }
    }
}
