//! Conversion of Rényi divergences to (epsilon, delta).

/// Conversion of a Rényi divergence R of order alpha to an epsilon at a given delta.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Conversion {
    /// R + ln(1 - 1/alpha) - ln(alpha delta) / (alpha - 1) (Canonne, Kamath, Steinke: The Discrete
    /// Gaussian for Differential Privacy, 2020, Proposition 12; also Asoodeh et al. 2020).
    #[default]
    Improved,
    /// R + ln(1/delta) / (alpha - 1) (Mironov: Rényi Differential Privacy, 2017, Proposition 3). It
    /// is never smaller and reproduces older results.
    Classic,
}

impl Conversion {
    /// Computes the term that the conversion adds to the Rényi divergence of order `order`.
    pub(crate) fn epsilon_offset(self, order: f64, delta: f64) -> f64 {
        match self {
            Conversion::Improved => {
                (-1.0 / order).ln_1p() - (delta.ln() + order.ln()) / (order - 1.0)
            }
            Conversion::Classic => -delta.ln() / (order - 1.0),
        }
    }
}
