//! Distributions of privacy losses on a grid, above and below the true one.

use super::cells::LossCells;

/// A distribution over the losses offset + (first + i) step, i = 0, 1, …, and infinity.
#[derive(Clone, Debug, Default)]
pub(super) struct LossDistribution {
    /// Width of the grid.
    pub step: f64,
    /// The loss from which the grid counts.
    pub offset: f64,
    /// Grid index of the first mass.
    pub first: i64,
    /// Masses; their sum may be below 1.
    pub mass: Vec<f64>,
    /// Mass at infinity.
    pub infinity: f64,
}

impl LossDistribution {
    /// A public coin chooses between releases with these probabilities: their losses mix.
    pub fn mixture_of(components: Vec<(f64, Self)>) -> Self {
        let first = components.iter().map(|(_, l)| l.first).min().unwrap_or(0);
        let end = components.iter().map(|(_, l)| l.first + l.mass.len() as i64).max().unwrap_or(0);
        let mut mixed = Self {
            step: components.first().map_or(0.0, |(_, l)| l.step),
            offset: components.first().map_or(0.0, |(_, l)| l.offset),
            first,
            mass: vec![0.0; (end - first) as usize],
            infinity: 0.0,
        };
        for (weight, losses) in components {
            let offset = (losses.first - first) as usize;
            for (to, from) in mixed.mass[offset..].iter_mut().zip(&losses.mass) {
                *to += weight * from;
            }
            mixed.infinity += weight * losses.infinity;
        }
        mixed
    }

    /// The losses of releasing nothing.
    pub fn no_release(step: f64) -> Self {
        Self { step, offset: 0.0, first: 0, mass: vec![1.0], infinity: 0.0 }
    }

    /// ln E[e^(theta loss)] of the finite losses.
    pub fn ln_moment(&self, theta: f64) -> f64 {
        // Horner's rule, beginning where the terms are small.
        let ratio = (-theta.abs() * self.step).exp();
        let sum = if theta >= 0.0 {
            self.mass.iter().fold(0.0, |sum, &m| sum * ratio + m)
        } else {
            self.mass.iter().rev().fold(0.0, |sum, &m| sum * ratio + m)
        };
        let end = if theta >= 0.0 { self.first + self.mass.len() as i64 - 1 } else { self.first };
        theta * (self.offset + end as f64 * self.step) + sum.ln()
    }
}

/// Connect the dots (Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022): each cell's mass goes to
/// its two ends so that P and Q keep their masses. delta(epsilon) then is exact on the grid and
/// a chord between two grid points, so it is nowhere too small; and a pair with a larger delta
/// everywhere stays above after composition.
///
/// The masses in direction `add` are those of `remove`, each times e^-loss and mirrored.
pub(super) fn upper_bound(cells: &LossCells) -> (LossDistribution, LossDistribution) {
    let step = cells.step;
    let whole = -(-step).exp_m1();
    let mut mass = vec![0.0; cells.p.len() + 1];
    for (i, (&p, &excess_mass)) in cells.p.iter().zip(&cells.excess_mass).enumerate() {
        let up = (excess_mass / whole).min(p);
        mass[i] += p - up;
        mass[i + 1] += up;
    }
    let last = cells.first + cells.p.len() as i64;
    let mut dual: Vec<f64> = mass
        .iter()
        .enumerate()
        .map(|(i, &m)| m * (-cells.loss_at(cells.first + i as i64)).exp())
        .collect();
    dual.reverse();
    // The tails: what lies below the grid is moved up to it, what lies above to infinity.
    mass[0] += cells.below.0;
    dual[0] += cells.above.1;
    (
        LossDistribution { step, offset: 0.0, first: cells.first, mass, infinity: cells.above.0 },
        LossDistribution { step, offset: 0.0, first: -last, mass: dual, infinity: cells.below.1 },
    )
}

/// The opposite: outcomes are put together so that on every grid point P is e^loss Q.
///
/// Putting outcomes together is something an attacker could do to himself, so delta can only
/// fall, also after composition; and what lies below the grid is left out. Going up, what is left
/// of a cell waits on its upper end until so much of the cells above was added that the balance
/// is reached; the rest of the last of them waits on the next grid point.
pub(super) fn lower_bound(cells: &LossCells) -> LossDistribution {
    let (step, n) = (cells.step, cells.p.len());
    let mut mass = vec![0.0; n + 1];
    let mut pending: Option<Pending> = None;
    // A grid with an offset begins with a cell that is in balance by itself.
    let balanced = usize::from(cells.offset != 0.0);
    mass[0] += cells.p[..balanced].iter().sum::<f64>();
    for (i, (&p, &excess_mass)) in cells.p.iter().zip(&cells.excess_mass).enumerate().skip(balanced)
    {
        let mut share = 1.0;
        if let Some(group) = &mut pending {
            // P - e^loss Q of this cell, for the loss on which the others wait.
            let shrink = (-((i - group.on) as f64) * step).exp();
            let excess = p * (1.0 - shrink) + shrink * excess_mass;
            // A hair more than balance, so that rounding does not tip it.
            let needed = group.deficit * (1.0 + 1e-9);
            if excess <= needed {
                group.p += p;
                group.deficit -= excess;
                continue;
            }
            share -= needed / excess;
            mass[group.on] += group.p + (1.0 - share) * p;
        }
        // e^(loss + step) Q - P: how far the cell lies below its upper end.
        let fall = (p * step.exp_m1() - step.exp() * excess_mass).max(0.0);
        pending = Some(Pending { on: i + 1, p: share * p, deficit: share * fall });
    }
    // Nothing is left above to balance the last: it goes down to where its losses begin.
    if let Some(group) = pending {
        mass[group.on - 1] += group.p;
    }
    mass[n] += cells.above.0;
    LossDistribution { step, offset: cells.offset, first: cells.first, mass, infinity: 0.0 }
}

/// Outcomes that wait on a grid point for others with larger losses.
struct Pending {
    on: usize,
    p: f64,
    /// e^loss Q - P of them.
    deficit: f64,
}
