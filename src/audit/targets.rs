//! The table of methods that an auditor knows by name, and of negative controls.

use super::builder::Audit;
use super::controls::{MaskFromGradients, PlanMechanism};
use crate::data;
use crate::engine::ClipRule;
use crate::mask::{DpSnip, Dropping, RandomMask};
use crate::methods::{self, BackpropClip, DpSgd, DpSsgd, Method, MethodDescriptor, Plan};
use crate::privacy::{ClipSchedule, Delta, NoiseMultiplier, Stages};
use crate::{Error, Result};

/// Settings of an audit by name.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Probability that an example is in a step, above 0 and at most 1. The audit takes the
    /// nearest rate of whole batches and data sets, and reports it.
    pub sampling_rate: f64,
    /// Standard deviation of the noise on the sum, as a multiple of the clip norm.
    pub noise_multiplier: f64,
    /// Steps of one trial; `None` for the default of the method.
    pub steps: Option<u64>,
    /// Trials with the canary, and as many without it.
    pub trials: usize,
    /// Norm of the canary's gradient, as a multiple of the clip norm.
    pub canary_norm: f64,
    /// Number of coordinates of a gradient.
    pub dimension: usize,
    /// The delta of all epsilons.
    pub delta: f64,
    /// Seed of the trials.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            sampling_rate: 1.0,
            noise_multiplier: 1.0,
            steps: None,
            trials: 20_000,
            canary_norm: 10.0,
            dimension: 256,
            delta: 1e-5,
            seed: 0,
        }
    }
}

/// A method or a negative control that can be audited by name.
#[derive(Clone, Copy)]
pub struct AuditTarget {
    /// Name in commands.
    pub name: &'static str,
    /// One sentence on what is audited.
    pub summary: &'static str,
    /// Whether the target is wrong on purpose: a correct auditor refutes it.
    pub is_control: bool,
    /// Steps of one trial.
    steps: u64,
    make: Make,
}

