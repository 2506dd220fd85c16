//! Normal values from random bits, without a branch or a call in the loops, so that the compiler
//! can use vector registers.

use std::f64::consts::{FRAC_PI_2, LN_2, SQRT_2};

/// Pairs made at a time.
const LANES: usize = 16;

/// Box and Muller (1958): two normal values √(-2 ln u)·(sin v, cos v) from two uniform ones.
/// `bits` and `out` have the same length, a multiple of 32.
pub(super) fn normals(bits: &[u64], out: &mut [f64]) {
    for (bits, out) in bits.chunks_exact(2 * LANES).zip(out.chunks_exact_mut(2 * LANES)) {
        let (radius_bits, angle_bits) = bits.split_at(LANES);
        let (sines, cosines) = out.split_at_mut(LANES);
        let bits = radius_bits.iter().zip(angle_bits);
        for ((out_sine, out_cosine), (radius_bits, angle_bits)) in
            sines.iter_mut().zip(cosines).zip(bits)
        {
            let radius = (-2.0 * ln(open_unit(*radius_bits))).sqrt();
            let (sine, cosine) = sine_cosine(*angle_bits);
            *out_sine = radius * sine;
            *out_cosine = radius * cosine;
        }
    }
}

/// Uniform in [1, 2) by writing 52 random bits behind the exponent of 1.
#[inline(always)]
fn one_to_two(bits: u64) -> f64 {
    f64::from_bits(bits >> 12 | 1f64.to_bits())
}

/// Uniform on the 2^52 midpoints of (0, 1): never 0, so the logarithm is finite, at least 2^-53,
/// which bounds the radius by 8.58.
#[inline(always)]
fn open_unit(bits: u64) -> f64 {
    one_to_two(bits) - (1.0 - f64::EPSILON / 2.0)
}

/// ln x for normal positive x, to about 1e-16: x = m 2^e with m in [√½, √2], ln m = 2 artanh z
/// with z = (m-1)/(m+1), by its power series.
#[inline(always)]
fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let m = f64::from_bits(bits & ((1 << 52) - 1) | 1f64.to_bits());
    let halve = m > SQRT_2;
    let m = if halve { 0.5 * m } else { m };
    let e = (bits >> 52) as i32 - 1023 + i32::from(halve);
    let z = (m - 1.0) / (m + 1.0);
    let q = z * z;
    let mut series = 0.0;
    let mut k = 21;
    while k > 0 {
        series = series * q + 1.0 / f64::from(k);
        k -= 2;
    }
    f64::from(e) * LN_2 + 2.0 * z * series
}

/// Sine and cosine of a uniform angle. The two leading bits choose the quarter turn; the others
/// an angle t in ±π/4, where the Taylor series are exact to f64.
#[inline(always)]
fn sine_cosine(bits: u64) -> (f64, f64) {
    let quarter = bits >> 62;
    let t = (one_to_two(bits << 2) - 1.5) * FRAC_PI_2;
    let q = t * t;
    let (mut sine, mut cosine) = (1.0, 1.0);
    // 1 - q/(2·3) (1 - q/(4·5) (1 - ...)), and the same for the cosine.
    let mut k = 18.0;
    while k > 1.0 {
        sine = 1.0 - sine * q / (k * (k + 1.0));
        cosine = 1.0 - cosine * q / (k * (k - 1.0));
        k -= 2.0;
    }
    let sine = sine * t;
    let (a, b) = if quarter & 1 == 0 { (sine, cosine) } else { (cosine, -sine) };
    let sign = if quarter & 2 == 0 { 1.0 } else { -1.0 };
    (sign * a, sign * b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_that_of_the_standard_library() {
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
        for i in 0..64u64 {
            let (sine, cosine) = sine_cosine(i << 58);
            // Sixty-four equal steps, each quarter shifted so that its middle is the axis.
            let quarter = (i >> 4) as f64;
            let angle = (quarter + (i & 15) as f64 / 16.0 - 0.5) * FRAC_PI_2;
            assert!((sine - angle.sin()).abs() < 1e-15, "sine of step {i}");
            assert!((cosine - angle.cos()).abs() < 1e-15, "cosine of step {i}");
        }
    }
}
