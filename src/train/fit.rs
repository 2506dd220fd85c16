//! A run: checks, the charge to the ledger, the training loop, the record.

use crate::clock::utc_now;
use crate::data::Dataset;
use crate::device::{DeviceGuard, DeviceSpec, marked, probe_now};
use crate::mask::Coordinates;
use crate::methods::Plan;
use crate::nn::Model;
use crate::privacy::Ledger;
use crate::privacy::digits::{count, counted};
use crate::train::charge::Charge;
use crate::train::checkpoint::Keeper;
use crate::train::course::Course;
use crate::train::interrupt::Listening;
use crate::train::meter::{Meter, mean};
use crate::train::steps::{Begin, Trained};
use crate::train::writer::Writer;
use crate::train::{
    Charged, Checkpointed, Ending, Observer, Run, RunRecord, Seeds, Silent, check, start,
};
use crate::{Error, ErrorKind, Result, program};

/// Trains a copy of `model` on the training part of `data`, as `plan` says.
///
/// The whole plan is charged to the ledger before the first step. When the run ends, the charge is
/// reduced to the steps taken. A process that is killed leaves the whole plan charged. If the
/// device fails before anything was copied from it, no step stays charged.
///
/// # Guarantee
/// Every release, that of a mask by DP-SNIP included, is charged before it is used; training
/// without privacy is charged too, as an event that no accountant accepts. Sampler, noise and
/// ledger all read `plan`; the loop hands nothing but the
/// output of [`Mechanism::release`](crate::methods::Mechanism::release) to the optimizer. In
/// study mode, `id` must be another one for every other plan, mask, model or data: runs of the same
/// name and seed have the same noise.
///
/// Only an interrupt ends a run early, as [`Ending::Interrupted`]. An example whose file can't be
/// read any more, or has changed, contributes zero to the steps that draw it. A private run does
/// not say so: ending it, or naming or counting such examples, would be a release about them that
/// no noise covers. [`Dataset::check_files`] tells the owner of the data. A run without privacy
/// tells its observer, at the end.
///
/// # Errors
/// `Device` if the plan's device can't work; `Setting` if plan, model, data and ledger do not
/// belong together; `Ledger` if the ledger can't be written (nothing is trained then); `Model` if
/// the parameters stop being finite (the whole plan stays charged).
pub fn fit(
    id: &str,
    plan: &Plan,
    model: &Model,
    data: &Dataset,
    ledger: &Ledger,
    observer: &mut dyn Observer,
) -> Result<Run> {
    fit_with_checkpoints(id, plan, model, data, ledger, None, observer)
}

/// Trains a trial of a private selection, as [`fit`], without an entry of its own: the caller has
/// charged the whole selection as `selection`, and shows nothing of the trial unless it is the
/// best.
///
/// # Errors
/// As [`fit`].
pub(crate) fn fit_trial(
    id: &str,
    plan: &Plan,
    model: &Model,
    data: &Dataset,
    ledger: &Ledger,
    selection: &str,
) -> Result<Run> {
    fit_charged(id, plan, model, data, ledger, Some(selection), None, &mut Silent)
}

/// As [`fit`], with checkpoints: the run goes on from the one that `keeper` found, if any, and
/// writes others. The caller removes them when the run has been stored.
///
/// # Guarantee
/// A run that goes on is charged under the entry that its checkpoint names, once, with the whole
/// plan until it ends. If its process was killed, nobody knows how many steps were taken, so the
/// whole plan stays charged if it ends early. A checkpoint with fewer steps than were charged
/// counts as that of a run that was killed. However the run ends, it is charged for no less than
/// before it went on.
///
/// # Errors
/// As [`fit`]; `Setting` if the checkpoint was written on another kind of device; `Ledger` if the
/// ledger does not know the run; `CorruptData` if the checkpoint is not that of this run.
pub(crate) fn fit_with_checkpoints(
    id: &str,
    plan: &Plan,
    model: &Model,
    data: &Dataset,
    ledger: &Ledger,
    keeper: Option<&mut Keeper>,
    observer: &mut dyn Observer,
) -> Result<Run> {
    fit_charged(id, plan, model, data, ledger, None, keeper, observer)
}

