//! A run hands the optimizer the noise of its plan.

use epsilab::data::PoissonSampler;
use epsilab::engine::{Batch, ClipRule, Executor, FusedExecutor, GaussianNoise};
use epsilab::optim::StepSettings;
use epsilab::prelude::*;
use epsilab::privacy::Ledger;
use epsilab::train::{NoopObserver, Seeds, fit};

use super::bits;

const NOISE_MULTIPLIER: f64 = 0.8;
const CLIP: f64 = 0.5;
const BATCH: f64 = 50.0;
const RATE: f64 = 0.002;
const STEPS: u64 = 3;

#[test]
fn dp_adam_bc_in_a_run_knows_the_noise_of_the_mean() -> Result<()> {
    let data = data::glyphs_with(400, 20, 5)?;
    let model = models::mlp(&data, &[8]).seed(1).build()?;
    let optimizer = Optimizer::dp_adam_bc();
    let plan = DpSgd::new()
        .noise_multiplier(NOISE_MULTIPLIER)
        .clip(CLIP)
        .batch_size(BATCH as usize)
        .steps(STEPS)
        .optimizer(optimizer)
        .learning_rate(RATE)
        .seed(1)
        .device("cpu")
        .plan(&data)?;
    let run = fit("a run", &plan, &model, &data, &Ledger::in_memory(), &mut NoopObserver)?;

    let by_hand = |std: f64| -> Result<Vec<u32>> {
        let seeds = Seeds::new(Some(1), "a run")?;
        let rate = BATCH / data.train().len() as f64;
        let mut sampler = PoissonSampler::new(data.train().len(), rate, seeds.sampling)?;
        let mut noise = GaussianNoise::new(seeds.noise);
        let (mut state, mut network) = (optimizer.init(), model.network().clone());
        for _ in 0..STEPS {
            let batch = Batch::from_examples(data.train(), &sampler.next_batch())?;
            let rule = ClipRule::flat(CLIP);
            let mut gradient = FusedExecutor::default().clipped_sum(&network, &batch, &rule)?.sum;
            noise.add_to(&mut gradient, NOISE_MULTIPLIER * CLIP)?;
            gradient.scale(1.0 / BATCH);
            let noise_std = vec![std; gradient.entries.len()];
            let step = StepSettings { noise_std: Some(&noise_std), ..StepSettings::new(RATE) };
            network = state.step(&network, &gradient, &step)?;
        }
        Ok(bits(&network))
    };
    let std = NOISE_MULTIPLIER * CLIP / BATCH;
    assert_eq!(bits(run.model().network()), by_hand(std)?);
    for wrong in [0.9 * std, std * BATCH, 0.0] {
        assert_ne!(bits(run.model().network()), by_hand(wrong)?, "{wrong}");
    }
    Ok(())
}
