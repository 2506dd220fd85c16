//! A kernel for one notebook: started as a child process and used through the Jupyter protocol.
//! Detects the kernel's exit at any time.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use epsilab::{Error, ErrorKind, Result, program};
use jupyter_zmq_client::{
    ClientControlConnection, ConnectionInfo, DealerSendConnection, ExecuteReply, ExecuteRequest,
    ExecutionState, InterruptRequest, JupyterMessage, JupyterMessageContent, KernelInfoRequest,
    RuntimeError, ShutdownRequest, create_client_control_connection,
    create_client_iopub_connection, create_client_shell_connection_with_identity, peek_ports,
    peer_identity_for_session,
};
use serde_json::Value;
use tokio::process::{Child, Command};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep_until, timeout};

use super::outputs::OutputCollector;
use super::stop_signal::StopSignal;
use crate::prebuilt::last_lines;
use crate::temp::TempFolder;

/// Time for the kernel to answer after its start.
const START_TIMEOUT: Duration = Duration::from_secs(90);
/// Time for a cell to end after an interrupt. Training stops after the current step.
const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(20);
/// Time for the last outputs after the reply.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for the kernel to shut down.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// End of the execution of a cell.
pub enum ExecutionEnd {
    /// The kernel replied (the cell may have failed).
    Replied(Box<ExecuteReply>),
    /// The user stopped the cell.
    Interrupted,
    /// The cell ran longer than the timeout.
    TimedOut,
}

/// A running kernel.
pub struct KernelClient {
    child: Child,
    shell: DealerSendConnection,
    control: ClientControlConnection,
    messages: UnboundedReceiver<KernelMessage>,
    /// Index of the cell of each request, by message id.
    request_cells: HashMap<String, usize>,
    /// The language information of the kernel, for the metadata of the notebook.
    pub language: Value,
    /// Time at which the program was started.
    started: Instant,
    /// Time from the start of the program to its first answer.
    pub time_to_first_reply: Duration,
    /// Private folder with the connection file and the log of the kernel.
    temp_folder: TempFolder,
}

enum KernelMessage {
    Broadcast(JupyterMessage),
    Reply(JupyterMessage),
    ConnectionLost(String),
}

impl KernelClient {
    /// Starts a kernel in `folder` with the environment variables `env`.
    ///
    /// # Errors
    /// The kernel can't be started or ends before it answers.
    pub async fn start(folder: &Path, env: &[(&str, &str)]) -> Result<Self> {
        let exe = std::env::current_exe().map_err(|e| Error::io("starting the kernel", &e))?;
        let exe = exe.to_string_lossy();
        let argv = [exe.as_ref(), "kernel", "-f", CONNECTION_FILE_PLACEHOLDER];
        Self::start_program(&argv, folder, env).await
    }

    /// Starts the kernel with the command `argv`, as in a `kernel.json`.
    ///
    /// # Errors
    /// The kernel can't be started or ends before it answers.
    pub async fn start_program(argv: &[&str], folder: &Path, env: &[(&str, &str)]) -> Result<Self> {
        let private = TempFolder::new(&std::env::temp_dir(), "run")
            .map_err(|e| Error::io("making a private temporary folder", &e))?;
        let info = connection_info().await?;
        let connection = private.path().join(CONNECTION);
        write_private(&connection, &serde_json::to_string(&info).unwrap_or_default())?;
        let started = Instant::now();
        let mut child = spawn(argv, private.path(), folder, env)?;
        let connected = tokio::select! {
            connected = timeout(START_TIMEOUT, connect(&info)) => match connected {
                Ok(connected) => connected.map_err(protocol_error),
                Err(_) => Err(kernel_error("the kernel does not answer", "the kernel process is \
                                                                          running but silent")),
            },
            status = child.wait() => Err(kernel_died_error(status, private.path(), "before it answered")),
        };
        let (shell, control, messages) = connected?;
        let mut session = Self {
            child,
            shell,
            control,
            messages,
            request_cells: HashMap::new(),
            language: Value::Null,
            started,
            time_to_first_reply: Duration::ZERO,
            temp_folder: private,
        };
        session.handshake().await?;
        Ok(session)
    }

