//! The coordinates of largest absolute value, by radix selection.
//!
//! A coordinate's rank is decided by 64 bits, no two the same: its absolute value's, then its
//! index. Digit by digit, the candidates that agree with the bound so far are counted by their next
//! digit, and the bound takes the digit in which the last candidate to be dropped lies. Counts do
//! not depend on order, so atomic additions are safe; all decisions are made on the GPU.

use burn::tensor::DType;
use burn_cubecl::ops::numeric::zeros_client;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::{INFINITE, SIZE, UNITS, alloc, grid, units};

/// Values of a digit of 8 bits: as many as a cube has units.
const DIGITS: usize = UNITS;

/// Digits of the absolute value, before those of the index.
const SIZES: u32 = 4;

/// Coordinates that a cube counts.
const SHARE: usize = 64 * UNITS;

/// What is not a number counts as the smallest.
#[cube]
fn key(bits: u32) -> u32 {
    let size = bits & SIZE;
    select(size > INFINITE, 0u32, size + 1)
}

/// Whether so many digits, the leading ones, are those of the bound.
#[cube]
fn agrees(key: u32, bound: u32, #[comptime] digits: u32) -> bool {
    // All 32 bits can't be shifted out at once, nor need they be.
    let other = if comptime!(digits == 0) { 0u32.runtime() } else { key ^ bound };
    other >> comptime!((32 - 8 * digits) % 32) == 0
}

/// The line between what is dropped and what is kept: `line[0]` is the smallest key that is kept,
/// `line[1]` the smallest index among those of this key, `line[2]` how many are still to be dropped
/// among those that agree. With none left, zeros are the right digits, and nothing is counted.
#[cube(launch)]
fn count(
    values: &[u32],
    among: &[u32],
    line: &[u32],
    counts: &[Atomic<u32>],
    #[comptime] digit: u32,
) {
    let unit = UNIT_POS as usize;
    let tally = Shared::<[Atomic<u32>]>::new_slice(DIGITS);
    tally[unit].store(0u32);
    sync_cube();
    let start = CUBE_POS * SHARE;
    let stop = select(start + SHARE < values.len(), start + SHARE, values.len());
    let end = select(line[2] == 0, 0, stop);
    let mut at = start + unit;
    while at < end {
        let key = key(values[at]);
        if among[at] & SIZE != 0 {
            if comptime!(digit < SIZES) {
                if agrees(key, line[0], digit) {
                    let value = (key >> comptime!(24 - 8 * digit)) & 255;
                    tally[value as usize].fetch_add(1u32);
                }
            } else {
                let index = u32::cast_from(at);
                if key == line[0] && agrees(index, line[1], comptime!(digit - SIZES)) {
                    let value = (index >> comptime!(24 - 8 * (digit - SIZES))) & 255;
                    tally[value as usize].fetch_add(1u32);
                }
            }
        }
        at += UNITS;
    }
    sync_cube();
    let counted = tally[unit].load();
    if counted > 0 {
        counts[comptime!(digit as usize * DIGITS) + unit].fetch_add(counted);
    }
}

/// One cube: the bound's next digit.
#[cube(launch)]
fn choose(line: &mut [u32], counts: &[u32], #[comptime] digit: u32) {
    let unit = UNIT_POS as usize;
    let mut upto = Shared::<[u32]>::new_slice(DIGITS);
    upto[unit] = counts[comptime!(digit as usize * DIGITS) + unit];
    sync_cube();
    if unit == 0 && line[2] > 0 {
        let left = line[2];
        let mut value = 0u32;
        let mut below = 0u32;
        while value < 256 && below + upto[value as usize] <= left {
            below += upto[value as usize];
            value += 1;
        }
        if value == 256 {
            // No more than are to be dropped: no key is as large as this.
            line[0] = 0xffff_ffffu32;
            line[2] = 0u32;
        } else {
            if comptime!(digit < SIZES) {
                line[0] |= value << comptime!(24 - 8 * digit);
            } else {
                line[1] |= value << comptime!(24 - 8 * (digit - SIZES));
            }
            line[2] = left - below;
        }
    }
}

#[cube(launch)]
fn begin(line: &mut [u32], drop: u32) {
    if UNIT_POS == 0 {
        line[0] = 0u32;
        line[1] = 0u32;
        line[2] = drop;
    }
}

/// 1 at and above the line, else 0.
#[cube(launch)]
fn keep(values: &[u32], among: &[u32], line: &[u32], out: &mut [f32]) {
    if ABSOLUTE_POS < out.len() {
        let key = key(values[ABSOLUTE_POS]);
        let tie = key == line[0] && u32::cast_from(ABSOLUTE_POS) >= line[1];
        let kept = among[ABSOLUTE_POS] & SIZE != 0 && (key > line[0] || tie);
        out[ABSOLUTE_POS] = select(kept, 1.0f32, 0.0f32);
    }
}

/// Ones for all but the `drop` smallest among the candidates.
pub(super) fn keep_largest(values: CubeTensor, among: CubeTensor, drop: usize) -> CubeTensor {
    let n = values.meta.num_elements();
    let (client, device) = (values.client.clone(), values.device.clone());
    let line = alloc(&values, [3], DType::U32);
    let digits = 2 * SIZES;
    let all = [digits as usize * DIGITS];
    let counts = zeros_client(client.clone(), device, all.into(), DType::U32);
    let out = alloc(&values, [n], DType::F32);
    let drop = u32::try_from(drop).unwrap_or(u32::MAX);
    begin::launch(&client, grid(1), units(), line.clone().into_buffer_arg(), drop);
    // Digits of the index that are 0 for all need no look.
    let same = (n as u32).leading_zeros() / 8;
    for digit in (0..SIZES).chain(SIZES + same..digits) {
        count::launch(
            &client,
            grid(n.div_ceil(SHARE)),
            units(),
            values.clone().into_buffer_arg(),
            among.clone().into_buffer_arg(),
            line.clone().into_buffer_arg(),
            counts.clone().into_buffer_arg(),
            digit,
        );
        let (line, counts) = (line.clone().into_buffer_arg(), counts.clone().into_buffer_arg());
        choose::launch(&client, grid(1), units(), line, counts, digit);
    }
    keep::launch(
        &client,
        grid(n.div_ceil(UNITS)),
        units(),
        values.into_buffer_arg(),
        among.into_buffer_arg(),
        line.into_buffer_arg(),
        out.clone().into_buffer_arg(),
    );
    out
}
