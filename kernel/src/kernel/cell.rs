//! The cell that runs now: whose output everything is that comes back.

use std::sync::{Arc, Mutex, PoisonError};

use jupyter_protocol::JupyterMessage;
use serde_json::{Value, json};

use super::wire::Wire;

/// The request that output belongs to. It stays after its cell has ended: a thread that a cell
/// left running still prints below that cell.
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

    /// From now on output belongs to this request; `None` for silent requests.
    pub fn set(&self, message: Option<Arc<JupyterMessage>>) {
        *self.cell.lock().unwrap_or_else(PoisonError::into_inner) = message;
    }

    /// The first cell that waits: what the start has to say is shown below it.
    pub fn set_first(&self, message: &Arc<JupyterMessage>) {
        let mut cell = self.cell.lock().unwrap_or_else(PoisonError::into_inner);
        cell.get_or_insert_with(|| message.clone());
    }

    /// Broadcasts a message of the cell.
    pub fn publish(&self, kind: &str, content: Value) {
        let cell = self.cell.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(cell) = cell {
            self.wire.publish(Some(&cell), kind, content);
        }
    }

    /// Broadcasts printed text.
    pub fn print(&self, stream: &str, text: &str) {
        if !text.is_empty() {
            self.publish("stream", json!({ "name": stream, "text": text }));
        }
    }
}
