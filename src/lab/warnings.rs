//! Warnings about runs that have learnt nothing, or less than their data allow.

use crate::data::{Dataset, Examples};
use crate::engine::{ClipRule, GradientNorms};
use crate::methods::Plan;
use crate::privacy::digits::{RoundedNearest, format_count, pluralise};
use crate::show::{Coverage, MimeBundle, run_coverage};
use crate::train::{Curve, Run};
use serde::Serialize;
use std::collections::HashMap;
use std::fmt;

/// Number of training examples whose gradient norms are measured.
const NORM_EXAMPLES: usize = 256;
/// The loss counts as flat if it falls by less than this fraction of its first value.
const LEAST_FALL: f64 = 0.01;
/// Ratio of the largest absolute values of two features from which a warning is given.
const FEATURE_SPAN: f64 = 1_000.0;
/// Ratio of the norm of the noise of a whole run to the norm of its largest possible signal from
/// which a warning is given.
const NOISE_TO_SIGNAL: f64 = 0.5;
/// Ratio of the gradient norms to the clip norm from which a warning is given. A clip norm below
/// most norms is common, since the learning rate makes up for it.
const NORMS_TO_CLIP: f64 = 1_000.0;
/// Ratio of the clip norm to the largest gradient norm from which a warning is given.
const CLIP_TO_NORMS: f64 = 10.0;

/// Subject of a [`LearningWarning`]; the names are those of the JSON report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum WarningKind {
    /// The model predicts the same class for all examples.
    OneClass,
    /// The accuracy is no better than that of always answering the largest class.
    Chance,
    /// The training loss does not fall.
    FlatLoss,
    /// The largest absolute values of two features differ by more than 1,000 times.
    FeatureSpan,
    /// The noise of the whole run is large beside the largest possible signal.
    LowSignal,
    /// The clip norm is far below or far above all gradient norms.
    Clipping,
    /// Names of classes differ only in case, spaces or final punctuation.
    SimilarLabels,
}

/// A reason why a run may have learnt nothing, for the owner of the data.
///
/// # Guarantee
/// As its [`coverage`](Self::coverage): most are computed from the examples without noise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LearningWarning {
    /// The subject of the warning.
    pub kind: WarningKind,
    /// The observation, and what may help.
    pub text: String,
    /// Coverage of the observation: what it reveals of private data.
    #[serde(skip)]
    pub coverage: Coverage,
}

impl LearningWarning {
    /// Returns the warning for a cell, with its coverage.
    pub(crate) fn bundle(&self) -> MimeBundle {
        MimeBundle::prose(self.to_string()).with_coverage(self.coverage)
    }
}

impl fmt::Display for LearningWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Warning: {}", self.text)?;
        match self.coverage {
            Coverage::NotCovered => f.write_str(" (For the owner of the data: not covered.)"),
            _ => Ok(()),
        }
    }
}

impl Run {
    /// Returns the reasons why the run may have learnt nothing, most telling first; usually none.
    /// `data` are those that it was trained on. A check whose examples can't be read gives no
    /// warning.
    ///
    /// ```
    /// # use epsilab::prelude::*;
    /// # fn look(run: &Run, data: &Dataset) {
    /// for warning in run.learning_warnings(data) {
    ///     println!("{:?}: {}", warning.kind, warning.text);
    /// }
    /// # }
    /// ```
    ///
    /// # Guarantee
    /// None: training examples and losses are read without noise, and no epsilon covers what the
    /// warnings say of them. Do not choose settings of a private run by them, unless the data are
    /// [public](Dataset::public).
    pub fn learning_warnings(&self, data: &Dataset) -> Vec<LearningWarning> {
        let examples = Coverage::for_raw_data(!self.record().is_public());
        let warning = |kind, coverage, text: Option<String>| {
            text.map(|text| LearningWarning { kind, text, coverage })
        };
        let (one_class, chance) = prediction_warnings(self, data);
        let warnings = [
            warning(WarningKind::OneClass, run_coverage(self.record()), one_class),
            warning(WarningKind::Chance, run_coverage(self.record()), chance),
            warning(WarningKind::FlatLoss, examples, flat_loss(self.curve())),
            warning(WarningKind::FeatureSpan, examples, feature_span(data)),
            warning(WarningKind::LowSignal, Coverage::Public, low_signal(self)),
            warning(WarningKind::Clipping, examples, clipping(self, data)),
            warning(WarningKind::SimilarLabels, examples, similar_labels(data.class_names())),
        ];
        warnings.into_iter().flatten().collect()
    }
}

