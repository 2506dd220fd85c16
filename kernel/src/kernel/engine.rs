//! evcxr and its environment: starts it, runs cells, answers questions about code.

use std::collections::{BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use epsilab::program;
use evcxr::{CommandContext, EvalContext, EvalOutputs};
use serde_json::{Map, Value};

use super::cell_commands;
use super::cell_process::stream_codec::readable;
use super::complete::{self, Question};
use super::context::KernelContext;
use super::crash;
use super::disk_full;
use super::display_blocks::MimeData;
use super::errors::{CellFailure, CellSource};
use super::input_requests::InputFailure;
use super::is_complete;
use super::output_reader::{CellEnd, OutputReader};
use super::panics;
use super::std_sources;
use super::variables::{RemovalCause, VariableTracker};
use super::visibility::Visibility;
use super::warm_up::{self, TYPE_INFERENCE_CODE, WARM_UP_CELL, dep_command};
use super::workspace;
use crate::prebuilt::{self, BuildProgress, PrebuiltLibrary};

/// A running evcxr whose cells are linked to the lab.
pub struct EvcxrEngine {
    evcxr: CommandContext,
    output: OutputReader,
    /// Lab that the cell process has loaded.
    library: PrebuiltLibrary,
    variables: VariableTracker,
    /// Index of the lab's sources, made in the background.
    visibility: Arc<OnceLock<Visibility>>,
}

/// Result of the evaluation of a cell.
#[derive(Default)]
pub struct EvaluationResult {
    /// Displayed result by MIME type.
    pub data: Map<String, Value>,
    /// Text for the pager of the client, by MIME type.
    pub pager: Option<Value>,
}

/// Failure of a cell without a result; `None` if evcxr itself panicked.
pub type EvaluationFailure = Option<CellFailure>;

impl EvcxrEngine {
    /// Builds the lab if necessary, starts evcxr and runs a first cell. `is_awaited` is whether
    /// the user waits for a cell.
    ///
    /// # Errors
    /// The lab can't be built, or evcxr can't be started or linked to it.
    pub fn start(
        context: &KernelContext,
        is_awaited: &dyn Fn() -> bool,
    ) -> Result<Self, CellFailure> {
        let started = catch_unwind(AssertUnwindSafe(|| Self::try_start(context, is_awaited)));
        started
            .unwrap_or_else(|_| Err(CellFailure::from_startup("evcxr panicked while it started")))
    }

    fn try_start(
        context: &KernelContext,
        is_awaited: &dyn Fn() -> bool,
    ) -> Result<Self, CellFailure> {
        let mut progress = |step: BuildProgress<'_>| match step {
            BuildProgress::Line(line) => {
                eprintln!("epsilab kernel: {line}");
                context.current.report_startup(line);
            }
            BuildProgress::Bar(bar) => context.current.report_startup_progress(bar),
        };
        let no_lab = |text: &str| CellFailure::new("KernelError", text);
        workspace::check_temporary_folder().map_err(|e| no_lab(&e.to_string()))?;
        let lab = prebuilt::ensure_built(&mut progress).map_err(|e| no_lab(&e.to_string()))?;
        let unlinked = match Self::start_with_library(context, is_awaited, &lab) {
            Err(StartError::LinkFailed(text)) => text,
            other => return other.map_err(StartError::failure),
        };
        // Damage that the quick check of every start does not see.
        match prebuilt::repair(&lab, &mut progress) {
            Ok(Some(lab)) => {
                Self::start_with_library(context, is_awaited, &lab).map_err(StartError::failure)
            }
            Ok(None) => Err(StartError::LinkFailed(unlinked).failure()),
            Err(error) => Err(no_lab(&format!("{unlinked}\n{error}"))),
        }
    }

    fn start_with_library(
        context: &KernelContext,
        is_awaited: &dyn Fn() -> bool,
        lab: &PrebuiltLibrary,
    ) -> Result<Self, StartError> {
        let session = &context.workspace;
        let _ = std::fs::remove_dir_all(session.work_dir());
        std::fs::create_dir_all(session.work_dir()).map_err(|e| e.to_string())?;
        let process = session.cell_process_command(lab).map_err(|e| e.to_string())?;
        let unwritten = |e: std::io::Error| format!("the session's folder can't be written: {e}");
        std_sources::prepare(&session.root).map_err(unwritten)?;
        // evcxr reads an evcxr.toml in the current folder, which may lie beside the notebook.
        let _ = std::env::set_current_dir(session.config_dir());
        let started = EvalContext::with_subprocess_command(process);
        let _ = std::env::set_current_dir(&session.working_dir);
        let (evcxr, outputs) = started
            .map_err(|e| format!("evcxr could not be started: {}", readable(&e.to_string())))?;
        std_sources::link(&session.root, &lab.std_sources()).map_err(unwritten)?;
        let output = OutputReader::start(outputs, context.clone());
        let mut evcxr = CommandContext::with_eval_context(evcxr);
        context.interrupts.set_process(evcxr.process_handle(), &context.current);
        warm_up::spawn_shim_build(&session.work_dir(), &session.warm_up_dir(), lab);
        evcxr
            .execute(&format!("{}\n{WARM_UP_CELL}", dep_command(lab)))
            .map_err(|e| warm_up_failed(&e, &output))?;
        if output.finish(true, false).displayed.is_empty() {
            return Err(format!(
                "cells are not compiled through this program, so that their output can't be \
                 separated from control messages\n  what to do: use the cargo of the toolchain \
                 that built the lab; `{}` names it",
                program::command("doctor")
            )
            .into());
        }
        // The first cell needs only a part of it.
        if !is_awaited() {
            let _ = evcxr.completions(TYPE_INFERENCE_CODE, TYPE_INFERENCE_CODE.len());
        }
        let engine = Self {
            evcxr,
            output,
            library: lab.clone(),
            variables: VariableTracker::default(),
            visibility: Arc::default(),
        };
        let (index, lab) = (engine.visibility.clone(), engine.library.dir.clone());
        std::thread::spawn(move || {
            lower_thread_priority();
            index.get_or_init(|| Visibility::from_sources(&lab));
        });
        Ok(engine)
    }

    /// Runs one cell.
    ///
    /// # Errors
    /// The cell failed, or evcxr panicked on it.
    pub fn run(
        &mut self,
        context: &KernelContext,
        code: &str,
        count: u64,
    ) -> Result<EvaluationResult, EvaluationFailure> {
        if let Some(name) = cell_commands::documentation_query(code) {
            return Ok(EvaluationResult {
                pager: Some(self.documentation(name)?),
                ..EvaluationResult::default()
            });
        }
        let shown = self.run_code(context, code, count)?;
        Ok(EvaluationResult { data: shown, pager: None })
    }

    /// Returns the documentation of a name, by MIME type.
    fn documentation(&mut self, name: &str) -> Result<Value, EvaluationFailure> {
        let found = self.answer(Question::Inspect, name, name.chars().count()).ok_or(None)?;
        if found["found"] == true {
            return Ok(found["data"].clone());
        }
        let text = format!(
            "there is no documentation of `{name}`\nwhat to do: give the name of a variable, or a \
             path such as `?Vec::push` or `?epsilab::lab::parameter`; `:help` lists the commands"
        );
        Err(CellFailure::new("CompileError", &text).into())
    }

    fn run_code(
        &mut self,
        context: &KernelContext,
        code: &str,
        count: u64,
    ) -> Result<Map<String, Value>, EvaluationFailure> {
        if let Some(failure) = reject_unsupported_code(code) {
            return Err(failure.into());
        }
        let to_owned_pair = |(name, kind): (&str, &str)| (name.to_owned(), kind.to_owned());
        let mut variables: Vec<_> = self.evcxr.variables_and_types().map(to_owned_pair).collect();
        variables.sort();
        let parsed = cell_commands::parse_commands(code, &variables)?;
        if parsed.help {
            context.current.print("stdout", &cell_commands::help_text());
        }
        if parsed.is_fully_handled() {
            return Ok(Map::new());
        }
        let code = parsed.code.as_str();
        if [":fmt", ":types"]
            .iter()
            .any(|command| code.lines().any(|l| l.trim().starts_with(command)))
        {
            context.workspace.use_custom_format();
        }
        context.interrupts.begin_cell();
        self.output.begin(code.contains(".evcxr_display("));
        let result = catch_unwind(AssertUnwindSafe(|| self.evcxr.execute(code)));
        let interrupted = context.interrupts.end_cell();
        let ran = matches!(&result, Ok(Ok(outputs)) if !outputs.phases.is_empty());
        let crashed = matches!(&result, Ok(Err(evcxr::Error::SubprocessTerminated(_))));
        let end = CellEnd { interrupted, ..self.output.finish(ran, crashed) };
        let unanswered = context.inputs.end_cell();
        let cleared = code.lines().any(|line| line.trim() == ":clear");
        if cleared {
            // evcxr forgot the lab, too; the process still has it loaded.
            let reload = format!("{}\n{WARM_UP_CELL}", dep_command(&self.library));
            self.output.begin(false);
            let _ = catch_panic(|| self.evcxr.execute(&reload));
            // Discards the value of that cell, so that the next cell does not show it.
            self.output.finish(true, false);
        }
        let Ok(result) = result else { return Err(None) };
        if let Ok(outputs) = &result
            && parsed.time
        {
            context.current.print("stdout", &timing_text(outputs));
        }
        let loss = match (crashed, cleared) {
            (true, _) => RemovalCause::ProcessEnded,
            (_, true) => RemovalCause::Cleared,
            _ => RemovalCause::Moved,
        };
        let names: BTreeSet<String> =
            self.evcxr.variables_and_types().map(|(name, _)| name.to_owned()).collect();
        let lost = self.variables.update(names, count, loss);
        let defines = code.split_whitespace().any(|word| word == "let");
        if let Some(unanswered) = unanswered.filter(|_| !crashed) {
            let mut failure = match unanswered {
                InputFailure::Unsupported => CellFailure::new("InputError", &no_input()),
                InputFailure::Interrupted => CellFailure::new("Interrupted", INTERRUPTED_AT_INPUT),
            };
            let defines = defines && (end.panicked || end.returned_early);
            failure.traceback.extend(self.variables.failure_notes(&lost, defines));
            return Err(failure.into());
        }
        match result {
            Ok(outputs) => match self.failure_from_end(&end, context, defines, &lost) {
                Some(failure) => Err(failure.into()),
                None => Ok(result_data(outputs.content_by_mime_type, end.displayed)),
            },
            Err(error) => {
                let source = CellSource { code, count, variables: &self.variables };
                let mut failure = failure(&error, &source, &end);
                if crashed {
                    failure.traceback.extend(crash::describe_loss(&lost));
                }
                Err(failure.into())
            }
        }
    }

    /// Returns the failure of a cell that panicked or returned early. `defines` is whether it
    /// defines variables.
    fn failure_from_end(
        &self,
        end: &CellEnd,
        context: &KernelContext,
        defines: bool,
        lost: &[String],
    ) -> Option<CellFailure> {
        let mut failure = if end.panicked && end.interrupted.requested {
            let mut failure = CellFailure::new("Interrupted", "the cell was stopped in a loop");
            // What panicked because of the stop, such as `join().unwrap()`.
            failure.traceback.extend(panics::panics_after_interrupt(&end.failure_text));
            failure
        } else if end.panicked {
            let source = self.evcxr.last_source().unwrap_or_default();
            CellFailure::from_panic(&end.failure_text, &source, &context.history.newest_first())
        } else if end.returned_early {
            CellFailure::from_early_return(&end.failure_text)
        } else {
            return None;
        };
        if end.panicked || !lost.is_empty() {
            failure.traceback.extend(self.variables.failure_notes(lost, defines));
        }
        Some(failure)
    }

    /// Returns the content of the reply to a question; `None` if rust-analyzer panicked.
    pub fn answer(&mut self, question: Question, code: &str, cursor: usize) -> Option<Value> {
        let evcxr = &mut self.evcxr;
        catch_panic(|| match question {
            Question::Complete => {
                let visibility =
                    self.visibility.get_or_init(|| Visibility::from_sources(&self.library.dir));
                complete::complete(evcxr, visibility, code, cursor)
            }
            Question::Inspect => complete::inspect(evcxr, code, cursor),
        })
    }
}

