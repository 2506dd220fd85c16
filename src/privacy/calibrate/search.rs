//! The search behind every calibration: few questions to the accountant, always a proved answer.
//!
//! An accountant of privacy loss distributions takes about 10 ms for one answer, so bisection is
//! too slow. On logarithmic scales epsilon is nearly a straight line over every setting; a secant
//! along it needs about six questions. A bracket keeps it safe: one end is always a setting whose
//! epsilon was evaluated and met the target, the other one that did not. Only the ends of the
//! bracket decide, so an accountant whose values tremble in the sixth digit can neither make the
//! search endless nor its answer unsafe.

use crate::privacy::{Accountant, Epsilon, Neighbouring, OrderList, Rdp};
use crate::{Error, ErrorKind, Result};

/// A guess by another accountant is good enough when it is this close.
const GUESS_TOLERANCE: f64 = 0.03;

/// A bracket that three secants did not halve is halved by force.
const MAX_SLOW_STEPS: u32 = 3;

/// Values of an accountant may be off by about this much, relative to them.
const ACCOUNTANT_NOISE: f64 = 1e-5;

/// The setting that is looked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameter {
    /// The values that may be tried, all above 0.
    pub range: (f64, f64),
    /// Whether more of it is more private (noise, delta) or less (steps, batch size).
    pub increasing_is_safer: bool,
    /// Whether only whole numbers make sense.
    pub integer: bool,
    /// How close to the best value the answer has to be, relative to it.
    pub tolerance: f64,
    /// Where to begin.
    pub initial: f64,
    /// About how many per cent epsilon changes with one per cent of the setting, above 0.
    pub elasticity: f64,
}

/// What is asked: the most costly value of `setting` whose epsilon is at most `target`.
pub(super) struct Search<'a> {
    pub target: f64,
    pub parameter: Parameter,
    /// The epsilon of a value by an accountant.
    pub epsilon: &'a dyn Fn(f64, &dyn Accountant) -> Result<f64>,
}

/// How a search ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outcome {
    /// The value, and the epsilon that was evaluated for it.
    Found { value: f64, epsilon: f64 },
    /// Even the safest value of the range costs this much.
    Infeasible { epsilon: f64 },
}

impl Search<'_> {
    /// The answer by `accountant`. A cheap accountant only says where to begin.
    ///
    /// # Errors
    /// Those of the accountant: kind `Setting` at once, kind `Accounting` if it refuses even the
    /// safest value of the range.
    pub fn solve(&self, accountant: &dyn Accountant) -> Result<Outcome> {
        let mut parameter = self.parameter;
        if accountant.name() != "rdp" {
            let tolerance = GUESS_TOLERANCE.max(parameter.tolerance);
            let coarse = Search { parameter: Parameter { tolerance, ..parameter }, ..*self };
            let mut guess = Bracket::new(&coarse);
            // A refusal is no news here: the accountant that was asked has the word.
            if let Ok(rdp) = cheap_rdp(accountant.neighbouring())
                && let Ok(Outcome::Found { value, .. }) = guess.close(&coarse, &rdp)
            {
                (parameter.initial, parameter.elasticity) = (value, guess.local_elasticity());
            }
        }
        let exact = Search { parameter, ..*self };
        Bracket::new(&exact).close(&exact, accountant)
    }
}

/// RDP with a few orders that are quickly computed: a guess needs no more.
fn cheap_rdp(neighbouring: Neighbouring) -> Result<Rdp> {
    if neighbouring == Neighbouring::ReplaceOne {
        return Ok(Rdp::with_neighbouring(neighbouring));
    }
    // For a guess, zeroing an example out is as good as removing it.
    let orders = [
        1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 12.0, 14.0, 16.0,
        20.0, 24.0, 32.0, 48.0, 64.0, 128.0, 256.0, 1024.0, 8192.0,
    ];
    Ok(Rdp::default().with_orders(OrderList::custom(&orders)?))
}

/// A value that was tried: its logarithm, counted so that epsilon falls with it, and by how much
/// the logarithm of its epsilon misses that of the target.
#[derive(Clone, Copy, Debug)]
struct Evaluation {
    x: f64,
    log_error: f64,
}

/// What is known so far.
struct Bracket {
    parameter: Parameter,
    target: f64,
    /// The most costly value that met the target, with its epsilon.
    safe: Option<(f64, f64)>,
    /// The safest value that did not.
    costly: Option<f64>,
    /// Every value with a finite epsilon above 0.
    evaluations: Vec<Evaluation>,
    /// The longest step into the unknown; doubles.
    max_step: f64,
    /// How often in a row the bracket was not halved.
    slow_steps: u32,
}

impl Bracket {
    fn new(search: &Search) -> Self {
        Self {
            parameter: search.parameter,
            target: search.target,
            safe: None,
            costly: None,
            evaluations: Vec::new(),
            max_step: 1.0,
            slow_steps: 0,
        }
    }

