//! Figures of data and of trained models, on generated data.

use super::Chapter;
use epsilab::prelude::*;

pub const CHAPTER: Chapter = Chapter {
    title: "Data and trained models",
    source: include_str!("evaluation.rs"),
    figures: &[
        ("examples", examples),
        ("predictions", predictions),
        ("confusion_matrix", confusion_matrix),
        ("class_accuracy", class_accuracy),
        ("filters", filters),
        ("compare_runs", compare_runs),
    ],
};

/// Examples with their labels. Texts are lines, tables are columns with their ranges. Pictures of
/// private data are marked as not covered.
fn examples() -> Result<()> {
    data::glyphs_with(200, 50, 1)?.show();
    Ok(())
}

/// Examples of the test part with the model's answer, the most confident errors first.
fn predictions() -> Result<()> {
    let digits = data::glyphs_with(2_000, 500, 1)?;
    let model = models::mlp(&digits, &[32]).seed(1).build()?;
    let method = NonPrivate::new().learning_rate(0.05).batch_size(100).epochs(2.0).seed(1);
    let run = method.train(&model, &digits)?;
    run.predictions(&digits)?.worst(12).show();
    Ok(())
}

/// Which classes are taken for which.
fn confusion_matrix() -> Result<()> {
    let digits = data::glyphs_with(2_000, 500, 1)?;
    let model = models::mlp(&digits, &[32]).seed(1).build()?;
    let method = NonPrivate::new().learning_rate(0.05).batch_size(100).epochs(2.0).seed(1);
    method.train(&model, &digits)?.confusion_matrix(&digits)?.show();
    Ok(())
}

/// Accuracy of each class with an interval of 95 %: noise may cost some classes more than others.
fn class_accuracy() -> Result<()> {
    let digits = data::glyphs_with(2_000, 500, 1)?;
    let model = models::mlp(&digits, &[32]).seed(1).build()?;
    let method = NonPrivate::new().learning_rate(0.05).batch_size(100).epochs(2.0).seed(1);
    method.train(&model, &digits)?.class_accuracy(&digits)?.show();
    Ok(())
}

/// The kernels of the first convolution.
fn filters() -> Result<()> {
    let digits = data::glyphs_with(2, 0, 1)?;
    models::papernot_cnn(&digits).seed(1).build()?.filters()?.show();
    Ok(())
}

/// Several runs on common axes.
fn compare_runs() -> Result<()> {
    let digits = data::glyphs_with(1_000, 200, 1)?;
    let model = models::mlp(&digits, &[32]).seed(1).build()?;
    let method = DpSgd::new().clip(0.5).learning_rate(0.25).batch_size(100).epochs(3.0).seed(1);
    let strict = method.clone().target(Epsilon(1.0), Delta(1e-5)).train(&model, &digits)?;
    let loose = method.target(Epsilon(8.0), Delta(1e-5)).train(&model, &digits)?;
    figures::compare_runs(&[("epsilon 1", &strict), ("epsilon 8", &loose)])?.show();
    Ok(())
}
