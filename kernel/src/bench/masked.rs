//! Measures private steps on a part of the coordinates and on all, in turn in one process, so that
//! other load on the machine affects all of them.

use std::time::Instant;

use epsilab::burn::module::Module;
use epsilab::burn::optim::{ModuleOptimizer, SgdConfig};
use epsilab::engine::{self, Batch, ClipRule, Executor, GaussianNoise};
use epsilab::mask::{Dropping, RandomMask, Selector};
use epsilab::nn::Network;
use epsilab::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::child::{cpu_time, wait};
use super::step::{CLIP, ExecutorChoice, LEARNING_RATE, NOISE_MULTIPLIER};
use super::{Case, data};

/// Kinds of steps by what they leave out. A selection made for a step is part of its time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Steps {
    /// Nothing.
    pub full: Spent,
    /// The coordinates outside a mask, the same in every step.
    pub masked: Spent,
    /// A random part, drawn in every step.
    pub random: Spent,
    /// The smallest parameters, selected in every step.
    pub smallest: Spent,
}

/// Times of the steps.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Spent {
    /// Wall-clock seconds.
    pub seconds: Vec<f64>,
    /// CPU seconds of all threads; empty where the system does not report them.
    pub cpu_seconds: Vec<f64>,
}

/// A training run on selected coordinates.
struct Training {
    network: Network,
    selector: Selector,
    executor: Box<dyn Executor>,
    noise: GaussianNoise,
    optimizer: ModuleOptimizer,
}

impl Training {
    fn new(network: &Network, executor: ExecutorChoice, selector: Selector) -> Self {
        let executor = executor.per_example();
        let (noise, optimizer) = (GaussianNoise::new([7; 32]), SgdConfig::new().init());
        Self { network: network.clone(), selector, executor, noise, optimizer }
    }

    fn step(&mut self, batch: &Batch) -> Result<()> {
        let rule = ClipRule::flat(CLIP);
        let chosen = self.selector.next(&self.network)?;
        let chosen = chosen.as_deref();
        let clipped = self.executor.weighted_sum(&self.network, batch, &rule, chosen)?;
        let loss = clipped.mean_loss().unwrap_or(f64::NAN);
        if !loss.is_finite() {
            let what = format!("a masked step: loss = {loss}");
            return Err(Error::new(ErrorKind::Model, what, "such a step is not worth measuring"));
        }
        let (mut sum, std) = (clipped.sum, rule.noise_std(NOISE_MULTIPLIER));
        match chosen {
            None => self.noise.add_to(&mut sum, std)?,
            Some(weights) => self.noise.add_to_selected(&mut sum, std, weights)?,
        }
        sum.scale(1.0 / batch.len() as f64);
        self.network = engine::step(&mut self.optimizer, LEARNING_RATE, &self.network, &sum);
        Ok(())
    }
}

/// Measures steps that leave out this fraction of each weight tensor.
pub fn measure(case: &Case, rate: f64) -> Result<Steps> {
    let (model, device) = (case.entry.model()?, case.place.device());
    let network = model.network().clone().to_device(&device);
    let pool = data::pool(case.entry, case.batch)?;
    let mask = RandomMask::prune(rate).seed(1).mask(&model)?;
    let rounds = case.warmup + case.steps;
    let training = |mask, dropping| {
        let selector = Selector::new(mask, dropping, rounds as u64, [5; 32]);
        Training::new(&network, case.executor, selector)
    };
    let mut each = [
        training(None, None),
        training(Some(&mask), None),
        training(None, Some(Dropping::random(rate))),
        training(None, Some(Dropping::magnitude(rate))),
    ];
    let mut steps = Steps::default();
    for round in 0..rounds {
        let batch = &pool[round % pool.len()];
        // Each kind follows each other kind equally often.
        for turn in 0..each.len() {
            let which = (round + turn) % each.len();
            let (clock, cpu) = (Instant::now(), cpu_time());
            each[which].step(batch)?;
            wait(&device)?;
            let (seconds, cpu_after) = (clock.elapsed().as_secs_f64(), cpu_time());
            let Steps { full, masked, random, smallest } = &mut steps;
            if round >= case.warmup {
                let spent = [full, masked, random, smallest].into_iter().nth(which);
                let Some(spent) = spent else { continue };
                spent.seconds.push(seconds);
                spent.cpu_seconds.extend(cpu_after.zip(cpu).map(|(after, before)| after - before));
            }
        }
    }
    Ok(steps)
}
