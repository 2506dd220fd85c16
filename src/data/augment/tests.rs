use super::*;
use crate::data::{from_vecs, patterns_with, sentences_with};

/// Images of `channels` x 5 x 6 whose pixels all differ.
fn images(n: usize, channels: usize) -> Examples {
    let x = (0..n * channels * 30).map(|i| i as f32).collect();
    let labels = (0..n as u32).map(|i| i % 2).collect();
    from_vecs(x, &[channels, 5, 6], labels, 2).unwrap().train().clone()
}

/// Returns the 5x6 window that begins at this row and column of a plane padded by reflection, made
/// the long way round: pad first, then cut.
fn window(plane: &[f32], padding: usize, top: usize, left: usize, flip: bool) -> Vec<f32> {
    let reflected = |at: isize, last: isize| {
        let at = at.abs();
        (if at > last { 2 * last - at } else { at }) as usize
    };
    let p = padding as isize;
    let padded: Vec<Vec<f32>> = (-p..5 + p)
        .map(|y| (-p..6 + p).map(|x| plane[reflected(y, 4) * 6 + reflected(x, 5)]).collect())
        .collect();
    let rows = padded[top..top + 5].iter().map(|row| row[left..left + 6].to_vec());
    rows.flat_map(|mut row| {
        if flip {
            row.reverse();
        }
        row
    })
    .collect()
}

#[test]
fn every_version_is_a_window_of_the_reflected_image_flipped_or_not() {
    let (data, padding) = (images(3, 2), 2);
    let augment = Augment::new().copies(40).flip().crop(padding);
    let (x, labels) = augment.batch(&data, &[2, 0], 1, 7).unwrap();
    assert_eq!((x.len(), labels), (2 * 40 * 60, vec![0, 0]));
    let mut seen = std::collections::BTreeSet::new();
    for (i, id) in [2, 0].into_iter().enumerate() {
        for copy in 0..40 {
            let version = &x[(i * 40 + copy) * 60..][..60];
            let planes = data.features(id).chunks(30);
            let mut found = Vec::new();
            for choice in 0..50 {
                let (top, left, flip) = (choice / 10, choice / 2 % 5, choice % 2 == 1);
                // One choice for all channels.
                let whole: Vec<f32> =
                    planes.clone().flat_map(|p| window(p, padding, top, left, flip)).collect();
                if whole == version {
                    found.push(choice);
                }
            }
            assert_eq!(found.len(), 1, "version {copy} of example {id}");
            seen.insert(found[0]);
        }
    }
    // 80 draws of 50 windows: 40 different ones on average.
    assert!(seen.len() > 28, "{}", seen.len());
}

#[test]
fn versions_depend_on_seed_step_example_and_copy_only() {
    let data = images(50, 1);
    let augment = Augment::new().copies(3).flip().crop(2);
    let all = |ids: &[u32], seed, step| augment.batch(&data, ids, seed, step).unwrap().0;
    let ids: Vec<u32> = (0..50).collect();
    let whole = all(&ids, 5, 9);
    assert_eq!(whole, all(&ids, 5, 9));
    // In other company and in another order: the same augmented copies.
    let few = all(&[40, 3], 5, 9);
    assert_eq!(few[..90], whole[40 * 90..41 * 90]);
    assert_eq!(few[90..], whole[3 * 90..4 * 90]);
    // Fewer copies are the first of more.
    let (one, _) = augment.copies(1).batch(&data, &[3], 5, 9).unwrap();
    assert_eq!(one, few[90..120]);
    assert_ne!(whole, all(&ids, 6, 9));
    assert_ne!(whole, all(&ids, 5, 10));
    let copies: Vec<&[f32]> = whole[..90].chunks(30).collect();
    assert!(copies[0] != copies[1] || copies[1] != copies[2]);
    let with = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| all(&ids, 5, 9))
    };
    assert_eq!(with(1), with(7));
}

#[test]
fn flips_and_moves_are_fair_and_independent() {
    let augment = Augment::default();
    let n = 20_000;
    let (mut flips, mut both) = (0, 0);
    let (mut down, mut right) = ([0; 9], [0; 9]);
    for id in 0..n {
        let choice = augment.transform(1, 2, id, id % 16);
        flips += u32::from(choice.flip);
        both += u32::from(choice.flip && choice.right > 0);
        down[(choice.down + 4) as usize] += 1;
        right[(choice.right + 4) as usize] += 1;
    }
    // Standard deviation 71: five of them.
    assert!(flips.abs_diff(n / 2) < 355, "{flips}");
    // Probability 4/9 * 1/2.
    assert!(both.abs_diff(n * 2 / 9) < 300, "{both}");
    // 2,222 of each of nine, standard deviation 44.
    assert!(down.iter().chain(&right).all(|&k: &u32| k.abs_diff(2222) < 225), "{down:?} {right:?}");
}

