//! The root search behind every calibration. It needs few evaluations of the accountant, and its
//! result always meets the target.
//!
//! The PLD accountant takes about 10 ms per evaluation, which makes bisection slow. On logarithmic
//! scales epsilon is nearly linear in every parameter, so a secant method needs about six
//! evaluations. A bracket makes it safe: at one end is a value whose evaluated epsilon meets the
//! target, at the other one that does not. Only the ends of the bracket determine the result. Small
//! fluctuations of the accountant can therefore neither prevent termination nor make the result
//! unsafe.

use crate::digits::RoundedUp;
use crate::{Accountant, Epsilon, NeighbouringRelation, OrderList, Rdp};
use crate::{Error, ErrorKind, Result};

/// Relative tolerance of the initial guess by a cheaper accountant.
const GUESS_TOLERANCE: f64 = 0.03;

/// After this many secant steps that did not halve the bracket, it is bisected.
const MAX_SLOW_STEPS: u32 = 3;

/// Relative size of the numerical fluctuations of an accountant.
const ACCOUNTANT_NOISE: f64 = 1e-5;

/// The parameter to solve for.
#[derive(Clone, Copy, Debug)]
pub(super) struct SearchParameter {
    /// Range of the search; all values are above 0.
    pub range: (f64, f64),
    /// Whether a larger value is more private (noise, delta) or less (steps, batch size).
    pub increasing_is_safer: bool,
    /// Whether the parameter is an integer.
    pub integer: bool,
    /// Relative tolerance of the result.
    pub tolerance: f64,
    /// Initial value.
    pub initial: f64,
    /// Typical elasticity, |d ln epsilon / d ln value|, above 0.
    pub elasticity: f64,
}

/// A search for the least private value of `parameter` whose epsilon is at most `target`.
pub(super) struct Search<'a> {
    /// Name of the parameter in errors, such as `noise multiplier`.
    pub what: &'a str,
    pub target: Epsilon,
    pub parameter: SearchParameter,
    /// The reason in the error for a target that no value reaches, before the epsilon of the most
    /// private value.
    pub unreachable: &'a str,
    /// The advice of that error.
    pub advice: &'a str,
    /// Function that returns the epsilon of a value by an accountant.
    pub epsilon: &'a dyn Fn(f64, &dyn Accountant) -> Result<f64>,
}

impl Search<'_> {
    /// Returns the value and its evaluated epsilon by `accountant`. A cheap accountant provides the
    /// initial guess.
    ///
    /// # Errors
    /// Those of the accountant. An error of kind `Setting` is returned at once; one of kind
    /// `Accounting` only if the accountant rejects the most private value of the range, or if even
    /// that value misses the target.
    pub fn solve(&self, accountant: &dyn Accountant) -> Result<(f64, f64)> {
        let mut parameter = self.parameter;
        if accountant.name() != "rdp" {
            let tolerance = GUESS_TOLERANCE.max(parameter.tolerance);
            let coarse = Search { parameter: SearchParameter { tolerance, ..parameter }, ..*self };
            let mut guess = Bracket::new(&coarse);
            // An error here is ignored: only the given accountant decides.
            if let Ok(rdp) = cheap_rdp(accountant.neighbouring())
                && let Ok((value, _)) = guess.close(&coarse, &rdp)
            {
                parameter.initial = value;
                parameter.elasticity = guess.local_elasticity();
            }
        }
        let exact = Search { parameter, ..*self };
        Bracket::new(&exact).close(&exact, accountant)
    }
}

/// Creates RDP with a few orders that are fast to compute, for an initial guess.
fn cheap_rdp(neighbouring: NeighbouringRelation) -> Result<Rdp> {
    if neighbouring == NeighbouringRelation::ReplaceOne {
        return Ok(Rdp::with_neighbouring(neighbouring));
    }
    // For a guess, zero-out is close enough to add-or-remove-one.
    let orders = [
        1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 12.0, 14.0, 16.0,
        20.0, 24.0, 32.0, 48.0, 64.0, 128.0, 256.0, 1024.0, 8192.0,
    ];
    Ok(Rdp::default().with_orders(OrderList::custom(&orders)?))
}

