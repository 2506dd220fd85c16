//! Partition of the privacy losses into cells of equal width.

use super::dominating_pair::{DominatingPair, INV_SQRT_2PI, Kind, normal_cdf};
use crate::bisection::bisect;
use crate::gdp::normal::density;

/// Mass of P in each cell, and its excess over and deficit from balance with Q. Cell k holds losses
/// from offset + k step to the next.
#[derive(Clone, Debug)]
pub(super) struct LossCells {
    /// Width of a cell.
    pub step: f64,
    /// Loss at the lower end of cell 0.
    pub offset: f64,
    /// Index k of the first cell.
    pub first: i64,
    /// Mass of P in each cell.
    pub p: Vec<f64>,
    /// P - e^(k step) Q of each cell, never negative: the excess of P over balance at the cell's
    /// lower end. Computed without cancellation.
    pub excess_mass: Vec<f64>,
    /// e^((k + 1) step) Q - P of each cell, never negative: the deficit of P from balance at the
    /// cell's upper end. For the cell that ends at loss 0, computed without cancellation: at small
    /// sampling rates it holds nearly all mass.
    pub deficit: Vec<f64>,
    /// (P, Q) of all losses below the first cell.
    pub below: (f64, f64),
    /// (P, Q) of all losses above the last cell.
    pub above: (f64, f64),
}

impl LossCells {
    /// Creates the cells of a pair. They hold all but `mass` on either side.
    ///
    /// With an `offset` from [`balanced_offset`] the first cell is cell 0 and holds everything
    /// below its upper end.
    pub fn new(pair: &DominatingPair, step: f64, offset: f64, mass: f64) -> Self {
        let (low, high) = pair.support(mass);
        let index = |loss: f64| (loss - offset) / step;
        // The smallest loss falls into the first cell.
        let least = pair.loss(low).max(pair.min_loss());
        let first = if offset == 0.0 { index(least).floor() as i64 } else { 0 };
        let end = (index(pair.loss(high)).ceil() as i64).max(first + 1);
        let count = (end - first) as usize;
        let (mut p, mut excess_mass) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let mut deficit = Vec::with_capacity(count);
        let at = |k: i64| offset + k as f64 * step;
        let mut from = if offset == 0.0 { pair.inverse_loss(at(first)) } else { f64::NEG_INFINITY };
        let below = if from == f64::NEG_INFINITY { (0.0, 0.0) } else { pair.below(from) };
        for k in first..end {
            let to = pair.inverse_loss(at(k + 1));
            let (mass, excess) = if from == f64::NEG_INFINITY {
                integrate_lower_tail(pair, at(k), to)
            } else {
                integrate(pair, from, to)
            };
            let excess = excess.clamp(0.0, mass * -(-step).exp_m1());
            let loss_is_zero = offset == 0.0 && k == -1;
            let fall = match pair.kind {
                Kind::OneSided if loss_is_zero => balance_deficit(pair, from, to),
                _ => mass * step.exp_m1() - step.exp() * excess,
            };
            p.push(mass);
            excess_mass.push(excess);
            deficit.push(fall.clamp(0.0, mass * step.exp_m1()));
            from = to;
        }
        // The pair is the same with P and Q exchanged and t mirrored.
        if pair.kind == Kind::TwoSided && offset == 0.0 && first < 0 && end > 0 {
            deficit[(-1 - first) as usize] = excess_mass[-first as usize];
        }
        Self { step, offset, first, p, excess_mass, deficit, below, above: pair.above(from) }
    }

    /// Computes the loss at the lower end of cell `index`.
    pub fn loss_at(&self, index: i64) -> f64 {
        self.offset + index as f64 * self.step
    }
}

/// Computes the loss at which everything up to one `step` above it balances (P = e^loss Q), for a
/// pair whose losses concentrate near the smallest one; 0 for other pairs.
pub(super) fn balanced_offset(pair: &DominatingPair, step: f64, mass: f64) -> f64 {
    let least = pair.min_loss();
    if pair.loss(pair.support(mass).0) > least + step {
        return 0.0;
    }
    let lies_above =
        |loss: f64| integrate_lower_tail(pair, loss, pair.inverse_loss(loss + step)).1 >= 0.0;
    let above = least + step;
    if lies_above(above) {
        return 0.0;
    }
    bisect((least, above), 60, lies_above)
}

