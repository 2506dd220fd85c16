//! One training run with many canaries, and the guesses about them.

use std::sync::Arc;
use std::time::Instant;

use super::bound::Guesses;
use super::canary_set::{Attacker, CanarySet};
use super::report::OneRunReport;
use crate::audit::game::MechanismFactory;
use crate::audit::privacy_claim::{PrivacyClaim, require_poisson_sampling, stages_of};
use crate::audit::statistics::CONFIDENCE;
use crate::data::{Dataset, PoissonSampler};
use crate::engine::{AutoExecutor, Batch, Bound, ClipRule, Executor};
use crate::mask::{CoordinateConfig, TrainedCoordinates};
use crate::methods::{Mechanism, Plan};
use crate::nn::Model;
use crate::optim::{OptimizerState, StepSettings};
use crate::privacy::{Delta, SamplingRate};
use crate::train::Seeds;
use crate::{Error, ErrorKind, Result};

/// The largest number of canaries by default.
const MAX_CANARIES: usize = 1000;

/// A white-box audit of one whole training run (Steinke, Nasr, Jagielski, "Privacy Auditing with
/// One (1) Training Run", 2023).
///
/// Canaries are extra examples in orthogonal directions: each has one feature that is not zero, and
/// a random class. Each is in the training part with probability 1/2. The run draws batches with
/// the plan's sampling rate and releases gradients by the plan's own mechanism; the optimizer and
/// the coordinates are those of the plan. The auditor then guesses for the canaries with the
/// largest scores that they were in, and for those with the smallest that they were not.
///
/// # Guarantee
/// The lower bound on epsilon holds with 95 % confidence ([`Guesses::p_value`]). The verdict
/// compares it with the claimed epsilon: above it refuted, from a tenth of it on consistent, below
/// inconclusive. Neighbours: one example added or removed. Numbers of canaries and guesses are
/// fixed before the run. The run is not kept, nothing is charged to the ledger of the data, and the
/// seed is known: no epsilon covers a report on private data. Audit on public data.
#[derive(Clone)]
pub struct OneRunAudit {
    plan: Plan,
    mechanism: MechanismFactory,
    canaries: Option<usize>,
    guesses: Option<usize>,
    seed: u64,
}

impl OneRunAudit {
    /// Creates the audit of a run of this plan.
    pub fn for_plan(plan: &Plan) -> Self {
        let plan_copy = plan.clone();
        let mechanism: MechanismFactory = Arc::new(move |seed| plan_copy.mechanism(seed));
        Self { plan: plan.clone(), mechanism, canaries: None, guesses: None, seed: 0 }
    }

    /// Sets another mechanism, which is tested against the claim of the plan.
    pub fn with_mechanism(
        self,
        factory: impl Fn([u8; 32]) -> Result<Box<dyn Mechanism>> + Send + Sync + 'static,
    ) -> Self {
        Self { mechanism: Arc::new(factory), ..self }
    }

    /// Sets the number of canaries: at most one per feature. By default one per feature, up to
    /// 1,000.
    pub fn canaries(self, canaries: usize) -> Self {
        Self { canaries: Some(canaries), ..self }
    }

    /// Sets the number of guesses, half of them "in". By default a quarter of the canaries.
    pub fn guesses(self, guesses: usize) -> Self {
        Self { guesses: Some(guesses), ..self }
    }

    /// Sets the seed of canaries, batches and noise, 0 by default.
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Trains once and evaluates the guesses.
    ///
    /// # Errors
    /// `Setting` for texts, for a plan with augmentation, without noise or on disjoint batches, and
    /// for numbers out of range; errors of training.
    pub fn run(&self, model: &Model, data: &Dataset) -> Result<OneRunReport> {
        let began = Instant::now();
        let plan = &self.plan;
        let claim = self.claim()?;
        let (canaries, guesses) = self.counts(data)?;
        let seeds = Seeds::new(Some(self.seed), "audit in one run")?;
        let (crowd, all) = CanarySet::new(plan, data, canaries, &seeds)?;
        let scores = self.scores(model, &crowd, &all, &seeds)?;
        let mut order: Vec<usize> = (0..canaries).collect();
        order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
        let half = guesses / 2;
        let right_in = order[..half].iter().filter(|&&i| crowd.included[i]).count();
        let right_out = order[canaries - half..].iter().filter(|&&i| !crowd.included[i]).count();
        let made = Guesses { canaries, guesses: 2 * half, correct: right_in + right_out };
        let lower_bound = made.lower_bound(claim.delta.0, CONFIDENCE)?;
        Ok(OneRunReport {
            method: plan.method().to_owned(),
            verdict: claim.verdict_on(lower_bound),
            claimed_epsilon: claim.epsilon,
            why: claim.refusal_reason,
            compared_epsilon: claim.compared_epsilon,
            delta: claim.delta.0,
            lower_bound,
            confidence: CONFIDENCE,
            canaries: made.canaries,
            guesses: made.guesses,
            correct: made.correct,
            steps: plan.steps(),
            seed: self.seed,
            public_data: data.public().is_some(),
            seconds: began.elapsed().as_secs_f64(),
        })
    }

