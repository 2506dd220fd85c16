//! One training step, made of the same calls as in training.

use std::sync::Arc;
use std::time::{Duration, Instant};

use epsilab::Result;
use epsilab::engine::{
    AutoExecutor, Batch, ClipRule, ClippedSum, CoordinateWeights, Executor, FusedExecutor,
    StepProfile, TapExecutor,
};
use epsilab::methods::dp_sgd::GaussianMechanism;
use epsilab::methods::non_private::MeanGradient;
use epsilab::methods::{Mechanism, Release};
use epsilab::nn::Network;
use epsilab::optim::{Optimizer, OptimizerState, StepSettings};
use epsilab::privacy::{NoiseMultiplier, Stages};

pub const LEARNING_RATE: f64 = 0.05;
pub const CLIP: f64 = 1.0;
pub const NOISE_MULTIPLIER: f64 = 1.0;

/// With or without privacy.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasureMode {
    /// The private step, the one without privacy and variants, in turn.
    Steps,
    /// Memory of the step with per-example norms, clipping and noise.
    Private,
    /// Memory of the step with the plain gradient.
    NonPrivate,
    /// Layer by layer, beside the limits of the machine.
    Roofline,
}

impl MeasureMode {
    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Steps => "steps",
            Self::Private => "private",
            Self::NonPrivate => "non-private",
            Self::Roofline => "roofline",
        }
    }
}

/// Executor for per-example gradients.
#[derive(clap::ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExecutorChoice {
    /// The executor that training chooses.
    #[default]
    Auto,
    /// The tap executor.
    Tap,
}

impl ExecutorChoice {
    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Tap => "tap",
        }
    }

    /// Gradients only.
    pub fn executor(self) -> Box<dyn Executor> {
        match self {
            Self::Auto => Box::new(AutoExecutor::default()),
            Self::Tap => Box::new(TapExecutor::default()),
        }
    }

    /// The mechanism of a method with this clip rule and expected batch size; `None` is the method
    /// without privacy.
    pub fn mechanism(self, rule: Option<ClipRule>, batch: usize) -> Result<Box<dyn Mechanism>> {
        let gaussian = rule.map(|rule| gaussian_mechanism(rule, batch)).transpose()?;
        Ok(match (self, gaussian) {
            (Self::Auto, Some(gaussian)) => Box::new(gaussian),
            (Self::Auto, None) => Box::new(MeanGradient::new(batch)),
            (Self::Tap, gaussian) => {
                Box::new(ExecutorMechanism { executor: TapExecutor::default(), gaussian, batch })
            }
        })
    }
}

fn gaussian_mechanism(rule: ClipRule, batch: usize) -> Result<GaussianMechanism> {
    let stages = Stages::constant(NoiseMultiplier(NOISE_MULTIPLIER), 1)?;
    Ok(GaussianMechanism::new(rule, stages, batch, [7; 32]))
}

/// The mechanisms of training with a chosen executor.
struct ExecutorMechanism<E> {
    executor: E,
    /// None without privacy.
    gaussian: Option<GaussianMechanism>,
    batch: usize,
}

impl<E: Executor> Mechanism for ExecutorMechanism<E> {
    fn release(
        &mut self,
        network: &Network,
        batch: &Batch,
        selected: Option<&CoordinateWeights>,
    ) -> Result<Release> {
        let rule =
            self.gaussian.as_ref().map_or_else(ClipRule::unclipped, GaussianMechanism::clip_rule);
        let clipped: ClippedSum = self.executor.weighted_sum(network, batch, &rule, selected)?;
        let mut gradient = clipped.sum;
        match &mut self.gaussian {
            Some(gaussian) => gradient = gaussian.privatise(gradient, selected)?,
            None => gradient.scale(1.0 / self.batch as f64),
        }
        let noise_std = vec![0.0; gradient.entries.len()];
        Ok(Release::new(gradient, clipped.losses, noise_std))
    }
}

/// Selects the coordinates of a step; `None` for all.
pub type Selection = Box<dyn FnMut(&Network) -> Result<Option<Arc<CoordinateWeights>>>>;

/// A training run.
pub struct Training {
    network: Network,
    mechanism: Box<dyn Mechanism>,
    selection: Selection,
    optimizer: OptimizerState,
}

