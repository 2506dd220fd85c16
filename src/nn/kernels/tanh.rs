//! Vectorised hyperbolic tangent.

use super::vectorised;

vectorised! {
    /// Computes `x = tanh x`, with a relative error of at most 2⁻²².
    pub(crate) fn in_place(x: &mut [f32]) {
        for x in x {
            *x = scalar(*x);
        }
    }
}

vectorised! {
    /// Computes `gradient = gradient (1 - y²)`, the chain rule at `y = tanh x`.
    pub(crate) fn backward(y: &[f32], gradient: &mut [f32]) {
        for (g, &y) in gradient.iter_mut().zip(y) {
            *g *= 1.0 - y * y;
        }
    }
}

/// Computes tanh of one value.
///
/// Computes tanh |x| = t / (t + 2) with t = e^{2|x|} - 1, which does not cancel near 0. With
/// 2|x| = n ln 2 + r and |r| <= ln 2 / 2, t = 2^n p(r) + (2^n - 1), where p is the Taylor
/// polynomial of e^r - 1 of degree 7.
#[inline(always)]
pub(crate) fn scalar(x: f32) -> f32 {
    // Beyond 9.1 the result rounds to 1. Unlike `min`, the comparison propagates NaN.
    let a = x.abs();
    let v = 2.0 * if a > 9.1 { 9.1 } else { a };
    // Adding 1.5 * 2^23 rounds to an integer, which the low bits of the sum then hold.
    const ROUND: f32 = 12_582_912.0;
    let shifted = v * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(127 << 23));
    // ln 2 in two parts (Cody & Waite, 1980): the first has few bits, so its product with n is
    // exact.
    let r = (v - n * 0.693_359_4) + n * 2.121_944_4e-4;
    let mut series = 1.0 / 5040.0;
    for coefficient in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0] {
        series = series * r + coefficient;
    }
    let t = power * (r * series) + (power - 1.0);
    (t / (t + 2.0)).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tanh_matches_the_standard_library_to_two_epsilons() {
        let x: Vec<f32> = (0..200_000)
            .map(|i| (i as f32 - 100_000.0) / 9_000.0)
            .chain((0..60).map(|i| 10f32.powi(-i)))
            .collect();
        let mut out = x.clone();
        in_place(&mut out);
        for (&x, &y) in x.iter().zip(&out) {
            let right = f64::from(x).tanh();
            let off = (f64::from(y) - right).abs();
            assert!(off <= 2.0 * f64::from(f32::EPSILON) * right.abs(), "tanh {x} is off by {off}");
        }
    }

    #[test]
    fn infinities_nan_and_negative_zero_are_preserved() {
        let mut out = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -0.0];
        in_place(&mut out);
        assert_eq!(out[..2], [1.0, -1.0]);
        assert!(out[2].is_nan());
        assert_eq!(out[3].to_bits(), (-0.0f32).to_bits());
    }
}
