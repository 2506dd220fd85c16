//! The losses of the nodes in one window, from which compositions are made.

use super::cells::{LossCells, balanced_offset};
use super::coarse::{Direction, TiltedRange};
use super::components::{Mixture, NeighbourCase};
use super::compose::{Composition, LossWindow, Spectrum, Transform};
use super::loss_distribution::{self, LossDistribution};
use super::tilted_sum::TiltedSum;
use crate::noise_grid::Component;
use rayon::prelude::*;

/// With fewer nodes than this one core is faster.
const FEW_NODES: usize = 8;

/// The spectra of the losses of the nodes in one window.
pub(super) struct NodeLosses {
    pub range: TiltedRange,
    pub step: f64,
    transform: Transform,
    /// Spectra for an upper bound, and for direction `remove` for a lower bound. `None` for a node
    /// that is not needed.
    spectra: Vec<Option<(Spectrum, Option<Spectrum>)>>,
}

impl NodeLosses {
    /// Creates the losses of the nodes that a case needs, on a grid of width `step`. At most
    /// `tail` of the mass of one release is truncated at either end.
    pub fn new(
        case: &NeighbourCase,
        range: TiltedRange,
        step: f64,
        tail: f64,
        direction: Direction,
    ) -> Self {
        let transform = Transform::new(LossWindow {
            step,
            theta: range.theta,
            low: range.low,
            len: even_length(((range.high - range.low) / step).max(32.0) as usize + 3),
            theta_up: range.theta_up,
            theta_down: range.theta_down,
        });
        let used = case.used_nodes();
        let nodes = used.iter().filter(|used| **used).count();
        let spectra = |(mixture, used): (&Mixture, bool)| {
            used.then(|| {
                let (upper, lower) = discretise(mixture, step, tail, direction);
                (transform.spectrum(&upper), lower.map(|lower| transform.spectrum(&lower)))
            })
        };
        let spectra = if nodes < FEW_NODES {
            case.nodes.iter().zip(used).map(spectra).collect()
        } else {
            case.nodes.par_iter().zip(used).map(spectra).collect()
        };
        Self { range, step, transform, spectra }
    }

    /// Computes the upper bound for a case with these nodes; `None` if it needs a node that is
    /// missing.
    pub fn upper(&self, case: &NeighbourCase) -> Option<TiltedSum> {
        let mut sum = Composition::new(&self.transform);
        let spectrum = |node: usize| self.spectra[node].as_ref().map(|(upper, _)| upper);
        // The largest first: after them most frequencies are negligible.
        let size = |component: &&Component| {
            component.releases() * spectrum(component.node).map_or(0.0, Spectrum::decay)
        };
        let mut components: Vec<&Component> = case.components.iter().collect();
        components.sort_by(|a, b| size(b).total_cmp(&size(a)));
        for component in components {
            let below = spectrum(component.node)?;
            sum.add(below, component.exact);
            if !component.mixtures.is_empty() {
                sum.add_mixtures(below, spectrum(component.node + 1)?, &component.mixtures);
            }
        }
        Some(sum.finish())
    }

    /// Computes the lower bound for a case with these nodes, for direction `remove`.
    pub fn lower(&self, case: &NeighbourCase) -> Option<TiltedSum> {
        let mut sum = Composition::new(&self.transform);
        for (node, count) in case.lower_counts() {
            sum.add(self.spectra[node].as_ref()?.1.as_ref()?, count);
        }
        Some(sum.finish())
    }
}

/// Computes the loss distributions of one release: an upper bound, and for direction `remove` a
/// lower bound. At most `tail` of the mass is truncated at either end.
pub(super) fn discretise(
    mixture: &Mixture,
    step: f64,
    tail: f64,
    direction: Direction,
) -> (LossDistribution, Option<LossDistribution>) {
    let (mut above, mut below) = (Vec::new(), Vec::new());
    for (weight, pair) in mixture {
        let Some(pair) = pair else {
            above.push((*weight, LossDistribution::no_release(step)));
            below.push((*weight, LossDistribution::no_release(step)));
            continue;
        };
        let cells = LossCells::new(pair, step, 0.0, tail);
        let (remove, add) = loss_distribution::upper_bound(&cells);
        if direction == Direction::Add {
            above.push((*weight, add));
            continue;
        }
        above.push((*weight, remove));
        // A mixture needs one common grid, so an offset is possible only for a single pair.
        let offset = match mixture.len() {
            1 => balanced_offset(pair, step, tail),
            _ => 0.0,
        };
        below.push(match offset {
            0.0 => (*weight, loss_distribution::lower_bound(&cells)),
            _ => {
                (*weight, loss_distribution::lower_bound(&LossCells::new(pair, step, offset, tail)))
            }
        });
    }
    let lower = (direction == Direction::Remove).then(|| LossDistribution::from_mixture(below));
    (LossDistribution::from_mixture(above), lower)
}

/// Returns the smallest even length of the form 2^a or 3 2^a that is at least `points`.
fn even_length(points: usize) -> usize {
    let power = points.next_power_of_two();
    if power / 4 * 3 >= points { power / 4 * 3 } else { power }
}
