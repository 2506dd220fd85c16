//! The thread that owns evcxr: starts it, warms it up, and runs one cell after the other.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use evcxr::{CommandContext, EvalContext};
use jupyter_protocol::JupyterMessage;
use serde_json::{Value, json};

use super::cell::CurrentCell;
use super::complete;
use super::content::Shown;
use super::errors::Failure;
use super::history::History;
use super::interrupt::{Interrupted, Interrupts};
use super::is_complete;
use super::output::{Ended, Output};
use super::requests::{Execute, Place};
use super::session::Session;
use super::wire::{Channel, Wire};
use crate::prebuilt::{self, Lab};

/// Work for the thread, in the order in which it came.
pub enum Job {
    /// Run a cell. `presses`: how often interrupt was pressed when it came.
    Execute { message: Arc<JupyterMessage>, request: Execute, presses: u64 },
    /// What could follow at the cursor?
    Complete { message: Arc<JupyterMessage>, place: Place },
    /// What is it at the cursor?
    Inspect { message: Arc<JupyterMessage>, place: Place },
}

/// What the rest of the kernel has of the thread.
#[derive(Clone)]
pub struct Evaluator {
    jobs: Sender<Job>,
    /// Cells that were given and not answered yet; the start counts as one.
    open: Arc<AtomicUsize>,
}

impl Evaluator {
    /// Starts the thread, and evcxr in it.
    pub fn start(
        session: Arc<Session>,
        wire: Wire,
        (current, interrupts, history): (CurrentCell, Interrupts, History),
    ) -> Self {
        let (jobs, queue) = channel();
        let open = Arc::new(AtomicUsize::new(1));
        let worker = Worker {
            session,
            wire,
            current,
            interrupts,
            history,
            open: open.clone(),
            queue,
            called_off: Vec::new(),
            engine: Err(Failure::new("KernelError", "not started")),
            count: 0,
            upsets: 0,
        };
        std::thread::spawn(move || worker.run());
        Self { jobs, open }
    }

    /// Queues a job.
    pub fn give(&self, job: Job) {
        if matches!(job, Job::Execute { .. }) {
            self.open.fetch_add(1, Ordering::SeqCst);
        }
        let _ = self.jobs.send(job);
    }

    /// It is starting, or a cell runs or waits: questions would wait too long.
    pub fn is_busy(&self) -> bool {
        self.open.load(Ordering::SeqCst) > 0
    }
}

struct Engine {
    context: CommandContext,
    output: Output,
    /// What the process of the cells is linked to.
    lab: Lab,
}

struct Worker {
    session: Arc<Session>,
    wire: Wire,
    current: CurrentCell,
    interrupts: Interrupts,
    history: History,
    open: Arc<AtomicUsize>,
    queue: Receiver<Job>,
    /// Waited when a cell failed.
    called_off: Vec<Job>,
    engine: Result<Engine, Failure>,
    count: u64,
    /// Panics inside evcxr in a row.
    upsets: u32,
}

impl Worker {
    fn run(mut self) {
        self.start_engine();
        self.open.fetch_sub(1, Ordering::SeqCst);
        while let Ok(job) = self.queue.recv() {
            self.one(job);
            for job in std::mem::take(&mut self.called_off) {
                self.turn_away(job);
            }
        }
    }

    /// Answers a cell. Who asks something upon the answer finds the kernel free.
    fn answer(&self, message: &JupyterMessage, content: Value) {
        self.open.fetch_sub(1, Ordering::SeqCst);
        self.wire.reply(Channel::Shell, message, "execute_reply", content);
    }

    fn start_engine(&mut self) {
        self.engine = match catch_unwind(AssertUnwindSafe(|| self.new_engine())) {
            Ok(Ok(engine)) => Ok(engine),
            Ok(Err(text)) => Err(Failure::new("KernelError", &text)),
            Err(_) => Err(Failure::new("KernelError", "evcxr could not be started: it panicked")),
        };
        if let Err(failure) = &self.engine {
            eprintln!("epsilab kernel: {}", failure.traceback.join("\n"));
        }
    }

    fn new_engine(&self) -> Result<Engine, String> {
        let mut progress = |line: &str| {
            eprintln!("epsilab kernel: {line}");
            self.current.print("stderr", &format!("{line}\n"));
        };
        let lab = prebuilt::ensure(&mut progress).map_err(|e| e.to_string())?;
        let _ = std::fs::remove_dir_all(self.session.work_dir());
        std::fs::create_dir_all(self.session.work_dir()).map_err(|e| e.to_string())?;
        let process =
            self.session.cell_process(&lab.library, &lab.toolchain).map_err(|e| e.to_string())?;
        // evcxr obeys an evcxr.toml in the current folder, which may lie beside the notebook.
        let _ = std::env::set_current_dir(self.session.empty_dir());
        let started = EvalContext::with_subprocess_command(process);
        let _ = std::env::set_current_dir(self.session.home());
        let (context, outputs) = started.map_err(|e| format!("evcxr could not be started: {e}"))?;
        let markers = self.session.markers().clone();
        let output = Output::start(outputs, self.current.clone(), self.interrupts.clone(), markers);
        let mut context = CommandContext::with_eval_context(context);
        self.interrupts.watch(context.process_handle());
        context
            .execute(&format!("{}\n{WARM_UP}", dependency(&lab)))
            .map_err(|e| warm_up_failed(&e, &output))?;
        if output.finish(true, false).shown.is_empty() {
            return Err("cells are not compiled by way of this program, so that what they print \
                        can't be told from what they show\n  what to do: use the cargo of the \
                        toolchain that built the lab; `cargo lab doctor` says which"
                .into());
        }
        // Loads the sources into rust-analyzer; the first `let` of the user finds them there.
        let _ = context.completions(WARM_UP_TYPES, WARM_UP_TYPES.len());
        Ok(Engine { context, output, lab })
    }

