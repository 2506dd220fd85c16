//! Trains the runs of a grid, one after the other or several at once.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use super::allocation::{JobAllocation, JobResources};
use super::queue::RunRequest;
use super::scheduler::{GridScheduler, RunEvent, SchedulerAction};
use crate::data::Dataset;
use crate::privacy::Ledger;
use crate::store::RunStore;
use crate::train::{Claim, Fit, Observer, Progress, Run};
use crate::{Error, Result, runs};

/// Trains all runs, as many at once as `choose_allocation` says, which is called before the first
/// of them. Returns whether the grid was interrupted.
///
/// # Errors
/// As [`GridScheduler::next_action`] and [`GridScheduler::complete`]; the runs that are being
/// trained end first.
pub(super) fn run(
    scheduler: &mut GridScheduler<'_>,
    store: &RunStore,
    choose_allocation: impl FnOnce() -> Result<JobAllocation>,
) -> Result<bool> {
    // A grid whose runs are all stored times nothing and creates no ledger.
    let first = match scheduler.next_action()? {
        SchedulerAction::Train(request) => request,
        SchedulerAction::Stop => return Ok(true),
        SchedulerAction::Wait | SchedulerAction::Finish => return Ok(false),
    };
    let allocation = choose_allocation()?;
    allocation.description.iter().for_each(|description| scheduler.note(description));
    let context = JobContext { store, ledger: scheduler.ledgers.ledger()?, data: scheduler.data };
    match &allocation.jobs[..] {
        [] | [_] => run_sequentially(scheduler, &context, first),
        shares => run_in_parallel(scheduler, &context, first, shares),
    }
}

fn run_sequentially(
    scheduler: &mut GridScheduler<'_>,
    context: &JobContext<'_>,
    first: Box<RunRequest>,
) -> Result<bool> {
    let mut request = first;
    loop {
        let began = Instant::now();
        let run = context.train(&request, &mut |event| scheduler.handle_event(&request, event));
        if !scheduler.complete(&request, run, began.elapsed().as_secs_f64())? {
            return Ok(true);
        }
        request = match scheduler.next_action()? {
            SchedulerAction::Train(request) => request,
            SchedulerAction::Stop => return Ok(true),
            SchedulerAction::Wait | SchedulerAction::Finish => return Ok(false),
        };
    }
}

/// Message of a job to the thread that has the display and hands out the runs.
enum Message {
    Event(RunEvent),
    Finished(Result<Run>, f64),
    Panicked(Box<dyn Any + Send>),
}

/// Slot of a job: the channel from which it gets its runs, and the run that it trains.
struct WorkerSlot {
    sender: Sender<Box<RunRequest>>,
    /// The run that is being trained.
    work: Option<Box<RunRequest>>,
}

