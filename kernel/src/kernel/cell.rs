//! The request of the running cell. Output is published as an answer to it.

use std::sync::{Arc, Mutex, PoisonError};

use jupyter_protocol::JupyterMessage;
use serde_json::{Value, json};

use super::wire::{Channel, Wire};

/// The request that output belongs to. It is kept after the end of its cell, so that a thread that
/// outlives the cell still prints below it.
#[derive(Clone)]
pub struct CurrentCell {
    wire: Wire,
    cell: Arc<Mutex<Option<Arc<JupyterMessage>>>>,
}

impl CurrentCell {
    /// No cell yet: output is dropped.
    pub fn new(wire: Wire) -> Self {
        Self { wire, cell: Arc::default() }
    }

    /// Sets the request that output belongs to from now on; `None` for silent requests.
    pub fn set(&self, message: Option<Arc<JupyterMessage>>) {
        *self.cell.lock().unwrap_or_else(PoisonError::into_inner) = message;
    }

    /// Sets the first request that waits: messages of the start are shown below it.
    pub fn set_first(&self, message: &Arc<JupyterMessage>) {
        let mut cell = self.cell.lock().unwrap_or_else(PoisonError::into_inner);
        cell.get_or_insert_with(|| message.clone());
    }

    /// Broadcasts a message as part of the cell.
    pub fn publish(&self, kind: &str, content: Value) {
        let cell = self.cell.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(cell) = cell {
            self.wire.publish(Some(&cell), kind, content);
        }
    }

    /// Asks the client that sent the request for a line of input. What the cell printed before is
    /// the prompt.
    pub fn ask_for_input(&self) {
        let cell = self.cell.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(cell) = cell {
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