/// Returns what is wrong with the predictions for the test part: that all are of one class, and
/// that the accuracy is no better than that of the largest class.
fn prediction_warnings(run: &Run, data: &Dataset) -> (Option<String>, Option<String>) {
    let (labels, names) = (data.test().labels(), data.class_names());
    let Some(accuracy) = run.record().test_accuracy else { return (None, None) };
    let shares = class_shares(labels, names.len());
    // Predictions take time, and can be of one class only where the accuracy is the share of one.
    let is_share = shares.iter().any(|share| (share - accuracy).abs() < 0.5 / labels.len() as f64);
    let predicted = is_share.then(|| run.model().predict_examples(data.test()).ok()).flatten();
    let one_class = predicted.and_then(|predicted| one_class(&predicted, labels, names));
    (one_class, chance(accuracy, labels.len(), &shares, names))
}

/// Returns the name of a class.
fn class_name(names: &[String], class: u32) -> String {
    names.get(class as usize).cloned().unwrap_or_else(|| class.to_string())
}

fn one_class(predicted: &[u32], labels: &[u32], names: &[String]) -> Option<String> {
    let (first, label) = (*predicted.first()?, *labels.first()?);
    let is_constant = predicted.iter().all(|class| *class == first);
    let has_several = labels.iter().any(|other| *other != label);
    (is_constant && has_several).then(|| {
        format!(
            "the model predicts `{}` for all {} test examples, so it has learnt nothing about the \
             other classes. More steps, a larger batch, less noise or scaled features may help.",
            class_name(names, first),
            format_count(predicted.len())
        )
    })
}

/// Returns the fraction of the examples in each class.
fn class_shares(labels: &[u32], classes: usize) -> Vec<f64> {
    let mut counts = vec![0_usize; classes];
    labels.iter().for_each(|label| counts[*label as usize] += 1);
    counts.into_iter().map(|count| count as f64 / labels.len() as f64).collect()
}

/// Compares the accuracy with the share of the largest class, with two standard errors.
fn chance(accuracy: f64, examples: usize, shares: &[f64], names: &[String]) -> Option<String> {
    let (class, share) = (0..).zip(shares).max_by(|a, b| a.1.total_cmp(b.1))?;
    let standard_error = (share * (1.0 - share) / examples as f64).sqrt();
    (*share < 1.0 && accuracy <= share + 2.0 * standard_error).then(|| {
        format!(
            "the test accuracy of {:.1} % is no better than that of always answering `{}`, the \
             largest class of the test part ({:.1} %), within two standard errors.",
            100.0 * accuracy,
            class_name(names, class),
            100.0 * share
        )
    })
}

/// Compares the first recorded loss with the mean of the last tenth of the run.
fn flat_loss(curve: &Curve) -> Option<String> {
    let losses = curve.series(|point| point.loss);
    let [(_, first), .., (end, _)] = losses[..] else { return None };
    let last: Vec<f64> =
        losses.iter().filter(|(step, _)| *step >= 0.9 * end).map(|(_, loss)| *loss).collect();
    let last = last.iter().sum::<f64>() / last.len() as f64;
    (last > (1.0 - LEAST_FALL) * first).then(|| {
        format!(
            "the training loss does not fall: it was {} at first and {} at the end. A learning \
             rate that is too small or far too large, unscaled features or too much noise do this.",
            RoundedNearest(first),
            RoundedNearest(last)
        )
    })
}

