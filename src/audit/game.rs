//! The games that an auditor plays: the same releases with and without a canary.

use std::sync::Arc;

use super::canary::{Canary, CanaryNetwork, inner_product, max_contribution_norm};
use super::report::Statistic;
use crate::Result;
use crate::data::sampler::PoissonSampler;
use crate::engine::{CoordinateWeights, Gradients};
use crate::mask::{CoordinateSelector, Mask, PrePrune, RandomMask};
use crate::methods::{Mechanism, Plan};
use crate::privacy::Stages;
use crate::train::Seeds;

/// Function that creates the mechanism of one trial, given the seed of its noise.
pub(super) type MechanismFactory =
    Arc<dyn Fn([u8; 32]) -> Result<Box<dyn Mechanism>> + Send + Sync>;

/// A game that an auditor plays: one trial gives one value of every statistic.
pub(super) trait Game: Sync {
    /// Returns the statistics, in the order of the values.
    fn statistics(&self) -> &[Statistic];

    /// Plays one trial.
    ///
    /// # Errors
    /// Those of the mechanism.
    fn play(&self, with_canary: bool, seeds: &Seeds) -> Result<Vec<f64>>;
}

/// All steps of a plan on a network that never changes: the releases are those of a training run
/// by a user whose gradients the attacker chooses.
pub(super) struct TrainingGame {
    plan: Plan,
    stages: Stages,
    mechanism: MechanismFactory,
    setup: CanaryNetwork,
    mask: Option<Mask>,
    /// The canary, and the direction of the others, of steps that select all coordinates.
    dense: (Canary, Vec<Vec<f32>>),
    /// Largest norm of one example's contribution to the sum, one value per step.
    contribution_norms: Vec<f64>,
    statistics: Vec<Statistic>,
}

impl TrainingGame {
    /// Creates the game of a plan. `stages` are those of the claim. `selections` says whether the
    /// attacks also use which coordinates are released.
    ///
    /// # Errors
    /// As the plan's bound and making the mask.
    pub(super) fn new(
        plan: &Plan,
        stages: Stages,
        mechanism: MechanismFactory,
        setup: CanaryNetwork,
        selections: bool,
    ) -> Result<Self> {
        let bound = plan.bound(0)?;
        let dense = (setup.canary(bound.as_deref(), None)?, setup.others_direction(None)?);
        let norms = (0..plan.steps()).map(|step| max_contribution_norm(plan, step, &setup.network));
        let contribution_norms = norms.collect::<Result<_>>()?;
        let mask = mask(plan, &setup)?;
        let mut statistics = vec![Statistic::Projection, Statistic::ResidualNorm];
        statistics.extend(selections.then_some(Statistic::SelectedCoordinate));
        let plan = plan.clone();
        Ok(Self { plan, stages, mechanism, setup, mask, dense, contribution_norms, statistics })
    }

    /// Returns the canary and the direction of the others for these coordinates.
    fn directions(
        &self,
        step: u64,
        selected: &CoordinateWeights,
    ) -> Result<(Canary, Vec<Vec<f32>>)> {
        let bound = self.plan.bound(step)?;
        let canary = self.setup.canary(bound.as_deref(), Some(selected))?;
        Ok((canary, self.setup.others_direction(Some(selected))?))
    }
}

impl Game for TrainingGame {
    fn statistics(&self) -> &[Statistic] {
        &self.statistics
    }

