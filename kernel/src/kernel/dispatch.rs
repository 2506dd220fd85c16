//! Dispatch of requests, which are answered at once or queued for the thread that runs cells.

use std::sync::Arc;
use std::time::Duration;

use epsilab::Error;
use jupyter_protocol::{ConnectionInfo, JupyterMessage};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::complete::Question;
use super::context::KernelContext;
use super::current_cell::CurrentCell;
use super::evaluator::{EvalTask, Evaluator};
use super::fence::Fences;
use super::history::History;
use super::input_requests::InputRequests;
use super::interrupt::InterruptController;
use super::is_complete::{self, Completeness};
use super::requests::{CodeCursor, Request};
use super::side_channel;
use super::wire::{self, Channel, IncomingMessage};
use super::workspace::KernelWorkspace;
use crate::prebuilt::rust_release;

/// Runs the kernel until it is shut down.
///
/// # Errors
/// A port is busy, or the system refuses sockets.
pub async fn run(info: &ConnectionInfo, session: Arc<KernelWorkspace>) -> epsilab::Result<()> {
    let (wire, [mut shell, mut control, mut stdin]) = wire::bind(info).await?;
    wire.publish_status(None, "starting");
    let current = CurrentCell::new(wire.clone(), epsilab::lab::home().join("outputs"));
    let interrupts = InterruptController::default();
    let fences = Fences::new(session.root.clone(), session.markers.clone(), interrupts.clone());
    let inputs = InputRequests::new(current.clone(), interrupts.clone());
    let history = History::default();
    let fences = Arc::new(fences);
    let context = KernelContext {
        workspace: session,
        sender: wire,
        current,
        interrupts,
        fences,
        inputs,
        history,
    };
    side_channel::listen(&context)?;
    let kernel = Kernel { evaluator: Evaluator::start(context.clone()), context };

    let os = |e: std::io::Error| Error::io("listening to signals", &e);
    let mut terminate = signal(SignalKind::terminate()).map_err(os)?;
    let mut ctrl_c = signal(SignalKind::interrupt()).map_err(os)?;
    let mut parent = tokio::time::interval(Duration::from_secs(2));
    let started_by = std::os::unix::process::parent_id();
    let by_jupyter = std::env::var_os("JPY_PARENT_PID").is_some();
    loop {
        // Cancelling a read loses nothing: the sockets hand over whole messages.
        tokio::select! {
            message = wire::next_request("shell", &mut shell) => match message {
                Some(incoming) => if kernel.handle_shell(incoming).await { break },
                None => break,
            },
            message = wire::next_request("control", &mut control) => match message {
                Some(incoming) => if kernel.handle_control(incoming).await { break },
                None => break,
            },
            message = wire::next_request("stdin", &mut stdin) => match message {
                Some(IncomingMessage { request: Ok(Request::Input(input)), .. }) => {
                    kernel.context.inputs.deliver_reply(input.value);
                }
                Some(_) => {}
                None => break,
            },
            _ = terminate.recv() => break,
            _ = ctrl_c.recv() => kernel.context.interrupts.interrupt(),
            _ = parent.tick() => {
                if by_jupyter && std::os::unix::process::parent_id() != started_by {
                    eprintln!("epsilab kernel: Jupyter is gone, so this kernel ends");
                    break;
                }
            }
        }
    }
    kernel.context.interrupts.kill();
    Ok(())
}

struct Kernel {
    context: KernelContext,
    evaluator: Evaluator,
}