/// Reason why the engine can't be started.
enum StartError {
    /// The first cell can't be linked to the lab.
    LinkFailed(String),
    Other(String),
}

impl StartError {
    fn failure(self) -> CellFailure {
        match self {
            Self::LinkFailed(text) => CellFailure::from_startup(&format!(
                "{text}\nwhat to do: no file of the lab was changed since it was built; `{}` \
                 checks the rest of the installation",
                program::command("doctor")
            )),
            Self::Other(text) => CellFailure::from_startup(&text),
        }
    }
}

impl From<String> for StartError {
    fn from(text: String) -> Self {
        Self::Other(text)
    }
}

fn warm_up_failed(error: &evcxr::Error, output: &OutputReader) -> StartError {
    let end = output.finish(false, true);
    if disk_full::is_disk_full_error(error) {
        return StartError::Other(disk_full::disk_full_message(disk_full::STARTUP_CONSEQUENCE));
    }
    let source =
        CellSource { code: WARM_UP_CELL, count: 0, variables: &VariableTracker::default() };
    let failure = CellFailure::from_evcxr(error, &source, &end);
    StartError::LinkFailed(format!(
        "cells can't be linked to the lab\n{}",
        failure.traceback.join("\n")
    ))
}

/// Gives this thread the lowest priority on Linux: the first cells need every core.
fn lower_thread_priority() {
    // SAFETY: a plain call. On Linux it changes this thread only.
    #[cfg(target_os = "linux")]
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, 19)
    };
}

