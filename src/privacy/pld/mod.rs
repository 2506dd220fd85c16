//! The accountant of privacy loss distributions (PLD).
//!
//! A release is dominated by a pair of distributions (P, Q). The privacy loss is ln P/Q under P,
//! and the losses of independent releases add up (Koskela, Jälkö, Honkela 2020; Gopi, Lee,
//! Wutschitz 2021). The modules, in the order of the computation:
//!
//! - `components`: events as dominating pairs with counts;
//! - `cells`: the masses of P and Q in small intervals of the privacy loss;
//! - `loss_distribution`: discretised loss distributions that are upper and lower bounds;
//! - `coarse`: a coarse approximation that selects tilt, window and grid;
//! - `chernoff`: Chernoff bounds, for the direction with the smaller epsilon;
//! - `compose`: sums of losses by FFT, with exponential tilting;
//! - `bounds`: upper and lower bounds in both directions;
//! - `threshold`: a second lower bound, for cases where the grid gives none.

use super::{Accountant, Delta, Event, Neighbouring, Profile, Spent, gdp};
use crate::{Error, ErrorKind, Result};
use bounds::CompositionBounds;
use components::{Component, cases};

mod bounds;
mod cells;
mod chernoff;
mod coarse;
mod components;
mod compose;
mod dominating_pair;
mod loss_distribution;
#[cfg(test)]
mod tests;
mod threshold;

/// Bounds whose relative difference exceeds this value are computed again on a finer grid.
const RELATIVE_TOLERANCE: f64 = 2e-3;

/// With more components than this, the bounds are computed on one grid only.
const MANY_COMPONENTS: usize = 32;

/// Absolute difference of the bounds that is always accepted.
const ABSOLUTE_TOLERANCE: f64 = 1e-6;

/// The accountant of privacy loss distributions.
///
/// Usually gives the smallest provable epsilon. The upper and the lower bound typically differ by
/// 0.03 %, at any delta down to 1e-300. Supports Gaussian mechanisms and Poisson-sampled steps,
/// also with a maximum batch size, under every neighbouring relation and in any combination.
///
/// # Guarantee
/// Bounds for neighbours under the relation given to [`with_neighbouring`](Pld::with_neighbouring),
/// add-or-remove-one by default.
///
/// - `epsilon` is an upper bound. Losses are discretised by connecting the dots (Doroshenko, Ghazi,
///   Kamath, Kumar, Manurangsi 2022), which never decreases delta. Truncated mass counts as
///   infinite loss. A Chernoff bound on the mass that wraps around in the Fourier transform, and a
///   bound on its rounding errors, are added to delta.
/// - `lower` is a lower bound for the worst pair of neighbours, from a second discretisation or
///   from a threshold test. With a maximum batch size the dominating pair is itself an upper bound,
///   and `lower` refers to that pair.
///
/// With more than 256 different noise multipliers each is rounded by at most 0.1 % to the
/// safe side.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pld {
    neighbouring: Neighbouring,
}

impl Pld {
    /// The accountant for neighbours that differ by one added or removed example.
    pub fn new() -> Self {
        Self::default()
    }

    /// The accountant for another neighbouring relation.
    pub fn with_neighbouring(neighbouring: Neighbouring) -> Self {
        Self { neighbouring }
    }

    /// The epsilons of all events together at several deltas. Cheaper than one call per delta.
    ///
    /// # Errors
    /// As [`Accountant::epsilon`].
    pub fn curve(&self, events: &[Event], deltas: &[Delta]) -> Result<Vec<Spent>> {
        let curves: Vec<_> = cases(events, self.neighbouring)?
            .iter()
            .map(|components| curve(components, deltas, events))
            .collect::<Result<_>>()?;
        Ok((0..deltas.len()).map(|i| worst_case(curves.iter().map(|curve| curve[i]))).collect())
    }

    /// The privacy profile: an upper bound on delta for every epsilon.
    ///
    /// # Errors
    /// As [`Accountant::epsilon`].
    pub fn profile(&self, events: &[Event]) -> Result<Profile> {
        const POINTS: usize = 400;
        let cases = cases(events, self.neighbouring)?;
        if cases.iter().all(Vec::is_empty) {
            return Ok(Profile::from_points(vec![(0.0, 0.0)]));
        }
        let windows: Vec<_> = cases.iter().map(|components| windows(components)).collect();
        let largest = |windows: &Windows| windows.iter().find_map(|(delta, w)| w.epsilon(*delta));
        let Some(ends) = windows.iter().map(largest).collect::<Option<Vec<_>>>() else {
            return Err(grid_too_large(events));
        };
        let end = ends.iter().fold(0.0, |end: f64, found| end.max(found.1));
        // Evenly spaced in epsilon, plus the epsilons of the windows.
        let mut epsilons: Vec<f64> = (0..=POINTS).map(|i| end * i as f64 / POINTS as f64).collect();
        let all = windows.iter().flatten();
        epsilons.extend(all.filter_map(|(delta, w)| w.epsilon(*delta)).map(|found| found.1));
        epsilons.sort_by(f64::total_cmp);
        epsilons.dedup_by(|a, b| *a - *b <= 1e-9 * end);
        let mut deltas = vec![0.0_f64; epsilons.len()];
        for windows in &windows {
            // Every window gives an upper bound: take the minimum over windows, then the maximum
            // over cases.
            let mut least = vec![1.0_f64; epsilons.len()];
            for (_, window) in windows {
                let here = window.deltas(&epsilons);
                least.iter_mut().zip(here).for_each(|(least, here)| *least = least.min(here));
            }
            deltas.iter_mut().zip(least).for_each(|(delta, least)| *delta = delta.max(least));
        }
        Ok(Profile::from_points(epsilons.into_iter().zip(deltas).collect()))
    }
}