/// An evaluated value: `x` is ±ln(value), such that epsilon decreases with `x`; `log_error` is
/// ln(epsilon / target).
#[derive(Clone, Copy, Debug)]
struct Evaluation {
    x: f64,
    log_error: f64,
}

/// State of a search.
struct Bracket {
    parameter: SearchParameter,
    target: f64,
    /// The least private value that met the target, with its epsilon.
    safe: Option<(f64, f64)>,
    /// The most private value that did not meet the target.
    costly: Option<f64>,
    /// All values with a finite epsilon above 0.
    evaluations: Vec<Evaluation>,
    /// Scale of a step beyond a known end, which is at most four times as long; doubles with every
    /// step.
    max_step: f64,
    /// Number of successive steps that did not halve the bracket.
    slow_steps: u32,
}

impl Bracket {
    fn new(search: &Search) -> Self {
        Self {
            parameter: search.parameter,
            target: search.target.0,
            safe: None,
            costly: None,
            evaluations: Vec::new(),
            max_step: 1.0,
            slow_steps: 0,
        }
    }

    /// Evaluates values until the bracket is closed.
    fn close(&mut self, search: &Search, accountant: &dyn Accountant) -> Result<(f64, f64)> {
        let (least, most) = self.parameter.range;
        let (safest, costliest) =
            if self.parameter.increasing_is_safer { (most, least) } else { (least, most) };
        let mut value = self.parameter.initial.clamp(least, most);
        loop {
            let width = self.width();
            match (search.epsilon)(value, accountant) {
                Ok(epsilon) => {
                    if epsilon <= self.target {
                        self.safe = Some((value, epsilon));
                    } else if value == safest {
                        let why = format!("{} {}", search.unreachable, RoundedUp(epsilon));
                        return Err(infeasible(search.what, search.target, accountant, why)
                            .fix(search.advice));
                    } else {
                        self.costly = Some(value);
                    }
                    let log_error = (epsilon / self.target).ln();
                    if log_error.is_finite() {
                        self.evaluations.push(Evaluation { x: self.x(value), log_error });
                    }
                }
                // An overflowing epsilon exceeds the target.
                Err(error) if error.kind() == ErrorKind::Accounting && value != safest => {
                    self.costly = Some(value);
                }
                Err(error) => return Err(error),
            }
            if let Some((value, epsilon)) = self.safe
                && (value == costliest || self.is_closed())
            {
                return Ok((value, epsilon));
            }
            self.slow_steps = if self.width() > width / 2.0 { self.slow_steps + 1 } else { 0 };
            value = self.next_value();
        }
    }

    fn x(&self, value: f64) -> f64 {
        if self.parameter.increasing_is_safer { value.ln() } else { -value.ln() }
    }

    fn value(&self, x: f64) -> f64 {
        if self.parameter.increasing_is_safer { x.exp() } else { (-x).exp() }
    }

    fn width(&self) -> f64 {
        let ends = self.safe.zip(self.costly);
        ends.map_or(f64::INFINITY, |((safe, _), costly)| self.x(safe) - self.x(costly))
    }

    /// Computes the width at which the bracket counts as closed.
    fn gap(&self, value: f64) -> f64 {
        let gap = value * self.parameter.tolerance;
        if self.parameter.integer { gap.floor().max(1.0) } else { gap }
    }

    fn is_closed(&self) -> bool {
        let ends = self.safe.zip(self.costly);
        ends.is_some_and(|((safe, _), costly)| (safe - costly).abs() <= self.gap(safe))
    }

    /// Returns the value whose epsilon is closest to the target, among those that `is_eligible`
    /// accepts.
    fn closest(&self, is_eligible: impl Fn(&Evaluation) -> bool) -> Option<Evaluation> {
        let known = self.evaluations.iter().copied().filter(is_eligible);
        known.min_by(|a, b| a.log_error.abs().total_cmp(&b.log_error.abs()))
    }