fn catch_panic<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// Returns the failure for code that evcxr would accept but handle wrongly.
fn reject_unsupported_code(code: &str) -> Option<CellFailure> {
    if let Some(line) = is_complete::find_open_comment(code) {
        let text = format!(
            "the comment that begins in line {line} is never closed, so the code after it would \
             not be run\nwhat to do: close it with `*/`"
        );
        return Some(CellFailure::new("CompileError", &text));
    }
    let command = code.lines().map(str::trim).find(|line| {
        *line == ":quit" || line.starts_with(":toolchain ") || *line == ":allow_static_linking 0"
    })?;
    let why = match command {
        ":quit" => "use Jupyter's own command to shut the kernel down",
        _ => "cells must be compiled as the lab was, or they can't be linked to it",
    };
    Some(CellFailure::new("CompileError", &format!("{command} is not for this kernel: {why}")))
}

/// Returns the error of a cell that reads standard input where no front end answers.
fn no_input() -> String {
    format!(
        "the cell reads standard input, but this front end can't be asked for input (`{}` and \
         nbconvert can't)\nwhat to do: put the value into a variable, or read a file",
        program::command("run")
    )
}

/// Error of a cell that was interrupted while it waited for input.
const INTERRUPTED_AT_INPUT: &str = "the cell was stopped while it waited for input";