/// Construction of the audit of a target.
#[derive(Clone, Copy)]
enum Make {
    /// Audit made by a function.
    Variant(fn(&Settings) -> Result<Audit>),
    /// Audit of a method with its defaults.
    Method(&'static MethodDescriptor),
}

/// Options with the number of steps.
struct Settings {
    options: Options,
    steps: u64,
}

/// Targets beside the methods with their defaults: their variants, and controls.
static VARIANTS: [AuditTarget; 11] = [
    method("dp-ssgd", "DP-SGD on the half of the coordinates that each step selects", |s| {
        let half = Dropping::random(0.5);
        s.audit(&DpSsgd::new().pre_prune(RandomMask::prune(0.3)).drop_gradients(half))
    }),
    method("dp-snip", "the noisy release that makes a mask by DP-SNIP", |s| {
        let (plan, sigma) = (s.plan(&DpSgd::new())?, s.options.noise_multiplier);
        let snip = DpSnip::prune(0.5).clip(1.0).noise_multiplier(sigma);
        Ok(Audit::for_mask_release(&plan, snip, 1.0, NoiseMultiplier(sigma)))
    }),
    method("auto-s", "DP-SGD with automatic clipping (AUTO-S)", |s| {
        s.audit(&DpSgd::new().clip_rule(ClipRule::auto_s(1.0)))
    }),
    method("normalised", "DP-SGD with normalised gradients", |s| {
        s.audit(&DpSgd::new().clip_rule(ClipRule::normalised(1.0)))
    }),
    AuditTarget {
        steps: SCHEDULED_STEPS,
        ..method("decaying-clip", "DP-SGD with a public schedule of the clip norm", |s| {
            s.audit(&DpSgd::new().clip_schedule(ClipSchedule::decay(0.5)))
        })
    },
    method("per-layer", "DP-SGD with clipping per layer", |s| {
        s.audit(&DpSgd::new().clip_rule(ClipRule::per_layer(1.0)))
    }),
    control("backprop-clipping-original", "the same with the noise of the published code", |s| {
        let published = s.plan(&BackpropClip::new().as_published())?;
        let audit = s.audit(&BackpropClip::new())?;
        Ok(audit.with_mechanism(move |seed| Ok(Box::new(PlanMechanism::new(&published, seed)?))))
    }),
    control("half-noise", "DP-SGD with half the noise that the ledger charges", |s| {
        s.played_by(s.options.noise_multiplier / 2.0, 1.0)
    }),
    control("no-clip", "DP-SGD with the right noise and without clipping", |s| {
        s.played_by(s.options.noise_multiplier / UNCLIPPED, UNCLIPPED)
    }),
    control("noise-over-batch-twice", "DP-SGD with noise divided by the batch size twice", |s| {
        let batch_size = s.plan(&DpSgd::new())?.expected_batch_size();
        s.played_by(s.options.noise_multiplier / batch_size as f64, 1.0)
    }),
    control("mask-from-gradients", "DP-SGD on coordinates chosen by the batch's gradients", |s| {
        let plan = s.plan(&DpSgd::new())?;
        let audit = s.audit(&DpSgd::new())?;
        Ok(audit.with_mechanism(move |seed| {
            Ok(Box::new(MaskFromGradients::new(plan.mechanism(seed)?)))
        }))
    }),
];

/// A clip norm that clips no gradient of an audit.
const UNCLIPPED: f64 = 1e9;

const fn method(
    name: &'static str,
    summary: &'static str,
    build: fn(&Settings) -> Result<Audit>,
) -> AuditTarget {
    AuditTarget { name, summary, is_control: false, steps: 1, make: Make::Variant(build) }
}

const fn control(
    name: &'static str,
    summary: &'static str,
    build: fn(&Settings) -> Result<Audit>,
) -> AuditTarget {
    AuditTarget { name, summary, is_control: true, steps: 1, make: Make::Variant(build) }
}

/// Steps of a trial whose noise or clip norm changes.
const SCHEDULED_STEPS: u64 = 4;

impl AuditTarget {
    /// Creates the target of a method with its defaults.
    fn of_method(method: Box<dyn Method>) -> Self {
        let descriptor = method.descriptor();
        let settings = Settings { options: Options::default(), steps: SCHEDULED_STEPS };
        let stages = settings.plan(&*method).and_then(|plan| plan.stages());
        let is_scheduled = |stages: &Stages| stages.as_slice().len() > 1;
        let changes = matches!(&stages, Ok(Some(stages)) if is_scheduled(stages));
        let steps = if changes { SCHEDULED_STEPS } else { 1 };
        let (name, summary) = (descriptor.name, descriptor.summary);
        Self { name, summary, is_control: false, steps, make: Make::Method(descriptor) }
    }
}

/// Returns all audit targets: every private method of the registry, variants of methods, and
/// controls.
pub fn targets() -> Vec<AuditTarget> {
    let is_variant = |name: &str| VARIANTS.iter().any(|variant| variant.name == name);
    let private = methods::methods().into_iter().filter(|method| {
        let descriptor = method.descriptor();
        descriptor.adds_noise && !is_variant(descriptor.name)
    });
    private.map(AuditTarget::of_method).chain(VARIANTS).collect()
}

/// Returns the audit of a method or a control by its name.
///
/// # Errors
/// `Setting` for an unknown name or numbers out of range.
pub fn by_name(name: &str, options: &Options) -> Result<Audit> {
    let subjects = targets();
    let Some(subject) = subjects.iter().find(|subject| subject.name == name) else {
        let names: Vec<&str> = subjects.iter().map(|subject| subject.name).collect();
        return Err(Error::setting("method", name, "unknown method")
            .fix(format!("choose from {}", names.join(", "))));
    };
    let steps = options.steps.unwrap_or(subject.steps);
    let settings = Settings { options: options.clone(), steps };
    let audit = match subject.make {
        Make::Variant(make) => make(&settings)?,
        Make::Method(descriptor) => settings.audit(&*(descriptor.method)())?,
    };
    Ok(audit
        .name(name)
        .trials(options.trials)
        .canary_norm(options.canary_norm)
        .dimension(options.dimension)
        .delta(Delta(options.delta))
        .seed(options.seed))
}

impl Settings {
    /// Returns the plan of a method with these settings; the rest are its own or the defaults.
    fn plan(&self, method: &dyn Method) -> Result<Plan> {
        let mut method = method.clone_box();
        let (batch_size, examples) = sizes(self.options.sampling_rate)?;
        let settings = method.settings_mut();
        settings.expected_batch_size = batch_size;
        settings.steps = Some(self.steps);
        if let Some(private) = method.privacy_settings_mut() {
            private.set_noise_multiplier(self.options.noise_multiplier);
            private.delta = Some(Delta(self.options.delta));
        }
        // Only the number of examples matters to a plan.
        method.plan(&data::from_vecs(vec![0.0; examples], &[1], vec![0; examples], 2)?)
    }

