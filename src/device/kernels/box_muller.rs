//! The Box-Muller transform (Box and Muller, 1958): standard normal values from random bits.
//!
//! The loops of [`transform`] contain no branches and no calls, so the compiler vectorises them.
//! One pair in 2^20 is far out in the tail; its radius is computed again from more random bits.

use std::f64::consts::{FRAC_PI_4, LN_2, SQRT_2};

use crate::device::vectorised;

/// Pairs of normal values per block.
const LANES: usize = 16;

/// Normal values per block.
pub(crate) const NORMALS_PER_BLOCK: usize = 2 * LANES;

/// Random bytes per block: each pair uses 64 bits for its radius and 32 for its angle.
pub(super) const BLOCK_BYTES: usize = 12 * LANES;

/// Number of leading zero bits of a radius that put a pair in the tail, which is beyond 5.2
/// standard deviations. Its radius then uses all of its bits, and up to [`TAIL_WORDS`] more words.
pub(super) const TAIL_BITS: u32 = 20;

/// Number of 64-bit integers that extend the radius of a pair in the tail: a ChaCha block.
pub(super) const TAIL_WORDS: usize = 8;

/// Computes the Box-Muller transform: pairs √(-2 ln u)·(sin v, cos v) of standard normal values,
/// from uniform u and v. Every [`BLOCK_BYTES`] of `bytes` give [`NORMALS_PER_BLOCK`] values of
/// `out`, sines first. `extension` returns the words that extend the radius of a pair, by its
/// index.
pub(super) fn normals(bytes: &[u8], out: &mut [f64], extension: impl Fn(u64) -> [u64; TAIL_WORDS]) {
    if !transform(bytes, out) {
        return;
    }
    let blocks = bytes.chunks_exact(BLOCK_BYTES).zip(out.chunks_exact_mut(NORMALS_PER_BLOCK));
    for (block, (bytes, out)) in (0u64..).zip(blocks) {
        let (radii, angles) = bytes.split_at(8 * LANES);
        for lane in 0..LANES {
            let bits = u64::from_le_bytes(radii.as_chunks().0[lane]);
            if is_in_tail(bits) {
                let radius = tail_radius(bits, &extension(block * LANES as u64 + lane as u64));
                let (sine, cosine) = sine_cosine(u32::from_le_bytes(angles.as_chunks().0[lane]));
                out[lane] = radius * sine;
                out[LANES + lane] = radius * cosine;
            }
        }
    }
}

/// Returns whether a radius with these random bits is extended.
#[inline(always)]
fn is_in_tail(bits: u64) -> bool {
    bits >> (64 - TAIL_BITS) == 0
}

vectorised! {
/// Computes [`normals`] without extension. Returns whether a pair is in the tail.
fn transform(bytes: &[u8], out: &mut [f64]) -> bool {
    let mut any_in_tail = false;
    for (bytes, out) in bytes.chunks_exact(BLOCK_BYTES).zip(out.chunks_exact_mut(NORMALS_PER_BLOCK)) {
        let (radii, angles) = bytes.split_at(8 * LANES);
        let bits = radii.as_chunks::<8>().0.iter().zip(angles.as_chunks::<4>().0);
        let (sines, cosines) = out.split_at_mut(LANES);
        for ((out_sine, out_cosine), (radius, angle)) in sines.iter_mut().zip(cosines).zip(bits) {
            let bits = u64::from_le_bytes(*radius);
            any_in_tail |= is_in_tail(bits);
            let radius = (-2.0 * ln(open_unit(bits))).sqrt();
            let (sine, cosine) = sine_cosine(u32::from_le_bytes(*angle));
            *out_sine = radius * sine;
            *out_cosine = radius * cosine;
        }
    }
    any_in_tail
}
}

