//! The epsilon that is reported: the smallest proved upper bound.

use super::event::{SingleRelease, flatten_events};
use super::{
    Accountant, Delta, Event, Gdp, NeighbouringRelation, Pld, PrivacyCost, Rdp, SamplingRate,
    Stages, Zcdp,
};
use crate::{Error, ErrorKind, Result};

/// The accountant whose epsilon is reported: the smallest of the proved upper bounds.
///
/// Uses [`Gdp`] where it supports all events, because its value is exact. Otherwise it takes the
/// smaller of [`Pld`] and [`Rdp`].
///
/// # Guarantee
/// The minimum of valid upper bounds is a valid upper bound. Approximate accountants are not used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TightestAccountant {
    neighbouring: NeighbouringRelation,
    pld: Pld,
}

impl TightestAccountant {
    /// Creates the accountant for neighbours that differ by one added or removed example.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates the accountant for another neighbouring relation.
    pub fn with_neighbouring(neighbouring: NeighbouringRelation) -> Self {
        Self { neighbouring, pld: Pld::with_neighbouring(neighbouring) }
    }

    /// Creates the accountant for all these events together: for one example added or removed, or,
    /// if some of them are on disjoint batches, for one example zeroed out.
    pub fn for_events(events: &[Event]) -> Self {
        let is_disjoint = |event: &Event| matches!(event, Event::ShuffledEpochs { .. });
        if events.iter().any(|event| event.has(is_disjoint)) {
            Self::with_neighbouring(NeighbouringRelation::ZeroOutOne)
        } else {
            Self::new()
        }
    }

    /// Returns the accountant for the relation that a guarantee is stated for, or
    /// [`for_events`](Self::for_events) where none is.
    pub fn stated_for(stated: Option<NeighbouringRelation>, events: &[Event]) -> Self {
        stated.map_or_else(|| Self::for_events(events), Self::with_neighbouring)
    }

    /// Computes the epsilon after each number of steps in `at`, which must not decrease: of the
    /// first steps of `stages` at a sampling rate, together with the releases in `prior`, at
    /// `delta`.
    ///
    /// The compositions share their work, so many points cost little more than a few single calls.
    /// The last value is that of [`epsilon`](Accountant::epsilon). The others usually differ from
    /// single calls by less than 0.2 %, and may lack a lower bound.
    ///
    /// # Errors
    /// Kind `Setting` for a number outside its range, and for numbers of steps that decrease. Kind
    /// `Accounting` if no accountant supports the events, or for an epsilon that overflows.
    ///
    /// # Guarantee
    /// Every value is a proved upper bound, as that of [`TightestAccountant`]. The values do not
    /// decrease: a bound after more steps is also one after fewer, so each value is at most the
    /// next.
    pub fn epsilons_after(
        &self,
        prior: &[Event],
        stages: &Stages,
        sampling_rate: SamplingRate,
        at: &[u64],
        delta: Delta,
    ) -> Result<Vec<PrivacyCost>> {
        let rate = sampling_rate.check()?;
        if let Some(pair) = at.windows(2).find(|pair| pair[0] > pair[1]) {
            let why = format!("follows {}, but the numbers of steps must not decrease", pair[0]);
            return Err(Error::setting("at", pair[1], why).fix("sort the numbers of steps"));
        }
        let list = |&steps: &u64| [prior, &[stages.event(rate, steps)]].concat();
        self.epsilons_for_prefixes(&at.iter().map(list).collect::<Vec<_>>(), delta)
    }

    /// Computes the epsilons of growing lists of events: each list contains the releases of the
    /// one before it. As [`epsilons_after`](Self::epsilons_after).
    ///
    /// # Errors
    /// Kind `Setting` for a number outside its range. Kind `Accounting` if no accountant supports
    /// the events, or for an epsilon that overflows.
    ///
    /// # Guarantee
    /// As [`epsilons_after`](Self::epsilons_after), but only if each list contains the releases of
    /// the one before it: a value is lowered to that of the next list.
    pub fn epsilons_for_prefixes(
        &self,
        lists: &[Vec<Event>],
        delta: Delta,
    ) -> Result<Vec<PrivacyCost>> {
        let Some((longest, shorter)) = lists.split_last() else { return Ok(Vec::new()) };
        // Without sampling the value has a closed form, as it may have before the first step.
        let alone = shorter.iter().take_while(|events| !has_subsampled_release(events));
        let mut spent: Vec<PrivacyCost> =
            alone.map(|events| self.epsilon(events, delta)).collect::<Result<_>>()?;
        spent.extend(self.prefix_upper_bounds(&shorter[spent.len()..], delta)?);
        spent.push(self.epsilon(longest, delta)?);
        for i in (1..spent.len()).rev() {
            if spent[i].epsilon < spent[i - 1].epsilon {
                spent[i - 1] = PrivacyCost { lower_bound: None, ..spent[i].clone() };
            }
        }
        Ok(spent)
    }

