//! Tail of the standard normal distribution and its Mills ratio, to machine precision.
//!
//! The error functions of common libraries, `statrs` among them, have a relative accuracy of only
//! 1e-10. That is too little for the difference of two tails.

use std::f64::consts::PI;

/// Argument from which on the continued fraction is used; below it the series.
const SPLIT: f64 = 2.5;

/// Computes phi(x), the standard normal density.
pub(crate) fn density(x: f64) -> f64 {
    (-0.5 * x * x).exp() / (2.0 * PI).sqrt()
}

/// Computes Phi(x) - 1/2, with full relative precision near 0.
pub(crate) fn centred_cdf(x: f64) -> f64 {
    if x.abs() < SPLIT {
        density(x) * central_series(x)
    } else {
        (0.5 - upper_tail(x.abs())).copysign(x)
    }
}

/// Computes Phi(-x), with full relative precision in the tail.
pub fn upper_tail(x: f64) -> f64 {
    if x >= SPLIT {
        density(x) * mills_ratio(x)
    } else if x > -SPLIT {
        0.5 - centred_cdf(x)
    } else {
        1.0 - upper_tail(-x)
    }
}

/// Computes the Mills ratio R(x) = Phi(-x) / phi(x): positive, decreasing.
pub(crate) fn mills_ratio(x: f64) -> f64 {
    if x >= SPLIT {
        1.0 / (x + mills_fraction(x))
    } else if x > -SPLIT {
        (PI / 2.0).sqrt() * (0.5 * x * x).exp() - central_series(x)
    } else {
        upper_tail(x) / density(x)
    }
}

/// Computes -R'(x) = 1 - x R(x): positive, decreasing.
pub(crate) fn mills_slope(x: f64) -> f64 {
    if x >= SPLIT {
        let rest = mills_fraction(x);
        rest / (x + rest)
    } else {
        1.0 - x * mills_ratio(x)
    }
}

/// Computes (Phi(x) - 1/2) / phi(x) = x + x³/3 + x⁵/(3 5) + … (Abramowitz, Stegun 26.2.11).
fn central_series(x: f64) -> f64 {
    let (mut sum, mut term, mut k) = (x, x, 3.0);
    while term.abs() > 1e-18 * sum.abs() {
        term *= x * x / k;
        sum += term;
        k += 2.0;
    }
    sum
}

/// Computes the continued fraction 1 / (x + 2 / (x + 3 / (x + …))), with R(x) = 1 / (x +
/// mills_fraction(x)) (Laplace; Abramowitz, Stegun 26.2.14). The number of terms suffices for
/// machine precision.
fn mills_fraction(x: f64) -> f64 {
    let terms = (500.0 / (x * x)) as u32 + 6;
    (1..=terms).rev().fold(0.0, |rest, k| f64::from(k) / (x + rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_agree_with_mpmath() {
        // x, Phi(-x), R(x), 1 - x R(x) by mpmath.
        for (x, tail, ratio, slope) in [
            (-3.5, 0.999_767_370_920_964_5, 1145.6252961089604, 4010.6885363813614),
            (-1.0, 0.841_344_746_068_542_9, 3.4770518117036945, 4.477_051_811_703_695),
            (-0.3, 0.617_911_422_188_952_7, 1.6201656087067893, 1.4860496826120368),
            (0.5, 0.3085375387259869, 0.876_364_456_453_692_3, 0.561_817_771_773_153_8),
            (1.0, 0.15865525393145705, 0.655_679_542_418_798_4, 0.34432045758120153),
            (1.9, 0.028716559816001805, 0.43764692878712088, 0.16847083530447036),
            (1.999, 0.022804176932658883, 0.42152654426936165, 0.157_368_438_005_546),
            (2.0, 0.022_750_131_948_179_21, 0.421_369_229_288_054_5, 0.15726154142389105),
            (2.5, 6.209_665_325_776_135e-3, 0.35426511132979367, 0.11433722167551583),
            (5.0, 2.866_515_718_791_939e-7, 0.19280810471531576, 0.035_959_476_423_421_18),
            (10.0, 7.619_853_024_160_525e-24, 0.099_028_596_471_731_93, 9.714035282680786e-3),
            (37.0, 5.725_571_222_524_577e-300, 0.027007327965128336, 7.288_652_902_515_657e-4),
        ] {
            for (ours, theirs) in
                [(upper_tail(x), tail), (mills_ratio(x), ratio), (mills_slope(x), slope)]
            {
                assert!((ours / theirs - 1.0).abs() < 1e-13, "x {x}: {ours:e} {theirs:e}");
            }
        }
        assert!((centred_cdf(1e-9) / (1e-9 * density(0.0)) - 1.0).abs() < 1e-15);
        assert_eq!((centred_cdf(0.0), upper_tail(-50.0), upper_tail(50.0)), (0.0, 1.0, 0.0));
    }

    #[test]
    fn the_error_function_of_statrs_is_not_accurate_enough() {
        let worst = (0..40)
            .map(|i| f64::from(i) * 0.1)
            .map(|x| {
                (0.5 * statrs::function::erf::erfc(x / 2f64.sqrt()) / upper_tail(x) - 1.0).abs()
            })
            .fold(0.0, f64::max);
        assert!((1e-12..1e-9).contains(&worst), "{worst:e}");
    }
}
