use statrs::function::erf::erfc;

use super::*;

fn is_close(value: f64, expected: f64, relative: f64) -> bool {
    (value - expected).abs() <= relative * expected.abs()
}

/// The two series of Mironov, Talwar, Zhang 2019, section 3.3, term by term as in the paper: an
/// independent way to the same number. `signed = false` drops the signs of the fractional
/// binomial coefficients, as some accountants do.
fn two_series(q: f64, sigma: f64, order: f64, signed: bool) -> f64 {
    let split = 0.5 + sigma * sigma * (1.0 / q - 1.0).ln();
    // (1-q)^{alpha-k} q^k e^{(k²-k)/(2 sigma²)} Pr[N(k, sigma²) is `distance` past the split]
    let bump = |k: f64, distance: f64| {
        let ln_weight = (order - k) * (1.0 - q).ln() + k * q.ln();
        let ln_moment = (k * k - k) / (2.0 * sigma * sigma);
        (ln_weight + ln_moment + ln_half_erfc(distance / (2f64.sqrt() * sigma))).exp()
    };
    let (mut sum, mut choose) = (0.0, 1.0);
    for k in 0..2000 {
        let k = f64::from(k);
        let rest = order - k;
        let (below, above) = (bump(k, k - split), bump(rest, split - rest));
        let terms = choose * (below + above);
        sum += if signed { terms } else { terms.abs() };
        choose *= rest / (k + 1.0);
    }
    sum.ln() / (order - 1.0)
}

fn ln_half_erfc(x: f64) -> f64 {
    if x < 20.0 {
        return (0.5 * erfc(x)).ln();
    }
    // Abramowitz, Stegun 7.1.23
    let y = 0.5 / (x * x);
    (0.5 * (1.0 - y + 3.0 * y * y - 15.0 * y.powi(3)) / (x * PI.sqrt())).ln() - x * x
}

#[test]
fn without_sampling_the_divergence_is_that_of_the_gaussian_mechanism() {
    assert_eq!(renyi_divergence(1.0, 2.0, 8.0), 8.0 / 8.0);
    assert_eq!(renyi_divergence(1.0, 0.5, 1.5), 3.0);
}

#[test]
fn order_two_has_a_closed_form() {
    for (q, sigma) in [(0.01, 1.0), (0.5, 0.7), (1e-6, 100.0), (0.999_999, 3.0)] {
        let expected = (q * q * f64::exp_m1(1.0 / (sigma * sigma))).ln_1p();
        assert!(is_close(renyi_divergence(q, sigma, 2.0), expected, 1e-12), "q {q} sigma {sigma}");
    }
}

#[test]
fn quadrature_agrees_with_the_binomial_sum_at_integer_orders() {
    for q in [1e-6, 1e-3, 0.01, 0.3, 0.9, 0.999_999] {
        for sigma in [0.2, 0.5, 1.0, 3.0, 20.0, 100.0] {
            for order in [2.0, 3.0, 8.0, 63.0, 256.0] {
                if minkowski_bound_is_tight(q, sigma, order) {
                    continue;
                }
                let sum = ln_a_minus_1_by_binomial_sum(q, sigma, order);
                let grid = QuadratureGrid::new(sigma, order).unwrap();
                let quadrature = ln_a_minus_1_by_quadrature(q, sigma, order, &grid);
                assert!(
                    (sum - quadrature).abs() < 2e-11 * sum.abs().max(1.0),
                    "q {q} sigma {sigma} order {order}: {sum} {quadrature}"
                );
            }
        }
    }
}

