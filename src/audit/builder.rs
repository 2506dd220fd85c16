//! [`Audit`]: settings of an audit, the trials and their evaluation.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::canary::CanaryNetwork;
use super::evaluation::Evaluation;
use super::game::{Game, MechanismFactory, TrainingGame};
use super::privacy_claim::{PrivacyClaim, require_poisson_sampling, stages_of};
use super::report::AuditReport;
use super::snip_mask_game::SnipMaskGame;
use super::statistics::CONFIDENCE;
use crate::mask::DpSnip;
use crate::methods::{Mechanism, Plan};
use crate::nn::worker_pool;
use crate::privacy::gdp;
use crate::privacy::{Delta, NoiseMultiplier, SamplingRate, Stages};
use crate::train::Seeds;
use crate::{Error, Result};

/// Fewest trials per world: with fewer, even a perfect attack refutes only claims below an epsilon
/// of about 2.
const MIN_TRIALS: usize = 100;

/// Trials that one worker plays without a pause.
const CHUNK: usize = 25;

/// Callback that receives the number of finished trials and that of all trials.
pub(crate) type ProgressCallback = dyn Fn(usize, usize) + Send + Sync;

/// Values of all trials of one world: `[statistics][trials]`.
type Values = Vec<Vec<f64>>;

/// Releases that an audit plays.
#[derive(Clone)]
enum AuditedRelease {
    /// All steps of the plan.
    TrainingSteps,
    /// One release of a mask, with the clip norm and the noise multiplier.
    MaskRelease(DpSnip, f64, NoiseMultiplier),
}

/// A white-box audit of the steps of a plan: an attacker who chooses one example's gradient (the
/// canary) and sees the released gradient of every step decides whether that example was in the
/// data. Other releases of a run are not played: the noisy counts of
/// [`QuantileDpSgd`](crate::methods::QuantileDpSgd), a mask, parameters and losses.
///
/// ```
/// use epsilab::{audit::{Audit, Verdict}, prelude::*};
/// let data = data::from_vecs(vec![0.0; 32], &[1], vec![0; 32], 2)?;
/// let plan = DpSgd::new().noise_multiplier(1.0).batch_size(32).steps(1).plan(&data)?;
/// let report = Audit::for_plan(&plan).trials(2000).run()?;
/// assert_ne!(report.verdict, Verdict::Refuted);
/// # Ok::<(), epsilab::Error>(())
/// ```
///
/// The mechanism is the very one that trains ([`Plan::mechanism`]), with its own executor, bound
/// and noise. The network is a linear one on two classes, whose per-example gradients are set by
/// the features, and it does not change between steps. Of the plan, only the number of examples,
/// the steps, sampling rate, bound, noise and selection of coordinates matter, not its model and
/// data.
///
/// # Guarantee
/// The verdict "refuted" means that the releases are distinguishable beyond the trade-off curve of
/// the ledger, with 95 % confidence; a correct claim is refuted in at most 5 % of audits. "Not
/// refuted" is no guarantee: it is about this one canary, this network and these attacks.
/// Neighbours: one example added or removed.
#[derive(Clone)]
pub struct Audit {
    name: String,
    plan: Plan,
    audited: AuditedRelease,
    mechanism: MechanismFactory,
    /// Whether the mechanism is that of the plan.
    is_plan_mechanism: bool,
    observes_selections: bool,
    trials: usize,
    canary_norm: f64,
    dimension: usize,
    delta: Option<Delta>,
    seed: u64,
    on_trial: Option<Arc<ProgressCallback>>,
}

