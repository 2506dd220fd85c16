//! Confusion matrices.

use super::{ClassAccuracy, left_out, name_suffix};
use crate::show::figure_card::FigureHeader;
use crate::show::heat_map::{CellMark, HeatMap, HeatMapCell};
use crate::show::{Coverage, Figure, MimeBundle, Table, format};
use crate::{Error, Result};
use std::fmt;

/// Largest number of classes that are drawn.
const MAX_CLASSES: usize = 20;

/// Confusion matrix, the number of examples of each class that were given each class: rows are the
/// truth, columns the predictions.
///
/// ```
/// use epsilab::show::figures::ConfusionMatrix;
/// let names = ["cat", "dog"].map(String::from);
/// let matrix = ConfusionMatrix::new(&names, &[0, 0, 0, 1], &[0, 0, 1, 1])?;
/// assert_eq!(matrix.counts(), [[2, 1], [0, 1]]);
/// assert_eq!(matrix.accuracy(), Some(0.75));
/// # Ok::<(), epsilab::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ConfusionMatrix {
    name: String,
    classes: Vec<String>,
    counts: Vec<Vec<u64>>,
    coverage: Coverage,
}

impl ConfusionMatrix {
    /// Creates the matrix of these labels and predictions, numbered as the names of the classes.
    ///
    /// # Guarantee
    /// None by itself: the caller states by [`with_coverage`](Self::with_coverage) what labels and
    /// predictions reveal.
    ///
    /// # Errors
    /// `Setting` if there are more labels than predictions or fewer, or if one is not the number of
    /// a class.
    pub fn new(classes: &[String], truth: &[u32], predicted: &[u32]) -> Result<Self> {
        if truth.len() != predicted.len() {
            let why = format!("there are {} labels", format::format_count(truth.len()));
            let what = format::pluralise(predicted.len(), "prediction");
            return Err(Error::setting("predicted", what, why)
                .fix("give one prediction for each example, in the same order"));
        }
        let mut counts = vec![vec![0; classes.len()]; classes.len()];
        for (truth, predicted) in truth.iter().zip(predicted) {
            let row = counts.get_mut(*truth as usize);
            let Some(count) = row.and_then(|row| row.get_mut(*predicted as usize)) else {
                let why = format!("there are {} classes, numbered from 0", classes.len());
                return Err(Error::setting("class", (*truth).max(*predicted), why)
                    .fix("give a name for each class"));
            };
            *count += 1;
        }
        let (name, classes) = (String::new(), classes.to_vec());
        Ok(Self { name, classes, counts, coverage: Coverage::default() })
    }

