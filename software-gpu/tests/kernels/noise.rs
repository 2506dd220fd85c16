//! Noise and dropout masks: the same random bits as on the CPU, and values by the same formula.

use epsilab::burn::prelude::*;
use epsilab::burn::tensor::DType;
use epsilab::device::kernels::{NoiseParams, add_noise, dropout_masks, normals, random_bits};
use epsilab_software_gpu::{Random, bits, cpu, gpu, values, vector};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn key(random: &mut Random) -> [u8; 32] {
    std::array::from_fn(|_| random.bits() as u8)
}

fn integers(tensor: Tensor<1, Int>) -> Vec<i32> {
    tensor.into_data().try_into_vec().expect("an i32 tensor")
}

#[test]
fn random_bits_are_equal_to_those_of_the_cpu() {
    let mut random = Random(1);
    // From the beginning, across the carry of the counter's low half, and near its end.
    let carry = (1 << 32) / 192;
    for first in [0, 1, 7, carry, 5 * carry, u64::MAX / 192] {
        for step in [0, 1, u64::from(u32::MAX) + 5, u64::MAX] {
            let noise = NoiseParams::new(key(&mut random), step, first, 1.0);
            for blocks in [1, 63, 64, 65, 1000] {
                let got = integers(random_bits(noise, blocks, &gpu()));
                assert_eq!(got.len(), 48 * blocks);
                let same = got == integers(random_bits(noise, blocks, &cpu()));
                assert!(same, "{blocks} blocks from chunk {first} of step {step}");
            }
        }
    }
}

#[test]
fn a_million_values_agree_with_the_cpu() {
    let noise = NoiseParams::new(key(&mut Random(2)), 3, 11, 1.0);
    let zeros = vec![0.0; 1_000_000];
    let got = values(add_noise(vector(&zeros, &gpu()), noise, None));
    let want = values(add_noise(vector(&zeros, &cpu()), noise, None));
    let difference = |(got, want): (&f32, &f32)| (got - want).abs();
    let worst = got.iter().zip(&want).map(difference).fold(0.0, f32::max);
    println!("worst difference of 1,000,000 values: {worst:.1e}");
    assert!(worst < 2e-6, "{worst}");
    assert!(got.iter().any(|z| z.abs() > 4.5), "the tail is missing");
}

#[test]
fn noise_of_every_length_is_added_to_the_selected_values() {
    let mut random = Random(3);
    for n in [1, 31, 32, 33, 2047, 2048, 2049, 5000, 70_001] {
        let noise =
            NoiseParams::new(key(&mut random), random.bits(), random.below(100) as u64, 2.5);
        let mut input = random.values(n);
        let mut selected: Vec<f32> = (0..n).map(|_| random.below(3) as f32 - 1.0).collect();
        for i in (0..n).step_by(5) {
            (input[i], selected[i]) = (f32::NAN, if i % 2 == 0 { 0.0 } else { -0.0 });
        }
        let on = |device: Device, selected: Option<&[f32]>| {
            let selected = selected.map(|selected| vector(selected, &device));
            values(add_noise(vector(&input, &device), noise, selected.as_ref()))
        };
        let (got, want) = (on(gpu(), Some(&selected)), on(cpu(), Some(&selected)));
        let all = on(gpu(), None);
        for i in 0..n {
            if selected[i] == 0.0 {
                assert_eq!(got[i].to_bits(), 0, "{i} of {n}");
            } else {
                assert!((got[i] - want[i]).abs() < 2.5e-5, "{i} of {n}: {} {}", got[i], want[i]);
                assert_eq!(got[i], all[i], "{i} of {n}");
            }
        }
    }
}