/// Computes (P, P - e^loss Q) of everything below t.
fn integrate_lower_tail(pair: &DominatingPair, loss: f64, t: f64) -> (f64, f64) {
    // With R the mass of the shifted component, P = (1-q) Q + q R.
    let ((p, q_mass), r) = (pair.below(t), normal_cdf(t - pair.shift()));
    (p, pair.q * r - (loss.exp_m1() + pair.q) * q_mass)
}

/// Computes Q - P of an interval of a one-sided pair, without cancellation where it holds nearly
/// all mass.
fn balance_deficit(pair: &DominatingPair, from: f64, to: f64) -> f64 {
    let d = pair.shift();
    let between = |from: f64, to: f64| {
        if from == f64::NEG_INFINITY { normal_cdf(to) } else { normal_cdf(to) - normal_cdf(from) }
    };
    pair.q * (between(from, to) - between(from - d, to - d))
}

/// Distance at which the standard normal density is 0 in f64.
const MAX_DEVIATIONS: f64 = 40.0;

/// Computes (P, P - e^loss(from) Q) of the interval, by Gauss-Legendre quadrature.
///
/// P = e^loss Q holds at the lower end. With h the distance from it, the integrand of the second is
/// q N(t; d) (1 - e^(-h d)). For two-sided pairs q e^loss N(t; -d) (e^(h d) - 1) is added. The
/// relative error is below 1e-12.
fn integrate(pair: &DominatingPair, from: f64, to: f64) -> (f64, f64) {
    let (q, d) = (pair.q, pair.shift());
    let loss = match pair.kind {
        Kind::OneSided => None,
        Kind::TwoSided => Some(pair.loss(from)),
    };
    // Beyond this interval every density is 0 in f64. On a grid that suits other components, the
    // cells of a release with much noise can reach a thousand times further.
    let (start, end) = (from.max(-d - MAX_DEVIATIONS), to.min(d + MAX_DEVIATIONS));
    if start >= end {
        return (0.0, 0.0);
    }
    let width = end - start;
    let scale = start.abs().max(end.abs()) + 1.0 + d;
    let (nodes, pieces): (&[(f64, f64)], usize) = match width * scale {
        small if small < 0.005 => (&GAUSS_LEGENDRE_2, 1),
        medium if medium < 0.1 => (&GAUSS_LEGENDRE_3, 1),
        large => (&GAUSS_LEGENDRE_6, large.ceil() as usize),
    };
    let piece = width / pieces as f64;
    let (mut mass, mut excess_mass) = (0.0, 0.0);
    for i in 0..pieces {
        for &(x, weight) in nodes {
            let along = piece * (i as f64 + x);
            let (t, w) = (start + along, weight * piece);
            let h = start - from + along;
            let shifted = w * q * density(t - d);
            let grown = -(-h * d).exp_m1();
            mass += (1.0 - q) * w * density(t) + shifted;
            excess_mass += shifted * grown;
            if let Some(loss) = loss {
                let other = t + d;
                excess_mass +=
                    w * q * INV_SQRT_2PI * (loss + h * d - 0.5 * other * other).exp() * grown;
            }
        }
    }
    (mass, excess_mass)
}

/// Gauss-Legendre nodes and weights on (0, 1).
const GAUSS_LEGENDRE_2: [(f64, f64); 2] =
    [(0.211_324_865_405_187_13, 0.5), (0.788_675_134_594_812_9, 0.5)];
const GAUSS_LEGENDRE_3: [(f64, f64); 3] = [
    (0.112_701_665_379_258_31, 5.0 / 18.0),
    (0.5, 8.0 / 18.0),
    (0.887_298_334_620_741_7, 5.0 / 18.0),
];
const GAUSS_LEGENDRE_6: [(f64, f64); 6] = [
    (0.033_765_242_898_423_99, 0.085_662_246_189_585_17),
    (0.169_395_306_766_867_74, 0.180_380_786_524_069_3),
    (0.380_690_406_958_401_55, 0.233_956_967_286_345_52),
    (0.619_309_593_041_598_4, 0.233_956_967_286_345_52),
    (0.830_604_693_233_132_3, 0.180_380_786_524_069_3),
    (0.966_234_757_101_576, 0.085_662_246_189_585_17),
];
