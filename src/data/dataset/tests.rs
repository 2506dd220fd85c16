use super::*;
use crate::ErrorKind;
use crate::data::from_vecs;

fn numbers(len: usize) -> Dataset {
    let x = (0..len).map(|i| i as f32).collect();
    from_vecs(x, &[1], (0..len).map(|i| (i % 3) as u32).collect(), 3).unwrap()
}

fn features(part: &Examples) -> Vec<u32> {
    part.features_flat().iter().map(|&x| x as u32).collect()
}

#[test]
fn parts_of_a_data_set_share_its_ledger() {
    let y = (0..20).map(|i| i % 2).collect();
    let whole = crate::data::from_vecs((0..20).map(|i| i as f32).collect(), &[1], y, 2).unwrap();
    let part = whole.split(0.5, 1).unwrap().limit(5, 5);
    assert_ne!(part.hash(), whole.hash());
    assert_eq!(part.origin(), whole.origin());
    assert_eq!(part.normalized(1.0, 2.0).unwrap().origin(), whole.origin());
}

#[test]
fn images_keep_their_hash_on_the_way_into_memory() {
    let image = include_bytes!("../../../tests/data/images/grey.jpg");
    let folder = tempfile::tempdir().unwrap();
    for (class, copies) in [("a", 1), ("b", 2)] {
        let class = folder.path().join("train").join(class);
        std::fs::create_dir_all(&class).unwrap();
        (0..copies).for_each(|i| std::fs::write(class.join(format!("{i}.jpg")), image).unwrap());
    }
    let options = crate::data::ImageOptions::size(4);
    let files = crate::data::image_folder(folder.path(), &options).unwrap();
    let loaded = files.in_memory().unwrap();
    assert!(loaded.train().is_in_memory() && !files.train().is_in_memory());
    assert_eq!((loaded.hash(), loaded.origin()), (files.hash(), files.origin()));
    let part = loaded.limit(2, 0);
    assert_ne!(part.hash(), loaded.hash());
    assert_eq!(part.origin(), files.origin());
}

#[test]
fn a_split_loses_nothing_and_keeps_labels_with_features() {
    let split = numbers(100).split(0.8, 7).unwrap();
    assert_eq!((split.train().len(), split.test().len()), (80, 20));
    let mut all = [features(split.train()), features(split.test())].concat();
    all.sort_unstable();
    assert_eq!(all, (0..100).collect::<Vec<u32>>());
    for part in [split.train(), split.test()] {
        assert!((0..part.len()).all(|i| part.label(i) == part.features(i)[0] as usize % 3));
    }
}

#[test]
fn a_split_depends_on_its_seed_only_and_is_random() {
    let data = numbers(1000);
    let test = |seed| features(data.split(0.9, seed).unwrap().test());
    assert_eq!(test(1), test(1));
    assert_ne!(test(1), test(2));
    // The mean position of 100 of 1000 has standard deviation 27.4: a split that takes the
    // first or the last hundred lies 16 of them away.
    let mean = test(1).iter().sum::<u32>() as f64 / 100.0;
    assert!((mean - 499.5).abs() < 110.0, "{mean}");
}

#[test]
fn the_split_of_a_seed_is_fixed_for_ever() {
    assert_eq!(features(numbers(20).split(0.75, 7).unwrap().test()), FIXED_SPLIT);
}

const FIXED_SPLIT: [u32; 5] = [1, 2, 3, 5, 14];

#[test]
fn both_parts_of_a_split_keep_an_example() {
    for (share, sizes) in [(0.001, (1, 9)), (0.999, (9, 1))] {
        let split = numbers(10).split(share, 1).unwrap();
        assert_eq!((split.train().len(), split.test().len()), sizes);
    }
}

#[test]
fn impossible_splits_are_refused() {
    for share in [0.0, 1.0, -0.5, 1.5, f64::NAN, f64::INFINITY] {
        let error = numbers(10).split(share, 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Setting);
        assert!(error.to_string().starts_with(&format!("share = {share}")), "{error}");
    }
    assert_eq!(numbers(1).split(0.5, 1).unwrap_err().kind(), ErrorKind::Setting);
}

#[test]
fn the_hash_sees_shape_classes_features_and_labels_but_not_the_test_part() {
    let make = |x: [f32; 4], shape: &[usize], y: Vec<u32>, classes| {
        from_vecs(x.to_vec(), shape, y, classes).unwrap().hash().to_string()
    };
    let base = make([0.0, 1.0, 2.0, 3.0], &[2], vec![0, 1], 2);
    assert_eq!(base.len(), 64);
    assert_eq!(base, make([0.0, 1.0, 2.0, 3.0], &[2], vec![0, 1], 2));
    assert_ne!(base, make([0.0, 1.0, 2.0, 4.0], &[2], vec![0, 1], 2));
    assert_ne!(base, make([-0.0, 1.0, 2.0, 3.0], &[2], vec![0, 1], 2));
    assert_ne!(base, make([0.0, 1.0, 2.0, 3.0], &[1, 2], vec![0, 1], 2));
    assert_ne!(base, make([0.0, 1.0, 2.0, 3.0], &[2], vec![0, 1], 3));
    assert_ne!(base, make([0.0, 1.0, 2.0, 3.0], &[2], vec![1, 0], 2));

    let split = numbers(10).split(0.5, 1).unwrap();
    assert_eq!(split.hash(), split.limit(5, 0).hash());
    assert_ne!(split.hash(), split.limit(4, 5).hash());
}

#[test]
fn limiting_takes_the_first_examples_and_says_so() {
    let data = numbers(10).split(0.5, 1).unwrap();
    let few = data.limit(2, 1);
    assert_eq!(features(few.train()), features(data.train())[..2]);
    assert_eq!(features(few.test()), features(data.test())[..1]);
    assert!(few.source().contains("first 2 training and 1 test"), "{}", few.source());
    assert_eq!(data.limit(99, 99).source(), data.source());
    assert_eq!(data.limit(0, 0).train().len(), 1);
}

#[test]
fn normalizing_uses_the_given_constants_and_refuses_bad_ones() {
    let data = numbers(4).normalized(1.0, 2.0).unwrap();
    assert_eq!(data.train().features_flat(), [-0.5, 0.0, 0.5, 1.0]);
    for (mean, std) in [(f32::NAN, 1.0), (0.0, 0.0), (0.0, -1.0), (0.0, f32::INFINITY)] {
        let error = numbers(4).normalized(mean, std).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Setting);
    }
}

#[test]
fn the_text_is_one_line() {
    let text = "table: 1,200 training and no test examples of shape 1, 3 classes";
    assert_eq!(numbers(1200).to_string(), text);
    assert_eq!(format!("{:?}", numbers(1200)), text);
}
