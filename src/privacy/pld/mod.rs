//! The accountant of privacy loss distributions (PLD): the whole distribution of the loss, not
//! only its moments.
//!
//! A release is at most as revealing as telling P from Q (`pair`); the privacy loss is
//! ln P/Q under P, and the losses of independent releases add up (Koskela, Jälkö, Honkela 2020;
//! Gopi, Lee, Wutschitz 2021). In the order of the computation:
//!
//! - `parts`: events as sorts of release, each a pair and a number of times;
//! - `cells`: the masses that P and Q give to small intervals of losses;
//! - `losses`: distributions on a grid that are surely above and surely below the true one;
//! - `sketch`: a rough picture that decides where to look;
//! - `chernoff`: what moments alone prove, for the direction that matters less;
//! - `compose`: sums of losses by the Fourier transform, tilted towards where delta lives;
//! - `enclose`: all of it together, in both directions;
//! - `threshold`: another bound from below, where a grid has none.

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

/// Bounds further apart than this share of epsilon are computed anew on a finer grid.
const RELATIVE_TOLERANCE: f64 = 2e-3;

/// So many sorts of release are computed once, on one grid.
const MANY_COMPONENTS: usize = 32;

/// Nobody cares for the digits of an epsilon this small.
const ABSOLUTE_TOLERANCE: f64 = 1e-6;

/// The accountant of privacy loss distributions.
///
/// Usually the smallest epsilon that can be proved: the bounds from above and below differ by
/// some 0.03 %, at any delta down to 1e-300. Accounts Poisson-sampled steps (also cut batches)
/// and Gaussians under every neighbouring relation, in any mixture.
///
/// # Guarantee
/// For the neighbours of [`under`](Pld::with_neighbouring) (add or remove one if not said). `epsilon` is from
/// above: losses are discretised by connecting the dots (Doroshenko, Ghazi, Kamath, Kumar,
/// Manurangsi 2022), which never lowers delta; what is cut off counts as infinite loss; what may
/// wrap round in the Fourier transform is bounded (Chernoff) and added, rounding errors of the
/// transform too. `lower` is from below in the same way, or what an attacker who asks one question
/// learns, for the worst pair of neighbours; with a cut batch the pair itself is a bound. With more
/// than 256 noise multipliers each is rounded to the safe side by at most 0.1 %.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pld {
    neighbouring: Neighbouring,
}

impl Pld {
    /// For neighbours that differ by one added or removed example.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same for another neighbouring relation.
    pub fn with_neighbouring(neighbouring: Neighbouring) -> Self {
        Self { neighbouring }
    }

    /// The epsilons of all events together at many deltas, at less cost than one by one.
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

    /// delta for every epsilon: the whole trade-off between the two.
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
        // Even in epsilon, with the knots of the windows so that no bend is missed.
        let mut epsilons: Vec<f64> = (0..=POINTS).map(|i| end * i as f64 / POINTS as f64).collect();
        let all = windows.iter().flatten();
        epsilons.extend(all.filter_map(|(delta, w)| w.epsilon(*delta)).map(|found| found.1));
        epsilons.sort_by(f64::total_cmp);
        epsilons.dedup_by(|a, b| *a - *b <= 1e-9 * end);
        let mut deltas = vec![0.0_f64; epsilons.len()];
        for windows in &windows {
            // Each window is from above: the least of them counts, and the worst case.
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

/// What one case reveals at each delta, from below and from above.
fn curve(components: &[Component], deltas: &[Delta], events: &[Event]) -> Result<Vec<(f64, f64)>> {
    // With rounded multipliers the bounds do not come closer on a finer grid.
    let is_tight = |lower, upper| is_close(lower, upper) || components.len() > MANY_COMPONENTS;
    let mut computed: Windows = Vec::new();
    let mut curve = Vec::with_capacity(deltas.len());
    for delta in deltas {
        let delta = delta.check()?.0;
        if components.is_empty() {
            curve.push((0.0, 0.0));
            continue;
        }
        // A window is good for deltas within two powers of ten, and says so itself.
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

/// Windows, each with the delta that it is near.
type Windows = Vec<(f64, CompositionBounds)>;

/// Windows over all deltas that anybody asks for.
fn windows(components: &[Component]) -> Windows {
    [1e-14, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-3, 1e-2, 0.1, 0.3, 0.6, 0.9]
        .into_iter()
        .filter_map(|delta| Some((delta, CompositionBounds::near_delta(delta, components, 1.0)?)))
        .collect()
}

/// What the worst case reveals, from the bounds of all.
fn worst_case(cases: impl Iterator<Item = (f64, f64)>) -> Spent {
    let (lower, upper) = cases.fold((0.0, 0.0), |(lower, upper): (f64, f64), case| {
        (lower.max(case.0), upper.max(case.1))
    });
    Spent::new(upper, "pld").with_lower_bound(lower)
}

fn is_close(lower: f64, upper: f64) -> bool {
    upper - lower <= (RELATIVE_TOLERANCE * upper).max(ABSOLUTE_TOLERANCE)
}

/// (from below, from above) of epsilon, as far as the window tells.
fn epsilon_in(
    window: &CompositionBounds,
    components: &[Component],
    delta: f64,
) -> Option<(f64, f64)> {
    let (lower, upper) = window.epsilon(delta)?;
    Some((lower.max(threshold::epsilon(components, delta, upper)).min(upper), upper))
}

/// (from below, from above) of epsilon, on finer grids until they are close or no closer.
fn bounds(components: &[Component], delta: f64, events: &[Event]) -> Result<(f64, f64)> {
    if components.is_empty() {
        return Ok((0.0, 0.0));
    }
    // The losses of a Gaussian are Gaussian themselves: no grid is needed.
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
            // Both are valid on every grid.
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
        format!("pld can't account {}", Event::Composed { events: events.to_vec() }),
        "its privacy losses do not fit on a grid of a million points",
    )
    .fix("use the RDP accountant; or more noise, or fewer steps")
}
