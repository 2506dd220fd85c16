//! Detection of CUDA: the driver and NVRTC are opened at run time, never linked.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::path::{Path, PathBuf};

use super::installation::{CudaInstallation, Gpu, Version};

/// Looks for the driver, GPUs, NVRTC and headers.
pub(super) fn detect() -> CudaInstallation {
    let (driver, gpus) = Library::open("libcuda.so.1")
        .or_else(|| Library::open("libcuda.so"))
        .and_then(|library| query_driver(&library))
        .unwrap_or_default();
    CudaInstallation {
        compiled_in: true,
        driver: (driver > (0, 0)).then_some(driver),
        nvrtc: nvrtc_version(),
        headers: cuda_folders().into_iter().map(|f| f.join("include")).find(has_headers),
        gpus,
    }
}

/// The CUDA version of the driver and the GPUs that it lists.
fn query_driver(library: &Library) -> Option<(Version, Vec<Gpu>)> {
    type Init = unsafe extern "C" fn(c_uint) -> c_int;
    type GetInt = unsafe extern "C" fn(*mut c_int) -> c_int;
    type GetDevice = unsafe extern "C" fn(*mut c_int, c_int) -> c_int;
    type GetName = unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int;
    type GetMemory = unsafe extern "C" fn(*mut usize, c_int) -> c_int;
    // SAFETY: the types are those of the driver API, which has not changed since CUDA 4; every
    // pointer is to a local variable that outlives the call.
    unsafe {
        let init: Init = library.function(c"cuInit")?;
        let version: GetInt = library.function(c"cuDriverGetVersion")?;
        let count: GetInt = library.function(c"cuDeviceGetCount")?;
        let get_device: GetDevice = library.function(c"cuDeviceGet")?;
        let get_name: GetName = library.function(c"cuDeviceGetName")?;
        let get_memory: GetMemory = library.function(c"cuDeviceTotalMem_v2")?;
        let (mut number, mut gpus) = (0, 0);
        version(&mut number);
        let version = ((number / 1000) as u32, (number % 1000 / 10) as u32);
        // Without a GPU, initialisation fails.
        if init(0) != 0 || count(&mut gpus) != 0 {
            return Some((version, Vec::new()));
        }
        let gpu = |i| {
            let (mut device, mut bytes, mut name) = (0, 0, [0; 256]);
            let succeeded = get_device(&mut device, i) == 0
                && get_name(name.as_mut_ptr(), 255, device) == 0
                && get_memory(&mut bytes, device) == 0;
            let name = CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned();
            succeeded.then_some(Gpu { name, memory: bytes as u64 })
        };
        Some((version, (0..gpus).filter_map(gpu).collect()))
    }
}

/// The version of NVRTC.
///
/// A library that is only in CUDA's folder is opened by its path. The loader then finds it by name
/// when the kernels open it.
fn nvrtc_version() -> Option<Version> {
    let names = ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"];
    let library = names.iter().find_map(|name| Library::open(name)).or_else(|| {
        let folders = library_folders().into_iter();
        let mut paths = folders.flat_map(|folder| names.map(|name| folder.join(name)));
        paths.find_map(|path| path.exists().then(|| Library::open(path.to_str()?)).flatten())
    })?;
    type GetVersion = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the type is that of the NVRTC API; both pointers are to local variables.
    unsafe {
        let version: GetVersion = library.function(c"nvrtcVersion")?;
        (version(&mut major, &mut minor) == 0).then_some((major as u32, minor as u32))
    }
}

/// Where CUDA may be installed: the folders that Burn's backend searches, in its order.
fn cuda_folders() -> Vec<PathBuf> {
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

/// The library folders in and beside CUDA's folders: the CUDA 12 wheels have one folder per
/// component.
fn library_folders() -> Vec<PathBuf> {
    let beside = |folder: &Path| Some(folder.parent()?.join("cuda_nvrtc"));
    let folders = cuda_folders().into_iter();
    let folders = folders.flat_map(|folder| [beside(&folder), Some(folder)]).flatten();
    folders.flat_map(|folder| [folder.join("lib64"), folder.join("lib")]).collect()
}

/// A dynamic library that stays open until the program ends.
struct Library(*mut c_void);

impl Library {
    fn open(name: &str) -> Option<Self> {
        let name = CString::new(name).ok()?;
        // SAFETY: the name is a C string; opening CUDA's libraries runs only their initialisers.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        (!handle.is_null()).then_some(Self(handle))
    }

    /// The function of this name, if the library has it.
    ///
    /// # Safety
    /// `F` must be the type of the function.
    unsafe fn function<F: Copy>(&self, name: &CStr) -> Option<F> {
        // SAFETY: the handle is that of an open library.
        let function = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        if function.is_null() {
            return None;
        }
        assert_eq!(size_of::<F>(), size_of::<*mut c_void>(), "F is a function pointer");
        // SAFETY: the caller guarantees the type; data and function pointers have the same size.
        Some(unsafe { std::mem::transmute_copy(&function) })
    }
}