    /// Returns the time since the program was started.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns the id of the kernel's process, unless it has ended.
    pub fn process_id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Runs one cell and collects its outputs, including updates in earlier cells.
    ///
    /// # Errors
    /// The kernel ended or the connection broke.
    pub async fn execute(
        &mut self,
        cell: usize,
        request: ExecuteRequest,
        limit: Option<Duration>,
        outputs: &mut OutputCollector,
        stop: &mut StopSignal,
    ) -> Result<ExecutionEnd> {
        let request: JupyterMessage = request.into();
        let id = request.header.msg_id.clone();
        self.request_cells.insert(id.clone(), cell);
        self.shell.send(request).await.map_err(protocol_error)?;

        let mut reply: Option<Box<ExecuteReply>> = None;
        let mut idle = false;
        let mut stopped: Option<ExecutionEnd> = None;
        let mut deadline = limit.map(|limit| Instant::now() + limit);
        while !(reply.is_some() && idle) {
            let until = deadline.unwrap_or_else(|| Instant::now() + Duration::from_secs(3600));
            tokio::select! {
                biased;
                received = self.messages.recv() => match received {
                    Some(KernelMessage::Broadcast(message)) => {
                        idle |= is_idle(&message, &id);
                        self.handle_broadcast(&message, outputs);
                    }
                    Some(KernelMessage::Reply(message)) => {
                        if parent_id(&message) == Some(id.as_str())
                            && let JupyterMessageContent::ExecuteReply(content) = message.content
                        {
                            reply = Some(Box::new(content));
                            deadline = Some(Instant::now() + OUTPUT_TIMEOUT);
                        }
                    }
                    Some(KernelMessage::ConnectionLost(why)) => return Err(kernel_error("the kernel is lost", &why)),
                    None => return Err(kernel_error("the kernel is lost", "the connection closed")),
                },
                status = self.child.wait() => {
                    self.drain_messages(outputs);
                    return Err(kernel_died_error(status, self.temp_folder.path(), "while it ran the cell"));
                }
                () = stop.received() => {
                    if stopped.replace(ExecutionEnd::Interrupted).is_some() {
                        // After the second interrupt, the kernel is killed at once.
                        self.kill();
                        return Ok(ExecutionEnd::Interrupted);
                    }
                    self.interrupt().await?;
                    deadline = Some(Instant::now() + INTERRUPT_TIMEOUT);
                }
                () = sleep_until(until), if deadline.is_some() => {
                    if reply.is_some() {
                        break;
                    }
                    if let Some(ended) = stopped {
                        self.kill();
                        return Ok(ended);
                    }
                    stopped = Some(ExecutionEnd::TimedOut);
                    self.interrupt().await?;
                    deadline = Some(Instant::now() + INTERRUPT_TIMEOUT);
                }
            }
        }
        match (stopped, reply) {
            (Some(ended), _) => Ok(ended),
            (None, Some(reply)) => Ok(ExecutionEnd::Replied(reply)),
            (None, None) => Err(kernel_error("the kernel is lost", "the kernel never replied")),
        }
    }

    /// Shuts the kernel down, or kills it if it does not end in time.
    pub async fn shut_down(mut self) {
        if self.child.id().is_none() {
            return;
        }
        let (control, child) = (&mut self.control, &mut self.child);
        let goodbye = async {
            // If the request can't be sent, the kernel is killed after the same time.
            let _ = control.send(ShutdownRequest { restart: false }.into()).await;
            child.wait().await
        };
        if timeout(SHUTDOWN_TIMEOUT, goodbye).await.is_ok() {
            return;
        }
        self.kill();
        let _ = timeout(SHUTDOWN_TIMEOUT, self.child.wait()).await;
    }