/// Formats the duration of a cell: of everything before it ran, and of the run.
fn timing_text(outputs: &EvalOutputs) -> String {
    let seconds = |runs: bool| -> f64 {
        let phases = outputs.phases.iter().filter(|phase| (phase.name == "Execution") == runs);
        phases.map(|phase| phase.duration.as_secs_f64()).sum()
    };
    format!("compiled in {:.2} s, ran in {:.3} s\n", seconds(false), seconds(true))
}

/// Returns the result of a cell: the output of evcxr's commands and the displays of its value.
fn result_data(of_commands: HashMap<String, String>, of_value: MimeData) -> Map<String, Value> {
    let parse = |kind: &str, text: String| {
        let json = kind.contains("json").then(|| serde_json::from_str(&text).ok()).flatten();
        json.unwrap_or(text.into())
    };
    // A cell that ends in `println!(…)` has the value `()`, which is no result to show.
    let is_unit = |kind: &str, text: &str| kind == "text/plain" && text == "()";
    of_commands
        .into_iter()
        .chain(of_value)
        .filter(|(kind, text)| !is_unit(kind, text))
        .map(|(kind, text)| {
            let value = parse(&kind, text);
            (kind, value)
        })
        .collect()
}

/// Returns the failure of a cell that did not run to its end.
fn failure(error: &evcxr::Error, source: &CellSource<'_>, end: &CellEnd) -> CellFailure {
    let crashed = matches!(error, evcxr::Error::SubprocessTerminated(_));
    if end.interrupted.killed {
        return crash::killed_failure();
    }
    if end.interrupted.requested && !crashed {
        // The message of a killed compiler is of no use.
        let text =
            "the cell was stopped while it was compiled: it did not run, all variables are kept";
        return CellFailure::new("Interrupted", text);
    }
    CellFailure::from_evcxr(error, source, end)
}