    fn audit(&self, method: &dyn Method) -> Result<Audit> {
        Ok(Audit::for_plan(&self.plan(method)?))
    }

    /// Returns the audit of the claim of DP-SGD, played by DP-SGD with another noise multiplier
    /// and clip norm.
    fn played_by(&self, noise_multiplier: f64, clip: f64) -> Result<Audit> {
        let audit = self.audit(&DpSgd::new())?;
        let options = Options { noise_multiplier, ..self.options.clone() };
        let wrong = Settings { options, steps: self.steps }.plan(&DpSgd::new().clip(clip))?;
        Ok(audit.with_mechanism(move |seed| wrong.mechanism(seed)))
    }
}

/// Returns the expected batch size and number of examples whose quotient is nearest to the
/// sampling rate.
fn sizes(sampling_rate: f64) -> Result<(usize, usize)> {
    const MAX_EXAMPLES: f64 = 1e6;
    let batches = 8..=32;
    if !(sampling_rate > 0.0 && sampling_rate <= 1.0 && 8.0 / sampling_rate <= MAX_EXAMPLES) {
        let why = "the probability that an example is in a step must be from 8e-6 to 1";
        return Err(Error::setting("sampling_rate", sampling_rate, why).fix("use for example 1"));
    }
    let examples = |batch: usize| (batch as f64 / sampling_rate).round();
    let error = |batch: usize| (batch as f64 / examples(batch) / sampling_rate - 1.0).abs();
    let usable = batches.rev().filter(|&batch| examples(batch) <= MAX_EXAMPLES);
    // The largest batch of those that are equally near.
    let rounded = |batch: usize| (error(batch) * 1e9).round() as u64;
    let best = usable.min_by_key(|&batch| rounded(batch)).unwrap_or(8);
    Ok((best, examples(best) as usize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn sizes_give_the_sampling_rate() {
        assert_eq!(sizes(1.0).unwrap(), (32, 32));
        for rate in [0.5, 0.3, 0.05, 0.0043, 1e-5] {
            let (batch, examples) = sizes(rate).unwrap();
            let found = batch as f64 / examples as f64;
            assert!((found / rate - 1.0).abs() < 1e-3 && batch >= 8, "{rate}: {found}");
        }
        for wrong in [0.0, -1.0, 1.1, 1e-6, f64::NAN] {
            assert!(sizes(wrong).unwrap_err().what().contains("sampling_rate"));
        }
    }

    #[test]
    fn every_method_that_adds_noise_can_be_audited() {
        let subjects = targets();
        let steps = |name: &str| subjects.iter().find(|s| s.name == name).map(|s| s.steps);
        for method in methods::methods() {
            let descriptor = method.descriptor();
            assert_eq!(steps(descriptor.name).is_some(), descriptor.adds_noise, "{descriptor:?}");
        }
        assert_eq!(
            ["dp-sgd", "adaptive-dp-sgd", "dynamic-dp-sgd", "decaying-clip"].map(steps),
            [1, 4, 4, 4].map(Some)
        );
    }

    #[test]
    fn names_are_distinct_and_unknown_ones_refused() {
        let names: Vec<_> = targets().iter().map(|subject| subject.name).collect();
        assert!(names.iter().enumerate().all(|(i, name)| !names[..i].contains(name)));
        let error = by_name("dp-sdg", &Options::default()).err().unwrap();
        assert!(error.kind() == ErrorKind::Setting && error.advice().contains("dp-sgd"));
    }
}
