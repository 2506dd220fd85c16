//! The request of the running cell. Output is published as an answer to it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jupyter_protocol::JupyterMessage;
use serde_json::{Value, json};

use super::limits::Limits;
use super::wire::{Channel, Wire};

/// The request that output belongs to. It is kept after the end of its cell, so that a thread that
/// outlives the cell still prints below it.
#[derive(Clone)]
pub struct CurrentCell {
    wire: Wire,
    folder: PathBuf,
    state: Arc<Mutex<State>>,
}

struct State {
    cell: Option<Arc<JupyterMessage>>,
    limits: Limits,
}

impl CurrentCell {
    /// No cell yet: output is dropped. `folder`: for output beyond the limits of a cell.
    pub fn new(wire: Wire, folder: PathBuf) -> Self {
        let state = State { cell: None, limits: Limits::new(folder.clone()) };
        Self { wire, folder, state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the request that output belongs to from now on; `None` for silent requests.
    pub fn set(&self, message: Option<Arc<JupyterMessage>>) {
        *self.state() = State { cell: message, limits: Limits::new(self.folder.clone()) };
    }

    /// Sets the first request that waits: messages of the start are shown below it.
    pub fn set_first(&self, message: &Arc<JupyterMessage>) {
        self.state().cell.get_or_insert_with(|| message.clone());
    }

    /// Broadcasts a message as part of the cell.
    pub fn publish(&self, kind: &str, content: Value) {
        let mut state = self.state();
        let Some(cell) = state.cell.clone() else { return };
        // Under the lock: two threads must not exchange the order of their messages.
        for (kind, content) in state.limits.admit(kind, content) {
            self.wire.publish(Some(&cell), &kind, content);
        }
    }

    /// Asks the client that sent the request for a line of input. What the cell printed before is
    /// the prompt.
    pub fn ask_for_input(&self) {
        if let Some(cell) = self.state().cell.clone() {
            let content = json!({ "prompt": "", "password": false });
            self.wire.reply(Channel::Stdin, &cell, "input_request", content);
        }
    }

    /// Broadcasts printed text.
    pub fn print(&self, stream: &str, text: &str) {
        if !text.is_empty() {
            self.publish("stream", json!({ "name": stream, "text": text }));
        }
    }
}