#[test]
fn normals_of_extreme_bits_agree_with_the_cpu() {
    let mut random = Random(4);
    let high =
        [0u32, 1, 0x7fff_ffff, 0x8000_0000, 0x8000_0001, 0xffff_ffff, 0x5a82_7999, 0x5a82_799a];
    let low = [0u32, 0xfff, 0x1000, 0x1fff, 0x8000_0000, 0xffff_efff, 0xffff_f000, 0xffff_ffff];
    let angle = [0u32, 1, 2, 0x1fff_ffff, 0x2000_0000, 0x3fff_ffff, 0x4000_0000, 0x7fff_ffff]
        .into_iter()
        .flat_map(|a| [a, a | 0x8000_0000, 0x8000_0000 - a])
        .collect::<Vec<u32>>();
    // All pairs of halves of the radius, and random radii with leading zeros and ones.
    let mut all = Vec::new();
    for block in 0..512 {
        let mut angles = Vec::new();
        for lane in 0..16 {
            let at = block * 16 + lane;
            let shift = random.below(60);
            let radius = match at % 4 {
                0 | 1 => u64::from(high[at / 4 % 8]) << 32 | u64::from(low[at / 32 % 8]),
                2 => random.bits() >> shift,
                _ => !(random.bits() >> shift),
            };
            all.extend([radius as u32 as i32, (radius >> 32) as i32]);
            angles.push(angle[random.below(angle.len())] as i32);
        }
        all.extend(angles);
    }
    // Radii with leading zeros are extended by the words of this noise.
    let noise = NoiseParams::new(key(&mut random), 9, 1 << 33, 1.0);
    let on = |device: Device| {
        let data = TensorData::new(all.clone(), [all.len()]);
        values(normals(Tensor::<1, Int>::from_data(data, (&device, DType::I32)), noise))
    };
    let (got, want) = (on(gpu()), on(cpu()));
    assert_eq!(got.len(), 512 * 32);
    let mut worst = 0.0f32;
    for (i, (got, want)) in got.iter().zip(&want).enumerate() {
        worst = worst.max((got - want).abs());
        // For u near 1 the radius is small; its relative error must be small too.
        let bound = 1e-5 * want.abs().min(1.0) + 1e-9;
        assert!((got - want).abs() < bound, "value {i}: {got:e}, not {want:e}");
    }
    println!("worst difference: {worst:.1e}");
    // A radius of 64 zeros has 64 more bits.
    let largest = got.iter().fold(0.0f32, |most, z| most.max(z.abs()));
    assert!(largest > 9.42 && largest < 11.0, "{largest}");
}

#[test]
fn dropout_masks_are_equal_to_those_of_the_cpu() {
    let mut random = Random(5);
    for width in [1, 15, 16, 17, 100, 4097] {
        for rate in [0.0, 0.1, 0.5, 0.999_999] {
            let rows: Vec<(u32, u32)> =
                (0..33).map(|_| (random.bits() as u32, random.below(9) as u32)).collect();
            let (seed, layer) = (random.bits(), random.below(20));
            let on = |device| dropout_masks(seed, layer, rate, &rows, width, &device);
            assert_eq!(on(gpu()).dims(), [33, width]);
            assert!(bits(on(gpu())) == bits(on(cpu())), "{width} values at rate {rate}");
        }
    }
    // The fraction of zeros is the rate.
    let mask = values(dropout_masks(1, 2, 0.25, &[(3, 4)], 100_000, &gpu()));
    let dropped = mask.iter().filter(|&&x| x == 0.0).count();
    assert!((24_400..25_600).contains(&dropped), "{dropped}");
    assert!(dropout_masks(1, 2, 0.5, &[], 7, &gpu()).dims() == [0, 7]);
}

#[test]
fn dropout_masks_are_drawn_from_the_stream_of_their_example() {
    let (seed, example, copy, layer) = (0x0123_4567_89ab_cdef, 0x8000_0007, 3, 5);
    let mut key = *b"........ dropout ......... masks";
    key[..8].copy_from_slice(&u64::to_le_bytes(seed));
    key[8..12].copy_from_slice(&u32::to_le_bytes(example));
    key[12..16].copy_from_slice(&u32::to_le_bytes(copy));
    key[16..24].copy_from_slice(&(layer as u64).to_le_bytes());
    let mut rng = ChaCha8Rng::from_seed(key);
    let bits: Vec<u32> = (0..1000).map(|_| rng.next_u32()).collect();
    for rate in [0.25, 0.5] {
        let threshold = (rate * 2f64.powi(32)) as u32;
        let scale = (1.0 / (1.0 - rate)) as f32;
        let expected = bits.iter().map(|&bits| if bits < threshold { 0.0 } else { scale });
        let expected: Vec<f32> = expected.collect();
        for device in [gpu(), cpu()] {
            let rows = [(example, copy + 1), (example, copy)];
            let masks = values(dropout_masks(seed, layer, rate, &rows, 1000, &device));
            assert_eq!(masks[1000..], expected);
            assert_ne!(masks[..1000], expected);
        }
    }
}
