use super::*;
use crate::ErrorKind;
use crate::data::Dataset;
use crate::data::signed_distance::Point;

/// Features of an image.
const SIZE: usize = 3 * SIDE * SIDE;

/// Returns the accuracy of the nearest class mean on the test part: that of the simplest linear
/// model.
fn nearest_mean(data: &Dataset) -> f64 {
    let mut means = vec![vec![0.0f64; SIZE]; SDF_SHAPES.len()];
    let mut counts = [0.0f64; SDF_SHAPES.len()];
    for i in 0..data.train().len() {
        let class = data.train().label(i);
        counts[class] += 1.0;
        for (mean, &x) in means[class].iter_mut().zip(data.train().features(i)) {
            *mean += f64::from(x);
        }
    }
    for (mean, n) in means.iter_mut().zip(counts) {
        mean.iter_mut().for_each(|x| *x /= n);
    }
    let right = (0..data.test().len()).filter(|&i| {
        let distance = |mean: &Vec<f64>| -> f64 {
            mean.iter().zip(data.test().features(i)).map(|(m, &x)| (m - f64::from(x)).powi(2)).sum()
        };
        let all: Vec<f64> = means.iter().map(distance).collect();
        let best = (0..all.len()).min_by(|&a, &b| all[a].total_cmp(&all[b]));
        best == Some(data.test().label(i))
    });
    right.count() as f64 / data.test().len() as f64
}

#[test]
fn colours_and_positions_do_not_reveal_the_class() {
    let accuracy = nearest_mean(&patterns_with(4_000, 1_000, 0).unwrap());
    println!("nearest mean: {accuracy:.4}");
    assert!(accuracy < 0.25, "{accuracy}");
}

/// Returns whether a point is inside the shape of a class without randomness: large, in the
/// middle, unturned.
fn inside(class: usize, at: Point) -> bool {
    SDF_SHAPES[class].1(at) < 0.0
}

#[test]
fn every_shape_contains_the_points_of_its_name() {
    let class = |name: &str| SDF_SHAPES.iter().position(|(known, _)| *known == name).unwrap();
    let cases: [(&str, &[Point], &[Point]); 7] = [
        ("disc", &[(0.0, 0.0), (0.6, 0.6)], &[(0.7, 0.7)]),
        ("ring", &[(0.75, 0.0), (0.0, -0.75)], &[(0.0, 0.0), (0.0, 1.1)]),
        ("square", &[(0.7, 0.7), (-0.7, 0.7)], &[(0.9, 0.0)]),
        ("triangle", &[(0.0, 0.0), (0.0, -0.9), (0.8, 0.5)], &[(0.6, -0.6), (0.0, 0.7)]),
        ("cross", &[(0.9, 0.1), (0.0, -0.9)], &[(0.6, 0.6)]),
        ("crescent", &[(-0.6, 0.0)], &[(0.42, 0.0), (0.0, 0.0)]),
        ("dots", &[(0.4, 0.4), (-0.4, 0.4)], &[(0.0, 0.0), (0.8, 0.8)]),
    ];
    for (name, within, without) in cases {
        assert!(within.iter().all(|&at| inside(class(name), at)), "{name}");
        assert!(without.iter().all(|&at| !inside(class(name), at)), "{name}");
    }
    // Checks change colour from field to field along both axes; stripes along one only.
    let change = |name: &str, step: Point| {
        inside(class(name), (0.1, 0.1)) != inside(class(name), (0.1 + step.0, 0.1 + step.1))
    };
    assert!(change("checks", (0.4, 0.0)) && change("checks", (0.0, 0.4)));
    assert!(!change("checks", (0.4, 0.4)));
    assert!(change("stripes", (0.4, 0.0)) && !change("stripes", (0.0, 0.4)));
}

#[test]
fn patterns_have_the_shape_of_cifar_and_its_scale() {
    let data = patterns_with(2_000, 10, 5).unwrap();
    assert_eq!((data.shape(), data.classes()), (&[3, 32, 32][..], 10));
    let x = data.train().features_flat();
    assert!(x.iter().all(|x| (-1.0..=1.0).contains(x)));
    let mean = x.iter().sum::<f32>() / x.len() as f32;
    let variance = x.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / x.len() as f32;
    println!("mean {mean}, standard deviation {}", variance.sqrt());
    assert!(mean.abs() < 0.1 && (0.3..0.8).contains(&variance.sqrt()), "{mean} {variance}");
    let mut counts = [0; 10];
    data.train().labels().iter().for_each(|&label| counts[label as usize] += 1);
    // 200 of each, standard deviation 13.4.
    assert!(counts.iter().all(|count| (140..260).contains(count)), "{counts:?}");
}

#[test]
fn fewer_patterns_are_the_first_of_more_whatever_the_threads() {
    let with = |threads, n| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| patterns_with(n, 3, 9)).unwrap()
    };
    let (few, more) = (with(1, 5), with(5, 20));
    let first = more.train().take(5);
    assert_eq!(few.train().features_flat(), first.features_flat());
    assert_eq!(few.train().labels(), first.labels());
    assert_ne!(few.train().features(0), more.test().features(0));
    assert_ne!(few.hash(), patterns_with(5, 3, 8).unwrap().hash());
    assert_eq!(patterns_with(0, 1, 0).unwrap_err().kind(), ErrorKind::Setting);
    assert_eq!(patterns_with(1, usize::MAX, 0).unwrap_err().kind(), ErrorKind::Setting);
}

/// The hash names the ledger: see the glyphs.
#[test]
fn the_patterns_of_a_seed_are_fixed_for_ever() {
    assert_eq!(patterns_with(50, 0, 0).unwrap().hash(), FIXED);
}

const FIXED: &str = "d995c8b2c52e2c367eb0137004a715376cc18330758709a2ecd1fbc618ffa07c";
