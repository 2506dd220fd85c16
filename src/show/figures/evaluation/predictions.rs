//! Predictions for single examples.

use super::on;
use crate::Result;
use crate::data::Dataset;
use crate::show::figures::pictures::{Form, PictureGrid, TextRows, Tile, drawn_pictures};
use crate::show::page::Head;
use crate::show::palette::{self, Rgb};
use crate::show::scene::Align;
use crate::show::{Bundle, Coverage, Figure, Table, format};
use std::fmt;
use std::sync::Arc;

/// Number of examples that are shown where the caller names none.
const DEFAULT: usize = 24;
/// Largest number of examples in a figure.
const MOST: usize = 200;

/// The prediction for one example.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Number of the example in its part of the data, from 0.
    pub example: usize,
    /// Its class.
    pub truth: usize,
    /// The class that the model gives it.
    pub predicted: usize,
    /// The probability that the model gives the predicted class.
    pub confidence: f64,
    /// The probability that the model gives the right class.
    pub truth_probability: f64,
    /// The softmax cross-entropy, in nats.
    pub loss: f64,
}

impl Prediction {
    /// Whether the prediction is right.
    pub fn is_correct(&self) -> bool {
        self.truth == self.predicted
    }
}

/// Which of the predictions come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
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
    order: Order,
    wrong_only: bool,
    coverage: Coverage,
}

impl Predictions {
    /// The predictions for the test part of `data`, in any order; `coverage` is that of predictions
    /// and losses, without the examples themselves.
    pub(crate) fn new(
        name: String,
        data: &Dataset,
        mut rows: Vec<Prediction>,
        coverage: Coverage,
    ) -> Self {
        // A loss that is not a number is the worst.
        rows.sort_by(|a, b| b.loss.total_cmp(&a.loss).then(a.example.cmp(&b.example)));
        let (order, wrong_only) = (Order::HighestLoss, false);
        Self { name, data: data.clone(), rows: rows.into(), order, wrong_only, coverage }
    }

    /// The first `n` in this order.
    fn first(&self, n: usize, order: Order) -> Self {
        let mut rows = self.rows.to_vec();
        if self.order != order {
            rows.reverse();
        }
        rows.truncate(n);
        Self { order, rows: rows.into(), ..self.clone() }
    }
    /// The `n` with the highest loss, the highest first.
    #[must_use]
    pub fn worst(&self, n: usize) -> Self {
        self.first(n, Order::HighestLoss)
    }

    /// The `n` with the lowest loss, the lowest first.
    #[must_use]
    pub fn best(&self, n: usize) -> Self {
        self.first(n, Order::LowestLoss)
    }

    /// Those that are wrong.
    #[must_use]
    pub fn wrong(&self) -> Self {
        let rows = self.rows.iter().filter(|row| !row.is_correct()).cloned().collect();
        Self { wrong_only: true, rows, ..self.clone() }
    }

    /// The predictions, in this order.
    pub fn all(&self) -> &[Prediction] {
        &self.rows
    }

    /// Number of predictions.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// What the predictions reveal of private data, without the examples themselves.
    pub fn coverage(&self) -> Coverage {
        self.coverage
    }

    /// What the predictions reveal together with the examples.
    fn coverage_with_examples(&self) -> Coverage {
        self.coverage.max(Coverage::without_noise(self.data.public().is_none()))
    }

    /// A row for each prediction, without the example itself.
    pub fn table(&self) -> Table {
        let heads = ["example", "truth", "prediction", "probability", "of the truth", "loss"];
        let cells = |row: &Prediction| {
            let [truth, predicted] = [row.truth, row.predicted].map(|class| self.class(class));
            let [confidence, of_truth] =
                [row.confidence, row.truth_probability].map(format::percent);
            let loss = format::significant(row.loss, 3);
            [format::count(row.example), truth, predicted, confidence, of_truth, loss]
        };
        Table::new(heads).rows(self.rows.iter().map(cells)).coverage(self.coverage)
    }

    fn class(&self, class: usize) -> String {
        let name = self.data.class_names().get(class).cloned();
        name.unwrap_or_else(|| class.to_string())
    }

