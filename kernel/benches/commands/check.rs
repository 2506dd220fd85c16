//! `bench --check`: compares a device with the fused executor of the CPU, model by model: sums and
//! norms of every kind of step, noise, and what each method releases.

use std::process::ExitCode;

use epsilab::Result;
use epsilab::burn::module::Module;
use epsilab::device::{DeviceGuard, DeviceSpec, with_rehearsal_mark};
use epsilab::engine::{
    Batch, ClipRule, ClippedSum, CoordinateWeights, Executor, GaussianNoise, Gradients,
};
use epsilab::mask::{CoordinateSelector, Dropping, RandomMask};
use epsilab::nn::Network;
use serde::Serialize;

use super::step::{CLIP, ExecutorChoice};
use super::{Case, data};
use crate::stdout;

/// Examples in the batch; some are clipped and some are not.
const EXAMPLES: usize = 16;
/// Tolerance for per-example norms, relative L2 error.
const NORM_TOLERANCE: f64 = 1e-3;
/// Tolerance for noise, in standard deviations. Both sides use the same random bits.
const NOISE_TOLERANCE: f64 = 1e-4;
/// Fraction of the coordinates that masked steps leave out.
const MASKED_FRACTION: f64 = 0.5;

/// Tolerance for the gradient of one parameter, relative L2 error. GPUs may round the factors of
/// products to ten bits; wrong formulas differ by far more.
fn rounding(device: DeviceSpec) -> f64 {
    if device == DeviceSpec::Cpu { 1e-4 } else { 1e-2 }
}

/// One comparison.
#[derive(Clone, Debug, Serialize)]
struct Checked {
    model: &'static str,
    device: String,
    what: &'static str,
    difference: f64,
    allowed: f64,
    ok: bool,
}

