//! Execution of the cells of one notebook.

use std::path::Path;
use std::time::Duration;

use epsilab::{Error, ErrorKind, Result, program};
use jupyter_zmq_client::{ErrorOutput, ExecuteReply, ReplyError, ReplyStatus};

use super::kernel_client::{self, ExecutionEnd, KernelClient};
use super::notebook::Notebook;
use super::outputs::OutputCollector;
use super::report::{self, HaltReason};
use super::stop_signal::StopSignal;
use crate::html;

/// Runs the cells of the notebook in a kernel of its own and puts their outputs into the notebook.
/// Returns the reason why it stopped early, if it did, and whether at least one cell was started.
/// `variables` are environment variables of the kernel; `timeout` is in seconds for one cell.
///
/// # Errors
/// The kernel can't be started.
pub async fn execute(
    notebook: &mut Notebook,
    folder: &Path,
    variables: &[(&str, &str)],
    timeout: Option<u64>,
) -> Result<(Option<HaltReason>, bool)> {
    let mut stop = StopSignal::listen();
    let cells = notebook.code_cells();
    let mut outputs = OutputCollector::new(cells.len());
    let mut session = tokio::select! {
        session = KernelClient::start(folder, variables) => session?,
        () = stop.received() => return Ok((Some(HaltReason::Interrupted), false)),
    };
    notebook.set_language(session.language.clone());
    let limit = timeout.map(Duration::from_secs);
    let mut halt = warm_up(&mut session, &mut outputs, &mut stop).await;
    let started = halt.is_none();
    for (number, (at, source)) in cells.iter().enumerate() {
        if halt.is_some() {
            break;
        }
        let may_fail = notebook.may_fail(*at);
        let began = report::begin(&report::of_cell(number + 1, cells.len(), source));
        let request = kernel_client::execute_request(source, may_fail);
        let ended = session.execute(number, request, limit, &mut outputs, &mut stop).await;
        halt = match ended {
            Ok(ExecutionEnd::Replied(reply)) => {
                for page in &reply.payload {
                    outputs.handle_page(number, page);
                }
                let failed = !matches!(reply.status, ReplyStatus::Ok);
                if failed && outputs.error(number).is_none() {
                    // An error that was not published must still appear in the notebook.
                    outputs.handle_message(number, &error_from_reply(&reply).into());
                }
                match outputs.error(number) {
                    Some(failure) if !may_fail => Some(HaltReason::Failed {
                        number: number + 1,
                        of: cells.len(),
                        source: source.clone(),
                        failure: failure.clone(),
                    }),
                    _ => None,
                }
            }
            Ok(ExecutionEnd::Interrupted) => Some(HaltReason::Interrupted),
            Ok(ExecutionEnd::TimedOut) => Some(HaltReason::TimedOut {
                number: number + 1,
                source: source.clone(),
                seconds: timeout.unwrap_or_default(),
            }),
            Err(error) => Some(HaltReason::KernelDied(error)),
        };
        report::finish(began, halt.is_some(), outputs.error(number).is_some());
    }
    session.shut_down().await;
    for (number, (at, _)) in cells.iter().enumerate() {
        let (count, shown) = outputs.for_cell(number);
        notebook.set_outputs(*at, count, shown);
    }
    Ok((halt, started))
}

/// Waits until the kernel runs cells, so that the time of the first cell does not include the
/// start.
async fn warm_up(
    session: &mut KernelClient,
    outputs: &mut OutputCollector,
    stop: &mut StopSignal,
) -> Option<HaltReason> {
    let began = report::begin("starting the kernel ");
    let halt = match session
        .execute(usize::MAX, kernel_client::silent_request("();"), None, outputs, stop)
        .await
    {
        Ok(ExecutionEnd::Replied(reply)) if matches!(reply.status, ReplyStatus::Ok) => None,
        Ok(ExecutionEnd::Replied(reply)) => {
            let ErrorOutput { evalue, traceback, .. } = error_from_reply(&reply);
            let text = if traceback.is_empty() { evalue } else { traceback.join("\n") };
            Some(HaltReason::KernelDied(evaluation_error(&text)))
        }
        Ok(_) => Some(HaltReason::Interrupted),
        Err(error) => Some(HaltReason::KernelDied(error)),
    };
    report::finish(began, halt.is_some(), false);
    halt
}

/// Returns the error of a kernel that can't evaluate anything, with the kernel's own advice if it
/// gave some.
fn evaluation_error(text: &str) -> Error {
    let text = html::without_colours(text);
    let text = text.strip_prefix("KernelError: ").unwrap_or(&text);
    let (why, fix) = match text.split_once("what to do: ") {
        Some((why, fix)) => (why.trim_end(), fix.to_owned()),
        None => (text, format!("`{}` looks for the cause", program::command("doctor"))),
    };
    Error::new(ErrorKind::Notebook, "the kernel can't evaluate anything", why).fix(fix)
}

/// Returns the error of a reply as an output.
fn error_from_reply(reply: &ExecuteReply) -> ErrorOutput {
    let error = reply.error.as_deref().cloned();
    let ReplyError { ename, evalue, traceback } = error.unwrap_or_else(|| ReplyError {
        ename: "Aborted".into(),
        evalue: "the kernel did not run the cell".into(),
        traceback: Vec::new(),
    });
    ErrorOutput { ename, evalue, traceback }
}
