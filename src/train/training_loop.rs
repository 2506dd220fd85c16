//! The training loop: sample, release, optimizer step, measurement; stops between steps.

use super::checkpoint_writer::CheckpointWriter;
use super::interrupt::InterruptGuard;
use super::meter::Meter;
use super::run_tracker::RunTracker;
use super::train_state::TrainState;
use super::{Observer, Seeds};
use crate::Result;
use crate::data::Dataset;
use crate::device::{device_error, with_failure_detection};
use crate::mask::{Mask, SelectionLog};
use crate::nn::{Model, Network};
use crate::optim::StepSettings;

/// The inputs of the steps of a run.
pub(super) struct TrainingLoop<'a> {
    /// The initial model, on the device of the run.
    pub(super) model: &'a Model,
    pub(super) data: &'a Dataset,
    /// The mask, unless the run releases it.
    pub(super) mask: Option<Mask>,
    pub(super) seeds: Seeds,
    /// The name of the attempt in the ledger.
    pub(super) attempt_id: &'a str,
}

/// The results of the steps of a run.
pub(super) struct TrainingOutput {
    /// The network after the last step, or the average of networks that the plan asks for.
    pub(super) network: Network,
    pub(super) mask: Option<Mask>,
    pub(super) selection_log: Option<SelectionLog>,
}

impl TrainingLoop<'_> {
    /// Takes the steps of the plan, from the beginning or from a checkpoint.
    ///
    /// # Guarantee
    /// The network depends on the examples only through the output of the mechanism. Everything
    /// after it is post-processing, except a learning rate that follows a loss, for which the plan
    /// has no guarantee. After a checkpoint, sampler and noise continue where they were. Nothing
    /// that a private run does or says depends on whether an example can be read, except that the
    /// mechanism gets nothing from one that can't.
    pub(super) fn run(
        self,
        tracker: &mut RunTracker<'_>,
        meter: &mut Meter<'_>,
        interrupt_guard: &InterruptGuard,
        mut checkpoints: Option<CheckpointWriter<'_>>,
        observer: &mut dyn Observer,
    ) -> Result<TrainingOutput> {
        let plan = tracker.plan;
        let state_of_dropped = plan.sparsity().map(|sparsity| sparsity.state).unwrap_or_default();
        let mut state = TrainState::initialize(plan, &self)?;
        if let Some(writer) = &mut checkpoints {
            state = writer.resume(state, tracker, meter)?;
        }
        observer.on_start(&tracker.progress());
        let began = tracker.steps;
        while tracker.steps < plan.steps() && !interrupt_guard.should_stop() {
            let batch = state.batches.draw()?;
            let (first, network) = (tracker.steps == began, &state.network);
            let selected = watch_for_kernel_failures(first, network, || {
                state.coordinates.next_selection(network)
            })?;
            let selected = selected.as_deref();
            let release = state.mechanism.release(network, &batch, selected)?;
            if !plan.has_guarantee()
                && let Some(error) = batch.read_error()
            {
                tracker.first_error.get_or_insert(error);
            }
            watch_for_kernel_failures(first, network, || {
                state.coordinates.record_step(selected);
                Ok(())
            })?;
            let rate = state.rates.at(tracker.steps);
            let step = StepSettings {
                momentum: rate.momentum,
                noise_std: Some(&release.noise_std),
                noise_mask: selected,
                update_mask: state_of_dropped.update_mask(state.coordinates.trained(), selected),
                ..StepSettings::new(rate.learning_rate)
            };
            state.network = state.optimizer.step(network, &release.gradient, &step)?;
            let network = &state.network;
            if let Some(average) = &mut state.average {
                average.observe(network)?;
            }
            let average = state.average.as_ref();
            let evaluated = || average.map_or_else(|| network.clone(), |a| a.network());
            let point = meter.after_step(tracker, release, network, &evaluated)?;
            if let Some(loss) = point.and_then(|point| point.loss) {
                state.rates.observe(loss);
            }
            if let Some(writer) = &mut checkpoints {
                writer.write_if_due(&state, tracker, meter)?;
            }
            observer.on_step(&tracker.progress());
        }
        if let Some(writer) = checkpoints {
            writer.write_final(&state, tracker, meter)?;
        }
        tracker.wait_time = tracker.total_wait(state.batches.waited());
        let TrainState { network, average, coordinates, .. } = state;
        let network = average.map_or(network, |average| average.network());
        let (mask, selection_log) = coordinates.into_record();
        Ok(TrainingOutput { network, mask, selection_log })
    }
}

/// Runs `work`; in the first step, reports every kernel that fails, also one whose failure no
/// result shows, such as those behind the counts of a selection.
fn watch_for_kernel_failures<T>(
    first: bool,
    network: &Network,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    if first {
        with_failure_detection(&network.device(), work)
            .unwrap_or_else(|message| Err(device_error(&"the device", &message)))
    } else {
        work()
    }
}
