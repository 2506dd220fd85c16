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
fn missing_files_are_told_with_the_place_and_the_way_to_get_them() {
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
fn broken_files_of_a_known_data_set_say_what_is_broken() {
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

#[test]
fn the_real_mnist_has_its_known_digits() {
    let Some(folder) = shared("mnist") else { return };
    let mnist = data::mnist_in(folder).unwrap();
    let text = "MNIST: 60,000 training and 10,000 test examples of shape 1x28x28, 10 classes";
    assert_eq!(mnist.to_string(), text);
    let train = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949];
    let test = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009];
    assert_eq!((counts(mnist.train()), counts(mnist.test())), (train, test));
    // The first digits, as everybody knows them.
    assert_eq!(mnist.train().labels()[..5], [5, 0, 4, 1, 9]);
    let x = mnist.train().features_flat();
    let mean = x.iter().map(|&x| f64::from(x)).sum::<f64>() / x.len() as f64;
    let square = x.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / x.len() as f64;
    // The published constants are the mean and standard deviation of these very pixels.
    assert!(mean.abs() < 1e-3 && (square - 1.0).abs() < 1e-3, "{mean} {square}");
    assert_eq!(mnist.hash(), MNIST_HASH);
}

/// Names the ledger of MNIST: it must never change.
const MNIST_HASH: &str = "c0d14a78e8120eb5f0002b50adc0d983355b305154c5c2a60f88d619b8f82865";

#[test]
fn the_real_fashion_mnist_is_balanced() {
    let Some(folder) = shared("fashion-mnist") else { return };
    let fashion = data::fashion_mnist_in(folder).unwrap();
    assert_eq!((counts(fashion.train()), counts(fashion.test())), ([6000; 10], [1000; 10]));
    assert_eq!(fashion.class_names()[9], "Ankle boot");
    assert_eq!(fashion.train().label(0), 9);
}

#[test]
fn a_damaged_copy_of_the_real_mnist_is_refused() {
    let Some(real) = shared("mnist") else { return };
    let copy = folder(&[]);
    for file in FILES {
        let name = format!("{file}.gz");
        fs::copy(real.join(&name), copy.path().join(&name)).unwrap();
    }
    let victim = copy.path().join("t10k-images-idx3-ubyte.gz");
    let mut bytes = fs::read(&victim).unwrap();
    bytes.truncate(bytes.len() / 2);
    fs::write(&victim, &bytes).unwrap();
    let text = ["t10k-images-idx3-ubyte.gz", "7,840,016 expected", "gzip stream is truncated"];
    refused(data::mnist_in(copy.path()), ErrorKind::CorruptData, &text);
}
