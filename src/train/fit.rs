//! The loop: sample, release, step; measure; stop at a step boundary when asked to.

use crate::Result;
use crate::data::Dataset;
use crate::device::{Place, guarded};
use crate::mask::{Mask, Touched};
use crate::methods::{Batches, Coordinates, Mechanism, Plan, Update, dp_sgd, non_private};
use crate::nn::{Model, Network};
use crate::privacy::ledger::utc_now;
use crate::privacy::{Entry, Event, Ledger, STOPPING};
use crate::train::interrupt::Listening;
use crate::train::meter::Meter;
use crate::train::run::UNREADABLE;
use crate::train::{Charged, Ending, Observer, Run, RunRecord, Seeds, attempt, check};

/// Follows a plan: trains a copy of `model` on the training part of `data`.
///
/// The whole plan is written to the ledger before the first step; when the run ends, the entry is
/// reduced to the steps truly taken. A process that is killed leaves the whole plan charged.
///
/// # Guarantee
/// Every release, that of a mask by DP-SNIP included, is charged before it is used; training without privacy is charged too, as an
/// event that no accountant accepts. Sampler, noise and ledger all read `plan`; the loop hands
/// nothing but [`Mechanism::release`] to the optimizer. In study mode, `id` must be another one for
/// every other plan, mask, model or data: runs of the same name and seed have the same noise.
///
/// A run ends early, and keeps its model, where an example's file can no longer be read. When that
/// happened tells something about a single example, so such a run has no guarantee: its whole plan
/// stays charged, and its events are ones that every accountant refuses. The error that the
/// observer is told names a file of that batch; it is for the owner of the data only.
///
/// # Errors
/// `Device` if the plan's device can't work; `Setting` if plan, model, data and ledger do not belong together; `Ledger` if the ledger can't
/// be written (nothing is trained then); `Model` if the parameters stop being finite (the steps
/// taken stay charged); what reading the examples says if not even the first batch can be read.
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
    let there = guarded(place, || {
        place.can_take(!plan.precision().is_default())?;
        Ok(model.on(&place.device()))
    })?;
    // A stored run may be trained anew under the same name; in the ledger each attempt is its own.
    let attempt = attempt::new(id)?;
    let entry = Entry::planned(&attempt, ledger.data_hash(), &plan.event());
    ledger.record(&entry.note(note(plan, data)))?;

    let listening = Listening::start();
    let mut meter = Meter::start(plan, &there, data);
    let begin = Begin { mask, seeds, run: &attempt };
    let trained = guarded(place, || follow(begin, &mut meter, &listening, observer));
    let steps = meter.steps;
    // Charged even if the last step failed after its release.
    let spent = if trained.is_ok() { steps } else { plan.steps().min(steps + 1) };
    let closed = match meter.unreadable {
        true => Ok(()),
        false => ledger.record(&closing(&attempt, ledger, plan, spent)),
    };
    let (network, mask, touched) = trained?;
    let charged = if closed.is_ok() && !meter.unreadable { steps } else { plan.steps() };
    let mut events = plan.releases_after(charged);
    let mut epsilon = plan.epsilon_after(charged)?;
    if meter.unreadable {
        events.push(Event::Unaccountable { why: UNREADABLE.into() });
        epsilon = None;
    }
    let network = guarded(place, || {
        meter.at_end(&network)?;
        Ok(network.on(&Place::Cpu.device()))
    })?;
    drop(listening);

    let record = RunRecord {
        id: id.to_owned(),
        plan: plan.clone(),
        data: data.name().to_owned(),
        device: place.describe(),
        data_hash: data.hash().to_owned(),
        warm_start: !model.is_initial(),
        public_test: data.has_public_test(),
        own_module: model.is_own_module(),
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
        // Of this very model: an earlier one's is no substitute where it could not be taken.
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
    Ok(run)
}

/// What a study seed's streams go by: the run's name and, where that does not say it, the values of
/// initial parameters that nobody chose. Runs from other parameters must not share their noise.
fn stream(id: &str, model: &Model) -> String {
    match model.is_at_random() {
        true => format!("{id} {}", model.with_network(model.network().clone()).fingerprint()),
        false => id.to_owned(),
    }
}

/// What the steps of a run begin with.
struct Begin<'a> {
    /// The mask, unless it is released first.
    mask: Option<Mask>,
    seeds: Seeds,
    /// The run's name in the ledger.
    run: &'a str,
}

/// The steps: sample, release, step, measure.
fn follow(
    begin: Begin<'_>,
    meter: &mut Meter<'_>,
    listening: &Listening,
    observer: &mut dyn Observer,
) -> Result<(Network, Option<Mask>, Option<Touched>)> {
    let plan = meter.plan;
    let Begin { mask, seeds, run } = begin;
    let batches = Batches::new(plan, meter.data.train(), seeds.sampling, seeds.masks)?;
    let mut batches = batches.on(meter.model.network())?;
    let mut mechanism = mechanism(plan, &seeds);
    let mut update = Update::of(plan);
    observer.started(&meter.progress());
    let seeds = seeds.of_coordinates();
    let mut coordinates = Coordinates::begin(plan, meter.model, meter.data, mask, run, &seeds)?;
    let mut network = coordinates.start(meter.model)?;
    while meter.steps < plan.steps() && !listening.stop() {
        let batch = match batches.draw() {
            Ok(batch) => batch,
            // Nothing of this step was released: the steps taken are kept.
            Err(error) if meter.steps > 0 => {
                (meter.trouble, meter.unreadable) = (Some(error), true);
                break;
            }
            Err(error) => return Err(error),
        };
        let selected = coordinates.next(&network)?;
        let selected = selected.as_deref();
        let release = mechanism.release(&network, &batch, selected)?;
        let (rate, trained) = (plan.learning_rate(), coordinates.trained());
        network = update.step(rate, &network, &release.gradient, trained, selected);
        meter.after_step(release.losses, &network)?;
        observer.progressed(&meter.progress());
    }
    let (mask, touched) = coordinates.into_record();
    Ok((network, mask, touched))
}

/// The correction of a plan's charge, with what it rests on where the run was stopped.
fn closing(attempt: &str, ledger: &Ledger, plan: &Plan, steps: u64) -> Entry {
    let entry = Entry::spent(attempt, ledger.data_hash(), &plan.event_after(steps));
    match steps < plan.steps() {
        true => entry.note(format!("{steps} of {} steps, if {STOPPING}", plan.steps())),
        false => entry,
    }
}

/// What a reader of the ledger wants to know beside the event.
fn note(plan: &Plan, data: &Dataset) -> String {
    let study = if plan.seed().is_some() { ", study mode" } else { "" };
    format!("{} on {}{study}", plan.method(), data.name())
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