impl Audit {
    /// Creates the audit of all steps of this plan: 20,000 trials per world, 256 coordinates, and
    /// a canary of ten times the clip norm.
    ///
    /// Masks by recipes that need a model or data are replaced by random masks of the same rate;
    /// the release of a mask by DP-SNIP is audited by [`by_name`](super::by_name) as `dp-snip`.
    pub fn for_plan(plan: &Plan) -> Self {
        let plan_copy = plan.clone();
        Self {
            name: plan.method().to_owned(),
            plan: plan.clone(),
            audited: AuditedRelease::TrainingSteps,
            mechanism: Arc::new(move |seed| plan_copy.mechanism(seed)),
            is_plan_mechanism: true,
            observes_selections: plan.sparsity().is_some(),
            trials: 20_000,
            canary_norm: 10.0,
            dimension: 256,
            delta: None,
            seed: 0,
            on_trial: None,
        }
    }

    /// Creates the audit of one release of a mask. `plan` gives the number of examples; its steps
    /// are not played.
    pub(super) fn for_mask_release(
        plan: &Plan,
        snip: DpSnip,
        clip: f64,
        noise_multiplier: NoiseMultiplier,
    ) -> Self {
        Self {
            audited: AuditedRelease::MaskRelease(snip, clip, noise_multiplier),
            ..Self::for_plan(plan)
        }
    }

