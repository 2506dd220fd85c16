//! The release of a step with quantile clipping: a noisy sum and a noisy count.

use burn::module::ParamId;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;

use super::Quantile;
use crate::engine::{
    AutoExecutor, Batch, Bound, ClipRule, Executor, GaussianNoise, Gradient, Gradients, Weights,
    typical_max_batch_size,
};
use crate::methods::{Mechanism, Plan, Release, Threshold, check_state};
use crate::nn::Network;
use crate::privacy::{Event, Neighbouring, Stages};
use crate::{Error, ErrorKind, Result};

/// The clip norm stays within this factor of its first value.
const RANGE: f64 = 1e3;

/// ChaCha stream of the seed of the counts' noise. The sum's noise uses the seed itself.
const STREAM: u64 = u64::from_le_bytes(*b"counts\0\0");

/// The Gaussian mechanism on a clipped sum and on the count of gradients that were not clipped.
///
/// # Guarantee
/// Neighbours: one example added or removed. The sum changes by at most C, the clip norm of the
/// step, and the count of +1/2 for every gradient of norm at most C and -1/2 for every other by at
/// most 1/2. With noise of standard deviation sigma_sum C on the sum and sigma_count on the count,
/// a step is one Gaussian mechanism with 1/sigma^2 = 1/sigma_sum^2 + 1/(2 sigma_count)^2. C is a
/// function of the counts released before. A gradient that is not finite enters neither.
pub struct QuantileSum {
    quantile: Quantile,
    first: f64,
    clip: f64,
    stages: Stages,
    expected_batch_size: f64,
    noise: GaussianNoise,
    noise_of_counts: GaussianNoise,
    executor: AutoExecutor,
}

impl Mechanism for QuantileSum {
    /// Copies the norms from a GPU in every step, to count them.
    fn release(
        &mut self,
        network: &Network,
        batch: &Batch,
        selected: Option<&Weights>,
    ) -> Result<Release> {
        let (clip, rule) = (self.clip, ClipRule::flat(self.clip));
        let clipped = self.executor.weighted_sum(network, batch, &rule, selected)?;
        let sigma = self.stages.at(self.noise.step()).noise_multiplier;
        let std = rule.noise_std(self.quantile.noise_multiplier_of_sum(sigma)?);
        let mut gradient = clipped.sum;
        let stds = vec![std; gradient.entries.len()];
        self.noise.add_to_each(&mut gradient, &stds, selected)?;
        gradient.scale(1.0 / self.expected_batch_size);

        let finite = clipped.norms.iter().filter(|norm| norm.is_finite());
        let centred = finite.map(|&norm| if f64::from(norm) <= clip { 0.5 } else { -0.5 });
        let fraction = 0.5 + self.noisy(centred.sum())? / self.expected_batch_size;
        let moved = clip * (-self.quantile.rate * (fraction - self.quantile.quantile)).exp();
        self.clip = moved.clamp(self.first / RANGE, self.first * RANGE);

        let noise_std = vec![std / self.expected_batch_size; gradient.entries.len()];
        let noise_multiplier = Some(2.0 * self.quantile.count_noise);
        let threshold = Some(Threshold { value: clip, noise_multiplier });
        let release = Release::new(gradient, clipped.losses, noise_std);
        Ok(Release { threshold, ..release.with_norms(clipped.norms) })
    }

    fn state(&self) -> Vec<f64> {
        vec![self.clip]
    }

    fn resume(&mut self, steps: u64, state: &[f64]) -> Result<()> {
        check_state(state, 1)?;
        self.clip = state[0];
        self.noise = self.noise.clone().at_step(steps);
        self.noise_of_counts = self.noise_of_counts.clone().at_step(steps);
        Ok(())
    }
}

impl QuantileSum {
    /// A centred count with its noise.
    fn noisy(&mut self, count: f64) -> Result<f64> {
        let values = vec![count as f32].into();
        let entry = Gradient { path: "count".into(), id: ParamId::from(0), shape: vec![1], values };
        let mut one = Gradients { entries: vec![entry] };
        self.noise_of_counts.add_to(&mut one, self.quantile.count_noise)?;
        Ok(one.entries.iter().flat_map(|entry| entry.values.iter()).map(|&v| f64::from(v)).sum())
    }
}

/// The mechanism of a plan.
pub(super) fn of(plan: &Plan, noise_seed: [u8; 32]) -> Result<Box<dyn Mechanism>> {
    let (clip, quantile, stages) = parts(plan)?;
    quantile.check()?;
    let mut seeds = ChaCha20Rng::from_seed(noise_seed);
    seeds.set_stream(STREAM);
    let mut seed_of_counts = [0; 32];
    seeds.fill_bytes(&mut seed_of_counts);
    let chunk = typical_max_batch_size(plan.expected_batch_size());
    Ok(Box::new(QuantileSum {
        quantile,
        first: clip,
        clip,
        stages,
        expected_batch_size: plan.expected_batch_size() as f64,
        noise: GaussianNoise::new(noise_seed),
        noise_of_counts: GaussianNoise::new(seed_of_counts),
        executor: AutoExecutor::default().fixed_chunks(chunk).precision(plan.precision()),
    }))
}

/// The bound of the first step; those of later steps depend on what was released.
pub(super) fn bound(plan: &Plan, _: u64) -> Result<Option<Box<dyn Bound>>> {
    Ok(Some(Box::new(ClipRule::flat(parts(plan)?.0))))
}

/// The event of the first steps: sum and count together have the noise multiplier of the plan.
///
/// # Guarantee
/// As [`QuantileSum`], on the plan's batches.
pub(super) fn event(plan: &Plan, steps: u64) -> Event {
    match parts(plan) {
        Ok((_, _, stages)) => plan.training_event(&stages, steps),
        Err(error) => Event::Unaccountable { why: error.to_string() },
    }
}

/// First clip norm, adaptation and stages, which a plan lacks only if its file was edited.
fn parts(plan: &Plan) -> Result<(f64, Quantile, Stages)> {
    let privacy = plan.privacy().and_then(|privacy| Some((privacy, privacy.quantile?)));
    match (privacy, plan.stages()?) {
        (Some((privacy, quantile)), Some(stages))
            if matches!(privacy.clip, ClipRule::Flat { .. })
                && privacy.clip_schedule.is_constant() =>
        {
            Ok((privacy.clip.sensitivity(Neighbouring::AddOrRemoveOne), quantile, stages))
        }
        _ => {
            let what = format!("a plan of {} without its settings", plan.method());
            Err(Error::new(ErrorKind::CorruptData, what, "the file was edited")
                .fix("make the plan anew"))
        }
    }
}