    /// Computes the smaller of the bounds of PLD and RDP for growing lists of events.
    fn prefix_upper_bounds(&self, lists: &[Vec<Event>], delta: Delta) -> Result<Vec<PrivacyCost>> {
        let growing: Vec<&[Event]> = lists.iter().map(Vec::as_slice).collect();
        let pld = unsupported_as_none(self.pld.upper_bounds(&growing, delta))?;
        let rdp = Rdp::with_neighbouring(self.neighbouring).epsilons_for_prefixes(&growing, delta);
        let rdp = unsupported_as_none(rdp)?;
        let smallest = |(i, events): (usize, &Vec<Event>)| {
            let pld = pld.as_ref().and_then(|bounds| bounds[i]);
            let pld = pld.map(|epsilon| PrivacyCost::new(epsilon, "pld"));
            let rdp = rdp.as_ref().and_then(|bounds| bounds[i].clone());
            let smaller = |a: &PrivacyCost, b: &PrivacyCost| a.epsilon.total_cmp(&b.epsilon);
            match pld.into_iter().chain(rdp).min_by(smaller) {
                Some(spent) => Ok(spent),
                None => self.epsilon(events, delta),
            }
        };
        lists.iter().enumerate().map(smallest).collect()
    }
}

/// Returns whether any release is not a Gaussian mechanism on all examples; false for events that
/// can't be flattened.
fn has_subsampled_release(events: &[Event]) -> bool {
    let exact = |single: &SingleRelease| matches!(single, SingleRelease::Gaussian { .. });
    flatten_events("gdp", events).is_ok_and(|found| !found.iter().all(|(single, _)| exact(single)))
}

/// Turns an error of kind `Accounting` into `None`: another accountant may have a bound.
fn unsupported_as_none<T>(bounds: Result<T>) -> Result<Option<T>> {
    match bounds {
        Ok(bounds) => Ok(Some(bounds)),
        Err(error) if error.kind() == ErrorKind::Accounting => Ok(None),
        Err(error) => Err(error),
    }
}

impl Accountant for TightestAccountant {
    fn name(&self) -> &str {
        "headline"
    }

    fn neighbouring(&self) -> NeighbouringRelation {
        self.neighbouring
    }

    fn epsilon(&self, events: &[Event], delta: Delta) -> Result<PrivacyCost> {
        delta.check()?;
        // A private selection can't be flattened.
        let may_be_empty = !events.iter().any(Event::has_private_selection);
        if may_be_empty && flatten_events("epsilon", events)?.is_empty() {
            return Ok(PrivacyCost::new(0.0, "headline").with_lower_bound(0.0));
        }
        let exact = Gdp::with_neighbouring(self.neighbouring).epsilon(events, delta);
        if exact.is_ok() {
            return exact;
        }
        let pld = unsupported_as_none(self.pld.epsilon(events, delta))?;
        let rdp = Rdp::with_neighbouring(self.neighbouring).epsilon(events, delta);
        let Some(pld) = pld else { return rdp };
        let lower = pld.lower_bound;
        let best = unsupported_as_none(rdp)?.filter(|rdp| rdp.epsilon < pld.epsilon).unwrap_or(pld);
        Ok(match lower {
            Some(lower) => best.with_lower_bound(lower),
            None => best,
        })
    }
}

/// Computes the epsilon of all events together for one added or removed example, by
/// [`TightestAccountant`].
///
/// # Errors
/// Kind `Setting` for a number outside its range. Kind `Accounting` if no accountant supports the
/// events, or for an epsilon that overflows.
///
/// # Guarantee
/// As [`TightestAccountant`].
///
/// ```
/// use epsilab_accounting::{Delta, Event, epsilon};
/// let run = Event::poisson(0.01, 1.0, 1000);
/// let spent = epsilon(&[run], Delta(1e-5))?;
/// assert!((spent.epsilon - 1.8283).abs() < 2e-3);
/// # Ok::<(), epsilab_accounting::Error>(())
/// ```
pub fn epsilon(events: &[Event], delta: Delta) -> Result<PrivacyCost> {
    TightestAccountant::default().epsilon(events, delta)
}

/// The result of one accountant in a comparison.
#[derive(Clone, Debug)]
pub struct AccountantResult {
    /// Name of the accountant.
    pub accountant: String,
    /// The epsilon, or the reason why the accountant does not support the events.
    pub cost: Result<PrivacyCost>,
    /// Whether the epsilon is an estimate that may lie below the true one.
    pub approximate: bool,
}

/// Evaluates the events with `pld`, `rdp`, `gdp` and `zcdp`. Where `gdp` does not support them, its
/// labelled central limit approximation `gdp_clt` takes its place.
///
/// # Guarantee
/// Every epsilon that is not `approximate` is an upper bound under `neighbouring`.
pub fn compare_accountants(
    events: &[Event],
    delta: Delta,
    neighbouring: NeighbouringRelation,
) -> Vec<AccountantResult> {
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
    let evaluate = |accountant: &dyn Accountant| AccountantResult {
        accountant: accountant.name().to_string(),
        cost: accountant.epsilon(events, delta),
        approximate: accountant.is_approximate(),
    };
    accountants.iter().map(|accountant| evaluate(accountant.as_ref())).collect()
}

#[cfg(test)]
mod tests;