    fn claim(&self) -> Result<PrivacyClaim> {
        let plan = &self.plan;
        require_poisson_sampling(plan)?;
        if plan.settings().augment.is_some() {
            let why = "canaries are not images, so they have no flipped or cropped copies";
            return Err(Error::new(ErrorKind::Setting, "an audit with augmentation", why)
                .fix("audit the plan without augmentation: epsilon is the same"));
        }
        let stages = stages_of(plan)?;
        let delta = plan.privacy().map_or(Delta(1e-5), |privacy| privacy.delta);
        let rate = SamplingRate(plan.sampling_rate());
        PrivacyClaim::new(&plan.event(), plan.not_covered_reason(), &stages, rate, delta)
    }

    /// Returns the numbers of canaries and guesses.
    fn counts(&self, data: &Dataset) -> Result<(usize, usize)> {
        if data.vocabulary().is_some() {
            let why = "canaries are features, and token ids have no directions";
            return Err(Error::new(ErrorKind::Setting, "an audit on texts", why)
                .fix("audit the plan on images or tables: the mechanism is the same"));
        }
        let features: usize = data.shape().iter().product();
        let canaries = self.canaries.unwrap_or(features.min(MAX_CANARIES));
        if !(2..=features).contains(&canaries) {
            let why = format!("each canary needs its own feature, and there are {features}");
            return Err(Error::setting("canaries", canaries, why)
                .fix("use at least 2 and at most that number"));
        }
        let guesses = self.guesses.unwrap_or((canaries / 4).max(2));
        if !(2..=canaries).contains(&guesses) {
            let why = format!("there are {canaries} canaries");
            return Err(Error::setting("guesses", guesses, why)
                .fix("use at least 2 and at most that number"));
        }
        Ok((canaries, guesses))
    }

    /// Trains and returns the score of every canary.
    fn scores(
        &self,
        model: &Model,
        crowd: &CanarySet,
        all: &Dataset,
        seeds: &Seeds,
    ) -> Result<Vec<f64>> {
        let plan = &self.plan;
        let model = &plan.prepare_model(model)?;
        let of_coordinates = seeds.mask_seeds();
        let mask =
            TrainedCoordinates::prepare_mask(plan.sparsity(), model, all, of_coordinates.mask)?;
        let config = CoordinateConfig {
            freezing: plan.freezing(),
            sparsity: plan.sparsity(),
            steps: plan.steps(),
            study_seed: Some(self.seed),
            run: "audit",
        };
        let mut coordinates = TrainedCoordinates::new(config, model, all, mask, &of_coordinates)?;
        let mut network = coordinates.initial_network(model)?;
        let mut mechanism = (self.mechanism)(seeds.noise)?;
        let mut optimizer =
            OptimizerState::new(plan.settings().optimizer).with_weight_decay(plan.weight_decay());
        let rates = plan.learning_rate_scheduler()?;
        let state = plan.sparsity().map(|sparsity| sparsity.state).unwrap_or_default();
        let examples = all.train();
        let mut sampler =
            PoissonSampler::new(examples.len(), plan.sampling_rate(), seeds.sampling)?;
        let attacker = Attacker { executor: AutoExecutor::default(), canaries: &crowd.canaries };
        let mut scores = vec![0.0; crowd.included.len()];
        for step in 0..plan.steps() {
            let ids = sampler.next_batch();
            let selected = coordinates.next_selection(&network)?;
            let selected = selected.as_deref();
            let batch = Batch::from_examples(examples, &ids)?;
            let release = mechanism.release(&network, &batch, selected)?;
            // The attacker knows the other examples and subtracts what they contribute.
            let others: Vec<u32> = ids.into_iter().filter(|&id| id < crowd.others).collect();
            let others = Batch::from_examples(examples, &others)?;
            let bound = plan.bound(step)?;
            let unclipped = ClipRule::unclipped();
            let bound: &dyn Bound = bound.as_deref().unwrap_or(&unclipped);
            let known = attacker.executor.weighted_sum(&network, &others, bound, selected)?.sum;
            let mut rest = release.gradient.clone();
            rest.scale(plan.expected_batch_size() as f64);
            for (rest, known) in rest.entries.iter_mut().zip(&known.entries) {
                rest.values.iter_mut().zip(&known.values).for_each(|(a, b)| *a -= b);
            }
            attacker.add_scores(&network, &rest, &mut scores)?;
            let rate = rates.at(step);
            let settings = StepSettings {
                momentum: rate.momentum,
                noise_std: Some(&release.noise_std),
                noise_mask: selected,
                update_mask: state.update_mask(coordinates.trained(), selected),
                ..StepSettings::new(rate.learning_rate)
            };
            network = optimizer.step(&network, &release.gradient, &settings)?;
        }
        Ok(scores)
    }
}

impl Plan {
    /// Audits a whole run of this plan with many canaries: [`OneRunAudit`] with its defaults.
    /// Trains once; keeps no model and charges no ledger.
    ///
    /// # Errors
    /// As [`OneRunAudit::run`].
    pub fn audit(&self, model: &Model, data: &Dataset) -> Result<OneRunReport> {
        OneRunAudit::for_plan(self).run(model, data)
    }
}