    fn title(&self) -> String {
        let which = match self.order {
            Order::HighestLoss => "the highest",
            Order::LowestLoss => "the lowest",
        };
        let what = if self.wrong_only { "Wrong predictions" } else { "Predictions" };
        format!("{what} with {which} loss{}", on(&self.name))
    }

    /// The figure of the first predictions, and the table in its place if their examples can't be
    /// read. Without the examples the table is left.
    pub fn bundle(&self) -> Bundle {
        let shown = self.first(if self.len() > MOST { DEFAULT } else { MOST }, self.order);
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
                Bundle { text, ..table }
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

/// Examples with truth, prediction and its probability: images as pictures, texts as lines. Other
/// examples are named by their numbers. At most 200 are drawn.
///
/// # Guarantee
/// None for the examples that are drawn: the figure carries
/// [`NOT_COVERED`](crate::show::NOT_COVERED) unless the data are
/// [public](crate::data::Dataset::public). [`Predictions::table`] is without them.
///
/// # Errors
/// As [`Examples::gather`](crate::data::Examples::gather), if an image can't be read.
pub fn predictions(predictions: &Predictions) -> Result<Figure> {
    let shown = predictions.first(MOST, predictions.order);
    let coverage = match Form::of(&shown.data) {
        Form::Columns => shown.coverage,
        _ => shown.coverage_with_examples(),
    };
    let wrong = shown.rows.iter().filter(|row| !row.is_correct()).count();
    let (drawn, all) = (format::count(shown.len()), format::count(shown.data.test().len()));
    let head = Head::new(shown.title())
        .note(if shown.wrong_only {
            format!("{drawn} of {all} test examples.")
        } else {
            let wrong = match wrong {
                0 => "none of them".into(),
                all if all == shown.len() => "all of them".into(),
                some => format!("{} of them", format::count(some)),
            };
            format!("{drawn} of {all} test examples, {wrong} misclassified.")
        })
        .coverage(coverage);
    match Form::of(&shown.data) {
        Form::Pictures => pictures(&shown, head),
        Form::Texts(vocabulary) => {
            let part = shown.data.test();
            Ok(lines(&shown, head, "text", |row| vocabulary.text(part.features(row.example))))
        }
        Form::Columns => Ok(lines(&shown, head, "example", |row| {
            format!("number {}", format::count(row.example))
        })),
    }
}

/// Wrong predictions have a colour of their own.
fn colour(row: &Prediction) -> Rgb {
    if row.is_correct() { palette::MUTED } else { palette::BADGE_INK }
}

fn pictures(shown: &Predictions, head: Head) -> Result<Figure> {
    let ids: Vec<u32> = shown.rows.iter().map(|row| row.example as u32).collect();
    let drawn = drawn_pictures(shown.data.test(), &ids)?;
    let tile = |(picture, row): (_, &Prediction)| {
        let said = format!("{}: {}", shown.class(row.predicted), rounded(row.confidence));
        let said = if row.is_correct() { said } else { format!("as {said}") };
        let lines = vec![(shown.class(row.truth), palette::INK), (said, colour(row))];
        Tile { picture, lines }
    };
    let tiles: Vec<Tile> = drawn.into_iter().zip(shown.rows.iter()).map(tile).collect();
    let head = head.note("Below each: the truth, then the prediction and its probability.");
    let columns = if tiles.len() > 80 { 12 } else { 8 };
    Ok(head.figure(&PictureGrid { width: 800.0, columns, tiles }, shown.table()))
}

fn lines(
    shown: &Predictions,
    head: Head,
    what: &'static str,
    text: impl Fn(&Prediction) -> String,
) -> Figure {
    let row = |row: &Prediction| {
        vec![
            (shown.class(row.truth), palette::INK),
            (shown.class(row.predicted), colour(row)),
            (rounded(row.confidence), colour(row)),
            (text(row), palette::MUTED),
        ]
    };
    let rows: Vec<_> = shown.rows.iter().map(row).collect();
    let [truth, prediction, what] = ["truth", "prediction", what].map(|name| (name, Align::Left));
    let columns = vec![truth, prediction, ("probability", Align::Right), what];
    head.figure(&TextRows { width: 800.0, columns, rows }, shown.table())
}

/// A probability in whole percent; never 100 % or 0 % unless it is 1 or 0.
fn rounded(probability: f64) -> String {
    match (100.0 * probability).round() {
        whole if whole >= 100.0 && probability < 1.0 => "> 99 %".into(),
        whole if whole <= 0.0 && probability > 0.0 => "< 1 %".into(),
        whole => format!("{} %", format::fixed(whole, 0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data;
    use crate::show::NOT_COVERED;
    use crate::show::layout::tests::collisions;

    fn of(data: &Dataset, coverage: Coverage) -> Predictions {
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
        let all = of(&data, Coverage::Public);
        // Losses: 7 e mod 13, so 12 for e = 11, 24, 37.
        let examples = |p: &Predictions| p.all().iter().map(|r| r.example).collect::<Vec<_>>();
        assert_eq!(examples(&all.worst(3)), [11, 24, 37]);
        assert_eq!(examples(&all.best(3)), [39, 26, 13]);
        assert_eq!(examples(&all.best(40).worst(3)), [11, 24, 37]);
        assert_eq!(all.best(3).worst(1).all()[0].loss, 0.0);
        assert!(all.wrong().all().iter().all(|row| !row.is_correct()));
        assert_eq!(all.wrong().len() + all.all().iter().filter(|r| r.is_correct()).count(), 40);
        assert_eq!(all.table().len(), 40);
    }

    #[test]
    fn examples_of_private_data_are_marked_and_the_table_without_them_is_left() {
        let public = data::glyphs_with(20, 40, 3).unwrap();
        let (x, y) = (public.train().features_flat().to_vec(), public.train().labels().to_vec());
        let private = data::from_vecs(x, public.shape(), y, 10).unwrap().split(0.5, 1).unwrap();
        let figure = predictions(&of(&private, Coverage::TestPart).worst(5)).unwrap();
        assert!(figure.svg().contains(NOT_COVERED));
        let bundle = of(&private, Coverage::TestPart).worst(5).bundle();
        assert_eq!(bundle.coverage, Coverage::NotCovered);
        let left = bundle.covered_part.unwrap();
        assert_eq!(left.coverage, Coverage::TestPart);
        assert!(left.svg.is_none() && left.text.contains("prediction"));
        let bundle = of(&private, Coverage::NotCovered).worst(5).bundle();
        assert!(bundle.covered_part.is_none());
        let bundle = of(&public, Coverage::Public).worst(5).bundle();
        assert_eq!((bundle.coverage, bundle.covered_part), (Coverage::Public, None));
        assert!(!bundle.svg.unwrap().contains(NOT_COVERED));
    }

    #[test]
    fn pictures_texts_and_rows_of_numbers_are_drawn_without_collisions() {
        let glyphs = data::glyphs_with(20, 40, 3).unwrap();
        let figure = predictions(&of(&glyphs, Coverage::Public).worst(24)).unwrap();
        assert_eq!(figure.svg().matches("<image ").count(), 24);
        assert_eq!(collisions(figure.scene()), Vec::<String>::new());
        let sentences = data::sentences_with(20, 40, 3).unwrap();
        let figure = predictions(&of(&sentences, Coverage::Public).best(10)).unwrap();
        let words = sentences.vocabulary().unwrap().text(sentences.test().features(39));
        let start = words.split(' ').take(3).collect::<Vec<_>>().join(" ");
        assert!(figure.svg().contains(&start), "{start}");
        assert_eq!(collisions(figure.scene()), Vec::<String>::new());
        let numbers =
            data::from_vecs((0..40).map(|i| i as f32).collect(), &[2], vec![0; 20], 2).unwrap();
        let numbers = numbers.split(0.5, 1).unwrap();
        let figure = predictions(&of(&numbers, Coverage::TestPart)).unwrap();
        // Without pictures nothing but the predictions is shown.
        assert!(!figure.svg().contains(NOT_COVERED) && figure.svg().contains("\nnumber 2\n"));
        assert_eq!(collisions(figure.scene()), Vec::<String>::new());
    }

    #[test]
    fn no_probability_is_rounded_to_certainty() {
        assert_eq!(
            [1.0, 0.999, 0.5, 0.001, 0.0].map(rounded),
            ["100 %", "> 99 %", "50 %", "< 1 %", "0 %"]
        );
    }
}
