//! The worker: trains the runs of its tickets and puts them into the store.

use std::path::Path;

use super::grid_folder::GridFolder;
use super::slurm::STOP_BEFORE;
use super::ticket::{self, Header, Ticket};
use crate::data::Dataset;
use crate::device::DeviceSpec;
use crate::methods::Plan;
use crate::nn::models;
use crate::runs::{self, PrechargedOutcome};
use crate::store::{RunStore, run_id};
use crate::train::checkpoint::cpu_fingerprint;
use crate::train::{Claim, Fit, InterruptGuard, NoopObserver, interrupt};
use crate::{Error, ErrorKind, Result, program};

/// Summary of the work of a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerSummary {
    /// Number of runs that the worker trained and stored.
    pub trained: usize,
    /// Number of runs that were stored already.
    pub already_stored: usize,
    /// Number of runs that the worker trained and set aside, because another worker has stored them
    /// with results that differ in their bits.
    pub conflicting: usize,
    /// Errors of the other runs.
    pub errors: Vec<Error>,
    /// Whether the worker was asked to stop.
    pub interrupted: bool,
}

/// Trains the runs of the tickets of task `index`. It writes no ledger.
///
/// A request to stop ends it after the current step. A run that writes checkpoints resumes from
/// there, when its ticket is worked off again; another one begins anew, with the same noise.
///
/// # Errors
/// `Io` or `CorruptData` if the tickets or the data can't be read or are not those that were
/// submitted; `Setting` if another version wrote the tickets; `Device` if the device that they ask
/// for can't be used. Nothing is trained then, and the submitter is told.
pub fn run_worker(tickets: &Path, index: usize) -> Result<WorkerSummary> {
    let interrupt_guard = InterruptGuard::start();
    work_until(tickets, index, &|| interrupt_guard.should_stop())
}

/// Trains tickets like [`run_worker`], but stops between two tickets once `is_stopped` is true.
pub(super) fn work_until(
    tickets: &Path,
    index: usize,
    is_stopped: &dyn Fn() -> bool,
) -> Result<WorkerSummary> {
    let (folder, home) = GridFolder::from_ticket_path(tickets)?;
    let (header, _) = ticket::read(tickets, 0, 0)?;
    let (_, own_tickets) =
        ticket::read(tickets, index.saturating_mul(header.per_task), header.per_task)?;
    if own_tickets.is_empty() {
        return Err(Error::setting("--index", index, "no tickets have this number")
            .fix("give the number of a task of the array, counted from 0"));
    }
    let tell = |error: Error| {
        own_tickets.iter().for_each(|ticket| folder.fail(&ticket.attempt, &error));
        error
    };
    check(&header).map_err(tell)?;
    let data = Dataset::read_file(&folder.data(), &header.data_sha256).map_err(tell)?;
    let store = RunStore::open(home)?;
    let (mut worked, mut steps) = (WorkerSummary::default(), 0);
    for ticket in &own_tickets {
        if is_stopped() {
            worked.interrupted = true;
            break;
        }
        match run_ticket(&folder, &store, &header, ticket, &data) {
            Ok(PrechargedOutcome::Stored) => worked.trained += 1,
            Ok(PrechargedOutcome::AlreadyStored) => worked.already_stored += 1,
            Ok(PrechargedOutcome::Conflicting) => worked.conflicting += 1,
            Ok(PrechargedOutcome::Interrupted { taken }) => {
                (worked.interrupted, steps) = (true, steps + taken)
            }
            Err(error) => {
                folder.fail(&ticket.attempt, &error);
                worked.errors.push(error);
            }
        }
    }
    // Slurm interrupts before the time limit. A task that it terminates is started again.
    let is_time_limit = worked.interrupted && interrupt::exit_code() == INTERRUPTED_EXIT_CODE;
    if is_time_limit
        && steps + (worked.trained + worked.already_stored + worked.conflicting) as u64 == 0
    {
        let _ = tell(stopped_too_early());
    }
    Ok(worked)
}

/// The exit code of a program that was interrupted.
const INTERRUPTED_EXIT_CODE: u8 = 130;

/// Returns the error of a task that was asked to stop before it had taken a step.
fn stopped_too_early() -> Error {
    let why = format!("tasks are asked to stop {STOP_BEFORE} seconds before their time limit");
    let what = "the task was asked to stop before its first step";
    Error::new(ErrorKind::Setting, what, why)
        .fix("give the tasks more time with --time, or in a notebook with .time(..)")
}

/// Checks that this program is the one that the tickets were written for.
fn check(header: &Header) -> Result<()> {
    let lab = program::numerics();
    if header.lab != lab {
        let what = format!("tickets of version {} for a worker of version {lab}", header.lab);
        let why = "another version may not train the same bits as the charged runs";
        return Err(Error::new(ErrorKind::Setting, what, why)
            .fix("submit with the version that the nodes have (--program names it)"));
    }
    Ok(())
}

fn run_ticket(
    folder: &GridFolder,
    store: &RunStore,
    header: &Header,
    ticket: &Ticket,
    data: &Dataset,
) -> Result<PrechargedOutcome> {
    let Ticket { id, attempt, seed, provenance, plan } = ticket;
    if store.has_finished(id)? {
        return Ok(PrechargedOutcome::AlreadyStored);
    }
    let model = models::load(folder.model(*seed))?.with_provenance(provenance.clone());
    let plan = apply_ticket_settings(plan, header)?;
    // The id covers plan, model and data, so whatever is trained is what was charged.
    if run_id(&plan, &model, data)? != *id {
        let what = format!("the ticket {attempt}");
        let why = "the plan, model and data differ from those of the charged run";
        return Err(Error::new(ErrorKind::CorruptData, what, why).fix("submit the grid again"));
    }
    // Before it is begun, so that the charge of a run that can't be trained here can be taken back.
    plan.descriptor()?;
    let device = plan.resolve_device()?;
    let processor = format!("{device} {}", cpu_fingerprint());
    let others = folder.begin_attempt(attempt, &processor)?;
    // Steps of another process are taken again with the same noise. Elsewhere than on a CPU of the
    // same kind they are rounded differently, which the statement of the run says.
    let differs = |note: &String| !device.is_cpu() || *note != processor;
    let other_bits = others.iter().any(differs);
    let conflict_path = folder.new_conflict_path(attempt)?;
    let grant =
        runs::PrechargedAttempt { inexact_repeat: other_bits, conflict_path: &conflict_path };
    let claim = Claim::Granted(attempt);
    let fit = Fit { id, plan: &plan, model: &model, data, claim };
    runs::train_precharged(store, &grant, fit, &mut NoopObserver)
}

/// Returns the plan on the device that the tickets ask for, with checkpoints if they do.
///
/// # Errors
/// `Device` if it can't be used here.
fn apply_ticket_settings(plan: &Plan, header: &Header) -> Result<Plan> {
    let plan = plan.clone().on_device(header.device.parse::<DeviceSpec>()?);
    match &header.checkpoint_every {
        Some(every) => plan.checkpoint_every(every.parse()?, Vec::new()),
        None => Ok(plan),
    }
}