/// Compares and prints the results. The exit code is 1 if anything differs.
///
/// # Errors
/// Errors of steps on the device.
pub fn run(cases: &[Case<'_>], json: bool) -> Result<ExitCode> {
    let mut all = Vec::new();
    for case in cases {
        case.device.check()?;
        let checked = DeviceGuard::new(case.device).run(|| compare(case))?;
        for one in checked.iter().filter(|_| !json) {
            let Checked { model, what, difference, allowed, ok, .. } = one;
            let verdict = if *ok { "ok" } else { "DIFFERS" };
            stdout::print_line(&format!(
                "{model:<17}  {what:<22}  {difference:>8.1e}  of {allowed:.0e}  {verdict}"
            ))?;
        }
        all.extend(checked);
    }
    if json {
        stdout::print_line(&serde_json::json!(all).to_string())?;
    }
    let wrong = all.iter().filter(|one| !one.ok).count();
    if wrong > 0 {
        eprintln!("{wrong} of {} comparisons differ by more than rounding", all.len());
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

fn compare(case: &Case<'_>) -> Result<Vec<Checked>> {
    let (model, rounding) = (case.entry.smooth_model()?, rounding(case.device));
    let batch = data::pool(case.entry, EXAMPLES)?.swap_remove(0);
    let mask =
        RandomMask::prune(MASKED_FRACTION).seed(1).mask(&model)?.to_weights(model.network())?;
    let on_device = model.network().clone().to_device(&case.device.burn_device());
    // On the CPU the automatic choice is the executor that it would be compared with.
    let other = if case.device == DeviceSpec::Cpu { ExecutorChoice::Tap } else { case.executor };
    let side = |network, executor: ExecutorChoice| ComparisonSide {
        network,
        batch: &batch,
        executor,
        gradient_executor: executor.executor(),
    };
    let sides = [side(on_device, other), side(model.network().clone(), ExecutorChoice::Auto)];
    let mut all = Vec::new();
    let mut add = |what, difference: f64, allowed| {
        let (model, device) = (case.entry.name, with_rehearsal_mark(&case.device.to_string()));
        // NaN is a difference.
        let ok = difference <= allowed;
        all.push(Checked { model, device, what, difference, allowed, ok });
    };

    let plain = ClipRule::unclipped();
    let half = ClipRule::flat(median(&sides[1].clipped(&plain, None)?.norms));
    for (what, rule, mask) in [
        ("plain sum", &plain, None),
        ("clipped sum", &half, None),
        ("masked sum", &half, Some(&mask)),
    ] {
        let [got, want] = on_both_sides(&sides, |side| Ok(side.clipped(rule, mask)?.sum))?;
        add(what, apart(&got, &want, mask), rounding);
    }
    for (what, mask) in [("norms", None), ("masked norms", Some(&mask))] {
        let [got, want] =
            on_both_sides(&sides, |side| Ok(side.clipped(&half, mask)?.norms.to_vec()))?;
        add(what, relative(&got, &want, 0.0), NORM_TOLERANCE);
    }
    for (what, mask) in [("noise", None), ("masked noise", Some(&mask))] {
        let [got, want] = on_both_sides(&sides, |side| side.noise(mask))?;
        add(what, max_abs_difference(&got, &want, mask), NOISE_TOLERANCE);
    }
    for (what, rule) in [
        ("dropped at random", Dropping::random(MASKED_FRACTION)),
        ("dropped the smallest", Dropping::magnitude(MASKED_FRACTION)),
    ] {
        let [got, want] = on_both_sides(&sides, |side| side.chosen(rule))?;
        add(what, apart(&got, &want, None), 0.0);
    }
    for (what, private, mask) in [
        ("released by dp-sgd", true, None),
        ("released by dp-ssgd", true, Some(&mask)),
        ("released non-private", false, None),
    ] {
        let [got, want] = on_both_sides(&sides, |side| side.released(private, mask))?;
        add(what, apart(&got, &want, mask), rounding);
    }
    Ok(all)
}

/// Results of the device and of the CPU.
fn on_both_sides<'a, T>(
    sides: &[ComparisonSide<'a>; 2],
    measure: impl Fn(&ComparisonSide<'a>) -> Result<T>,
) -> Result<[T; 2]> {
    Ok([measure(&sides[0])?, measure(&sides[1])?])
}

/// One side of the comparison.
struct ComparisonSide<'a> {
    network: Network,
    batch: &'a Batch,
    executor: ExecutorChoice,
    gradient_executor: Box<dyn Executor>,
}

impl ComparisonSide<'_> {
    fn clipped(&self, rule: &ClipRule, mask: Option<&CoordinateWeights>) -> Result<ClippedSum> {
        self.gradient_executor.weighted_sum(&self.network, self.batch, rule, mask)
    }

    /// Noise of one standard deviation, added on the device of this side.
    fn noise(&self, mask: Option<&CoordinateWeights>) -> Result<Gradients> {
        let mut sum = self.clipped(&ClipRule::flat(CLIP), mask)?.sum;
        sum.scale(0.0);
        let mut noise = GaussianNoise::new([7; 32]);
        match mask {
            None => noise.add_to(&mut sum, 1.0)?,
            Some(mask) => noise.add_to_selected(&mut sum, 1.0, mask)?,
        }
        Ok(sum)
    }

    /// The selected coordinates of a step, as ones and zeros.
    fn chosen(&self, rule: Dropping) -> Result<Gradients> {
        let chosen =
            CoordinateSelector::new(None, Some(rule), 1, [5; 32]).next_selection(&self.network)?;
        let entries = chosen.map(|weights| weights.entries().to_vec()).unwrap_or_default();
        Ok(Gradients { entries })
    }

    /// The released gradient of the first step of a method.
    fn released(&self, private: bool, mask: Option<&CoordinateWeights>) -> Result<Gradients> {
        let rule = private.then(|| ClipRule::flat(CLIP));
        let mut mechanism = self.executor.mechanism(rule, self.batch.len())?;
        Ok(mechanism.release(&self.network, self.batch, mask)?.gradient)
    }
}

/// The largest relative L2 error of a parameter. The norm of a parameter counts as at least 1/1000
/// of that of the whole gradient.
fn apart(got: &Gradients, want: &Gradients, mask: Option<&CoordinateWeights>) -> f64 {
    if has_unmasked_values(got, mask) || got.entries.len() != want.entries.len() {
        return f64::INFINITY;
    }
    let least = 1e-3 * want.l2_norm();
    let pairs = got.entries.iter().zip(&want.entries);
    worst(pairs.map(|(got, want)| relative(&got.values, &want.values, least)))
}

/// The largest difference of a coordinate.
fn max_abs_difference(got: &Gradients, want: &Gradients, mask: Option<&CoordinateWeights>) -> f64 {
    let (a, b) = (flat(got), flat(want));
    if a.len() != b.len() || has_unmasked_values(got, mask) {
        return f64::INFINITY;
    }
    worst(a.iter().zip(&b).map(|(a, b)| f64::from((a - b).abs())))
}

/// True if a coordinate that the mask leaves out is not exactly zero.
fn has_unmasked_values(gradients: &Gradients, mask: Option<&CoordinateWeights>) -> bool {
    let Some(mask) = mask else { return false };
    let pairs = gradients.entries.iter().zip(mask.entries());
    let mut all = pairs.flat_map(|(entry, weights)| entry.values.iter().zip(&weights.values));
    all.any(|(&value, &weight)| weight == 0.0 && value != 0.0)
}

fn flat(gradients: &Gradients) -> Vec<f32> {
    gradients.entries.iter().flat_map(|entry| entry.values.iter().copied()).collect()
}

fn relative(got: &[f32], want: &[f32], least: f64) -> f64 {
    if got.len() != want.len() {
        return f64::INFINITY;
    }
    let square = |x: f64| x * x;
    let off = got.iter().zip(want).map(|(&a, &b)| square(f64::from(a) - f64::from(b)));
    let length = want.iter().map(|&b| square(f64::from(b))).sum::<f64>().sqrt();
    match off.sum::<f64>().sqrt() {
        0.0 => 0.0,
        off => off / length.max(least),
    }
}

/// The maximum; NaN if one value is NaN.
fn worst(differences: impl Iterator<Item = f64>) -> f64 {
    differences.map(|off| if off.is_nan() { f64::INFINITY } else { off }).fold(0.0, f64::max)
}

/// The median norm, so that some examples are clipped and some are not.
fn median(norms: &[f32]) -> f64 {
    let mut sorted = norms.to_vec();
    sorted.sort_by(f32::total_cmp);
    f64::from(sorted[sorted.len() / 2])
}

#[cfg(test)]
mod tests {
    use super::super::variants::VariantArgs;
    use super::super::zoo;
    use super::*;
    use epsilab::nn::{Activation, Model};

    static NO_VARIANTS: VariantArgs =
        VariantArgs { masked: None, clip_rule: Vec::new(), method: None, train_only: None };

    fn case() -> Case<'static> {
        let variants = &NO_VARIANTS;
        let entry = zoo::find("papernot_cnn").unwrap();
        let (device, executor) = (DeviceSpec::Cpu, ExecutorChoice::Auto);
        Case { entry, device, batch: 8, threads: 1, steps: 1, warmup: 0, executor, variants }
    }

    #[test]
    fn both_executors_of_the_cpu_agree_on_everything() {
        let all = compare(&case()).unwrap();
        assert_eq!(all.len(), 12);
        for one in &all {
            assert!(one.ok && one.difference <= one.allowed, "{one:?}");
        }
        // The two computations differ.
        assert!(all.iter().any(|one| one.difference > 0.0));
    }

    /// The difference that rounding the pixels to the ten bits of a TF32 product makes to a sum.
    fn rounding_of_factors(model: &Model) -> f64 {
        let exact = data::pool(case().entry, EXAMPLES).unwrap().swap_remove(0);
        let rounded = (0..exact.len()).flat_map(|example| exact.features(example));
        let rounded = rounded.map(|x| f32::from_bits((x.to_bits() + 0x1000) & !0x1fff)).collect();
        let rounded = Batch::new(rounded, exact.shape(), exact.labels().to_vec()).unwrap();
        let sum = |batch: &Batch| {
            let executor = ExecutorChoice::Auto.executor();
            let network = model.network();
            executor.weighted_sum(network, batch, &ClipRule::unclipped(), None).unwrap().sum
        };
        apart(&sum(&rounded), &sum(&exact), None)
    }

    #[test]
    fn gpus_may_round_the_factors_of_products() {
        let entry = case().entry;
        let allowed = rounding(DeviceSpec::Cuda(0));
        let smooth = rounding_of_factors(&entry.smooth_model().unwrap());
        assert!(smooth < allowed / 2.0, "{smooth}");
        // Which pixel is the maximum is a matter of rounding.
        let with_maxima = rounding_of_factors(&entry.with(Activation::Tanh).unwrap());
        assert!(with_maxima > allowed, "{with_maxima}");
    }

    #[test]
    fn wrong_and_non_finite_sums_are_detected() {
        assert!(relative(&[1.0, 2.01], &[1.0, 2.0], 0.0) > NORM_TOLERANCE);
        assert!(relative(&[1.0, 2.0001], &[1.0, 2.0], 0.0) < NORM_TOLERANCE);
        assert!(worst([0.0, relative(&[f32::NAN], &[1.0], 0.0), 0.0].into_iter()).is_infinite());
        assert!(relative(&[1.0], &[1.0, 0.0], 0.0).is_infinite());
        assert!(relative(&[1e-9], &[0.0], 0.0).is_infinite());
        // One wrong parameter is not hidden by the others.
        let mut want = Gradients::zeros_like(case().entry.model().unwrap().network());
        want.entries.iter_mut().for_each(|entry| entry.values.iter_mut().for_each(|v| *v = 1.0));
        let mut got = want.clone();
        got.entries[1].values[0] = 1.5;
        assert!(apart(&got, &want, None) > rounding(DeviceSpec::Cuda(0)));
    }

    #[test]
    fn what_a_mask_leaves_out_must_be_exactly_zero() {
        let model = case().entry.model().unwrap();
        let mask = RandomMask::prune(0.5).seed(1).mask(&model).unwrap();
        let mask = mask.to_weights(model.network()).unwrap();
        let mut sum = Gradients { entries: mask.entries().to_vec() };
        let want = sum.clone();
        assert_eq!(apart(&sum, &want, Some(&mask)), 0.0);
        let out = sum.entries[0].values.iter_mut().find(|value| **value == 0.0).unwrap();
        *out = 1e-20;
        assert!(apart(&sum, &want, Some(&mask)).is_infinite());
        assert!(max_abs_difference(&sum, &want, Some(&mask)).is_infinite());
        assert_eq!(max_abs_difference(&sum, &want, None), f64::from(1e-20f32));
        sum.entries[0].values[0] = f32::NAN;
        assert!(max_abs_difference(&sum, &want, None).is_infinite());
    }
}
