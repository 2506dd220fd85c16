//! Devices: the CPU or a GPU.
//!
//! [`DeviceSpec`] names a device, [`DeviceArray`] is an array on the host or on a device, and
//! [`kernels`] are the lab's own tensor operations for GPUs, each with a CPU version that
//! tests compare it with.
//!
//! Begin with `spec`. The modules by subject:
//!
//! - devices: `spec`, `installation`, `cuda`, `probe`, `rehearsal`, `memory`;
//! - values: `array`, `host`, `host_syncs`;
//! - failures: `device_guard`, `failure_detection`;
//! - computation: `kernels` on GPUs, `simd` and `vectorised` on CPUs.

mod array;
#[cfg(feature = "cuda")]
mod cuda;
mod device_guard;
pub(crate) mod host;
mod host_syncs;
mod installation;
// Public for the tests on software GPUs.
mod failure_detection;
#[doc(hidden)]
pub mod kernels;
mod memory;
mod probe;
mod rehearsal;
pub(crate) mod simd;
mod spec;
mod vectorised;

pub use array::DeviceArray;
pub use device_guard::DeviceGuard;
pub(crate) use device_guard::{device_error, is_out_of_memory, panic_text};
pub(crate) use failure_detection::with_failure_detection;
pub use host_syncs::host_sync_count;
pub use installation::{CudaInstallation, Gpu};
pub(crate) use memory::memory_budget;
pub(crate) use memory::synchronize;
pub(crate) use probe::reprobe;
pub use rehearsal::{REHEARSAL_MARK, is_rehearsal, is_stub_device, with_rehearsal_mark};
pub use spec::{DEVICE_VARIABLE, DeviceSpec};
pub(crate) use vectorised::vectorised;
