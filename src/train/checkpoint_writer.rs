//! Writing of checkpoints by a run, and resumption from one.

use super::checkpoint::{
    Checkpoint, CheckpointHeader, CheckpointManager, CheckpointPayload, Resumption, SavedProgress,
};
use super::meter::Meter;
use super::run_tracker::RunTracker;
use super::train_state::{Arrays, TrainState};
use crate::data::Dataset;
use crate::device::DeviceSpec;
use crate::mask::Mask;
use crate::methods::Plan;
use crate::nn::Model;
use crate::train::Seeds;
use crate::{ErrorKind, Result};

/// Writer of the checkpoints of a run that is being trained.
pub(super) struct CheckpointWriter<'a> {
    manager: &'a mut CheckpointManager,
    /// The header of its checkpoints, but for what changes from one to the next.
    header_template: CheckpointHeader,
    seeds: Seeds,
    resumed: Vec<Resumption>,
    /// The checkpoint that the run resumes from.
    resume_from: Option<Checkpoint>,
}

impl<'a> CheckpointWriter<'a> {
    /// Creates a writer for the run `id`, which is charged as `attempt`. Before the first step it
    /// writes a checkpoint of the initial parameters: a run that is charged always has one.
    ///
    /// # Errors
    /// As writing a checkpoint.
    pub(super) fn open(
        manager: &'a mut CheckpointManager,
        (id, attempt): (&str, &str),
        (plan, model, data): (&Plan, &Model, &Dataset),
        device: DeviceSpec,
        (seeds, mask): (&Seeds, Option<&Mask>),
        resume_from: Option<Checkpoint>,
    ) -> Result<Self> {
        let about = CheckpointHeader {
            id: id.to_owned(),
            attempt: attempt.to_owned(),
            method: plan.method().to_owned(),
            model: model.name().to_owned(),
            data: data.name().to_owned(),
            steps: plan.steps(),
            device: device.to_string(),
            ..CheckpointHeader::default()
        };
        let resumed = resume_from.as_ref().map(|checkpoint| checkpoint.payload.resumed.clone());
        let resumed = resumed.unwrap_or_default();
        let mut writer =
            Self { manager, header_template: about, seeds: seeds.clone(), resumed, resume_from };
        if writer.resume_from.is_none() {
            let mask = mask.map(Mask::to_bytes).transpose()?;
            let arrays = super::train_state::parameter_arrays(model.network());
            writer.write(0, false, None, mask, &arrays)?;
        }
        Ok(writer)
    }

    /// Returns the state after the steps of the checkpoint, if there is one. The checkpoint is
    /// written again with a record that the run resumed from it, before a further step is taken.
    ///
    /// # Errors
    /// `CorruptData` if the checkpoint is that of another run; as writing a checkpoint.
    pub(super) fn resume(
        &mut self,
        state: TrainState,
        tracker: &mut RunTracker<'_>,
        meter: &mut Meter<'_>,
    ) -> Result<TrainState> {
        let Some(Checkpoint { header, payload, mut arrays, .. }) = self.resume_from.take() else {
            return Ok(state);
        };
        let state = match payload.progress {
            // The model has the initial parameters of the checkpoint.
            None => state,
            Some(progress) => {
                meter.resume(progress.pending, &mut arrays)?;
                let measured = (progress.curve, progress.thresholds);
                tracker.resume(header.step, (progress.seconds, progress.waited), measured);
                state.restore(progress.state, &mut arrays)?
            }
        };
        self.save(&state, tracker, meter, false)?;
        Ok(state)
    }

    /// Writes a checkpoint if one is due and steps are left. If it can't be written, the run goes
    /// on, and the last one stays in place.
    ///
    /// # Errors
    /// `Device` if the device has failed.
    pub(super) fn write_if_due(
        &mut self,
        state: &TrainState,
        tracker: &mut RunTracker<'_>,
        meter: &mut Meter<'_>,
    ) -> Result<()> {
        let is_last = tracker.steps == tracker.plan.steps();
        if self.manager.is_due(tracker.steps) && !is_last {
            tolerate_io_error(self.save(state, tracker, meter, false), tracker)
        } else {
            Ok(())
        }
    }

    /// Writes a checkpoint of a run that was stopped.
    ///
    /// # Errors
    /// As [`write_if_due`](Self::write_if_due).
    pub(super) fn write_final(
        mut self,
        state: &TrainState,
        tracker: &mut RunTracker<'_>,
        meter: &mut Meter<'_>,
    ) -> Result<()> {
        if tracker.steps < tracker.plan.steps() && tracker.steps > 0 {
            tolerate_io_error(self.save(state, tracker, meter, true), tracker)
        } else {
            Ok(())
        }
    }

    fn save(
        &mut self,
        state: &TrainState,
        tracker: &RunTracker<'_>,
        meter: &mut Meter<'_>,
        stopped: bool,
    ) -> Result<()> {
        let (saved, mut arrays) = state.snapshot(tracker.steps);
        let (pending, measured) = meter.pending()?;
        arrays.extend(measured);
        let progress = SavedProgress {
            state: saved,
            curve: tracker.curve.clone(),
            thresholds: tracker.thresholds.clone(),
            seconds: tracker.elapsed_seconds(),
            waited: tracker.total_wait(state.batches.waited()).map(|waited| waited.as_secs_f64()),
            pending,
        };
        let mask = state.mask().map(Mask::to_bytes).transpose()?;
        self.write(tracker.steps, stopped, Some(progress), mask, &arrays)
    }

    fn write(
        &mut self,
        step: u64,
        stopped: bool,
        progress: Option<SavedProgress>,
        mask: Option<Vec<u8>>,
        arrays: &Arrays,
    ) -> Result<()> {
        let about = CheckpointHeader { step, stopped, ..self.header_template.clone() };
        let (seeds, resumed) = (self.seeds.clone(), self.resumed.clone());
        let numbers = CheckpointPayload { seeds, resumed, progress };
        self.manager.write(about, &numbers, mask.as_deref(), arrays)
    }
}

/// Returns the outcome of writing a checkpoint along a run: an I/O error, such as a full disk, is
/// recorded and ends no run.
fn tolerate_io_error(result: Result<()>, tracker: &mut RunTracker<'_>) -> Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::Io => {
            tracker.first_error.get_or_insert(error);
            Ok(())
        }
        result => result,
    }
}
