//! The operations on the CPU: plain loops with sums in f64.

use burn::backend::Flex;
use burn::prelude::*;
use burn::tensor::Element;
use burn_flex::FlexTensor;

use super::box_muller::{BLOCK_BYTES, NORMALS_PER_BLOCK, normals};
use super::noise_stream::NORMALS_PER_CHUNK;
use super::{DeviceOps, DropoutMasks, NoiseParams};

fn floats(tensor: &FlexTensor) -> &[f32] {
    tensor.as_slice().expect("a contiguous f32 tensor")
}

fn integers(tensor: &FlexTensor) -> &[i32] {
    tensor.as_slice().expect("a contiguous i32 tensor")
}

fn tensor<T: Element>(values: Vec<T>, shape: impl Into<Shape>) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(values, shape.into()))
}

/// Returns the shape `[rows, columns]` of a matrix.
fn matrix_dims(x: &FlexTensor) -> [usize; 2] {
    let shape = x.layout().shape();
    [shape[0], shape[1]]
}

/// Computes √Σ (x · root)² over pairs (x, root).
fn norm<'a>(row: impl Iterator<Item = (f32, f32)> + 'a) -> f32 {
    row.map(|(x, root)| (f64::from(x) * f64::from(root)).powi(2)).sum::<f64>().sqrt() as f32
}

/// Returns `values` plus noise where `selected`, and 0 elsewhere.
fn add_noise(
    values: &FlexTensor,
    noise: NoiseParams,
    selected: impl Fn(usize) -> bool,
) -> FlexTensor {
    let values = values.to_contiguous();
    let mut out = floats(&values).to_vec();
    for (chunk, out) in out.chunks_mut(NORMALS_PER_CHUNK).enumerate() {
        let mut normals = [0.0; NORMALS_PER_CHUNK];
        noise.stream.draw(noise.first_chunk + chunk as u64, out.len(), &mut normals);
        for (i, (value, z)) in out.iter_mut().zip(normals).enumerate() {
            let is_selected = selected(chunk * NORMALS_PER_CHUNK + i);
            *value = if is_selected { (f64::from(*value) + noise.std * z) as f32 } else { 0.0 };
        }
    }
    let n = out.len();
    tensor(out, [n])
}

/// Adds x b to `sum`.
fn add_scaled(sum: &mut [f64], x: f64, b: &[f32]) {
    sum.iter_mut().zip(b).for_each(|(sum, &b)| *sum += x * f64::from(b));
}

impl DeviceOps for Flex {
    fn row_norms(rows: FlexTensor) -> FlexTensor {
        let rows = rows.to_contiguous();
        let [n, columns] = matrix_dims(&rows);
        let norm = |row: &[f32]| norm(row.iter().map(|&x| (x, 1.0)));
        tensor(floats(&rows).chunks(columns.max(1)).map(norm).collect(), [n])
    }

    fn weighted_row_norms(rows: FlexTensor, roots: FlexTensor) -> FlexTensor {
        let (rows, roots) = (rows.to_contiguous(), roots.to_contiguous());
        let [n, columns] = matrix_dims(&rows);
        let roots = floats(&roots);
        // A weight of 0 excludes a value, also if it is not finite.
        let pair = |(&x, &root): (&f32, &f32)| if root == 0.0 { (0.0, 0.0) } else { (x, root) };
        let norm = |row: &[f32]| norm(row.iter().zip(roots).map(pair));
        tensor(floats(&rows).chunks(columns.max(1)).map(norm).collect(), [n])
    }

    fn finite_rows(rows: FlexTensor) -> FlexTensor {
        let rows = rows.to_contiguous();
        let [n, columns] = matrix_dims(&rows);
        let finite = |row: &[f32]| f32::from(u8::from(row.iter().all(|x| x.is_finite())));
        tensor(floats(&rows).chunks(columns.max(1)).map(finite).collect(), [n])
    }

    fn scale_rows(rows: FlexTensor, factors: FlexTensor) -> FlexTensor {
        let (rows, factors) = (rows.to_contiguous(), factors.to_contiguous());
        let [n, columns] = matrix_dims(&rows);
        let mut out = floats(&rows).to_vec();
        for (row, &factor) in out.chunks_mut(columns.max(1)).zip(floats(&factors)) {
            row.iter_mut().for_each(|x| *x = if factor == 0.0 { 0.0 } else { *x * factor });
        }
        tensor(out, [n, columns])
    }

    fn weighted_row_sum(rows: FlexTensor, factors: FlexTensor) -> FlexTensor {
        let (rows, factors) = (rows.to_contiguous(), factors.to_contiguous());
        let [_, columns] = matrix_dims(&rows);
        let mut sum = vec![0.0f64; columns];
        let weighted = floats(&rows).chunks(columns.max(1)).zip(floats(&factors));
        for (row, &factor) in weighted.filter(|(_, factor)| **factor != 0.0) {
            sum.iter_mut().zip(row).for_each(|(s, &x)| *s += f64::from(factor) * f64::from(x));
        }
        tensor(sum.into_iter().map(|x| x as f32).collect(), [columns])
    }

    fn concat(a: FlexTensor, b: FlexTensor) -> FlexTensor {
        let (a, b) = (a.to_contiguous(), b.to_contiguous());
        let both = [floats(&a), floats(&b)].concat();
        let n = both.len();
        tensor(both, [n])
    }

