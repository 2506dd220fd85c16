//! Predictions for single examples.

use super::name_suffix;
use crate::Result;
use crate::data::Dataset;
use crate::show::figure_card::FigureHeader;
use crate::show::figures::pictures::{
    ExampleKind, PictureGrid, PictureTile, TextRows, load_bitmaps,
};
use crate::show::palette::{self, Rgb};
use crate::show::scene::Align;
use crate::show::{Coverage, Figure, MimeBundle, Table, format};
use std::fmt;
use std::sync::Arc;

/// Number of examples that are shown by default.
const DEFAULT_EXAMPLES: usize = 24;
/// Largest number of examples in a figure.
const MAX_EXAMPLES: usize = 200;

/// The prediction for one example.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Index of the example in its part of the data, from 0.
    pub example: usize,
    /// Class of the example.
    pub truth: usize,
    /// Class that the model gives the example.
    pub predicted: usize,
    /// Probability that the model gives the predicted class.
    pub confidence: f64,
    /// The probability that the model gives the right class.
    pub truth_probability: f64,
    /// The softmax cross-entropy, in nats.
    pub loss: f64,
}

impl Prediction {
    /// Returns whether the prediction is right.
    pub fn is_correct(&self) -> bool {
        self.truth == self.predicted
    }
}

/// Order of predictions by loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LossOrder {
    HighestLoss,
    LowestLoss,
}

/// The predictions for the examples of a test part, those with the highest loss first. Cheap to
/// clone.
#[derive(Clone)]
pub struct Predictions {
    name: String,
    data: Dataset,
    rows: Arc<[Prediction]>,
    order: LossOrder,
    wrong_only: bool,
    coverage: Coverage,
}

impl Predictions {
    /// Creates the predictions for the test part of `data`, in any order; `coverage` is that of
    /// predictions and losses, without the examples themselves.
    pub(crate) fn new(
        name: String,
        data: &Dataset,
        mut rows: Vec<Prediction>,
        coverage: Coverage,
    ) -> Self {
        // A loss that is not a number is the worst.
        rows.sort_by(|a, b| b.loss.total_cmp(&a.loss).then(a.example.cmp(&b.example)));
        let (order, wrong_only) = (LossOrder::HighestLoss, false);
        Self { name, data: data.clone(), rows: rows.into(), order, wrong_only, coverage }
    }

    /// Returns the first `n` predictions in this order.
    fn first(&self, n: usize, order: LossOrder) -> Self {
        let mut rows = self.rows.to_vec();
        if self.order != order {
            rows.reverse();
        }
        rows.truncate(n);
        Self { order, rows: rows.into(), ..self.clone() }
    }
    /// Returns the `n` predictions with the highest loss, the highest first.
    #[must_use]
    pub fn worst(&self, n: usize) -> Self {
        self.first(n, LossOrder::HighestLoss)
    }

    /// Returns the `n` predictions with the lowest loss, the lowest first.
    #[must_use]
    pub fn best(&self, n: usize) -> Self {
        self.first(n, LossOrder::LowestLoss)
    }

    /// Returns the predictions that are wrong.
    #[must_use]
    pub fn wrong(&self) -> Self {
        let rows = self.rows.iter().filter(|row| !row.is_correct()).cloned().collect();
        Self { wrong_only: true, rows, ..self.clone() }
    }

    /// Returns the predictions, in this order.
    pub fn as_slice(&self) -> &[Prediction] {
        &self.rows
    }

    /// Returns the number of predictions.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether there are no predictions.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the coverage of the predictions without the examples themselves: what they reveal
    /// of private data.
    pub fn coverage(&self) -> Coverage {
        self.coverage
    }

    /// Returns the coverage of the predictions together with the examples.
    fn coverage_with_examples(&self) -> Coverage {
        self.coverage.max(Coverage::for_raw_data(self.data.public().is_none()))
    }

    /// Returns a table with a row for each prediction, without the example itself.
    pub fn table(&self) -> Table {
        let heads = ["example", "truth", "prediction", "probability", "of the truth", "loss"];
        let cells = |row: &Prediction| {
            let [truth, predicted] = [row.truth, row.predicted].map(|class| self.class_name(class));
            let [confidence, of_truth] =
                [row.confidence, row.truth_probability].map(format::percent);
            let loss = format::significant(row.loss, 3);
            [format::format_count(row.example), truth, predicted, confidence, of_truth, loss]
        };
        Table::new(heads).rows(self.rows.iter().map(cells)).coverage(self.coverage)
    }

    fn class_name(&self, class: usize) -> String {
        let name = self.data.class_names().get(class).cloned();
        name.unwrap_or_else(|| class.to_string())
    }

    fn title(&self) -> String {
        let extreme = match self.order {
            LossOrder::HighestLoss => "the highest",
            LossOrder::LowestLoss => "the lowest",
        };
        let what = if self.wrong_only { "Wrong predictions" } else { "Predictions" };
        format!("{what} with {extreme} loss{}", name_suffix(&self.name))
    }

