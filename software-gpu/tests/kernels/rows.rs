//! Operations on matrix rows, compared with their CPU versions.

use epsilab::device::kernels::{concat, finite_rows, row_norms, scale_rows, weighted_row_sum};
use epsilab_software_gpu::{Random, bits, cpu, gpu, matrix, values, vector};

/// Rows and columns around the sizes of cubes, groups and splits.
const SHAPES: [[usize; 2]; 12] = [
    [1, 1],
    [1, 7],
    [5000, 10],
    [1025, 1],
    [7, 255],
    [64, 256],
    [65, 257],
    [3, 4095],
    [2, 4097],
    [2, 300_001],
    [1, 1_000_003],
    [70_000, 2],
];

/// Values that are not finite.
const NON_FINITE: [f32; 3] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];

/// Asserts that norms agree with the CPU's up to rounding. Subnormal norms may be rounded up.
fn assert_norms(got: &[f32], want: &[f32], what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (&got, &want)) in got.iter().zip(want).enumerate() {
        if !want.is_finite() {
            assert!(!got.is_finite(), "{what}: row {i} is {got}, not {want}");
        } else if want < f32::MIN_POSITIVE {
            assert!((want..=f32::MIN_POSITIVE).contains(&got), "{what}: row {i}: {got:e} {want:e}");
        } else {
            assert!((got / want - 1.0).abs() < 1e-6, "{what}: row {i}: {got:e}, not {want:e}");
        }
    }
}

#[test]
fn norms_of_known_rows() {
    for device in [gpu(), cpu()] {
        for unit in [1.0, 1e38, 1e-38, 3e14, 1e-15] {
            let rows = matrix(&[3.0 * unit, 0.0, -2.0 * unit, 1.5 * unit], 2, &device);
            let roots = vector(&[0.5, 2.0], &device);
            let plain = values(row_norms(rows.clone(), None));
            assert_norms(&plain, &[3.0 * unit, 2.5 * unit], "plain");
            let weighted = values(row_norms(rows, Some(&roots)));
            assert_norms(&weighted, &[1.5 * unit, 10f32.sqrt() * unit], "weighted");
        }
        // The norm of zeros is exactly 0, and that of the smallest subnormal is positive.
        let rows = matrix(&[0.0, -0.0, f32::from_bits(1), 0.0], 2, &device);
        let plain = values(row_norms(rows, None));
        assert!(plain[0] == 0.0 && plain[1] > 0.0, "{plain:?}");
    }
}

#[test]
fn norms_for_all_shapes_and_scales() {
    let mut random = Random(1);
    for [n, columns] in SHAPES {
        let plain = random.values(n * columns);
        for scale in [1.0, 1e-20, 1e18, 1e34, 1e-37, 1e-42] {
            let rows: Vec<f32> = plain.iter().map(|x| x * scale).collect();
            let got = values(row_norms(matrix(&rows, columns, &gpu()), None));
            let want = values(row_norms(matrix(&rows, columns, &cpu()), None));
            assert_norms(&got, &want, &format!("[{n}, {columns}] times {scale:e}"));
        }
    }
}

#[test]
fn norms_of_values_of_all_exponents() {
    let mut random = Random(2);
    for columns in [1, 2, 3, 40, 700, 9000] {
        let n = 20_000usize.div_ceil(columns);
        // Rows with all largest exponents, so that each of the three sums dominates in some.
        let mut rows = Vec::new();
        for _ in 0..n {
            let largest = f32::from_bits((random.below(254) as u32 + 1) << 23 | 0x7f_ffff);
            let small = std::iter::repeat_with(|| random.finite()).filter(|x| x.abs() <= largest);
            rows.extend(small.take(columns));
        }
        let roots: Vec<f32> = (0..columns).map(|_| random.finite().abs()).collect();
        for roots in [None, Some(roots)] {
            let on = |device| {
                let roots = roots.as_ref().map(|roots| vector(roots, &device));
                values(row_norms(matrix(&rows, columns, &device), roots.as_ref()))
            };
            let what = format!("[{n}, {columns}], weights: {}", roots.is_some());
            assert_norms(&on(gpu()), &on(cpu()), &what);
        }
    }
}

