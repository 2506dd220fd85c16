use super::*;
use crate::ErrorKind;

/// Features of an image.
const SIZE: usize = 3 * SIDE * SIDE;

#[test]
fn images_have_the_shape_of_cifar_and_its_scale() -> Result<()> {
    let data = dead_leaves(2_000, 10, 5)?;
    assert_eq!((data.shape(), data.classes()), (&[3, 32, 32][..], CLASSES));
    let x = data.train().features_flat();
    assert!(x.iter().all(|x| (-1.0..=1.0).contains(x)));
    let mean = x.iter().sum::<f32>() / x.len() as f32;
    let variance = x.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / x.len() as f32;
    println!("mean {mean}, standard deviation {}", variance.sqrt());
    assert!(mean.abs() < 0.15 && (0.3..0.7).contains(&variance.sqrt()), "{mean} {variance}");
    let mut counts = [0; CLASSES];
    data.train().labels().iter().for_each(|&label| counts[label as usize] += 1);
    // Ten of each, standard deviation 3.2.
    assert!(counts.iter().all(|count| (1..28).contains(count)), "{counts:?}");
    Ok(())
}

#[test]
fn images_depend_on_the_seed_alone() -> Result<()> {
    let few = dead_leaves(5, 3, 7)?;
    let more = dead_leaves(9, 4, 7)?;
    assert!(few.train().features_flat() == &more.train().features_flat()[..5 * SIZE]);
    assert!(few.test().features_flat() == &more.test().features_flat()[..3 * SIZE]);
    assert!(few.train().features(0) != few.test().features(0));
    assert_ne!(few.hash(), dead_leaves(5, 3, 8)?.hash());
    assert_eq!(dead_leaves(0, 1, 0).unwrap_err().kind(), ErrorKind::Setting);
    Ok(())
}

/// Images of one process are more alike than images of two, in what no place, brightness or tint
/// changes: the strength of their edges at two distances.
#[test]
fn a_process_draws_images_of_its_own_kind() -> Result<()> {
    let data = dead_leaves(4_000, 1, 3)?;
    let grain = |i: usize| {
        let pixels = data.train().features(i);
        let change = |shift: usize| -> f32 {
            (0..SIZE - shift).map(|k| (pixels[k + shift] - pixels[k]).powi(2)).sum()
        };
        (change(1) / change(4)).ln()
    };
    let mut kinds = vec![Vec::new(); CLASSES];
    (0..data.train().len()).for_each(|i| kinds[data.train().label(i)].push(grain(i)));
    let all: Vec<f32> = kinds.concat();
    let variance = |values: &[f32]| {
        let mean = values.iter().sum::<f32>() / values.len() as f32;
        values.iter().map(|v| (v - mean).powi(2)).sum::<f32>() / values.len() as f32
    };
    let within =
        kinds.iter().map(|kind| variance(kind) * kind.len() as f32).sum::<f32>() / all.len() as f32;
    println!("within {within}, of all {}", variance(&all));
    assert!(within < 0.6 * variance(&all), "{within} {}", variance(&all));
    Ok(())
}

/// The hash names the ledger of a prior, so it must not change.
#[test]
fn the_images_of_a_seed_never_change() -> Result<()> {
    assert_eq!(dead_leaves(50, 0, 0)?.hash(), FIXED);
    Ok(())
}

const FIXED: &str = "f7e864948c0b00bd3ddf20064f09b0ce1e1d7d7a8116b6cfae8a797a4a426f21";
