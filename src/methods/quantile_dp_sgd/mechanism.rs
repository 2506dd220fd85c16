//! The release of a step with quantile clipping: a noisy sum and a noisy count.

use burn::module::ParamId;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;

use super::QuantileClipping;
use crate::Result;
use crate::engine::{
    Batch, Bound, ClipRule, CoordinateWeights, Executor, GaussianNoise, Gradient, Gradients,
};
use crate::methods::noisy_aggregator::NoisyAggregator;
use crate::methods::{Mechanism, Plan, Release, Threshold};
use crate::nn::Network;
use crate::privacy::{Event, NeighbouringRelation, Stages};

/// Factor around its first value within which the clip norm stays.
const RANGE: f64 = 1e3;

/// ChaCha stream of the seed of the counts' noise. The sum's noise uses the seed itself.
const STREAM: u64 = u64::from_le_bytes(*b"counts\0\0");

/// The Gaussian mechanism on a clipped sum and on the count of gradients that were not clipped.
///
/// # Guarantee
/// Neighbours: one example added or removed, zeroed out, or replaced. An example adds to the sum a
/// vector no longer than C, the clip norm of the step, and to the count 1/2 if its gradient is not
/// longer than C, and otherwise -1/2. A gradient of zero, or one that is not finite, adds nothing
/// to either, so zeroing an example out moves the count by 1/2 as removing it does. With noise of
/// standard deviation sigma_sum C on the sum and sigma_count on the count, a step is one Gaussian
/// mechanism with 1/sigma^2 = 1/sigma_sum^2 + 1/(2 sigma_count)^2; for one example replaced, sum
/// and count move by twice as much, as the accountants assume for sigma. C is a function of the
/// counts released before.
pub struct QuantileClipMechanism {
    quantile: QuantileClipping,
    first: f64,
    clip: f64,
    aggregator: NoisyAggregator,
    noise_of_counts: GaussianNoise,
}

impl Mechanism for QuantileClipMechanism {
    /// Copies the norms from a GPU in every step, to count them.
    fn release(
        &mut self,
        network: &Network,
        batch: &Batch,
        selected: Option<&CoordinateWeights>,
    ) -> Result<Release> {
        let (clip, rule) = (self.clip, ClipRule::flat(self.clip));
        let clipped = self.aggregator.executor.weighted_sum(network, batch, &rule, selected)?;
        let count = clipped.norms.iter().map(|&norm| contribution_to_count(norm, clip)).sum();
        let sigma = self.aggregator.stage().noise_multiplier;
        let std = rule.noise_std(self.quantile.sum_noise_multiplier(sigma)?);
        let release = self.aggregator.release(clipped, std, selected)?;

        let fraction = 0.5 + self.add_count_noise(count)? / self.aggregator.expected_batch_size;
        let moved = clip * (-self.quantile.rate * (fraction - self.quantile.quantile)).exp();
        self.clip = moved.clamp(self.first / RANGE, self.first * RANGE);

        let noise_multiplier = Some(2.0 * self.quantile.count_noise);
        let threshold = Some(Threshold { value: clip, noise_multiplier });
        Ok(Release { threshold, ..release })
    }

    fn state(&self) -> Vec<f64> {
        vec![self.clip]
    }

    fn resume(&mut self, steps: u64, state: &[f64]) -> Result<()> {
        self.aggregator.resume(steps, state, 1)?;
        self.clip = state[0];
        self.noise_of_counts = self.noise_of_counts.clone().at_step(steps);
        Ok(())
    }
}

impl QuantileClipMechanism {
    /// Returns a centred count with its noise.
    fn add_count_noise(&mut self, count: f64) -> Result<f64> {
        let values = vec![count as f32].into();
        let entry = Gradient { path: "count".into(), id: ParamId::from(0), shape: vec![1], values };
        let mut one = Gradients { entries: vec![entry] };
        self.noise_of_counts.add_to(&mut one, self.quantile.count_noise)?;
        Ok(one.entries.iter().flat_map(|entry| entry.values.iter()).map(|&v| f64::from(v)).sum())
    }
}

/// Returns what an example whose gradient has this norm adds to the count of a step.
///
/// # Guarantee
/// An example that is zeroed out adds 0, as one that is removed. If it counted as a gradient that
/// is not clipped, the count would change by 1 where another example is zeroed out.
fn contribution_to_count(norm: f32, clip: f64) -> f64 {
    match f64::from(norm) {
        norm if norm == 0.0 || !norm.is_finite() => 0.0,
        norm if norm <= clip => 0.5,
        _ => -0.5,
    }
}

