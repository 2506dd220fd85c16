//! CIFAR-10 and CIFAR-100.

use super::*;

/// Records with these labels in front of images of one value, the number of the record.
fn records(labels: &[&[u8]]) -> Vec<u8> {
    let record = |(i, labels): (usize, &&[u8])| [labels.to_vec(), vec![i as u8; 3072]].concat();
    labels.iter().enumerate().flat_map(record).collect()
}

#[test]
fn a_part_of_the_batches_is_used_and_named() {
    let two = records(&[&[3], &[9]]);
    let folder = folder(&[
        ("data_batch_4.bin", records(&[&[7]])),
        ("data_batch_2.bin.gz", gzip(&two)),
        ("batches.meta.txt", b"airplane".to_vec()),
    ]);
    let cifar = data::cifar10_in(folder.path()).unwrap();
    let text = "CIFAR-10 (3 training examples): 3 training and no test examples of shape 3x32x32, \
                10 classes";
    assert_eq!(cifar.to_string(), text);
    assert_eq!(cifar.train().labels(), [3, 9, 7]);
    let x: Vec<f32> = (0..3).map(|i| cifar.train().features(i)[0]).collect();
    assert_eq!(x, [0.0, 1.0, 0.0].map(|x: f32| (x / 255.0 - 0.5) / 0.5));
    for part in [
        "not compared with a published hash",
        "data_batch_2.bin.gz, data_batch_4.bin",
        "not there: data_batch_1.bin, data_batch_3.bin, data_batch_5.bin, test_batch.bin",
        "No test part",
    ] {
        assert!(cifar.source().contains(part), "`{part}` is not in: {}", cifar.source());
    }
}

#[test]
fn colour_planes_keep_their_order() {
    let mut bytes = vec![5];
    for plane in [0, 51, 255] {
        bytes.extend([plane; 1024]);
    }
    let folder = folder(&[("data_batch_1.bin", bytes)]);
    let cifar = data::cifar10_in(folder.path()).unwrap();
    let x = cifar.train().features(0);
    assert_eq!([x[0], x[1023], x[1024], x[2047], x[2048]], [-1.0, -1.0, -0.6, -0.6, 1.0]);
    assert_eq!(cifar.class_names()[cifar.train().label(0)], "dog");
}

#[test]
fn cifar_100_has_fine_labels_and_takes_another_training_file() {
    let folder = folder(&[
        ("train_few.bin.gz", gzip(&records(&[&[0, 51], &[4, 0]]))),
        ("trained_model.txt", vec![0; 100_000]),
    ]);
    let cifar = data::cifar100_in(folder.path()).unwrap();
    assert_eq!((cifar.name(), cifar.classes()), ("CIFAR-100 (2 training examples)", 100));
    assert_eq!(cifar.train().labels(), [51, 0]);
    assert_eq!(cifar.class_names()[51], "mushroom");
    assert!(cifar.source().contains("not there: train.bin, test.bin"), "{}", cifar.source());

    fs::write(folder.path().join("train.bin"), records(&[&[1, 2]])).unwrap();
    fs::write(folder.path().join("test.bin"), records(&[&[1, 3], &[1, 4]])).unwrap();
    let cifar = data::cifar100_in(folder.path()).unwrap();
    assert_eq!((cifar.train().labels(), cifar.test().labels()), (&[2][..], &[3, 4][..]));
}

#[test]
fn errors_of_broken_cifar_files_name_the_fault() {
    let corrupt = ErrorKind::CorruptData;
    let good = records(&[&[1], &[2]]);
    let cases: [(Vec<u8>, &[&str]); 6] = [
        (good[..5000].to_vec(), &["5,000 bytes found", "3,073", "truncated"]),
        (Vec::new(), &["0 bytes found"]),
        (records(&[&[1], &[10]]), &["label 10 at position 1", "0 to 9"]),
        (gzip(&good)[..40].to_vec(), &["gzip stream is truncated or damaged"]),
        (vec![0; 50_001 * 3073], &["more than 153,650,000 bytes"]),
        // As long as the original: then it must be the original.
        (vec![0; 10_000 * 3073], &["not the original file of CIFAR-10", "SHA-256", "cee91656"]),
    ];
    for (bytes, parts) in cases {
        let folder = folder(&[("data_batch_1.bin", bytes)]);
        let error = refused(data::cifar10_in(folder.path()), corrupt, parts);
        assert!(error.to_string().contains("data_batch_1.bin"), "{error}");
    }
    for (labels, text) in [([20, 99], "label 20 at position 0"), ([19, 100], "label 100 at")] {
        let folder = folder(&[("train.bin", records(&[&labels]))]);
        refused(data::cifar100_in(folder.path()), corrupt, &[text, "train.bin"]);
    }
}

#[test]
fn missing_cifar_has_advice_on_getting_it() {
    let empty = folder(&[("test_batch.bin", records(&[&[0]]))]);
    let text = ["CIFAR-10 is not complete", "data_batch_1.bin", "cs.toronto.edu", "binary version"];
    let error = refused(data::cifar10_in(empty.path()), ErrorKind::MissingData, &text);
    assert!(error.advice().contains("datasets/cifar-10/"), "{error}");
    assert!(error.advice().contains("data::patterns() works without any download"), "{error}");
    let text = ["CIFAR-100 is not on this machine", "train.bin", "datasets/cifar-100/"];
    refused(data::cifar100_in(empty.path()), ErrorKind::MissingData, &text);
}
