//! Where numbers live and are worked on: the CPU, or a card.
//!
//! [`Place`] says which, [`Numbers`] holds numbers on either side, `kernels` are the lab's own
//! operations on a card (with the same operations on the CPU, which the tests compare them to).

#[cfg(feature = "cuda")]
mod cuda;
mod found;
mod guard;
pub(crate) mod host;
pub mod kernels;
mod numbers;
mod place;
mod reads;
mod room;
mod vectorised;

pub use found::{Card, Found};
pub use guard::guarded;
pub use numbers::Numbers;
pub use place::{Place, VARIABLE};
pub use reads::reads;
pub(crate) use room::made;
pub use room::room;
pub(crate) use vectorised::vectorised;
