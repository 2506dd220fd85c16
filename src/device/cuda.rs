//! Looking for CUDA: the driver and NVRTC are opened when the program runs, never linked.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::path::{Path, PathBuf};

use super::installation::{CudaInstallation, Gpu, Version};

/// Looks for driver, GPUs, NVRTC and headers.
pub(super) fn look() -> CudaInstallation {
    let (driver, gpus) = Library::open("libcuda.so.1")
        .or_else(|| Library::open("libcuda.so"))
        .and_then(|library| driver(&library))
        .unwrap_or_default();
    CudaInstallation {
        built: true,
        driver: (driver > (0, 0)).then_some(driver),
        nvrtc: nvrtc(),
        headers: folders().into_iter().map(|f| f.join("include")).find(has_headers),
        gpus,
    }
}

/// What the driver says of itself and of the GPUs.
fn driver(library: &Library) -> Option<(Version, Vec<Gpu>)> {
    type Init = unsafe extern "C" fn(c_uint) -> c_int;
    type Number = unsafe extern "C" fn(*mut c_int) -> c_int;
    type Get = unsafe extern "C" fn(*mut c_int, c_int) -> c_int;
    type Name = unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int;
    type Memory = unsafe extern "C" fn(*mut usize, c_int) -> c_int;
    // SAFETY: the types are those of the driver's interface, which has not changed since CUDA 4;
    // every pointer is to a place on this stack that outlives the call.
    unsafe {
        let init: Init = library.function(c"cuInit")?;
        let version: Number = library.function(c"cuDriverGetVersion")?;
        let count: Number = library.function(c"cuDeviceGetCount")?;
        let get: Get = library.function(c"cuDeviceGet")?;
        let name: Name = library.function(c"cuDeviceGetName")?;
        let memory: Memory = library.function(c"cuDeviceTotalMem_v2")?;
        let (mut number, mut gpus) = (0, 0);
        version(&mut number);
        let version = ((number / 1000) as u32, (number % 1000 / 10) as u32);
        // A driver without any GPU to drive refuses here.
        if init(0) != 0 || count(&mut gpus) != 0 {
            return Some((version, Vec::new()));
        }
        let gpu = |i| {
            let (mut device, mut bytes, mut text) = (0, 0, [0; 256]);
            let fine = get(&mut device, i) == 0
                && name(text.as_mut_ptr(), 255, device) == 0
                && memory(&mut bytes, device) == 0;
            let name = CStr::from_ptr(text.as_ptr()).to_string_lossy().into_owned();
            fine.then_some(Gpu { name, memory: bytes as u64 })
        };
        Some((version, (0..gpus).filter_map(gpu).collect()))
    }
}

/// The version of NVRTC. One that only lies in CUDA's folder is opened here by its path: the loader
/// then finds it by name when the kernels ask for it.
fn nvrtc() -> Option<Version> {
    let names = ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"];
    let library = names.iter().find_map(|name| Library::open(name)).or_else(|| {
        let mut paths = library_folders().into_iter().flat_map(|f| names.map(|name| f.join(name)));
        paths.find_map(|path| path.exists().then(|| Library::open(path.to_str()?)).flatten())
    })?;
    type Numbers = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the type is that of NVRTC's interface; both pointers are to places on this stack.
    unsafe {
        let version: Numbers = library.function(c"nvrtcVersion")?;
        (version(&mut major, &mut minor) == 0).then_some((major as u32, minor as u32))
    }
}

/// Where CUDA may be installed: the folders that Burn's backend looks into, in its order.
fn folders() -> Vec<PathBuf> {
    match std::env::var_os("CUDA_PATH") {
        Some(path) => vec![path.into()],
        None => {
            let usual = ["/usr/local/cuda", "/opt/cuda"].map(PathBuf::from);
            let found = usual.into_iter().find(|folder| folder.exists());
            let system = || Path::new("/usr/bin/nvcc").exists().then(|| PathBuf::from("/usr"));
            found.or_else(system).into_iter().collect()
        }
    }
}

fn has_headers(folder: &PathBuf) -> bool {
    folder.join("cuda_fp16.h").exists()
}

/// Folders of libraries in and beside these: the wheels of CUDA 12 are one folder per part.
fn library_folders() -> Vec<PathBuf> {
    let beside = |folder: &Path| Some(folder.parent()?.join("cuda_nvrtc"));
    let all = folders().into_iter().flat_map(|folder| [beside(&folder), Some(folder)]).flatten();
    all.flat_map(|folder| [folder.join("lib64"), folder.join("lib")]).collect()
}

/// A library that stays open as long as the program runs.
struct Library(*mut c_void);

impl Library {
    fn open(name: &str) -> Option<Self> {
        let name = CString::new(name).ok()?;
        // SAFETY: the name is a C string; opening CUDA's libraries runs nothing but their own
        // start-up code.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        (!handle.is_null()).then_some(Self(handle))
    }

    /// # Safety
    /// `F` must be the type of the function of this name.
    unsafe fn function<F: Copy>(&self, name: &CStr) -> Option<F> {
        // SAFETY: the handle is that of an open library.
        let function = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        if function.is_null() {
            return None;
        }
        assert_eq!(size_of::<F>(), size_of::<*mut c_void>(), "F is a function pointer");
        // SAFETY: as promised by the caller; pointers to data and functions are of one size here.
        Some(unsafe { std::mem::transmute_copy(&function) })
    }
}
