//! The lab's own CPU kernels: the few operations that decide how long a private step takes and
//! that Burn's CPU backend does value by value. The tests compare each with Burn's own.

mod columns;
mod conv;
mod ops;
pub(crate) mod pool;
pub(crate) mod product;
pub(crate) mod tanh;

pub(crate) use crate::device::vectorised;
pub use columns::Window;
pub(super) use columns::ones;
pub(super) use ops::{conv2d, max_pool, tanh};

/// λ and α of SELU (Klambauer et al., 2017, equation 14).
pub(crate) const SELU: [f64; 2] = [1.050_700_987_355_480_5, 1.673_263_242_354_377_3];
