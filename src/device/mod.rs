//! Where numbers live and are worked on: the CPU, or a card.
//!
//! [`Place`] says which, [`Numbers`] holds numbers on either side, `kernels` are the lab's own
//! operations on a card (with the same operations on the CPU, which the tests compare them to).

pub(crate) mod host;
pub mod kernels;
mod numbers;
mod place;
mod reads;
mod room;
mod vectorised;

pub use numbers::Numbers;
pub use place::Place;
pub use reads::reads;
pub(crate) use room::made;
pub use room::room;
pub(crate) use vectorised::vectorised;
