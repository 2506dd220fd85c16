//! The accuracy of each class.

use super::{left_out, name_suffix};
use crate::show::axis::{Axis, Unit};
use crate::show::bars::{Row, frame};
use crate::show::figure_card::{Drawing, FigureCard, FigureHeader};
use crate::show::layout::{MARGIN, muted};
use crate::show::scene::Align;
use crate::show::{Coverage, Figure, MimeBundle, Table, format, palette};
use std::fmt;

/// Quantile of the normal distribution for a two-sided interval of 95 %.
const NORMAL_QUANTILE: f64 = 1.959_964;
const WIDTH: f64 = 680.0;
const ROW: f64 = 20.0;
/// Largest number of classes that are drawn.
const MAX_CLASSES: usize = 32;

/// Returns the 95 % Wilson interval of a probability with `correct` successes in `count` trials
/// (Wilson, 1927): its ends lie in [0, 1]. `None` without trials.
pub(crate) fn wilson_interval(correct: u64, count: u64) -> Option<(f64, f64)> {
    if count == 0 {
        return None;
    }
    let (n, z) = (count as f64, NORMAL_QUANTILE);
    let share = correct as f64 / n;
    let scale = 1.0 + z * z / n;
    let centre = (share + z * z / (2.0 * n)) / scale;
    let reach = z / scale * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt();
    Some(((centre - reach).max(0.0), (centre + reach).min(1.0)))
}

/// Number of examples of a class, and number of those that were classified correctly.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassCount {
    /// Name of the class.
    pub name: String,
    /// Number of examples that were classified correctly.
    pub correct: u64,
    /// Number of examples.
    pub examples: u64,
}

impl ClassCount {
    /// Returns the fraction that was classified correctly; `None` without examples.
    pub fn accuracy(&self) -> Option<f64> {
        (self.examples > 0).then(|| self.correct as f64 / self.examples as f64)
    }

    /// Returns the Wilson interval of 95 % for the accuracy.
    pub fn interval(&self) -> Option<(f64, f64)> {
        wilson_interval(self.correct, self.examples)
    }
}

/// The accuracy of each class, with its interval.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassAccuracy {
    name: String,
    classes: Vec<ClassCount>,
    coverage: Coverage,
}

impl ClassAccuracy {
    /// Creates the accuracies of classes, given by name, number of correct examples, number of
    /// examples.
    pub(super) fn new(counts: impl Iterator<Item = (String, u64, u64)>) -> Self {
        let count = |(name, correct, examples)| ClassCount { name, correct, examples };
        let classes = counts.map(count).collect();
        Self { name: String::new(), classes, coverage: Coverage::default() }
    }

    pub(super) fn with_name(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    /// States what the values reveal of private data.
    pub fn with_coverage(self, coverage: Coverage) -> Self {
        Self { coverage, ..self }
    }

    /// Returns the coverage of the values: what they reveal of private data.
    pub fn coverage(&self) -> Coverage {
        self.coverage
    }

    /// Returns the classes, in the order of the labels.
    pub fn classes(&self) -> &[ClassCount] {
        &self.classes
    }

    /// Returns the class with the lowest accuracy; `None` without examples.
    pub fn lowest(&self) -> Option<&ClassCount> {
        let known = self.classes.iter().filter_map(|class| Some((class, class.accuracy()?)));
        known.reduce(|low, other| if other.1 < low.1 { other } else { low }).map(|(class, _)| class)
    }

    /// Returns the fraction of all examples that were classified correctly.
    fn overall(&self) -> Option<f64> {
        let correct = self.classes.iter().map(|class| class.correct).sum();
        let examples = self.classes.iter().map(|class| class.examples).sum();
        ClassCount { name: String::new(), correct, examples }.accuracy()
    }

    /// Returns a table with a row for each class: accuracy, ends of the interval, number of
    /// examples.
    pub fn table(&self) -> Table {
        let heads = ["class", "accuracy", "95 % from", "95 % to", "correct", "examples"];
        let percent = |share: Option<f64>| share.map_or("-".into(), format::percent);
        let row = |class: &ClassCount| {
            let (low, high) = class.interval().unzip();
            let [accuracy, low, high] = [class.accuracy(), low, high].map(percent);
            let (correct, all) =
                (format::format_count(class.correct), format::format_count(class.examples));
            [class.name.clone(), accuracy, low, high, correct, all]
        };
        Table::new(heads).rows(self.classes.iter().map(row)).coverage(self.coverage)
    }

    fn title(&self) -> String {
        match self.lowest() {
            Some(class) => {
                let accuracy = class.accuracy().map_or(String::new(), format::percent);
                format!("Lowest accuracy: {accuracy} for {}{}", class.name, name_suffix(&self.name))
            }
            None => format!("No examples{}", name_suffix(&self.name)),
        }
    }

    /// Returns the figure and its values.
    pub fn bundle(&self) -> MimeBundle {
        class_accuracy(self).bundle()
    }
}

impl fmt::Display for ClassAccuracy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.table().caption(self.title()).text())
    }
}

