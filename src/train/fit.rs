//! The training loop: sample, release, optimizer step, measurement; stops between steps.

use crate::data::Dataset;
use crate::device::{DeviceGuard, DeviceSpec, device_error, marked, probe_now, watched};
use crate::mask::{Mask, SelectionLog};
use crate::methods::{Batches, Coordinates, Mechanism, Plan, Privacy, dp_sgd, non_private};
use crate::nn::{Model, Network};
use crate::optim::{OptimizerState, Step};
use crate::privacy::digits::{count, counted};
use crate::privacy::ledger::utc_now;
use crate::privacy::{Entry, Event, Ledger, STOPPING};
use crate::train::interrupt::Listening;
use crate::train::meter::Meter;
use crate::train::run::UNREADABLE;
use crate::train::{Charged, Ending, Observer, Run, RunRecord, Seeds, attempt, check};
use crate::{Error, ErrorKind, Result};

/// Trains a copy of `model` on the training part of `data`, as `plan` says.
///
/// The whole plan is charged to the ledger before the first step. When the run ends, the charge is
/// reduced to the steps taken. A process that is killed leaves the whole plan charged. If the
/// device fails before anything was copied from it, no step stays charged.
///
/// # Guarantee
/// Every release, that of a mask by DP-SNIP included, is charged before it is used; training
/// without privacy is charged too, as an event that no accountant accepts. Sampler, noise and
/// ledger all read `plan`; the loop hands nothing but [`Mechanism::release`] to the optimizer. In
/// study mode, `id` must be another one for every other plan, mask, model or data: runs of the same
/// name and seed have the same noise.
///
/// An interrupt ends a run early, as [`Ending::Interrupted`]. A run also ends early where an
/// example's file can no longer be read. The step at which that happens depends on a single
/// example, so such a run has no guarantee: its whole plan stays charged, and every accountant
/// refuses its events. It is returned as an error that carries it ([`Run::from_error`]). The text
/// names a file of that batch, so it is for the owner of the data only.
///
/// # Errors
/// `Device` if the plan's device can't work; `Setting` if plan, model, data and ledger do not
/// belong together; `Ledger` if the ledger can't be written (nothing is trained then); `Model` if
/// the parameters stop being finite (the whole plan stays charged); what reading the examples says
/// if not even the first batch can be read.
pub fn fit(
    id: &str,
    plan: &Plan,
    model: &Model,
    data: &Dataset,
    ledger: &Ledger,
    observer: &mut dyn Observer,
) -> Result<Run> {
    check::belong_together(plan, model, data, ledger)?;
    let place = plan.place()?;
    let seeds = Seeds::new(plan.seed(), &stream(id, model))?;
    let mask = Coordinates::before_release(plan, model, data, seeds.of_coordinates().mask)?;
    let guard = DeviceGuard::new(place);
    let there = guard.run(|| {
        place.check_run(!plan.precision().is_default())?;
        Ok(model.on(&place.device()))
    })?;
    // A stored run may be trained again under the same id; the ledger has an entry per attempt.
    let attempt = attempt::new(id)?;
    let entry = Entry::planned(&attempt, ledger.data_hash(), &plan.event());
    ledger.record(&entry.note(note(plan, data)))?;

    let listening = Listening::start();
    let mut meter = Meter::start(plan, &there, data);
    let begin = Begin { mask, seeds, run: &attempt };
    let trained = guard
        .run(|| follow(begin, &mut meter, &listening, observer))
        .map_err(|error| device_first(place, error));
    let steps = meter.steps;
    let spent = match &trained {
        Ok(_) => steps,
        // Nothing was copied from the device before it failed.
        Err(error) if error.kind() == ErrorKind::Device && meter.curve.points.is_empty() => 0,
        // Nothing was released before the first step, which is charged in case it was.
        Err(_) if steps == 0 => 1,
        // Released parameters decided when the run failed, so the whole plan stays charged.
        Err(_) => plan.steps(),
    };
    let closed = match meter.unreadable {
        true => Ok(()),
        false => ledger.record(&closing(&attempt, ledger, plan, spent)),
    };
    let on_record = if closed.is_ok() { spent } else { plan.steps() };
    let (network, mask, touched) =
        trained.map_err(|error| still_charged(error, on_record, plan))?;
    let charged = if closed.is_ok() && !meter.unreadable { steps } else { plan.steps() };
    let mut events = plan.releases_after(charged);
    let mut epsilon = plan.epsilon_after(charged)?;
    if meter.unreadable {
        events.push(Event::Unaccountable { why: UNREADABLE.into() });
        epsilon = None;
    }
    let network = guard
        .run(|| {
            meter.at_end(&network)?;
            Ok(network.on(&DeviceSpec::Cpu.device()))
        })
        .map_err(|error| still_charged(error, charged, plan))?;
    drop(listening);

    let record = RunRecord {
        id: id.to_owned(),
        plan: plan.clone(),
        data: marked(data.name()),
        device: place.describe(),
        data_hash: data.hash().to_owned(),
        warm_start: !model.is_initial(),
        public_test: data.has_public_test(),
        own_module: model.is_user_module(),
        charged: Some(Charged {
            origin: data.origin().to_owned(),
            run: attempt,
            former_origins: data.former_origins().into_iter().map(String::from).collect(),
        }),
        ending: match (meter.unreadable, steps == plan.steps()) {
            (true, _) => Ending::Unreadable,
            (false, true) => Ending::Finished,
            (false, false) => Ending::Interrupted,
        },
        steps,
        events,
        epsilon,
        planned_epsilon: plan.epsilon_after(plan.steps())?,
        // The accuracy of the final model only: `None` where it could not be measured.
        test_accuracy: meter.curve.points.last().and_then(|point| point.test_accuracy),
        seconds: meter.seconds(),
        trained_at: Some(utc_now()),
        curve: meter.curve,
    };
    let run = Run::new(record, model.with_network(network), mask, touched);
    observer.finished(&run);
    for error in closed.err().iter().chain(&meter.trouble) {
        observer.trouble(error);
    }
    match meter.trouble.filter(|_| meter.unreadable) {
        Some(cause) => Err(ended_early(run, &cause)),
        None => Ok(run),
    }
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

/// The error for a run that ended before its last step without an interrupt. It carries the run.
fn ended_early(run: Run, cause: &Error) -> Error {
    let (steps, planned) = (run.record().steps, run.plan().steps());
    let (steps, planned) = (count(steps as usize), counted(planned as usize, "step"));
    let what = format!("training ended after {steps} of {planned}");
    let cause = cause.to_string().lines().next().unwrap_or_default().to_owned();
    let why = format!("an example could not be read any more ({cause})");
    Error::new(ErrorKind::CorruptData, what, why)
        .fix(
            "restore the file and train again. The privacy of the whole plan is spent, and no \
             epsilon covers the model of these steps; it is kept: lab::last_run() in a notebook, \
             Run::from_error(&error) in a program",
        )
        .carrying(run)
}

/// The name that study seeds are derived with: the id of the run and, for initial parameters
/// without a seed, their values. Runs from different parameters must not share their noise.
fn stream(id: &str, model: &Model) -> String {
    match model.is_unseeded() {
        true => format!("{id} {}", model.with_network(model.network().clone()).fingerprint()),
        false => id.to_owned(),
    }
}

/// The inputs of the steps of a run.
struct Begin<'a> {
    /// The mask, unless the run releases it.
    mask: Option<Mask>,
    seeds: Seeds,
    /// The name of the attempt in the ledger.
    run: &'a str,
}

