//! Thread that owns evcxr. It starts the engine and runs one task after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use jupyter_protocol::JupyterMessage;
use serde_json::{Map, Value, json};

use super::complete::Question;
use super::context::KernelContext;
use super::engine::{EvaluationResult, EvcxrEngine};
use super::errors::CellFailure;
use super::requests::{CodeCursor, ExecuteRequest};
use super::wire::Channel;

/// Work for the thread, processed in the order of arrival.
pub enum EvalTask {
    /// Run a cell. `interrupt_count` is the number of interrupts when the request arrived.
    Execute { message: Arc<JupyterMessage>, request: ExecuteRequest, interrupt_count: u64 },
    /// Answer a question about the code at the cursor.
    Ask { message: Arc<JupyterMessage>, question: Question, cursor: CodeCursor },
}

/// Handle to the thread that owns evcxr.
#[derive(Clone)]
pub struct Evaluator {
    tasks: Sender<EvalTask>,
    /// Number of cells without an answer. The start of the engine counts as one.
    pending_cells: Arc<AtomicUsize>,
}

impl Evaluator {
    /// Starts the thread that owns evcxr, and evcxr in it.
    pub fn start(context: KernelContext) -> Self {
        let (tasks, queue) = channel();
        let pending_cells = Arc::new(AtomicUsize::new(1));
        let worker = EvaluatorThread {
            context,
            pending_cells: pending_cells.clone(),
            queue,
            aborted: Vec::new(),
            engine: Err(CellFailure::new("KernelError", "not started")),
            count: 0,
            consecutive_panics: 0,
        };
        std::thread::spawn(move || worker.run());
        Self { tasks, pending_cells }
    }

    /// Queues a task.
    pub fn submit(&self, task: EvalTask) {
        if matches!(task, EvalTask::Execute { .. }) {
            self.pending_cells.fetch_add(1, Ordering::SeqCst);
        }
        let _ = self.tasks.send(task);
    }

    /// Returns whether the engine starts or a cell runs or waits; other tasks would wait too long
    /// then.
    pub fn is_busy(&self) -> bool {
        self.pending_cells.load(Ordering::SeqCst) > 0
    }
}

struct EvaluatorThread {
    context: KernelContext,
    pending_cells: Arc<AtomicUsize>,
    queue: Receiver<EvalTask>,
    /// Tasks that were waiting when a cell failed.
    aborted: Vec<EvalTask>,
    engine: Result<EvcxrEngine, CellFailure>,
    count: u64,
    /// Number of consecutive panics of evcxr itself, without a good cell between them.
    consecutive_panics: u32,
}

impl EvaluatorThread {
    fn run(mut self) {
        self.start_engine();
        self.context.current.finish_startup();
        self.pending_cells.fetch_sub(1, Ordering::SeqCst);
        while let Ok(task) = self.queue.recv() {
            self.handle(task);
            for task in std::mem::take(&mut self.aborted) {
                self.abort(task);
            }
        }
    }

    fn start_engine(&mut self) {
        // The start counts as one.
        let is_awaited = || self.pending_cells.load(Ordering::SeqCst) > 1;
        self.engine = EvcxrEngine::start(&self.context, &is_awaited);
        if let Err(failure) = &self.engine {
            eprintln!("epsilab kernel: {}", failure.traceback.join("\n"));
        }
    }

    fn handle(&mut self, task: EvalTask) {
        let wire = self.context.sender.clone();
        match task {
            EvalTask::Execute { message, request, interrupt_count } => {
                self.context.current.mark_busy(&message);
                self.execute(&message, &request, interrupt_count);
                wire.publish_status(Some(&message), "idle");
            }
            EvalTask::Ask { message, question, cursor } => {
                let engine = self.engine.as_mut().ok();
                let reply = engine
                    .and_then(|engine| engine.answer(question, &cursor.code, cursor.position()));
                let content = reply.unwrap_or_else(|| question.no_answer(&cursor));
                wire.reply(Channel::Shell, &message, question.reply(), content);
                wire.publish_status(Some(&message), "idle");
            }
        }
    }

    /// Replies to a cell without running it; handles other tasks as usual.
    fn abort(&mut self, task: EvalTask) {
        let EvalTask::Execute { message, .. } = task else {
            self.handle(task);
            return;
        };
        self.context.current.mark_busy(&message);
        self.reply(&message, json!({ "status": "aborted", "execution_count": self.count }));
        self.context.sender.publish_status(Some(&message), "idle");
    }

