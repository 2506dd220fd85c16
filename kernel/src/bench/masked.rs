//! Private steps on a part of the coordinates beside the private step on all, taken in turn in
//! one process: whatever else the machine does, it does to all of them.

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

/// Steps by what they left out. A choice that is made anew belongs to its step.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Steps {
    /// Nothing.
    pub full: Spent,
    /// What a mask leaves out, the same in every step.
    pub masked: Spent,
    /// A random part, new in every step.
    pub random: Spent,
    /// The smallest parameters, looked for in every step.
    pub smallest: Spent,
}

/// What each step took.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Spent {
    /// Seconds by the clock.
    pub seconds: Vec<f64>,
    /// Seconds of all threads together; none where the system doesn't tell.
    pub cpu_seconds: Vec<f64>,
}

/// A training under way on the coordinates that are chosen.
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

/// Steps that leave out this share of each weight tensor.
pub fn measure(case: &Case, rate: f64) -> Result<Steps> {
    let (model, device) = (case.entry.model()?, case.place.checked()?.device());
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
        // Each follows each of the others equally often.
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
