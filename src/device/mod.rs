//! Devices: the CPU or a GPU.
//!
//! [`DeviceSpec`] names a device, [`DeviceArray`] is an array on the host or on a device, and
//! [`kernels`] are the lab's own tensor operations for GPUs, each with a CPU version that tests
//! compare it with.

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
pub use spec::{DEVICE_VARIABLE, DeviceSpec};
pub(crate) use vectorised::vectorised;
