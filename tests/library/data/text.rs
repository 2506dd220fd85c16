//! Texts: CSV files of one's own, AG News.

use epsilab::data::{TextOptions, Vocabulary};

use super::*;

fn words() -> TextOptions {
    let list = Vocabulary::from_words(["red", "green", "blue"]).unwrap();
    TextOptions::default().length(3).vocabulary(list)
}

fn read(text: &str, columns: &[&str]) -> Result<Dataset> {
    let folder = folder(&[("paint.csv", text.into())]);
    data::text_csv(folder.path().join("paint.csv"), "mood", columns, &words())
}

const PAINT: &str =
    "\u{feff}title,mood,body\nRed!,warm,\"green, red\nblue\"\n,cold, \nmauve,cold,Blue\n";

#[test]
fn a_csv_of_texts_becomes_rows_of_one_length() {
    let paint = read(PAINT, &["title", "body"]).unwrap();
    let line = "paint: 3 training and no test examples of shape 3, 2 classes, a list of 3 words";
    assert_eq!(paint.to_string(), line);
    assert_eq!(paint.class_names(), ["cold", "warm"]);
    assert_eq!(paint.train().labels(), [1, 0, 0]);
    // 0 fills up, 1 is a word that is not in the list.
    let x = [2.0, 3.0, 2.0, 0.0, 0.0, 0.0, 1.0, 4.0, 0.0];
    assert_eq!(paint.train().features_flat(), x);
    let vocabulary = paint.vocabulary().unwrap();
    assert_eq!(vocabulary.len(), 5);
    assert_eq!(vocabulary.text(paint.train().features(2)), "? blue");
    assert_eq!(paint.limit(2, 0).vocabulary().unwrap().len(), 5);
    assert!(
        paint.source().contains("text of `title`, `body`; 3 words per text"),
        "{}",
        paint.source()
    );

    let body = read(PAINT, &["body"]).unwrap();
    assert_eq!(body.train().features(0), [3.0, 2.0, 4.0]);
}

#[test]
fn reading_texts_in_another_way_keeps_their_ledger() {
    let folder = folder(&[("a.csv", PAINT.into()), ("b.csv", PAINT.replace("mauve", "x").into())]);
    let read = |name: &str, options: &TextOptions| {
        data::text_csv(folder.path().join(name), "mood", &["title", "body"], options).unwrap()
    };
    let (short, long) = (read("a.csv", &words()), read("a.csv", &TextOptions::default()));
    assert_ne!(short.hash(), long.hash());
    assert_eq!(short.origin(), long.origin());
    assert_eq!(short.split(0.5, 1).unwrap().origin(), long.origin());
    // The two files read alike under the short list; the texts differ all the same.
    let other = read("b.csv", &words());
    assert_eq!(other.hash(), short.hash());
    assert_ne!(other.origin(), short.origin());
}

#[test]
fn other_columns_keep_the_ledger_other_rows_do_not() {
    let rows = "title,mood,body\nRed,warm,green\nBlue,cold,\"sky, sea\"\nmauve,cold,Blue\n";
    let folder = folder(&[
        ("a.csv", rows.into()),
        ("a.csv.gz", gzip(rows.as_bytes())),
        ("other.csv", rows.replace("mauve,cold", "mauve,warm").into()),
        ("cut.csv", "mood,body\nwarm,green\ncold,\"sky, sea\"\ncold,Blue\n".into()),
    ]);
    let origin = |name: &str, label: &str, columns: &[&str]| {
        let data = data::text_csv(folder.path().join(name), label, columns, &words()).unwrap();
        data.origin().to_owned()
    };
    let whole = origin("a.csv", "mood", &["title", "body"]);
    assert_eq!(whole, origin("a.csv", "mood", &["body"]));
    assert_eq!(whole, origin("a.csv", "body", &["title", "mood"]));
    assert_eq!(whole, origin("a.csv.gz", "mood", &["title"]));
    assert_ne!(whole, origin("other.csv", "mood", &["title", "body"]));
    // The columns that both files have are equal; nothing tells that the rows are.
    assert_ne!(whole, origin("cut.csv", "mood", &["body"]));
}

/// Computed by another program: SHA-256 of `epsilab texts 2`, a line feed, and for each row how
/// many cells it has and the cells, each after its length (64 bits each, little-endian). It names
/// the ledger.
#[test]
fn the_name_of_the_texts_ledger_is_fixed_for_ever() {
    let paint = read(PAINT, &["title", "body"]).unwrap();
    assert_eq!(paint.origin(), "c47add19e4e21d564ab0cabaa6a468daf70376a3729a6dfd01b00f766c152b13");
}

#[test]
fn token_ids_are_not_scaled() {
    let paint = read(PAINT, &["body"]);
    let text = ["paint holds token ids", "do not scale texts"];
    refused(paint.and_then(|paint| paint.normalized(0.5, 0.5)), ErrorKind::Setting, &text);
}