    /// Returns the figure of the first predictions, and the table in its place if their examples
    /// can't be read. Without the examples the table is left.
    pub fn bundle(&self) -> MimeBundle {
        let shown = self.first(
            if self.len() > MAX_EXAMPLES { DEFAULT_EXAMPLES } else { MAX_EXAMPLES },
            self.order,
        );
        let table = shown.table().caption(shown.title()).bundle();
        match predictions(&shown) {
            Ok(figure) => match figure.bundle() {
                all if all.coverage == Coverage::NotCovered
                    && self.coverage < Coverage::Unmarked =>
                {
                    all.with_covered_part(table)
                }
                all => all,
            },
            Err(error) => {
                let text = format!("{}\nThe examples are not shown: {error}", table.text);
                MimeBundle { text, ..table }
            }
        }
    }
}

impl fmt::Display for Predictions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.table().caption(self.title()).text())
    }
}

/// The same text as `Display`.
impl fmt::Debug for Predictions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Draws examples with truth, prediction and its probability: images as pictures, texts as lines.
/// Other examples are named by their numbers. At most 200 are drawn.
///
/// ```
/// use epsilab::prelude::*;
/// let data = data::glyphs_with(20, 10, 1)?;
/// let model = models::linear(&data).seed(1).build()?;
/// let predictions = model.predictions(&data)?; // or run.predictions(&data)?
/// let figure = figures::predictions(&predictions.worst(5))?;
/// assert_eq!(figure.table().len(), 5);
/// # Ok::<(), Error>(())
/// ```
///
/// # Guarantee
/// None for the examples that are drawn: the figure carries
/// [`NOT_COVERED`](crate::show::NOT_COVERED) unless the data are
/// [public](crate::data::Dataset::public). [`Predictions::table`] is without them.
///
/// # Errors
/// As [`Examples::gather`](crate::data::Examples::gather), if an image can't be read.
pub fn predictions(predictions: &Predictions) -> Result<Figure> {
    let shown = predictions.first(MAX_EXAMPLES, predictions.order);
    let coverage = match ExampleKind::for_dataset(&shown.data) {
        ExampleKind::Tabular => shown.coverage,
        _ => shown.coverage_with_examples(),
    };
    let wrong = shown.rows.iter().filter(|row| !row.is_correct()).count();
    let (drawn, all) =
        (format::format_count(shown.len()), format::format_count(shown.data.test().len()));
    let head = FigureHeader::new(shown.title())
        .note(if shown.wrong_only {
            format!("{drawn} of {all} test examples.")
        } else {
            let wrong = match wrong {
                0 => "none of them".into(),
                all if all == shown.len() => "all of them".into(),
                some => format!("{} of them", format::format_count(some)),
            };
            format!("{drawn} of {all} test examples, {wrong} misclassified.")
        })
        .coverage(coverage);
    match ExampleKind::for_dataset(&shown.data) {
        ExampleKind::Images => picture_figure(&shown, head),
        ExampleKind::Texts(vocabulary) => {
            let part = shown.data.test();
            Ok(text_figure(&shown, head, "text", |row| vocabulary.text(part.features(row.example))))
        }
        ExampleKind::Tabular => Ok(text_figure(&shown, head, "example", |row| {
            format!("number {}", format::format_count(row.example))
        })),
    }
}

/// Returns the colour of a prediction; wrong ones have a colour of their own.
fn row_colour(row: &Prediction) -> Rgb {
    if row.is_correct() { palette::MUTED } else { palette::BADGE_INK }
}

fn picture_figure(predictions: &Predictions, head: FigureHeader) -> Result<Figure> {
    let ids: Vec<u32> = predictions.rows.iter().map(|row| row.example as u32).collect();
    let drawn = load_bitmaps(predictions.data.test(), &ids)?;
    let tile = |(picture, row): (_, &Prediction)| {
        let label = format!(
            "{}: {}",
            predictions.class_name(row.predicted),
            format_probability(row.confidence)
        );
        let label = if row.is_correct() { label } else { format!("as {label}") };
        let lines =
            vec![(predictions.class_name(row.truth), palette::INK), (label, row_colour(row))];
        PictureTile { picture, lines }
    };
    let tiles: Vec<PictureTile> =
        drawn.into_iter().zip(predictions.rows.iter()).map(tile).collect();
    let head = head.note("Below each: the truth, then the prediction and its probability.");
    let columns = if tiles.len() > 80 { 12 } else { 8 };
    Ok(head.figure(&PictureGrid { width: 800.0, columns, tiles }, predictions.table()))
}

fn text_figure(
    predictions: &Predictions,
    head: FigureHeader,
    what: &'static str,
    text: impl Fn(&Prediction) -> String,
) -> Figure {
    let row = |row: &Prediction| {
        vec![
            (predictions.class_name(row.truth), palette::INK),
            (predictions.class_name(row.predicted), row_colour(row)),
            (format_probability(row.confidence), row_colour(row)),
            (text(row), palette::MUTED),
        ]
    };
    let rows: Vec<_> = predictions.rows.iter().map(row).collect();
    let [truth, prediction, what] = ["truth", "prediction", what].map(|name| (name, Align::Left));
    let columns = vec![truth, prediction, ("probability", Align::Right), what];
    head.figure(&TextRows { width: 800.0, columns, rows }, predictions.table())
}

