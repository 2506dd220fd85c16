//! DP-SGD (Abadi et al., 2016, algorithm 1), step by step: `cargo run --example dp_sgd_by_hand`.
//!
//! [`DpSgd`] does the same in one line. It also writes the privacy ledger, draws the live chart and
//! stores the run, none of which happens here. Built-in data, a few seconds.

use epsilab::data::PoissonSampler;
use epsilab::engine::{Batch, ClipRule, Executor, FusedExecutor, GaussianNoise};
use epsilab::optim::StepSettings;
use epsilab::prelude::*;
use epsilab::privacy::{TightestAccountant, noise_multiplier_for};
use epsilab::train::Seeds;

const TARGET: Epsilon = Epsilon(3.0);
const DELTA: Delta = Delta(1e-5);
/// C: the largest L2 norm of one example's contribution to the sum.
const CLIP: f64 = 0.1;
/// The mean batch size. The actual size is random and differs from step to step.
const EXPECTED_BATCH_SIZE: usize = 1024;
const STEPS: u64 = 100;
const LEARNING_RATE: f64 = 4.0;
const MOMENTUM: Optimizer = Optimizer::Sgd { momentum: 0.9 };

fn main() -> Result<()> {
    // The size of the training set counts as public: the sampling rate is computed from it.
    let data = data::glyphs()?;
    let model = models::papernot_cnn(&data).build()?;
    // Seeds from the operating system. Whoever knows the seed of the noise can subtract the noise.
    let (model, epsilon) = train(&model, &data, STEPS, &Seeds::new(None, "by hand")?)?;
    println!(
        "test accuracy {:.2} %, epsilon {epsilon:.3} at delta {}",
        100.0 * model.accuracy(&data)?,
        DELTA.0
    );
    Ok(())
}

/// Trains a copy of the model. Returns it with the epsilon that was spent.
pub fn train(model: &Model, data: &Dataset, steps: u64, seeds: &Seeds) -> Result<(Model, f64)> {
    let examples = data.train();

    // Accounting, before training: how much noise makes all steps together (epsilon, delta)-DP?
    // The noise multiplier is the standard deviation of the noise on the sum, divided by C.
    let sampling_rate = EXPECTED_BATCH_SIZE as f64 / examples.len() as f64;
    let noise_multiplier = noise_multiplier_for(
        TARGET,
        DELTA,
        SamplingRate(sampling_rate),
        steps,
        &TightestAccountant::new(),
    )?
    .noise_multiplier
    .0;

    // The parts of a step.
    let mut sampler = PoissonSampler::new(examples.len(), sampling_rate, seeds.sampling)?;
    let executor = FusedExecutor::default();
    let clip = ClipRule::flat(CLIP);
    let mut noise = GaussianNoise::new(seeds.noise);
    let mut optimizer = MOMENTUM.init();

    let mut network = model.network().clone();
    for _ in 0..steps {
        // 1. Poisson sampling: each example takes part with probability q, independently of the
        //    others and of earlier steps. The accountant assumes this, not a shuffled epoch.
        let batch = Batch::from_examples(examples, &sampler.next_batch())?;

        // 2. The gradient of each example, scaled down to L2 norm C where it is longer, and summed:
        //    sum over i of g_i * min(1, C / |g_i|). The same call returns the losses and norms of
        //    the examples. These have no noise, so they may not be published.
        let mut gradient = executor.clipped_sum(&network, &batch, &clip)?.sum;

        // 3. One example more or less changes this sum by at most C in L2 norm. Noise of standard
        //    deviation sigma * C on every coordinate makes the step a Gaussian mechanism.
        noise.add_to(&mut gradient, clip.noise_std(noise_multiplier))?;

        // 4. From here on all is post-processing, which costs no privacy. The divisor is the
        //    expected batch size, because the actual one depends on who was drawn.
        gradient.scale(1.0 / sampler.expected_batch_size());
        network = optimizer.step(&network, &gradient, &StepSettings::new(LEARNING_RATE))?;
    }

    // Accounting, after training: the epsilon of what was released.
    let released = Event::poisson(sampling_rate, noise_multiplier, steps);
    let epsilon = privacy::epsilon(&[released], DELTA)?.epsilon;
    Ok((model.with_network(network), epsilon))
}