#[test]
fn weighted_norms_for_all_shapes() {
    let mut random = Random(3);
    for [n, columns] in SHAPES {
        let mut rows = random.values(n * columns);
        let roots: Vec<f32> = (0..columns).map(|_| random.value().max(0.0)).collect();
        // A weight of 0 excludes a value that is not finite.
        for (i, x) in rows.iter_mut().enumerate() {
            if roots[i % columns] == 0.0 {
                *x = NON_FINITE[i % 3];
            }
        }
        let on = |device| {
            let roots = vector(&roots, &device);
            values(row_norms(matrix(&rows, columns, &device), Some(&roots)))
        };
        let want = on(cpu());
        assert!(want.iter().all(|norm| norm.is_finite()));
        assert_norms(&on(gpu()), &want, &format!("[{n}, {columns}]"));
    }
}

#[test]
fn non_finite_values_are_detected_at_all_positions() {
    let mut random = Random(4);
    for [n, columns] in SHAPES {
        let mut rows = random.values(n * columns);
        let clean = values(row_norms(matrix(&rows, columns, &gpu()), None));
        let flags = values(finite_rows(matrix(&rows, columns, &gpu())));
        assert!(flags.iter().all(|&flag| flag == 1.0), "[{n}, {columns}]");
        let mut has_non_finite = vec![false; n];
        for row in (0..n).step_by(3) {
            let positions = [0, columns - 1, random.below(columns)];
            rows[row * columns + positions[random.below(3)]] = NON_FINITE[random.below(3)];
            has_non_finite[row] = true;
        }
        let flags = values(finite_rows(matrix(&rows, columns, &gpu())));
        let norms = values(row_norms(matrix(&rows, columns, &gpu()), None));
        for row in 0..n {
            let expected = if has_non_finite[row] { 0.0 } else { 1.0 };
            assert_eq!(flags[row], expected, "[{n}, {columns}]: {row}");
            assert_eq!(norms[row].is_finite(), !has_non_finite[row], "[{n}, {columns}]: {row}");
            assert!(has_non_finite[row] || norms[row] == clean[row], "[{n}, {columns}]: {row}");
        }
    }
    // Finite values whose norm overflows.
    let large = matrix(&[f32::MAX, f32::MAX, f32::MAX, 0.0], 2, &gpu());
    assert_eq!(values(finite_rows(large.clone())), [1.0, 1.0]);
    let norms = values(row_norms(large, None));
    assert!(!norms[0].is_finite() && (norms[1] / f32::MAX - 1.0).abs() < 1e-6, "{norms:?}");
}

/// Rows and factors: every third row is not finite and has factor 0, as have some other rows.
fn mixed(random: &mut Random, n: usize, columns: usize) -> (Vec<f32>, Vec<f32>) {
    let mut rows = random.values(n * columns);
    let mut factors = random.values(n);
    for row in 0..n {
        if row % 3 == 1 {
            rows[row * columns..][..columns].fill(NON_FINITE[random.below(3)]);
            factors[row] = if row % 2 == 0 { 0.0 } else { -0.0 };
        } else if random.below(4) == 0 {
            factors[row] = 0.0;
        }
    }
    (rows, factors)
}

#[test]
fn scaled_rows_are_equal_to_those_of_the_cpu() {
    let mut random = Random(5);
    for [n, columns] in SHAPES {
        let (rows, factors) = mixed(&mut random, n, columns);
        let on =
            |device| bits(scale_rows(matrix(&rows, columns, &device), &vector(&factors, &device)));
        let got = on(gpu());
        assert!(got == on(cpu()), "[{n}, {columns}]");
        let zeros = got.chunks(columns).zip(&factors).filter(|(_, factor)| **factor == 0.0);
        assert!(zeros.flat_map(|(row, _)| row).all(|&x| x == 0), "[{n}, {columns}]");
    }
}

