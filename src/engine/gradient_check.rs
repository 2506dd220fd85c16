//! Comparison of an executor's gradients with the reference, on the user's own model and data.

use std::fmt;

use super::gradient_norms::quantile;
use super::{AutoExecutor, Batch, ClipRule, Executor, Gradients, ReferenceExecutor};
use crate::data::Dataset;
use crate::nn::{Model, Network};
use crate::{Error, ErrorKind, Result};

/// Number of examples that are compared. Each costs one backward pass.
const MAX_EXAMPLES: usize = 8;
/// Relative difference that f32 rounding may cause. Wrong formulas differ by far more.
const TOLERANCE: f64 = 1e-4;

/// Result of the comparison for one parameter tensor; see [`GradientCheck`].
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterCheck {
    /// Path of the parameter, such as `"0.weight"`.
    pub path: String,
    /// Shape of the parameter.
    pub shape: Vec<usize>,
    /// Norm method of the parameter: `"ghost"` or `"instantiated"`.
    pub norm_method: &'static str,
    /// Largest relative L2 difference over the per-example gradients and the clipped sum.
    pub difference: f64,
}

impl ParameterCheck {
    /// Returns whether the difference is within rounding.
    pub fn passed(&self) -> bool {
        self.difference <= TOLERANCE
    }
}

/// Result of comparing an executor with one backward pass per example.
///
/// It holds relative differences only, no gradient, norm or loss of an example. It is a test on a
/// few examples, not a proof for all inputs. It is computed from the data without noise and is not
/// accounted for: treat it like any other non-private output.
#[derive(Clone, Debug, PartialEq)]
pub struct GradientCheck {
    /// Number of examples that were compared.
    pub examples: usize,
    /// Results of the comparison, one entry per parameter tensor.
    pub parameters: Vec<ParameterCheck>,
    /// Relative L2 difference of the examples' norms.
    pub norms: f64,
    /// Relative L2 difference of the examples' losses.
    pub losses: f64,
}

impl GradientCheck {
    /// Returns whether all differences are within rounding.
    pub fn passed(&self) -> bool {
        let rest = [self.norms, self.losses].iter().all(|&difference| difference <= TOLERANCE);
        rest && self.parameters.iter().all(ParameterCheck::passed)
    }
}

impl Model {
    /// Compares the gradients that training would clip with those of one plain backward pass per
    /// example, on up to 8 examples of the training part. It compares each example's own gradient,
    /// and the sum clipped at the median norm, where some examples are clipped and some are not.
    ///
    /// # Errors
    /// If the data do not fit the model, are empty, or give no finite gradient.
    pub fn check_gradients(&self, data: &Dataset) -> Result<GradientCheck> {
        let indices: Vec<u32> = (0..data.train().len().min(MAX_EXAMPLES) as u32).collect();
        check_gradients(
            &AutoExecutor::default(),
            self.network(),
            &Batch::from_examples(data.train(), &indices)?,
        )
    }
}

/// Compares an executor with the [`ReferenceExecutor`] on a small batch.
///
/// # Errors
/// If the batch does not fit the network, is empty, or gives no finite gradient.
pub fn check_gradients(
    executor: &dyn Executor,
    network: &Network,
    batch: &Batch,
) -> Result<GradientCheck> {
    let refuse = |why: &str| {
        let what = format!("a gradient comparison on {} examples", batch.len());
        Err(Error::new(ErrorKind::Model, what, why))
    };
    if batch.is_empty() {
        return refuse("the batch is empty");
    }
    let batch = &batch.in_memory()?;
    let unclipped = ReferenceExecutor.clipped_sum(network, batch, &ClipRule::unclipped())?;
    let Some(median) = quantile(&unclipped.norms, 0.5) else {
        return refuse("no example has a finite gradient").map_err(|e| {
            e.fix("check the features for outliers, or scale them: data.normalized(mean, std)")
        });
    };
    // If all gradients are zero, any bound will do.
    let rule = ClipRule::flat(if median > 0.0 { median } else { 1.0 });
    let want = ReferenceExecutor.clipped_sum(network, batch, &rule)?;
    let got = executor.clipped_sum(network, batch, &rule)?;
    let mut differences = relative_differences(&got.sum, &want.sum);
    for i in 0..batch.len() {
        let (features, label) = (batch.features(i).to_vec(), batch.label(i));
        let one = Batch::with_copies(features, batch.shape(), vec![label], batch.copies())?;
        let rule = ClipRule::unclipped();
        let want = ReferenceExecutor.clipped_sum(network, &one, &rule)?;
        let got = executor.clipped_sum(network, &one, &rule)?;
        let each = relative_differences(&got.sum, &want.sum);
        differences.iter_mut().zip(each).for_each(|(worst, each)| *worst = worst.max(each));
    }
    let parameters =
        network.parameters().into_iter().zip(executor.norm_methods(network)).zip(differences);
    let parameters = parameters.map(|((parameter, norm_method), difference)| ParameterCheck {
        path: parameter.path,
        shape: parameter.shape,
        norm_method,
        difference,
    });
    Ok(GradientCheck {
        examples: batch.len(),
        parameters: parameters.collect(),
        norms: relative_of_finite(&got.norms, &want.norms),
        losses: relative_of_finite(&got.losses, &want.losses),
    })
}

