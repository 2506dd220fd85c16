//! A run: checks, the charge to the ledger, the training loop, the record.

use crate::clock::utc_now;
use crate::data::Dataset;
use crate::device::{DeviceGuard, DeviceSpec, reprobe, with_rehearsal_mark};
use crate::mask::{Mask, TrainedCoordinates};
use crate::methods::Plan;
use crate::nn::Model;
use crate::privacy::Ledger;
use crate::privacy::digits::{format_count, pluralise};
use crate::train::charge::RunCharge;
use crate::train::checkpoint::{Checkpoint, CheckpointManager};
use crate::train::checkpoint_writer::CheckpointWriter;
use crate::train::interrupt::InterruptGuard;
use crate::train::meter::{Meter, mean};
use crate::train::run_tracker::RunTracker;
use crate::train::training_loop::{TrainingLoop, TrainingOutput};
use crate::train::{
    CheckpointRecord, Ending, LedgerEntryRef, Observer, Run, RunRecord, Seeds, start, validation,
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
/// ledger all read `plan`; the loop passes only the output of
/// [`Mechanism::release`](crate::methods::Mechanism::release) to the optimizer. In study mode, `id`
/// must be unique to this plan, mask, model and data set: runs of the same id and seed have the
/// same noise.
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
    Fit { id, plan, model, data, claim: Claim::Charge(ledger) }.run(None, observer)
}

/// The training of one run.
#[derive(Clone, Copy)]
pub(crate) struct Fit<'a> {
    /// The id of the run.
    pub(crate) id: &'a str,
    pub(crate) plan: &'a Plan,
    /// The initial model; a copy of it is trained.
    pub(crate) model: &'a Model,
    pub(crate) data: &'a Dataset,
    pub(crate) claim: Claim<'a>,
}

