//! Meter, which takes the measurements of a run.

use std::collections::HashMap;

use burn::prelude::Device;
use serde::{Deserialize, Serialize};

use crate::data::{Dataset, DeviceExamples};
use crate::device::{DeviceArray, is_stub_device};
use crate::engine;
use crate::methods::{Plan, Release};
use crate::nn::{Model, Network};
use crate::train::run_tracker::RunTracker;
use crate::train::train_state::Arrays;
use crate::train::{CurvePoint, divergence};
use crate::{Error, ErrorKind, Result};

/// Evenly spaced evaluations of the test accuracy along a run.
const EVALUATIONS: u64 = 10;
/// Evaluations before the first of those, as parts of the run: the chart must not be empty for
/// epochs. Together with the first step they add at most three evaluations.
const EARLY_EVALUATION_DIVISORS: [u64; 2] = [60, 20];
/// Evenly spaced points along a run at which loss, epsilon and norm are recorded.
const POINTS: u64 = 60;

/// Measurements since the last point, beside its arrays.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct PendingMetrics {
    losses: usize,
    norms: usize,
    thresholds: Vec<f64>,
    initial_norm: f64,
}

/// Computes the mean; `None` for no values.
pub(super) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// A meter, which takes the measurements of a run.
pub(super) struct Meter<'a> {
    plan: &'a Plan,
    /// The initial model, on the device of the run.
    model: &'a Model,
    data: &'a Dataset,
    /// Losses of the steps since the last point. They are copied to the host when the point is
    /// made, so that no step synchronizes with the device.
    losses: Vec<DeviceArray>,
    /// Gradient norms of these steps, of a method that computes them.
    norms: Vec<DeviceArray>,
    /// Clip norms of the steps since the last point, of a method that adapts them.
    thresholds: Vec<f64>,
    /// The test part on the network's device, uploaded once per run; unused on the CPU.
    test: Option<DeviceExamples>,
    /// L2 norm of the initial parameters, once it was needed.
    initial_norm: Option<f64>,
    /// The number of steps and the epsilon of each point, once one was needed; empty without a
    /// guarantee.
    epsilons: Option<Vec<(u64, f64)>>,
}

impl<'a> Meter<'a> {
    pub(super) fn new(plan: &'a Plan, model: &'a Model, data: &'a Dataset) -> Self {
        Self {
            plan,
            model,
            data,
            losses: Vec::new(),
            norms: Vec::new(),
            thresholds: Vec::new(),
            test: None,
            initial_norm: None,
            epsilons: None,
        }
    }