    /// Plays another mechanism, such as one of your own, against the claim of the plan. The
    /// function makes the mechanism of one trial, given the seed of its noise.
    pub fn with_mechanism(
        self,
        factory: impl Fn([u8; 32]) -> Result<Box<dyn Mechanism>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            mechanism: Arc::new(factory),
            is_plan_mechanism: false,
            observes_selections: true,
            ..self
        }
    }

    /// Sets the name in the report; by default that of the method.
    pub fn name(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// Sets the number of trials with the canary, and of as many without it: 20,000 by default;
    /// fewer than 100 are refused.
    pub fn trials(self, trials: usize) -> Self {
        Self { trials, ..self }
    }

    /// Sets the norm of the canary's gradient, as a multiple of the clip norm. Ten by default.
    pub fn canary_norm(self, multiple: f64) -> Self {
        Self { canary_norm: multiple, ..self }
    }

    /// Sets the number of coordinates of a gradient, an even number: 256 by default.
    pub fn dimension(self, coordinates: usize) -> Self {
        Self { dimension: coordinates, ..self }
    }

    /// Sets the delta of all epsilons; by default that of the plan.
    pub fn delta(self, delta: Delta) -> Self {
        Self { delta: Some(delta), ..self }
    }

    /// Sets the seed of all trials, 0 by default. An audit with the same seed gives the same
    /// result.
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Calls `callback` with the number of finished trials and of all trials of both worlds, from
    /// any thread.
    pub fn on_progress(self, callback: impl Fn(usize, usize) + Send + Sync + 'static) -> Self {
        Self { on_trial: Some(Arc::new(callback)), ..self }
    }

    /// Plays all trials and evaluates them.
    ///
    /// # Errors
    /// `Setting` for numbers out of range, and for a plan without noise or on disjoint batches;
    /// errors of the mechanism.
    pub fn run(&self) -> Result<AuditReport> {
        let began = Instant::now();
        if self.trials < MIN_TRIALS {
            let why = format!("fewer than {MIN_TRIALS} trials cannot refute a claim");
            return Err(Error::setting("trials", self.trials, why).fix("use for example 20000"));
        }
        let stages = stages_of(&self.plan)?;
        require_poisson_sampling(&self.plan)?;
        let setup = CanaryNetwork::new(&self.plan, self.dimension, self.canary_norm)?;
        let (game, claim, stages, rate) = self.game(setup, stages)?;
        let (without, with) = self.play(&*game)?;
        let Evaluation { verdict, lower_bound, mu, refuted_by, best } =
            Evaluation::from_trials(game.statistics(), &claim, &without, &with);
        let delta = claim.delta.0;
        Ok(AuditReport {
            method: self.name.clone(),
            verdict,
            claimed_epsilon: claim.epsilon,
            is_proved: self.is_plan_mechanism && claim.epsilon.is_some(),
            why: claim.refusal_reason.clone(),
            compared_epsilon: claim.compared_epsilon,
            delta,
            lower_bound,
            mu_lower_bound: mu,
            mu_lower_bound_epsilon: if mu > 0.0 { gdp::epsilon_at_delta(mu, delta) } else { 0.0 },
            confidence: CONFIDENCE,
            trials: self.trials,
            statistic: best.statistic,
            false_positive_rate: best.rates.false_positive,
            true_positive_rate: best.rates.true_positive,
            false_positive_rate_upper: best.rates.false_positive_upper,
            true_positive_rate_lower: best.rates.true_positive_lower,
            true_positive_rate_allowed: claim.trade_off.max_tpr(best.rates.false_positive_upper),
            refuted_by,
            sampling_rate: rate.0,
            noise_multiplier: stages.at(0).noise_multiplier,
            steps: stages.steps(),
            canary_norm: self.canary_norm,
            dimension: self.dimension,
            seed: self.seed,
            seconds: began.elapsed().as_secs_f64(),
            roc_curve: best.roc_curve,
            allowed_roc_curve: claim.allowed_roc_curve(),
        })
    }

    /// Returns the game, the claim, and stages and sampling rate of the releases of one trial.
    fn game(
        &self,
        setup: CanaryNetwork,
        stages: Stages,
    ) -> Result<(Box<dyn Game>, PrivacyClaim, Stages, SamplingRate)> {
        let plan = &self.plan;
        let privacy = plan.privacy().map(|privacy| privacy.delta);
        let delta = self.delta.or(privacy).unwrap_or(Delta(1e-5));
        match &self.audited {
            AuditedRelease::TrainingSteps => {
                let rate = SamplingRate(plan.sampling_rate());
                let event = plan.releases_by_role_after(plan.steps()).training;
                let refused = (plan.descriptor()?.not_covered_reason)(plan);
                let claim = PrivacyClaim::new(&event, refused, &stages, rate, delta)?;
                let (played, mechanism) = (stages.clone(), self.mechanism.clone());
                let game =
                    TrainingGame::new(plan, played, mechanism, setup, self.observes_selections)?;
                Ok((Box::new(game), claim, stages, rate))
            }
            AuditedRelease::MaskRelease(snip, clip, sigma) => {
                let (stages, rate) = (Stages::constant(*sigma, 1)?, SamplingRate(1.0));
                let claim = PrivacyClaim::new(&snip.event()?, None, &stages, rate, delta)?;
                let game = SnipMaskGame::new(*snip, (*clip, *sigma), &setup, plan.examples() - 1)?;
                Ok((Box::new(game), claim, stages, rate))
            }
        }
    }

    /// Plays all trials and returns their values without and with the canary.
    fn play(&self, game: &dyn Game) -> Result<(Values, Values)> {
        let done = AtomicUsize::new(0);
        let trial = |i: usize| {
            let with_canary = i >= self.trials;
            let seeds = Seeds::new(Some(self.seed), &format!("audit {} {i}", self.name))?;
            let values = game.play(with_canary, &seeds)?;
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            if let Some(hear) = &self.on_trial {
                hear(done, 2 * self.trials);
            }
            Ok(values)
        };
        let total = 2 * self.trials;
        let chunk = |i: usize| -> Result<Vec<_>> {
            (i * CHUNK..total.min((i + 1) * CHUNK)).map(trial).collect()
        };
        let mut all = Vec::with_capacity(total);
        let mut outcome = Ok(());
        worker_pool::run_in_order(total.div_ceil(CHUNK), chunk, |_, values| match values {
            Ok(values) => all.extend(values),
            Err(error) => outcome = Err(error),
        })?;
        outcome?;
        let world = |trials: &[Vec<f64>]| -> Values {
            let statistics = 0..game.statistics().len();
            statistics.map(|s| trials.iter().map(|values| values[s]).collect()).collect()
        };
        let (without, with) = all.split_at(self.trials);
        Ok((world(without), world(with)))
    }
}
