//! Selection of the coordinates of largest absolute value, by radix selection.
//!
//! Coordinates are ordered by a unique 64-bit key: the absolute value, then the index. The
//! threshold is found digit by digit: the candidates whose leading digits equal those of the
//! threshold are counted by their next digit, and the counts determine the next digit of the
//! threshold. Counts do not depend on the order of atomic additions, so the result is
//! deterministic. No value is copied to the host.

use burn::tensor::DType;
use burn_cubecl::ops::numeric::zeros_client;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::{ABS_MASK, CUBE_UNITS, INFINITY_BITS, alloc, cube_shape, grid};

/// The radix: values of an 8-bit digit, one per unit of a cube.
const RADIX: usize = CUBE_UNITS;

/// Digits of the absolute value. As many digits of the index follow.
const VALUE_DIGITS: u32 = 4;

/// Coordinates per cube.
const VALUES_PER_CUBE: usize = 64 * CUBE_UNITS;

/// Returns the sort key of a value, monotonic in its absolute value; 0 for NaN.
#[cube]
fn sort_key(bits: u32) -> u32 {
    let abs_bits = bits & ABS_MASK;
    select(abs_bits > INFINITY_BITS, 0u32, abs_bits + 1)
}

/// Returns whether the leading `digits` digits of key and threshold are equal.
#[cube]
fn has_prefix(key: u32, threshold: u32, #[comptime] digits: u32) -> bool {
    // A shift by 32 bits is undefined, so no digits are a special case.
    let differing = if comptime!(digits == 0) { 0u32.runtime() } else { key ^ threshold };
    differing >> comptime!((32 - 8 * digits) % 32) == 0
}

/// Counts the candidates that agree with the threshold so far by their next digit.
///
/// `threshold[0]` is the smallest kept key, `threshold[1]` the smallest kept index of that key, and
/// `threshold[2]` the number of candidates still to be dropped among those that agree. If it is 0,
/// the remaining digits are 0 and nothing is counted.
///
/// `n` is the number of coordinates: the buffer may be longer.
#[cube(launch)]
fn count_digits(
    values: &[u32],
    candidates: &[u32],
    threshold: &[u32],
    counts: &[Atomic<u32>],
    n: usize,
    #[comptime] digit: u32,
) {
    let unit = UNIT_POS as usize;
    let histogram = Shared::<[Atomic<u32>]>::new_slice(RADIX);
    histogram[unit].store(0u32);
    sync_cube();
    let start = CUBE_POS * VALUES_PER_CUBE;
    let stop = select(start + VALUES_PER_CUBE < n, start + VALUES_PER_CUBE, n);
    let end = select(threshold[2] == 0, 0, stop);
    let mut at = start + unit;
    while at < end {
        let key = sort_key(values[at]);
        if candidates[at] & ABS_MASK != 0 {
            if comptime!(digit < VALUE_DIGITS) {
                if has_prefix(key, threshold[0], digit) {
                    let digit_value = (key >> comptime!(24 - 8 * digit)) & 255;
                    histogram[digit_value as usize].fetch_add(1u32);
                }
            } else {
                let index = u32::cast_from(at);
                if key == threshold[0]
                    && has_prefix(index, threshold[1], comptime!(digit - VALUE_DIGITS))
                {
                    let digit_value = (index >> comptime!(24 - 8 * (digit - VALUE_DIGITS))) & 255;
                    histogram[digit_value as usize].fetch_add(1u32);
                }
            }
        }
        at += CUBE_UNITS;
    }
    sync_cube();
    let count = histogram[unit].load();
    if count > 0 {
        counts[comptime!(digit as usize * RADIX) + unit].fetch_add(count);
    }
}

