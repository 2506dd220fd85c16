//! What is measured while a run goes.

use burn::prelude::Device;

use crate::data::{Dataset, OnDevice};
use crate::device::DeviceArray;
use crate::engine::mean;
use crate::methods::Plan;
use crate::nn::{Model, Network};
use crate::train::{Curve, Point, Progress};
use crate::{Error, ErrorKind, Result};
use std::time::Instant;

/// How many times along a run the test accuracy is taken.
const EVALUATIONS: u64 = 10;
/// How many points along a run show loss and epsilon.
const POINTS: u64 = 60;

/// Counts the steps of a run and takes its measurements.
pub(super) struct Meter<'a> {
    pub(super) plan: &'a Plan,
    pub(super) model: &'a Model,
    pub(super) data: &'a Dataset,
    pub(super) curve: Curve,
    /// Steps whose result was used.
    pub(super) steps: u64,
    /// What could not be read, and so left a gap in the curve or ended the run.
    pub(super) trouble: Option<Error>,
    /// Whether it ended the run.
    pub(super) unreadable: bool,
    start: Instant,
    /// The losses of the steps since the last point: looked at when the point is made, so that no
    /// step waits for a device.
    losses: Vec<DeviceArray>,
    /// The test part where the network is, once it was needed on a card: taken there once per run.
    test: Option<OnDevice>,
}

impl<'a> Meter<'a> {
    pub(super) fn start(plan: &'a Plan, model: &'a Model, data: &'a Dataset) -> Self {
        let (curve, start, losses) = (Curve::default(), Instant::now(), Vec::new());
        let (steps, trouble, unreadable, test) = (0, None, false, None);
        Self { plan, model, data, curve, steps, trouble, unreadable, start, losses, test }
    }

    pub(super) fn seconds(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    pub(super) fn progress(&self) -> Progress<'_> {
        let (step, seconds) = (self.steps, self.seconds());
        Progress { plan: self.plan, step, curve: &self.curve, seconds }
    }

    /// Counts a step that led to `network`.
    pub(super) fn after_step(&mut self, losses: DeviceArray, network: &Network) -> Result<()> {
        self.steps += 1;
        self.losses.push(losses);
        let every = |count| self.steps.is_multiple_of(self.plan.steps().div_ceil(count));
        let evaluate = every(EVALUATIONS);
        if self.steps == 1 || evaluate || every(POINTS) {
            self.measure(evaluate.then_some(network))?;
        }
        Ok(())
    }

    /// The last point always has everything.
    pub(super) fn at_end(&mut self, network: &Network) -> Result<()> {
        let step = self.steps;
        match self.curve.points.last() {
            Some(last) if last.step == step && last.test_accuracy.is_some() => Ok(()),
            Some(last) if last.step == step => {
                let accuracy = self.accuracy(network);
                if let Some(last) = self.curve.points.last_mut() {
                    last.test_accuracy = accuracy;
                }
                Ok(())
            }
            _ => self.measure(Some(network)),
        }
    }

    fn measure(&mut self, evaluate: Option<&Network>) -> Result<()> {
        let steps = DeviceArray::to_vecs(&std::mem::take(&mut self.losses));
        let means: Vec<f64> = steps.iter().filter_map(|losses| mean(losses)).collect();
        let test_accuracy = match evaluate {
            Some(network) => {
                check_finite(self.steps, network)?;
                self.accuracy(network)
            }
            None => None,
        };
        self.curve.points.push(Point {
            step: self.steps,
            loss: (!means.is_empty()).then(|| means.iter().sum::<f64>() / means.len() as f64),
            test_accuracy,
            epsilon: self.plan.epsilon_after(self.steps)?,
        });
        Ok(())
    }

    /// What can't be read is no reason to throw a trained network away.
    fn accuracy(&mut self, network: &Network) -> Option<f64> {
        if self.data.test().is_empty() {
            return None;
        }
        match self.accuracy_where_it_is(network) {
            Ok(accuracy) => Some(accuracy),
            Err(error) => {
                self.trouble.get_or_insert(error);
                None
            }
        }
    }

    fn accuracy_where_it_is(&mut self, network: &Network) -> Result<f64> {
        let (model, device) = (self.model.with_network(network.clone()), network.device());
        if device == Device::flex() {
            return model.accuracy(self.data);
        }
        let test = match self.test.take() {
            Some(test) => test,
            None => OnDevice::new(self.data.test(), &device)?,
        };
        model.accuracy_on(self.test.insert(test))
    }
}

fn check_finite(step: u64, network: &Network) -> Result<()> {
    match network.first_non_finite()? {
        None => Ok(()),
        Some(parameter) => Err(Error::new(
            ErrorKind::Model,
            format!("after step {step} the parameter {} is not finite", parameter.path),
            "training diverged and can't come back",
        )
        .fix("try a smaller learning rate, or the default")),
    }
}
