//! The operations on the CPU: plain loops, sums in f64.

use burn::backend::Flex;
use burn::prelude::*;
use burn::tensor::Element;
use burn_flex::FlexTensor;

use super::box_muller::{BLOCK, BLOCK_BYTES, normals};
use super::stream::CHUNK;
use super::{DeviceOps, Masks, Noise};

fn numbers(tensor: &FlexTensor) -> &[f32] {
    tensor.as_slice().expect("contiguous f32, as made by the lab")
}

fn integers(tensor: &FlexTensor) -> &[i32] {
    tensor.as_slice().expect("contiguous i32, as made by the lab")
}

fn made<T: Element>(values: Vec<T>, shape: impl Into<Shape>) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(values, shape.into()))
}

/// The rows of a matrix, and how many columns.
fn matrix(x: &FlexTensor) -> [usize; 2] {
    let shape = x.layout().shape();
    [shape[0], shape[1]]
}

fn norm<'a>(row: impl Iterator<Item = (f32, f32)> + 'a) -> f32 {
    row.map(|(x, root)| (f64::from(x) * f64::from(root)).powi(2)).sum::<f64>().sqrt() as f32
}

fn noised(values: &FlexTensor, noise: Noise, selected: impl Fn(usize) -> bool) -> FlexTensor {
    let values = values.to_contiguous();
    let mut out = numbers(&values).to_vec();
    for (piece, out) in out.chunks_mut(CHUNK).enumerate() {
        let mut drawn = [0.0; CHUNK];
        noise.stream.draw(noise.first + piece as u64, out.len(), &mut drawn);
        for (i, (value, z)) in out.iter_mut().zip(drawn).enumerate() {
            let here = selected(piece * CHUNK + i);
            *value = if here { (f64::from(*value) + noise.std * z) as f32 } else { 0.0 };
        }
    }
    let n = out.len();
    made(out, [n])
}

/// sum + x b.
fn add(sum: &mut [f64], x: f64, b: &[f32]) {
    sum.iter_mut().zip(b).for_each(|(sum, &b)| *sum += x * f64::from(b));
}

impl DeviceOps for Flex {
    fn norms(rows: FlexTensor) -> FlexTensor {
        let rows = rows.to_contiguous();
        let [n, columns] = matrix(&rows);
        let norm = |row: &[f32]| norm(row.iter().map(|&x| (x, 1.0)));
        made(numbers(&rows).chunks(columns.max(1)).map(norm).collect(), [n])
    }

    fn weighted_norms(rows: FlexTensor, roots: FlexTensor) -> FlexTensor {
        let (rows, roots) = (rows.to_contiguous(), roots.to_contiguous());
        let [n, columns] = matrix(&rows);
        let roots = numbers(&roots);
        // What is not finite does not count where its weight is 0.
        let share = |(&x, &root): (&f32, &f32)| if root == 0.0 { (0.0, 0.0) } else { (x, root) };
        let norm = |row: &[f32]| norm(row.iter().zip(roots).map(share));
        made(numbers(&rows).chunks(columns.max(1)).map(norm).collect(), [n])
    }

    fn finite(rows: FlexTensor) -> FlexTensor {
        let rows = rows.to_contiguous();
        let [n, columns] = matrix(&rows);
        let finite = |row: &[f32]| f32::from(u8::from(row.iter().all(|x| x.is_finite())));
        made(numbers(&rows).chunks(columns.max(1)).map(finite).collect(), [n])
    }

    fn scaled(rows: FlexTensor, factors: FlexTensor) -> FlexTensor {
        let (rows, factors) = (rows.to_contiguous(), factors.to_contiguous());
        let [n, columns] = matrix(&rows);
        let mut out = numbers(&rows).to_vec();
        for (row, &factor) in out.chunks_mut(columns.max(1)).zip(numbers(&factors)) {
            row.iter_mut().for_each(|x| *x = if factor == 0.0 { 0.0 } else { *x * factor });
        }
        made(out, [n, columns])
    }

    fn accumulated(rows: FlexTensor, factors: FlexTensor) -> FlexTensor {
        let (rows, factors) = (rows.to_contiguous(), factors.to_contiguous());
        let [_, columns] = matrix(&rows);
        let mut sum = vec![0.0f64; columns];
        let counted = numbers(&rows).chunks(columns.max(1)).zip(numbers(&factors));
        for (row, &factor) in counted.filter(|(_, factor)| **factor != 0.0) {
            sum.iter_mut().zip(row).for_each(|(s, &x)| *s += f64::from(factor) * f64::from(x));
        }
        made(sum.into_iter().map(|x| x as f32).collect(), [columns])
    }

    fn product(a: FlexTensor, b: FlexTensor) -> FlexTensor {
        let (a, b) = (a.to_contiguous(), b.to_contiguous());
        let ([rows, terms], [_, columns]) = (matrix(&a), matrix(&b));
        let mut out = vec![0.0f64; rows * columns];
        for (row, out) in numbers(&a).chunks(terms).zip(out.chunks_mut(columns)) {
            for (&x, b) in row.iter().zip(numbers(&b).chunks(columns)) {
                add(out, f64::from(x), b);
            }
        }
        made(out.into_iter().map(|x| x as f32).collect(), [rows * columns])
    }

