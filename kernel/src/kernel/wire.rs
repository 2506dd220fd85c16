//! The five sockets of the Jupyter protocol, and a handle that sends on them from any thread.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use epsilab::{Error, ErrorKind, Result, program};
use jupyter_protocol::connection_info::Transport;
use jupyter_protocol::{
    ConnectionInfo, Header, JupyterMessage, JupyterMessageContent, UnknownMessage,
};
use jupyter_zmq_client::{self as zmq, RuntimeError};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use zeromq::{SocketRecv as _, SocketSend};

use super::requests::{self, Request};

/// Reads the connection file that Jupyter wrote.
///
/// # Errors
/// It can't be read, or asks for a signature other than HMAC with SHA-256.
pub fn read_connection(path: &Path) -> Result<ConnectionInfo> {
    let wrong = |why: String| {
        Error::new(
            ErrorKind::Notebook,
            format!("connection file = {}", path.display()),
            format!("the kernel can't tell where to listen: {why}"),
        )
        .fix(format!(
            "start kernels from Jupyter, or by `{}`; they write this file",
            program::command("run")
        ))
    };
    let text = std::fs::read_to_string(path).map_err(|e| wrong(e.to_string()))?;
    let mut info: ConnectionInfo = serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))?;
    if !info.key.is_empty() && info.signature_scheme != "hmac-sha256" {
        return Err(wrong(format!("signature_scheme = {}", info.signature_scheme)));
    }
    if info.ip == "*" {
        info.ip = "0.0.0.0".into();
    }
    Ok(info)
}

/// Socket for requests and their replies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Channel {
    /// Cells, completion and inspection.
    Shell,
    /// Interrupt and shutdown.
    Control,
    /// Questions of cells to the front end, and the answers.
    Stdin,
}

/// Sender of messages from any thread. Tasks own the sockets.
#[derive(Clone)]
pub struct MessageSender {
    iopub: UnboundedSender<JupyterMessage>,
    /// Queues of the sockets for replies, in the order of [`Channel`].
    replies: [UnboundedSender<JupyterMessage>; 3],
}

/// Checks that sockets which are files have a folder.
fn check_folder(info: &ConnectionInfo) -> Result<()> {
    let folder = Path::new(&info.ip).parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder.filter(|folder| info.transport == Transport::IPC && !folder.is_dir()) {
        None => Ok(()),
        Some(folder) => {
            let why = format!("the folder {} of its sockets does not exist", folder.display());
            Err(Error::new(ErrorKind::Notebook, format!("ip = {} with ipc", info.ip), why)
                .fix("make the folder, or let Jupyter choose one"))
        }
    }
}

/// Binds all sockets and starts the tasks that send. Returns also the receiving ends of those for
/// requests, in the order of [`Channel`].
///
/// # Errors
/// The folder of sockets that are files is missing. A port is in use, or the address is not of this
/// machine.
pub async fn bind(
    info: &ConnectionInfo,
) -> Result<(MessageSender, [zmq::RouterRecvConnection; 3])> {
    let session = uuid::Uuid::new_v4().to_string();
    let at = |name: &'static str, port: u16| {
        let ip = info.ip.clone();
        move |e: RuntimeError| {
            Error::new(
                ErrorKind::Notebook,
                format!("{name} port = {port} on {ip}"),
                format!("the kernel can't listen there ({e}): most likely it is in use"),
            )
            .fix("close the kernel that uses it, or let Jupyter choose other ports")
        }
    };
    check_folder(info)?;
    let mut heartbeat = zmq::create_kernel_heartbeat_connection(info)
        .await
        .map_err(at("heartbeat", info.hb_port))?;
    let shell = zmq::create_kernel_shell_connection(info, &session)
        .await
        .map_err(at("shell", info.shell_port))?;
    let control = zmq::create_kernel_control_connection(info, &session)
        .await
        .map_err(at("control", info.control_port))?;
    let stdin = zmq::create_kernel_stdin_connection(info, &session)
        .await
        .map_err(at("stdin", info.stdin_port))?;
    let iopub = zmq::create_kernel_iopub_connection(info, &session)
        .await
        .map_err(at("iopub", info.iopub_port))?;
    let (shell_out, shell) = shell.split();
    let (control_out, control) = control.split();
    let (stdin_out, stdin) = stdin.split();
    tokio::spawn(async move {
        loop {
            if heartbeat.single_heartbeat().await.is_err() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    });
    let iopub = sender("iopub", iopub);
    let replies = [("shell", shell_out), ("control", control_out), ("stdin", stdin_out)];
    let replies = replies.map(|(name, socket)| sender(name, socket));
    Ok((MessageSender { iopub, replies }, [shell, control, stdin]))
}