/// Draws the accuracy of each class as a dot with its Wilson interval of 95 %, the lowest first;
/// the accuracy over all examples is a dashed line. Of more than 32 classes the lowest are drawn.
///
/// ```
/// use epsilab::prelude::*;
/// let names = ["cat", "dog"].map(String::from);
/// let matrix = figures::ConfusionMatrix::new(&names, &[0, 0, 0, 1], &[0, 0, 1, 1])?;
/// let accuracy = matrix.class_accuracy(); // or run.class_accuracy(&data)?
/// assert_eq!(accuracy.lowest().map(|class| class.name.as_str()), Some("cat"));
/// assert!(figures::class_accuracy(&accuracy).title().ends_with("for cat"));
/// # Ok::<(), Error>(())
/// ```
///
/// # Guarantee
/// That of the values: they are drawn without noise. Values that are
/// [not covered](Coverage::NotCovered) carry the badge.
pub fn class_accuracy(values: &ClassAccuracy) -> Figure {
    let mut shown: Vec<&ClassCount> = values.classes.iter().collect();
    let order = |class: &ClassCount| class.accuracy().unwrap_or(f64::INFINITY);
    shown.sort_by(|a, b| order(a).total_cmp(&order(b)));
    shown.truncate(MAX_CLASSES);
    let dashed = |share| format!(" Dashed: all examples together, {}.", format::percent(share));
    let overall = values.overall().map_or(String::new(), dashed);
    let head = FigureHeader::new(values.title())
        .note(format!("Bars: Wilson intervals of 95 % for each class alone.{overall}"))
        .note(left_out(MAX_CLASSES, values.classes.len()))
        .coverage(values.coverage);
    head.figure(&Intervals { shown, overall: values.overall() }, values.table())
}

/// Drawing of classes as dots with their intervals.
struct Intervals<'a> {
    shown: Vec<&'a ClassCount>,
    overall: Option<f64>,
}

impl Intervals<'_> {
    /// Returns an axis from a multiple of ten percent to 100 %, at least a fifth of the whole
    /// range.
    fn axis(&self) -> Axis {
        let ends = self.shown.iter().filter_map(|class| class.interval());
        let lowest = ends.map(|interval| interval.0).fold(1.0, f64::min);
        Axis::linear_exact(((lowest * 10.0).floor() / 10.0).clamp(0.0, 0.8), 1.0, 5, Unit::Percent)
    }
}

