//! Discretised privacy loss distributions: upper and lower bounds.

use super::cells::LossCells;

/// A distribution over the losses offset + (first + i) step, i = 0, 1, …, and infinity.
#[derive(Clone, Debug, Default)]
pub(super) struct LossDistribution {
    /// Width of the grid.
    pub step: f64,
    /// Loss at grid index 0.
    pub offset: f64,
    /// Grid index of the first mass.
    pub first: i64,
    /// Masses. Together with the mass at infinity and the dropped mass they are 1.
    pub mass: Vec<f64>,
    /// Mass at infinity.
    pub infinity: f64,
    /// Mass that a lower bound leaves out.
    pub dropped: f64,
}

impl LossDistribution {
    /// Creates the mixture of loss distributions with the given weights, chosen independently of
    /// the data.
    pub fn from_mixture(components: Vec<(f64, Self)>) -> Self {
        let first = components.iter().map(|(_, l)| l.first).min().unwrap_or(0);
        let end = components.iter().map(|(_, l)| l.first + l.mass.len() as i64).max().unwrap_or(0);
        let mut mixed = Self {
            step: components.first().map_or(0.0, |(_, l)| l.step),
            offset: components.first().map_or(0.0, |(_, l)| l.offset),
            first,
            mass: vec![0.0; (end - first) as usize],
            infinity: 0.0,
            dropped: 0.0,
        };
        for (weight, losses) in components {
            let offset = (losses.first - first) as usize;
            for (to, from) in mixed.mass[offset..].iter_mut().zip(&losses.mass) {
                *to += weight * from;
            }
            mixed.infinity += weight * losses.infinity;
            mixed.dropped += weight * losses.dropped;
        }
        mixed
    }

    /// Creates the loss distribution of releasing nothing.
    pub fn no_release(step: f64) -> Self {
        Self { step, mass: vec![1.0], ..Self::default() }
    }

    /// Returns the position in `mass` of grid index 0, if it has more than half of all mass, as at
    /// small sampling rates. What such a release adds to a sum is computed from the other masses
    /// alone: that of index 0 is 1 less the others, and rounding its f64 would matter in many
    /// releases.
    pub fn bulk_position(&self) -> Option<usize> {
        let position = usize::try_from(-self.first).ok()?;
        self.mass.get(position).is_some_and(|&mass| mass > 0.5).then_some(position)
    }

    /// Computes ln E[e^(theta loss)] of the finite losses.
    pub fn ln_moment(&self, theta: f64) -> f64 {
        let tilt = theta * self.step;
        let at_zero = theta * self.offset;
        let full_sum = || at_zero + ln_sum(&self.mass, self.first, tilt);
        let Some(bulk) = self.bulk_position() else { return full_sum() };
        let others = |tilt: f64| {
            ln_sum(&self.mass[..bulk], self.first, tilt).exp()
                + ln_sum(&self.mass[bulk + 1..], 1, tilt).exp()
        };
        let growth = others(tilt) - others(0.0) - self.infinity - self.dropped;
        // Infinite where the tilt is too large for numbers.
        if growth.is_finite() { at_zero + growth.ln_1p() } else { full_sum() }
    }
}

/// Computes ln of the sum of masses times e^(tilt index), where `first` is the index of the first.
fn ln_sum(mass: &[f64], first: i64, tilt: f64) -> f64 {
    // Horner's rule, starting with the small terms.
    let ratio = (-tilt.abs()).exp();
    let add = |sum: f64, mass: &f64| sum * ratio + mass;
    let (end, sum) = if tilt >= 0.0 {
        (first + mass.len() as i64 - 1, mass.iter().fold(0.0, add))
    } else {
        (first, mass.iter().rev().fold(0.0, add))
    };
    tilt * end as f64 + sum.ln()
}

/// Computes the upper bound by connecting the dots (Doroshenko, Ghazi, Kamath, Kumar, Manurangsi
/// 2022), for the directions `remove` and `add`.
///
/// Each cell's mass is split between its two ends so that P and Q keep their masses. delta(epsilon)
/// is then exact on the grid and linear in e^epsilon between grid points, so it is never too small.
/// A pair with a larger delta at every epsilon stays larger under composition.
///
/// The masses in direction `add` are those of `remove`, each times e^-loss and mirrored.
pub(super) fn upper_bound(cells: &LossCells) -> (LossDistribution, LossDistribution) {
    let step = cells.step;
    let step_factor = -(-step).exp_m1();
    let mut mass = vec![0.0; cells.p.len() + 1];
    for (i, (&p, &excess_mass)) in cells.p.iter().zip(&cells.excess_mass).enumerate() {
        mass[i] += (cells.deficit[i] / step.exp_m1()).min(p);
        mass[i + 1] += (excess_mass / step_factor).min(p);
    }
    let last = cells.first + cells.p.len() as i64;
    let mut dual: Vec<f64> = mass
        .iter()
        .enumerate()
        .map(|(i, &m)| m * (-cells.loss_at(cells.first + i as i64)).exp())
        .collect();
    dual.reverse();
    // Tails: mass below the grid moves up to its first point, mass above it to infinity.
    mass[0] += cells.below.0;
    dual[0] += cells.above.1;
    let with = |first: i64, mass: Vec<f64>, infinity: f64| LossDistribution {
        step,
        first,
        mass,
        infinity,
        ..LossDistribution::default()
    };
    (with(cells.first, mass, cells.above.0), with(-last, dual, cells.below.1))
}

/// Computes the lower bound: outcomes are merged so that P = e^loss Q on every grid point.
///
/// Merging outcomes is post-processing, so delta can only decrease, also under composition. Mass
/// below the grid is dropped. The cells are processed upwards. The remainder of a cell is pending
/// on its upper end until enough mass of higher cells is merged with it to reach balance. The
/// remainder of the last of these cells becomes pending on the next grid point.
pub(super) fn lower_bound(cells: &LossCells) -> LossDistribution {
    let (step, n) = (cells.step, cells.p.len());
    let mut mass = vec![0.0; n + 1];
    let mut pending: Option<Pending> = None;
    // With an offset the first cell is balanced by itself.
    let balanced = usize::from(cells.offset != 0.0);
    mass[0] += cells.p[..balanced].iter().sum::<f64>();
    for (i, (&p, &excess_mass)) in cells.p.iter().zip(&cells.excess_mass).enumerate().skip(balanced)
    {
        let mut share = 1.0;
        if let Some(group) = &mut pending {
            // P - e^loss Q of this cell, at the loss of the pending outcomes.
            let shrink = (-((i - group.on) as f64) * step).exp();
            let excess = p * (1.0 - shrink) + shrink * excess_mass;
            // Slightly more than balance, to be safe under rounding.
            let needed = group.deficit * (1.0 + 1e-9);
            if excess <= needed {
                group.p += p;
                group.deficit -= excess;
                continue;
            }
            share -= needed / excess;
            mass[group.on] += group.p + (1.0 - share) * p;
        }
        pending = Some(Pending { on: i + 1, p: share * p, deficit: share * cells.deficit[i] });
    }
    // No higher cell can balance the last pending outcomes: they move down one grid point.
    if let Some(group) = pending {
        mass[group.on - 1] += group.p;
    }
    mass[n] += cells.above.0;
    let (offset, first, dropped) = (cells.offset, cells.first, cells.below.0);
    LossDistribution { step, offset, first, mass, infinity: 0.0, dropped }
}

/// Outcomes pending on a grid point until outcomes with larger losses are merged with them.
struct Pending {
    on: usize,
    p: f64,
    /// Their e^loss Q - P at that grid point.
    deficit: f64,
}