    fn one(&mut self, job: Job) {
        match job {
            Job::Execute { message, request, presses } => {
                self.wire.status(Some(&message), "busy");
                self.execute(&message, &request, presses);
                self.wire.status(Some(&message), "idle");
            }
            Job::Complete { message, place } => {
                let (code, cursor) = (&place.code, place.cursor());
                let content = match &mut self.engine {
                    Ok(engine) => guarded(|| complete::complete(&mut engine.context, code, cursor)),
                    Err(_) => None,
                };
                let content = content.unwrap_or_else(|| complete::nothing_to_complete(cursor));
                self.wire.reply(Channel::Shell, &message, "complete_reply", content);
                self.wire.status(Some(&message), "idle");
            }
            Job::Inspect { message, place } => {
                let (code, cursor) = (&place.code, place.cursor());
                let content = match &mut self.engine {
                    Ok(engine) => guarded(|| complete::inspect(&mut engine.context, code, cursor)),
                    Err(_) => None,
                };
                let content = content.unwrap_or_else(complete::nothing_to_inspect);
                self.wire.reply(Channel::Shell, &message, "inspect_reply", content);
                self.wire.status(Some(&message), "idle");
            }
        }
    }

    fn turn_away(&mut self, job: Job) {
        let Job::Execute { message, .. } = job else {
            self.one(job);
            return;
        };
        self.wire.status(Some(&message), "busy");
        let content = json!({ "status": "aborted", "execution_count": self.count });
        self.answer(&message, content);
        self.wire.status(Some(&message), "idle");
    }

    /// Runs one cell and answers.
    fn execute(&mut self, message: &Arc<JupyterMessage>, request: &Execute, presses: u64) {
        let loud = !request.silent;
        let kept = loud && request.store_history;
        self.count += u64::from(kept);
        let count = self.count;
        if kept {
            self.history.add(count, &request.code);
        }
        self.current.set(loud.then(|| message.clone()));
        self.current
            .publish("execute_input", json!({ "code": request.code, "execution_count": count }));
        let result = if self.interrupts.presses() == presses {
            self.evaluate(&request.code)
        } else {
            Err(Failure::new("Interrupted", "the cell was not started"))
        };
        // Before the reply: what comes after it was asked for in knowledge of the failure.
        let failed = result.is_err() && request.stop_on_error;
        if failed || self.interrupts.presses() != presses {
            self.called_off = self.queue.try_iter().collect();
        }
        let content = match &result {
            Ok(shown) => {
                if !shown.is_empty() {
                    self.current.publish(
                        "execute_result",
                        json!({ "execution_count": count, "data": shown, "metadata": {} }),
                    );
                    if kept && let Some(text) = shown.get("text/plain").and_then(Value::as_str) {
                        self.history.set_output(count, text);
                    }
                }
                json!({
                    "status": "ok", "execution_count": count,
                    "user_expressions": {}, "payload": [],
                })
            }
            Err(failure) => {
                self.current.publish("error", failure.content());
                let mut content = failure.content();
                content["status"] = "error".into();
                content["execution_count"] = count.into();
                content
            }
        };
        self.answer(message, content);
    }

    fn evaluate(&mut self, code: &str) -> Result<serde_json::Map<String, Value>, Failure> {
        if let Some(failure) = refused(code) {
            return Err(failure);
        }
        // What was missing may have been put right since the last cell.
        if self.engine.is_err() && self.count > 1 {
            self.start_engine();
        }
        let count = self.count;
        let engine = self.engine.as_mut().map_err(|failure| failure.clone())?;
        self.interrupts.begin();
        engine.output.begin(code.contains(".evcxr_display("));
        let result = catch_unwind(AssertUnwindSafe(|| engine.context.execute(code)));
        let interrupted = self.interrupts.end();
        let ran = matches!(&result, Ok(Ok(outputs)) if !outputs.phases.is_empty());
        let crashed = matches!(&result, Ok(Err(evcxr::Error::SubprocessTerminated(_))));
        let ended = engine.output.finish(ran, crashed);
        if ran && code.contains("stdin()") {
            self.current.print("stderr", NO_INPUT);
        }
        if code.lines().any(|line| line.trim() == ":clear") {
            // The lab is forgotten with everything else; the process still has this one loaded.
            let again = format!("{}\n{WARM_UP}", dependency(&engine.lab));
            let _ = guarded(|| engine.context.execute(&again));
        }
        match result {
            Err(_) => Err(self.upset()),
            Ok(Ok(outputs)) => {
                self.upsets = 0;
                match Failure::of_ended(&ended) {
                    Some(failure) => Err(failure),
                    None => Ok(shown(outputs.content_by_mime_type, ended.shown)),
                }
            }
            Ok(Err(error)) => {
                self.upsets = 0;
                Err(told(&error, code, count, &ended, interrupted))
            }
        }
    }

