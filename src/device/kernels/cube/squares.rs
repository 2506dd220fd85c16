//! Sums of squares that neither overflow nor vanish.
//!
//! Squares of f32 do both long before norms do. So there are three sums, of large, middling and
//! small numbers (Blue 1978), each in units of a power of two in which its squares are safe; and
//! each keeps what its additions round away (Kahan 1965), unless the GPU's compiler finds that
//! superfluous: then long rows are right to 1e-5 or so.

use cubecl::prelude::*;

use super::INFINITE;

/// DeviceArray below 2^BELOW are small and are measured in units of 2^-SMALL.
pub(super) const BELOW: i32 = -50;
const SMALL: i32 = 100;
/// DeviceArray from 2^ABOVE on are large and are measured in units of 2^LARGE.
pub(super) const ABOVE: i32 = 48;
const LARGE: i32 = 80;
/// Products below this power of two can't be seen in any norm that f32 can hold.
const NOTHING: i32 = -160;

/// The exponent in a number's bits: 0 for what is not normal, 255 for what is not finite.
#[cube]
pub(super) fn field(bits: u32) -> u32 {
    (bits >> 23) & 255
}

/// 2^e for e from -126 to 127.
#[cube]
fn power(e: i32) -> f32 {
    f32::reinterpret(u32::cast_from(e + 127) << 23)
}

/// The bits of a normal number with the same digits: GPUs may take what is not normal for zero, so
/// it is read as an integer, which makes it 2^149 times as large.
#[cube]
fn normal(size: u32) -> u32 {
    if field(size) == 0 { u32::reinterpret(f32::cast_from(size)) } else { size }
}

/// e, where the number of this size is m 2^e with m in [1, 2).
#[cube]
pub(super) fn exponent(size: u32) -> i32 {
    let shift = if field(size) == 0 { 149i32 } else { 0i32 };
    i32::cast_from(field(normal(size))) - 127 - shift
}

/// m, where the number of this size is m 2^e with m in [1, 2).
#[cube]
pub(super) fn mantissa(size: u32) -> f32 {
    f32::reinterpret((normal(size) & 0x007f_ffff) | 0x3f80_0000)
}

/// Adds a square to the sum at this place; behind the sums is what their additions rounded away.
#[cube]
pub(super) fn add(sums: &mut Array<f32>, #[comptime] at: usize, x: f32) {
    let term = x * x - sums[at + 3];
    let sum = sums[at] + term;
    sums[at + 3] = (sum - sums[at]) - term;
    sums[at] = sum;
}

/// Adds the square of m 2^e, m in [1, 4), e at most 128, to the sum it belongs to.
#[cube]
pub(super) fn sort(sums: &mut Array<f32>, m: f32, e: i32) {
    if e >= ABOVE {
        add(sums, 2usize, m * power(e - LARGE));
    } else if e >= BELOW {
        add(sums, 0usize, m * power(e));
    } else if e >= NOTHING {
        add(sums, 1usize, m * power(e + SMALL));
    }
}

/// The norm that belongs to these sums. Roots are put into other units, not squares: a compiler may
/// multiply two constants with each other first, and 2^(-2 LARGE) is nothing.
#[cube]
pub(super) fn norm(middling: f32, small: f32, large: f32) -> u32 {
    let mut size = 0u32;
    if large > 0.0 {
        let rest = f32::sqrt(middling) * power(-LARGE);
        let root = f32::sqrt(large + rest * rest);
        let most = root >= power(128 - LARGE);
        size = select(most, INFINITE, u32::reinterpret(root * power(LARGE)));
    } else if middling > 0.0 {
        let rest = f32::sqrt(small) * power(-SMALL);
        size = u32::reinterpret(f32::sqrt(middling + rest * rest));
    } else if small > 0.0 {
        // Rounded up where a GPU might take it for zero.
        size = u32::reinterpret(f32::sqrt(small) * power(-SMALL));
        size = select(field(size) == 0, 0x0080_0000u32, size);
    }
    size
}
