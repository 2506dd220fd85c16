//! Evaluation of finished runs and models on the test part of a data set.

use crate::data::Dataset;
use crate::nn::Model;
use crate::privacy::Badge;
use crate::show::figures::{ClassAccuracy, ConfusionMatrix, Filters, Prediction, Predictions};
use crate::show::{Coverage, run_coverage};
use crate::train::Run;
use crate::{Error, ErrorKind, Result};

impl Run {
    /// Returns the predictions for the test part of `data`, those with the highest loss first:
    /// `.worst(24)`, `.best(24)` and `.wrong()` choose, and the end of a cell shows the examples.
    ///
    /// ```no_run
    /// # use epsilab::prelude::*;
    /// # fn look(run: &Run, data: &Dataset) -> Result<()> {
    /// let predictions = run.predictions(data)?;
    /// predictions.wrong().worst(24).show();
    /// predictions.table().save("predictions.csv")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Guarantee
    /// That of the run for its training part. The test part is read without noise: the predictions
    /// reveal its examples, and so do the pictures, which carry
    /// [`NOT_COVERED`](crate::show::NOT_COVERED) unless the data are [public](Dataset::public).
    /// Predictions of a run without a guarantee, or in study mode, are not covered.
    ///
    /// # Errors
    /// `MissingData` if the data have no test part; `Model` if the model can't classify its
    /// examples.
    pub fn predictions(&self, data: &Dataset) -> Result<Predictions> {
        predictions(&self.model(), run_label(self, data), data)
    }

    /// Returns the confusion matrix of the test part: for each true class, the number of examples
    /// that the model assigns to each class.
    ///
    /// ```no_run
    /// # use epsilab::prelude::*;
    /// # fn look(run: &Run, data: &Dataset) -> Result<()> {
    /// let matrix = run.confusion_matrix(data)?;
    /// matrix.show();
    /// println!("{:?}", matrix.share(4, 9));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Guarantee
    /// That of the run for its training part. The test part is counted without noise. The matrix of
    /// a run without a guarantee is not covered.
    ///
    /// # Errors
    /// `MissingData` if the data have no test part; `Model` if the model can't classify its
    /// examples.
    pub fn confusion_matrix(&self, data: &Dataset) -> Result<ConfusionMatrix> {
        confusion_matrix(&self.model(), run_label(self, data), data)
    }

    /// Returns the accuracy of each class of the test part, with Wilson intervals of 95 %.
    ///
    /// # Guarantee
    /// As [`confusion_matrix`](Self::confusion_matrix).
    ///
    /// # Errors
    /// `MissingData` if the data have no test part; `Model` if the model can't classify its
    /// examples.
    pub fn class_accuracy(&self, data: &Dataset) -> Result<ClassAccuracy> {
        Ok(self.confusion_matrix(data)?.class_accuracy())
    }

    /// Returns the filters of the first layer of the trained model.
    ///
    /// # Guarantee
    /// That of the run. Filters of a run without a guarantee are not covered.
    ///
    /// # Errors
    /// `Model` if the inputs are not images with one or three channels, or the first layer with
    /// parameters is of another kind.
    pub fn filters(&self) -> Result<Filters> {
        Filters::from_model(&self.model(), run_model_coverage(self))
    }
}

impl Model {
    /// Returns the predictions for the test part of `data`, as [`Run::predictions`].
    ///
    /// # Guarantee
    /// That of the parameters. A model does not know whether a private run released it, so for
    /// parameters that may depend on private data the coverage is not stated: ask the run instead.
    ///
    /// # Errors
    /// `MissingData` if the data have no test part; `Model` if the model can't classify its
    /// examples.
    pub fn predictions(&self, data: &Dataset) -> Result<Predictions> {
        predictions(self, model_label(self, data), data)
    }

    /// Returns the confusion matrix of the test part, as [`Run::confusion_matrix`].
    ///
    /// # Guarantee
    /// As [`predictions`](Self::predictions).
    ///
    /// # Errors
    /// `MissingData` if the data have no test part; `Model` if the model can't classify its
    /// examples.
    pub fn confusion_matrix(&self, data: &Dataset) -> Result<ConfusionMatrix> {
        confusion_matrix(self, model_label(self, data), data)
    }

    /// Returns the accuracy of each class of the test part, as [`Run::class_accuracy`].
    ///
    /// # Guarantee
    /// As [`predictions`](Self::predictions).
    ///
    /// # Errors
    /// `MissingData` if the data have no test part; `Model` if the model can't classify its
    /// examples.
    pub fn class_accuracy(&self, data: &Dataset) -> Result<ClassAccuracy> {
        Ok(self.confusion_matrix(data)?.class_accuracy())
    }

