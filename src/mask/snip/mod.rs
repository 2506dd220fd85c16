//! SNIP: keep the weights whose removal would change the loss most (Lee, Ajanthan and Torr,
//! 2019), without privacy ([`Snip`]) and with it ([`DpSnip`]).
//!
//! With a switch c_j on every weight, the connection sensitivity of example i is
//! ∂L_i/∂c_j = θ_j ∂L_i/∂θ_j where all switches are on. It is a gradient per example like any
//! other, so the executors clip it: squared parameters as [`Weights`](crate::engine::Weights)
//! make its norm the one that counts.

mod noise;
mod plain;
mod private;
mod sensitivities;

pub use plain::Snip;
pub use private::DpSnip;
pub(crate) use sensitivities::check;

#[cfg(test)]
mod tests;
