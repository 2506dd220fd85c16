//! Group privacy: the guarantee for several examples that belong together, from that for one
//! example.

use super::{Accountant, Delta, Event};
use crate::{Error, ErrorKind, Result};

/// The logarithm of the smallest delta that is tried.
const MIN_LN_DELTA: f64 = -650.0;

/// Number of bisections, each with one evaluation of the accountant.
const EVALUATIONS: usize = 12;

/// Returns an epsilon that holds at `delta` for data sets which differ in `rows` examples: one
/// person's, or copies of one row.
///
/// ```
/// use epsilab_accounting::{Delta, Event, TightestAccountant, group_epsilon};
/// let training = [Event::poisson(0.01, 2.0, 1000)];
/// let of_ten = group_epsilon(&TightestAccountant::new(), &training, Delta(1e-5), 10)?;
/// assert!(of_ten > 10.0 * epsilab_accounting::epsilon(&training, Delta(1e-5))?.epsilon);
/// # Ok::<(), epsilab_accounting::Error>(())
/// ```
///
/// # Errors
/// Kind `Setting` for a number outside its range. Kind `Accounting` if no accountant supports the
/// events, or no epsilon of this group is found.
///
/// # Guarantee
/// Neighbours differ in `rows` changes, each of the accountant's relation: so many examples are
/// added or removed, zeroed out, or replaced. If one change is (e, d)-differentially private, k
/// changes are (k e, d (exp(k e) - 1) / (exp(e) - 1))-differentially private, by the triangle
/// inequality (Vadhan: The Complexity of Differential Privacy, 2017, Lemma 2.2, with the geometric
/// series summed). The returned value is the smallest k e found for which the delta of the group is
/// at most `delta`. It is an upper bound; the true epsilon of the group may be smaller. An
/// approximate accountant gives an approximate value.
pub fn group_epsilon(
    accountant: &dyn Accountant,
    events: &[Event],
    delta: Delta,
    rows: usize,
) -> Result<f64> {
    delta.check()?;
    let rows = rows as f64;
    let bound = |ln_delta: f64| -> Result<Option<f64>> {
        let epsilon = accountant.epsilon(events, Delta(ln_delta.exp()))?.epsilon;
        let fits = ln_delta + ln_geometric_sum(epsilon, rows) <= delta.0.ln();
        Ok(fits.then_some(rows * epsilon))
    };
    if rows <= 1.0 {
        return Ok(rows * accountant.epsilon(events, delta)?.epsilon);
    }
    let (mut low, mut high) = (MIN_LN_DELTA, delta.0.ln());
    let Some(mut smallest) = bound(low)? else {
        let why = "the required deltas are below the smallest floating-point number";
        return Err(Error::new(ErrorKind::Accounting, "no epsilon of the group is known", why)
            .fix("use a larger noise multiplier, fewer steps or a smaller group"));
    };
    for _ in 0..EVALUATIONS {
        let middle = 0.5 * (low + high);
        match bound(middle)? {
            Some(epsilon) => (low, smallest) = (middle, smallest.min(epsilon)),
            None => high = middle,
        }
    }
    Ok(smallest)
}

/// Computes ln(1 + e^x + ... + e^((n - 1) x)) for x >= 0.
fn ln_geometric_sum(x: f64, n: f64) -> f64 {
    if x < 1e-9 {
        // Each term is at most e^((n - 1) x).
        n.ln() + (n - 1.0) * x
    } else {
        (n - 1.0) * x + ((-n * x).exp_m1() / (-x).exp_m1()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Gdp, TightestAccountant};

    #[test]
    fn a_group_is_bounded_above_the_exact_value_of_the_gaussian() -> Result<()> {
        // A group of k moves the sum by k bounds: noise sigma / k.
        for (sigma, rows) in [(20.0, 2), (20.0, 10), (50.0, 30)] {
            let exact = [Event::gaussian(sigma / rows as f64)];
            let exact = Gdp::default().epsilon(&exact, Delta(1e-5))?.epsilon;
            let event = [Event::gaussian(sigma)];
            let bound = group_epsilon(&Gdp::default(), &event, Delta(1e-5), rows)?;
            assert!(exact <= bound && bound < 1.6 * exact, "{rows}: {exact} {bound}");
        }
        Ok(())
    }

    #[test]
    fn group_epsilon_grows_with_the_group_and_equals_epsilon_for_one_row() -> Result<()> {
        let (events, delta) = ([Event::poisson(0.01, 1.5, 500)], Delta(1e-6));
        let tightest = TightestAccountant::new();
        let single = tightest.epsilon(&events, delta)?.epsilon;
        let epsilon_of = |rows| group_epsilon(&tightest, &events, delta, rows);
        assert_eq!(epsilon_of(1)?, single);
        let (two, five) = (epsilon_of(2)?, epsilon_of(5)?);
        assert!(two > 2.0 * single && five > 2.5 * two, "{single} {two} {five}");
        // The delta of the group grows too: five times epsilon at the same delta is not enough.
        assert!(five > 5.0 * single * 1.1);
        Ok(())
    }

    #[test]
    fn a_group_too_large_for_any_epsilon_is_refused() {
        let events = [Event::gaussian(0.5)];
        let error = group_epsilon(&Gdp::default(), &events, Delta(1e-5), 1000).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Accounting, "{error}");
    }

    #[test]
    fn the_geometric_sum_is_that_of_its_terms() {
        for (x, n) in [(0.0, 5), (1e-12, 7), (1e-6, 40), (0.3, 6), (20.0, 3)] {
            let terms: f64 = (0..n).map(|k| (k as f64 * x).exp()).sum();
            assert!((ln_geometric_sum(x, n as f64) - terms.ln()).abs() < 1e-9, "{x} {n}");
        }
        assert!(ln_geometric_sum(500.0, 100.0).is_finite());
    }
}