/// Takes the steps of the plan.
fn follow(
    begin: Begin<'_>,
    meter: &mut Meter<'_>,
    listening: &Listening,
    observer: &mut dyn Observer,
) -> Result<(Network, Option<Mask>, Option<SelectionLog>)> {
    let plan = meter.plan;
    let Begin { mask, seeds, run } = begin;
    let batches = Batches::new(plan, meter.data.train(), seeds.sampling, seeds.masks)?;
    let mut batches = batches.on(meter.model.network())?;
    let mut mechanism = mechanism(plan, &seeds);
    let mut optimizer = OptimizerState::new(plan.optimizer());
    let noise_std = vec![noise_std(plan); meter.model.network().parameters().len()];
    observer.started(&meter.progress());
    let seeds = seeds.of_coordinates();
    let mut coordinates = Coordinates::begin(plan, meter.model, meter.data, mask, run, &seeds)?;
    let mut network = coordinates.start(meter.model)?;
    while meter.steps < plan.steps() && !listening.stop() {
        let batch = match batches.draw() {
            Ok(batch) => batch,
            // This step has released nothing: the earlier steps are kept.
            Err(error) if meter.steps > 0 => {
                (meter.trouble, meter.unreadable) = (Some(error), true);
                break;
            }
            Err(error) => return Err(error),
        };
        let selected = match meter.steps {
            // The counts behind a selection do not show that a kernel failed.
            0 => watched(&network.device(), || coordinates.next(&network))
                .unwrap_or_else(|message| Err(device_error(&"the device", &message)))?,
            _ => coordinates.next(&network)?,
        };
        let selected = selected.as_deref();
        let release = mechanism.release(&network, &batch, selected)?;
        let state = plan.sparsity().map(|sparsity| sparsity.state).unwrap_or_default();
        let step = Step {
            noise_std: Some(&noise_std),
            selected,
            touched: state.touched(coordinates.trained(), selected),
            ..Step::new(plan.learning_rate())
        };
        network = optimizer.step(&network, &release.gradient, &step)?;
        meter.after_step(release.losses, &network)?;
        observer.progressed(&meter.progress());
    }
    let (mask, touched) = coordinates.into_record();
    Ok((network, mask, touched))
}

/// The correction of a plan's charge. If the run was stopped, its note says on what condition.
fn closing(attempt: &str, ledger: &Ledger, plan: &Plan, steps: u64) -> Entry {
    let entry = Entry::spent(attempt, ledger.data_hash(), &plan.event_after(steps));
    match steps {
        0 => entry.note(format!("0 of {} steps: the run ended before the first", plan.steps())),
        _ if steps < plan.steps() => {
            entry.note(format!("{steps} of {} steps, if {STOPPING}", plan.steps()))
        }
        _ => entry,
    }
}

/// The note of a ledger entry: method and data.
fn note(plan: &Plan, data: &Dataset) -> String {
    let study = if plan.seed().is_some() { ", study mode" } else { "" };
    format!("{} on {}{study}", plan.method(), marked(data.name()))
}

/// Standard deviation of the noise in each coordinate of a plan's released gradients.
fn noise_std(plan: &Plan) -> f64 {
    let std = |privacy: &Privacy| privacy.clip.noise_std(privacy.noise_multiplier);
    plan.privacy().map_or(0.0, std) / plan.expected_batch_size() as f64
}

/// The mechanism of a plan.
fn mechanism(plan: &Plan, seeds: &Seeds) -> Box<dyn Mechanism> {
    match plan.privacy() {
        Some(privacy) => dp_sgd::of(plan, privacy, seeds.noise),
        None => {
            let mean = non_private::MeanGradient::new(plan.expected_batch_size());
            Box::new(mean.precision(plan.precision()))
        }
    }
}