    fn outer_sum(a: FlexTensor, b: FlexTensor, factors: FlexTensor) -> FlexTensor {
        let (a, b, factors) = (a.to_contiguous(), b.to_contiguous(), factors.to_contiguous());
        let ([_, inputs], [_, outputs]) = (matrix(&a), matrix(&b));
        let mut out = vec![0.0f64; inputs * outputs];
        let rows = numbers(&a).chunks(inputs).zip(numbers(&b).chunks(outputs));
        let counted = rows.zip(numbers(&factors)).filter(|(_, factor)| **factor != 0.0);
        for ((a, b), &factor) in counted {
            for (&x, out) in a.iter().zip(out.chunks_mut(outputs)) {
                add(out, f64::from(factor) * f64::from(x), b);
            }
        }
        made(out.into_iter().map(|x| x as f32).collect(), [inputs * outputs])
    }

    fn noised(values: FlexTensor, noise: Noise) -> FlexTensor {
        noised(&values, noise, |_| true)
    }

    fn noised_where(values: FlexTensor, selected: FlexTensor, noise: Noise) -> FlexTensor {
        let selected = selected.to_contiguous();
        let selected = numbers(&selected);
        noised(&values, noise, |i| selected[i] != 0.0)
    }

    fn random_bits(_: FlexTensor, noise: Noise, blocks: usize) -> FlexTensor {
        let mut bytes = vec![0; blocks * BLOCK_BYTES];
        noise.stream.random_bits(noise.first, &mut bytes);
        let words = bytes.as_chunks::<4>().0.iter().map(|word| i32::from_le_bytes(*word));
        made(words.collect(), [blocks * BLOCK_BYTES / 4])
    }

    fn normals(words: FlexTensor) -> FlexTensor {
        let words = words.to_contiguous();
        let bytes: Vec<u8> = integers(&words).iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut out = vec![0.0; bytes.len() / BLOCK_BYTES * BLOCK];
        normals(&bytes, &mut out);
        let n = out.len();
        made(out.into_iter().map(|z| z as f32).collect(), [n])
    }

    fn keep_largest(values: FlexTensor, among: FlexTensor, drop: usize) -> FlexTensor {
        let (values, among) = (values.to_contiguous(), among.to_contiguous());
        let (values, among) = (numbers(&values), numbers(&among));
        let size = |i: usize| if values[i].is_nan() { -1.0 } else { values[i].abs() };
        let mut order: Vec<usize> = (0..values.len()).filter(|&i| among[i] != 0.0).collect();
        order.sort_by(|&a, &b| size(a).total_cmp(&size(b)).then(a.cmp(&b)));
        let mut kept = vec![0.0f32; values.len()];
        order.iter().skip(drop).for_each(|&i| kept[i] = 1.0);
        let n = kept.len();
        made(kept, [n])
    }

    fn count_nonzero_bins(values: FlexTensor, places: usize) -> FlexTensor {
        let values = values.to_contiguous();
        let values = numbers(&values);
        let count = |c: usize| {
            let stretch = c * values.len() / places..(c + 1) * values.len() / places;
            values[stretch].iter().filter(|&&x| x != 0.0).count() as f32
        };
        made((0..places).map(count).collect(), [places])
    }

    fn dropout(rows: FlexTensor, masks: Masks, each: usize) -> FlexTensor {
        let rows = rows.to_contiguous();
        let rows = integers(&rows).as_chunks::<2>().0;
        let mut out = vec![0.0f32; rows.len() * each];
        for (&[id, copy], mask) in rows.iter().zip(out.chunks_mut(each.max(1))) {
            masks.draw(id as u32, copy as u32, mask);
        }
        made::<f32>(out, [rows.len(), each])
    }

    fn augment(
        images: FlexTensor,
        choices: FlexTensor,
        [_, height, width]: [usize; 3],
        copies: usize,
    ) -> FlexTensor {
        let (images, choices) = (images.to_contiguous(), choices.to_contiguous());
        let [n, size] = matrix(&images);
        let (images, choices) = (numbers(&images), integers(&choices).as_chunks::<3>().0);
        let mut out = Vec::with_capacity(n * copies * size);
        for (version, &[down, right, flip]) in choices.iter().enumerate() {
            let image = &images[version / copies * size..][..size];
            out.extend((0..size).map(|pixel| {
                let (row, x) = (pixel / width, pixel % width);
                let (plane, y) = (row / height, row % height);
                let x = if flip == 0 { x } else { width - 1 - x };
                let (y, x) = (mirrored(y, down, height), mirrored(x, right, width));
                image[(plane * height + y) * width + x]
            }));
        }
        made(out, [n * copies, size])
    }
}

/// Where a moved position lies, reflected at the edge pixel.
fn mirrored(at: usize, by: i32, length: usize) -> usize {
    let (at, last) = (at as i64 + i64::from(by), length as i64 - 1);
    (last - (last - at.abs()).abs()) as usize
}
