//! Trains the runs of a grid, one after the other or several at once.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use super::queue::Work;
use super::run::{Going, Said, Then};
use super::split::{Share, Split};
use crate::data::Dataset;
use crate::privacy::Ledger;
use crate::store::Store;
use crate::train::{Claim, Fit, Observer, Progress, Run};
use crate::{Error, Result, runs};

/// Trains all runs, as many at once as `split` says, which is asked before the first of them.
/// Returns whether the grid was interrupted.
///
/// # Errors
/// As [`Going::next`] and [`Going::ended`]; the runs that are being trained end first.
pub(super) fn run(
    going: &mut Going<'_>,
    store: &Store,
    split: impl FnOnce() -> Result<Split>,
) -> Result<bool> {
    // A grid whose runs are all stored times nothing and creates no ledger.
    let first = match going.next()? {
        Then::Train(work) => work,
        Then::Stop => return Ok(true),
        Then::Wait | Then::Done => return Ok(false),
    };
    let split = split()?;
    split.words.iter().for_each(|words| going.noted(words));
    let site = Site { store, ledger: going.books.ledger()?, data: going.data };
    match &split.shares[..] {
        [] | [_] => one_after_the_other(going, &site, first),
        shares => at_once(going, &site, first, shares),
    }
}

fn one_after_the_other(going: &mut Going<'_>, site: &Site<'_>, first: Box<Work>) -> Result<bool> {
    let mut work = first;
    loop {
        let began = Instant::now();
        let run = site.train(&work, &mut |said| going.hear(&work, said));
        if !going.ended(&work, run, began.elapsed().as_secs_f64())? {
            return Ok(true);
        }
        work = match going.next()? {
            Then::Train(work) => work,
            Then::Stop => return Ok(true),
            Then::Wait | Then::Done => return Ok(false),
        };
    }
}

/// What a job tells the thread that has the display and hands out the runs.
enum Message {
    Said(Said),
    Ended(Result<Run>, f64),
    Panicked(Box<dyn Any + Send>),
}

/// Where a job gets its runs.
struct Desk {
    hand_out: Sender<Box<Work>>,
    /// The run that is being trained.
    work: Option<Box<Work>>,
}

fn at_once(
    going: &mut Going<'_>,
    site: &Site<'_>,
    first: Box<Work>,
    shares: &[Share],
) -> Result<bool> {
    going.jobs = shares.len();
    std::thread::scope(|scope| {
        let (tell, heard) = channel();
        let mut desks = Vec::new();
        for (job, share) in shares.iter().enumerate() {
            let (hand_out, works) = channel();
            let tell = tell.clone();
            scope.spawn(move || {
                work_off(&works, site, share, &|message| tell.send((job, message)).is_ok())
            });
            desks.push(Desk { hand_out, work: None });
        }
        drop(tell);
        let (mut next, mut interrupted, mut outcome) = (Some(first), false, Ok(()));
        // After the last run, an interrupt or an error, the others end what they have begun.
        let mut is_over = false;
        loop {
            while !is_over && let Some(free) = desks.iter_mut().find(|desk| desk.work.is_none()) {
                let work = match next
                    .take()
                    .map_or_else(|| going.next(), |first| Ok(Then::Train(first)))
                {
                    Ok(Then::Train(work)) => work,
                    Ok(Then::Wait) => break,
                    Ok(Then::Done) => {
                        is_over = true;
                        break;
                    }
                    Ok(Then::Stop) => {
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
                let sent = free.hand_out.send(work.clone());
                debug_assert!(sent.is_ok(), "a job reads until its channel is closed");
                free.work = Some(work);
            }
            if desks.iter().all(|desk| desk.work.is_none()) {
                break;
            }
            let Ok((job, message)) = heard.recv() else { break };
            let Some(work) = desks[job].work.clone() else { continue };
            match message {
                Message::Said(said) => going.hear(&work, said),
                Message::Ended(run, seconds) => {
                    desks[job].work = None;
                    match going.ended(&work, run, seconds) {
                        Ok(true) => {}
                        Ok(false) => (is_over, interrupted) = (true, true),
                        Err(error) => (is_over, outcome) = (true, Err(error)),
                    }
                }
                // As if the run had panicked on this thread.
                Message::Panicked(panic) => {
                    drop(desks);
                    resume_unwind(panic);
                }
            }
        }
        outcome.map(|()| interrupted)
    })
}

/// Trains the runs that arrive, in the threads and on the device of this share.
fn work_off(
    works: &Receiver<Box<Work>>,
    site: &Site<'_>,
    share: &Share,
    tell: &(dyn Fn(Message) -> bool + Sync),
) {
    for mut work in works {
        if let Some(device) = share.device {
            work.plan = work.plan.clone().on_device(device);
        }
        let began = Instant::now();
        let train = || {
            share.install(|| {
                site.train(&work, &mut |said| {
                    tell(Message::Said(said));
                })
            })
        };
        let message = match catch_unwind(AssertUnwindSafe(train)) {
            Ok(run) => Message::Ended(run.flatten(), began.elapsed().as_secs_f64()),
            Err(panic) => Message::Panicked(panic),
        };
        if !tell(message) {
            break;
        }
    }
}

/// What all runs of a grid are trained with.
struct Site<'a> {
    store: &'a Store,
    ledger: Ledger,
    data: &'a Dataset,
}

impl Site<'_> {
    fn train(&self, work: &Work, say: &mut dyn FnMut(Said)) -> Result<Run> {
        let Self { store, ledger, data } = self;
        let Work { id, plan, model, .. } = work;
        let fit = Fit { id, plan, model, data, claim: Claim::Charge(ledger) };
        let run = runs::train(store, fit, &mut Relay(say))?;
        let run = run.if_stored()?;
        // Reading the run back makes its values equal to those of the next call: a file may change
        // the last bit of a float.
        match store.finished(id, model, data) {
            Ok(Some(stored)) => Ok(stored.as_trained()),
            _ => Ok(run),
        }
    }
}

/// Forwards the notifications of a run.
struct Relay<'a>(&'a mut dyn FnMut(Said));

impl Relay<'_> {
    fn step(&mut self, progress: &Progress<'_>) {
        (self.0)(Said::Step(progress.step, progress.plan.steps()));
    }
}

impl Observer for Relay<'_> {
    fn noted(&mut self, words: &str) {
        (self.0)(Said::Noted(words.to_owned()));
    }
    fn started(&mut self, progress: &Progress<'_>) {
        self.step(progress);
    }
    fn progressed(&mut self, progress: &Progress<'_>) {
        self.step(progress);
    }
    fn trouble(&mut self, error: &Error) {
        (self.0)(Said::Trouble(error.clone()));
    }
}
