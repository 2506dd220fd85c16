//! The accountant of privacy loss distributions (PLD).
//!
//! A release is dominated by a pair of distributions (P, Q). The privacy loss is ln P/Q under P,
//! and the losses of independent releases add up (Koskela, Jälkö, Honkela 2020; Gopi, Lee,
//! Wutschitz 2021). The modules, in the order of the computation:
//!
//! - `dominating_pair`: the pair (P, Q) of one release, its densities, tails and losses;
//! - `components`: events as dominating pairs with counts;
//! - `cells`: the masses of P and Q in small intervals of the privacy loss;
//! - `loss_distribution`: discretised loss distributions that are upper and lower bounds;
//! - `coarse`: a coarse approximation that selects tilt, window and grid;
//! - `chernoff`: Chernoff bounds, for the direction with the smaller epsilon;
//! - `compose`: sums of losses by FFT, with exponential tilting;
//! - `tilted_sum`: epsilons and deltas of a sum;
//! - `node_losses`: the losses of all kinds of releases in one window;
//! - `builder`: the choice of window and grid;
//! - `bounds`: upper and lower bounds in both directions;
//! - `prefix_bounds`: upper bounds along a run, for many lengths at once;
//! - `threshold`: a second lower bound, for cases where the grid gives none.

use super::{Accountant, Delta, Event, NeighbouringRelation, PrivacyCost, PrivacyProfile, gdp};
use crate::accountant::unsupported;
use crate::{Error, Result};
use bounds::CompositionBounds;
use components::{NeighbourCase, cases, cases_of_lists};

mod bounds;
mod builder;
mod cells;
mod chernoff;
mod coarse;
mod components;
mod compose;
mod dominating_pair;
mod loss_distribution;
mod node_losses;
mod prefix_bounds;
#[cfg(test)]
mod tests;
mod threshold;
mod tilted_sum;

/// Bounds whose relative difference exceeds this value are computed again on a finer grid.
const RELATIVE_TOLERANCE: f64 = 2e-3;

/// With more nodes than this, the bounds are computed on one grid only.
const MANY_NODES: usize = 32;

/// Absolute difference of the bounds that is always accepted.
const ABSOLUTE_TOLERANCE: f64 = 1e-6;

/// The accountant of privacy loss distributions.
///
/// Usually gives the smallest provable epsilon. The upper and the lower bound typically differ by
/// 0.03 %, at any delta down to 1e-300. Supports Gaussian mechanisms and Poisson-sampled steps,
/// also with a maximum batch size, under every neighbouring relation and in any combination, and
/// shuffled epochs under zero-out and replace-one.
///
/// # Guarantee
/// Bounds for neighbours under the relation given to [`with_neighbouring`](Pld::with_neighbouring),
/// add-or-remove-one by default.
///
/// - `epsilon` is an upper bound. Losses are discretised by connecting the dots (Doroshenko, Ghazi,
///   Kamath, Kumar, Manurangsi 2022), which never decreases delta. Mass that is truncated counts as
///   infinite loss at the upper end, and is moved up to the first grid point at the lower end. A
///   Chernoff bound on the mass that wraps around in the Fourier transform, and a bound on its
///   rounding errors, are added to delta.
/// - `lower` is a lower bound for the worst pair of neighbours, from a second discretisation or
///   from a threshold test. With a maximum batch size the dominating pair is itself an upper bound,
///   and `lower` refers to that pair.
///
/// With more than 128 different noise multipliers of Poisson-sampled steps, a step is replaced by a
/// mixture of steps with 96 noise multipliers that is proved to dominate it. Measured, this adds
/// less than 0.1 % to epsilon. `lower` rounds to the next of these noise multipliers and is about 1
/// % lower. Noise multipliers of other releases, and all of them under replace-one, are rounded by
/// at most 0.1 % to the safe side.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pld {
    neighbouring: NeighbouringRelation,
}

impl Pld {
    /// Creates the accountant for neighbours that differ by one added or removed example.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates the accountant for another neighbouring relation.
    pub fn with_neighbouring(neighbouring: NeighbouringRelation) -> Self {
        Self { neighbouring }
    }