#[test]
fn bad_texts_are_refused_by_line() {
    let (setting, corrupt) = (ErrorKind::Setting, ErrorKind::CorruptData);
    refused(read(PAINT, &[]), setting, &["text = []"]);
    refused(read(PAINT, &["boby"]), setting, &["text = `boby`", "title, mood, body"]);
    refused(read("title,feeling\na,b\n", &["title"]), setting, &["label = `mood`", "feeling"]);
    let cases: [(&str, &[&str]); 3] = [
        ("title,mood\na,warm\nb,\n", &["line 3, column `mood`", "empty"]),
        ("title,mood\na,warm\nb,cold,x\n", &["line 3", "3 cells", "header has 2"]),
        ("title,mood\na,warm\n", &["1 different labels in 1 rows"]),
    ];
    for (text, parts) in cases {
        refused(read(text, &["title"]), corrupt, &[parts, &["paint.csv"]].concat());
    }
    let folder = folder(&[("t.csv", b"t,mood\n\xff,warm\n".to_vec())]);
    let path = folder.path().join("t.csv");
    refused(data::text_csv(&path, "mood", &["t"], &words()), corrupt, &["line 2", "not UTF-8"]);
    let long = words().length(0);
    refused(data::text_csv(&path, "mood", &["t"], &long), setting, &["length = 0"]);
    let absent = folder.path().join("absent.csv");
    let missing = ErrorKind::MissingData;
    refused(data::text_csv(absent, "mood", &["t"], &words()), missing, &["no such file"]);
}

#[test]
fn texts_in_memory_are_read_alike() {
    let make =
        |texts: &[&str], labels: &[u32]| data::from_texts(texts, labels.to_vec(), 2, &words());
    let moods = make(&["Red blue", ""], &[0, 1]).unwrap();
    assert_eq!(moods.train().features_flat(), [2.0, 4.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(moods.vocabulary().unwrap().len(), 5);
    assert_ne!(moods.origin(), make(&["red blue", ""], &[0, 1]).unwrap().origin());
    assert_eq!(moods.origin(), make(&["Red blue", ""], &[1, 1]).unwrap().origin());
    let setting = ErrorKind::Setting;
    refused(make(&["a"], &[0, 1]), setting, &["texts = 1", "2 labels"]);
    refused(make(&[], &[]), setting, &["y = []"]);
    refused(make(&["a"], &[2]), ErrorKind::CorruptData, &["label 2 of example 0"]);
}

#[test]
fn a_part_of_ag_news_is_used_and_named() {
    let folder = folder(&[
        ("train-few.csv", b"\"4\",\"Red\",\"Blue\"\n".to_vec()),
        ("train-more.csv", b"\"3\",\"Fears\",\"a \"\"red\"\" one\"\n\"1\",\"x\",\"y\"\n".to_vec()),
    ]);
    let dataset = data::ag_news_in(folder.path(), &words()).unwrap();
    assert_eq!(dataset.name(), "AG News (2 training rows)");
    assert_eq!(dataset.class_names(), ["World", "Sports", "Business", "Sci/Tech"]);
    assert_eq!(dataset.train().labels(), [2, 0]);
    assert_eq!(dataset.train().features(0), [1.0, 1.0, 2.0]);
    for part in ["train-more.csv", "not there: train.csv, test.csv", "Only a part", "No test part"]
    {
        assert!(dataset.source().contains(part), "`{part}` is not in: {}", dataset.source());
    }
    fs::write(folder.path().join("train.csv"), "1,red,\n").unwrap();
    fs::write(folder.path().join("test.csv"), "2,,\n").unwrap();
    let dataset = data::ag_news_in(folder.path(), &words()).unwrap();
    assert_eq!((dataset.train().labels(), dataset.test().labels()), (&[0][..], &[1][..]));
}

#[test]
fn packed_ag_news_is_unpacked_and_shares_its_ledger() {
    let (train, test) = ("\"4\",\"Red\",\"Blue\"\n1,green,\n", "2,blue,sky\n");
    let files =
        folder(&[("train.csv.gz", gzip(train.as_bytes())), ("test.csv.gz", gzip(test.as_bytes()))]);
    let dataset = data::ag_news_in(files.path(), &words()).unwrap();
    assert_eq!(dataset.train().labels(), [3, 0]);
    assert_eq!(dataset.train().features_flat(), [2.0, 4.0, 0.0, 3.0, 0.0, 0.0]);
    assert_eq!(dataset.test().features(0), [4.0, 1.0, 0.0]);

    let plain = folder(&[
        ("train.csv", train.into()),
        ("with_header.csv", format!("class,title,text\n{train}").into()),
    ]);
    assert_eq!(data::ag_news_in(plain.path(), &words()).unwrap().origin(), dataset.origin());
    let table = plain.path().join("with_header.csv");
    let table = data::text_csv(table, "class", &["text"], &words()).unwrap();
    assert_eq!(table.origin(), dataset.origin());

    let whole = gzip(train.as_bytes());
    let cut = folder(&[("train.csv.gz", whole[..whole.len() - 6].to_vec())]);
    let text = ["train.csv.gz", "truncated or damaged"];
    refused(data::ag_news_in(cut.path(), &words()), ErrorKind::CorruptData, &text);
}

#[test]
fn broken_ag_news_is_refused_by_line() {
    let cases: [(&[u8], &[&str]); 6] = [
        (b"1,a,b\n5,a,b\n", &["line 2", "class `5`", "1 to 4"]),
        (b"0,a,b\n", &["line 1", "class `0`"]),
        (b"Class Index,Title,Description\n1,a,b\n", &["line 1", "class `Class Index`"]),
        (b"1,a,b\n1,a\n", &["line 2", "2 cells, 3 expected"]),
        (b"1,a,b\n2,\xff,b\n", &["line 2", "not UTF-8"]),
        (b"", &["no rows"]),
    ];
    for (bytes, parts) in cases {
        let folder = folder(&[("train.csv", bytes.to_vec())]);
        let dataset = data::ag_news_in(folder.path(), &words());
        refused(dataset, ErrorKind::CorruptData, &[parts, &["train.csv"]].concat());
    }
    let empty = folder(&[]);
    let text = ["AG News is not", "arXiv:1509.01626", "datasets/ag_news_csv/", "data::sentences()"];
    refused(data::ag_news_in(empty.path(), &words()), ErrorKind::MissingData, &text);
}