    /// Returns the filters of the first layer with parameters: the kernels of a convolution, or
    /// the weights of each unit of a dense layer that reads images.
    ///
    /// ```
    /// # use epsilab::prelude::*;
    /// let data = data::glyphs_with(20, 0, 1)?;
    /// let filters = models::papernot_cnn(&data).seed(1).build()?.filters()?;
    /// assert_eq!(filters.shape(), [1, 8, 8]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Guarantee
    /// As [`predictions`](Self::predictions).
    ///
    /// # Errors
    /// Kind `Model` if the inputs are not images with one or three channels, or the first layer
    /// with parameters is of another kind.
    pub fn filters(&self) -> Result<Filters> {
        Filters::from_model(self, model_coverage(self))
    }
}

/// Returns the coverage of a model's parameters, as far as the model knows.
fn model_coverage(model: &Model) -> Coverage {
    Coverage::for_parameters(model.provenance())
}

/// Returns the coverage of the parameters of a run's model.
fn run_model_coverage(run: &Run) -> Coverage {
    match (run_coverage(run.record()), run.badge()) {
        (Coverage::Public, _) => Coverage::Public,
        (Coverage::NotCovered, _) | (_, Badge::NoGuarantee(_)) => Coverage::NotCovered,
        _ => Coverage::Covered,
    }
}

/// Returns the coverage of the test part. One that was read from files of its own counts as
/// public, as in statements.
fn test_coverage(data: &Dataset) -> Coverage {
    match (data.public().is_some(), data.has_separate_test()) {
        (true, _) => Coverage::Public,
        (false, true) => Coverage::Covered,
        (false, false) => Coverage::TestPart,
    }
}

/// Name and coverage of an evaluation.
type EvaluationLabel = (String, Coverage);

/// Returns name and coverage of an evaluation of a run on the test part of `data`.
fn run_label(run: &Run, data: &Dataset) -> EvaluationLabel {
    let name = format!("{} on {}", run.plan().method(), data.name());
    (name, run_model_coverage(run).max(test_coverage(data)))
}

/// Returns name and coverage of an evaluation of a model on the test part of `data`.
fn model_label(model: &Model, data: &Dataset) -> EvaluationLabel {
    let name = format!("{} on {}", model.name(), data.name());
    (name, model_coverage(model).max(test_coverage(data)))
}

fn check_test(data: &Dataset) -> Result<()> {
    if !data.test().is_empty() {
        return Ok(());
    }
    let what = format!("the data set \"{}\" has no test part", data.name());
    let why = "predictions on training examples are too optimistic, and no epsilon covers them";
    Err(Error::new(ErrorKind::MissingData, what, why)
        .fix("split one off before training: let data = data.split(0.8, 1)?"))
}

fn predictions(
    model: &Model,
    (name, coverage): EvaluationLabel,
    data: &Dataset,
) -> Result<Predictions> {
    check_test(data)?;
    let verdicts = model.predict_with_losses(data.test())?.into_iter().enumerate();
    let row = |(example, verdict): (usize, crate::nn::ClassPrediction)| {
        let (truth, predicted) = (data.test().label(example), verdict.class as usize);
        let probability = |class: usize| f64::from(verdict.probabilities[class]);
        Prediction {
            example,
            truth,
            predicted,
            confidence: probability(predicted),
            truth_probability: probability(truth),
            loss: verdict.loss,
        }
    };
    Ok(Predictions::new(name, data, verdicts.map(row).collect(), coverage))
}

