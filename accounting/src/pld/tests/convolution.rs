//! Reference for compositions: plain convolution on a grid.

use std::collections::BTreeMap;

/// A mixture of Gaussians of equal width: (weight, centre).
pub(super) type Mixture = Vec<(f64, f64)>;

/// Maximum number of points of a sum. Mass above them counts as infinite loss.
const MAX_POINTS: usize = 12_000;

/// Masses at multiples of a step; the index of the first is `first`.
struct Line {
    first: i64,
    mass: Vec<f64>,
    infinity: f64,
}

impl Line {
    fn plus(&self, other: &Self) -> Self {
        let mut mass = vec![0.0; self.mass.len() + other.mass.len() - 1];
        for (i, a) in self.mass.iter().enumerate().filter(|(_, a)| **a > 1e-22) {
            mass[i..].iter_mut().zip(&other.mass).for_each(|(to, b)| *to += a * b);
        }
        let beyond: f64 = mass.iter().skip(MAX_POINTS).sum();
        mass.truncate(MAX_POINTS);
        let infinity = self.infinity + other.infinity + beyond;
        Self { first: self.first + other.first, mass, infinity }
    }
}

/// Computes the losses of one output of `p` against `q`, split between the two nearest multiples.
fn one_composition(p: &Mixture, q: &Mixture, sigma: f64, step: f64) -> Line {
    let density = |mixture: &Mixture, x: f64| -> f64 {
        mixture.iter().map(|&(w, at)| w * (-0.5 * ((x - at) / sigma).powi(2)).exp()).sum()
    };
    let centres = || p.iter().chain(q).map(|m| m.1);
    let low = centres().fold(f64::INFINITY, f64::min) - 10.0 * sigma;
    let high = centres().fold(f64::NEG_INFINITY, f64::max) + 10.0 * sigma;
    let h = sigma / 200.0;
    let mut masses = BTreeMap::<i64, f64>::new();
    for i in 0..((high - low) / h) as u64 {
        let x = low + i as f64 * h;
        let mass = density(p, x) * h / (sigma * (2.0 * std::f64::consts::PI).sqrt());
        if mass > 1e-18 {
            let at = (density(p, x) / density(q, x)).ln() / step;
            let up = at - at.floor();
            *masses.entry(at.floor() as i64).or_default() += mass * (1.0 - up);
            *masses.entry(at.floor() as i64 + 1).or_default() += mass * up;
        }
    }
    let (first, last) = (*masses.keys().next().unwrap(), *masses.keys().next_back().unwrap());
    let mass = (first..=last).map(|k| masses.get(&k).copied().unwrap_or(0.0)).collect();
    Line { first, mass, infinity: 0.0 }
}

/// Epsilon of `steps` independent outputs of `p` against as many of `q`, by plain convolution on a
/// grid of this step.
pub(super) fn epsilon_between(
    (p, q): (&Mixture, &Mixture),
    sigma: f64,
    steps: u32,
    delta: f64,
    step: f64,
) -> f64 {
    let mut sum = Line { first: 0, mass: vec![1.0], infinity: 0.0 };
    let (mut power, mut left) = (one_composition(p, q, sigma, step), steps);
    while left > 0 {
        if left % 2 == 1 {
            sum = sum.plus(&power);
        }
        left /= 2;
        if left > 0 {
            power = power.plus(&power);
        }
    }
    let delta_at = |epsilon: f64| -> f64 {
        let losses = (sum.first..).map(|k| k as f64 * step).zip(&sum.mass);
        let finite = losses.filter(|(loss, _)| *loss > epsilon);
        finite.map(|(loss, m)| -m * (epsilon - loss).exp_m1()).sum::<f64>() + sum.infinity
    };
    let (mut low, mut high) = (0.0, 100.0);
    for _ in 0..50 {
        let middle = 0.5 * (low + high);
        if delta_at(middle) > delta { low = middle } else { high = middle }
    }
    high
}