/// Computes the next digit of the threshold, in a single cube.
#[cube(launch)]
fn next_digit(threshold: &mut [u32], counts: &[u32], #[comptime] digit: u32) {
    let unit = UNIT_POS as usize;
    let mut histogram = Shared::<[u32]>::new_slice(RADIX);
    histogram[unit] = counts[comptime!(digit as usize * RADIX) + unit];
    sync_cube();
    if unit == 0 && threshold[2] > 0 {
        let remaining = threshold[2];
        let mut digit_value = 0u32;
        let mut below = 0u32;
        while digit_value < 256 && below + histogram[digit_value as usize] <= remaining {
            below += histogram[digit_value as usize];
            digit_value += 1;
        }
        if digit_value == 256 {
            // All candidates are dropped: no key reaches this threshold.
            threshold[0] = 0xffff_ffffu32;
            threshold[2] = 0u32;
        } else {
            if comptime!(digit < VALUE_DIGITS) {
                threshold[0] |= digit_value << comptime!(24 - 8 * digit);
            } else {
                threshold[1] |= digit_value << comptime!(24 - 8 * (digit - VALUE_DIGITS));
            }
            threshold[2] = remaining - below;
        }
    }
}

/// Sets the threshold to 0, with `drop` candidates to be dropped.
#[cube(launch)]
fn reset_threshold(threshold: &mut [u32], drop: u32) {
    if UNIT_POS == 0 {
        threshold[0] = 0u32;
        threshold[1] = 0u32;
        threshold[2] = drop;
    }
}

/// Writes 1 for candidates at or above the threshold, else 0.
#[cube(launch)]
fn keep_from_threshold(values: &[u32], candidates: &[u32], threshold: &[u32], out: &mut [f32]) {
    if ABSOLUTE_POS < out.len() {
        let key = sort_key(values[ABSOLUTE_POS]);
        let tie = key == threshold[0] && u32::cast_from(ABSOLUTE_POS) >= threshold[1];
        let kept = candidates[ABSOLUTE_POS] & ABS_MASK != 0 && (key > threshold[0] || tie);
        out[ABSOLUTE_POS] = select(kept, 1.0f32, 0.0f32);
    }
}

/// See [`largest_mask`](super::super::largest_mask).
pub(super) fn largest_mask(values: CubeTensor, candidates: CubeTensor, drop: usize) -> CubeTensor {
    let n = values.meta.num_elements();
    let (client, device) = (values.client.clone(), values.device.clone());
    let threshold = alloc(&values, [3], DType::U32);
    let digits = 2 * VALUE_DIGITS;
    let shape = [digits as usize * RADIX];
    let counts = zeros_client(client.clone(), device, shape.into(), DType::U32);
    let out = alloc(&values, [n], DType::F32);
    let drop = u32::try_from(drop).unwrap_or(u32::MAX);
    reset_threshold::launch(
        &client,
        grid(1),
        cube_shape(),
        threshold.clone().into_buffer_arg(),
        drop,
    );
    // Leading digits that are 0 for all indices are skipped.
    let zero_digits = (n as u32).leading_zeros() / 8;
    for digit in (0..VALUE_DIGITS).chain(VALUE_DIGITS + zero_digits..digits) {
        count_digits::launch(
            &client,
            grid(n.div_ceil(VALUES_PER_CUBE)),
            cube_shape(),
            values.clone().into_buffer_arg(),
            candidates.clone().into_buffer_arg(),
            threshold.clone().into_buffer_arg(),
            counts.clone().into_buffer_arg(),
            n,
            digit,
        );
        let (threshold, counts) =
            (threshold.clone().into_buffer_arg(), counts.clone().into_buffer_arg());
        next_digit::launch(&client, grid(1), cube_shape(), threshold, counts, digit);
    }
    keep_from_threshold::launch(
        &client,
        grid(n.div_ceil(CUBE_UNITS)),
        cube_shape(),
        values.into_buffer_arg(),
        candidates.into_buffer_arg(),
        threshold.into_buffer_arg(),
        out.clone().into_buffer_arg(),
    );
    out
}
