//! Examples of a data set.

use super::{ExampleKind, PictureGrid, PictureTile, TextRows, load_bitmaps};
use crate::data::{Dataset, Vocabulary};
use crate::show::figure_card::FigureHeader;
use crate::show::palette;
use crate::show::scene::Align;
use crate::show::{Coverage, Figure, Table, format};
use crate::{Error, Result};

const WIDTH: f64 = 800.0;
/// Largest number of examples in a figure.
const MAX_EXAMPLES: usize = 200;
/// Largest number of columns of a data set that are drawn.
const MAX_DRAWN_COLUMNS: usize = 30;
/// Largest number of columns of a data set in the table of the figure.
const MAX_TABLE_COLUMNS: usize = 1000;

/// Draws at most `n` examples of the training part, as many of each class as possible: images as
/// pictures, texts as lines. Of a table, the range of each column is shown instead, over all
/// examples of the training part.
///
/// Only the examples that are drawn are read from files. Black and white are the lowest and the
/// highest value of the images that are drawn, whatever the scale of the features.
///
/// ```
/// # use epsilab::prelude::*;
/// let data = data::glyphs_with(100, 0, 1)?;
/// let figure = figures::examples(&data, 40)?;
/// assert_eq!(figure.table().len(), 40);
/// # Ok::<(), Error>(())
/// ```
///
/// # Guarantee
/// None: examples of the training part are shown as they are. The figure carries
/// [`NOT_COVERED`](crate::show::NOT_COVERED) unless the data are [drawn by code or declared
/// public](Dataset::public).
///
/// # Errors
/// `Setting` for no examples or more than 200; as [`Examples::gather`] if an image can't be read.
///
/// [`Examples::gather`]: crate::data::Examples::gather
pub fn examples(data: &Dataset, n: usize) -> Result<Figure> {
    if n == 0 || n > MAX_EXAMPLES {
        let why = format!("a figure has 1 to {MAX_EXAMPLES} examples");
        return Err(Error::setting("n", n, why).fix("for instance 40"));
    }
    let private = data.public().is_none();
    let head = FigureHeader::new(format!("Examples of {}", data.name()))
        .note(format!("{data}."))
        .note(data.source())
        .coverage(Coverage::for_raw_data(private));
    if let ExampleKind::Tabular = ExampleKind::for_dataset(data) {
        return Ok(column_ranges(data, head));
    }
    let ids = balanced_ids(data.train().labels(), data.classes(), n);
    let head = head.note(selection_note(&ids, data));
    match ExampleKind::for_dataset(data) {
        ExampleKind::Texts(vocabulary) => Ok(texts(data, vocabulary, &ids, head)),
        _ => pictures(data, &ids, head),
    }
}

fn pictures(data: &Dataset, ids: &[u32], head: FigureHeader) -> Result<Figure> {
    let names = data.class_names();
    let label = |id: u32| &names[data.train().label(id as usize)];
    let drawn = load_bitmaps(data.train(), ids)?.into_iter().zip(ids);
    let tile =
        |(picture, &id)| PictureTile { picture, lines: vec![(label(id).clone(), palette::INK)] };
    let tiles: Vec<PictureTile> = drawn.map(tile).collect();
    // A column for each class where there are few.
    let columns = match data.classes() {
        classes if (5..=10).contains(&classes) && (classes + 1..=80).contains(&ids.len()) => {
            classes
        }
        _ if ids.len() > 80 => 16,
        _ => 8.min(ids.len()),
    };
    let rows = ids.iter().map(|&id| [format::format_count(id), label(id).clone()]);
    let table = Table::new(["example", "class"]).rows(rows);
    Ok(head.figure(&PictureGrid { width: WIDTH, columns, tiles }, table))
}

fn texts(data: &Dataset, vocabulary: &Vocabulary, ids: &[u32], head: FigureHeader) -> Figure {
    let part = data.train();
    let head = match vocabulary.word(Vocabulary::UNKNOWN) {
        Some(_) => head,
        None => head.note("Token ids: a vocabulary by hashing does not know the words."),
    };
    let row = |&id: &u32| {
        let label = data.class_names()[part.label(id as usize)].clone();
        // Texts are in memory.
        [label, vocabulary.text(part.features(id as usize))]
    };
    let rows: Vec<[String; 2]> = ids.iter().map(row).collect();
    let line = |[label, text]: &[String; 2]| {
        vec![(label.clone(), palette::INK), (text.clone(), palette::MUTED)]
    };
    let columns = vec![("class", Align::Left), ("text", Align::Left)];
    let drawing = TextRows { width: WIDTH, columns, rows: rows.iter().map(line).collect() };
    head.figure(&drawing, Table::new(["class", "text"]).rows(rows))
}

