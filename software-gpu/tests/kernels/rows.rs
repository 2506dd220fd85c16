//! Operations on the rows of matrices, beside their CPU versions.

use epsilab::device::kernels::{accumulated, finite, norms, scaled};
use epsilab_software_gpu::{Random, bits, cpu, gpu, matrix, values, vector};

/// Rows and columns around the sizes of cubes, groups and pieces.
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

/// DeviceArray that are neither finite nor the same as each other.
const BAD: [f32; 3] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];

/// Each norm is the CPU's to rounding; what f32 holds only with fewer digits may be rounded up.
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
fn norms_by_hand() {
    for device in [gpu(), cpu()] {
        for unit in [1.0, 1e38, 1e-38, 3e14, 1e-15] {
            let rows = matrix(&[3.0 * unit, 0.0, -2.0 * unit, 1.5 * unit], 2, &device);
            let roots = vector(&[0.5, 2.0], &device);
            let plain = values(norms(rows.clone(), None));
            assert_norms(&plain, &[3.0 * unit, 2.5 * unit], "plain");
            let weighted = values(norms(rows, Some(&roots)));
            assert_norms(&weighted, &[1.5 * unit, 10f32.sqrt() * unit], "weighted");
        }
        // Nothing is exactly nothing, and the smallest number is more.
        let rows = matrix(&[0.0, -0.0, f32::from_bits(1), 0.0], 2, &device);
        let plain = values(norms(rows, None));
        assert!(plain[0] == 0.0 && plain[1] > 0.0, "{plain:?}");
    }
}

#[test]
fn norms_of_all_shapes_and_magnitudes() {
    let mut random = Random(1);
    for [n, columns] in SHAPES {
        let plain = random.values(n * columns);
        for scale in [1.0, 1e-20, 1e18, 1e34, 1e-37, 1e-42] {
            let rows: Vec<f32> = plain.iter().map(|x| x * scale).collect();
            let got = values(norms(matrix(&rows, columns, &gpu()), None));
            let want = values(norms(matrix(&rows, columns, &cpu()), None));
            assert_norms(&got, &want, &format!("[{n}, {columns}] times {scale:e}"));
        }
    }
}

#[test]
fn norms_of_numbers_of_every_exponent() {
    let mut random = Random(2);
    for columns in [1, 2, 3, 40, 700, 9000] {
        let n = 20_000usize.div_ceil(columns);
        // Rows whose largest exponents are anywhere, so that each of the three sums decides some.
        let mut rows = Vec::new();
        for _ in 0..n {
            let most = f32::from_bits((random.below(254) as u32 + 1) << 23 | 0x7f_ffff);
            let small = std::iter::repeat_with(|| random.finite()).filter(|x| x.abs() <= most);
            rows.extend(small.take(columns));
        }
        let roots: Vec<f32> = (0..columns).map(|_| random.finite().abs()).collect();
        for roots in [None, Some(roots)] {
            let on = |device| {
                let roots = roots.as_ref().map(|roots| vector(roots, &device));
                values(norms(matrix(&rows, columns, &device), roots.as_ref()))
            };
            let what = format!("[{n}, {columns}], weights: {}", roots.is_some());
            assert_norms(&on(gpu()), &on(cpu()), &what);
        }
    }
}

#[test]
fn weighted_norms_of_all_shapes() {
    let mut random = Random(3);
    for [n, columns] in SHAPES {
        let mut rows = random.values(n * columns);
        let roots: Vec<f32> = (0..columns).map(|_| random.value().max(0.0)).collect();
        // What has no weight does not count, whatever it is.
        for (i, x) in rows.iter_mut().enumerate() {
            if roots[i % columns] == 0.0 {
                *x = BAD[i % 3];
            }
        }
        let on = |device| {
            let roots = vector(&roots, &device);
            values(norms(matrix(&rows, columns, &device), Some(&roots)))
        };
        let want = on(cpu());
        assert!(want.iter().all(|norm| norm.is_finite()));
        assert_norms(&on(gpu()), &want, &format!("[{n}, {columns}]"));
    }
}