    /// Asks for kernel_info until a reply and a broadcast have arrived. Then the subscription
    /// works, and no output can be missed.
    async fn handshake(&mut self) -> Result<()> {
        let (mut answered, mut published) = (false, false);
        let end = Instant::now() + START_TIMEOUT;
        let mut ask_again = Instant::now();
        while !(answered && published) {
            tokio::select! {
                biased;
                received = self.messages.recv() => match received {
                    Some(KernelMessage::Broadcast(_)) => published = true,
                    Some(KernelMessage::Reply(message)) => {
                        if let JupyterMessageContent::KernelInfoReply(info) = message.content {
                            if !std::mem::replace(&mut answered, true) {
                                self.time_to_first_reply = self.elapsed();
                            }
                            let language = serde_json::to_value(&info.language_info);
                            self.language = without_nulls(language.unwrap_or_default());
                        }
                    }
                    Some(KernelMessage::ConnectionLost(why)) => return Err(kernel_error("the kernel is lost", &why)),
                    None => return Err(kernel_error("the kernel is lost", "the connection closed")),
                },
                status = self.child.wait() => {
                    return Err(kernel_died_error(status, self.temp_folder.path(), "before it answered"));
                }
                () = sleep_until(ask_again) => {
                    if Instant::now() > end {
                        return Err(kernel_error("the kernel does not answer", "the kernel process \
                                                                               is running but \
                                                                               silent"));
                    }
                    self.shell.send(KernelInfoRequest {}.into()).await.map_err(protocol_error)?;
                    ask_again = Instant::now() + Duration::from_millis(300);
                }
            }
        }
        Ok(())
    }

    fn handle_broadcast(&mut self, message: &JupyterMessage, outputs: &mut OutputCollector) {
        let Some(&cell) = parent_id(message).and_then(|id| self.request_cells.get(id)) else {
            return;
        };
        if let JupyterMessageContent::ExecuteInput(input) = &message.content {
            outputs.set_count(cell, input.execution_count.value() as u64);
        }
        outputs.handle_message(cell, &message.content);
    }

    /// Processes the messages that had arrived when the kernel ended.
    fn drain_messages(&mut self, outputs: &mut OutputCollector) {
        while let Ok(received) = self.messages.try_recv() {
            if let KernelMessage::Broadcast(message) = received {
                self.handle_broadcast(&message, outputs);
            }
        }
    }

    async fn interrupt(&mut self) -> Result<()> {
        self.control.send(InterruptRequest {}.into()).await.map_err(protocol_error)
    }

    /// Kills the kernel and everything it started.
    fn kill(&mut self) {
        if let Some(id) = self.child.id() {
            // SAFETY: a plain system call. The child is not reaped yet, so the group is its own.
            unsafe { libc::kill(-(id as libc::pid_t), libc::SIGKILL) };
        }
        let _ = self.child.start_kill();
    }
}