/// Draws the range of each column.
fn column_ranges(data: &Dataset, head: FigureHeader) -> Figure {
    let size: usize = data.shape().iter().product();
    let counted = size.min(MAX_TABLE_COLUMNS);
    let (part, names) = (data.train(), data.column_names());
    let (features, rows) = (part.features_flat(), part.len());
    let row = |column: usize| {
        let mut values: Vec<f32> = features.iter().skip(column).step_by(size).copied().collect();
        values.sort_by(f32::total_cmp);
        let name = names.and_then(|names| names.get(column)).cloned();
        let median = match (values.get(rows.saturating_sub(1) / 2), values.get(rows / 2)) {
            (Some(low), Some(high)) => (f64::from(*low) + f64::from(*high)) / 2.0,
            _ => f64::NAN,
        };
        let at =
            |value: Option<&f32>| format::significant(value.map_or(f64::NAN, |&v| v.into()), 4);
        let (low, high) = (at(values.first()), at(values.last()));
        values.dedup();
        let name = name.unwrap_or_else(|| format!("feature {}", format::format_count(column)));
        [name, low, format::significant(median, 4), high, format::format_count(values.len())]
    };
    let all: Vec<[String; 5]> = (0..counted).map(row).collect();
    let drawn = counted.min(MAX_DRAWN_COLUMNS);
    let head = head.note("Over all examples of the training part.").note_if(size > drawn, || {
        format!("The first {drawn} of {} columns.", format::format_count(size))
    });
    let heads = ["column", "lowest", "median", "highest", "different values"];
    let ink = |text: &String| (text.clone(), palette::INK);
    let lines: Vec<Vec<_>> = all[..drawn].iter().map(|row| row.iter().map(ink).collect()).collect();
    let [name, numbers @ ..] = heads;
    let numbers = numbers.map(|name| (name, Align::Right));
    let columns = std::iter::once((name, Align::Left)).chain(numbers).collect();
    let drawing = TextRows { width: 600.0, columns, rows: lines };
    head.figure(&drawing, Table::new(heads).rows(all))
}

/// Returns the numbers of at most `n` examples: the first of each class, then the second of each.
fn balanced_ids(labels: &[u32], classes: usize, n: usize) -> Vec<u32> {
    let mut of_class: Vec<Vec<u32>> = vec![Vec::new(); classes];
    for (id, &label) in (0..).zip(labels) {
        let ids = &mut of_class[label as usize];
        if ids.len() < n {
            ids.push(id);
        }
    }
    let rounds = of_class.iter().map(Vec::len).max().unwrap_or(0);
    let ids = (0..rounds).flat_map(|round| of_class.iter().filter_map(move |ids| ids.get(round)));
    ids.take(n).copied().collect()
}

