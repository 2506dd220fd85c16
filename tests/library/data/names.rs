//! The name of the people in a data set: whatever is read of a file, and however, it stays.

use epsilab::data::{TextOptions, Vocabulary};

use super::*;

const TABLE: &str = "age,income,ill\n1,10, 0\n2,9,1 \n3,10,0\n";

fn origin(data: &Dataset) -> String {
    data.origin().to_owned()
}

#[test]
fn a_table_has_one_name_for_all_readings() {
    let files = folder(&[
        ("a.csv", TABLE.into()),
        ("a.csv.gz", gzip(TABLE.as_bytes())),
        ("renamed.csv", TABLE.replace("age", "years").into()),
        ("other.csv", TABLE.replace("9", "8").into()),
    ]);
    let path = |name: &str| files.path().join(name);
    let read = |name: &str, label| data::csv(path(name), label).unwrap();
    let ill = read("a.csv", "ill");
    assert_ne!(ill.hash(), read("a.csv", "income").hash());
    assert_eq!(origin(&ill), origin(&read("a.csv", "income")));
    assert_eq!(origin(&ill), origin(&read("a.csv.gz", "income")));
    assert_eq!(origin(&ill), origin(&read("renamed.csv", "years")));
    assert_ne!(origin(&ill), origin(&read("other.csv", "ill")));
    let options = TextOptions::default().vocabulary(Vocabulary::hashed(64).unwrap());
    let texts = data::text_csv(path("a.csv"), "ill", &["age"], &options).unwrap();
    assert_eq!(origin(&ill), origin(&texts));
    for part in [ill.normalized(1.0, 2.0).unwrap(), ill.limit(1, 0)] {
        assert_eq!(origin(&ill), origin(&part));
    }
}

fn idx(magic: u32, sizes: &[u32], body: &[u8]) -> Vec<u8> {
    let header = [&[magic], sizes].concat();
    header.iter().flat_map(|n| n.to_be_bytes()).chain(body.iter().copied()).collect()
}

const IMAGES: [u8; 6] = [0, 50, 100, 150, 200, 250];

#[test]
fn images_have_one_name_whatever_their_labels() {
    let (x, y) = (idx(0x803, &[3, 1, 2], &IMAGES), idx(0x801, &[3], &[0, 1, 1]));
    let files = folder(&[
        ("x", x.clone()),
        ("x.gz", gzip(&x)),
        ("y", y),
        ("other-y", idx(0x801, &[3], &[1, 0, 2])),
        ("other-x", idx(0x803, &[3, 1, 2], &[9; 6])),
    ]);
    let at = |name: &str| files.path().join(name);
    let read = |x, y| data::idx(at(x), at(y)).unwrap();
    let first = read("x", "y");
    let wide = data::idx_with_classes(at("x"), at("y"), 7).unwrap();
    assert_ne!(first.hash(), wide.hash());
    assert_eq!(origin(&first), origin(&wide));
    assert_eq!(origin(&first), origin(&read("x.gz", "y")));
    assert_eq!(origin(&first), origin(&read("x", "other-y")));
    assert_ne!(origin(&first), origin(&read("other-x", "y")));
}

#[test]
fn vectors_are_named_by_their_features_alone() {
    let make = |x: [f32; 4], shape: &[usize], y: Vec<u32>, classes| {
        data::from_vecs(x.to_vec(), shape, y, classes).unwrap()
    };
    let x = [0.5, -1.0, 2.0, 0.0];
    let first = make(x, &[2], vec![0, 1], 2);
    for same in [
        make(x, &[2], vec![1, 0], 2),
        make(x, &[2], vec![0, 1], 5),
        make(x, &[1, 2], vec![0, 1], 2),
    ] {
        assert_ne!(first.hash(), same.hash());
        assert_eq!(first.origin(), same.origin());
    }
    assert_ne!(first.origin(), make([0.5, -1.0, 2.0, -0.0], &[2], vec![0, 1], 2).origin());
}

#[test]
fn texts_in_memory_are_named_without_their_labels() {
    let make = |labels: [u32; 2]| {
        data::from_texts(&["Red blue", ""], labels.to_vec(), 2, &TextOptions::default()).unwrap()
    };
    let (first, other) = (make([0, 1]), make([1, 0]));
    assert_eq!(first.origin(), other.origin());
}

/// Computed by another program: SHA-256 of `epsilab texts 2` and the cells (see the texts), of
/// `epsilab idx 1` and the unpacked file, of `epsilab features 1` and the bits in little-endian
/// order; a line feed follows each of these words.
#[test]
fn the_names_of_ledgers_are_fixed_for_ever() {
    let files = folder(&[
        ("a.csv", TABLE.into()),
        ("x", idx(0x803, &[3, 1, 2], &IMAGES)),
        ("y", idx(0x801, &[3], &[0, 1, 1])),
    ]);
    let at = |name: &str| files.path().join(name);
    let vectors = data::from_vecs(vec![0.5, -1.0, 2.0, 0.0], &[2], vec![0, 1], 2).unwrap();
    let texts = data::from_texts(&["Red blue", ""], vec![0, 1], 2, &TextOptions::default());
    for (data, name) in [
        (
            data::csv(at("a.csv"), "ill").unwrap(),
            "f1209f69cdb64919443012f81a40a05a17fb70be245fe3f39e46d54ddc263ba0",
        ),
        (
            data::idx(at("x"), at("y")).unwrap(),
            "a3eee7971b775e312ad81ffc4fb55efc00d5a0bc23c267d785439fc28c1ba81c",
        ),
        (vectors, "a74548b3c9078f6f2a443a4f3cc3821b07dd7c6419a179c443edd5bfa34da358"),
        (texts.unwrap(), "14aea72106cce63ffcb49e61833591e4f973ecf7f31ef52f33a2c261b5e45cb1"),
    ] {
        assert_eq!(data.origin(), name, "{data}");
    }
}