#[test]
fn arrays_are_joined_bit_for_bit() {
    let mut random = Random(15);
    for lengths in [&[1][..], &[0, 3, 0], &[256, 1], &[255, 257, 4096], &[7; 33], &[70_000, 1, 2]] {
        let arrays: Vec<Vec<f32>> =
            lengths.iter().map(|&length| mixed(&mut random, 1, length.max(1)).0).collect();
        let arrays: Vec<&[f32]> =
            arrays.iter().zip(lengths).map(|(array, &length)| &array[..length]).collect();
        let on = |device| bits(concat(arrays.iter().map(|array| vector(array, &device)).collect()));
        let want: Vec<u32> = arrays.iter().flat_map(|a| a.iter().map(|x| x.to_bits())).collect();
        assert!(on(gpu()) == want && on(cpu()) == want, "{lengths:?}");
    }
}

#[test]
fn weighted_row_sums_are_accurate_and_deterministic() {
    let mut random = Random(6);
    let more = [[63, 10], [64, 10], [65, 10], [4096, 3], [4097, 3], [10_000, 33], [262_145, 1]];
    for [n, columns] in SHAPES.into_iter().chain(more) {
        let (rows, factors) = mixed(&mut random, n, columns);
        let on = |device| {
            values(weighted_row_sum(matrix(&rows, columns, &device), &vector(&factors, &device)))
        };
        let (got, want) = (on(gpu()), on(cpu()));
        // The error is at most the rounding of the terms and of each level of the summation tree.
        let mut size = vec![0.0f32; columns];
        let nonzero = rows.chunks(columns).zip(&factors).filter(|(_, factor)| **factor != 0.0);
        for (row, factor) in nonzero {
            size.iter_mut().zip(row).for_each(|(size, x)| *size += (factor * x).abs());
        }
        for column in 0..columns {
            let error = (got[column] - want[column]).abs();
            assert!(error <= 2e-7 * size[column], "[{n}, {columns}]: {column} is off by {error}");
        }
        assert_eq!(got, on(gpu()), "[{n}, {columns}]");
    }
}

#[test]
fn norms_are_deterministic() {
    let mut random = Random(7);
    for [n, columns] in SHAPES {
        let rows = matrix(&random.values(n * columns), columns, &gpu());
        let once = bits(row_norms(rows.clone(), None));
        assert!((0..3).all(|_| bits(row_norms(rows.clone(), None)) == once), "[{n}, {columns}]");
    }
}

#[test]
fn views_are_read_in_logical_order() {
    let input = Random(8).values(60);
    let on = |device| {
        let transposed = matrix(&input, 6, &device).transpose();
        let factors = vector(&input[..6], &device);
        let narrow = matrix(&input, 6, &device).slice([2..9, 1..5]);
        let mut all = values(row_norms(transposed.clone(), None));
        all.extend(values(scale_rows(transposed.clone(), &factors)));
        all.extend(values(weighted_row_sum(transposed, &factors)));
        all.extend(values(row_norms(narrow, None)));
        all
    };
    for (got, want) in on(gpu()).into_iter().zip(on(cpu())) {
        assert!((got - want).abs() < 1e-6, "{got} {want}");
    }
}

#[test]
fn empty_matrices_are_accepted() {
    for device in [gpu(), cpu()] {
        let (rows, empty) = (matrix(&[], 3, &device), vector(&[], &device));
        assert!(values(row_norms(rows.clone(), None)).is_empty());
        assert!(values(finite_rows(rows.clone())).is_empty());
        assert!(values(scale_rows(rows.clone(), &empty)).is_empty());
        assert_eq!(values(weighted_row_sum(rows, &empty)), [0.0; 3]);
    }
}