impl Drop for KernelClient {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Creates the request to run a cell. After the failure of one that may fail, later requests still
/// run.
pub fn execute_request(code: &str, may_fail: bool) -> ExecuteRequest {
    ExecuteRequest { stop_on_error: !may_fail, ..ExecuteRequest::new(code.to_owned()) }
}

/// Creates the request to run code without output, history or count.
pub fn silent_request(code: &str) -> ExecuteRequest {
    ExecuteRequest { silent: true, store_history: false, ..execute_request(code, false) }
}

fn is_idle(message: &JupyterMessage, id: &str) -> bool {
    matches!(&message.content, JupyterMessageContent::Status(status)
        if matches!(status.execution_state, ExecutionState::Idle))
        && parent_id(message) == Some(id)
}

fn parent_id(message: &JupyterMessage) -> Option<&str> {
    message.parent_header.as_ref().map(|header| header.msg_id.as_str())
}

type Connections =
    (DealerSendConnection, ClientControlConnection, UnboundedReceiver<KernelMessage>);

async fn connect(info: &ConnectionInfo) -> Result<Connections, RuntimeError> {
    let session = uuid::Uuid::new_v4().to_string();
    let mut published = create_client_iopub_connection(info, "", &session).await?;
    let identity = peer_identity_for_session(&session)?;
    let shell = create_client_shell_connection_with_identity(info, &session, identity).await?;
    let control = create_client_control_connection(info, &session).await?;
    let (send, mut replies) = shell.split();
    let (sender, receiver) = unbounded_channel();
    let reply_sender = sender.clone();
    tokio::spawn(async move {
        while forward_message(published.read().await, &sender, KernelMessage::Broadcast) {}
    });
    tokio::spawn(async move {
        while forward_message(replies.read().await, &reply_sender, KernelMessage::Reply) {}
    });
    Ok((send, control, receiver))
}

/// Forwards a message, and returns whether reading should continue.
fn forward_message(
    read: Result<JupyterMessage, RuntimeError>,
    sender: &UnboundedSender<KernelMessage>,
    wrap: fn(JupyterMessage) -> KernelMessage,
) -> bool {
    match read {
        Ok(message) => sender.send(wrap(message)).is_ok(),
        Err(RuntimeError::ZmqError(e)) => {
            let _ = sender.send(KernelMessage::ConnectionLost(e.to_string()));
            false
        }
        // Messages of unknown form or with a wrong signature are skipped.
        Err(_) => !sender.is_closed(),
    }
}

async fn connection_info() -> Result<ConnectionInfo> {
    let localhost = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let ports = peek_ports(localhost, 5).await.map_err(protocol_error)?;
    let [shell_port, iopub_port, stdin_port, control_port, hb_port] = ports[..] else {
        return Err(kernel_error("no free ports", "the operating system provided fewer than five"));
    };
    Ok(ConnectionInfo {
        ip: localhost.to_string(),
        transport: jupyter_protocol::connection_info::Transport::TCP,
        shell_port,
        iopub_port,
        stdin_port,
        control_port,
        hb_port,
        key: uuid::Uuid::new_v4().to_string(),
        signature_scheme: "hmac-sha256".into(),
        kernel_name: Some(super::notebook::KERNEL_NAME.into()),
    })
}

fn write_private(path: &Path, text: &str) -> Result<()> {
    let file = File::options().write(true).create_new(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|e| Error::io(format!("writing {}", path.display()), &e))
}

fn log_path(private: &Path) -> PathBuf {
    private.join("kernel.log")
}

/// Name of the connection file.
const CONNECTION: &str = "connection.json";
/// Placeholder for the path of the connection file in the command of a kernel.
const CONNECTION_FILE_PLACEHOLDER: &str = "{connection_file}";

fn spawn(argv: &[&str], private: &Path, folder: &Path, env: &[(&str, &str)]) -> Result<Child> {
    let starting = |e: std::io::Error| Error::io("starting the kernel", &e);
    let connection = private.join(CONNECTION);
    let connection = connection.to_string_lossy();
    let mut arguments =
        argv.iter().map(|word| word.replace(CONNECTION_FILE_PLACEHOLDER, &connection));
    let log = File::create(log_path(private)).map_err(starting)?;
    let log_too = log.try_clone().map_err(starting)?;
    let mut command = Command::new(arguments.next().unwrap_or_default());
    command
        .args(arguments)
        .current_dir(folder)
        .envs(env.iter().copied())
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(log_too)
        .kill_on_drop(true);
    // In a process group of its own, the kernel does not receive Ctrl-C; it gets an interrupt
    // request.
    command.process_group(0);
    #[cfg(target_os = "linux")]
    // SAFETY: prctl is safe to call between fork and exec.
    unsafe {
        // The kernel must not outlive this process.
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            Ok(())
        });
    }
    command.spawn().map_err(starting)
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let given = map.into_iter().filter(|(_, value)| !value.is_null());
            given.map(|(key, value)| (key, without_nulls(value))).collect()
        }
        other => other,
    }
}

fn protocol_error(error: RuntimeError) -> Error {
    kernel_error("talking to the kernel failed", &error.to_string())
}

fn kernel_error(what: &str, why: &str) -> Error {
    Error::new(ErrorKind::Notebook, what, why)
        .fix(format!("try again; `{}` looks for the cause", program::command("doctor")))
}

/// Returns the error for a kernel that ended: exit status and the last lines of its log.
fn kernel_died_error(status: std::io::Result<ExitStatus>, private: &Path, when: &str) -> Error {
    let how = status.map_or_else(|e| e.to_string(), |status| status.to_string());
    let log = std::fs::read_to_string(log_path(private)).unwrap_or_default();
    let log_text = match last_lines(&log, 8) {
        last if last.is_empty() => String::new(),
        last => format!("; the last lines of its log:\n    {}", last.replace('\n', "\n    ")),
    };
    Error::new(ErrorKind::Notebook, format!("the kernel ended {when}"), format!("{how}{log_text}"))
        .fix(format!(
            "if memory ran out, close other programs or use `--profile tiny`; else `{}` looks for \
             the cause",
            program::command("doctor")
        ))
}