impl Drawing for Intervals<'_> {
    fn width(&self) -> f64 {
        WIDTH
    }

    fn draw(&self, page: &mut FigureCard) -> f64 {
        let row = |class: &&ClassCount| {
            let share = class.accuracy().map_or("none".into(), format::percent);
            Row {
                name: class.name.clone(),
                columns: vec![share, format::format_count(class.examples)],
            }
        };
        let rows: Vec<Row> = self.shown.iter().map(row).collect();
        let axis = self.axis();
        let plot = frame(page, &rows, ROW, &axis, 6.0);
        let x = |share: f64| plot.left + plot.width() * axis.position(share);
        if let Some(overall) = self.overall.map(x) {
            let line = [(overall, plot.top), (overall, plot.bottom)];
            page.scene.dashed(&line, palette::REFERENCE, 1.0, (4.0, 3.0));
        }
        let colour = palette::series(0);
        let pale = palette::tint(colour, 0.55);
        for (r, class) in self.shown.iter().enumerate() {
            let y = plot.top + (r as f64 + 0.5) * ROW;
            let Some((accuracy, (low, high))) = class.accuracy().zip(class.interval()) else {
                continue;
            };
            page.scene.stroke(vec![(x(low), y), (x(high), y)], pale, 2.0);
            for end in [x(low), x(high)] {
                page.scene.stroke(vec![(end, y - 3.5), (end, y + 3.5)], pale, 1.5);
            }
            page.scene.dot((x(accuracy), y), 4.0, colour);
        }
        let at = (WIDTH - MARGIN, plot.bottom + 10.0);
        page.scene.text(at, "examples", muted(Align::Right));
        plot.bottom + 18.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::NOT_COVERED;
    use crate::show::layout::tests::collisions;

    /// Values of the R function `binom::binom.wilson`, and the closed forms at the ends.
    #[test]
    fn intervals_are_those_of_wilson() {
        let close = |(low, high): (f64, f64), (l, h): (f64, f64)| {
            assert!((low - l).abs() < 1e-4 && (high - h).abs() < 1e-4, "{low} {high}");
        };
        close(wilson_interval(9, 10).unwrap(), (0.5958, 0.9821));
        close(wilson_interval(50, 100).unwrap(), (0.4038, 0.5962));
        let z = NORMAL_QUANTILE * NORMAL_QUANTILE;
        close(wilson_interval(20, 20).unwrap(), (20.0 / (20.0 + z), 1.0));
        close(wilson_interval(0, 20).unwrap(), (0.0, z / (20.0 + z)));
        assert_eq!(wilson_interval(0, 0), None);
    }

    fn values(classes: usize) -> ClassAccuracy {
        let count = |c: usize| (format!("class {c}"), 100 - (c as u64 % 50), 100);
        ClassAccuracy::new((0..classes).map(count)).with_name("dp-sgd on glyphs")
    }

    #[test]
    fn the_lowest_class_comes_first_and_classes_without_examples_have_a_note() {
        let mut values = values(4);
        values.classes.push(ClassCount { name: "rare".into(), correct: 0, examples: 0 });
        assert_eq!(values.lowest().unwrap().name, "class 3");
        let figure = class_accuracy(&values);
        assert!(
            figure.title().contains("97.0 % for class 3, dp-sgd on glyphs"),
            "{}",
            figure.title()
        );
        let svg = figure.svg();
        let at = |text: &str| svg.find(text).unwrap_or_else(|| panic!("no {text}"));
        assert!(at("\nclass 3\n") < at("\nclass 0\n") && at("\nclass 0\n") < at("\nrare\n"));
        assert!(svg.contains("\nnone\n") && svg.contains("together, 98.5 %"));
        assert_eq!(svg.matches("<circle").count(), 4);
        assert!(values.table().csv().contains("rare,,,,0,0"), "{}", values.table().csv());
    }

    #[test]
    fn figures_are_whole_marked_where_not_covered_and_not_blank() {
        for (classes, coverage) in [(1, Coverage::Public), (100, Coverage::NotCovered)] {
            let values = values(classes).with_coverage(coverage);
            let figure = class_accuracy(&values);
            assert_eq!(collisions(figure.scene()), Vec::<String>::new());
            let is_marked = figure.svg().contains(NOT_COVERED);
            assert_eq!(is_marked, coverage == Coverage::NotCovered);
            assert_eq!(figure.bundle().coverage, coverage);
            assert_eq!(figure.table().len(), classes);
        }
        let none = class_accuracy(&ClassAccuracy::new(std::iter::empty()));
        assert!(none.title().starts_with("No examples"));
    }
}
