//! Custom CPU kernels for the operations that dominate the time of a private training step and
//! that Burn's CPU backend computes element by element. Tests compare each kernel with Burn's.

mod conv;
mod im2col;
mod ops;
pub(crate) mod pool;
pub(crate) mod product;
pub(crate) mod tanh;
mod window;

pub(crate) use crate::device::vectorised;
pub(crate) use im2col::Im2col;
pub(crate) use ops::record;
pub(super) use ops::{conv2d, max_pool, tanh};
pub use window::Window;
pub(super) use window::no_dilation;

/// The scale λ and the α of SELU (Klambauer et al., 2017, "Self-normalizing neural networks",
/// equation 14).
pub(crate) const SELU: [f64; 2] = [1.050_700_987_355_480_5, 1.673_263_242_354_377_3];