#[test]
fn a_four_times_finer_grid_changes_nothing() {
    for q in [1e-6, 0.01, 0.5, 0.9, 0.999_999] {
        for sigma in [0.02, 0.1, 0.3, 1.0, 10.0, 100.0] {
            for order in [1.000_001, 1.01, 1.25, 1.9, 3.5, 10.9] {
                if minkowski_bound_is_tight(q, sigma, order) {
                    continue;
                }
                let grid = QuadratureGrid::new(sigma, order).unwrap();
                // Wider and finer, so that the range is tested as well as the step.
                let finer = QuadratureGrid {
                    start: 2.0 * grid.start,
                    step: grid.step / 4.0,
                    nodes: 4 * grid.nodes + (160.0 / grid.step) as u64,
                };
                let coarse = ln_a_minus_1_by_quadrature(q, sigma, order, &grid);
                let fine = ln_a_minus_1_by_quadrature(q, sigma, order, &finer);
                assert!(
                    (coarse - fine).abs() < 2e-11 * fine.abs().max(1.0),
                    "q {q} sigma {sigma} order {order}: {coarse} {fine}"
                );
            }
        }
    }
}

#[test]
fn fractional_orders_agree_with_the_signed_two_series() {
    for (q, sigma, order) in [
        (0.01, 0.5, 1.25),
        (0.01, 1.0, 2.5),
        (0.2, 0.724, 1.25),
        (0.1, 2.0, 1.05),
        (0.3, 0.5, 1.05),
    ] {
        let value = renyi_divergence(q, sigma, order);
        let series = two_series(q, sigma, order, true);
        assert!(
            is_close(value, series, 1e-6),
            "q {q} sigma {sigma} order {order}: {value} {series}"
        );
    }
}

#[test]
fn dropping_the_signs_of_the_fractional_series_is_rejected() {
    let value = renyi_divergence(0.01, 0.5, 1.25);
    assert!(is_close(value, 0.001_897_773_6, 1e-6), "{value}");
    let unsigned = two_series(0.01, 0.5, 1.25, false);
    assert!(is_close(unsigned, 0.002_201, 1e-3), "{unsigned}");
    assert!(!is_close(value, unsigned, 0.1));
    // Up to 61 % too much at q = 0.1, sigma = 2, order 1.05.
    let ratio = two_series(0.1, 2.0, 1.05, false) / renyi_divergence(0.1, 2.0, 1.05);
    assert!((1.55..1.67).contains(&ratio), "{ratio}");
}

#[test]
fn the_minkowski_bound_is_an_upper_bound_and_tight_where_it_is_used() {
    for q in [1e-6, 0.01, 0.5, 0.99] {
        for sigma in [0.1, 0.15, 0.3, 1.0, 5.0] {
            for order in [1.3, 2.5, 4.0, 20.0, 60.5] {
                let Some(grid) = QuadratureGrid::new(sigma, order) else { continue };
                let ln_a_minus_1 = ln_a_minus_1_by_quadrature(q, sigma, order, &grid);
                let value = softplus(ln_a_minus_1) / (order - 1.0);
                let bound = minkowski_bound(q, sigma, order);
                assert!(bound >= value * (1.0 - 1e-10), "q {q} sigma {sigma} order {order}");
                if minkowski_bound_is_tight(q, sigma, order) {
                    assert!(is_close(bound, value, 1e-10), "q {q} sigma {sigma} order {order}");
                }
            }
        }
    }
}

#[test]
fn extreme_parameters_give_a_value() {
    for q in [1e-300, 1e-12, 1e-6, 0.5, 1.0 - 1e-16, 1.0] {
        for sigma in [1e-200, 1e-9, 0.003, 0.1, 1.0, 100.0, 1e9, 1e200] {
            for order in [1.0 + 1e-15, 1.000_1, 1.1, 2.0, 10.9, 63.0, 1e3 + 0.5, 65_536.0, 1e12] {
                let value = renyi_divergence(q, sigma, order);
                assert!(value >= 0.0, "q {q} sigma {sigma} order {order}: {value}");
            }
        }
    }
}

#[test]
fn a_tiny_divergence_keeps_its_precision() {
    // ln A of 1 + 5e-17 would be 0 or 1e-16; the leading term is alpha q² (e^{1/sigma²} - 1) / 2.
    let (q, sigma) = (1e-6, 100.0);
    for order in [2.0, 2.5, 5.5, 10.0] {
        let leading = order / 2.0 * q * q * f64::exp_m1(1.0 / (sigma * sigma));
        assert!(is_close(renyi_divergence(q, sigma, order), leading, 1e-5), "order {order}");
    }
}