    /// Computes the epsilons of all events together at several deltas. Cheaper than one call per
    /// delta.
    ///
    /// # Errors
    /// Kind `Setting` for a number outside its range. Kind `Accounting` for an event that this
    /// accountant does not support, or for an epsilon that overflows.
    ///
    /// # Guarantee
    /// Upper bounds and lower bounds as those of [`Pld`].
    pub fn epsilons_at(&self, events: &[Event], deltas: &[Delta]) -> Result<Vec<PrivacyCost>> {
        let curves: Vec<_> = cases(events, self.neighbouring)?
            .iter()
            .map(|case| bounds_at_deltas(case, deltas, events))
            .collect::<Result<_>>()?;
        Ok((0..deltas.len()).map(|i| worst_case(curves.iter().map(|curve| curve[i]))).collect())
    }

    /// Computes upper bounds on the epsilons of growing lists of events at `delta`: each list
    /// contains the releases of the previous one. `None` for a list whose losses fit on no grid.
    /// Cheaper than one call per list.
    ///
    /// # Errors
    /// As [`Accountant::epsilon`].
    pub(crate) fn upper_bounds(
        &self,
        lists: &[&[Event]],
        delta: Delta,
    ) -> Result<Vec<Option<f64>>> {
        let delta = delta.check()?.0;
        let mut worst = vec![Some(0.0); lists.len()];
        for cases in cases_of_lists(lists, self.neighbouring)? {
            for (worst, found) in worst.iter_mut().zip(prefix_bounds::upper_bounds(&cases, delta)) {
                *worst = worst.zip(found).map(|(a, b): (f64, f64)| a.max(b));
            }
        }
        Ok(worst)
    }

    /// Returns the privacy profile: an upper bound on delta for every epsilon.
    ///
    /// # Errors
    /// Kind `Setting` for a number outside its range. Kind `Accounting` for an event that this
    /// accountant does not support.
    ///
    /// # Guarantee
    /// As [`PrivacyProfile`], under the neighbouring relation of this accountant.
    pub fn privacy_profile(&self, events: &[Event]) -> Result<PrivacyProfile> {
        const POINTS: usize = 400;
        let cases = cases(events, self.neighbouring)?;
        if cases.iter().all(|case| case.components.is_empty()) {
            return Ok(PrivacyProfile::from_points(vec![(0.0, 0.0)]));
        }
        let windows: Vec<_> = cases.iter().map(windows).collect();
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
                let window_deltas = window.deltas(&epsilons);
                least
                    .iter_mut()
                    .zip(window_deltas)
                    .for_each(|(least, delta)| *least = least.min(delta));
            }
            deltas.iter_mut().zip(least).for_each(|(delta, least)| *delta = delta.max(least));
        }
        Ok(PrivacyProfile::from_points(epsilons.into_iter().zip(deltas).collect()))
    }
}

impl Accountant for Pld {
    fn name(&self) -> &str {
        "pld"
    }

    fn neighbouring(&self) -> NeighbouringRelation {
        self.neighbouring
    }

    fn epsilon(&self, events: &[Event], delta: Delta) -> Result<PrivacyCost> {
        let delta = delta.check()?.0;
        let found: Vec<_> = cases(events, self.neighbouring)?
            .iter()
            .map(|case| bounds(case, delta).ok_or_else(|| grid_too_large(events)))
            .collect::<Result<_>>()?;
        Ok(worst_case(found.into_iter()))
    }
}

/// Computes the lower and the upper bound on the epsilon of one case at each delta.
fn bounds_at_deltas(
    case: &NeighbourCase,
    deltas: &[Delta],
    events: &[Event],
) -> Result<Vec<(f64, f64)>> {
    // Where steps are replaced by others a finer grid does not tighten the bounds.
    let is_tight = |lower, upper| is_close(lower, upper) || has_one_grid(case);
    let mut computed: Windows = Vec::new();
    let mut curve = Vec::with_capacity(deltas.len());
    for delta in deltas {
        let delta = delta.check()?.0;
        if case.components.is_empty() {
            curve.push((0.0, 0.0));
            continue;
        }
        // A window serves deltas within two orders of magnitude; it reports where it does not.
        let near = computed.iter().find_map(|(at, window)| {
            let (lower, upper) = epsilon_bounds_in_window(window, case, delta)?;
            let close = (delta / at).log10().abs() <= 2.0 && is_tight(lower, upper);
            close.then_some((lower, upper))
        });
        curve.push(match near {
            Some(found) => found,
            None => {
                let window = CompositionBounds::near_delta(delta, case, 1.0);
                let found = window
                    .as_ref()
                    .and_then(|window| epsilon_bounds_in_window(window, case, delta));
                computed.extend(window.map(|window| (delta, window)));
                match found.filter(|&(lower, upper)| is_tight(lower, upper)) {
                    Some(found) => found,
                    None => bounds(case, delta).ok_or_else(|| grid_too_large(events))?,
                }
            }
        });
    }
    Ok(curve)
}

