//! Where numbers live and are worked on: the CPU, or a GPU.
//!
//! [`DeviceSpec`] says which, [`DeviceArray`] holds numbers on either side, `kernels` are the lab's own
//! operations on a GPU (with the same operations on the CPU, which the tests compare them to).

mod array;
mod backend_panic;
#[cfg(feature = "cuda")]
mod cuda;
pub(crate) mod host;
mod host_syncs;
mod installation;
pub mod kernels;
mod memory;
mod spec;
mod vectorised;

pub use array::DeviceArray;
pub use backend_panic::catch_backend_panic;
pub use host_syncs::host_syncs;
pub use installation::{CudaInstallation, Gpu};
pub use memory::memory_budget;
pub(crate) use memory::synchronize;
pub use spec::{DeviceSpec, VARIABLE};
pub(crate) use vectorised::vectorised;
