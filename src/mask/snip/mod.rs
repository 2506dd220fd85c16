//! SNIP (Lee, Ajanthan and Torr, "SNIP: single-shot network pruning based on connection
//! sensitivity", 2019), non-private ([`Snip`]) and differentially private ([`DpSnip`]).
//!
//! With an indicator c_j that multiplies weight θ_j, the connection sensitivity of example i is
//! ∂L_i/∂c_j = θ_j ∂L_i/∂θ_j at c = 1. It is a per-example gradient, so the executors can clip it:
//! with squared parameters as [`CoordinateWeights`](crate::engine::CoordinateWeights), the weighted
//! norm of the gradient is the norm of the connection sensitivities.

mod dp_snip;
mod noise_spec;
mod non_private;
mod sensitivities;

pub use dp_snip::DpSnip;
pub use non_private::Snip;
pub(crate) use sensitivities::check_model_and_examples;

#[cfg(test)]
mod tests;
