//! A small Jupyter client: starts the kernel and uses its sockets.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use jupyter_protocol::connection_info::Transport;
use jupyter_protocol::{ConnectionInfo, JupyterMessage, JupyterMessageContent, UnknownMessage};
use jupyter_zmq_client as zmq;
use serde_json::{Value, json};

use super::pool::{Turns, turns};
use super::{PATIENCE, binary, folder, isolate, wait_for, wait_until};

/// Writes a connection file with free ports.
pub fn connection(dir: &Path) -> (ConnectionInfo, PathBuf) {
    let ports: Vec<u16> = (0..5)
        .map(|_| std::net::TcpListener::bind("127.0.0.1:0").expect("a free port"))
        .collect::<Vec<_>>()
        .iter()
        .map(|listener| listener.local_addr().expect("bound").port())
        .collect();
    let info = ConnectionInfo {
        ip: "127.0.0.1".into(),
        transport: Transport::TCP,
        shell_port: ports[0],
        iopub_port: ports[1],
        stdin_port: ports[2],
        control_port: ports[3],
        hb_port: ports[4],
        key: "a key for tests".into(),
        signature_scheme: "hmac-sha256".into(),
        kernel_name: Some("epsilab".into()),
    };
    let path = dir.join("connection.json");
    std::fs::write(&path, serde_json::to_string(&info).expect("json")).expect("written");
    (info, path)
}

/// How the kernel is started.
#[derive(Default)]
pub struct Start {
    pub env: Vec<(&'static str, String)>,
    /// Only HOME and a PATH without any toolchain.
    pub bare: bool,
    pub cwd: Option<PathBuf>,
    /// Another program than the one under test.
    pub binary: Option<PathBuf>,
}

impl Start {
    /// The command without the path of the connection file, which lies in the folder `dir`.
    fn command(&self, dir: &Path) -> Command {
        let mut command = Command::new(self.binary.clone().unwrap_or_else(binary));
        command.args(["kernel", "-f"]).stdin(Stdio::null());
        if self.bare {
            command.env_clear().env("PATH", "/usr/bin:/bin");
            command.envs(std::env::vars_os().filter(|(name, _)| name == "HOME"));
        }
        isolate(&mut command, &dir.join("home"));
        // It ends with this process, however that ends.
        command.env("JPY_PARENT_PID", std::process::id().to_string());
        command.envs(self.env.iter().cloned()).current_dir(self.cwd.as_deref().unwrap_or(dir));
        command
    }
}

/// Reply and outputs of one cell.
pub struct Ran {
    pub reply: Value,
    pub outputs: Vec<(String, Value)>,
}

impl Ran {
    pub fn ok(&self) -> bool {
        self.reply["status"] == "ok"
    }

    pub fn stream(&self, name: &str) -> String {
        self.of("stream")
            .filter(|content| content["name"] == name)
            .filter_map(|content| content["text"].as_str())
            .collect()
    }

    pub fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.outputs.iter().filter(move |(k, _)| k == kind).map(|(_, content)| content)
    }

    pub fn result(&self) -> String {
        self.of("execute_result")
            .filter_map(|content| content["data"]["text/plain"].as_str())
            .collect()
    }

    pub fn error(&self) -> (String, String, String) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let lines = self.reply["traceback"].as_array().cloned().unwrap_or_default();
        let traceback: Vec<_> = lines.iter().map(text).collect();
        (text(&self.reply["ename"]), text(&self.reply["evalue"]), traceback.join("\n"))
    }
}

/// A running kernel and the sockets of its client.
pub struct Client {
    pub child: Child,
    pub info: ConnectionInfo,
    runtime: tokio::runtime::Runtime,
    shell: zmq::ClientShellConnection,
    iopub: zmq::ClientIoPubConnection,
    control: zmq::ClientControlConnection,
    stdin: zmq::ClientStdinConnection,
    _dir: tempfile::TempDir,
    /// Held as long as the kernel works.
    turn: Option<Turns>,
}

