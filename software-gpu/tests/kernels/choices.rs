//! Selection, counts and versions of images, beside their CPU versions: exactly the same.

use epsilab::data::{Augment, from_vecs};
use epsilab::device::kernels::{keep_largest, stretches, versions};
use epsilab_software_gpu::{Random, bits, cpu, gpu, matrix, values, vector};

/// DeviceArray with many ties, zeros of both signs, and what is none.
fn coarse(random: &mut Random, n: usize) -> Vec<f32> {
    let special = [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 1e-45, 1e38];
    let mut value = |_| match random.below(20) {
        i @ 0..8 => special[i],
        8..14 => random.below(5) as f32 - 2.0,
        _ => random.value(),
    };
    (0..n).map(&mut value).collect()
}

fn assert_kept(numbers: &[f32], among: &[f32], drop: usize, what: &str) {
    let on = |device| bits(keep_largest(vector(numbers, &device), vector(among, &device), drop));
    let got = on(gpu());
    assert!(got == on(cpu()), "{what}, {drop} dropped");
    let candidates = among.iter().filter(|&&x| x != 0.0).count();
    let kept = got.iter().filter(|&&x| x == 1f32.to_bits()).count();
    assert_eq!(kept, candidates.saturating_sub(drop), "{what}, {drop} dropped");
    assert_eq!(got.iter().filter(|&&x| x == 0).count(), numbers.len() - kept, "{what}");
}

#[test]
fn the_largest_are_kept_whatever_the_length() {
    let mut random = Random(1);
    for n in [1, 2, 255, 256, 257, 1000, 16_383, 16_384, 16_385, 65_536, 65_537, 200_000] {
        for numbers in [random.values(n), coarse(&mut random, n)] {
            for share in [1, 2, 7] {
                let among: Vec<f32> =
                    (0..n).map(|_| f32::from(random.below(share) as u8 == 0)).collect();
                let some = random.below(n + 1);
                for drop in [0, 1, some / share, n / 2, n - 1, n, n + 1] {
                    assert_kept(&numbers, &among, drop, &format!("{n} numbers, 1 in {share}"));
                }
            }
        }
    }
}

#[test]
fn ties_go_by_index() {
    for n in [5, 300, 70_000] {
        let all = vec![1.0; n];
        for drop in [0, 1, 4, n / 3, n - 1, n, usize::MAX] {
            assert_kept(&vec![-0.5; n], &all, drop, &format!("{n} equal numbers"));
            assert_kept(&vec![f32::NAN; n], &all, drop, &format!("{n} that are none"));
        }
        let none = keep_largest(vector(&all, &gpu()), vector(&vec![0.0; n], &gpu()), 0);
        assert!(values(none).iter().all(|&x| x == 0.0));
    }
    let kept = keep_largest(vector(&[2.0, 2.0, 2.0, 1.0], &gpu()), vector(&[1.0; 4], &gpu()), 2);
    assert_eq!(values(kept), [0.0, 1.0, 1.0, 0.0]);
    // Small numbers that are not normal have an order too, and what is none comes before 0.
    let numbers = [3e-45, 1e-45, 0.0, f32::NAN, -2e-45];
    let among = [1.0, -1.0, 1e-45, 1.0, 1.0];
    for drop in 0..6 {
        assert_kept(&numbers, &among, drop, "numbers that are not normal");
    }
}

#[test]
fn stretches_are_counted() {
    let mut random = Random(2);
    for n in [1, 5, 255, 256, 257, 1000, 40_001, 300_000] {
        let numbers: Vec<f32> = (coarse(&mut random, n).into_iter())
            .map(|x| if random.below(2) == 0 { 0.0 } else { x })
            .collect();
        for places in [1, 2, 3, 100, 257, 1001] {
            let on = |device| values(stretches(vector(&numbers, &device), places));
            assert_eq!(on(gpu()), on(cpu()), "{places} of {n}");
            let all = numbers.iter().filter(|&&x| x != 0.0).count();
            assert_eq!(on(gpu()).iter().sum::<f32>(), all as f32, "{places} of {n}");
        }
    }
    assert_eq!(values(stretches(vector(&[], &gpu()), 3)), [0.0; 3]);
}

#[test]
fn versions_of_images_are_those_of_the_cpu() {
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
            let on = |device| versions(matrix(&images, size, &device), shape, &choices, copies);
            assert_eq!(on(gpu()).dims(), [n * copies, size]);
            assert!(bits(on(gpu())) == bits(on(cpu())), "{shape:?}, {copies} copies");
        }
    }
    // By hand: one row of three pixels, one to the right, to the left, mirrored, and both.
    let choices = [[0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 1, 1]];
    let expected = [2.0, 3.0, 2.0, 2.0, 1.0, 2.0, 3.0, 2.0, 1.0, 2.0, 3.0, 2.0];
    for device in [gpu(), cpu()] {
        let row = matrix(&[1.0, 2.0, 3.0], 3, &device);
        assert_eq!(values(versions(row, [1, 1, 3], &choices, 4)), expected);
    }
}

#[test]
fn versions_are_those_of_augmented_batches() {
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
        let all = values(versions(image, shape, &choices, choices.len()));
        let found = |version| all.chunks(pixels.len()).position(|known| known == version);
        let mut seen: Vec<_> = batch.chunks(pixels.len()).map(found).collect();
        assert!(seen.iter().all(Option::is_some), "a version that no choice makes");
        seen.sort();
        seen.dedup();
        assert!(seen.len() > 30, "100 versions of 50 kinds, but {} different ones", seen.len());
    }
}
