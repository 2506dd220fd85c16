//! The request of the running cell. Output is published as an answer to it.

use std::path::PathBuf;
use std::sync::Arc;

use jupyter_protocol::JupyterMessage;
use parking_lot::Mutex;
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
    /// Until the first cell can run.
    start: Option<Start>,
    /// The request that waits for the start. The client was told that the kernel is busy with it.
    waiting: Option<Arc<JupyterMessage>>,
    /// The last line shown is a bar.
    has_bar: bool,
}

/// What a client is told while the kernel starts.
#[derive(Default)]
struct Start {
    /// Said before a cell waited for it.
    said: String,
    is_shown: bool,
}

/// Shown below the first cell as long as it waits.
const STARTING: &str = "the kernel starts: cells run in a few seconds\n";

impl CurrentCell {
    /// No cell yet: output is dropped. `folder`: for output beyond the limits of a cell.
    pub fn new(wire: Wire, folder: PathBuf) -> Self {
        let (limits, start) = (Limits::new(folder.clone()), Some(Start::default()));
        let state = State { cell: None, limits, start, waiting: None, has_bar: false };
        Self { wire, folder, state: Arc::new(Mutex::new(state)) }
    }

    /// Sets the request that output belongs to from now on; `None` for silent requests.
    pub fn set(&self, message: Option<Arc<JupyterMessage>>) {
        let mut state = self.state.lock();
        state.cell = message;
        state.limits = Limits::new(self.folder.clone());
    }

    /// A request waits. Below the first one, the client sees what the kernel does until it can run.
    pub fn waits(&self, message: &Arc<JupyterMessage>) {
        let mut state = self.state.lock();
        let State { cell, start: Some(start), waiting, .. } = &mut *state else { return };
        if !std::mem::replace(&mut start.is_shown, true) {
            *cell = Some(message.clone());
            *waiting = Some(message.clone());
            let said = format!("{STARTING}{}", start.said);
            self.wire.status(Some(message), "busy");
            self.wire.publish(Some(message), "stream", stream("stderr", &said));
        }
    }

    /// Tells the client that the kernel is busy with the request, unless it was told.
    pub fn begin(&self, message: &Arc<JupyterMessage>) {
        let waiting = self.state.lock().waiting.take_if(|waiting| Arc::ptr_eq(waiting, message));
        if waiting.is_none() {
            self.wire.status(Some(message), "busy");
        }
    }

    /// A step of the start, as one line.
    pub fn say_start(&self, line: &str) {
        if let Some(Start { said, is_shown: false }) = &mut self.state.lock().start {
            said.push_str(&format!("{line}\n"));
            return;
        }
        let bar = std::mem::take(&mut self.state.lock().has_bar);
        self.print("stderr", &format!("{}{line}\n", if bar { "\n" } else { "" }));
    }

    /// The progress of the start, which replaces the bar before.
    pub fn show_bar(&self, bar: &str) {
        let waits = self.state.lock().start.as_ref().is_none_or(|start| start.is_shown);
        if waits {
            self.print("stderr", &format!("\r{bar}"));
            self.state.lock().has_bar = true;
        }
    }

    /// The kernel can run cells: what was said of its start is removed.
    pub fn end_start(&self) {
        let mut state = self.state.lock();
        if state.start.take().is_some_and(|start| start.is_shown) {
            self.wire.publish(state.cell.as_deref(), "clear_output", json!({ "wait": false }));
        }
    }

    /// Broadcasts a message as part of the cell.
    pub fn publish(&self, kind: &str, content: Value) {
        let mut state = self.state.lock();
        let Some(cell) = state.cell.clone() else { return };
        // Under the lock: two threads must not exchange the order of their messages.
        for (kind, content) in state.limits.admit(kind, content) {
            self.wire.publish(Some(&cell), &kind, content);
        }
    }

    /// Asks the client that sent the request for a line of input. What the cell printed before is
    /// the prompt.
    pub fn ask_for_input(&self) {
        if let Some(cell) = self.state.lock().cell.clone() {
            let content = json!({ "prompt": "", "password": false });
            self.wire.reply(Channel::Stdin, &cell, "input_request", content);
        }
    }

    /// Broadcasts printed text.
    pub fn print(&self, stream: &str, text: &str) {
        if !text.is_empty() {
            self.publish("stream", self::stream(stream, text));
        }
    }
}

fn stream(name: &str, text: &str) -> Value {
    json!({ "name": name, "text": text })
}