/// Computes √(-2 ln u) of a pair in the tail. The binary digits of u are `bits` and the words of
/// `extension`; 64 of them from the first 1 on are used.
fn tail_radius(bits: u64, extension: &[u64; TAIL_WORDS]) -> f64 {
    let (mut first, mut words, mut zeros) = (bits, extension.iter().copied(), 0);
    let mut second = words.next().unwrap_or(0);
    while first == 0 {
        // After the last word u counts as its smallest possible value.
        first = second;
        second = words.next().unwrap_or(1 << 63);
        zeros += 64;
    }
    let shift = first.leading_zeros();
    let digits = u128::from(first) << 64 | u128::from(second);
    let fraction = ((digits << shift >> 64) as u64 as f64) * f64::powi(2.0, -64);
    (-2.0 * (ln(fraction) - f64::from(zeros + shift) * LN_2)).sqrt()
}

/// Returns a uniform value among the 2^52 midpoints (k + 1/2)/2^52 of (0, 1), from the upper 52
/// bits.
///
/// It is at least 2^-53, so the logarithm is finite. Outside the [tail](is_in_tail) its relative
/// resolution is 2^-32 or better.
#[inline(always)]
fn open_unit(bits: u64) -> f64 {
    f64::from_bits(bits >> 12 | 1f64.to_bits()) - (1.0 - f64::EPSILON / 2.0)
}

/// Computes ln x for positive normal x, with an error of about 1e-16.
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

/// Returns the series coefficients 1/21, 1/19, ..., 1/3, 1.
const fn odd_reciprocals() -> [f64; 11] {
    let mut all = [0.0; 11];
    let mut i = 0;
    while i < 11 {
        all[i] = 1.0 / (21 - 2 * i) as f64;
        i += 1;
    }
    all
}

/// Computes sine and cosine of a uniform angle from 32 random bits.
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