/// Trains a run that another process has charged as `attempt`, and closes no entry: that process
/// does. Checkpoints are as in [`fit_with_checkpoints`].
///
/// The run must be in study mode, so that every process that trains it draws the same noise.
///
/// # Errors
/// As [`fit`]; `Ledger` for a plan without a seed, and for a checkpoint of another attempt.
pub(crate) fn fit_granted(
    id: &str,
    attempt: &str,
    plan: &Plan,
    model: &Model,
    data: &Dataset,
    keeper: Option<&mut Keeper>,
    observer: &mut dyn Observer,
) -> Result<Run> {
    let refused = |what: String, why: &str, fix: &str| {
        Err(Error::new(ErrorKind::Ledger, what, why.to_owned()).fix(fix))
    };
    if plan.seed().is_none() {
        let why = "each process that trains it would release other noise, under one charge";
        return refused(format!("the run {id} without a seed"), why, "give the run a seed");
    }
    if let Some(found) = keeper.as_ref().and_then(|keeper| keeper.found())
        && found.attempt != attempt
    {
        let what = format!("the checkpoint of the run {id}");
        let why = format!("it is charged as {}, and this run as {attempt}", found.attempt);
        return refused(what, &why, "submit the grid again, which goes on under that entry");
    }
    let nowhere = Ledger::in_memory();
    fit_charged(id, plan, model, data, &nowhere, Some(attempt), keeper, observer)
}

