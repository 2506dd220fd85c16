//! The Box-Muller transform in f32, with the formula of `box_muller`.
//!
//! Logarithm, sine and cosine are computed here because those of GPUs are inaccurate.

use std::f32::consts::{FRAC_PI_4, LN_2, SQRT_2};

use cubecl::prelude::*;

use super::super::box_muller::{TAIL_BITS, TAIL_WORDS};

/// Computes artanh(z) / z = 1 + z²/3 + z⁴/5 + ... for |z| up to 1/3.
#[cube]
fn artanh_over(z: f32) -> f32 {
    let q = z * z;
    let mut sum = comptime!(1.0 / 17.0f32).runtime();
    #[unroll]
    for i in 0..8u32 {
        sum = sum * q + comptime!(1.0 / (15 - 2 * i) as f32);
    }
    sum
}

/// Computes √(-2 ln u) for u = (k + 1/2) / 2^52, where k is the upper 52 of the 64 bits.
#[cube]
fn radius(low: u32, high: u32) -> f32 {
    // The smaller of u and 1 - u, which f32 represents with full precision. Inverting the bits of u
    // gives 1 - u.
    let upper = high >> 31 == 1;
    let flip = select(upper, 0xffff_ffffu32, 0u32);
    let leading = f32::cast_from(high ^ flip) * comptime!(f32::powi(2.0, -32));
    let rest = f32::cast_from((low ^ flip) >> 12) + 0.5;
    let small = leading + rest * comptime!(f32::powi(2.0, -52));
    // For u above 1/2: ln(1 - v) = -2 artanh(v / (2 - v)).
    let z_upper = small / (2.0 - small);
    // For u below 1/2: small = m 2^e with m in [√½, √2], and ln m = 2 artanh((m - 1) / (m + 1)).
    let bits = u32::reinterpret(small);
    let mantissa = f32::reinterpret((bits & 0x007f_ffff) | 0x3f80_0000);
    let halve = mantissa > SQRT_2;
    let m = select(halve, 0.5 * mantissa, mantissa);
    let e = f32::cast_from(i32::cast_from(bits >> 23) - 127) + select(halve, 1.0f32, 0.0f32);
    let z = select(upper, z_upper, (m - 1.0) / (m + 1.0));
    let two_artanh = 2.0 * z * artanh_over(z);
    f32::sqrt(2.0 * select(upper, two_artanh, -(e * LN_2 + two_artanh)))
}

/// Returns whether a radius with these upper random bits is extended.
#[cube]
pub(super) fn is_in_tail(high: u32) -> bool {
    high >> comptime!(32 - TAIL_BITS) == 0
}

/// Returns the factor on a pair in the tail: its radius with the bits of `extension` over that
/// without.
#[cube]
pub(super) fn tail_ratio(low: u32, high: u32, extension: &Array<u32>) -> f32 {
    // The binary digits of u in words of 32: high, low, then those of words of 64, upper half
    // first.
    let mut first = high;
    let mut second = low;
    let mut zeros = 32u32;
    for i in 0..comptime!(2 * TAIL_WORDS) {
        if first == 0 {
            first = second;
            second = extension[i ^ 1];
            zeros += 32;
        }
    }
    // u = small 2^-zeros, and u is not 0 in any bits that are ever drawn.
    let leading = f32::cast_from(select(first == 0, 1u32, first));
    let small = leading + f32::cast_from(second) * comptime!(f32::powi(2.0, -32));
    let bits = u32::reinterpret(small);
    let mantissa = f32::reinterpret((bits & 0x007f_ffff) | 0x3f80_0000);
    let halve = mantissa > SQRT_2;
    let m = select(halve, 0.5 * mantissa, mantissa);
    let e = f32::cast_from(i32::cast_from(bits >> 23) - 127) + select(halve, 1.0f32, 0.0f32);
    let z = (m - 1.0) / (m + 1.0);
    let exact = (f32::cast_from(zeros) - e) * LN_2 - 2.0 * z * artanh_over(z);
    f32::sqrt(2.0 * exact) / radius(low, high)
}

/// Writes a pair of normal values: radius · sine to `out[at]`, radius · cosine to `out[at + 16]`.
///
/// The two leading bits of `angle` select the quadrant; the others select the midpoint of one of
/// 2^30 intervals of [-π/4, π/4].
#[cube]
pub(super) fn pair(low: u32, high: u32, angle: u32, out: &mut [f32], at: usize) {
    let interval = i32::reinterpret((angle << 2) | 2);
    let t = f32::cast_from(interval) * comptime!(FRAC_PI_4 / (1u32 << 31) as f32);
    let q = t * t;
    let mut sine = comptime!(1.0 / 362_880.0f32).runtime();
    sine = sine * q - comptime!(1.0 / 5_040.0f32);
    sine = sine * q + comptime!(1.0 / 120.0f32);
    sine = sine * q - comptime!(1.0 / 6.0f32);
    sine = t * (sine * q + 1.0);
    let mut cosine = comptime!(-1.0 / 3_628_800.0f32).runtime();
    cosine = cosine * q + comptime!(1.0 / 40_320.0f32);
    cosine = cosine * q - comptime!(1.0 / 720.0f32);
    cosine = cosine * q + comptime!(1.0 / 24.0f32);
    cosine = cosine * q - 0.5;
    cosine = cosine * q + 1.0;
    let radius = radius(low, high);
    let signed = select((angle >> 30) & 1 == 0, radius, -radius);
    let swapped = angle >> 31 == 1;
    out[at] = signed * select(swapped, cosine, sine);
    out[at + 16] = signed * select(swapped, -sine, cosine);
}