/// Compares the largest absolute values of the features of a table.
fn feature_span(data: &Dataset) -> Option<String> {
    let examples = data.train();
    let is_table = examples.shape().len() == 1 && data.vocabulary().is_none();
    if !is_table || !examples.is_in_memory() {
        return None;
    }
    let largest = largest_values(examples);
    let nonzero = || (0..).zip(&largest).filter(|(_, value)| **value > 0.0);
    let (low, least) = nonzero().min_by(|a, b| a.1.total_cmp(b.1))?;
    let (high, most) = nonzero().max_by(|a, b| a.1.total_cmp(b.1))?;
    let name = |column: usize| match data.column_names() {
        Some(names) => format!("`{}`", names[column]),
        None => format!("feature {column}"),
    };
    (f64::from(*most) > FEATURE_SPAN * f64::from(*least)).then(|| {
        format!(
            "{} reaches {most} and {} only {least}: gradients follow the largest features, and \
             clipping removes the others. Scale each feature by public constants to about -1 to 1.",
            name(high),
            name(low)
        )
    })
}

/// Returns the largest absolute value of each feature.
fn largest_values(examples: &Examples) -> Vec<f32> {
    let mut largest = vec![0.0_f32; examples.shape().iter().product()];
    for row in examples.features_flat().chunks_exact(largest.len()) {
        for (most, value) in largest.iter_mut().zip(row) {
            *most = most.max(value.abs());
        }
    }
    largest
}

/// Compares the noise of all steps with the largest possible signal: √T·σ·C·√d and T·B·C for T
/// steps, d trained coordinates and an expected batch size of B. A function of the plan alone.
fn low_signal(run: &Run) -> Option<String> {
    let (plan, steps) = (run.plan(), run.record().steps as f64);
    let trained = run.trained_parameters().ok()? as f64;
    let noise = plan.privacy()?.noise_multiplier * trained.sqrt();
    let batch = plan.expected_batch_size() as f64;
    let ratio = noise / (batch * steps.sqrt());
    (ratio > NOISE_TO_SIGNAL).then(|| {
        let factor = ratio / NOISE_TO_SIGNAL;
        let larger = (batch * factor).ceil().min(usize::MAX as f64) as usize;
        format!(
            "the noise of all {} together has {:.0} % of the norm of the largest possible signal. \
             {}A smaller model, a mask or a larger epsilon help as well.",
            pluralise(run.record().steps as usize, "step"),
            100.0 * ratio,
            remedy(plan, larger, factor)
        )
    })
}

/// Names the batch size, or the number of epochs, with which the noise would be small enough.
fn remedy(plan: &Plan, larger_batch: usize, factor: f64) -> String {
    if larger_batch <= plan.examples() {
        format!(
            "At this noise multiplier a batch size of {} would suffice. ",
            format_count(larger_batch)
        )
    } else {
        let epochs = plan.epochs() * factor * factor;
        format!("At this noise multiplier it would take {} epochs. ", RoundedNearest(epochs.ceil()))
    }
}

/// Compares gradient norms at the end of the run with the clip norm of flat clipping.
fn clipping(run: &Run, data: &Dataset) -> Option<String> {
    let ClipRule::Flat { max_grad_norm } = run.plan().privacy()?.clip else { return None };
    let norms = GradientNorms::measure(&run.model(), &data.train().take(NORM_EXAMPLES)).ok()?;
    let (low, high) = (norms.quantile(0.1)?, norms.quantile(1.0)?);
    if low > NORMS_TO_CLIP * max_grad_norm {
        return Some(format!(
            "nine of ten gradient norms exceed {}, and the clip norm is {max_grad_norm}: steps are \
             limited by the clip norm. Raise max_grad_norm, or raise the learning rate.",
            RoundedNearest(low)
        ));
    }
    (high > 0.0 && max_grad_norm > CLIP_TO_NORMS * high).then(|| {
        format!(
            "no gradient norm exceeds {}, and the clip norm is {max_grad_norm}: the noise is {:.0} \
             times as large as necessary. Lower max_grad_norm.",
            RoundedNearest(high),
            max_grad_norm / high
        )
    })
}

