//! MNIST, Fashion-MNIST and IDX files of one's own.

use super::*;

/// The four files of the MNIST family: training images and labels, then test images and labels.
const FILES: [&str; 4] = [
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
];

/// Images of 2x2 pixels.
fn images(items: u32) -> Vec<u8> {
    let header = [0x803, items, 2, 2].into_iter().flat_map(u32::to_be_bytes);
    header.chain((0..4 * items).map(|i| i as u8)).collect()
}

fn labels(values: &[u8]) -> Vec<u8> {
    let header = [0x801, values.len() as u32].into_iter().flat_map(u32::to_be_bytes);
    header.chain(values.iter().copied()).collect()
}

/// A folder like that of MNIST, sound in form though not the original files.
fn small_mnist(changes: &[(usize, Vec<u8>)]) -> tempfile::TempDir {
    let mut contents = [images(4), labels(&[0, 1, 2, 9]), images(2), labels(&[3, 4])];
    changes.iter().for_each(|(i, bytes)| contents[*i].clone_from(bytes));
    folder(&FILES.into_iter().zip(contents).collect::<Vec<_>>())
}

#[test]
fn missing_files_have_their_location_and_advice_on_getting_them() {
    let empty = folder(&[]);
    let place = empty.path().display().to_string();
    let text = ["MNIST is not on this machine", FILES[0], FILES[3], &place, "datasets/mnist/"];
    refused(data::mnist_in(empty.path()), ErrorKind::MissingData, &text);
    let text = ["Fashion-MNIST is not", "zalandoresearch", "datasets/fashion-mnist/"];
    refused(data::fashion_mnist_in(empty.path()), ErrorKind::MissingData, &text);

    let half = small_mnist(&[]);
    fs::remove_file(half.path().join(FILES[3])).unwrap();
    let text = ["not complete", "missing t10k-labels-idx1-ubyte (", "data::glyphs()"];
    refused(data::mnist_in(half.path()), ErrorKind::MissingData, &text);
}

#[test]
fn files_that_are_not_the_original_ones_are_refused_by_their_hash() {
    let folder = small_mnist(&[]);
    let expected = "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db";
    let text = [FILES[0], "not the original file of MNIST", expected, "SHA-256", "yann.lecun.com"];
    refused(data::mnist_in(folder.path()), ErrorKind::CorruptData, &text);
}

#[test]
fn errors_of_broken_files_of_a_known_data_set_name_the_fault() {
    let cases: [(usize, Vec<u8>, &[&str]); 7] = [
        (0, images(4)[..20].to_vec(), &["20 bytes found", "32 expected", "truncated"]),
        (0, gzip(&images(4))[..30].to_vec(), &["gzip stream", "truncated or damaged"]),
        (0, [images(4), vec![0]].concat(), &["more than the 32 bytes"]),
        (0, labels(&[1; 40]), &["0x00000801", "0x00000803", "this is a file of labels"]),
        (1, labels(&[0, 1, 10, 9]), &["label 10 at position 2", "labels must be 0 to 9"]),
        (1, labels(&[0, 1, 2]), &["4 images", "3 labels"]),
        (3, b"<html>".to_vec(), &["0x3c68746d", "0x00000801"]),
    ];
    for (file, bytes, parts) in cases {
        let folder = small_mnist(&[(file, bytes)]);
        let error = refused(data::mnist_in(folder.path()), ErrorKind::CorruptData, parts);
        assert!(error.to_string().contains(FILES[file]), "{error}");
    }
}

#[test]
fn own_idx_files_are_read_plain_and_packed() {
    let folder = folder(&[("x.gz", gzip(&images(3))), ("y", labels(&[0, 1, 1]))]);
    let (x, y) = (folder.path().join("x.gz"), folder.path().join("y"));
    let read = data::idx(&x, &y).unwrap();
    assert_eq!(read.to_string(), "x: 3 training and no test examples of shape 1x2x2, 2 classes");
    assert_eq!(read.train().features(2), [8.0, 9.0, 10.0, 11.0].map(|x| x / 255.0));
    assert_eq!(read.train().labels(), [0, 1, 1]);
    assert_eq!(data::idx_with_classes(&x, &y, 7).unwrap().classes(), 7);
}

#[test]
fn broken_idx_files_of_ones_own_are_refused() {
    let files = [
        ("x", images(3)),
        ("cut", images(3)[..25].to_vec()),
        ("y", labels(&[0, 1, 1])),
        ("two", labels(&[0, 1])),
        ("damaged", labels(&[0, 1, 200])),
        ("same", labels(&[0, 0, 0])),
    ];
    let folder = folder(&files);
    let at = |name: &str| folder.path().join(name);
    let corrupt = ErrorKind::CorruptData;
    refused(data::idx(at("cut"), at("y")), corrupt, &["25 bytes found", "28 expected"]);
    refused(data::idx(at("y"), at("x")), corrupt, &["this is a file of labels"]);
    refused(data::idx(at("x"), at("two")), corrupt, &["3 images", "2 labels"]);
    let text = ["label 200 at position 2 is out of range", "idx_with_classes"];
    refused(data::idx(at("x"), at("damaged")), corrupt, &text);
    let text = ["label 200 at position 2", "0 to 9"];
    refused(data::idx_with_classes(at("x"), at("damaged"), 10), corrupt, &text);
    refused(data::idx(at("x"), at("same")), corrupt, &["all labels are 0"]);
    let text = ["classes = 1"];
    refused(data::idx_with_classes(at("x"), at("y"), 1), ErrorKind::Setting, &text);
    let missing = ["absent", "no such file"];
    refused(data::idx(at("absent"), at("y")), ErrorKind::MissingData, &missing);
    refused(data::idx(folder.path(), at("y")), ErrorKind::Io, &["reading"]);
}