/// Computes the relative L2 difference of each entry. The norm of an entry is taken as at least
/// 1e-3 of the norm of all entries: the gradient of a bias before a normalisation is rounding
/// error only. With this floor, an entry that is missing is still detected if its norm is above
/// 1e-7 of the total.
fn relative_differences(actual: &Gradients, expected: &Gradients) -> Vec<f64> {
    let floor = 1e-3 * expected.l2_norm();
    let each =
        expected.entries.iter().enumerate().map(|(i, expected)| match actual.entries.get(i) {
            Some(actual) if actual.values.len() == expected.values.len() => {
                ratio(&actual.values, &expected.values, floor)
            }
            _ => f64::INFINITY,
        });
    each.collect()
}

/// Computes the relative L2 difference of norms or losses; infinite if the two do not exclude the
/// same examples.
fn relative_of_finite(actual: &[f32], expected: &[f32]) -> f64 {
    let same = actual.len() == expected.len()
        && actual.iter().zip(expected).all(|(a, b)| a.is_finite() == b.is_finite());
    if !same {
        return f64::INFINITY;
    }
    let finite = |v: &[f32]| v.iter().copied().filter(|v| v.is_finite()).collect::<Vec<_>>();
    ratio(&finite(actual), &finite(expected), 0.0)
}

fn ratio(actual: &[f32], expected: &[f32], floor: f64) -> f64 {
    let square = |x: f64| x * x;
    let pairs = actual.iter().zip(expected).map(|(&a, &b)| square(f64::from(a) - f64::from(b)));
    let off = pairs.sum::<f64>().sqrt();
    let norm = expected.iter().map(|&b| square(f64::from(b))).sum::<f64>().sqrt();
    match off / norm.max(floor) {
        // Both are equal, possibly zero.
        _ if off == 0.0 => 0.0,
        ratio if ratio.is_finite() => ratio,
        _ => f64::INFINITY,
    }
}

impl fmt::Display for GradientCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows: Vec<[String; 5]> =
            vec![["parameter", "shape", "norms by", "difference", ""].map(str::to_owned)];
        let mut add = |name: &str, shape: &str, norm_method: &str, difference: f64| {
            let verdict = if difference <= TOLERANCE { "agrees" } else { "DIFFERS" };
            let difference = format!("{difference:.1e}");
            rows.push([name, shape, norm_method, &difference, verdict].map(str::to_owned));
        };
        for ParameterCheck { path, shape, norm_method, difference } in &self.parameters {
            add(path, &format!("{shape:?}"), norm_method, *difference);
        }
        add("norms", "", "", self.norms);
        add("losses", "", "", self.losses);
        let width = |c: usize| rows.iter().map(|row| row[c].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..5).map(width).collect();
        writeln!(
            f,
            "Gradients of {} examples, compared with one backward pass per example:",
            self.examples
        )?;
        for row in &rows {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
            writeln!(f, "  {}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        if self.passed() {
            write!(f, "All agree within {TOLERANCE:.0e}: training clips the right gradients.")
        } else {
            write!(
                f,
                "They do NOT agree within {TOLERANCE:.0e}: clipping would bound the wrong \
                 gradients. Do not train this model privately; please report it."
            )
        }
    }
}

#[cfg(test)]
mod tests;