/// Formats a probability in whole percent; never 100 % or 0 % unless it is 1 or 0.
fn format_probability(probability: f64) -> String {
    match (100.0 * probability).round() {
        percent if percent >= 100.0 && probability < 1.0 => "> 99 %".into(),
        percent if percent <= 0.0 && probability > 0.0 => "< 1 %".into(),
        percent => format!("{} %", format::fixed(percent, 0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data;
    use crate::show::NOT_COVERED;
    use crate::show::layout::tests::collisions;

    fn predict(data: &Dataset, coverage: Coverage) -> Predictions {
        let row = |example: usize| Prediction {
            example,
            truth: data.test().label(example),
            predicted: example % data.classes(),
            confidence: 0.5 + 0.499 * (example as f64 / 50.0).sin().abs(),
            truth_probability: 0.1,
            loss: ((example * 7) % 13) as f64,
        };
        let rows = (0..data.test().len()).map(row).collect();
        Predictions::new("dp-sgd on a set".into(), data, rows, coverage)
    }

    #[test]
    fn the_worst_come_first_and_ties_keep_the_order_of_the_examples() {
        let data = data::glyphs_with(20, 40, 3).unwrap();
        let all = predict(&data, Coverage::Public);
        // Losses: 7 e mod 13, so 12 for e = 11, 24, 37.
        let examples = |p: &Predictions| p.as_slice().iter().map(|r| r.example).collect::<Vec<_>>();
        assert_eq!(examples(&all.worst(3)), [11, 24, 37]);
        assert_eq!(examples(&all.best(3)), [39, 26, 13]);
        assert_eq!(examples(&all.best(40).worst(3)), [11, 24, 37]);
        assert_eq!(all.best(3).worst(1).as_slice()[0].loss, 0.0);
        assert!(all.wrong().as_slice().iter().all(|row| !row.is_correct()));
        assert_eq!(
            all.wrong().len() + all.as_slice().iter().filter(|r| r.is_correct()).count(),
            40
        );
        assert_eq!(all.table().len(), 40);
    }

    #[test]
    fn examples_of_private_data_are_marked_and_the_table_without_them_is_left() {
        let public = data::glyphs_with(20, 40, 3).unwrap();
        let (x, y) = (public.train().features_flat().to_vec(), public.train().labels().to_vec());
        let private = data::from_vecs(x, public.shape(), y, 10).unwrap().split(0.5, 1).unwrap();
        let figure = predictions(&predict(&private, Coverage::TestPart).worst(5)).unwrap();
        assert!(figure.svg().contains(NOT_COVERED));
        let bundle = predict(&private, Coverage::TestPart).worst(5).bundle();
        assert_eq!(bundle.coverage, Coverage::NotCovered);
        let left = bundle.covered_part.unwrap();
        assert_eq!(left.coverage, Coverage::TestPart);
        assert!(left.svg.is_none() && left.text.contains("prediction"));
        let bundle = predict(&private, Coverage::NotCovered).worst(5).bundle();
        assert!(bundle.covered_part.is_none());
        let bundle = predict(&public, Coverage::Public).worst(5).bundle();
        assert_eq!((bundle.coverage, bundle.covered_part), (Coverage::Public, None));
        assert!(!bundle.svg.unwrap().contains(NOT_COVERED));
    }

    #[test]
    fn pictures_texts_and_rows_of_numbers_are_drawn_without_collisions() {
        let glyphs = data::glyphs_with(20, 40, 3).unwrap();
        let figure = predictions(&predict(&glyphs, Coverage::Public).worst(24)).unwrap();
        assert_eq!(figure.svg().matches("<image ").count(), 24);
        assert_eq!(collisions(figure.scene()), Vec::<String>::new());
        let sentences = data::sentences_with(20, 40, 3).unwrap();
        let figure = predictions(&predict(&sentences, Coverage::Public).best(10)).unwrap();
        let words = sentences.vocabulary().unwrap().text(sentences.test().features(39));
        let start = words.split(' ').take(3).collect::<Vec<_>>().join(" ");
        assert!(figure.svg().contains(&start), "{start}");
        assert_eq!(collisions(figure.scene()), Vec::<String>::new());
        let numbers =
            data::from_vecs((0..40).map(|i| i as f32).collect(), &[2], vec![0; 20], 2).unwrap();
        let numbers = numbers.split(0.5, 1).unwrap();
        let figure = predictions(&predict(&numbers, Coverage::TestPart)).unwrap();
        // Without pictures nothing but the predictions is shown.
        assert!(!figure.svg().contains(NOT_COVERED) && figure.svg().contains("\nnumber 2\n"));
        assert_eq!(collisions(figure.scene()), Vec::<String>::new());
    }

    #[test]
    fn no_probability_is_rounded_to_certainty() {
        assert_eq!(
            [1.0, 0.999, 0.5, 0.001, 0.0].map(format_probability),
            ["100 %", "> 99 %", "50 %", "< 1 %", "0 %"]
        );
    }
}
