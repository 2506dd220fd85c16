//! Counting nonzero values per bin.

use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::{ABS_MASK, CUBE_UNITS, alloc, cube_shape, grid};

/// Counts the nonzero values of one part of one bin in each cube. Bin c is
/// `starts[c]..starts[c + 1]`.
#[cube(launch)]
fn count_parts(values: &[u32], starts: &[u32], out: &mut [u32], parts: usize) {
    let unit = UNIT_POS as usize;
    let bin = CUBE_POS / parts;
    // The grid may have more cubes than parts.
    let in_range = CUBE_POS < out.len();
    let start = starts[select(in_range, bin, 0usize)] as usize;
    let end = select(in_range, starts[select(in_range, bin + 1, 0usize)] as usize, start);
    let span = (end - start).div_ceil(parts);
    let mut at = start + (CUBE_POS % parts) * span;
    let stop = select(at + span < end, at + span, end);
    let mut nonzero = 0u32;
    at += unit;
    while at < stop {
        nonzero += select(values[at] & ABS_MASK == 0, 0u32, 1u32);
        at += CUBE_UNITS;
    }
    let mut partial = Shared::<[u32]>::new_slice(CUBE_UNITS);
    partial[unit] = nonzero;
    #[unroll]
    for step in 0..comptime!(CUBE_UNITS.ilog2()) {
        let half = comptime!(CUBE_UNITS >> (step + 1));
        sync_cube();
        if unit < half {
            partial[unit] += partial[unit + half];
        }
    }
    if in_range && unit == 0 {
        out[CUBE_POS] = partial[0];
    }
}

/// Adds the counts of the parts of one bin in each unit.
#[cube(launch)]
fn sum_parts(counts: &[u32], out: &mut [f32], parts: usize) {
    if ABSOLUTE_POS < out.len() {
        let mut sum = 0u32;
        for part in 0..parts {
            sum += counts[ABSOLUTE_POS * parts + part];
        }
        out[ABSOLUTE_POS] = f32::cast_from(sum);
    }
}

/// See [`count_nonzero_bins`](super::super::count_nonzero_bins).
pub(super) fn count_nonzero_bins(values: CubeTensor, bins: usize) -> CubeTensor {
    /// The maximal number of values per cube.
    const VALUES_PER_CUBE: usize = 64 * CUBE_UNITS;
    let n = values.meta.num_elements();
    let starts: Vec<u32> = (0..=bins).map(|c| (c * n / bins) as u32).collect();
    let starts = values.client.create_from_slice(u32::as_bytes(&starts));
    let starts = CubeTensor::new_contiguous(
        values.client.clone(),
        values.device.clone(),
        [bins + 1].into(),
        starts,
        DType::U32,
    );
    let parts = n.div_ceil(bins).div_ceil(VALUES_PER_CUBE);
    let counts = alloc(&values, [bins, parts], DType::U32);
    let out = alloc(&values, [bins], DType::F32);
    count_parts::launch(
        &out.client,
        grid(bins * parts),
        cube_shape(),
        values.into_buffer_arg(),
        starts.into_buffer_arg(),
        counts.clone().into_buffer_arg(),
        parts,
    );
    let (counts, cubes) = (counts.into_buffer_arg(), bins.div_ceil(CUBE_UNITS));
    sum_parts::launch(
        &out.client,
        grid(cubes),
        cube_shape(),
        counts,
        out.clone().into_buffer_arg(),
        parts,
    );
    out
}