impl Client {
    /// Starts a kernel of its own for a test, when it is its turn.
    pub fn start(start: Start) -> Self {
        let turn = turns(1);
        let mut kernel = Self::start_beside(start);
        kernel.turn = Some(turn);
        kernel
    }

    /// Starts a kernel. The test has taken the turns of all its kernels.
    pub fn start_beside(start: Start) -> Self {
        // Another program may take a port after it was chosen.
        let kernel = (0..5).find_map(|_| Self::try_start(&start));
        let mut kernel = kernel.expect("the kernel listens");
        kernel.wait_for_broadcasts();
        kernel
    }

    /// `None` if the kernel ends before it listens.
    fn try_start(start: &Start) -> Option<Self> {
        let dir = folder();
        let (info, path) = connection(dir.path());
        let mut child = start.command(dir.path()).arg(&path).spawn().expect("the kernel starts");
        // The client library waits long between attempts to connect.
        let listens = wait_for("the kernel listens", || {
            let ended = child.try_wait().expect("waited").is_some();
            let connected = std::net::TcpStream::connect(("127.0.0.1", info.iopub_port)).is_ok();
            (ended || connected).then_some(!ended)
        });
        listens.then(|| Self::connect(child, info, dir))
    }

    fn connect(child: Child, info: ConnectionInfo, dir: tempfile::TempDir) -> Self {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("tokio");
        let session = uuid::Uuid::new_v4().to_string();
        let identity = zmq::peer_identity_for_session(&session).expect("an identity");
        let same = identity.clone();
        let (shell, stdin, iopub, control) = runtime.block_on(async {
            (
                zmq::create_client_shell_connection_with_identity(&info, &session, identity)
                    .await
                    .expect("shell"),
                zmq::create_client_stdin_connection_with_identity(&info, &session, same)
                    .await
                    .expect("stdin"),
                zmq::create_client_iopub_connection(&info, "", &session).await.expect("iopub"),
                zmq::create_client_control_connection(&info, &session).await.expect("control"),
            )
        });
        Self { child, info, runtime, shell, iopub, control, stdin, _dir: dir, turn: None }
    }

    /// Asks for kernel_info until broadcasts arrive too. Those of the last question may follow;
    /// nobody listens to them.
    fn wait_for_broadcasts(&mut self) {
        wait_until("broadcasts", || {
            let reply = self.ask("kernel_info_request", json!({}));
            assert_eq!(reply["language_info"]["name"], "rust");
            let messages = self.runtime.block_on(async {
                tokio::time::timeout(Duration::from_millis(100), self.iopub.read()).await
            });
            messages.is_ok()
        });
    }

    /// A request on the shell socket and its reply.
    pub fn ask(&mut self, kind: &str, content: Value) -> Value {
        let message = message(kind, content);
        let id = message.header.msg_id.clone();
        self.runtime.block_on(async {
            self.shell.send(message).await.expect("sent");
            reply_to(&mut self.shell, &id).await
        })
    }

    /// A request on the control socket and its reply.
    pub fn control(&mut self, kind: &str, content: Value) -> Value {
        let message = message(kind, content);
        let id = message.header.msg_id.clone();
        self.runtime.block_on(async {
            self.control.send(message).await.expect("sent");
            let read = async {
                loop {
                    let reply = self.control.read().await.expect("a reply");
                    if parent_of(&reply) == id {
                        return serde_json::to_value(&reply.content).expect("json");
                    }
                }
            };
            tokio::time::timeout(PATIENCE, read).await.expect("a reply in time")
        })
    }

    /// Waits for a question of a cell. The id of the cell's request.
    pub fn question(&mut self) -> String {
        self.runtime.block_on(async {
            let read = tokio::time::timeout(PATIENCE, self.stdin.read()).await;
            let question = read.expect("a question in time").expect("a question");
            assert_eq!(question.header.msg_type, "input_request");
            parent_of(&question).to_owned()
        })
    }