    /// Asks until the bracket is closed.
    fn close(&mut self, search: &Search, accountant: &dyn Accountant) -> Result<Outcome> {
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
                        return Ok(Outcome::Infeasible { epsilon });
                    } else {
                        self.costly = Some(value);
                    }
                    let log_error = (epsilon / self.target).ln();
                    if log_error.is_finite() {
                        self.evaluations.push(Evaluation { x: self.x(value), log_error });
                    }
                }
                // Beyond any number is too much.
                Err(error) if error.kind() == ErrorKind::Accounting && value != safest => {
                    self.costly = Some(value);
                }
                Err(error) => return Err(error),
            }
            if let Some((value, epsilon)) = self.safe
                && (value == costliest || self.is_closed())
            {
                return Ok(Outcome::Found { value, epsilon });
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
        match (self.safe, self.costly) {
            (Some((safe, _)), Some(costly)) => self.x(safe) - self.x(costly),
            _ => f64::INFINITY,
        }
    }

    /// The distance of the ends at which the bracket counts as closed.
    fn gap(&self, value: f64) -> f64 {
        let gap = value * self.parameter.tolerance;
        if self.parameter.integer { gap.floor().max(1.0) } else { gap }
    }

    fn is_closed(&self) -> bool {
        match (self.safe, self.costly) {
            (Some((safe, _)), Some(costly)) => (safe - costly).abs() <= self.gap(safe),
            _ => false,
        }
    }

    /// The value that came closest to the target.
    fn closest(&self) -> Option<Evaluation> {
        self.evaluations
            .iter()
            .copied()
            .min_by(|a, b| a.log_error.abs().total_cmp(&b.log_error.abs()))
    }

    /// The steepness of ln epsilon over x between the two values that came closest, above 0.
    fn local_elasticity(&self) -> f64 {
        let usual = self.parameter.elasticity;
        let Some(best) = self.closest() else { return usual };
        // Two epsilons closer to each other than an accountant trembles tell nothing.
        let others = self
            .evaluations
            .iter()
            .filter(|evaluation| (evaluation.log_error - best.log_error).abs() > ACCOUNTANT_NOISE);
        let other = others.min_by(|a, b| a.log_error.abs().total_cmp(&b.log_error.abs()));
        let slope =
            other.map_or(usual, |other| (best.log_error - other.log_error) / (other.x - best.x));
        if slope > 0.0 { slope.clamp(usual / 100.0, usual * 100.0) } else { usual }
    }

    /// The value to try next, always strictly inside what is not known yet.
    fn next_value(&mut self) -> f64 {
        let (safe, costly) =
            (self.safe.map(|(value, _)| self.x(value)), self.costly.map(|v| self.x(v)));
        let root = self.closest().map(|best| best.x + best.log_error / self.local_elasticity());
        match (safe, costly) {
            (Some(safe), Some(costly)) => {
                let halved = 0.5 * (safe + costly);
                let inside = |x: &f64| *x > costly && *x < safe;
                let root = root.filter(|x| self.slow_steps < MAX_SLOW_STEPS && inside(x));
                let Some(root) = root else {
                    self.slow_steps = 0;
                    return self.between(halved, true);
                };
                // The end that is farther away is the one to pull in.
                self.between(root, safe - root > root - costly)
            }
            (known, _) => {
                let (from, towards) = match (known, costly) {
                    (Some(safe), _) => (safe, -1.0),
                    (_, Some(costly)) => (costly, 1.0),
                    (None, None) => return self.parameter.initial,
                };
                let step = root.map_or(self.max_step, |root| (root - from) * towards);
                // Never creep: the longer nothing is found, the farther it goes.
                let least = self.parameter.tolerance * self.max_step.powi(4);
                let step = step.clamp(least.min(self.max_step), 4.0 * self.max_step);
                self.max_step *= 2.0;
                self.beyond(from + towards * step, towards > 0.0)
            }
        }
    }

    /// `x` as a value, moved a little to the side that is meant to be hit, inside the bracket.
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

    /// `x` as a value beyond the only end that is known.
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
        // Two values on either side of the true one shall close the bracket.
        let nudge = 0.4 * self.gap(value);
        match (self.parameter.integer, upwards) {
            (false, true) => value + nudge,
            (false, false) => value - nudge,
            (true, true) => (value + nudge - 0.4).floor() + 1.0,
            (true, false) => (value - nudge + 0.4).ceil() - 1.0,
        }
    }
}

/// The error of a target that no value meets.
pub(super) fn infeasible(
    what: &str,
    target: Epsilon,
    accountant: &dyn Accountant,
    why: String,
) -> Error {
    let name = accountant.name();
    Error::new(
        ErrorKind::Accounting,
        format!("no {what} reaches epsilon = {target} by {name}"),
        why,
    )
}
