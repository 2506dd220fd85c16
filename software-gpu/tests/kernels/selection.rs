//! Selection, counting and image augmentation: exactly equal to the CPU versions.

use epsilab::data::{Augment, from_vecs};
use epsilab::device::kernels::{augment, count_nonzero_bins, largest_mask};
use epsilab_software_gpu::{Random, bits, cpu, gpu, matrix, values, vector};

/// Values with many ties, signed zeros, infinities and NaN.
fn special_values(random: &mut Random, n: usize) -> Vec<f32> {
    let special = [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 1e-45, 1e38];
    let mut value = |_| match random.below(20) {
        i @ 0..8 => special[i],
        8..14 => random.below(5) as f32 - 2.0,
        _ => random.value(),
    };
    (0..n).map(&mut value).collect()
}

fn assert_kept(values: &[f32], candidates: &[f32], drop: usize, what: &str) {
    let on =
        |device| bits(largest_mask(vector(values, &device), vector(candidates, &device), drop));
    let got = on(gpu());
    assert!(got == on(cpu()), "{what}, {drop} dropped");
    let count = candidates.iter().filter(|&&x| x != 0.0).count();
    let kept = got.iter().filter(|&&x| x == 1f32.to_bits()).count();
    assert_eq!(kept, count.saturating_sub(drop), "{what}, {drop} dropped");
    assert_eq!(got.iter().filter(|&&x| x == 0).count(), values.len() - kept, "{what}");
}

#[test]
fn the_largest_values_are_kept_for_all_lengths() {
    let mut random = Random(1);
    for n in [1, 2, 255, 256, 257, 1000, 16_383, 16_384, 16_385, 65_536, 65_537, 200_000] {
        for values in [random.values(n), special_values(&mut random, n)] {
            for period in [1, 2, 7] {
                let candidates: Vec<f32> =
                    (0..n).map(|_| f32::from(random.below(period) as u8 == 0)).collect();
                let some = random.below(n + 1);
                for drop in [0, 1, some / period, n / 2, n - 1, n, n + 1] {
                    let what = format!("{n} values, 1 in {period}");
                    assert_kept(&values, &candidates, drop, &what);
                }
            }
        }
    }
}

#[test]
fn ties_are_dropped_in_index_order() {
    for n in [5, 300, 70_000] {
        let all = vec![1.0; n];
        for drop in [0, 1, 4, n / 3, n - 1, n, usize::MAX] {
            assert_kept(&vec![-0.5; n], &all, drop, &format!("{n} equal values"));
            assert_kept(&vec![f32::NAN; n], &all, drop, &format!("{n} NaN"));
        }
        let none = largest_mask(vector(&all, &gpu()), vector(&vec![0.0; n], &gpu()), 0);
        assert!(values(none).iter().all(|&x| x == 0.0));
    }
    let kept = largest_mask(vector(&[2.0, 2.0, 2.0, 1.0], &gpu()), vector(&[1.0; 4], &gpu()), 2);
    assert_eq!(values(kept), [0.0, 1.0, 1.0, 0.0]);
    // Subnormals are ordered too, and NaN ranks below 0.
    let values = [3e-45, 1e-45, 0.0, f32::NAN, -2e-45];
    let candidates = [1.0, -1.0, 1e-45, 1.0, 1.0];
    for drop in 0..6 {
        assert_kept(&values, &candidates, drop, "subnormals");
    }
}

#[test]
fn nonzero_values_are_counted_per_bin() {
    let mut random = Random(2);
    for n in [1, 5, 255, 256, 257, 1000, 40_001, 300_000] {
        let input: Vec<f32> = (special_values(&mut random, n).into_iter())
            .map(|x| if random.below(2) == 0 { 0.0 } else { x })
            .collect();
        for bins in [1, 2, 3, 100, 257, 1001] {
            let on = |device| values(count_nonzero_bins(vector(&input, &device), bins));
            assert_eq!(on(gpu()), on(cpu()), "{bins} bins of {n}");
            let all = input.iter().filter(|&&x| x != 0.0).count();
            assert_eq!(on(gpu()).iter().sum::<f32>(), all as f32, "{bins} bins of {n}");
        }
    }
    assert_eq!(values(count_nonzero_bins(vector(&[], &gpu()), 3)), [0.0; 3]);
}

#[test]
fn augmented_images_are_equal_to_those_of_the_cpu() {
    let mut random = Random(3);
    for shape @ [channels, height, width] in [[1, 1, 1], [3, 5, 4], [1, 28, 28], [3, 32, 32]] {
        for copies in [1, 3] {
            let (n, size) = (7, channels * height * width);
            let images = random.values(n * size);
            let mut shift = |most: usize| random.below(2 * most - 1) as i32 - (most as i32 - 1);
            let shifts: Vec<_> = (0..n * copies).map(|_| [shift(height), shift(width)]).collect();
            let flips = (0..n * copies).map(|i| (i / 2 % 2) as i32);
            let choices: Vec<[i32; 3]> = shifts
                .iter()
                .zip(flips)
                .map(|(&[down, right], flip)| [down, right, flip])
                .collect();
            let on = |device| augment(matrix(&images, size, &device), shape, &choices, copies);
            assert_eq!(on(gpu()).dims(), [n * copies, size]);
            assert!(bits(on(gpu())) == bits(on(cpu())), "{shape:?}, {copies} copies");
        }
    }
    // One row of three pixels: shifted by 1 and by -1, flipped, and both.
    let choices = [[0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 1, 1]];
    let expected = [2.0, 3.0, 2.0, 2.0, 1.0, 2.0, 3.0, 2.0, 1.0, 2.0, 3.0, 2.0];
    for device in [gpu(), cpu()] {
        let row = matrix(&[1.0, 2.0, 3.0], 3, &device);
        assert_eq!(values(augment(row, [1, 1, 3], &choices, 4)), expected);
    }
}

#[test]
fn augmented_images_are_those_of_augmented_batches() {
    let shape @ [channels, height, width] = [2, 5, 6];
    let pixels: Vec<f32> = (0..channels * height * width).map(|i| i as f32).collect();
    let data = from_vecs([pixels.clone(), pixels.clone()].concat(), &shape, vec![0, 1], 2)
        .expect("two images");
    let (batch, _) = (Augment::new().copies(100).flip().crop(2))
        .batch(data.train(), &[0], 1, 2)
        .expect("images can be augmented");
    let shifts = || -2..=2;
    let choices: Vec<[i32; 3]> = shifts()
        .flat_map(|down| shifts().flat_map(move |right| [[down, right, 0], [down, right, 1]]))
        .collect();
    for device in [gpu(), cpu()] {
        let image = matrix(&pixels, pixels.len(), &device);
        let all = values(augment(image, shape, &choices, choices.len()));
        let index_of = |image| all.chunks(pixels.len()).position(|known| known == image);
        let mut seen: Vec<_> = batch.chunks(pixels.len()).map(index_of).collect();
        assert!(seen.iter().all(Option::is_some), "an image that no choice produces");
        seen.sort();
        seen.dedup();
        assert!(
            seen.len() > 30,
            "100 copies from 50 choices, but only {} distinct images",
            seen.len()
        );
    }
}