    /// Sets the name of what was evaluated, for the title: `dp-sgd on MNIST`.
    pub fn with_name(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// States what the matrix reveals of private data.
    pub fn with_coverage(self, coverage: Coverage) -> Self {
        Self { coverage, ..self }
    }

    /// Returns the coverage of the matrix: what it reveals of private data.
    pub fn coverage(&self) -> Coverage {
        self.coverage
    }

    /// Returns the names of the classes.
    pub fn class_names(&self) -> &[String] {
        &self.classes
    }

    /// Returns the counts: `counts()[truth][predicted]`.
    pub fn counts(&self) -> &[Vec<u64>] {
        &self.counts
    }

    /// Returns the number of examples.
    pub fn examples(&self) -> u64 {
        self.counts.iter().flatten().sum()
    }

    /// Returns the number of examples of a class.
    fn class_total(&self, truth: usize) -> u64 {
        self.counts[truth].iter().sum()
    }

    /// Returns the fraction of the examples of class `truth` that were given class `predicted`;
    /// `None` without examples of the class.
    ///
    /// # Panics
    /// As a slice does, if there is no class of one of these numbers.
    pub fn share(&self, truth: usize, predicted: usize) -> Option<f64> {
        let (count, all) = (self.counts[truth][predicted], self.class_total(truth));
        (all > 0).then(|| count as f64 / all as f64)
    }

    /// Returns the fraction of all examples that were classified correctly; `None` without
    /// examples.
    pub fn accuracy(&self) -> Option<f64> {
        let correct: u64 = (0..self.classes.len()).map(|class| self.counts[class][class]).sum();
        (self.examples() > 0).then(|| correct as f64 / self.examples() as f64)
    }

    /// Returns the most frequent error: truth, prediction and count; `None` without errors.
    pub fn largest_error(&self) -> Option<(usize, usize, u64)> {
        let cells = self.counts.iter().enumerate().flat_map(|(truth, row)| {
            row.iter().enumerate().map(move |(predicted, &count)| (truth, predicted, count))
        });
        let errors = cells.filter(|(truth, predicted, count)| truth != predicted && *count > 0);
        // The first of equal ones.
        errors.reduce(|best, other| if other.2 > best.2 { other } else { best })
    }

    /// Returns the accuracy of each class.
    pub fn class_accuracy(&self) -> ClassAccuracy {
        let counts = (0..self.classes.len()).map(|class| {
            (self.classes[class].clone(), self.counts[class][class], self.class_total(class))
        });
        ClassAccuracy::new(counts).with_name(&self.name).with_coverage(self.coverage)
    }

    /// Returns a table with a row for each class: its examples, how many were given each class,
    /// and the fraction that was classified correctly.
    pub fn table(&self) -> Table {
        let heads = ["truth".to_owned(), "examples".to_owned(), "correct".to_owned()];
        let predicted = self.classes.iter().map(|name| format!("as {name}"));
        let table = Table::new(heads.into_iter().chain(predicted)).caption(self.title());
        let row = |truth: usize| {
            let correct = self.share(truth, truth).map_or("-".into(), format::percent);
            let counts = self.counts[truth].iter().map(format::format_count);
            let head = [
                self.classes[truth].clone(),
                format::format_count(self.class_total(truth)),
                correct,
            ];
            head.into_iter().chain(counts)
        };
        table.rows((0..self.classes.len()).map(row)).coverage(self.coverage)
    }

    fn title(&self) -> String {
        match self.accuracy() {
            Some(accuracy) => {
                format!(
                    "{} classified correctly{}",
                    format::percent(accuracy),
                    name_suffix(&self.name)
                )
            }
            None => format!("No examples{}", name_suffix(&self.name)),
        }
    }

    /// Returns the heat map and the counts.
    pub fn bundle(&self) -> MimeBundle {
        confusion_matrix(self).bundle()
    }
}

impl fmt::Display for ConfusionMatrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.table().text())
    }
}

