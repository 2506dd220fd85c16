//! Matrix products, compared with their CPU versions.

use epsilab::device::kernels::{matmul, weighted_outer_sum};
use epsilab_software_gpu::{Random, bits, cpu, gpu, matrix, values, vector};

/// Rows, terms and columns around the sizes of tiles and splits.
const SHAPES: [[usize; 3]; 8] = [
    [1, 1, 1],
    [3, 5, 2],
    [64, 16, 64],
    [65, 17, 63],
    [130, 300, 10],
    [7, 5000, 9],
    [1, 257, 200],
    [200, 1, 3],
];

/// Asserts that values agree up to the rounding of sums of `terms` terms below 1.
fn assert_near(got: &[f32], want: &[f32], terms: usize, what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    let bound = 3e-7 * (terms as f32).sqrt().max(1.0) * 4.0;
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        assert!((got - want).abs() <= bound, "{what}: value {i} is {got}, not {want}");
    }
}

#[test]
fn matmul_for_all_shapes() {
    let mut random = Random(11);
    for [rows, terms, columns] in SHAPES {
        let (a, b) = (random.values(rows * terms), random.values(terms * columns));
        let on = |device: &_| matmul(matrix(&a, terms, device), matrix(&b, columns, device));
        let what = format!("[{rows}, {terms}] by [{terms}, {columns}]");
        assert_near(&values(on(&gpu())), &values(on(&cpu())), terms, &what);
        assert_eq!(bits(on(&gpu())), bits(on(&gpu())), "{what}: equal bits");
    }
}

#[test]
fn weighted_outer_sums_ignore_rows_of_factor_0() {
    let mut random = Random(12);
    for [inputs, rows, outputs] in SHAPES {
        let (mut a, mut b) = (random.values(rows * inputs), random.values(rows * outputs));
        let mut factors = random.values(rows);
        let ignored: Vec<usize> = (0..rows).filter(|row| row % 3 == 1).collect();
        for (i, &row) in ignored.iter().enumerate() {
            factors[row] = [0.0, -0.0][i % 2];
            a[row * inputs] = [f32::NAN, f32::INFINITY][i % 2];
            b[row * outputs] = f32::NEG_INFINITY;
        }
        let on = |device: &_| {
            let (a, b) = (matrix(&a, inputs, device), matrix(&b, outputs, device));
            weighted_outer_sum(a, b, &vector(&factors, device))
        };
        let what = format!("{rows} rows of {inputs} and {outputs}");
        assert_near(&values(on(&gpu())), &values(on(&cpu())), rows, &what);
        assert_eq!(bits(on(&gpu())), bits(on(&gpu())), "{what}: equal bits");
    }
}