#[test]
fn one_unchanged_copy_is_the_data_itself() {
    let data = images(3, 2);
    let (x, labels) = Augment::new().batch(&data, &[1, 2], 3, 4).unwrap();
    assert_eq!(x, [data.features(1), data.features(2)].concat());
    assert_eq!(labels, [1, 0]);
    let (twice, _) = Augment::new().copies(2).batch(&data, &[1], 3, 4).unwrap();
    assert_eq!(twice, [data.features(1), data.features(1)].concat());
    assert_eq!(Augment::default().batch(&data, &[], 3, 4).unwrap(), (vec![], vec![]));
}

/// Returns augmented copies made on the device and on the host.
fn host_and_device(augment: Augment, data: &Examples, ids: &[u32]) -> [Vec<f32>; 2] {
    let mut plain = Vec::new();
    data.gather(ids, &mut plain).unwrap();
    let plain = TensorData::new(plain, [ids.len(), data.shape().iter().product()]);
    let plain = Tensor::from_data(plain, &Device::flex());
    let made = augment.augment_on_device(plain, data.shape(), ids, [3, 4]).unwrap();
    [made.into_data().try_into_vec().unwrap(), augment.batch(data, ids, 3, 4).unwrap().0]
}

#[test]
fn devices_see_the_versions_that_the_host_sees() {
    let data = images(9, 2);
    let augments = [
        Augment::new().copies(5).flip().crop(4),
        Augment::new().copies(3).crop(1),
        Augment::new().copies(2).flip(),
        Augment::new().copies(2),
    ];
    for augment in augments {
        let [made, expected] = host_and_device(augment, &data, &[7, 0, 8, 3]);
        assert_eq!(made, expected, "{augment}");
    }
    let text = sentences_with(5, 0, 1).unwrap();
    let [made, expected] = host_and_device(Augment::new().copies(3), text.train(), &[4, 2]);
    assert_eq!(made, expected);
}

#[test]
fn texts_and_tables_are_refused_and_so_are_settings_out_of_range() {
    let text = sentences_with(5, 0, 1).unwrap();
    for augment in [Augment::default(), Augment::new().flip(), Augment::new().crop(1)] {
        let error = augment.batch(text.train(), &[0], 1, 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Setting);
        assert!(error.to_string().contains("of examples of shape 24"), "{error}");
        assert!(!error.advice().is_empty());
    }
    assert!(Augment::new().copies(3).check(text.shape()).is_ok());

    let images = patterns_with(2, 0, 1).unwrap();
    for (augment, text) in [
        (Augment::new().copies(0), "copies = 0"),
        (Augment::new().copies(1025), "copies = 1025"),
        (Augment::new().crop(32), "crop = 32"),
        (Augment::new().crop(usize::MAX), "crop = "),
    ] {
        let error = augment.batch(images.train(), &[0], 1, 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Setting);
        assert!(error.to_string().starts_with(text), "{error}");
    }
    assert!(Augment::new().crop(31).batch(images.train(), &[0], 1, 1).is_ok());
    let error = Augment::default().batch(images.train(), &[2], 1, 1).unwrap_err();
    assert!(error.to_string().starts_with("example number = 2"), "{error}");
}

#[test]
fn the_versions_of_a_seed_are_fixed_for_ever() {
    let transforms: Vec<_> =
        (0..4).map(|copy| Augment::default().transform(1, 2, 3, copy)).collect();
    let seen: Vec<_> = transforms.iter().map(|c| (c.down, c.right, c.flip)).collect();
    assert_eq!(seen, FIXED);
}

const FIXED: [(isize, isize, bool); 4] =
    [(-4, 2, false), (-1, 4, false), (1, -3, true), (-2, -2, false)];

#[test]
fn it_says_what_it_does() {
    assert_eq!(Augment::default().to_string(), "16 copies, flips, crops by 4 pixels");
    assert_eq!(Augment::new().to_string(), "1 copy");
    assert_eq!(Augment::default().multiplicity(), 16);
}