/// Describes which examples are drawn; empty if all are.
fn selection_note(ids: &[u32], data: &Dataset) -> String {
    let (drawn, all, classes) = (ids.len(), data.train().len(), data.classes());
    match drawn {
        drawn if drawn >= all => String::new(),
        drawn if drawn < classes => {
            format!("The first training example of {drawn} of the {classes} classes.")
        }
        _ => {
            format!("The first {} training examples, evenly by class.", format::format_count(drawn))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{self, TextOptions, from_texts, from_vecs};
    use crate::show::NOT_COVERED;
    use crate::show::layout::tests::collisions;

    #[test]
    fn examples_are_taken_evenly_and_in_order() {
        assert_eq!(balanced_ids(&[0, 0, 0, 1, 2, 1], 3, 5), [0, 3, 4, 1, 5]);
        assert_eq!(balanced_ids(&[0, 0, 0, 1, 2, 1], 3, 2), [0, 3]);
        assert_eq!(balanced_ids(&[1, 1], 3, 9), [0, 1]);
    }

    #[test]
    fn pictures_of_private_data_carry_the_badge_and_others_do_not() {
        let data = data::glyphs_with(100, 0, 1).unwrap();
        let private = from_vecs(
            data.train().features_flat().to_vec(),
            data.shape(),
            data.train().labels().to_vec(),
            10,
        )
        .unwrap();
        let declared = private.assumed_public();
        for (data, coverage) in [
            (data, Coverage::Public),
            (private, Coverage::NotCovered),
            (declared, Coverage::Public),
        ] {
            let figure = examples(&data, 40).unwrap();
            let bundle = figure.bundle();
            assert_eq!(bundle.coverage, coverage);
            let svg = bundle.svg.unwrap();
            assert_eq!(svg.contains(NOT_COVERED), coverage == Coverage::NotCovered);
            assert_eq!(svg.matches("<image ").count(), 40);
            assert!(svg.len() < 150_000, "{}", svg.len());
            assert!(bundle.png.unwrap().len() < 150_000);
            assert_eq!(collisions(figure.scene()), Vec::<String>::new());
        }
    }

    #[test]
    fn colour_images_stay_small() {
        for n in [40, 200] {
            let figure = examples(&data::patterns_with(1000, 0, 1).unwrap(), n).unwrap();
            let (svg, png) = (figure.svg(), figure.png());
            assert!(svg.len() < 300_000 && png.len() < 400_000, "{} {}", svg.len(), png.len());
            assert_eq!(collisions(figure.scene()), Vec::<String>::new());
        }
    }

    #[test]
    fn texts_are_lines_and_columns_have_their_ranges() {
        let data = data::sentences_with(50, 0, 1).unwrap();
        let figure = examples(&data, 12).unwrap();
        let first = data.vocabulary().unwrap().text(data.train().features(0));
        assert!(figure.text().contains(&first), "{figure}");
        assert_eq!(collisions(figure.scene()), Vec::<String>::new());
        let texts = ["a fine day", "a bad day"];
        let hashed = from_texts(&texts, vec![0, 1], 2, &TextOptions::default()).unwrap();
        let figure = examples(&hashed, 12).unwrap();
        assert!(figure.text().contains("does not know the words"), "{figure}");

        let x = vec![1.0, 5.0, 2.0, 5.0, 4.0, 5.0, 9.0, 5.0];
        let table = from_vecs(x, &[2], vec![0, 1, 0, 1], 2).unwrap();
        let figure = examples(&table, 40).unwrap();
        let csv = figure.table().csv();
        let expected = "column,lowest,median,highest,different values\n\
                        feature 0,1.000,3.000,9.000,4\nfeature 1,5.000,5.000,5.000,1\n";
        assert_eq!(csv, expected);
        assert!(figure.svg().contains("\nfeature 1\n") && figure.svg().contains(NOT_COVERED));
        let wide = from_vecs(vec![0.5; 2 * 64], &[64], vec![0, 1], 2).unwrap();
        let figure = examples(&wide, 40).unwrap();
        assert!(figure.svg().contains("The first 30 of 64 columns."));
        assert_eq!(collisions(figure.scene()), Vec::<String>::new());
    }

    #[test]
    fn names_of_columns_are_those_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("people.csv");
        std::fs::write(&path, "age,kind,income\n30,a,1.5\n50,b,2.5\n").unwrap();
        let data = data::csv(&path, "kind").unwrap();
        let figure = examples(&data, 1).unwrap();
        let csv = figure.table().csv();
        assert!(csv.contains("age,30.00,40.00,50.00,2\nincome,1.500,2.000,2.500,2"), "{csv}");
        // Derived data keep the names.
        assert!(examples(&data.limit(1, 1), 1).unwrap().text().contains("income"));
    }

    #[test]
    fn only_the_images_that_are_drawn_are_read() {
        let folder = tempfile::tempdir().unwrap();
        for (class, level) in [("cat", 40u8), ("dog", 200)] {
            let of_class = folder.path().join(class);
            std::fs::create_dir(&of_class).unwrap();
            for i in 0..3 {
                let image = image::RgbImage::from_pixel(40, 30, image::Rgb([level, i, 0]));
                image.save(of_class.join(format!("{i}.png"))).unwrap();
            }
        }
        let data = data::image_folder(folder.path(), &data::ImageOptions::size(16)).unwrap();
        std::fs::write(folder.path().join("dog/2.png"), "damaged").unwrap();
        let figure = examples(&data, 4).unwrap();
        assert_eq!(figure.svg().matches("<image ").count(), 4);
        assert!(examples(&data, 6).is_err());
        assert!(examples(&data, 0).is_err() && examples(&data, 201).is_err());
    }
}
