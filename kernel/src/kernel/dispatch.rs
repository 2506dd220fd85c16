//! What is done with each request: answered at once, or queued for the thread that runs cells.

use std::sync::Arc;
use std::time::Duration;

use epsilab::{Error, Result};
use jupyter_protocol::{ConnectionInfo, JupyterMessage, JupyterMessageContent as Content};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::cell::CurrentCell;
use super::evaluator::{Evaluator, Job};
use super::interrupt::Interrupts;
use super::session::Session;
use super::wire::{self, Channel, Wire};
use super::{complete, display, is_complete};
use crate::prebuilt::rust_release;

/// Runs the kernel until it is told to end.
///
/// # Errors
/// A port is busy, or the system refuses sockets.
pub async fn run(info: &ConnectionInfo, session: Arc<Session>) -> Result<()> {
    let (wire, mut requests) = wire::bind(info).await?;
    wire.status(None, "starting");
    let current = CurrentCell::new(wire.clone());
    display::listen(&session.display_socket(), current.clone())?;
    let interrupts = Interrupts::default();
    let evaluator = Evaluator::start(session, wire.clone(), current.clone(), interrupts.clone());
    let kernel = Kernel { wire, current, evaluator, interrupts };

    let os = |e: std::io::Error| Error::io("listening to signals", &e);
    let mut terminate = signal(SignalKind::terminate()).map_err(os)?;
    let mut ctrl_c = signal(SignalKind::interrupt()).map_err(os)?;
    let mut parent = tokio::time::interval(Duration::from_secs(2));
    let started_by = std::os::unix::process::parent_id();
    let by_jupyter = std::env::var_os("JPY_PARENT_PID").is_some();
    loop {
        // A request that is half read must not be dropped when another socket is ready: both
        // sockets hand over whole messages, so nothing is lost here.
        tokio::select! {
            message = wire::next_request("shell", &mut requests.shell) => match message {
                // Old clients ask for the end on this socket.
                Some(message) if matches!(message.content, Content::ShutdownRequest(_)) => {
                    kernel.shut_down(Channel::Shell, &message).await;
                    break;
                }
                Some(message) => kernel.shell(message),
                None => break,
            },
            message = wire::next_request("control", &mut requests.control) => match message {
                Some(message) => if kernel.control(message).await { break },
                None => break,
            },
            _ = terminate.recv() => break,
            _ = ctrl_c.recv() => kernel.interrupts.press(),
            _ = parent.tick() => {
                if by_jupyter && std::os::unix::process::parent_id() != started_by {
                    eprintln!("epsilab kernel: Jupyter is gone, so this kernel ends");
                    break;
                }
            }
        }
    }
    kernel.interrupts.kill();
    Ok(())
}

struct Kernel {
    wire: Wire,
    current: CurrentCell,
    evaluator: Evaluator,
    interrupts: Interrupts,
}

impl Kernel {
    fn shell(&self, message: JupyterMessage) {
        let message = Arc::new(message);
        let reply = match &message.content {
            Content::ExecuteRequest(request) => {
                if !request.silent {
                    self.current.set_first(&message);
                }
                self.evaluator.give(Job::Execute {
                    message: message.clone(),
                    request: request.clone(),
                    presses: self.interrupts.presses(),
                });
                return;
            }
            Content::CompleteRequest(request) => {
                if !self.evaluator.is_busy() {
                    self.wire.status(Some(&message), "busy");
                    self.evaluator.give(Job::Complete {
                        message: message.clone(),
                        code: request.code.clone(),
                        cursor: request.cursor_pos,
                    });
                    return;
                }
                ("complete_reply", complete::nothing_to_complete(request.cursor_pos))
            }
            Content::InspectRequest(request) => {
                if !self.evaluator.is_busy() {
                    self.wire.status(Some(&message), "busy");
                    self.evaluator.give(Job::Inspect {
                        message: message.clone(),
                        code: request.code.clone(),
                        cursor: request.cursor_pos,
                    });
                    return;
                }
                ("inspect_reply", complete::nothing_to_inspect())
            }
            Content::IsCompleteRequest(request) => {
                let answer = is_complete::answer(&request.code);
                let indent = if answer.status() == "incomplete" { "    " } else { "" };
                ("is_complete_reply", json!({ "status": answer.status(), "indent": indent }))
            }
            Content::HistoryRequest(_) => {
                ("history_reply", json!({ "status": "ok", "history": [] }))
            }
            Content::CommInfoRequest(_) => {
                ("comm_info_reply", json!({ "status": "ok", "comms": {} }))
            }
            Content::KernelInfoRequest(_) => ("kernel_info_reply", kernel_info()),
            _ => {
                self.decline(&message);
                return;
            }
        };
        self.answer(Channel::Shell, &message, reply.0, reply.1);
    }

    /// True if the kernel should end.
    async fn control(&self, message: JupyterMessage) -> bool {
        match &message.content {
            Content::KernelInfoRequest(_) => {
                self.answer(Channel::Control, &message, "kernel_info_reply", kernel_info());
            }
            Content::InterruptRequest(_) => {
                self.interrupts.press();
                let ok = json!({ "status": "ok" });
                self.answer(Channel::Control, &message, "interrupt_reply", ok);
            }
            Content::ShutdownRequest(_) => {
                self.shut_down(Channel::Control, &message).await;
                return true;
            }
            _ => self.decline(&message),
        }
        false
    }

    /// Something this kernel does not know: nobody must wait for it.
    fn decline(&self, message: &JupyterMessage) {
        self.wire.status(Some(message), "busy");
        if let Content::CommOpen(comm) = &message.content {
            let content = json!({ "comm_id": comm.comm_id, "data": {} });
            self.wire.publish(Some(message), "comm_close", content);
        }
        self.wire.status(Some(message), "idle");
    }

    async fn shut_down(&self, channel: Channel, message: &JupyterMessage) {
        let Content::ShutdownRequest(request) = &message.content else { return };
        let content = json!({ "status": "ok", "restart": request.restart });
        self.wire.publish(Some(message), "shutdown_reply", content.clone());
        self.answer(channel, message, "shutdown_reply", content);
        // The sockets need a moment to send it.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    fn answer(&self, channel: Channel, message: &JupyterMessage, kind: &str, content: Value) {
        self.wire.status(Some(message), "busy");
        self.wire.reply(channel, message, kind, content);
        self.wire.status(Some(message), "idle");
    }
}

fn kernel_info() -> Value {
    json!({
        "status": "ok",
        "protocol_version": "5.3",
        "implementation": "epsilab",
        "implementation_version": env!("CARGO_PKG_VERSION"),
        "banner": format!(
            "Epsilab {}: private, sparse learning in Rust. Start with `use epsilab::prelude::*;`",
            env!("CARGO_PKG_VERSION")
        ),
        "help_links": [],
        "debugger": false,
        "language_info": {
            "name": "rust",
            "version": rust_release(),
            "mimetype": "text/rust",
            "file_extension": ".rs",
            "pygments_lexer": "rust",
            "codemirror_mode": "rust",
        },
    })
}