    fn play(&self, with_canary: bool, seeds: &Seeds) -> Result<Vec<f64>> {
        let Self { plan, setup, .. } = self;
        let (rate, batch_size) = (plan.sampling_rate(), plan.expected_batch_size() as f64);
        let mut mechanism = (self.mechanism)(seeds.noise)?;
        let mut sampler = PoissonSampler::new(plan.examples(), rate, seeds.sampling)?;
        let dropping = plan.sparsity().and_then(|sparsity| sparsity.dropping);
        let mask = self.mask.as_ref();
        let mut selector = CoordinateSelector::new(mask, dropping, plan.steps(), seeds.sparsity);
        let canary_id = plan.examples() as u32 - 1;
        let (mut likelihood, mut residual, mut selections) = (0.0, 0.0, 0.0);
        for step in 0..plan.steps() {
            let selected = selector.next_selection(&setup.network)?;
            let directions;
            let (canary, others) = match selected.as_deref() {
                None => &self.dense,
                Some(selected) => {
                    directions = self.directions(step, selected)?;
                    &directions
                }
            };
            let mut ids = sampler.next_batch();
            let drawn = ids.pop_if(|id| *id == canary_id).is_some() && with_canary;
            let batch = setup.batch(&ids, drawn.then_some(canary.feature))?;
            let release = mechanism.release(&setup.network, &batch, selected.as_deref())?.gradient;
            // In units of the bound on one contribution to the sum.
            let scale = batch_size / self.contribution_norms[step as usize];
            let projection = inner_product(&release, &canary.direction) * scale;
            let other_projection = inner_product(&release, others) * scale;
            let square = (release.l2_norm() * scale).powi(2);
            let sigma = self.stages.at(step).noise_multiplier;
            likelihood += log_likelihood_ratio(projection, sigma, rate);
            residual += (square - projection.powi(2) - other_projection.powi(2)) / sigma.powi(2);
            selections += f64::from(u8::from(is_selected(&release, canary)));
        }
        let mut values = vec![likelihood, residual, selections];
        values.truncate(self.statistics.len());
        Ok(values)
    }
}

/// Returns whether the coordinate in which the canary is largest was released.
fn is_selected(release: &Gradients, canary: &Canary) -> bool {
    let entries = release.entries.iter().zip(&canary.direction);
    let all = entries.flat_map(|(entry, direction)| entry.values.iter().zip(direction));
    let largest = all.max_by(|(_, a), (_, b)| a.abs().total_cmp(&b.abs()));
    largest.is_some_and(|(value, _)| *value != 0.0)
}

/// Computes ln of the density of (1-q) N(0, σ²) + q N(1, σ²) over that of N(0, σ²) at x: the best
/// statistic for a step of a Poisson-subsampled Gaussian mechanism.
pub(super) fn log_likelihood_ratio(x: f64, sigma: f64, rate: f64) -> f64 {
    let exponent = (2.0 * x - 1.0) / (2.0 * sigma * sigma);
    if rate >= 1.0 {
        exponent
    } else if exponent > 700.0 {
        exponent + rate.ln()
    } else {
        (rate * exponent.exp_m1()).ln_1p()
    }
}

/// Returns the mask of a plan on the audit's network: made by the plan's recipe, or random with
/// the same rate where that needs the user's model or data.
fn mask(plan: &Plan, setup: &CanaryNetwork) -> Result<Option<Mask>> {
    let Some(recipe) = plan.sparsity().and_then(|sparsity| sparsity.pre_prune.as_ref()) else {
        return Ok(None);
    };
    let recipe = match recipe {
        PrePrune::Random(recipe) => recipe.with_default_seed(1),
        other => RandomMask::prune(other.rate()).seed(1),
    };
    recipe.mask(&setup.model()?).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likelihood_ratio_is_that_of_the_mixture() {
        let density =
            |x: f64, mean: f64, sigma: f64| (-(x - mean).powi(2) / 2.0 / sigma / sigma).exp();
        for (x, sigma, q) in [(0.3, 1.0, 0.1), (-2.0, 0.7, 0.01), (4.0, 2.0, 1.0)] {
            let mixture = (1.0 - q) * density(x, 0.0, sigma) + q * density(x, 1.0, sigma);
            let expected = (mixture / density(x, 0.0, sigma)).ln();
            assert!((log_likelihood_ratio(x, sigma, q) - expected).abs() < 1e-12);
        }
        let far = log_likelihood_ratio(1e4, 0.5, 0.01);
        assert!((far - (19_999.0 / 0.5 + 0.01f64.ln())).abs() < 1e-9, "{far}");
    }
}