#[test]
fn what_is_not_finite_is_found_wherever_it_is() {
    let mut random = Random(4);
    for [n, columns] in SHAPES {
        let mut rows = random.values(n * columns);
        let clean = values(norms(matrix(&rows, columns, &gpu()), None));
        let good = values(finite(matrix(&rows, columns, &gpu())));
        assert!(good.iter().all(|&flag| flag == 1.0), "[{n}, {columns}]");
        let mut spoilt = vec![false; n];
        for row in (0..n).step_by(3) {
            let places = [0, columns - 1, random.below(columns)];
            rows[row * columns + places[random.below(3)]] = BAD[random.below(3)];
            spoilt[row] = true;
        }
        let flags = values(finite(matrix(&rows, columns, &gpu())));
        let norms = values(norms(matrix(&rows, columns, &gpu()), None));
        for row in 0..n {
            assert_eq!(flags[row], if spoilt[row] { 0.0 } else { 1.0 }, "[{n}, {columns}]: {row}");
            assert_eq!(norms[row].is_finite(), !spoilt[row], "[{n}, {columns}]: {row}");
            assert!(spoilt[row] || norms[row] == clean[row], "[{n}, {columns}]: {row}");
        }
    }
    // Finite numbers whose norm f32 can't hold.
    let most = matrix(&[f32::MAX, f32::MAX, f32::MAX, 0.0], 2, &gpu());
    assert_eq!(values(finite(most.clone())), [1.0, 1.0]);
    let norms = values(norms(most, None));
    assert!(!norms[0].is_finite() && (norms[1] / f32::MAX - 1.0).abs() < 1e-6, "{norms:?}");
}

/// Rows, of which every third is not finite, with factors that are 0 there and sometimes elsewhere.
fn mixed(random: &mut Random, n: usize, columns: usize) -> (Vec<f32>, Vec<f32>) {
    let mut rows = random.values(n * columns);
    let mut factors = random.values(n);
    for row in 0..n {
        if row % 3 == 1 {
            rows[row * columns..][..columns].fill(BAD[random.below(3)]);
            factors[row] = if row % 2 == 0 { 0.0 } else { -0.0 };
        } else if random.below(4) == 0 {
            factors[row] = 0.0;
        }
    }
    (rows, factors)
}

#[test]
fn scaled_rows_are_those_of_the_cpu_bit_for_bit() {
    let mut random = Random(5);
    for [n, columns] in SHAPES {
        let (rows, factors) = mixed(&mut random, n, columns);
        let on = |device| bits(scaled(matrix(&rows, columns, &device), &vector(&factors, &device)));
        let got = on(gpu());
        assert!(got == on(cpu()), "[{n}, {columns}]");
        let zeros = got.chunks(columns).zip(&factors).filter(|(_, factor)| **factor == 0.0);
        assert!(zeros.flat_map(|(row, _)| row).all(|&x| x == 0), "[{n}, {columns}]");
    }
}

#[test]
fn sums_of_rows_are_right_and_the_same_in_every_run() {
    let mut random = Random(6);
    let more = [[63, 10], [64, 10], [65, 10], [4096, 3], [4097, 3], [10_000, 33], [262_145, 1]];
    for [n, columns] in SHAPES.into_iter().chain(more) {
        let (rows, factors) = mixed(&mut random, n, columns);
        let on = |device| {
            values(accumulated(matrix(&rows, columns, &device), &vector(&factors, &device)))
        };
        let (got, want) = (on(gpu()), on(cpu()));
        // No more than rounding: of each term, and of the sum on each storey of the tree.
        let mut size = vec![0.0f32; columns];
        let counted = rows.chunks(columns).zip(&factors).filter(|(_, factor)| **factor != 0.0);
        for (row, factor) in counted {
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
fn the_same_shapes_give_the_same_bits() {
    let mut random = Random(7);
    for [n, columns] in SHAPES {
        let rows = matrix(&random.values(n * columns), columns, &gpu());
        let once = bits(norms(rows.clone(), None));
        assert!((0..3).all(|_| bits(norms(rows.clone(), None)) == once), "[{n}, {columns}]");
    }
}

#[test]
fn views_are_read_in_their_order() {
    let values_ = Random(8).values(60);
    let on = |device| {
        let turned = matrix(&values_, 6, &device).transpose();
        let factors = vector(&values_[..6], &device);
        let narrow = matrix(&values_, 6, &device).slice([2..9, 1..5]);
        let mut all = values(norms(turned.clone(), None));
        all.extend(values(scaled(turned.clone(), &factors)));
        all.extend(values(accumulated(turned, &factors)));
        all.extend(values(norms(narrow, None)));
        all
    };
    for (got, want) in on(gpu()).into_iter().zip(on(cpu())) {
        assert!((got - want).abs() < 1e-6, "{got} {want}");
    }
}

#[test]
fn nothing_has_an_answer_too() {
    for device in [gpu(), cpu()] {
        let (none, empty) = (matrix(&[], 3, &device), vector(&[], &device));
        assert!(values(norms(none.clone(), None)).is_empty());
        assert!(values(finite(none.clone())).is_empty());
        assert!(values(scaled(none.clone(), &empty)).is_empty());
        assert_eq!(values(accumulated(none, &empty)), [0.0; 3]);
    }
}
