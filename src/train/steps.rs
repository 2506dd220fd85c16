//! The training loop: sample, release, optimizer step, measurement; stops between steps.

use super::Observer;
use super::Seeds;
use super::course::Course;
use super::interrupt::Listening;
use super::meter::{Measured, Meter};
use crate::Result;
use crate::data::Dataset;
use crate::device::{device_error, watched};
use crate::mask::{Coordinates, CoordinatesOf, Mask, SelectionLog};
use crate::methods::Batches;
use crate::nn::{Model, Network};
use crate::optim::{AverageState, OptimizerState, Step};

/// The inputs of the steps of a run.
pub(super) struct Begin<'a> {
    /// The initial model, on the device of the run.
    pub(super) model: &'a Model,
    pub(super) data: &'a Dataset,
    /// The mask, unless the run releases it.
    pub(super) mask: Option<Mask>,
    pub(super) seeds: Seeds,
    /// The name of the attempt in the ledger.
    pub(super) run: &'a str,
}

/// The results of the steps of a run.
pub(super) struct Trained {
    /// The network after the last step, or the average of networks that the plan asks for.
    pub(super) network: Network,
    pub(super) mask: Option<Mask>,
    pub(super) touched: Option<SelectionLog>,
}

impl Begin<'_> {
    /// Takes the steps of the plan.
    ///
    /// # Guarantee
    /// The network depends on the examples only through the output of the mechanism. Everything
    /// after it is post-processing, except a learning rate that follows a loss, for which the plan
    /// has no guarantee. Nothing that a private run does or says depends on whether an example can
    /// be read, except that the mechanism gets nothing from one that can't.
    pub(super) fn steps(
        self,
        course: &mut Course<'_>,
        meter: &mut Meter<'_>,
        listening: &Listening,
        observer: &mut dyn Observer,
    ) -> Result<Trained> {
        let Self { model, data, mask, seeds, run } = self;
        let plan = course.plan;
        let batches = Batches::new(plan, data.train(), seeds.sampling, seeds.masks)?;
        let mut batches = batches.on(model.network())?;
        let mut mechanism = plan.mechanism(seeds.noise)?;
        let mut optimizer =
            OptimizerState::new(plan.optimizer()).with_weight_decay(plan.weight_decay());
        let mut rates = plan.rates()?;
        let state_of_dropped = plan.sparsity().map(|sparsity| sparsity.state).unwrap_or_default();
        observer.started(&course.progress());
        let seeds = seeds.of_coordinates();
        let of = CoordinatesOf {
            freezing: plan.freezing(),
            sparsity: plan.sparsity(),
            steps: plan.steps(),
            study_seed: plan.seed(),
            run,
        };
        let mut coordinates = Coordinates::begin(of, model, data, mask, &seeds)?;
        let mut network = coordinates.start(model)?;
        let mut average =
            plan.average().map(|average| AverageState::new(average, &network)).transpose()?;
        while course.steps < plan.steps() && !listening.stop() {
            let batch = batches.draw()?;
            let first = course.steps == 0;
            let selected = heard(first, &network, || coordinates.next(&network))?;
            let selected = selected.as_deref();
            let release = mechanism.release(&network, &batch, selected)?;
            if !plan.is_private()
                && let Some(error) = batch.unread()
            {
                course.trouble.get_or_insert(error);
            }
            heard(first, &network, || {
                coordinates.taken(selected);
                Ok(())
            })?;
            let rate = rates.at(course.steps);
            let step = Step {
                momentum: rate.momentum,
                noise_std: Some(&release.noise_std),
                selected,
                touched: state_of_dropped.touched(coordinates.trained(), selected),
                ..Step::new(rate.learning_rate)
            };
            network = optimizer.step(&network, &release.gradient, &step)?;
            if let Some(average) = &mut average {
                average.observe(&network)?;
            }
            let evaluated = || average.as_ref().map_or_else(|| network.clone(), |a| a.network());
            let threshold = release.threshold.map(|threshold| threshold.value);
            let measured = Measured { losses: release.losses, norms: release.norms, threshold };
            let point = meter.after_step(course, measured, &network, &evaluated)?;
            if let Some(loss) = point.and_then(|point| point.loss) {
                rates.observe(loss);
            }
            observer.progressed(&course.progress());
        }
        course.waited = batches.waited();
        let network = average.map_or(network, |average| average.network());
        let (mask, touched) = coordinates.into_record();
        Ok(Trained { network, mask, touched })
    }
}

/// Does some work; in the first step, hears of every kernel that fails. The counts behind a
/// selection do not show it.
fn heard<T>(first: bool, network: &Network, work: impl FnOnce() -> Result<T>) -> Result<T> {
    match first {
        true => watched(&network.device(), work)
            .unwrap_or_else(|message| Err(device_error(&"the device", &message))),
        false => work(),
    }
}