impl Accountant for Pld {
    fn name(&self) -> &str {
        "pld"
    }

    fn neighbouring(&self) -> Neighbouring {
        self.neighbouring
    }

    fn epsilon(&self, events: &[Event], delta: Delta) -> Result<Spent> {
        let delta = delta.check()?.0;
        let found: Vec<_> = cases(events, self.neighbouring)?
            .iter()
            .map(|components| bounds(components, delta, events))
            .collect::<Result<_>>()?;
        Ok(worst_case(found.into_iter()))
    }
}

/// Lower and upper bound on the epsilon of one case at each delta.
fn curve(components: &[Component], deltas: &[Delta], events: &[Event]) -> Result<Vec<(f64, f64)>> {
    // With rounded multipliers a finer grid does not tighten the bounds.
    let is_tight = |lower, upper| is_close(lower, upper) || components.len() > MANY_COMPONENTS;
    let mut computed: Windows = Vec::new();
    let mut curve = Vec::with_capacity(deltas.len());
    for delta in deltas {
        let delta = delta.check()?.0;
        if components.is_empty() {
            curve.push((0.0, 0.0));
            continue;
        }
        // A window serves deltas within two orders of magnitude; it reports where it does not.
        let near = computed.iter().find_map(|(at, window)| {
            let (lower, upper) = epsilon_in(window, components, delta)?;
            let close = (delta / at).log10().abs() <= 2.0 && is_tight(lower, upper);
            close.then_some((lower, upper))
        });
        curve.push(match near {
            Some(found) => found,
            None => {
                let window = CompositionBounds::near_delta(delta, components, 1.0);
                let found =
                    window.as_ref().and_then(|window| epsilon_in(window, components, delta));
                computed.extend(window.map(|window| (delta, window)));
                match found.filter(|&(lower, upper)| is_tight(lower, upper)) {
                    Some(found) => found,
                    None => bounds(components, delta, events)?,
                }
            }
        });
    }
    Ok(curve)
}

/// Bounds in windows, each with the delta for which the window was selected.
type Windows = Vec<(f64, CompositionBounds)>;

/// Windows that cover the range of useful deltas.
fn windows(components: &[Component]) -> Windows {
    [1e-14, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-3, 1e-2, 0.1, 0.3, 0.6, 0.9]
        .into_iter()
        .filter_map(|delta| Some((delta, CompositionBounds::near_delta(delta, components, 1.0)?)))
        .collect()
}

/// The largest of the bounds of all cases.
fn worst_case(cases: impl Iterator<Item = (f64, f64)>) -> Spent {
    let (lower, upper) = cases.fold((0.0, 0.0), |(lower, upper): (f64, f64), case| {
        (lower.max(case.0), upper.max(case.1))
    });
    Spent::new(upper, "pld").with_lower_bound(lower)
}

fn is_close(lower: f64, upper: f64) -> bool {
    upper - lower <= (RELATIVE_TOLERANCE * upper).max(ABSOLUTE_TOLERANCE)
}

/// Lower and upper bound on epsilon from one window; `None` if `delta` is outside of it.
fn epsilon_in(
    window: &CompositionBounds,
    components: &[Component],
    delta: f64,
) -> Option<(f64, f64)> {
    let (lower, upper) = window.epsilon(delta)?;
    Some((lower.max(threshold::epsilon(components, delta, upper)).min(upper), upper))
}

/// Lower and upper bound on epsilon, on increasingly fine grids until they are close.
fn bounds(components: &[Component], delta: f64, events: &[Event]) -> Result<(f64, f64)> {
    if components.is_empty() {
        return Ok((0.0, 0.0));
    }
    // A single Gaussian mechanism has a closed form: no grid is needed.
    if let [component] = components
        && let [(_, Some(pair))] = &component.mixture[..]
        && pair.q >= 1.0
    {
        let exact = gdp::epsilon_of(1.0 / pair.sigma, delta);
        return Ok((exact * (1.0 - 1e-8), exact));
    }
    let mut best: Option<(f64, f64)> = None;
    for refinement in [1.0, 3.0, 10.0] {
        let Some(enclosure) = CompositionBounds::near_delta(delta, components, refinement) else {
            continue;
        };
        if let Some((lower, upper)) = epsilon_in(&enclosure, components, delta) {
            // The bounds of every grid are valid.
            best = Some(best.map_or((lower, upper), |(l, u)| (l.max(lower), u.min(upper))));
        }
        let close = best.is_some_and(|(lower, upper)| is_close(lower, upper));
        if close || !enclosure.can_be_refined || components.len() > MANY_COMPONENTS {
            break;
        }
    }
    best.ok_or_else(|| grid_too_large(events))
}

fn grid_too_large(events: &[Event]) -> Error {
    Error::new(
        ErrorKind::Accounting,
        format!("pld does not support {}", Event::Composed { events: events.to_vec() }),
        "its privacy losses do not fit on a grid of a million points",
    )
    .fix("use the RDP accountant, a larger noise multiplier or fewer steps")
}