    /// Answers a question.
    pub fn answer(&mut self, value: &str) {
        let message = message("input_reply", json!({ "value": value }));
        self.runtime.block_on(async { self.stdin.send(message).await.expect("sent") });
    }

    /// Something on the shell socket that has no reply: what is broadcast until the kernel is idle.
    pub fn tell(&mut self, kind: &str, content: Value) -> Vec<(String, Value)> {
        let message = message(kind, content);
        let id = message.header.msg_id.clone();
        self.runtime.block_on(async { self.shell.send(message).await.expect("sent") });
        self.listen(&id, is_idle)
    }

    /// Sends a cell without waiting.
    pub fn send(&mut self, code: &str) -> String {
        self.send_with(code, json!({}))
    }

    pub fn send_with(&mut self, code: &str, more: Value) -> String {
        let mut content = json!({
            "code": code, "silent": false, "store_history": true,
            "user_expressions": {}, "allow_stdin": false, "stop_on_error": true,
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            content[name] = value.clone();
        }
        let message = message("execute_request", content);
        let id = message.header.msg_id.clone();
        self.runtime.block_on(async { self.shell.send(message).await.expect("sent") });
        id
    }

    /// Broadcasts that belong to a request, until `stop` says so.
    pub fn listen(
        &mut self,
        id: &str,
        mut stop: impl FnMut(&str, &Value) -> bool,
    ) -> Vec<(String, Value)> {
        self.runtime.block_on(async {
            let mut messages = Vec::new();
            let read = async {
                loop {
                    let message = self.iopub.read().await.expect("a broadcast");
                    if parent_of(&message) != id {
                        continue;
                    }
                    let kind = message.header.msg_type.clone();
                    let content = serde_json::to_value(&message.content).expect("json");
                    let done = stop(&kind, &content);
                    messages.push((kind, content));
                    if done {
                        return;
                    }
                }
            };
            let waited = tokio::time::timeout(PATIENCE, read).await;
            assert!(waited.is_ok(), "no answer in time; heard {messages:#?}");
            messages
        })
    }

    /// The reply and all broadcasts of a cell that was sent, without outputs that were cleared.
    pub fn finish(&mut self, id: &str) -> Ran {
        let mut outputs = self.listen(id, is_idle);
        if let Some(last) = outputs.iter().rposition(|(kind, _)| kind == "clear_output") {
            outputs.drain(..=last);
        }
        let reply = self.runtime.block_on(reply_to(&mut self.shell, id));
        Ran { reply, outputs }
    }

    /// Runs one cell.
    pub fn run(&mut self, code: &str) -> Ran {
        let id = self.send(code);
        self.finish(&id)
    }

    /// Runs one cell that must succeed.
    pub fn run_ok(&mut self, code: &str) -> Ran {
        let ran = self.run(code);
        assert!(ran.ok(), "{code}\n{:#}", ran.reply);
        ran
    }

    /// Asks the kernel to end, and waits until it did.
    pub fn shut_down(mut self) {
        let reply = self.control("shutdown_request", json!({ "restart": false }));
        assert_eq!(reply["status"], "ok");
        let status = wait_for("the end of the kernel", || self.child.try_wait().expect("waited"));
        assert!(status.success(), "{status}");
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn is_idle(kind: &str, content: &Value) -> bool {
    kind == "status" && content["execution_state"] == "idle"
}

pub fn message(kind: &str, content: Value) -> JupyterMessage {
    let content = UnknownMessage { msg_type: kind.into(), content };
    JupyterMessage::new(JupyterMessageContent::UnknownMessage(content), None)
}

fn parent_of(message: &JupyterMessage) -> &str {
    message.parent_header.as_ref().map_or("", |header| &header.msg_id)
}

async fn reply_to(shell: &mut zmq::ClientShellConnection, id: &str) -> Value {
    let read = async {
        loop {
            let reply = shell.read().await.expect("a reply");
            if parent_of(&reply) == id {
                return serde_json::to_value(&reply.content).expect("json");
            }
        }
    };
    tokio::time::timeout(PATIENCE, read).await.expect("a reply in time")
}
