//! Request of the running cell, to which output is published as an answer.

use std::path::PathBuf;
use std::sync::Arc;

use jupyter_protocol::JupyterMessage;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::output_limits::OutputLimits;
use super::wire::{Channel, MessageSender};

/// Request that output belongs to. It stays after the end of its cell, so that a thread that
/// outlives the cell still prints below it.
#[derive(Clone)]
pub struct CurrentCell {
    wire: MessageSender,
    folder: PathBuf,
    state: Arc<Mutex<CellState>>,
}

struct CellState {
    request: Option<Arc<JupyterMessage>>,
    output_limits: OutputLimits,
    /// Messages about the start of the kernel; `None` once cells can run.
    startup: Option<StartupMessages>,
    /// Request that waits for the start of the kernel; its client has already got the status
    /// `busy`.
    waiting_request: Option<Arc<JupyterMessage>>,
    /// Whether the last line shown is a progress bar.
    has_bar: bool,
}

/// Messages to the client while the kernel starts.
#[derive(Default)]
struct StartupMessages {
    /// Lines collected before a cell waits for the start.
    buffered: String,
    is_shown: bool,
}

/// Text shown below the first cell as long as it waits.
const STARTUP_NOTICE: &str = "the kernel starts: cells run in a few seconds\n";

impl CurrentCell {
    /// Creates the state without a cell, in which output is dropped. `folder` is for output beyond
    /// the limits of a cell.
    pub fn new(wire: MessageSender, folder: PathBuf) -> Self {
        let (limits, start) = (OutputLimits::new(folder.clone()), Some(StartupMessages::default()));
        let state = CellState {
            request: None,
            output_limits: limits,
            startup: start,
            waiting_request: None,
            has_bar: false,
        };
        Self { wire, folder, state: Arc::new(Mutex::new(state)) }
    }

    /// Sets the request that output belongs to from now on; `None` for silent requests.
    pub fn set_request(&self, message: Option<Arc<JupyterMessage>>) {
        let mut state = self.state.lock();
        state.request = message;
        state.output_limits = OutputLimits::new(self.folder.clone());
    }

    /// Registers a request that waits for the start of the kernel. Below the first one, the client
    /// sees the steps of the start until the kernel can run it.
    pub fn announce_waiting(&self, message: &Arc<JupyterMessage>) {
        let mut state = self.state.lock();
        let CellState { request, startup: Some(start), waiting_request, .. } = &mut *state else {
            return;
        };
        if !std::mem::replace(&mut start.is_shown, true) {
            *request = Some(message.clone());
            *waiting_request = Some(message.clone());
            let notice = format!("{STARTUP_NOTICE}{}", start.buffered);
            self.wire.publish_status(Some(message), "busy");
            self.wire.publish(Some(message), "stream", stream_content("stderr", &notice));
        }
    }

    /// Sends the status `busy` for the request, unless it was sent already.
    pub fn mark_busy(&self, message: &Arc<JupyterMessage>) {
        let waiting =
            self.state.lock().waiting_request.take_if(|waiting| Arc::ptr_eq(waiting, message));
        if waiting.is_none() {
            self.wire.publish_status(Some(message), "busy");
        }
    }

    /// Shows a step of the start as one line, or collects it until a cell waits.
    pub fn report_startup(&self, line: &str) {
        if let Some(StartupMessages { buffered, is_shown: false }) = &mut self.state.lock().startup
        {
            buffered.push_str(&format!("{line}\n"));
            return;
        }
        let bar = std::mem::take(&mut self.state.lock().has_bar);
        self.print("stderr", &format!("{}{line}\n", if bar { "\n" } else { "" }));
    }

    /// Shows a progress bar of the start, in the place of the bar before.
    pub fn report_startup_progress(&self, bar: &str) {
        let is_shown = self.state.lock().startup.as_ref().is_none_or(|start| start.is_shown);
        if is_shown {
            self.print("stderr", &format!("\r{bar}"));
            self.state.lock().has_bar = true;
        }
    }

    /// Ends the start: removes its messages, because the kernel can run cells now.
    pub fn finish_startup(&self) {
        let mut state = self.state.lock();
        if state.startup.take().is_some_and(|start| start.is_shown) {
            self.wire.publish(state.request.as_deref(), "clear_output", json!({ "wait": false }));
        }
    }

    /// Broadcasts a message as part of the cell.
    pub fn publish(&self, kind: &str, content: Value) {
        let mut state = self.state.lock();
        let Some(cell) = state.request.clone() else { return };
        // Under the lock: two threads must not exchange the order of their messages.
        for (kind, content) in state.output_limits.apply(kind, content) {
            self.wire.publish(Some(&cell), &kind, content);
        }
    }

    /// Asks the client that sent the request for a line of input. The text that the cell printed
    /// before is the prompt.
    pub fn ask_for_input(&self) {
        if let Some(cell) = self.state.lock().request.clone() {
            let content = json!({ "prompt": "", "password": false });
            self.wire.reply(Channel::Stdin, &cell, "input_request", content);
        }
    }

    /// Broadcasts printed text.
    pub fn print(&self, stream: &str, text: &str) {
        if !text.is_empty() {
            self.publish("stream", self::stream_content(stream, text));
        }
    }
}

fn stream_content(name: &str, text: &str) -> Value {
    json!({ "name": name, "text": text })
}
