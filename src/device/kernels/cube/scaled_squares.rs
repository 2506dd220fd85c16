//! Sums of squares without overflow and underflow.
//!
//! Squares of f32 values overflow and underflow long before norms do. There are therefore three
//! sums, of large, medium and small values, each scaled by a power of two with which its squares
//! are safe (Blue, 1978). Each sum is compensated (Kahan, 1965); a GPU compiler may optimise the
//! compensation away, and then norms of long rows have relative errors of about 1e-5.

use cubecl::prelude::*;

use super::INFINITY_BITS;

/// Exponent below which values are small: those below 2^SMALL_BELOW are scaled by 2^SMALL_SCALE.
pub(super) const SMALL_BELOW: i32 = -50;
const SMALL_SCALE: i32 = 100;
/// Exponent from which values are large: those from 2^LARGE_FROM on are scaled by 2^-LARGE_SCALE.
pub(super) const LARGE_FROM: i32 = 48;
const LARGE_SCALE: i32 = 80;
/// Smallest exponent of products: those with smaller exponents do not affect any norm in the range
/// of f32.
const MIN_EXPONENT: i32 = -160;

/// Returns the exponent field of a float: 0 for zeros and subnormals, 255 for infinities and NaN.
#[cube]
pub(super) fn exponent_field(bits: u32) -> u32 {
    (bits >> 23) & 255
}

/// Returns 2^e for e from -126 to 127.
#[cube]
fn power_of_two(e: i32) -> f32 {
    f32::reinterpret(u32::cast_from(e + 127) << 23)
}

/// Returns the bits of a normal float with the same mantissa.
///
/// GPUs may flush subnormals to zero, so a subnormal is converted as an integer, which scales it by
/// 2^149.
#[cube]
fn normalised(abs_bits: u32) -> u32 {
    if exponent_field(abs_bits) == 0 {
        u32::reinterpret(f32::cast_from(abs_bits))
    } else {
        abs_bits
    }
}

/// Returns the exponent e of an absolute value m 2^e with m in [1, 2), given by its bits.
#[cube]
pub(super) fn exponent(abs_bits: u32) -> i32 {
    let shift = if exponent_field(abs_bits) == 0 { 149i32 } else { 0i32 };
    i32::cast_from(exponent_field(normalised(abs_bits))) - 127 - shift
}

/// Returns the mantissa m of an absolute value m 2^e with m in [1, 2), given by its bits.
#[cube]
pub(super) fn mantissa(abs_bits: u32) -> f32 {
    f32::reinterpret((normalised(abs_bits) & 0x007f_ffff) | 0x3f80_0000)
}

/// Adds x² to the sum at index `at`, with Kahan compensation at index `at + 3`.
#[cube]
pub(super) fn add_square(sums: &mut Array<f32>, #[comptime] at: usize, x: f32) {
    let term = x * x - sums[at + 3];
    let sum = sums[at] + term;
    sums[at + 3] = (sum - sums[at]) - term;
    sums[at] = sum;
}

/// Adds (m 2^e)², for m in [1, 4) and e at most 128, to the sum of its magnitude.
#[cube]
pub(super) fn add_square_scaled(sums: &mut Array<f32>, m: f32, e: i32) {
    if e >= LARGE_FROM {
        add_square(sums, 2usize, m * power_of_two(e - LARGE_SCALE));
    } else if e >= SMALL_BELOW {
        add_square(sums, 0usize, m * power_of_two(e));
    } else if e >= MIN_EXPONENT {
        add_square(sums, 1usize, m * power_of_two(e + SMALL_SCALE));
    }
}

/// Returns the bits of the norm for these three sums.
///
/// Square roots are rescaled, not squares: a compiler may multiply two constants with each other
/// first, and 2^(-2 LARGE_SCALE) underflows.
#[cube]
pub(super) fn combined_norm(medium: f32, small: f32, large: f32) -> u32 {
    let mut norm = 0u32;
    if large > 0.0 {
        let rest = f32::sqrt(medium) * power_of_two(-LARGE_SCALE);
        let root = f32::sqrt(large + rest * rest);
        let overflows = root >= power_of_two(128 - LARGE_SCALE);
        norm = select(overflows, INFINITY_BITS, u32::reinterpret(root * power_of_two(LARGE_SCALE)));
    } else if medium > 0.0 {
        let rest = f32::sqrt(small) * power_of_two(-SMALL_SCALE);
        norm = u32::reinterpret(f32::sqrt(medium + rest * rest));
    } else if small > 0.0 {
        // A subnormal norm is rounded up, because a GPU may flush it to zero.
        norm = u32::reinterpret(f32::sqrt(small) * power_of_two(-SMALL_SCALE));
        norm = select(exponent_field(norm) == 0, 0x0080_0000u32, norm);
    }
    norm
}
