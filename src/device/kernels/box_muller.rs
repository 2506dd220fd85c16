//! The Box-Muller transform (Box and Muller, 1958): standard normal values from random bits.
//!
//! The loops contain no branches and no calls, so the compiler vectorises them.

use std::f64::consts::{FRAC_PI_4, LN_2, SQRT_2};

use crate::device::vectorised;

/// Pairs of normal values per block.
const LANES: usize = 16;

/// Normal values per block.
pub(crate) const BLOCK: usize = 2 * LANES;

/// Random bytes per block: each pair uses 64 bits for its radius and 32 for its angle. The bits of
/// the radius limit the tail; the bits of the angle only limit the resolution on the circle.
pub(super) const BLOCK_BYTES: usize = 12 * LANES;

/// The largest absolute value, √(2·53·ln 2).
#[cfg(test)]
pub(super) const LARGEST: f64 = 8.572;

vectorised! {
/// Box-Muller transform: pairs √(-2 ln u)·(sin v, cos v) of standard normal values, from uniform u
/// and v. Every [`BLOCK_BYTES`] of `bytes` give [`BLOCK`] values of `out`, sines first.
pub(super) fn normals(bytes: &[u8], out: &mut [f64]) {
    for (bytes, out) in bytes.chunks_exact(BLOCK_BYTES).zip(out.chunks_exact_mut(BLOCK)) {
        let (radii, angles) = bytes.split_at(8 * LANES);
        let bits = radii.as_chunks::<8>().0.iter().zip(angles.as_chunks::<4>().0);
        let (sines, cosines) = out.split_at_mut(LANES);
        for ((out_sine, out_cosine), (radius, angle)) in sines.iter_mut().zip(cosines).zip(bits) {
            let radius = (-2.0 * ln(open_unit(u64::from_le_bytes(*radius)))).sqrt();
            let (sine, cosine) = sine_cosine(u32::from_le_bytes(*angle));
            *out_sine = radius * sine;
            *out_cosine = radius * cosine;
        }
    }
}
}

/// A uniform value among the 2^52 midpoints (k + 1/2)/2^52 of (0, 1), from the upper 52 bits.
///
/// It is at least 2^-53, so the logarithm is finite and the radius below 8.58.
#[inline(always)]
fn open_unit(bits: u64) -> f64 {
    f64::from_bits(bits >> 12 | 1f64.to_bits()) - (1.0 - f64::EPSILON / 2.0)
}

/// ln x for positive normal x, with an error of about 1e-16.
///
/// Uses x = m 2^e with m in [√½, √2], and ln m = 2 artanh((m-1)/(m+1)) by its power series.
#[inline(always)]
fn ln(x: f64) -> f64 {
    const SERIES: [f64; 11] = odd_reciprocals();
    // 2^52: writing a small integer into its low bits adds the integer to it.
    const SHIFT: f64 = 4_503_599_627_370_496.0;
    let bits = x.to_bits();
    let m = f64::from_bits(bits & ((1 << 52) - 1) | 1f64.to_bits());
    let e = f64::from_bits(bits >> 52 | SHIFT.to_bits()) - (SHIFT + 1023.0);
    let halve = m > SQRT_2;
    let m = if halve { 0.5 * m } else { m };
    let e = if halve { e + 1.0 } else { e };
    let z = (m - 1.0) / (m + 1.0);
    let q = z * z;
    let series = SERIES.iter().fold(0.0, |sum, c| sum * q + c);
    e * LN_2 + 2.0 * z * series
}

/// The series coefficients 1/21, 1/19, ..., 1/3, 1.
const fn odd_reciprocals() -> [f64; 11] {
    let mut all = [0.0; 11];
    let mut i = 0;
    while i < 11 {
        all[i] = 1.0 / (21 - 2 * i) as f64;
        i += 1;
    }
    all
}

/// Sine and cosine of a uniform angle from 32 random bits.
///
/// The two leading bits select the quadrant; the others select the midpoint of one of 2^30
/// intervals of [-π/4, π/4], where the Taylor series are accurate to f64.
#[inline(always)]
fn sine_cosine(bits: u32) -> (f64, f64) {
    const SINE: [f64; 10] = taylor(1);
    const COSINE: [f64; 10] = taylor(0);
    let t = f64::from((bits << 2) as i32 | 2) * (FRAC_PI_4 / (1u64 << 31) as f64);
    let q = t * t;
    let sine = t * SINE.iter().fold(0.0, |sum, c| sum * q + c);
    let cosine = COSINE.iter().fold(0.0, |sum, c| sum * q + c);
    let (a, b) = if bits >> 31 == 0 { (sine, cosine) } else { (cosine, -sine) };
    let sign = if bits >> 30 & 1 == 0 { 1.0 } else { -1.0 };
    (sign * a, sign * b)
}

/// The Taylor coefficients ±1/k! for k = first + 18, ..., first + 2, first (highest power first).
const fn taylor(first: u32) -> [f64; 10] {
    let mut all = [0.0; 10];
    let (mut term, mut i) = (1.0, 10);
    while i > 0 {
        i -= 1;
        all[i] = term;
        let k = (first + 2 * (9 - i as u32)) as f64;
        term /= -(k + 1.0) * (k + 2.0);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::FRAC_PI_2;

    #[test]
    fn ln_agrees_with_the_standard_library() {
        for i in 0..2000 {
            let x = open_unit((i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
            assert!((ln(x) - x.ln()).abs() <= 4e-16 * (1.0 + x.ln().abs()), "ln {x}");
        }
        for x in [open_unit(0), open_unit(u64::MAX), 0.5, 0.707, 0.7072] {
            assert!((ln(x) - x.ln()).abs() <= 4e-16 * (1.0 + x.ln().abs()), "ln {x}");
        }
        assert_eq!(open_unit(0), f64::powi(2.0, -53));
        assert!(open_unit(u64::MAX) < 1.0);
    }

    #[test]
    fn the_angle_covers_the_circle_evenly() {
        // In each quadrant, the 30 bits are a signed integer: the angle relative to the axis.
        for i in 0..64u32 {
            let bits = i << 26;
            let (sine, cosine) = sine_cosine(bits);
            let step = f64::from((bits << 2) as i32 >> 2) + 0.5;
            let t = step / f64::from(1 << 30) * FRAC_PI_2;
            let (s, c) = t.sin_cos();
            let expected = [(s, c), (-s, -c), (c, -s), (-c, s)][(i >> 4) as usize];
            assert!((sine - expected.0).abs() < 1e-15, "sine of step {i}");
            assert!((cosine - expected.1).abs() < 1e-15, "cosine of step {i}");
            assert!(t.abs() < FRAC_PI_4);
        }
        // Opposite intervals cancel, so the mean is exactly zero.
        let intervals = [0u32, 1, 5, 1 << 28, (1 << 29) - 1];
        for interval in intervals {
            let opposite = !interval & ((1 << 30) - 1);
            assert_eq!(sine_cosine(interval).0, -sine_cosine(opposite).0, "{interval}");
        }
    }

    #[test]
    fn the_largest_value_is_finite_and_as_documented() {
        // The smallest uniform value, at the angle where the sine is nearly 1.
        let mut bytes = [0; BLOCK_BYTES];
        let angles = bytes[8 * LANES..].as_chunks_mut::<4>().0;
        angles.fill((2u32 << 30).to_le_bytes());
        let mut out = [0.0; BLOCK];
        normals(&bytes, &mut out);
        assert!((out[0] - LARGEST).abs() < 1e-3, "{}", out[0]);
        assert!(out.iter().all(|z| z.abs() <= LARGEST + 1e-3));
    }
}
