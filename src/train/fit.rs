//! The loop: sample, release, step; measure; stop at a step boundary when asked to.

use crate::data::Dataset;
use crate::engine;
use crate::methods::{Batches, Mechanism, Plan, dp_sgd, non_private};
use crate::nn::{Model, Network};
use crate::privacy::{Entry, Ledger, Rdp};
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
/// Every release is charged before it is used; training without privacy is charged too, as an
/// event that no accountant accepts. Sampler, noise and ledger all read `plan`; the loop hands
/// nothing but [`Mechanism::release`] to the optimizer.
///
/// # Errors
/// `Setting` if plan, model, data and ledger do not belong together; `Ledger` if the ledger can't
/// be written (nothing is trained then); `Model` if the parameters stop being finite (the steps
/// taken stay charged).
pub fn fit(
    id: &str,
    plan: &Plan,
    model: &Model,
    data: &Dataset,
    ledger: &Ledger,
    observer: &mut dyn Observer,
) -> Result<Run> {
    check_fit(plan, model, data, ledger)?;
    // A stored run may be trained anew under the same name; in the ledger each attempt is its own.
    let attempt = format!("{id}-{}", Seeds::nonce()?);
    let entry = Entry::planned(&attempt, ledger.data_hash(), &plan.event());
    ledger.record(&entry.note(note(plan, data)))?;

    let listening = Listening::start();
    let start = Instant::now();
    let mut meter = Meter::new(plan, data);
    let mut steps = 0;
    let trained = follow(id, plan, model, &mut meter, &mut steps, start, &listening, observer);
    // Charged even if the last step failed after its release.
    let spent = if trained.is_ok() { steps } else { plan.steps().min(steps + 1) };
    let closed = ledger.close(&attempt, &plan.event_after(spent));
    let network = trained?;
    let charged = if closed.is_ok() { steps } else { plan.steps() };
    meter.at_end(steps, &network, model)?;
    drop(listening);

    let record = RunRecord {
        id: id.to_owned(),
        plan: plan.clone(),
        data: data.name().to_owned(),
        data_hash: data.hash().to_owned(),
        ending: if steps == plan.steps() { Ending::Finished } else { Ending::Interrupted },
        steps,
        events: vec![plan.event_after(charged)],
        epsilon: epsilon_after(plan, charged)?,
        planned_epsilon: epsilon_after(plan, plan.steps())?,
        test_accuracy: meter.curve.last_accuracy(),
        seconds: start.elapsed().as_secs_f64(),
        curve: meter.curve,
    };
    let run = Run::new(record, model.with_network(network));
    observer.finished(&run);
    if let Err(error) = closed {
        observer.trouble(&error);
    }
    Ok(run)
}

/// The steps: sample, release, step, measure. `steps` counts those whose result was used.
#[allow(clippy::too_many_arguments)]
fn follow(
    id: &str,
    plan: &Plan,
    model: &Model,
    meter: &mut Meter<'_>,
    steps: &mut u64,
    start: Instant,
    listening: &Listening,
    observer: &mut dyn Observer,
) -> Result<Network> {
    let seeds = Seeds::new(plan.seed(), id)?;
    let mut batches = Batches::new(plan, meter.data.train(), seeds.sampling)?;
    let mut mechanism = mechanism(plan, &seeds);
    let mut optimizer = plan.optimizer().init();
    let mut network = model.network().clone();
    observer.started(&Progress { plan, step: 0, curve: &meter.curve, seconds: 0.0 });
    while *steps < plan.steps() && !listening.stop() {
        let release = mechanism.release(&network, &batches.draw()?)?;
        network = engine::step(&mut optimizer, plan.learning_rate(), &network, &release.gradient);
        *steps += 1;
        meter.after_step(*steps, release.loss, &network, model)?;
        let seconds = start.elapsed().as_secs_f64();
        observer.progressed(&Progress { plan, step: *steps, curve: &meter.curve, seconds });
    }
    Ok(network)
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
        None => Box::new(non_private::MeanGradient::new(plan.expected_batch_size())),
    }
}

fn check_fit(plan: &Plan, model: &Model, data: &Dataset, ledger: &Ledger) -> Result<()> {
    if plan.examples() != data.train().len() {
        return Err(Error::new(
            ErrorKind::Setting,
            format!("a plan for {} training examples", plan.examples()),
            format!(
                "{} has {}: sampling rate and epsilon would be wrong",
                data.name(),
                data.train().len()
            ),
        )
        .fix("make the plan from the same data"));
    }
    if ledger.path().is_some() && ledger.data_hash() != data.origin() {
        return Err(Error::new(
            ErrorKind::Setting,
            format!("the ledger of the data set {}", ledger.data_hash()),
            format!(
                "{} is {}: its cost would be charged to other people",
                data.name(),
                data.origin()
            ),
        )
        .fix("open the ledger named after data.origin()"));
    }
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
        if let Some((network, _)) = evaluate {
            check_finite(step, network)?;
        }
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

fn check_finite(step: u64, network: &Network) -> Result<()> {
    let finite = |values: &Vec<f32>| values.iter().all(|value| value.is_finite());
    match network.values().iter().find(|(_, values)| !finite(values)) {
        None => Ok(()),
        Some((parameter, _)) => Err(Error::new(
            ErrorKind::Model,
            format!("after step {step} the parameter {} is not finite", parameter.path),
            "training diverged and can't come back",
        )
        .fix("try a smaller learning rate, or the default")),
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