    /// Returns the measurements since the last point, with their arrays, for a checkpoint.
    ///
    /// # Errors
    /// `Device` if the device has failed before.
    pub(super) fn pending(&mut self) -> Result<(PendingMetrics, Arrays)> {
        let named = |kind: &'static str, arrays: &[DeviceArray]| -> Arrays {
            let each = arrays.iter().enumerate();
            each.map(|(i, array)| (format!("{kind}/{i}"), array.clone())).collect()
        };
        let (losses, norms) = (named("loss", &self.losses), named("norm", &self.norms));
        let pending = PendingMetrics {
            losses: losses.len(),
            norms: norms.len(),
            thresholds: self.thresholds.clone(),
            initial_norm: self.initial_norm()?,
        };
        Ok((pending, losses.into_iter().chain(norms).collect()))
    }

    /// Resumes with the measurements before a checkpoint.
    ///
    /// # Errors
    /// `CorruptData` if arrays are missing.
    pub(super) fn resume(
        &mut self,
        pending: PendingMetrics,
        arrays: &mut HashMap<String, Vec<f32>>,
    ) -> Result<()> {
        let mut take = |kind: &str, count: usize| -> Result<Vec<DeviceArray>> {
            let each = (0..count).map(|i| arrays.remove(&format!("{kind}/{i}")));
            let found: Option<Vec<_>> = each.map(|array| array.map(DeviceArray::from)).collect();
            found.ok_or_else(|| {
                let what = format!("{kind} of a checkpoint");
                Error::new(ErrorKind::CorruptData, what, "arrays are missing")
            })
        };
        self.losses = take("loss", pending.losses)?;
        self.norms = take("norm", pending.norms)?;
        self.thresholds = pending.thresholds;
        self.initial_norm = Some(pending.initial_norm);
        Ok(())
    }

    /// Counts a step that gave `network`, and makes a point of the curve where one is due.
    /// `evaluated` gives the network whose accuracy is of interest.
    pub(super) fn after_step(
        &mut self,
        tracker: &mut RunTracker<'_>,
        released: Release,
        network: &Network,
        evaluated: &dyn Fn() -> Network,
    ) -> Result<Option<CurvePoint>> {
        tracker.steps += 1;
        self.losses.push(released.losses);
        self.norms.extend(released.norms);
        let threshold = released.threshold.map(|threshold| threshold.value);
        self.thresholds.extend(threshold);
        tracker.thresholds.extend(threshold);
        if !is_recorded(tracker.steps, self.plan.steps()) {
            return Ok(None);
        }
        let evaluated = is_evaluated(tracker.steps, self.plan.steps()).then(evaluated);
        self.measure(tracker, network, evaluated.as_ref()).map(Some)
    }

    /// Makes the last point, which has all measurements.
    pub(super) fn record_final(
        &mut self,
        tracker: &mut RunTracker<'_>,
        network: &Network,
    ) -> Result<()> {
        match tracker.curve.points.last() {
            Some(last) if last.step == tracker.steps && last.test_accuracy.is_some() => Ok(()),
            Some(last) if last.step == tracker.steps => {
                let accuracy = self.accuracy(tracker, network)?;
                if let Some(last) = tracker.curve.points.last_mut() {
                    last.test_accuracy = accuracy;
                }
                Ok(())
            }
            _ => self.measure(tracker, network, Some(network)).map(|_| ()),
        }
    }

    fn measure(
        &mut self,
        tracker: &mut RunTracker<'_>,
        network: &Network,
        evaluated: Option<&Network>,
    ) -> Result<CurvePoint> {
        // One copy for both, so that the run waits for the device once.
        let steps = self.losses.len();
        let arrays: Vec<_> = self.losses.drain(..).chain(self.norms.drain(..)).collect();
        let values = DeviceArray::to_vecs(&arrays);
        let mean_of = |values: &[Vec<f32>]| {
            mean(&values.iter().filter_map(|step| engine::finite_mean(step)).collect::<Vec<_>>())
        };
        let (loss, gradient_norm) = (mean_of(&values[..steps]), mean_of(&values[steps..]));
        let test_accuracy = match evaluated {
            Some(evaluated) => {
                check_finite(tracker.steps, network)?;
                self.accuracy(tracker, evaluated)?
            }
            None => None,
        };
        let norm_ratio = Some(self.norm_ratio(network)?);
        let point = CurvePoint {
            step: tracker.steps,
            loss,
            test_accuracy,
            epsilon: self.epsilon(tracker.steps)?,
            norm_ratio,
            threshold: mean(&std::mem::take(&mut self.thresholds)),
            gradient_norm,
        };
        tracker.curve.points.push(point);
        Ok(point)
    }

    /// Computes the epsilon of the first `step` steps. Those of all points are computed together.
    fn epsilon(&mut self, step: u64) -> Result<Option<f64>> {
        if self.epsilons.is_none() {
            let steps = self.plan.steps();
            let at: Vec<u64> =
                (1..=steps).filter(|&step| step == steps || is_recorded(step, steps)).collect();
            let found = self.plan.epsilons_after(&at)?.unwrap_or_default();
            self.epsilons = Some(at.into_iter().zip(found).collect());
        }
        let found = self.epsilons.iter().flatten().find(|(at, _)| *at == step);
        match found {
            Some((_, epsilon)) => Ok(Some(*epsilon)),
            // A run that was stopped ends between two points.
            None => self.plan.epsilon_after(step),
        }
    }

    /// Returns the L2 norm of the initial parameters.
    fn initial_norm(&mut self) -> Result<f64> {
        let initial = match self.initial_norm {
            Some(norm) => norm,
            None => divergence::l2_norm(self.model.network())?,
        };
        Ok(*self.initial_norm.insert(initial))
    }

    /// Computes the L2 norm of the parameters over that of the initial ones.
    fn norm_ratio(&mut self, network: &Network) -> Result<f64> {
        let initial = self.initial_norm()?;
        Ok(divergence::ratio(divergence::l2_norm(network)?, initial))
    }

    /// Computes the test accuracy; data that can't be read are no reason to throw a trained
    /// network away, a failed device is.
    fn accuracy(&mut self, tracker: &mut RunTracker<'_>, network: &Network) -> Result<Option<f64>> {
        if self.data.test().is_empty() {
            return Ok(None);
        }
        match self.accuracy_on_device(network) {
            Ok(accuracy) => Ok(Some(accuracy)),
            Err(error) if error.kind() == ErrorKind::Device => Err(error),
            Err(error) => {
                tracker.first_error.get_or_insert(error);
                Ok(None)
            }
        }
    }

    fn accuracy_on_device(&mut self, network: &Network) -> Result<f64> {
        let (model, device) = (self.model.with_network(network.clone()), network.device());
        if device == Device::flex() {
            return model.accuracy(self.data);
        }
        let test = match self.test.take() {
            Some(test) => test,
            None => DeviceExamples::new(self.data.test(), &device)?,
        };
        model.accuracy_on(self.test.insert(test))
    }
}

