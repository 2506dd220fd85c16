//! The epsilon that is reported: the smallest of all that are proved.

use super::event::singles;
use super::{Accountant, Delta, Event, Gdp, Neighbouring, Pld, Rdp, Spent, Zcdp};
use crate::{Error, ErrorKind, Result};

/// The smallest of the proved bounds: Gaussians without sampling exactly ([`Gdp`]), else the
/// lesser of [`Pld`] and [`Rdp`].
///
/// # Guarantee
/// The minimum of valid upper bounds is a valid upper bound. Approximations take no part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Headline {
    neighbouring: Neighbouring,
    pld: Pld,
}

impl Headline {
    /// For neighbours that differ by one added or removed example.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same for another neighbouring relation.
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
            (None, None) => Err(Error::new(ErrorKind::Accounting, "epsilon", "nobody answers")),
        }
    }
}

/// The epsilon of all events together for one added or removed example: [`Headline`] in short.
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

/// One accountant's answer to a question that was put to all.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Name of the accountant.
    pub accountant: String,
    /// What it found, or why it refuses.
    pub spent: Result<Spent>,
    /// An estimate that may lie below the truth.
    pub approximate: bool,
}

/// Asks every accountant: `pld`, `rdp`, `gdp` (exact where it can be, else the labelled central
/// limit approximation), `zcdp`.
pub fn compare(events: &[Event], delta: Delta, neighbouring: Neighbouring) -> Vec<Answer> {
    let exact = Gdp::with_neighbouring(neighbouring);
    let gdp: Box<dyn Accountant> = match exact.epsilon(events, delta) {
        Ok(_) => Box::new(exact),
        Err(_) => Box::new(super::GdpClt::with_neighbouring(neighbouring)),
    };
    let asked: [Box<dyn Accountant>; 4] = [
        Box::new(Pld::with_neighbouring(neighbouring)),
        Box::new(Rdp::with_neighbouring(neighbouring)),
        gdp,
        Box::new(Zcdp::with_neighbouring(neighbouring)),
    ];
    let answer = |accountant: &dyn Accountant| Answer {
        accountant: accountant.name().to_string(),
        spent: accountant.epsilon(events, delta),
        approximate: accountant.is_approximate(),
    };
    asked.iter().map(|accountant| answer(accountant.as_ref())).collect()
}