fn confusion_matrix(
    model: &Model,
    label: EvaluationLabel,
    data: &Dataset,
) -> Result<ConfusionMatrix> {
    check_test(data)?;
    // The model may know more classes than the data have.
    let names = (0..model.classes().max(data.classes()))
        .map(|class| data.class_names().get(class).cloned().unwrap_or_else(|| class.to_string()));
    let predicted = model.predict_examples(data.test())?;
    let names: Vec<String> = names.collect();
    let matrix = ConfusionMatrix::new(&names, data.test().labels(), &predicted)?;
    Ok(matrix.with_name(label.0).with_coverage(label.1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data;
    use crate::methods::{DpSgd, NonPrivate, Plan};
    use crate::nn::models;
    use crate::privacy::{Delta, Epsilon};
    use crate::store::open_ledger;
    use crate::train::{NoopObserver, fit};

    fn trained(plan: &Plan, model: &Model, data: &Dataset) -> Result<Run> {
        let folder = tempfile::tempdir().unwrap();
        let ledger = open_ledger(&folder.path().join(format!("{}.jsonl", data.origin())))?;
        fit("evaluated", plan, model, data, &ledger, &mut NoopObserver)
    }

    /// Returns private data with the features of glyphs.
    fn private(seed: u64) -> Dataset {
        let glyphs = data::glyphs_with(200, 0, seed).unwrap();
        let features = glyphs.train().features_flat().to_vec();
        let data = data::from_vecs(features, glyphs.shape(), glyphs.train().labels().to_vec(), 10);
        data.unwrap().split(0.7, 1).unwrap()
    }

    #[test]
    fn an_evaluation_reveals_what_parameters_and_test_part_reveal() -> Result<()> {
        let dp = |data: &Dataset| {
            let plan = DpSgd::new().target(Epsilon(3.0), Delta(1e-4)).batch_size(40).steps(2);
            plan.plan(data)
        };
        let raw = |data: &Dataset| NonPrivate::new().batch_size(40).steps(2).seed(1).plan(data);
        let (public, private_data) = (data::glyphs_with(140, 30, 1)?, private(1));
        let model = models::linear(&public).seed(1).build()?;
        let cases = [
            (trained(&raw(&public)?, &model, &public)?, &public, Coverage::Public),
            (trained(&dp(&public)?, &model, &public)?, &public, Coverage::Public),
            (
                trained(&dp(&private_data)?, &model, &private_data)?,
                &private_data,
                Coverage::TestPart,
            ),
            (trained(&dp(&private_data)?, &model, &private_data)?, &public, Coverage::Covered),
            (
                trained(&raw(&private_data)?, &model, &private_data)?,
                &private_data,
                Coverage::NotCovered,
            ),
            (trained(&raw(&private_data)?, &model, &private_data)?, &public, Coverage::NotCovered),
            (trained(&raw(&public)?, &model, &public)?, &private_data, Coverage::TestPart),
        ];
        for (i, (run, data, expected)) in cases.iter().enumerate() {
            assert_eq!(run.confusion_matrix(data)?.coverage(), *expected, "case {i}");
            assert_eq!(run.predictions(data)?.coverage(), *expected, "case {i}");
            assert_eq!(run.class_accuracy(data)?.bundle().coverage, *expected, "case {i}");
        }
        // Whoever knows the seed can compute the noise.
        let seeded = DpSgd::new().target(Epsilon(3.0), Delta(1e-4)).batch_size(40).steps(2).seed(1);
        let seeded = trained(&seeded.plan(&private_data)?, &model, &private_data)?;
        assert_eq!(seeded.confusion_matrix(&private_data)?.coverage(), Coverage::NotCovered);
        // Private data: pictures are not covered whatever the run.
        assert_eq!(cases[2].0.predictions(&private_data)?.bundle().coverage, Coverage::NotCovered);
        let filters = cases.iter().map(|(run, ..)| run.filters().unwrap().coverage());
        use Coverage::{Covered, NotCovered, Public};
        let expected = [Public, Public, Covered, Covered, NotCovered, NotCovered, Public];
        assert_eq!(filters.collect::<Vec<_>>(), expected);
        assert_eq!(cases[2].0.model().filters()?.coverage(), Coverage::Unmarked);
        assert_eq!(cases[4].0.model().filters()?.coverage(), Coverage::NotCovered);
        Ok(())
    }

    #[test]
    fn evaluations_agree_with_the_accuracy_of_the_model() -> Result<()> {
        let data = data::glyphs_with(100, 70, 1)?;
        let model = models::linear(&data).seed(1).build()?;
        let matrix = model.confusion_matrix(&data)?;
        assert_eq!((matrix.examples(), matrix.accuracy()), (70, Some(model.accuracy(&data)?)));
        let predictions = model.predictions(&data)?;
        let wrong = predictions.wrong().len();
        assert!((1.0 - wrong as f64 / 70.0 - model.accuracy(&data)?).abs() < 1e-12);
        let classes = model.class_accuracy(&data)?;
        let correct: u64 = classes.classes().iter().map(|class| class.correct).sum();
        assert_eq!(correct, 70 - wrong as u64);
        let error = model.predictions(&data::glyphs_with(10, 0, 1)?).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::MissingData);
        Ok(())
    }
}