    /// Replies to a cell. The kernel is free before the client reads the answer.
    fn reply(&self, message: &JupyterMessage, content: Value) {
        self.pending_cells.fetch_sub(1, Ordering::SeqCst);
        self.context.sender.reply(Channel::Shell, message, "execute_reply", content);
    }

    /// Runs one cell and replies to its request.
    fn execute(
        &mut self,
        message: &Arc<JupyterMessage>,
        request: &ExecuteRequest,
        interrupt_count: u64,
    ) {
        let KernelContext { current, interrupts, history, .. } = self.context.clone();
        let stored = !request.silent && request.store_history;
        self.count += u64::from(stored);
        let count = self.count;
        if stored {
            history.add(count, &request.code);
        }
        current.set_request((!request.silent).then(|| message.clone()));
        self.context.inputs.begin_cell(request.allow_stdin);
        current.publish("execute_input", json!({ "code": request.code, "execution_count": count }));
        let result = if interrupts.interrupt_count() == interrupt_count {
            self.evaluate(&request.code)
        } else {
            Err(CellFailure::new("Interrupted", "the cell was not started"))
        };
        // Before the answer: later requests are sent in knowledge of the failure.
        let failed = result.is_err() && request.stop_on_error;
        if failed || interrupts.interrupt_count() != interrupt_count {
            self.aborted = self.queue.try_iter().collect();
        }
        let content = match &result {
            Ok(EvaluationResult { data, pager }) => {
                let values = self.values(&request.user_expressions);
                if !data.is_empty() {
                    current.publish(
                        "execute_result",
                        json!({ "execution_count": count, "data": data,
                            "metadata": { "epsilab": { "coverage": "unmarked" } } }),
                    );
                    if stored && let Some(text) = data.get("text/plain").and_then(Value::as_str) {
                        history.set_output(count, text);
                    }
                }
                let page = |data| json!({ "source": "page", "data": data, "start": 0 });
                let payload: Vec<Value> = pager.iter().map(page).collect();
                json!({
                    "status": "ok", "execution_count": count,
                    "user_expressions": values, "payload": payload,
                })
            }
            Err(failure) => {
                current.publish("error", failure.to_content());
                let mut content = failure.reply();
                content["execution_count"] = count.into();
                content
            }
        };
        self.reply(message, content);
    }

    /// Evaluates expressions that a client sends together with a cell: inline values of a text,
    /// for instance.
    fn values(&mut self, expressions: &Map<String, Value>) -> Value {
        let value = |(name, expression): (&String, &Value)| {
            let value = match expression.as_str() {
                Some(expression) => self.evaluate(expression),
                None => Err(CellFailure::new("KernelError", "an expression is a text")),
            };
            let value = match value {
                Ok(given) => json!({ "status": "ok", "data": given.data, "metadata": {} }),
                Err(failure) => failure.reply(),
            };
            (name.clone(), value)
        };
        expressions.iter().map(value).collect()
    }

    fn evaluate(&mut self, code: &str) -> Result<EvaluationResult, CellFailure> {
        // The cause of a failed start may be gone since the last cell.
        if self.engine.is_err() && self.count > 1 {
            self.start_engine();
        }
        let engine = self.engine.as_mut().map_err(|failure| failure.clone())?;
        let result = match engine.run(&self.context, code, self.count) {
            Ok(given) => Ok(given),
            Err(Some(failure)) => Err(failure),
            Err(None) => return Err(self.handle_evcxr_panic()),
        };
        self.consecutive_panics = 0;
        result
    }

    /// Returns the failure for a panic of evcxr itself; after the second one in a row, evcxr is
    /// restarted.
    fn handle_evcxr_panic(&mut self) -> CellFailure {
        self.consecutive_panics += 1;
        if self.consecutive_panics < 2 {
            return CellFailure::new(
                "KernelError",
                "evcxr panicked on this cell; variables are kept.\nThe log of the kernel has the \
                 details. If the next cell makes evcxr panic too, it is restarted.",
            );
        }
        self.consecutive_panics = 0;
        self.start_engine();
        CellFailure::new(
            "KernelError",
            "evcxr panicked again and was restarted: all variables and imports are lost.\n\
             Run the notebook again from its first cell.",
        )
    }
}