/// Returns the first two names of classes that differ only in case, spaces or final punctuation.
fn similar_labels(names: &[String]) -> Option<String> {
    let plain = |name: &String| {
        let name = name.trim().trim_end_matches(['.', ',', ';', ':', '!', '?']).to_lowercase();
        name.split_whitespace().collect::<String>()
    };
    let mut seen = HashMap::new();
    names.iter().find_map(|name| {
        let former = seen.insert(plain(name), name)?;
        Some(format!(
            "the classes `{former}` and `{name}` differ only in case, spaces or final punctuation: \
             write them alike in the file if they are one class."
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data;
    use crate::methods::{DpSgd, NonPrivate};
    use crate::nn::models;
    use crate::privacy::Delta;
    use crate::train::{CurvePoint, NoopObserver};

    fn names() -> Vec<String> {
        ["no", "yes"].map(str::to_owned).to_vec()
    }

    /// Labels of which one in ten is 1.
    fn imbalanced() -> Vec<u32> {
        (0..100).map(|i| u32::from(i % 10 == 0)).collect()
    }

    #[test]
    fn predictions_of_one_class_are_named_unless_there_is_only_one() {
        let text = one_class(&[0; 100], &imbalanced(), &names()).unwrap();
        assert!(text.contains("predicts `no` for all 100 test examples"), "{text}");
        assert_eq!(one_class(&[0; 100], &[0; 100], &names()), None);
        assert_eq!(one_class(&imbalanced(), &imbalanced(), &names()), None);
        assert_eq!(one_class(&[], &[], &names()), None);
    }

    #[test]
    fn an_accuracy_is_compared_with_the_share_of_the_largest_class() {
        let shares = class_shares(&imbalanced(), 2);
        assert_eq!(shares, [0.9, 0.1]);
        let chance = |accuracy| chance(accuracy, 100, &shares, &names());
        let text = chance(0.9).unwrap();
        assert!(text.contains("90.0 %") && text.contains("always answering `no`"), "{text}");
        assert_eq!(chance(1.0), None);
        // Two standard errors of 90 % of 100 examples are six examples.
        assert_eq!(chance(0.97), None);
        assert!(chance(0.95).is_some());
    }

    #[test]
    fn a_loss_that_does_not_fall_is_flat() {
        let curve = |losses: &[f64]| Curve {
            points: (1..)
                .zip(losses)
                .map(|(step, loss)| CurvePoint { step, loss: Some(*loss), ..Default::default() })
                .collect(),
        };
        assert_eq!(flat_loss(&curve(&[2.3, 1.0, 0.4])), None);
        assert_eq!(flat_loss(&curve(&[2.3])), None);
        assert_eq!(flat_loss(&curve(&[])), None);
        assert!(flat_loss(&curve(&[2.3, 2.2, 2.29])).unwrap().contains("2.3 at first"));
        assert!(flat_loss(&curve(&[2.3, 9.0, 7.0])).is_some());
    }

    #[test]
    fn features_of_very_different_size_are_named() {
        let data = |small: f32| {
            let x = vec![5_000.0, small, -70.0, small / 2.0];
            data::from_vecs(x, &[2], vec![0, 1], 2).unwrap()
        };
        let text = feature_span(&data(1.0)).unwrap();
        assert!(text.starts_with("feature 0 reaches 5000 and feature 1 only 1:"), "{text}");
        assert_eq!(feature_span(&data(10.0)), None);
        assert_eq!(feature_span(&data(0.0)), None, "a constant zero is no small feature");
        assert_eq!(feature_span(&data::glyphs_with(4, 0, 1).unwrap()), None);
    }

    /// Glyphs as data of the user's own, which are private.
    fn private_glyphs() -> Dataset {
        let glyphs = data::glyphs_with(500, 0, 3).unwrap();
        let (features, labels) = (glyphs.train().features_flat(), glyphs.train().labels());
        let data = data::from_vecs(features.to_vec(), &[784], labels.to_vec(), 10).unwrap();
        data.split(0.8, 1).unwrap()
    }

    #[test]
    fn names_of_classes_that_differ_by_a_full_stop_are_named() {
        let names =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let text = similar_labels(&names(&["<=50K", ">50K", "<=50K."])).unwrap();
        assert!(text.contains("`<=50K` and `<=50K.`"), "{text}");
        assert!(similar_labels(&names(&["New York", "new york"])).is_some());
        assert_eq!(similar_labels(&names(&["1", "-1", "1.5", "cat"])), None);
    }

    fn trained(method: &DpSgd) -> (Run, Dataset) {
        let data = private_glyphs();
        let model = models::linear(&data).seed(1).build().unwrap();
        let plan = method.clone().seed(1).plan(&data).unwrap();
        let ledger = crate::privacy::Ledger::in_memory();
        let run = crate::train::fit("run", &plan, &model, &data, &ledger, &mut NoopObserver);
        (run.unwrap(), data)
    }

    fn kinds(method: &DpSgd) -> Vec<WarningKind> {
        let (run, data) = trained(method);
        run.learning_warnings(&data).iter().map(|warning| warning.kind).collect()
    }

    #[test]
    fn a_run_that_learns_has_no_warning() {
        let method = DpSgd::new().noise_multiplier(0.5).delta(Delta(1e-5));
        assert_eq!(kinds(&method.batch_size(200).clip(0.1).learning_rate(4.0).epochs(20)), []);
    }

    #[test]
    fn too_much_noise_is_named_with_the_batch_size_that_would_do() {
        let method = DpSgd::new().noise_multiplier(20.0).batch_size(20).clip(0.1).steps(5);
        let (run, data) = trained(&method);
        let warnings = run.learning_warnings(&data);
        let found = warnings.iter().find(|warning| warning.kind == WarningKind::LowSignal);
        let found = found.expect("the noise is larger than any signal");
        // sqrt(7,850) * 20 / (20 * sqrt(5)), all parameters of 784 pixels and 10 classes.
        assert!(found.text.contains("has 3962 % of the norm"), "{}", found.text);
        assert!(found.text.contains("epochs"), "{}", found.text);
        assert_eq!(found.coverage, Coverage::Public);
        assert!(!found.to_string().contains("not covered"));
    }

    #[test]
    fn a_clip_norm_far_from_all_norms_is_named_and_not_covered() {
        let clip = |norm: f64| {
            let (run, data) = trained(&DpSgd::new().noise_multiplier(1.0).clip(norm).steps(2));
            let warnings = run.learning_warnings(&data);
            warnings.into_iter().find(|warning| warning.kind == WarningKind::Clipping)
        };
        assert!(clip(1e-4).unwrap().text.contains("Raise max_grad_norm"));
        let large = clip(1e4).unwrap();
        assert!(large.text.contains("Lower max_grad_norm"), "{}", large.text);
        assert!(large.to_string().ends_with("not covered.)"), "{large}");
        assert_eq!(clip(1.0), None);
    }

    #[test]
    fn a_run_without_privacy_has_no_warning_of_noise() {
        let data = data::glyphs_with(100, 20, 3).unwrap();
        let model = models::linear(&data).seed(1).build().unwrap();
        let plan = NonPrivate::new().batch_size(50).epochs(5).seed(1).plan(&data).unwrap();
        let ledger = crate::privacy::Ledger::in_memory();
        let run =
            crate::train::fit("run", &plan, &model, &data, &ledger, &mut NoopObserver).unwrap();
        assert_eq!((low_signal(&run), clipping(&run, &data)), (None, None));
    }
}
