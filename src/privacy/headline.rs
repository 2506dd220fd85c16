//! The epsilon that is reported: the smallest proved upper bound.

use super::event::singles;
use super::{Accountant, Delta, Event, Gdp, Neighbouring, Pld, Rdp, Spent, Zcdp};
use crate::{Error, ErrorKind, Result};

/// The accountant whose epsilon is reported: the smallest of the proved upper bounds.
///
/// Uses [`Gdp`] where it supports all events, because its value is exact. Otherwise it takes the
/// smaller of [`Pld`] and [`Rdp`].
///
/// # Guarantee
/// The minimum of valid upper bounds is a valid upper bound. Approximate accountants are not used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Headline {
    neighbouring: Neighbouring,
    pld: Pld,
}

impl Headline {
    /// The accountant for neighbours that differ by one added or removed example.
    pub fn new() -> Self {
        Self::default()
    }

    /// The accountant for another neighbouring relation.
    pub fn with_neighbouring(neighbouring: Neighbouring) -> Self {
        Self { neighbouring, pld: Pld::with_neighbouring(neighbouring) }
    }
}

impl Accountant for Headline {
    fn name(&self) -> &str {
        "headline"
    }

    fn neighbouring(&self) -> Neighbouring {
        self.neighbouring
    }

    fn epsilon(&self, events: &[Event], delta: Delta) -> Result<Spent> {
        delta.check()?;
        if singles("epsilon", events)?.is_empty() {
            return Ok(Spent::new(0.0, "headline").with_lower_bound(0.0));
        }
        let exact = Gdp::with_neighbouring(self.neighbouring).epsilon(events, delta);
        if exact.is_ok() {
            return exact;
        }
        let bounds = [
            self.pld.epsilon(events, delta),
            Rdp::with_neighbouring(self.neighbouring).epsilon(events, delta),
        ];
        let lower = bounds.iter().flatten().find_map(|spent| spent.lower);
        let mut refusals = Vec::new();
        let mut best: Option<Spent> = None;
        for bound in bounds {
            match bound {
                Ok(spent) if best.as_ref().is_none_or(|b| spent.epsilon < b.epsilon) => {
                    best = Some(spent);
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Accounting => refusals.push(error),
                Err(error) => return Err(error),
            }
        }
        match (best, refusals.into_iter().next_back()) {
            (Some(best), _) => Ok(match lower {
                Some(lower) => best.with_lower_bound(lower),
                None => best,
            }),
            (None, Some(refusal)) => Err(refusal),
            (None, None) => {
                Err(Error::new(ErrorKind::Accounting, "epsilon", "no accountant gave a result"))
            }
        }
    }
}

/// The epsilon of all events together for one added or removed example, by [`Headline`].
///
/// # Errors
/// As [`Accountant::epsilon`].
///
/// # Guarantee
/// As [`Headline`].
///
/// ```
/// use epsilab::privacy::{self, Delta, Event};
/// let run = Event::poisson(0.01, 1.0, 1000);
/// let spent = privacy::epsilon(&[run], Delta(1e-5))?;
/// assert!((spent.epsilon - 1.8283).abs() < 2e-3);
/// # Ok::<(), epsilab::Error>(())
/// ```
pub fn epsilon(events: &[Event], delta: Delta) -> Result<Spent> {
    Headline::default().epsilon(events, delta)
}

/// The result of one accountant in a comparison.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Name of the accountant.
    pub accountant: String,
    /// The epsilon, or the reason why the accountant does not support the events.
    pub spent: Result<Spent>,
    /// Whether the epsilon is an estimate that may lie below the true one.
    pub approximate: bool,
}

/// Evaluates the events with `pld`, `rdp`, `gdp` and `zcdp`. Where `gdp` does not support them, its
/// labelled central limit approximation `gdp_clt` takes its place.
pub fn compare(events: &[Event], delta: Delta, neighbouring: Neighbouring) -> Vec<Answer> {
    let exact = Gdp::with_neighbouring(neighbouring);
    let gdp: Box<dyn Accountant> = match exact.epsilon(events, delta) {
        Ok(_) => Box::new(exact),
        Err(_) => Box::new(super::GdpClt::with_neighbouring(neighbouring)),
    };
    let accountants: [Box<dyn Accountant>; 4] = [
        Box::new(Pld::with_neighbouring(neighbouring)),
        Box::new(Rdp::with_neighbouring(neighbouring)),
        gdp,
        Box::new(Zcdp::with_neighbouring(neighbouring)),
    ];
    let evaluate = |accountant: &dyn Accountant| Answer {
        accountant: accountant.name().to_string(),
        spent: accountant.epsilon(events, delta),
        approximate: accountant.is_approximate(),
    };
    accountants.iter().map(|accountant| evaluate(accountant.as_ref())).collect()
}
