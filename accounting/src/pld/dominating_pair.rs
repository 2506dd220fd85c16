//! Dominating pairs of distributions.

use crate::gdp::normal::{density, upper_tail};

/// A dominating pair (P, Q) of one release, in units of the noise: t = output / sigma.
///
/// For every data set, distinguishing two neighbours by the release is at most as easy as
/// distinguishing P from Q (Zhu, Dong, Wang: Optimal Accounting of Differential Privacy, 2022). The
/// privacy loss L(t) = ln P(t)/Q(t) increases with t.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct DominatingPair {
    pub kind: Kind,
    /// The sampling rate; 1 for a release without sampling.
    pub q: f64,
    /// Standard deviation of the noise, divided by the distance of the two components of P.
    pub sigma: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// P = (1-q) N(0, 1) + q N(1/sigma, 1), Q = N(0, 1): an example is added, removed or zeroed
    /// out; with q = 1 any Gaussian mechanism.
    OneSided,
    /// P = (1-q) N(0, 1) + q N(1/sigma, 1), Q = (1-q) N(0, 1) + q N(-1/sigma, 1): an example is
    /// replaced by one with the opposite contribution.
    TwoSided,
}

impl DominatingPair {
    /// Returns the distance of the two components of P, in units of the noise.
    pub fn shift(&self) -> f64 {
        1.0 / self.sigma
    }

    /// Returns whether exchanging P and Q only changes the sign of t.
    pub fn is_symmetric(&self) -> bool {
        self.kind == Kind::TwoSided || self.q >= 1.0
    }

    /// Returns the infimum of the privacy loss.
    pub fn min_loss(&self) -> f64 {
        match self.kind {
            Kind::OneSided => (-self.q).ln_1p(),
            Kind::TwoSided => f64::NEG_INFINITY,
        }
    }

    /// Computes the privacy loss at t.
    pub fn loss(&self, t: f64) -> f64 {
        let likelihood = |t: f64| (t - 0.5 * self.shift()) * self.shift();
        match self.kind {
            Kind::OneSided => ln_mixture(self.q, likelihood(t)),
            Kind::TwoSided => {
                ln_mixture(self.q, likelihood(t)) - ln_mixture(self.q, likelihood(-t))
            }
        }
    }

    /// Computes the t with privacy loss `loss`; minus infinity for a loss below
    /// [`DominatingPair::min_loss`].
    pub fn inverse_loss(&self, loss: f64) -> f64 {
        let (q, sigma) = (self.q, self.sigma);
        match self.kind {
            Kind::OneSided => {
                // e^L = 1 + q (e^l - 1) solved for l.
                let l = if loss < 30.0 {
                    let inner = loss.exp_m1() / q;
                    if inner <= -1.0 {
                        return f64::NEG_INFINITY;
                    }
                    inner.ln_1p()
                } else {
                    loss - q.ln() + (-(1.0 - q) * (-loss).exp()).ln_1p()
                };
                sigma * l + 0.5 / sigma
            }
            Kind::TwoSided => {
                // With y = e^(t / sigma), a = 1-q, b = q e^(-1 / 2 sigma^2): e^L = (a + b y) /
                // (a + b / y), a quadratic equation whose root is y = e^(L/2) e^asinh(c).
                let half = 0.5 * loss.abs();
                let ln_ratio = ((1.0 - q) / q).ln() + 0.5 / sigma / sigma;
                let ln_sinh =
                    if half < 20.0 { half.sinh().ln() } else { half - std::f64::consts::LN_2 };
                let ln_c = ln_ratio + ln_sinh;
                let asinh =
                    if ln_c < 300.0 { ln_c.exp().asinh() } else { ln_c + std::f64::consts::LN_2 };
                (half + asinh).copysign(loss) * sigma
            }
        }
    }

    /// Computes the density of P at t.
    pub fn density(&self, t: f64) -> f64 {
        (1.0 - self.q) * density(t) + self.q * density(t - self.shift())
    }

    /// Computes P(T < t) and Q(T < t).
    pub fn below(&self, t: f64) -> (f64, f64) {
        let (q, d) = (self.q, self.shift());
        let p = (1.0 - q) * normal_cdf(t) + q * normal_cdf(t - d);
        match self.kind {
            Kind::OneSided => (p, normal_cdf(t)),
            Kind::TwoSided => (p, (1.0 - q) * normal_cdf(t) + q * normal_cdf(t + d)),
        }
    }

    /// Computes P(T > t) and Q(T > t).
    pub fn above(&self, t: f64) -> (f64, f64) {
        let (q, d) = (self.q, self.shift());
        let p = (1.0 - q) * normal_cdf(-t) + q * normal_cdf(d - t);
        match self.kind {
            Kind::OneSided => (p, normal_cdf(-t)),
            Kind::TwoSided => (p, (1.0 - q) * normal_cdf(-t) + q * normal_cdf(-t - d)),
        }
    }

    /// Computes an interval of t such that P and Q each have at most `mass` on either side of it.
    pub fn support(&self, mass: f64) -> (f64, f64) {
        let (q, d) = (self.q, self.shift());
        let alone = upper_quantile_bound(0.5 * mass);
        let joined =
            if mass >= q { f64::NEG_INFINITY } else { d + upper_quantile_bound(0.5 * mass / q) };
        let high = alone.max(joined);
        match self.kind {
            Kind::OneSided => (-alone, high),
            Kind::TwoSided => (-high, high),
        }
    }

    /// Computes the length of the interval of losses outside of which there is at most `mass` on
    /// either side.
    pub fn range(&self, mass: f64) -> f64 {
        let (low, high) = self.support(mass);
        self.loss(high) - self.loss(low).max(self.min_loss())
    }
}

/// Computes ln((1-q) + q e^l).
fn ln_mixture(q: f64, l: f64) -> f64 {
    if l < 700.0 {
        let u = q * l.exp_m1();
        if u > -0.5 { u.ln_1p() } else { ((1.0 - q) + q * l.exp()).ln() }
    } else {
        q.ln() + l + ((1.0 - q) / q * (-l).exp()).ln_1p()
    }
}

/// Computes the standard normal distribution function, with full relative precision in its lower
/// tail.
pub(super) fn normal_cdf(t: f64) -> f64 {
    upper_tail(-t)
}

/// 1 / sqrt(2 pi).
pub(super) const INV_SQRT_2PI: f64 = 0.398_942_280_401_432_7;

/// Computes an upper bound on the normal quantile: a t with at most `mass` of the standard normal
/// distribution above it. From phi(-t) <= e^(-t^2/2) / 2.
fn upper_quantile_bound(mass: f64) -> f64 {
    if mass >= 0.5 { 0.0 } else { (-2.0 * (2.0 * mass).ln()).sqrt() }
}