impl Kernel {
    /// Handles a request on the shell socket, and returns whether the kernel should end.
    async fn handle_shell(&self, IncomingMessage { message, request }: IncomingMessage) -> bool {
        let reply = match request {
            Ok(Request::Execute(request)) => {
                if !request.silent {
                    self.context.current.announce_waiting(&message);
                }
                let interrupt_count = self.context.interrupts.interrupt_count();
                self.evaluator.submit(EvalTask::Execute { message, request, interrupt_count });
                return false;
            }
            Ok(Request::Complete(cursor)) => return self.ask(message, Question::Complete, cursor),
            Ok(Request::Inspect(cursor)) => return self.ask(message, Question::Inspect, cursor),
            Ok(Request::IsComplete(request)) => {
                let completeness = is_complete::check_completeness(&request.code);
                let indent = if completeness == Completeness::Incomplete { "    " } else { "" };
                ("is_complete_reply", json!({ "status": completeness, "indent": indent }))
            }
            Ok(Request::History(query)) => {
                let history = self.context.history.query(&query);
                ("history_reply", json!({ "status": "ok", "history": history }))
            }
            Ok(Request::CommInfo) => ("comm_info_reply", json!({ "status": "ok", "comms": {} })),
            Ok(Request::KernelInfo) => ("kernel_info_reply", kernel_info()),
            // Old clients send the shutdown request on this socket.
            Ok(Request::Shutdown(request)) => {
                self.reply_to_shutdown(Channel::Shell, &message, request.restart).await;
                return true;
            }
            other => {
                self.reply_unsupported(Channel::Shell, &message, other);
                return false;
            }
        };
        self.reply(Channel::Shell, &message, reply.0, reply.1);
        false
    }

    /// Queues a question about code; while a cell runs, replies with an empty answer at once.
    fn ask(&self, message: Arc<JupyterMessage>, question: Question, cursor: CodeCursor) -> bool {
        if self.evaluator.is_busy() {
            self.reply(Channel::Shell, &message, question.reply(), question.no_answer(&cursor));
        } else {
            self.context.sender.publish_status(Some(&message), "busy");
            self.evaluator.submit(EvalTask::Ask { message, question, cursor });
        }
        false
    }

    /// Handles a request on the control socket, and returns whether the kernel should end.
    async fn handle_control(&self, IncomingMessage { message, request }: IncomingMessage) -> bool {
        match request {
            Ok(Request::KernelInfo) => {
                self.reply(Channel::Control, &message, "kernel_info_reply", kernel_info());
            }
            Ok(Request::Interrupt) => {
                self.context.interrupts.interrupt();
                let ok = json!({ "status": "ok" });
                self.reply(Channel::Control, &message, "interrupt_reply", ok);
            }
            Ok(Request::Shutdown(request)) => {
                self.reply_to_shutdown(Channel::Control, &message, request.restart).await;
                return true;
            }
            other => self.reply_unsupported(Channel::Control, &message, other),
        }
        false
    }

    /// Replies to a request that this kernel does not support or can't parse, so that no client
    /// waits.
    fn reply_unsupported(
        &self,
        channel: Channel,
        message: &JupyterMessage,
        request: Result<Request, String>,
    ) {
        let kind = &message.header.msg_type;
        self.context.sender.publish_status(Some(message), "busy");
        match request {
            Ok(Request::CommOpen(comm)) => {
                let content = json!({ "comm_id": comm.comm_id, "data": {} });
                self.context.sender.publish(Some(message), "comm_close", content);
            }
            Ok(_) => {}
            Err(why) => {
                eprintln!("epsilab kernel: the {kind} can't be read: {why}");
                if let Some(name) = kind.strip_suffix("_request") {
                    let content = unreadable_request(kind, &why);
                    self.context.sender.reply(channel, message, &format!("{name}_reply"), content);
                }
            }
        }
        self.context.sender.publish_status(Some(message), "idle");
    }

    /// Replies to a request to shut down, and waits until the sockets have sent the reply. The
    /// caller then stops.
    async fn reply_to_shutdown(&self, channel: Channel, message: &JupyterMessage, restart: bool) {
        let content = json!({ "status": "ok", "restart": restart });
        self.context.sender.publish(Some(message), "shutdown_reply", content.clone());
        self.reply(channel, message, "shutdown_reply", content);
        // The sockets need a moment to send the reply.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    fn reply(&self, channel: Channel, message: &JupyterMessage, kind: &str, content: Value) {
        self.context.sender.publish_status(Some(message), "busy");
        self.context.sender.reply(channel, message, kind, content);
        self.context.sender.publish_status(Some(message), "idle");
    }
}

/// Returns the content of the reply to a request that can't be parsed.
fn unreadable_request(kind: &str, why: &str) -> Value {
    let value = format!("the {kind} can't be read: {why}");
    json!({
        "status": "error", "ename": "RequestError", "evalue": value,
        "traceback": [value, "what to do: correct the client; the protocol is version 5.3"],
        // Some clients require it.
        "history": [],
    })
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
