//! The real data sets.

use std::fs;

use epsilab::ErrorKind;
use epsilab::data::{self, TextOptions};

use crate::support::files::path;

fn counts(part: &data::Examples) -> [usize; 10] {
    let mut counts = [0; 10];
    part.labels().iter().for_each(|&label| counts[label as usize] += 1);
    counts
}

pub fn the_real_mnist_has_its_known_digits() {
    let folder = path("datasets/mnist");
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

pub fn the_real_fashion_mnist_is_balanced() {
    let folder = path("datasets/fashion-mnist");
    let fashion = data::fashion_mnist_in(folder).unwrap();
    assert_eq!((counts(fashion.train()), counts(fashion.test())), ([6000; 10], [1000; 10]));
    assert_eq!(fashion.class_names()[9], "Ankle boot");
    assert_eq!(fashion.train().label(0), 9);
}

pub fn a_damaged_copy_of_the_real_mnist_is_refused() {
    let real = path("datasets/mnist");
    let copy = tempfile::tempdir().unwrap();
    for file in ["train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"] {
        let name = format!("{file}-ubyte.gz");
        // Not `fs::copy`, which makes a read-only file of a read-only file.
        fs::write(copy.path().join(&name), fs::read(real.join(&name)).unwrap()).unwrap();
    }
    let victim = copy.path().join("t10k-images-idx3-ubyte.gz");
    let mut bytes = fs::read(&victim).unwrap();
    bytes.truncate(bytes.len() / 2);
    fs::write(&victim, &bytes).unwrap();
    let error = data::mnist_in(copy.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CorruptData, "{error}");
    for part in ["t10k-images-idx3-ubyte.gz", "7,840,016 expected", "gzip stream is truncated"] {
        assert!(error.to_string().contains(part), "`{part}` is not in: {error}");
    }
    assert!(!error.advice().is_empty() && error.to_string().contains("what to do:"), "{error}");
}

pub fn the_real_cifar_10_is_balanced() {
    let folder = path("datasets/cifar-10");
    let cifar = data::cifar10_in(folder).unwrap();
    let text = "CIFAR-10: 50,000 training and 10,000 test examples of shape 3x32x32, 10 classes";
    assert_eq!(cifar.to_string(), text);
    assert_eq!((counts(cifar.train()), counts(cifar.test())), ([5000; 10], [1000; 10]));
    assert!(cifar.source().contains("SHA-256 checked"), "{}", cifar.source());
    // The first images, as everybody knows them: a frog, two trucks, a deer, a car.
    assert_eq!(cifar.train().labels()[..5], [6, 9, 9, 4, 1]);
    // The published means of the training images, red, green, blue.
    let planes = cifar
        .train()
        .features_flat()
        .chunks_exact(1024)
        .map(|plane| plane.iter().map(|&x| f64::from(x) * 0.5 + 0.5).sum::<f64>() / 1024.0);
    let mut means = [0.0; 3];
    planes.enumerate().for_each(|(i, mean)| means[i % 3] += mean / 50_000.0);
    for (mean, published) in means.into_iter().zip([0.4914, 0.4822, 0.4465]) {
        assert!((mean - published).abs() < 1e-4, "{means:?}");
    }
}

pub fn the_real_part_of_cifar_100_is_used_as_a_part() {
    let folder = path("datasets/cifar-100-subset");
    let cifar = data::cifar100_in(folder).unwrap();
    assert_eq!(cifar.name(), "CIFAR-100 (10,000 training examples)");
    let mut counts = [0; 100];
    cifar.train().labels().iter().for_each(|&label| counts[label as usize] += 1);
    assert_eq!(counts, [100; 100]);
    assert!(cifar.test().is_empty() && cifar.source().contains("test.bin"), "{}", cifar.source());
}

pub fn the_real_part_of_ag_news_is_read() {
    let folder = path("datasets/ag_news_csv");
    let dataset = data::ag_news_in(folder, &TextOptions::default()).unwrap();
    assert_eq!(dataset.name(), "AG News (10,000 training rows)");
    assert_eq!((dataset.shape(), dataset.vocabulary().unwrap().len()), (&[64][..], 8192));
    assert_eq!(counts(dataset.train())[..4], [2514, 2504, 2519, 2463]);
    assert_eq!(counts(dataset.test())[..4], [1900; 4]);
    let x = dataset.train().features_flat();
    assert!(x.iter().all(|&id| id.fract() == 0.0 && (0.0..8192.0).contains(&id)));
    // Most articles have 30 to 60 words.
    let filled = x.iter().filter(|&&id| id != 0.0).count() as f64 / dataset.train().len() as f64;
    assert!((30.0..60.0).contains(&filled), "{filled}");
    // "Fears for T N pension after talks": the first words of the test part.
    let first = dataset.vocabulary().unwrap().ids("fears FOR t-n pension after talks");
    let found: Vec<u32> = dataset.test().features(0)[..7].iter().map(|&id| id as u32).collect();
    assert_eq!(found, first);
}

pub fn the_real_mnist_read_as_files_of_ones_own_shares_its_ledger() {
    let folder = path("datasets/mnist");
    let mnist = data::mnist_in(&folder).unwrap();
    let file = |name: &str| {
        let path = folder.join(name);
        if path.exists() { path } else { folder.join(format!("{name}.gz")) }
    };
    let images = file("train-images-idx3-ubyte");
    let own = data::idx(images, file("train-labels-idx1-ubyte")).unwrap();
    assert_ne!(own.hash(), mnist.hash());
    assert_eq!(own.origin(), mnist.origin());
}