fn run_in_parallel(
    scheduler: &mut GridScheduler<'_>,
    context: &JobContext<'_>,
    first: Box<RunRequest>,
    shares: &[JobResources],
) -> Result<bool> {
    scheduler.jobs = shares.len();
    std::thread::scope(|scope| {
        let (send, receiver) = channel();
        let mut slots = Vec::new();
        for (job, share) in shares.iter().enumerate() {
            let (hand_out, works) = channel();
            let send = send.clone();
            scope.spawn(move || {
                worker_loop(&works, context, share, &|message| send.send((job, message)).is_ok())
            });
            slots.push(WorkerSlot { sender: hand_out, work: None });
        }
        drop(send);
        let (mut next, mut interrupted, mut outcome) = (Some(first), false, Ok(()));
        // After the last run, an interrupt or an error, the others end what they have begun.
        let mut is_over = false;
        loop {
            while !is_over && let Some(free) = slots.iter_mut().find(|slot| slot.work.is_none()) {
                let request = match next.take().map_or_else(
                    || scheduler.next_action(),
                    |first| Ok(SchedulerAction::Train(first)),
                ) {
                    Ok(SchedulerAction::Train(request)) => request,
                    Ok(SchedulerAction::Wait) => break,
                    Ok(SchedulerAction::Finish) => {
                        is_over = true;
                        break;
                    }
                    Ok(SchedulerAction::Stop) => {
                        is_over = true;
                        interrupted = true;
                        break;
                    }
                    Err(error) => {
                        is_over = true;
                        outcome = Err(error);
                        break;
                    }
                };
                let sent = free.sender.send(request.clone());
                debug_assert!(sent.is_ok(), "a job reads until its channel is closed");
                free.work = Some(request);
            }
            if slots.iter().all(|slot| slot.work.is_none()) {
                break;
            }
            let Ok((job, message)) = receiver.recv() else { break };
            let Some(request) = slots[job].work.clone() else { continue };
            match message {
                Message::Event(event) => scheduler.handle_event(&request, event),
                Message::Finished(run, seconds) => {
                    slots[job].work = None;
                    match scheduler.complete(&request, run, seconds) {
                        Ok(true) => {}
                        Ok(false) => (is_over, interrupted) = (true, true),
                        Err(error) => (is_over, outcome) = (true, Err(error)),
                    }
                }
                // As if the run had panicked on this thread.
                Message::Panicked(panic) => {
                    drop(slots);
                    resume_unwind(panic);
                }
            }
        }
        outcome.map(|()| interrupted)
    })
}

/// Trains the runs that arrive, in the threads and on the device of this share.
fn worker_loop(
    requests: &Receiver<Box<RunRequest>>,
    context: &JobContext<'_>,
    share: &JobResources,
    send: &(dyn Fn(Message) -> bool + Sync),
) {
    for mut request in requests {
        if let Some(device) = share.device {
            request.plan = request.plan.clone().on_device(device);
        }
        let began = Instant::now();
        let train = || {
            share.install(|| {
                context.train(&request, &mut |event| {
                    send(Message::Event(event));
                })
            })
        };
        let message = match catch_unwind(AssertUnwindSafe(train)) {
            Ok(run) => Message::Finished(run.flatten(), began.elapsed().as_secs_f64()),
            Err(panic) => Message::Panicked(panic),
        };
        if !send(message) {
            break;
        }
    }
}

/// Context in which all runs of a grid are trained.
struct JobContext<'a> {
    store: &'a RunStore,
    ledger: Ledger,
    data: &'a Dataset,
}

impl JobContext<'_> {
    fn train(&self, request: &RunRequest, report: &mut dyn FnMut(RunEvent)) -> Result<Run> {
        let Self { store, ledger, data } = self;
        let RunRequest { id, plan, model, .. } = request;
        let fit = Fit { id, plan, model, data, claim: Claim::Charge(ledger) };
        let run = runs::train_and_store(store, fit, &mut Relay(report))?;
        let run = run.if_stored()?;
        // Reading the run back makes its values equal to those of the next call: a file may change
        // the last bit of a float.
        match store.load_finished(id, model, data) {
            Ok(Some(stored)) => Ok(stored.mark_as_trained()),
            _ => Ok(run),
        }
    }
}

/// Observer that forwards the notifications of a run.
struct Relay<'a>(&'a mut dyn FnMut(RunEvent));

impl Relay<'_> {
    fn step(&mut self, progress: &Progress<'_>) {
        (self.0)(RunEvent::Step(progress.step, progress.plan.steps()));
    }
}

impl Observer for Relay<'_> {
    fn on_note(&mut self, text: &str) {
        (self.0)(RunEvent::Note(text.to_owned()));
    }
    fn on_start(&mut self, progress: &Progress<'_>) {
        self.step(progress);
    }
    fn on_step(&mut self, progress: &Progress<'_>) {
        self.step(progress);
    }
    fn on_warning(&mut self, error: &Error) {
        (self.0)(RunEvent::Warning(error.clone()));
    }
}