/// As [`fit_with_checkpoints`], or under the entry `elsewhere`, which the caller has charged and
/// closes.
#[allow(clippy::too_many_arguments)]
fn fit_charged(
    id: &str,
    plan: &Plan,
    model: &Model,
    data: &Dataset,
    ledger: &Ledger,
    elsewhere: Option<&str>,
    mut keeper: Option<&mut Keeper>,
    observer: &mut dyn Observer,
) -> Result<Run> {
    let model = &plan.prepared(&plan.initial_model(model)?)?;
    check::belong_together(plan, model, data, ledger)?;
    let place = plan.place()?;
    let mut found = match &mut keeper {
        Some(keeper) => keeper.take(place)?,
        None => None,
    };
    let (seeds, mask, entry) = match &mut found {
        Some(found) => {
            let charge = match elsewhere {
                Some(run) => Charge::elsewhere(ledger, plan, run),
                None => Charge::of(ledger, plan, &found.header)?,
            };
            if let Some(last) = found.numbers.resumed.last_mut() {
                last.repeated |= charge.is_behind();
            }
            (found.numbers.seeds.clone(), found.mask()?, charge)
        }
        None => {
            let seeds = Seeds::new(plan.seed(), &stream(id, model))?;
            let for_mask = seeds.of_coordinates().mask;
            let mask = Coordinates::before_release(plan.sparsity(), model, data, for_mask)?;
            // A stored run may be trained again under the same id; the ledger has an entry per
            // attempt.
            let charge = match elsewhere {
                Some(run) => Charge::elsewhere(ledger, plan, run),
                None => Charge::new(ledger, plan, id)?,
            };
            (seeds, mask, charge)
        }
    };
    let checkpoints = found.as_ref().map(|found| found.numbers.resumed.clone());
    let checkpoints = keeper.is_some().then(|| checkpoints.unwrap_or_default());
    let guard = DeviceGuard::new(place);
    let there = guard.run(|| {
        place.check_run(!plan.precision().is_default())?;
        Ok(match &found {
            Some(found) => found.model(model)?.on(&place.device()),
            None => model.on(&place.device()),
        })
    })?;
    let names = (id, entry.run());
    let writer = keeper.map(|keeper| {
        Writer::begin(keeper, names, (plan, &there, data), place, (&seeds, mask.as_ref()), found)
    });
    let writer = writer.transpose()?;
    entry.begin(data)?;

    let listening = Listening::start();
    let mut course = Course::start(plan);
    let mut meter = Meter::new(plan, &there, data);
    let begin = Begin { model: &there, data, mask, seeds, run: entry.run() };
    let trained = guard
        .run(|| begin.steps(&mut course, &mut meter, &listening, writer, observer))
        .map_err(|error| device_first(place, error));
    let steps = course.steps;
    let spent = match &trained {
        Ok(_) => entry.spent(steps),
        // Nothing was copied from the device before it failed.
        Err(error) if error.kind() == ErrorKind::Device && course.curve.points.is_empty() => {
            entry.spent(0)
        }
        // Nothing was released before the first step, which is charged in case it was.
        Err(_) if steps == 0 => entry.spent(1),
        // Released parameters decided when the run failed, so the whole plan stays charged.
        Err(_) => plan.steps(),
    };
    let closed = entry.close(spent);
    let charged = if closed.is_ok() { spent } else { plan.steps() };
    let Trained { network, mask, touched } =
        trained.map_err(|error| still_charged(error, charged, plan))?;
    let released = plan.released_after(charged);
    let planned_epsilon = plan.epsilon_after(plan.steps())?;
    let epsilon =
        if charged == plan.steps() { planned_epsilon } else { plan.epsilon_after(charged)? };
    let network = guard
        .run(|| {
            meter.at_end(&mut course, &network)?;
            let network = network.on(&DeviceSpec::Cpu.device());
            if place != DeviceSpec::Cpu {
                // A copy is made when it is read first, and the device may fail then.
                network.values();
            }
            Ok(network)
        })
        .map_err(|error| still_charged(error, charged, plan))?;
    drop(listening);

    let record = RunRecord {
        id: id.to_owned(),
        plan: plan.clone(),
        data: marked(data.name()),
        device: place.describe(),
        data_hash: data.hash().to_owned(),
        warm_start: false,
        public_start: None,
        public_test: data.has_public_test(),
        public_data: data.public().is_some(),
        own_module: model.is_user_module(),
        charged: Charged::under(entry.run(), data),
        ending: if steps == plan.steps() { Ending::Finished } else { Ending::Interrupted },
        steps,
        released,
        epsilon,
        planned_epsilon,
        // The accuracy of the final model only: `None` where it could not be measured.
        test_accuracy: course.curve.points.last().and_then(|point| point.test_accuracy),
        test_hash: data.test_hash().to_owned(),
        seconds: course.seconds(),
        waiting_seconds: course.waited.map(|waited| waited.as_secs_f64()),
        mean_threshold: mean(&course.thresholds),
        trained_at: Some(utc_now()),
        software: program::software(),
        checkpoints: checkpoints.map(|resumed| Checkpointed { resumed }),
        curve: course.curve,
    };
    let provenance = start::provenance_after(model.provenance(), plan, mask.as_ref(), data);
    let trained = model.with_network(network).with_provenance(provenance);
    let run = Run::new(record.started_from(model.provenance()), trained, mask, touched);
    observer.finished(&run);
    for error in closed.err().iter().chain(&course.trouble) {
        observer.trouble(error);
    }
    Ok(run)
}

/// The cause of a failed training. The device is tested again: one that has stopped computing makes
/// a run look as if it diverged, and later runs must know of it.
fn device_first(device: DeviceSpec, error: Error) -> Error {
    match error.kind() {
        ErrorKind::Model => probe_now(device).err().unwrap_or(error),
        ErrorKind::Device => {
            let _ = probe_now(device);
            error
        }
        _ => error,
    }
}

/// The error of a training that failed after it was charged, with what stays charged.
fn still_charged(error: Error, steps: u64, plan: &Plan) -> Error {
    let (steps, planned) = (count(steps as usize), counted(plan.steps() as usize, "step"));
    error.also(format!("charged in the ledger: {steps} of {planned}"))
}

/// The name that study seeds are derived with: the id of the run and, for initial parameters
/// without a seed, their values. Runs from different parameters must not share their noise.
pub(super) fn stream(id: &str, model: &Model) -> String {
    if model.is_unseeded() {
        format!("{id} {}", model.with_network(model.network().clone()).fingerprint())
    } else {
        id.to_owned()
    }
}
