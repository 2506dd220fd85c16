//! How many numbers are not 0, by stretches.

use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::{SIZE, UNITS, alloc, grid, units};

/// Each cube counts in one part of one stretch; stretch c is from `begins[c]` to `begins[c + 1]`.
#[cube(launch)]
fn count(values: &[u32], begins: &[u32], out: &mut [u32], parts: usize) {
    let unit = UNIT_POS as usize;
    let place = CUBE_POS / parts;
    let here = CUBE_POS < out.len();
    let start = begins[select(here, place, 0usize)] as usize;
    let end = select(here, begins[select(here, place + 1, 0usize)] as usize, start);
    let span = (end - start).div_ceil(parts);
    let mut at = start + (CUBE_POS % parts) * span;
    let stop = select(at + span < end, at + span, end);
    let mut counted = 0u32;
    at += unit;
    while at < stop {
        counted += select(values[at] & SIZE == 0, 0u32, 1u32);
        at += UNITS;
    }
    let mut held = Shared::<[u32]>::new_slice(UNITS);
    held[unit] = counted;
    #[unroll]
    for halving in 0..comptime!(UNITS.ilog2()) {
        let half = comptime!(UNITS >> (halving + 1));
        sync_cube();
        if unit < half {
            held[unit] += held[unit + half];
        }
    }
    if here && unit == 0 {
        out[CUBE_POS] = held[0];
    }
}

/// Each unit adds the parts of one stretch.
#[cube(launch)]
fn total(counts: &[u32], out: &mut [f32], parts: usize) {
    if ABSOLUTE_POS < out.len() {
        let mut counted = 0u32;
        for part in 0..parts {
            counted += counts[ABSOLUTE_POS * parts + part];
        }
        out[ABSOLUTE_POS] = f32::cast_from(counted);
    }
}

/// The numbers that are not 0 in each of `places` stretches.
pub(super) fn count_nonzero_bins(values: CubeTensor, places: usize) -> CubeTensor {
    /// DeviceArray that are worth a cube.
    const WORTH: usize = 64 * UNITS;
    let n = values.meta.num_elements();
    let begins: Vec<u32> = (0..=places).map(|c| (c * n / places) as u32).collect();
    let begins = values.client.create_from_slice(u32::as_bytes(&begins));
    let begins = CubeTensor::new_contiguous(
        values.client.clone(),
        values.device.clone(),
        [places + 1].into(),
        begins,
        DType::U32,
    );
    let parts = n.div_ceil(places).div_ceil(WORTH);
    let counts = alloc(&values, [places, parts], DType::U32);
    let out = alloc(&values, [places], DType::F32);
    count::launch(
        &out.client,
        grid(places * parts),
        units(),
        values.into_buffer_arg(),
        begins.into_buffer_arg(),
        counts.clone().into_buffer_arg(),
        parts,
    );
    let (counts, cubes) = (counts.into_buffer_arg(), places.div_ceil(UNITS));
    total::launch(&out.client, grid(cubes), units(), counts, out.clone().into_buffer_arg(), parts);
    out
}