    /// Returns the slope of -ln epsilon over x between the two values closest to the target, above
    /// 0.
    fn local_elasticity(&self) -> f64 {
        let usual = self.parameter.elasticity;
        let Some(best) = self.closest(|_| true) else { return usual };
        // Two epsilons within the fluctuations of the accountant determine no slope.
        let other =
            self.closest(|other| (other.log_error - best.log_error).abs() > ACCOUNTANT_NOISE);
        let slope =
            other.map_or(usual, |other| (best.log_error - other.log_error) / (other.x - best.x));
        if slope > 0.0 { slope.clamp(usual / 100.0, usual * 100.0) } else { usual }
    }

    /// Returns the next value to evaluate, strictly inside the unexplored range.
    fn next_value(&mut self) -> f64 {
        let (safe, costly) =
            (self.safe.map(|(value, _)| self.x(value)), self.costly.map(|v| self.x(v)));
        let root =
            self.closest(|_| true).map(|best| best.x + best.log_error / self.local_elasticity());
        match (safe, costly) {
            (Some(safe), Some(costly)) => {
                let halved = 0.5 * (safe + costly);
                let inside = |x: &f64| *x > costly && *x < safe;
                let root = root.filter(|x| self.slow_steps < MAX_SLOW_STEPS && inside(x));
                let Some(root) = root else {
                    self.slow_steps = 0;
                    return self.between(halved, true);
                };
                // Aim at the end that is farther away.
                self.between(root, safe - root > root - costly)
            }
            (known, _) => {
                let (from, towards) = match (known, costly) {
                    (Some(safe), _) => (safe, -1.0),
                    (_, Some(costly)) => (costly, 1.0),
                    (None, None) => return self.parameter.initial,
                };
                let step = root.map_or(self.max_step, |root| (root - from) * towards);
                // The minimum step increases, so that the search does not stall.
                let least = self.parameter.tolerance * self.max_step.powi(4);
                let step = step.clamp(least.min(self.max_step), 4.0 * self.max_step);
                self.max_step *= 2.0;
                self.beyond(from + towards * step, towards > 0.0)
            }
        }
    }

    /// Returns `x` as a value inside the bracket, moved slightly towards the given side.
    fn between(&self, x: f64, safe_side: bool) -> f64 {
        let value = self.nudge(x, safe_side);
        let (Some((safe, _)), Some(costly)) = (self.safe, self.costly) else { return value };
        let (low, high) = if safe < costly { (safe, costly) } else { (costly, safe) };
        if self.parameter.integer {
            return value.clamp(low + 1.0, high - 1.0);
        }
        if value > low && value < high {
            value
        } else {
            self.value(0.5 * (self.x(low) + self.x(high)))
        }
    }

    /// Returns `x` as a value beyond the only known end.
    fn beyond(&self, x: f64, safe_side: bool) -> f64 {
        let (least, most) = self.parameter.range;
        let value = self.nudge(x, safe_side);
        let known = self.costly.or(self.safe.map(|(value, _)| value)).unwrap_or(value);
        let step = if self.parameter.integer { 1.0 } else { 0.0 };
        let value = if safe_side == self.parameter.increasing_is_safer {
            value.max(known + step)
        } else {
            value.min(known - step)
        };
        value.clamp(least, most)
    }

    fn nudge(&self, x: f64, safe_side: bool) -> f64 {
        let value = self.value(x);
        let upwards = safe_side == self.parameter.increasing_is_safer;
        // Two values on either side of the root shall close the bracket.
        let nudge = 0.4 * self.gap(value);
        match (self.parameter.integer, upwards) {
            (false, true) => value + nudge,
            (false, false) => value - nudge,
            (true, true) => (value + nudge - 0.4).floor() + 1.0,
            (true, false) => (value - nudge + 0.4).ceil() - 1.0,
        }
    }
}

/// Returns the error of a target that no value meets.
pub(super) fn infeasible(
    what: &str,
    target: Epsilon,
    accountant: &dyn Accountant,
    why: String,
) -> Error {
    let name = accountant.name();
    Error::new(
        ErrorKind::Accounting,
        format!("no {what} meets epsilon = {target} with accountant {name}"),
        why,
    )
}