/// Bounds in windows, each with the delta for which the window was selected.
type Windows = Vec<(f64, CompositionBounds)>;

/// Returns windows that cover the range of useful deltas.
fn windows(case: &NeighbourCase) -> Windows {
    [1e-14, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-3, 1e-2, 0.1, 0.3, 0.6, 0.9]
        .into_iter()
        .filter_map(|delta| Some((delta, CompositionBounds::near_delta(delta, case, 1.0)?)))
        .collect()
}

/// Returns the largest of the bounds of all cases.
fn worst_case(cases: impl Iterator<Item = (f64, f64)>) -> PrivacyCost {
    let (lower, upper) = cases.fold((0.0, 0.0), |(lower, upper): (f64, f64), case| {
        (lower.max(case.0), upper.max(case.1))
    });
    PrivacyCost::new(upper, "pld").with_lower_bound(lower)
}

fn is_close(lower: f64, upper: f64) -> bool {
    upper - lower <= (RELATIVE_TOLERANCE * upper).max(ABSOLUTE_TOLERANCE)
}

/// Computes the lower and the upper bound on epsilon from one window; `None` if `delta` is outside
/// of it.
fn epsilon_bounds_in_window(
    window: &CompositionBounds,
    case: &NeighbourCase,
    delta: f64,
) -> Option<(f64, f64)> {
    let (lower, upper) = window.epsilon(delta)?;
    Some((lower.max(threshold::epsilon_lower_bound(case, delta, upper)).min(upper), upper))
}

/// Computes the lower and the upper bound on epsilon, on increasingly fine grids until they are
/// close; `None` if the losses fit on no grid.
fn bounds(case: &NeighbourCase, delta: f64) -> Option<(f64, f64)> {
    if case.components.is_empty() {
        return Some((0.0, 0.0));
    }
    if let Some(exact) = exact_epsilon(case, delta) {
        return Some((exact * (1.0 - 1e-8), exact));
    }
    refine_bounds(case, delta, None, &[1.0, 3.0, 10.0])
}

/// Computes the best of the bounds that are known and those on finer and finer grids, until they
/// are close.
fn refine_bounds(
    case: &NeighbourCase,
    delta: f64,
    known: Option<(f64, f64)>,
    refinements: &[f64],
) -> Option<(f64, f64)> {
    let mut best = known;
    for &refinement in refinements {
        let Some(enclosure) = CompositionBounds::near_delta(delta, case, refinement) else {
            continue;
        };
        if let Some((lower, upper)) = epsilon_bounds_in_window(&enclosure, case, delta) {
            // The bounds of every grid are valid.
            best = Some(best.map_or((lower, upper), |(l, u)| (l.max(lower), u.min(upper))));
        }
        let close = best.is_some_and(|(lower, upper)| is_close(lower, upper));
        if close || !enclosure.can_be_refined || has_one_grid(case) {
            break;
        }
    }
    best
}

/// Returns whether one grid suffices: a second, finer one would be slow or gain nothing.
fn has_one_grid(case: &NeighbourCase) -> bool {
    case.is_approximated || case.components.len() > MANY_NODES
}

/// Computes the epsilon of a single Gaussian mechanism: it has a closed form and needs no grid.
fn exact_epsilon(case: &NeighbourCase, delta: f64) -> Option<f64> {
    let [component] = &case.components[..] else { return None };
    let [(_, Some(pair))] = &case.nodes[component.node][..] else { return None };
    (pair.q >= 1.0).then(|| gdp::epsilon_at_delta(1.0 / pair.sigma, delta))
}

fn grid_too_large(events: &[Event]) -> Error {
    let all = Event::Composed { events: events.to_vec() };
    unsupported("pld", all, "the privacy losses do not fit on the largest grid")
        .fix("use the RDP accountant, a larger noise multiplier or fewer steps")
}