/// Returns whether `step` is one of about `count` evenly spaced steps of a run.
fn is_evenly_spaced(count: u64, step: u64, steps: u64) -> bool {
    step.is_multiple_of(steps.div_ceil(count).max(1))
}

/// Returns whether a point of the curve is made after this step.
fn is_recorded(step: u64, steps: u64) -> bool {
    is_evaluated(step, steps) || is_evenly_spaced(POINTS, step, steps)
}

/// Returns whether the test accuracy is evaluated after this step: after the first, after a
/// sixtieth and a twentieth of the run, then after each tenth. The schedule depends on the plan
/// only, never on the clock, so that a seeded run repeats its curve.
fn is_evaluated(step: u64, steps: u64) -> bool {
    let early = || EARLY_EVALUATION_DIVISORS.iter().any(|part| step == steps.div_ceil(*part));
    step == 1 || is_evenly_spaced(EVALUATIONS, step, steps) || early()
}

fn check_finite(step: u64, network: &Network) -> Result<()> {
    if is_stub_device() {
        return Ok(());
    }
    match network.first_non_finite()? {
        None => Ok(()),
        Some(parameter) => Err(Error::new(
            ErrorKind::Model,
            format!("after step {step} the parameter {} is not finite", parameter.path),
            "training diverged, and further steps can't recover",
        )
        .fix("try a smaller learning rate, or the default")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accuracy_is_evaluated_early_and_then_at_each_tenth() {
        let all = |steps| (1..=steps).filter(|s| is_evaluated(*s, steps)).collect::<Vec<_>>();
        let expected = [1, 15, 44, 88, 176, 264, 352, 440, 528, 616, 704, 792];
        assert_eq!(all(879), expected);
        assert_eq!(all(3), [1, 2, 3]);
        assert_eq!(all(1), [1]);
        for steps in [1, 2, 9, 59, 61, 100, 6000] {
            assert!(all(steps).len() as u64 <= EVALUATIONS + 3, "{steps}: {:?}", all(steps));
            assert!(all(steps)[0] == 1);
        }
    }
}