impl Training {
    pub fn new(network: &Network, mechanism: Box<dyn Mechanism>) -> Self {
        let optimizer = Optimizer::Sgd { momentum: 0.0 }.init();
        let selection: Selection = Box::new(|_| Ok(None));
        Self { network: network.clone(), mechanism, selection, optimizer }
    }

    /// The same with a selection of coordinates in every step.
    pub fn selecting(self, selection: Selection) -> Self {
        Self { selection, ..self }
    }

    /// Runs one step (selection, norms, clipping, sum, noise, update) and returns what it released.
    /// Does not wait for a GPU.
    pub fn step(&mut self, batch: &Batch) -> Result<Release> {
        let selected = (self.selection)(&self.network)?;
        let selected = selected.as_deref();
        let release = self.mechanism.release(&self.network, batch, selected)?;
        let step = StepSettings {
            noise_mask: selected,
            update_mask: selected,
            ..StepSettings::new(LEARNING_RATE)
        };
        self.network = self.optimizer.step(&self.network, &release.gradient, &step)?;
        Ok(release)
    }
}

/// A private training run on the CPU whose sums are measured layer by layer.
pub struct ProfiledTraining {
    network: Network,
    executor: FusedExecutor,
    gaussian: GaussianMechanism,
    optimizer: OptimizerState,
}

impl ProfiledTraining {
    /// Clips at [`CLIP`].
    pub fn new(network: &Network, batch: usize) -> Result<Self> {
        let gaussian = gaussian_mechanism(ClipRule::flat(CLIP), batch)?;
        let optimizer = Optimizer::Sgd { momentum: 0.0 }.init();
        let executor = FusedExecutor::default();
        Ok(Self { network: network.clone(), executor, gaussian, optimizer })
    }

    /// Runs one step and returns the profile of its sum, and the time of noise and update.
    pub fn step(&mut self, batch: &Batch) -> Result<(StepProfile, Duration)> {
        let rule = self.gaussian.clip_rule();
        let (clipped, profile) = self.executor.profile(&self.network, batch, &rule)?;
        let start = Instant::now();
        let gradient = self.gaussian.privatise(clipped.sum, None)?;
        let step = StepSettings::new(LEARNING_RATE);
        self.network = self.optimizer.step(&self.network, &gradient, &step)?;
        Ok((profile, start.elapsed()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{data, zoo};
    use super::*;

    #[test]
    fn a_private_step_differs_from_a_plain_one_and_is_the_same_profiled_and_by_both_executors() {
        let entry = zoo::find("papernot_cnn").unwrap();
        let (model, pool) = (entry.model().unwrap(), data::pool(entry, 16).unwrap());
        let after = |executor, private: bool| {
            let rule = private.then(|| ClipRule::flat(CLIP));
            let mechanism = ExecutorChoice::mechanism(executor, rule, 16).unwrap();
            let mut training = Training::new(model.network(), mechanism);
            let loss = training.step(&pool[0]).unwrap().mean_loss().unwrap();
            assert!((1.5..3.5).contains(&loss), "{loss}");
            let values = training.network.values();
            values.into_iter().flat_map(|(_, values)| values).collect::<Vec<f32>>()
        };
        let mut profiled = ProfiledTraining::new(model.network(), 16).unwrap();
        let (profile, rest) = profiled.step(&pool[0]).unwrap();
        assert!(!profile.elapsed.is_zero() && !rest.is_zero());
        let values = profiled.network.values().into_iter().flat_map(|(_, values)| values);
        assert_eq!(values.collect::<Vec<f32>>(), after(ExecutorChoice::Auto, true));
        let far =
            |a: &[f32], b: &[f32]| a.iter().zip(b).fold(0f32, |m, (x, y)| m.max((x - y).abs()));
        for private in [true, false] {
            let (best, taps) =
                (after(ExecutorChoice::Auto, private), after(ExecutorChoice::Tap, private));
            assert!(far(&best, &taps) < 1e-5, "private: {private}");
        }
        let apart = far(&after(ExecutorChoice::Auto, true), &after(ExecutorChoice::Auto, false));
        // Noise of 1 on the sum, over 16, times 0.05: at least three of its standard deviations.
        assert!(apart > 3.0 * 0.05 / 16.0, "{apart}");
    }
}
