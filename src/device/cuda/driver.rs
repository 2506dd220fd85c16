//! The CUDA driver and its GPUs.

use std::ffi::{CStr, c_char, c_int, c_uint};

use super::library::Library;
use crate::device::installation::{Gpu, Version};

/// CUDA driver of this machine.
pub(super) struct Driver {
    /// Newest CUDA version that the driver supports.
    pub(super) version: Version,
    /// GPUs of the driver, in CUDA's order; none if the driver fails to initialise.
    pub(super) gpus: Vec<Gpu>,
    /// The compute capability of the first GPU, such as 90 for 9.0.
    pub(super) architecture: Option<u32>,
}

type GetInt = unsafe extern "C" fn(*mut c_int) -> c_int;
type Init = unsafe extern "C" fn(c_uint) -> c_int;
type GetDevice = unsafe extern "C" fn(*mut c_int, c_int) -> c_int;
type GetName = unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int;
type GetMemory = unsafe extern "C" fn(*mut usize, c_int) -> c_int;
type GetAttribute = unsafe extern "C" fn(*mut c_int, c_int, c_int) -> c_int;

/// Attributes of the compute capability: `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR` and
/// `_MINOR`.
const COMPUTE_CAPABILITY: [c_int; 2] = [75, 76];

/// Queries the driver; `None` if there is none.
pub(super) fn query() -> Option<Driver> {
    let library = Library::open("libcuda.so.1").or_else(|| Library::open("libcuda.so"))?;
    // SAFETY: the types are those of the driver API, which has not changed since CUDA 4; every
    // pointer is to a local variable that outlives the call.
    unsafe {
        let init: Init = library.function(c"cuInit")?;
        let version: GetInt = library.function(c"cuDriverGetVersion")?;
        let count: GetInt = library.function(c"cuDeviceGetCount")?;
        let get_device: GetDevice = library.function(c"cuDeviceGet")?;
        let get_name: GetName = library.function(c"cuDeviceGetName")?;
        let get_memory: GetMemory = library.function(c"cuDeviceTotalMem_v2")?;
        let get_attribute: GetAttribute = library.function(c"cuDeviceGetAttribute")?;
        let (mut number, mut gpus) = (0, 0);
        if version(&mut number) != 0 || number <= 0 {
            return None;
        }
        let version = ((number / 1000) as u32, (number % 1000 / 10) as u32);
        // Without a GPU, initialisation fails.
        if init(0) != 0 || count(&mut gpus) != 0 {
            return Some(Driver { version, gpus: Vec::new(), architecture: None });
        }
        let gpu = |i| {
            let (mut device, mut bytes, mut name) = (0, 0, [0; 256]);
            let succeeded = get_device(&mut device, i) == 0
                && get_name(name.as_mut_ptr(), 255, device) == 0
                && get_memory(&mut bytes, device) == 0;
            let name = CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned();
            succeeded.then_some(Gpu { name, memory: bytes as u64 })
        };
        let gpus = (0..gpus).filter_map(gpu).collect();
        let (mut device, mut capability) = (0, [0; 2]);
        let known = get_device(&mut device, 0) == 0
            && COMPUTE_CAPABILITY
                .iter()
                .zip(&mut capability)
                .all(|(attribute, value)| get_attribute(value, *attribute, device) == 0);
        let architecture = known.then_some((10 * capability[0] + capability[1]) as u32);
        Some(Driver { version, gpus, architecture })
    }
}