/// Returns the Taylor coefficients ±1/k! for k = first + 18, ..., first + 2, first (highest power
/// first).
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
    use statrs::function::erf::erfc;
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

    /// Returns the random bytes of a block with these radii and angles.
    fn block_bytes(radii: [u64; LANES], angles: [u32; LANES]) -> Vec<u8> {
        let radii = radii.iter().flat_map(|bits| bits.to_le_bytes());
        radii.chain(angles.iter().flat_map(|bits| bits.to_le_bytes())).collect()
    }

    /// Returns the sines of a block whose radii have these first 128 bits, and zeros after them.
    fn sines(digits: [u128; LANES], angles: [u32; LANES]) -> [f64; LANES] {
        let mut out = [0.0; NORMALS_PER_BLOCK];
        let bytes = block_bytes(digits.map(|digits| (digits >> 64) as u64), angles);
        normals(&bytes, &mut out, |pair| {
            let mut words = [0; TAIL_WORDS];
            words[0] = digits[pair as usize] as u64;
            words
        });
        std::array::from_fn(|lane| out[lane])
    }

    /// Computes P(|z| > t) by the transform itself: the fraction of all random bits whose value is
    /// larger, for evenly spaced angles. The value falls as the bits of the radius grow, so
    /// bisection finds the last that is larger.
    fn probability_beyond(t: f64) -> f64 {
        const ANGLES: u32 = 1 << 12;
        let shares = (0..ANGLES / LANES as u32).map(|block| {
            let angle = |lane| (block * LANES as u32 + lane as u32) * (u32::MAX / ANGLES + 1);
            let angles = std::array::from_fn(angle);
            let mut smaller = [0u128; LANES];
            for bit in (0..128).rev() {
                let tried = smaller.map(|least| least | 1 << bit);
                // Whether the radius with all bits below `tried` is still larger.
                let larger = sines(tried.map(|bits| bits - 1), angles).map(|z| z.abs() > t);
                for lane in (0..LANES).filter(|&lane| larger[lane]) {
                    smaller[lane] = tried[lane];
                }
            }
            smaller.iter().map(|&bits| bits as f64 * f64::powi(2.0, -128)).sum::<f64>()
        });
        shares.sum::<f64>() / f64::from(ANGLES)
    }

    #[test]
    fn the_tail_has_the_probabilities_of_a_gaussian() {
        for t in [1.0, 4.0, 5.0, 5.3, 6.0, 7.0, 8.0, 8.5, 9.0, 10.0, 12.0] {
            let (found, exact) = (probability_beyond(t), erfc(t / SQRT_2));
            assert!((found / exact - 1.0).abs() < 1e-6, "beyond {t}: {found:e}, not {exact:e}");
        }
        // Without the extension nothing is beyond 8.58, so 9 would have probability 0.
        let largest = (-2.0 * ln(open_unit(0))).sqrt();
        assert!(largest < 8.58, "{largest}");
    }

    #[test]
    fn the_radius_of_the_tail_uses_the_first_digits_that_are_not_zero() {
        let expected = |zeros: f64, fraction: f64| (2.0 * (zeros * LN_2 - fraction.ln())).sqrt();
        let mut words = [0; TAIL_WORDS];
        let largest = tail_radius(0, &words);
        assert!((largest - expected(576.0, 0.5)).abs() < 1e-13 && largest < 28.3, "{largest}");
        words[1] = 1;
        let radius = tail_radius(0, &words);
        assert!((radius - expected(191.0, 0.5)).abs() < 1e-13, "{radius}");
        words[2] = u64::MAX;
        let radius = tail_radius(0, &words);
        assert!((radius - expected(191.0, 1.0)).abs() < 1e-13, "{radius}");
        // Words after the digits that count change nothing.
        let short = tail_radius(3 << 20, &[0; TAIL_WORDS]);
        assert!((short - expected(42.0, 0.75)).abs() < 1e-13, "{short}");
        words = [0; TAIL_WORDS];
        words[3] = 5;
        assert_eq!(tail_radius(3 << 20, &words), short);
        // Where the tail begins, the radius without extension is nearly the same.
        for bits in [u64::MAX >> TAIL_BITS, 0x123_4567_89ab] {
            let plain = (-2.0 * ln(open_unit(bits))).sqrt();
            assert!(is_in_tail(bits) && !is_in_tail(u64::MAX >> (TAIL_BITS - 1)));
            assert!((tail_radius(bits, &words) - plain).abs() < 1e-9);
        }
    }

    #[test]
    fn only_pairs_in_the_tail_are_extended_and_each_by_its_own_words() {
        let mut radii = [u64::MAX / 3; 2 * LANES];
        radii[5] = 0;
        radii[16] = 7;
        radii[31] = u64::MAX >> TAIL_BITS;
        let angles = std::array::from_fn(|lane| (lane as u32).wrapping_mul(0x1234_5678));
        let halves = radii.as_chunks::<LANES>().0.iter();
        let bytes: Vec<u8> = halves.flat_map(|&half| block_bytes(half, angles)).collect();
        let (mut plain, mut out) = ([0.0; 2 * NORMALS_PER_BLOCK], [0.0; 2 * NORMALS_PER_BLOCK]);
        assert!(transform(&bytes, &mut plain));
        normals(&bytes, &mut out, |pair| [u64::MAX / (pair + 2); TAIL_WORDS]);
        for (pair, &bits) in radii.iter().enumerate() {
            let at = pair / LANES * NORMALS_PER_BLOCK + pair % LANES;
            let (sine, cosine) = sine_cosine(angles[pair % LANES]);
            let radius = match pair {
                5 | 16 | 31 => tail_radius(bits, &[u64::MAX / (pair as u64 + 2); TAIL_WORDS]),
                _ => (-2.0 * ln(open_unit(bits))).sqrt(),
            };
            assert_eq!((out[at], out[at + LANES]), (radius * sine, radius * cosine), "{pair}");
        }
        assert!(!transform(&block_bytes([u64::MAX / 3; LANES], angles), &mut plain));
    }
}