/// Entry in the ledger that a run is charged under, and the party that closes it.
#[derive(Clone, Copy)]
pub(crate) enum Claim<'a> {
    /// The run itself, in this ledger.
    Charge(&'a Ledger),
    /// Another process has charged it under this entry, and closes the entry. The run must be in
    /// study mode, so that every process that trains it draws the same noise.
    Granted(&'a str),
    /// The private selection that it is a trial of, under this entry. The caller shows nothing of
    /// the trial unless it is the best.
    Trial(&'a str),
}

impl<'a> Fit<'a> {
    /// Trains the run, as [`fit`]. With `checkpoints`, it resumes from the one that is there, if
    /// any, and writes others. The caller removes them when the run has been stored.
    ///
    /// # Guarantee
    /// A resumed run is charged under the entry that its checkpoint names, once, with the whole
    /// plan until it ends. If its process was killed, nobody knows how many steps were taken, so
    /// the whole plan stays charged if it ends early. A checkpoint with fewer steps than were
    /// charged counts as that of a run that was killed. However the run ends, it is charged for no
    /// less than before it was resumed.
    ///
    /// # Errors
    /// As [`fit`]; `Setting` if the checkpoint was written on another kind of device; `Ledger` if
    /// the ledger does not know the run, for a granted run without a seed, and for a checkpoint of
    /// another attempt; `CorruptData` if the checkpoint is not that of this run.
    pub(crate) fn run(
        self,
        mut checkpoints: Option<&mut CheckpointManager>,
        observer: &mut dyn Observer,
    ) -> Result<Run> {
        self.check_grant(checkpoints.as_deref())?;
        let Self { id, plan, data, .. } = self;
        let no_ledger = Ledger::in_memory();
        let ledger = self.claim.ledger().unwrap_or(&no_ledger);
        let model = &plan.prepare_model(&plan.initial_model(self.model)?)?;
        validation::validate_inputs(plan, model, data, ledger)?;
        let device = plan.resolve_device()?;
        let mut checkpoint = checkpoints
            .as_mut()
            .map(|checkpoints| checkpoints.take_checkpoint(device))
            .transpose()?
            .flatten();
        let (charge, seeds, mask) = self.start(model, ledger, &mut checkpoint)?;
        let resumed = checkpoint.as_ref().map(|checkpoint| checkpoint.payload.resumed.clone());
        let checkpoint_record = checkpoints
            .is_some()
            .then(|| CheckpointRecord { resumed: resumed.unwrap_or_default() });
        let guard = DeviceGuard::new(device);
        let initial_model = guard.run(|| {
            device.check_run(!plan.settings().precision.is_default())?;
            Ok(match &checkpoint {
                Some(checkpoint) => {
                    checkpoint.restore_initial_model(model)?.on_device(&device.burn_device())
                }
                None => model.on_device(&device.burn_device()),
            })
        })?;
        let names = (id, charge.attempt_id());
        let writer = checkpoints.map(|checkpoints| {
            let seeds = (&seeds, mask.as_ref());
            CheckpointWriter::open(
                checkpoints,
                names,
                (plan, &initial_model, data),
                device,
                seeds,
                checkpoint,
            )
        });
        let writer = writer.transpose()?;
        charge.open(data)?;

        let interrupt_guard = InterruptGuard::start();
        let mut tracker = RunTracker::new(plan);
        let mut meter = Meter::new(plan, &initial_model, data);
        let training = TrainingLoop {
            model: &initial_model,
            data,
            mask,
            seeds,
            attempt_id: charge.attempt_id(),
        };
        let trained = guard
            .run(|| training.run(&mut tracker, &mut meter, &interrupt_guard, writer, observer))
            .map_err(|error| prefer_device_error(device, error));
        let (trained, charged, closing_error) = settle_charge(trained, &charge, &tracker)?;
        let network = guard
            .run(|| {
                meter.record_final(&mut tracker, &trained.network)?;
                let network = trained.network.on_device(&DeviceSpec::Cpu.burn_device());
                if device != DeviceSpec::Cpu {
                    // A copy is made when it is read first, and the device may fail then.
                    network.values();
                }
                Ok(network)
            })
            .map_err(|error| with_charged_steps(error, charged, plan))?;
        drop(interrupt_guard);

        let TrainingOutput { mask, selection_log, .. } = trained;
        let first_error = tracker.first_error.take();
        let record =
            self.record(model, device, charge.attempt_id(), charged, checkpoint_record, tracker)?;
        let provenance = start::provenance_after(model.provenance(), plan, mask.as_ref(), data);
        let trained = model.with_network(network).with_provenance(provenance);
        let run = Run::new(record.with_start(model.provenance()), trained, mask, selection_log);
        observer.on_finish(&run);
        for error in closing_error.iter().chain(&first_error) {
            observer.on_warning(error);
        }
        Ok(run)
    }

    /// Checks that every process which trains a granted run releases the same.
    fn check_grant(&self, checkpoints: Option<&CheckpointManager>) -> Result<()> {
        let Claim::Granted(attempt) = self.claim else { return Ok(()) };
        let id = self.id;
        if self.plan.seed().is_none() {
            let what = format!("the granted run {id} has no seed");
            let why = "two processes that train the run would release different noise under a \
                       single charge";
            return Err(Error::new(ErrorKind::Ledger, what, why).fix("give the run a seed"));
        }
        if let Some(header) = checkpoints.and_then(CheckpointManager::resume_header)
            && header.attempt != attempt
        {
            let what = format!("the checkpoint of the run {id}");
            let why = format!(
                "the checkpoint is charged as {}, but this run as {attempt}",
                header.attempt
            );
            return Err(Error::new(ErrorKind::Ledger, what, why)
                .fix("submit the grid again, which resumes under that entry"));
        }
        Ok(())
    }

    /// Returns the charge, the seeds, and the mask unless the run releases it: those of the
    /// checkpoint that it resumes from, or new ones.
    fn start<'l>(
        &self,
        model: &Model,
        ledger: &'l Ledger,
        checkpoint: &mut Option<Checkpoint>,
    ) -> Result<(RunCharge<'l>, Seeds, Option<Mask>)>
    where
        'a: 'l,
    {
        let Self { id, plan, data, claim, .. } = *self;
        // A stored run may be trained again under the same id; the ledger has an entry per attempt.
        let charge = match (claim, &*checkpoint) {
            (Claim::Granted(run) | Claim::Trial(run), _) => RunCharge::external(ledger, plan, run),
            (Claim::Charge(_), Some(checkpoint)) => {
                RunCharge::from_checkpoint(ledger, plan, &checkpoint.header)?
            }
            (Claim::Charge(_), None) => RunCharge::new(ledger, plan, id)?,
        };
        let (seeds, mask) = match checkpoint {
            Some(checkpoint) => {
                if let Some(last) = checkpoint.payload.resumed.last_mut() {
                    last.repeated |= charge.is_behind();
                }
                (checkpoint.payload.seeds.clone(), checkpoint.mask()?)
            }
            None => {
                let seeds = Seeds::new(plan.seed(), &seed_label(id, model))?;
                let for_mask = seeds.mask_seeds().mask;
                let mask =
                    TrainedCoordinates::prepare_mask(plan.sparsity(), model, data, for_mask)?;
                (seeds, mask)
            }
        };
        Ok((charge, seeds, mask))
    }

    /// Returns the record of the run.
    fn record(
        &self,
        model: &Model,
        device: DeviceSpec,
        entry: &str,
        charged: u64,
        checkpoints: Option<CheckpointRecord>,
        tracker: RunTracker<'_>,
    ) -> Result<RunRecord> {
        let Self { id, plan, data, .. } = *self;
        let planned_epsilon = plan.epsilon_after(plan.steps())?;
        let epsilon =
            if charged == plan.steps() { planned_epsilon } else { plan.epsilon_after(charged)? };
        let is_finished = tracker.steps == plan.steps();
        Ok(RunRecord {
            id: id.to_owned(),
            plan: plan.clone(),
            data: with_rehearsal_mark(data.name()),
            device: device.describe(),
            data_hash: data.hash().to_owned(),
            warm_start: false,
            public_start: None,
            public_test: data.has_separate_test(),
            public_data: data.public().is_some(),
            own_module: model.is_user_module(),
            charged: LedgerEntryRef::new(entry, data),
            ending: if is_finished { Ending::Finished } else { Ending::Interrupted },
            steps: tracker.steps,
            released: plan.releases_by_role_after(charged),
            epsilon,
            planned_epsilon,
            // The accuracy of the final model only: `None` where it could not be measured.
            test_accuracy: tracker.curve.points.last().and_then(|point| point.test_accuracy),
            test_hash: data.test_hash().to_owned(),
            seconds: tracker.elapsed_seconds(),
            waiting_seconds: tracker.wait_time.map(|waited| waited.as_secs_f64()),
            mean_threshold: mean(&tracker.thresholds),
            trained_at: Some(utc_now()),
            software: program::software_versions(),
            checkpoints,
            curve: tracker.curve,
        })
    }
}

impl<'a> Claim<'a> {
    /// Returns the ledger that the run is charged in; `None` if another party charges it.
    pub(crate) fn ledger(self) -> Option<&'a Ledger> {
        match self {
            Self::Charge(ledger) => Some(ledger),
            Self::Granted(_) | Self::Trial(_) => None,
        }
    }
}

/// Reduces the charge to what the steps released, however they ended. Returns what was trained, the
/// number of steps that stay charged, and why the charge could not be reduced.
///
/// # Errors
/// That of the steps, with what stays charged.
fn settle_charge(
    trained: Result<TrainingOutput>,
    charge: &RunCharge<'_>,
    tracker: &RunTracker<'_>,
) -> Result<(TrainingOutput, u64, Option<Error>)> {
    let (plan, steps) = (tracker.plan, tracker.steps);
    let spent = match &trained {
        Ok(_) => charge.chargeable_steps(steps),
        // Nothing was copied from the device before it failed.
        Err(error) if error.kind() == ErrorKind::Device && tracker.curve.points.is_empty() => {
            charge.chargeable_steps(0)
        }
        // Nothing was released before the first step, which is charged in case it was.
        Err(_) if steps == 0 => charge.chargeable_steps(1),
        // Released parameters decided when the run failed, so the whole plan stays charged.
        Err(_) => plan.steps(),
    };
    let closing_error = charge.close(spent).err();
    let charged = if closing_error.is_none() { spent } else { plan.steps() };
    let trained = trained.map_err(|error| with_charged_steps(error, charged, plan))?;
    Ok((trained, charged, closing_error))
}

/// Returns the cause of a failed training. The device is tested again: one that has stopped
/// computing makes a run look as if it diverged, and later runs must know of it.
fn prefer_device_error(device: DeviceSpec, error: Error) -> Error {
    match error.kind() {
        ErrorKind::Model => reprobe(device).err().unwrap_or(error),
        ErrorKind::Device => {
            let _ = reprobe(device);
            error
        }
        _ => error,
    }
}

/// Returns the error of a training that failed after it was charged, with what stays charged.
fn with_charged_steps(error: Error, steps: u64, plan: &Plan) -> Error {
    let (steps, planned) = (format_count(steps as usize), pluralise(plan.steps() as usize, "step"));
    error.append_advice(format!("charged in the ledger: {steps} of {planned}"))
}

/// Returns the name that study seeds are derived with: the id of the run and, for initial
/// parameters without a seed, their values. Runs from different parameters must not share their
/// noise.
pub(super) fn seed_label(id: &str, model: &Model) -> String {
    if model.is_unseeded() {
        format!("{id} {}", model.with_network(model.network().clone()).fingerprint())
    } else {
        id.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data;
    use crate::methods::DpSgd;
    use crate::nn::models;
    use crate::train::NoopObserver;

    #[test]
    fn a_granted_run_needs_a_seed_and_writes_no_ledger() {
        let data = data::glyphs_with(60, 10, 77).unwrap();
        let model = models::linear(&data).seed(1).build().unwrap();
        let method = DpSgd::new().noise_multiplier(1.0).clip(0.5).batch_size(10).steps(2);
        let run = |plan: &Plan| {
            let claim = Claim::Granted("an entry of another process");
            let fit = Fit { id: "a run", plan, model: &model, data: &data, claim };
            fit.run(None, &mut NoopObserver)
        };
        let refused = run(&method.plan(&data).unwrap()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Ledger, "{refused}");
        assert!(refused.to_string().contains("has no seed"), "{refused}");
        let run = run(&method.seed(5).plan(&data).unwrap()).unwrap();
        assert_eq!(run.record().charged.run, "an entry of another process");
    }
}
