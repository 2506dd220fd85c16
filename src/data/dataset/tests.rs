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
        for i in 0..copies {
            // What follows the mark of the end changes the file, but not the image.
            let bytes = [&image[..], &[copies, i]].concat();
            std::fs::write(class.join(format!("{i}.jpg")), bytes).unwrap();
        }
    }
    let options = crate::data::ImageOptions::size(4);
    let files = crate::data::image_folder(folder.path(), &options).unwrap();
    let loaded = files.in_memory().unwrap();
    assert!(loaded.train().is_in_memory() && !files.train().is_in_memory());
    assert_eq!((loaded.hash(), loaded.origin()), (files.hash(), files.origin()));
    let part = (0..9).find_map(|seed| loaded.split(0.5, seed).ok()).unwrap();
    assert_ne!(part.hash(), loaded.hash());
    assert_eq!(part.origin(), files.origin());
}

#[test]
fn a_split_loses_nothing_and_keeps_labels_with_features() {
    let split = numbers(100).split(0.8, 7).unwrap();
    let mut all = [features(split.train()), features(split.test())].concat();
    assert!(features(split.train()).is_sorted() && features(split.test()).is_sorted());
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
    let mean = test(1).iter().sum::<u32>() as f64 / test(1).len() as f64;
    assert!((mean - 499.5).abs() < 110.0, "{mean}");
    // Sizes are binomial, with standard deviation 9.5.
    for seed in 0..20 {
        assert!(test(seed).len().abs_diff(100) < 48, "{}", test(seed).len());
    }
}

/// Returns all examples but the one at this position.
fn without(data: &Dataset, i: usize) -> Dataset {
    let ids: Vec<u32> = (0..data.train().len() as u32).filter(|&id| id != i as u32).collect();
    let (x, y) = (data.train().select(&ids), data.classes());
    from_vecs(x.features_flat().to_vec(), &[1], x.labels().to_vec(), y).unwrap()
}

#[test]
fn removing_an_example_moves_no_other() {
    let whole = numbers(60);
    let (split, limited) = (whole.split(0.7, 3).unwrap(), whole.limit(30, 0));
    for i in 0..60 {
        let rest = |part: &Examples| -> Vec<u32> {
            features(part).into_iter().filter(|&x| x != i as u32).collect()
        };
        let less = without(&whole, i);
        let parts = less.split(0.7, 3).unwrap();
        assert_eq!(features(parts.train()), rest(split.train()));
        assert_eq!(features(parts.test()), rest(split.test()));
        // At one and the same probability: the size of the whole is public.
        let [kept, _] = partition::partition_examples(
            less.train(),
            &partition::partition_key(&[0; 32], "limit", 0),
            0.5,
        );
        assert_eq!(features(&less.train().select(&kept)), rest(limited.train()));
    }
}

#[test]
fn partitions_ignore_the_order_and_keep_duplicates_together() {
    let x: Vec<f32> = (0..200).map(|i| (i % 100) as f32).collect();
    let y: Vec<u32> = (0..200).map(|i| i % 2).collect();
    let backwards = |data: &Dataset| {
        let ids: Vec<u32> = (0..200).rev().collect();
        let part = data.train().select(&ids);
        from_vecs(part.features_flat().to_vec(), &[1], part.labels().to_vec(), 2).unwrap()
    };
    let whole = from_vecs(x, &[1], y, 2).unwrap();
    for cut in [|data: &Dataset| data.split(0.5, 9).unwrap(), |data: &Dataset| data.limit(100, 0)] {
        let (part, other) = (cut(&whole), cut(&backwards(&whole)));
        let mut found = [features(part.train()), features(other.train())];
        found.iter_mut().for_each(|x| x.sort_unstable());
        assert_eq!(found[0], found[1]);
        assert!(found[0].chunks(2).all(|pair| pair[0] == pair[1]), "{:?}", found[0]);
    }
}

#[test]
fn a_part_is_not_cut_by_the_hashes_that_made_it() {
    let half = numbers(400).split(0.5, 7).unwrap();
    let quarter = half.split(0.5, 7).unwrap();
    assert!(quarter.train().len().abs_diff(half.train().len() / 2) < 50);
    let few = numbers(400).limit(200, 0).limit(100, 0);
    assert!(few.train().len().abs_diff(100) < 50, "{}", few.train().len());
}

/// The expected parts were computed by another program from the encodings that the code states.
#[test]
fn the_parts_of_a_seed_are_fixed_for_ever() {
    let split = numbers(20).split(0.75, 7).unwrap();
    assert_eq!(features(split.test()), [2, 14, 15, 17, 19]);
    assert_eq!(features(numbers(20).limit(8, 0).train()), [0, 8, 11, 12, 13, 14, 18]);
}

#[test]
fn a_part_that_chance_leaves_empty_is_refused() {
    for (share, part) in [(1e-9, "training part"), (1.0 - 1e-9, "test part")] {
        let error = numbers(10).split(share, 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Setting);
        assert!(error.to_string().contains(part), "{error}");
        assert!(error.advice().contains("seed"), "{error}");
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

    let split = numbers(20).split(0.5, 1).unwrap();
    assert_eq!(split.hash(), split.limit(20, 0).hash());
}

#[test]
fn limiting_keeps_about_the_requested_number_and_notes_it() {
    let data = numbers(2000).split(0.5, 1).unwrap();
    let (few, all) = (data.limit(200, 10), features(data.train()));
    assert!(few.train().len().abs_diff(200) < 70, "{}", few.train().len());
    assert!(features(few.train()).iter().all(|x| all.contains(x)));
    assert_eq!(features(few.test()), features(data.test())[..10]);
    let expected = format!("Only {} of", few.train().len());
    assert!(few.source().contains(&expected), "{}", few.source());
    assert!(few.source().contains("first 10 test"), "{}", few.source());
    // Fewer are some of more.
    let more = features(data.limit(300, 0).train());
    assert!(features(few.train()).iter().all(|x| more.contains(x)));
    assert_eq!(data.limit(9999, 9999).source(), data.source());
    assert_eq!(data.limit(9999, 1).hash(), data.hash());
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