    fn matmul(a: FlexTensor, b: FlexTensor) -> FlexTensor {
        let (a, b) = (a.to_contiguous(), b.to_contiguous());
        let ([rows, terms], [_, columns]) = (matrix_dims(&a), matrix_dims(&b));
        let mut out = vec![0.0f64; rows * columns];
        for (row, out) in floats(&a).chunks(terms).zip(out.chunks_mut(columns)) {
            for (&x, b) in row.iter().zip(floats(&b).chunks(columns)) {
                add_scaled(out, f64::from(x), b);
            }
        }
        tensor(out.into_iter().map(|x| x as f32).collect(), [rows * columns])
    }

    fn weighted_outer_sum(a: FlexTensor, b: FlexTensor, factors: FlexTensor) -> FlexTensor {
        let (a, b, factors) = (a.to_contiguous(), b.to_contiguous(), factors.to_contiguous());
        let ([_, inputs], [_, outputs]) = (matrix_dims(&a), matrix_dims(&b));
        let mut out = vec![0.0f64; inputs * outputs];
        let rows = floats(&a).chunks(inputs).zip(floats(&b).chunks(outputs));
        let nonzero = rows.zip(floats(&factors)).filter(|(_, factor)| **factor != 0.0);
        for ((a, b), &factor) in nonzero {
            for (&x, out) in a.iter().zip(out.chunks_mut(outputs)) {
                add_scaled(out, f64::from(factor) * f64::from(x), b);
            }
        }
        tensor(out.into_iter().map(|x| x as f32).collect(), [inputs * outputs])
    }

    fn add_noise(values: FlexTensor, noise: NoiseParams) -> FlexTensor {
        add_noise(&values, noise, |_| true)
    }

    fn add_noise_where(values: FlexTensor, selected: FlexTensor, noise: NoiseParams) -> FlexTensor {
        let selected = selected.to_contiguous();
        let selected = floats(&selected);
        add_noise(&values, noise, |i| selected[i] != 0.0)
    }

    fn random_bits(_: FlexTensor, noise: NoiseParams, blocks: usize) -> FlexTensor {
        let mut bytes = vec![0; blocks * BLOCK_BYTES];
        noise.stream.random_bits(noise.first_chunk, &mut bytes);
        let bits = bytes.as_chunks::<4>().0.iter().map(|bytes| i32::from_le_bytes(*bytes));
        tensor(bits.collect(), [blocks * BLOCK_BYTES / 4])
    }

    fn normals(bits: FlexTensor, noise: NoiseParams) -> FlexTensor {
        let bits = bits.to_contiguous();
        let bytes: Vec<u8> = integers(&bits).iter().flat_map(|bits| bits.to_le_bytes()).collect();
        let mut out = vec![0.0; bytes.len() / BLOCK_BYTES * NORMALS_PER_BLOCK];
        normals(&bytes, &mut out, |pair| noise.stream.extension(noise.first_chunk, pair));
        let n = out.len();
        tensor(out.into_iter().map(|z| z as f32).collect(), [n])
    }

    fn largest_mask(values: FlexTensor, candidates: FlexTensor, drop: usize) -> FlexTensor {
        let (values, candidates) = (values.to_contiguous(), candidates.to_contiguous());
        let (values, candidates) = (floats(&values), floats(&candidates));
        let key = |i: usize| if values[i].is_nan() { -1.0 } else { values[i].abs() };
        let mut order: Vec<usize> = (0..values.len()).filter(|&i| candidates[i] != 0.0).collect();
        order.sort_by(|&a, &b| key(a).total_cmp(&key(b)).then(a.cmp(&b)));
        let mut kept = vec![0.0f32; values.len()];
        order.iter().skip(drop).for_each(|&i| kept[i] = 1.0);
        let n = kept.len();
        tensor(kept, [n])
    }

    fn count_nonzero_bins(values: FlexTensor, bins: usize) -> FlexTensor {
        let values = values.to_contiguous();
        let values = floats(&values);
        let count = |c: usize| {
            let bin = c * values.len() / bins..(c + 1) * values.len() / bins;
            values[bin].iter().filter(|&&x| x != 0.0).count() as f32
        };
        tensor((0..bins).map(count).collect(), [bins])
    }

    fn dropout_masks(rows: FlexTensor, masks: DropoutMasks, width: usize) -> FlexTensor {
        let rows = rows.to_contiguous();
        let rows = integers(&rows).as_chunks::<2>().0;
        let mut out = vec![0.0f32; rows.len() * width];
        for (&[example, copy], mask) in rows.iter().zip(out.chunks_mut(width.max(1))) {
            masks.draw(example as u32, copy as u32, mask);
        }
        tensor::<f32>(out, [rows.len(), width])
    }

    fn augment(
        images: FlexTensor,
        choices: FlexTensor,
        [_, height, width]: [usize; 3],
        copies: usize,
    ) -> FlexTensor {
        let (images, choices) = (images.to_contiguous(), choices.to_contiguous());
        let [n, size] = matrix_dims(&images);
        let (images, choices) = (floats(&images), integers(&choices).as_chunks::<3>().0);
        let mut out = Vec::with_capacity(n * copies * size);
        for (copy, &[down, right, flip]) in choices.iter().enumerate() {
            let image = &images[copy / copies * size..][..size];
            out.extend((0..size).map(|pixel| {
                let (row, x) = (pixel / width, pixel % width);
                let (channel, y) = (row / height, row % height);
                let x = if flip == 0 { x } else { width - 1 - x };
                let (y, x) = (reflected(y, down, height), reflected(x, right, width));
                image[(channel * height + y) * width + x]
            }));
        }
        tensor(out, [n * copies, size])
    }
}

/// Returns the position `at + shift`, reflected at the edge pixels into `0..length`.
fn reflected(at: usize, shift: i32, length: usize) -> usize {
    let (at, last) = (at as i64 + i64::from(shift), length as i64 - 1);
    (last - (last - at.abs()).abs()) as usize
}
