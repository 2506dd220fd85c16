//! One training step, by the calls that training makes.

use epsilab::Result;
use epsilab::burn::optim::{ModuleOptimizer, SgdConfig};
use epsilab::engine::{self, Batch, ClipRule, ClippedSum, PerExample, Taps, Weights};
use epsilab::methods::dp_sgd::GaussianSum;
use epsilab::methods::non_private::MeanGradient;
use epsilab::methods::{Mechanism, Privacy, Release};
use epsilab::nn::Network;
use epsilab::privacy::Delta;

const LEARNING_RATE: f64 = 0.05;
const CLIP: f64 = 1.0;
const NOISE_MULTIPLIER: f64 = 1.0;

/// With or without privacy.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Per-example norms, clipping, noise.
    Private,
    /// The plain gradient.
    NonPrivate,
}

impl Mode {
    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::NonPrivate => "non-private",
        }
    }
}

/// Who makes the per-example gradients.
#[derive(clap::ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Executor {
    /// What training uses.
    #[default]
    Best,
    /// The tensor executor.
    Taps,
}

impl Executor {
    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Best => "best",
            Self::Taps => "taps",
        }
    }

    fn mechanism(self, mode: Mode, batch: usize) -> Box<dyn Mechanism> {
        let delta = Delta(1e-5);
        let clip = ClipRule::flat(CLIP);
        let privacy = Privacy { clip, noise_multiplier: NOISE_MULTIPLIER, delta, target: None };
        let sum = GaussianSum::new(&privacy, batch, [7; 32]);
        match (self, mode) {
            (Self::Best, Mode::Private) => Box::new(sum),
            (Self::Best, Mode::NonPrivate) => Box::new(MeanGradient::new(batch)),
            (Self::Taps, Mode::Private) => {
                Box::new(By { executor: Taps::default(), sum: Some(sum), batch })
            }
            (Self::Taps, Mode::NonPrivate) => {
                Box::new(By { executor: Taps::default(), sum: None, batch })
            }
        }
    }
}

/// The mechanisms of training, with an executor of one's choice.
struct By<E> {
    executor: E,
    /// None without privacy.
    sum: Option<GaussianSum>,
    batch: usize,
}

impl<E: PerExample> Mechanism for By<E> {
    fn release(
        &mut self,
        network: &Network,
        batch: &Batch,
        selected: Option<&Weights>,
    ) -> Result<Release> {
        let rule = if self.sum.is_some() { ClipRule::flat(CLIP) } else { ClipRule::unclipped() };
        let clipped: ClippedSum = self.executor.weighted_sum(network, batch, &rule, selected)?;
        let loss = clipped.mean_loss();
        let mut gradient = clipped.sum;
        match &mut self.sum {
            Some(sum) => gradient = sum.privatise(gradient, selected)?,
            None => gradient.scale(1.0 / self.batch as f64),
        }
        Ok(Release { gradient, loss })
    }
}

/// A training under way.
pub struct Training {
    network: Network,
    mechanism: Box<dyn Mechanism>,
    optimizer: ModuleOptimizer,
}

impl Training {
    pub fn new(network: &Network, executor: Executor, mode: Mode, batch: usize) -> Self {
        let mechanism = executor.mechanism(mode, batch);
        Self { network: network.clone(), mechanism, optimizer: SgdConfig::new().init() }
    }

    /// Norms, clipping, sum, noise and update: the loss of the batch before it.
    pub fn step(&mut self, batch: &Batch) -> Result<Option<f64>> {
        let release = self.mechanism.release(&self.network, batch, None)?;
        self.network =
            engine::step(&mut self.optimizer, LEARNING_RATE, &self.network, &release.gradient);
        Ok(release.loss)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{data, zoo};
    use super::*;

    #[test]
    fn a_private_step_differs_from_a_plain_one_and_both_executors_agree_on_it() {
        let entry = zoo::find("papernot_cnn").unwrap();
        let (model, pool) = (entry.model().unwrap(), data::pool(entry, 16).unwrap());
        let after = |executor, mode| {
            let mut training = Training::new(model.network(), executor, mode, 16);
            let loss = training.step(&pool[0]).unwrap().unwrap();
            assert!((1.5..3.5).contains(&loss), "{loss}");
            let values = training.network.values();
            values.into_iter().flat_map(|(_, values)| values).collect::<Vec<f32>>()
        };
        let far =
            |a: &[f32], b: &[f32]| a.iter().zip(b).fold(0f32, |m, (x, y)| m.max((x - y).abs()));
        for mode in [Mode::Private, Mode::NonPrivate] {
            let (best, taps) = (after(Executor::Best, mode), after(Executor::Taps, mode));
            assert!(far(&best, &taps) < 1e-5, "{mode:?}");
        }
        let apart =
            far(&after(Executor::Best, Mode::Private), &after(Executor::Best, Mode::NonPrivate));
        // Noise of 1 on the sum, over 16, times 0.05: at least three of its standard deviations.
        assert!(apart > 3.0 * 0.05 / 16.0, "{apart}");
    }
}