/// Starts a task that sends messages on a socket.
fn sender<S: SocketSend + Send + 'static>(
    name: &'static str,
    mut socket: zmq::Connection<S>,
) -> UnboundedSender<JupyterMessage> {
    let (messages, mut waiting) = unbounded_channel();
    tokio::spawn(async move {
        while let Some(message) = waiting.recv().await {
            if let Err(e) = socket.send(message).await {
                eprintln!("epsilab kernel: a message on {name} was not sent: {e}");
            }
        }
    });
    messages
}

/// Received message and its request, or the reason why it can't be parsed.
pub struct IncomingMessage {
    pub message: Arc<JupyterMessage>,
    pub request: Result<Request, String>,
}

/// Receives the next request with a valid signature. Others are dropped and logged. `None` if the
/// socket is closed.
pub async fn next_request(
    name: &str,
    socket: &mut zmq::RouterRecvConnection,
) -> Option<IncomingMessage> {
    loop {
        let received = socket.socket.recv().await;
        let parts = received
            .inspect_err(|e| eprintln!("epsilab kernel: the {name} socket is closed: {e}"))
            .ok()?;
        match zmq::RawMessage::from_multipart(parts, &socket.mac).map(parse_message) {
            Ok(Some(incoming)) => return Some(incoming),
            Ok(None) => eprintln!(
                "epsilab kernel: a {name} message was dropped: its header has no msg_id or msg_type"
            ),
            Err(RuntimeError::VerifyError(_) | RuntimeError::DecodeError(_)) => {
                eprintln!(
                    "epsilab kernel: a {name} message with a wrong key was dropped: the client \
                     uses another connection file; reconnect it or restart the kernel"
                );
            }
            Err(e) => eprintln!("epsilab kernel: a {name} message was dropped: {e}"),
        }
    }
}

/// Parses a message. `None` without the header fields that a reply needs.
fn parse_message(raw: zmq::RawMessage) -> Option<IncomingMessage> {
    let mut parts = raw.jparts.iter();
    let mut part = || serde_json::from_slice::<Value>(parts.next().map_or(b"", |part| part));
    let (header, _parent, metadata, content) = (part().ok()?, part(), part(), part());
    let text = |name: &str| header[name].as_str().map(str::to_owned);
    let kind = text("msg_type")?;
    let header = Header {
        msg_id: text("msg_id")?,
        username: text("username").unwrap_or_default(),
        session: text("session").unwrap_or_default(),
        date: serde_json::from_value(header["date"].clone()).unwrap_or_default(),
        version: text("version").unwrap_or_else(|| "5.3".into()),
        msg_type: kind.clone(),
    };
    let request = match content {
        Ok(content) => requests::parse(&kind, content),
        Err(e) => Err(format!("the content is no JSON ({e})")),
    };
    let content = UnknownMessage { msg_type: kind, content: json!({}) };
    let mut message = JupyterMessage::new(JupyterMessageContent::UnknownMessage(content), None);
    message.header = header;
    message.metadata = metadata.unwrap_or_else(|_| json!({}));
    message.zmq_identities = raw.zmq_identities;
    Some(IncomingMessage { message: Arc::new(message), request })
}

impl MessageSender {
    /// Broadcasts to all clients.
    pub fn publish(&self, parent: Option<&JupyterMessage>, kind: &str, content: Value) {
        let mut message = new_message(parent, kind, content);
        message.zmq_identities = vec![format!("kernel.{kind}").into_bytes().into()];
        let _ = self.iopub.send(message);
    }

    /// Replies to the client that sent `parent`.
    pub fn reply(&self, channel: Channel, parent: &JupyterMessage, kind: &str, content: Value) {
        let _ = self.replies[channel as usize].send(new_message(Some(parent), kind, content));
    }

    /// Broadcasts that work on a request begins (`busy`) or ends (`idle`).
    pub fn publish_status(&self, parent: Option<&JupyterMessage>, state: &str) {
        self.publish(parent, "status", json!({ "execution_state": state }));
    }
}

fn new_message(parent: Option<&JupyterMessage>, kind: &str, content: Value) -> JupyterMessage {
    let content = UnknownMessage { msg_type: kind.to_owned(), content };
    let mut message = JupyterMessage::new(JupyterMessageContent::UnknownMessage(content), parent);
    message.header.username = "kernel".into();
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_files_are_checked() {
        let dir = tempfile::tempdir().expect("temp");
        let path = dir.path().join("c.json");
        assert!(read_connection(&path).is_err());
        std::fs::write(&path, "{").expect("write");
        assert!(read_connection(&path).expect_err("no JSON").to_string().contains("c.json"));
        let file = |scheme: &str| {
            json!({"ip": "*", "transport": "tcp", "shell_port": 1, "iopub_port": 2,
                   "stdin_port": 3, "control_port": 4, "hb_port": 5, "key": "k",
                   "signature_scheme": scheme})
            .to_string()
        };
        std::fs::write(&path, file("hmac-md5")).expect("write");
        assert!(read_connection(&path).is_err());
        std::fs::write(&path, file("hmac-sha256")).expect("write");
        assert_eq!(read_connection(&path).expect("fine").ip, "0.0.0.0");
    }
}