/// Creates the mechanism of a plan.
pub(super) fn build_mechanism(plan: &Plan, noise_seed: [u8; 32]) -> Result<Box<dyn Mechanism>> {
    let (clip, quantile, stages) = clip_quantile_and_stages(plan)?;
    quantile.check()?;
    let mut seeds = ChaCha20Rng::from_seed(noise_seed);
    seeds.set_stream(STREAM);
    let mut seed_of_counts = [0; 32];
    seeds.fill_bytes(&mut seed_of_counts);
    Ok(Box::new(QuantileClipMechanism {
        quantile,
        first: clip,
        clip,
        aggregator: NoisyAggregator::from_plan(plan, stages, noise_seed),
        noise_of_counts: GaussianNoise::new(seed_of_counts),
    }))
}

/// Returns the bound of the first step; those of later steps depend on what was released.
pub(super) fn bound(plan: &Plan, _: u64) -> Result<Option<Box<dyn Bound>>> {
    Ok(Some(Box::new(ClipRule::flat(clip_quantile_and_stages(plan)?.0))))
}

/// Returns the event of the first steps: sum and count together have the noise multiplier of the
/// plan.
///
/// # Guarantee
/// As [`QuantileClipMechanism`], on the plan's batches.
pub(super) fn event(plan: &Plan, steps: u64) -> Event {
    plan.event_of(clip_quantile_and_stages(plan).map(|(_, _, stages)| stages), steps)
}

/// Returns first clip norm, adaptation and stages, which a plan lacks only if its file was edited.
fn clip_quantile_and_stages(plan: &Plan) -> Result<(f64, QuantileClipping, Stages)> {
    let privacy = plan.privacy().and_then(|privacy| Some((privacy, privacy.quantile?)));
    match (privacy, plan.stages()?) {
        (Some((privacy, quantile)), Some(stages))
            if matches!(privacy.clip, ClipRule::Flat { .. })
                && privacy.clip_schedule.is_constant() =>
        {
            Ok((privacy.clip.sensitivity(NeighbouringRelation::AddOrRemoveOne), quantile, stages))
        }
        _ => Err(plan.edited("without its settings")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sum and count together have the noise multiplier of the plan, under each relation.
    #[test]
    fn no_example_moves_sum_and_count_by_more_than_the_noise_assumes() -> Result<()> {
        let (clip, sigma) = (0.7, 4.0);
        let quantile = QuantileClipping { quantile: 0.5, rate: 0.2, count_noise: 2.2 };
        let sigma_of_sum = quantile.sum_noise_multiplier(sigma)?;
        // What an example adds: the length of its clipped gradient, and its part of the count.
        let added = |norm: f64| (norm.min(clip), contribution_to_count(norm as f32, clip));
        let not_finite = (0.0, contribution_to_count(f32::NAN, clip));
        let zeroed = added(0.0);
        let others = [added(1e-30), added(0.5), added(0.7), added(0.8), added(1e30), not_finite];
        // In units of the noise of a release with noise multiplier 1; gradients may be opposite.
        let moved = |(sum, count): (f64, f64), (other_sum, other_count): (f64, f64), sign: f64| {
            let of_sum = (sum - sign * other_sum) / (sigma_of_sum * clip);
            of_sum.hypot((count - other_count) / quantile.count_noise) * sigma
        };
        let nothing = (0.0, 0.0);
        let over = |pairs: &mut dyn Iterator<Item = f64>| pairs.fold(0.0, f64::max);
        let removed = over(&mut others.iter().map(|&x| moved(x, nothing, 1.0)));
        let zeroed_out = over(&mut others.iter().map(|&x| moved(x, zeroed, 1.0)));
        let replaced = over(&mut others.iter().flat_map(|&x| others.map(|y| moved(x, y, -1.0))));
        for (worst, sensitivity) in [(removed, 1.0), (zeroed_out, 1.0), (replaced, 2.0)] {
            assert!((worst - sensitivity).abs() < 1e-6, "{worst}, not {sensitivity}");
        }
        // If a zeroed example counted as one that is not clipped, the claim would be wrong.
        let counted = over(&mut others.iter().map(|&x| moved(x, (0.0, 0.5), 1.0)));
        assert!(counted > 1.8, "{counted}");
        Ok(())
    }
}
