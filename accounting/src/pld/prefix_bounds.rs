//! Upper bounds along a run: the losses in one window serve many lengths.

use super::builder::BoundsBuilder;
use super::chernoff::{ChernoffBound, LossMoments};
use super::coarse::Direction;
use super::components::NeighbourCase;
use super::node_losses::NodeLosses;
use super::tilted_sum::TiltedSum;
use super::{exact_epsilon, has_one_grid, refine_bounds, threshold};

/// Bounds whose relative difference exceeds this value are computed again on a finer grid. It is
/// usually the lower bound that is far away.
const RELATIVE_TOLERANCE: f64 = 0.01;

/// Computes upper bounds on epsilon at `delta` for growing compositions with the same nodes;
/// `None` for one whose losses fit on no grid.
///
/// The bounds are computed from the longest composition to the shortest. The spectra of the last
/// window are used again as long as the errors of the result, which are part of the bound, are
/// small.
pub(super) fn upper_bounds(cases: &[NeighbourCase], delta: f64) -> Vec<Option<f64>> {
    let moments =
        cases.last().and_then(|case| BoundsBuilder::new(case, delta, 1.0).add_direction_moments());
    let mut growth = PrefixBoundCache { delta, moments, remove: None, add: None };
    let mut found: Vec<_> = cases.iter().rev().map(|case| growth.upper_bound(case)).collect();
    found.reverse();
    found
}

struct PrefixBoundCache {
    delta: f64,
    /// Moments of all nodes in direction `add`.
    moments: Option<LossMoments>,
    /// Losses in the last window of each direction.
    remove: Option<NodeLosses>,
    add: Option<NodeLosses>,
}

impl PrefixBoundCache {
    fn upper_bound(&mut self, case: &NeighbourCase) -> Option<f64> {
        if case.components.is_empty() {
            return Some(0.0);
        }
        if let Some(exact) = exact_epsilon(case, self.delta) {
            return Some(exact);
        }
        let task = BoundsBuilder::new(case, self.delta, 1.0);
        let (lower, remove) = bound_direction(&task, &mut self.remove, Direction::Remove)?;
        let by_chernoff = |moments: &LossMoments| {
            ChernoffBound::new(moments, &case.components).epsilon(self.delta) <= remove
        };
        let upper = if case.is_symmetric() || self.moments.as_ref().is_some_and(by_chernoff) {
            remove
        } else {
            remove.max(bound_direction(&task, &mut self.add, Direction::Add)?.1)
        };
        let Some(lower) = lower.filter(|_| !has_one_grid(case)) else { return Some(upper) };
        let lower = lower.max(threshold::epsilon_lower_bound(case, self.delta, upper));
        if upper - lower <= RELATIVE_TOLERANCE * upper {
            return Some(upper);
        }
        // A finer grid is needed, for this composition alone.
        self.remove = None;
        refine_bounds(case, self.delta, Some((lower, upper)), &[3.0, 10.0]).map(|(_, upper)| upper)
    }
}

/// Computes the bounds of one direction: the upper bound by the losses that are kept where they
/// are precise. Otherwise those in a new window, with a lower bound, and these losses are kept.
fn bound_direction(
    task: &BoundsBuilder,
    kept: &mut Option<NodeLosses>,
    direction: Direction,
) -> Option<(Option<f64>, f64)> {
    if let Some(found) = kept.as_ref().and_then(|losses| task.epsilon_from_losses(losses)) {
        return Some((None, found));
    }
    let composed = task.compose(direction)?;
    let (lower, upper) = TiltedSum::bounds(&composed.upper, composed.lower.as_ref(), task.delta)?;
    *kept = Some(composed.losses);
    Some((Some(lower), upper))
}