    /// evcxr panicked. Once may be an accident with this cell; twice, and it is started anew.
    fn upset(&mut self) -> Failure {
        self.upsets += 1;
        if self.upsets < 2 {
            return Failure::new(
                "KernelError",
                "evcxr panicked on this cell; variables are kept.\nThe log of the kernel has the \
                 details. If it goes on, the next time evcxr is started anew.",
            );
        }
        self.upsets = 0;
        self.start_engine();
        Failure::new(
            "KernelError",
            "evcxr panicked again and was started anew: all variables and imports are lost.\n\
             Run the notebook again from its first cell.",
        )
    }
}

/// Loads the library into the process of the cells and compiles the first bits.
///
/// It ends with a question mark: evcxr learns from the first one it meets that cells may have them,
/// and that first cell would show its last line in the way of `Debug`.
const WARM_UP: &str = "{ std::hint::black_box(epsilab::Error::setting(\"warm\", 1, \"up\")\
                       .to_string()); Ok::<(), epsilab::Error>(())?; }";
/// Makes rust-analyzer infer a type of the library and one of Burn.
const WARM_UP_TYPES: &str = "let error = epsilab::Error::setting(\"warm\", 1, \"up\");\n\
    let zeros = epsilab::burn::tensor::Tensor::<2>::zeros([2, 2], &Default::default());\n\
    let sum = zeros.clone().matmul(zeros).sum();\nsum.";

fn dependency(lab: &Lab) -> String {
    format!(":dep epsilab = {{ path = {:?} }}", lab.dir.join("shim").to_string_lossy())
}

fn warm_up_failed(error: &evcxr::Error, output: &Output) -> String {
    let ended = output.finish(false, true);
    let failure = Failure::of_evcxr(error, WARM_UP, 0, &ended);
    format!("cells can't be linked to the lab\n{}", failure.traceback.join("\n"))
}

fn guarded<T>(ask: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(ask)).ok()
}

/// What evcxr would take, to the user's harm.
fn refused(code: &str) -> Option<Failure> {
    if let Some(line) = is_complete::open_comment(code) {
        return Some(Failure::new(
            "CompileError",
            &format!(
                "the comment that begins in line {line} is never closed, so the code after it \
                 would not be run\nwhat to do: close it by `*/`"
            ),
        ));
    }
    let command = code.lines().map(str::trim).find(|line| {
        *line == ":quit" || line.starts_with(":toolchain ") || *line == ":allow_static_linking 0"
    })?;
    let why = match command {
        ":quit" => "use Jupyter's own command to shut the kernel down",
        _ => "cells must be compiled the way the lab was, or they can't be linked to it",
    };
    Some(Failure::new("CompileError", &format!("{command} is not for this kernel: {why}")))
}

/// Said to a cell that ran and reads what nobody can type.
const NO_INPUT: &str = "cells can't read input: standard input is at its end, and `read_line` \
                        gives 0 bytes; put the value into a variable, or read a file\n";

/// What evcxr's commands say, and what values displayed.
fn shown(of_commands: HashMap<String, String>, of_values: Shown) -> serde_json::Map<String, Value> {
    let rich = |kind: &str, text: String| match kind.contains("json") {
        true => serde_json::from_str(&text).unwrap_or(text.into()),
        false => text.into(),
    };
    // A cell that ends in `println!(…)` has the value `()`: that is no result to show.
    let nothing = |kind: &str, text: &str| kind == "text/plain" && text == "()";
    of_commands
        .into_iter()
        .chain(of_values)
        .filter(|(kind, text)| !nothing(kind, text))
        .map(|(kind, text)| {
            let value = rich(&kind, text);
            (kind, value)
        })
        .collect()
}

fn told(
    error: &evcxr::Error,
    code: &str,
    count: u64,
    ended: &Ended,
    interrupted: Interrupted,
) -> Failure {
    let crashed = matches!(error, evcxr::Error::SubprocessTerminated(_));
    if interrupted.killed {
        return Failure::new(
            "Interrupted",
            "the cell did not stop by itself, so its process was ended: all variables are lost.\n\
             Imports and functions are kept. Run the cells that make variables again.",
        );
    }
    if interrupted.asked && !crashed {
        // What stops a compiler leaves no message of its own worth showing.
        return Failure::new(
            "Interrupted",
            "the cell was stopped while it was compiled: it did not run, all variables are kept",
        );
    }
    Failure::of_evcxr(error, code, count, ended)
}
