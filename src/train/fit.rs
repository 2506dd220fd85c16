//! The loop: sample, release, step; measure; stop at a step boundary when asked to.

use crate::data::Dataset;
use crate::engine;
use crate::methods::{Batches, Mechanism, Plan, dp_sgd, non_private};
use crate::nn::{Model, Network};
use crate::privacy::{Ledger, Rdp};
use crate::train::interrupt::Listening;
use crate::train::{Curve, Ending, Observer, Point, Progress, Run, RunRecord, Seeds};
use crate::{Error, ErrorKind, Result};
use std::time::Instant;

/// How many times along a run the test accuracy is taken.
const EVALUATIONS: u64 = 10;
/// How many points along a run show loss and epsilon.
const POINTS: u64 = 60;

/// Follows a plan: trains a copy of `model` on the training part of `data`.
///
/// The whole plan is written to the ledger before the first step; when the run ends, the entry is
/// reduced to the steps truly taken. A process that is killed leaves the whole plan charged.
///
/// # Guarantee
/// Every noisy step is charged before it is used. Sampler, noise and ledger all read `plan`; the
/// loop hands nothing but [`Mechanism::release`] to the optimizer.
///
/// # Errors
/// `Setting` if model and data do not fit; `Ledger` if the ledger can't be written (nothing is
/// trained then); `Model` if the weights stop being finite.
pub fn fit(
    id: &str,
    plan: &Plan,
    model: &Model,
    data: &Dataset,
    ledger: &Ledger,
    observer: &mut dyn Observer,
) -> Result<Run> {
    check_fit(model, data)?;
    let seeds = Seeds::new(plan.seed())?;
    let mut batches = Batches::new(plan, data.train(), seeds.sampling)?;
    let mut mechanism = mechanism(plan, &seeds);
    let mut optimizer = plan.optimizer().init();
    let mut network = model.network().clone();
    let mut meter = Meter::new(plan, data);

    // A stored run may be trained anew under the same name; in the ledger each attempt is its own.
    let attempt = format!("{id}-{}", Seeds::nonce()?);
    if plan.privacy().is_some() {
        ledger.begin(&attempt, &plan.event())?;
    }
    let listening = Listening::start();
    let start = Instant::now();
    observer.started(&Progress { plan, step: 0, curve: &meter.curve, seconds: 0.0 });
    let mut steps = 0;
    while steps < plan.steps() && !listening.stop() {
        let release = mechanism.release(&network, &batches.draw()?)?;
        network = engine::step(&mut optimizer, plan.learning_rate(), &network, &release.gradient);
        steps += 1;
        meter.after_step(steps, release.loss, &network, model)?;
        observer.progressed(&Progress {
            plan,
            step: steps,
            curve: &meter.curve,
            seconds: start.elapsed().as_secs_f64(),
        });
    }
    drop(listening);

    let ending = if steps == plan.steps() { Ending::Finished } else { Ending::Interrupted };
    meter.at_end(steps, &network, model)?;
    if plan.privacy().is_some() {
        ledger.close(&attempt, &plan.event_after(steps))?;
    }
    let last = meter.curve.points.last().copied().unwrap_or_default();
    let record = RunRecord {
        id: id.to_owned(),
        plan: plan.clone(),
        data: data.name().to_owned(),
        data_hash: data.hash().to_owned(),
        ending,
        steps,
        events: vec![plan.event_after(steps)],
        epsilon: last.epsilon,
        test_accuracy: last.test_accuracy,
        seconds: start.elapsed().as_secs_f64(),
        curve: meter.curve,
    };
    let run = Run::new(record, model.with_network(network));
    observer.finished(&run);
    Ok(run)
}

/// The mechanism of a plan.
fn mechanism(plan: &Plan, seeds: &Seeds) -> Box<dyn Mechanism> {
    match plan.privacy() {
        Some(privacy) => dp_sgd::of(plan, privacy, seeds.noise),
        None => Box::new(non_private::MeanGradient::new(plan.expected_batch_size())),
    }
}

fn check_fit(model: &Model, data: &Dataset) -> Result<()> {
    let fits = model.input_shape() == data.shape() && model.classes() == data.classes();
    if fits {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Setting,
        format!(
            "the model {} takes examples of shape {:?} and {} classes; {} has shape {:?} and {} \
             classes",
            model.name(),
            model.input_shape(),
            model.classes(),
            data.name(),
            data.shape(),
            data.classes()
        ),
        "they must agree to train",
    )
    .fix("build the model from the same data, e.g. models::papernot_cnn(&data)"))
}

/// Takes the measurements of a run.
struct Meter<'a> {
    plan: &'a Plan,
    data: &'a Dataset,
    curve: Curve,
    losses: (f64, u32),
}

impl<'a> Meter<'a> {
    fn new(plan: &'a Plan, data: &'a Dataset) -> Self {
        Self { plan, data, curve: Curve::default(), losses: (0.0, 0) }
    }

    fn after_step(
        &mut self,
        step: u64,
        loss: Option<f64>,
        network: &Network,
        model: &Model,
    ) -> Result<()> {
        if let Some(loss) = loss {
            self.losses = (self.losses.0 + loss, self.losses.1 + 1);
        }
        let every = |count: u64| step.is_multiple_of(self.plan.steps().div_ceil(count));
        let evaluate = every(EVALUATIONS);
        if step == 1 || evaluate || every(POINTS) {
            self.measure(step, evaluate.then_some((network, model)))?;
        }
        Ok(())
    }

    /// The last point always has everything.
    fn at_end(&mut self, step: u64, network: &Network, model: &Model) -> Result<()> {
        match self.curve.points.last() {
            Some(last) if last.step == step && last.test_accuracy.is_some() => Ok(()),
            Some(last) if last.step == step => {
                let accuracy = self.accuracy(network, model)?;
                if let Some(last) = self.curve.points.last_mut() {
                    last.test_accuracy = accuracy;
                }
                Ok(())
            }
            _ => self.measure(step, Some((network, model))),
        }
    }

    fn measure(&mut self, step: u64, evaluate: Option<(&Network, &Model)>) -> Result<()> {
        let (sum, count) = std::mem::take(&mut self.losses);
        let test_accuracy = match evaluate {
            Some((network, model)) => self.accuracy(network, model)?,
            None => None,
        };
        self.curve.points.push(Point {
            step,
            loss: (count > 0).then(|| sum / f64::from(count)),
            test_accuracy,
            epsilon: epsilon_after(self.plan, step)?,
        });
        Ok(())
    }

    fn accuracy(&self, network: &Network, model: &Model) -> Result<Option<f64>> {
        if self.data.test().is_empty() {
            return Ok(None);
        }
        model.with_network(network.clone()).accuracy(self.data).map(Some)
    }
}

/// Epsilon of the first `steps` steps of a plan; 0 before the first.
pub(crate) fn epsilon_after(plan: &Plan, steps: u64) -> Result<Option<f64>> {
    match plan.privacy() {
        Some(_) if steps == 0 => Ok(Some(0.0)),
        Some(privacy) => Rdp::default()
            .epsilon(&[plan.event_after(steps)], privacy.delta)
            .map(|spent| Some(spent.epsilon)),
        None => Ok(None),
    }
}