/// Draws a confusion matrix as a heat map: each cell has the share of the row and the count. Of
/// more than 20 classes, those with the lowest accuracy are drawn, with a column for the
/// predictions that are none of them.
///
/// ```
/// use epsilab::prelude::*;
/// let names = ["cat", "dog"].map(String::from);
/// let matrix = figures::ConfusionMatrix::new(&names, &[0, 0, 0, 1], &[0, 0, 1, 1])?;
/// let figure = figures::confusion_matrix(&matrix); // or of run.confusion_matrix(&data)?
/// assert!(figure.text().contains("cat taken for dog, 1 of 3"));
/// # Ok::<(), Error>(())
/// ```
///
/// # Guarantee
/// That of the matrix: it is drawn without noise. One that is
/// [not covered](Coverage::NotCovered) carries the badge.
pub fn confusion_matrix(matrix: &ConfusionMatrix) -> Figure {
    let all = matrix.classes.len();
    let mut shown: Vec<usize> = (0..all).collect();
    if all > MAX_CLASSES {
        let accuracy = |&class: &usize| matrix.share(class, class).unwrap_or(f64::INFINITY);
        shown.sort_by(|a, b| accuracy(a).total_cmp(&accuracy(b)));
        shown.truncate(MAX_CLASSES);
    }
    let cell = |truth: usize, count: u64, is_correct: bool| {
        let all = matrix.class_total(truth);
        if all == 0 {
            return HeatMapCell::default();
        }
        let share = count as f64 / all as f64;
        HeatMapCell {
            shade: Some(share),
            label: format::fixed(100.0 * share, 1),
            sublabel: format::format_count(count),
            mark: if is_correct { CellMark::Framed } else { CellMark::None },
        }
    };
    let row = |&truth: &usize| {
        let counts = &matrix.counts[truth];
        let mut cells: Vec<HeatMapCell> = shown
            .iter()
            .map(|&predicted| cell(truth, counts[predicted], truth == predicted))
            .collect();
        if all > MAX_CLASSES {
            let seen: u64 = shown.iter().map(|&predicted| counts[predicted]).sum();
            cells.push(cell(truth, matrix.class_total(truth) - seen, false));
        }
        cells
    };
    let names = |more: Option<&str>| {
        let names = shown.iter().map(|&class| matrix.classes[class].clone());
        names.chain(more.map(str::to_owned)).collect::<Vec<_>>()
    };
    let heat = HeatMap {
        rows: names(None),
        columns: names((all > MAX_CLASSES).then_some("others")),
        row_name: "truth".into(),
        column_name: "prediction".into(),
        cells: shown.iter().map(row).collect(),
    };
    let error = matrix.largest_error().map_or(String::new(), |(truth, predicted, count)| {
        format!(
            "Most frequent error: {} taken for {}, {} of {}.",
            matrix.classes[truth],
            matrix.classes[predicted],
            format::format_count(count),
            format::format_count(matrix.class_total(truth))
        )
    });
    let head = FigureHeader::new(matrix.title())
        .note(error)
        .note("Each row is a class: percent of its examples, and their number.")
        .note(left_out(MAX_CLASSES, all))
        .coverage(matrix.coverage);
    // The title says the same as the caption.
    head.figure(&heat, Table { caption: None, ..matrix.table() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::NOT_COVERED;
    use crate::show::layout::tests::collisions;

    fn names(n: usize) -> Vec<String> {
        (0..n).map(|class| format!("class {class}")).collect()
    }

    #[test]
    fn counts_shares_and_the_largest_error_are_those_of_the_labels() {
        let (truth, predicted) = ([0, 0, 0, 0, 1, 1], [0, 0, 1, 1, 1, 2]);
        let matrix = ConfusionMatrix::new(&names(3), &truth, &predicted).unwrap();
        assert_eq!(matrix.counts(), [[2, 2, 0], [0, 1, 1], [0, 0, 0]]);
        assert_eq!((matrix.share(0, 1), matrix.share(2, 2)), (Some(0.5), None));
        assert_eq!(matrix.accuracy(), Some(0.5));
        assert_eq!(matrix.largest_error(), Some((0, 1, 2)));
        let csv = matrix.table().csv();
        assert!(
            csv.contains("class 0,4,50.0,2,2,0\n") && csv.contains("class 2,0,,0,0,0"),
            "{csv}"
        );
        let svg = confusion_matrix(&matrix).svg();
        assert!(svg.contains("class 0 taken for class 1, 2 of 4"), "{svg}");
        assert!(svg.contains("\n50.0\n"));
        assert!(ConfusionMatrix::new(&names(3), &[0], &[]).is_err());
        assert!(ConfusionMatrix::new(&names(3), &[0], &[3]).is_err());
        let none = ConfusionMatrix::new(&names(2), &[], &[]).unwrap();
        assert_eq!((none.accuracy(), none.largest_error()), (None, None));
    }

    #[test]
    fn of_many_classes_the_worst_are_drawn_and_no_example_is_lost() {
        // Class c is right in c of 40 cases, and otherwise taken for the next.
        let (mut truth, mut predicted) = (Vec::new(), Vec::new());
        for class in 0..40u32 {
            truth.extend([class; 40]);
            predicted.extend((0..40).map(|i| if i < class { class } else { (class + 1) % 40 }));
        }
        let matrix = ConfusionMatrix::new(&names(40), &truth, &predicted).unwrap();
        let figure = confusion_matrix(&matrix);
        let svg = figure.svg();
        assert!(svg.contains("\nclass 19\n") && !svg.contains("\nclass 20\n"));
        assert!(svg.contains("\nothers\n") && svg.contains("The 20 of 40 classes"));
        assert_eq!(figure.table().len(), 40);
        assert_eq!(collisions(figure.scene()), Vec::<String>::new());
    }

    #[test]
    fn the_badge_is_there_only_where_it_applies_and_names_stay_in_their_cells() {
        let mut names = names(10);
        names[3] = "a class with a name that is much too long for a cell".into();
        let matrix = ConfusionMatrix::new(&names, &[3; 5000], &[3; 5000]).unwrap();
        for coverage in Coverage::ALL {
            let figure = confusion_matrix(&matrix.clone().with_coverage(coverage));
            let bundle = figure.bundle();
            assert_eq!(bundle.coverage, coverage);
            let is_marked = bundle.svg.unwrap().contains(NOT_COVERED);
            assert_eq!(is_marked, coverage == Coverage::NotCovered);
            assert_eq!(collisions(figure.scene()), Vec::<String>::new());
        }
    }
}
