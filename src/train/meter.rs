//! Takes the measurements of a run.

use burn::prelude::Device;

use crate::data::{Dataset, OnDevice};
use crate::device::DeviceArray;
use crate::engine::mean;
use crate::methods::Plan;
use crate::nn::{Model, Network};
use crate::train::{Curve, Point, Progress};
use crate::{Error, ErrorKind, Result};
use std::time::Instant;

/// Number of evaluations of the test accuracy per run.
const EVALUATIONS: u64 = 10;
/// Number of points with loss and epsilon per run.
const POINTS: u64 = 60;

/// Counts the steps of a run and takes measurements.
pub(super) struct Meter<'a> {
    pub(super) plan: &'a Plan,
    pub(super) model: &'a Model,
    pub(super) data: &'a Dataset,
    pub(super) curve: Curve,
    /// Number of steps whose result was used.
    pub(super) steps: u64,
    /// The error of a read that left a gap in the curve or ended the run.
    pub(super) trouble: Option<Error>,
    /// Whether that error ended the run.
    pub(super) unreadable: bool,
    start: Instant,
    /// Losses of the steps since the last point. They are copied to the host when the point is
    /// made, so that no step synchronizes with the device.
    losses: Vec<DeviceArray>,
    /// The test part on the network's device, uploaded once per run; unused on the CPU.
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

    /// Counts a step that gave `network`.
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

    /// Makes the last point, which has all measurements.
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

    /// Test accuracy; `None` if there is no test part or it can't be read, which does not end a
    /// run.
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
            "training diverged, and further steps can't undo it",
        )
        .fix("try a smaller learning rate, or the default")),
    }
}
