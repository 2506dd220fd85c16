//! NVRTC, the library that compiles kernels when they are first used.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

use super::library::Library;
use super::library_alias::alias;
use crate::device::installation::Version;

/// Name by which CubeCL opens the library.
const NAME: &str = "libnvrtc.so";
/// File names of NVRTC, the newest version first.
const FILES: [&str; 3] = ["libnvrtc.so.13", "libnvrtc.so.12", NAME];

/// NVRTC, loaded so that CubeCL finds it as well.
pub(super) struct Nvrtc {
    library: Library,
    pub(super) version: Version,
    pub(super) path: PathBuf,
}

/// Finds an NVRTC that is no newer than the driver; if there are only newer ones, the first of
/// them.
///
/// It is searched in the folders of `CUDA_PATH` and `CUDA_HOME`, then by the loader
/// (`LD_LIBRARY_PATH` and the system's folders), in the Python environment, and in the usual
/// folders of toolkits.
pub(super) fn find(driver: Version) -> Option<Nvrtc> {
    let (mut chosen, mut newer) = (None, None);
    for candidate in candidates() {
        let Some((library, version)) = open(&candidate) else { continue };
        let path = library.path(c"nvrtcVersion");
        // It is opened again below.
        library.close();
        let Some(path) = path else { continue };
        if version <= driver {
            chosen = Some((path, version));
            break;
        }
        newer.get_or_insert((path, version));
    }
    let (path, version) = chosen.or(newer)?;
    open_builtins(&path);
    // From here on, CubeCL's name means this library. Only then is it what CubeCL will use.
    let alias = alias(NAME, &path);
    let library = Library::open(NAME)?;
    if library.path(c"nvrtcVersion") != Some(path.clone()) {
        return None;
    }
    // Both stay open: `Library` closes nothing when it is dropped.
    drop(alias);
    Some(Nvrtc { library, version, path })
}

/// Opens the library that NVRTC opens by name when it compiles. Not every version looks for it next
/// to itself; the loader returns one that is open already.
fn open_builtins(nvrtc: &Path) {
    let is_builtins = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libnvrtc-builtins.so.")
    };
    let files = nvrtc.parent().and_then(|folder| std::fs::read_dir(folder).ok());
    let files = files.into_iter().flatten().flatten().map(|entry| entry.path());
    for path in files.filter(|path| is_builtins(path)) {
        Library::open(path);
    }
}

/// Returns the names and paths to try, in this order. Names without a folder are looked for by the
/// loader.
fn candidates() -> Vec<PathBuf> {
    let named = ["CUDA_PATH", "CUDA_HOME"].into_iter().filter_map(std::env::var_os);
    let named = named.flat_map(|root| library_folders(Path::new(&root)));
    let in_python = super::headers::python_packages()
        .into_iter()
        .flat_map(|packages| [packages.join("cu13/lib"), packages.join("cuda_nvrtc/lib")]);
    let usual = super::headers::toolkits().into_iter();
    let usual = usual.flat_map(|root| library_folders(&root));
    let files = |folder: PathBuf| FILES.map(|file| folder.join(file));
    let existing = |path: &PathBuf| path.exists();
    let named: Vec<_> = named.flat_map(files).filter(existing).collect();
    let by_loader = FILES.map(PathBuf::from);
    let rest = in_python.chain(usual).flat_map(files).filter(existing);
    named.into_iter().chain(by_loader).chain(rest).collect()
}

/// Returns the folders in which a toolkit has its libraries. The packages for CUDA 12 have a
/// folder for each component.
fn library_folders(root: &Path) -> Vec<PathBuf> {
    let inside = ["lib64", "lib", "targets/x86_64-linux/lib", "lib/x86_64-linux-gnu"];
    let inside = inside.map(|folder| root.join(folder));
    let package_folder = root.parent().map(|packages| packages.join("cuda_nvrtc/lib"));
    inside.into_iter().chain(package_folder).collect()
}

type GetVersion = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
type Program = *mut c_void;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type LogSize = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Log = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Program) -> c_int;

fn open(path: &Path) -> Option<(Library, Version)> {
    let library = Library::open(path)?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the type is that of the NVRTC API; both pointers are to local variables.
    let succeeded = unsafe {
        let version: GetVersion = library.function(c"nvrtcVersion")?;
        version(&mut major, &mut minor) == 0
    };
    succeeded.then_some((library, (major as u32, minor as u32)))
}

impl Nvrtc {
    /// Compiles a kernel with the headers that CubeCL's kernels include, for a GPU of this compute
    /// capability.
    ///
    /// # Errors
    /// The first lines of the compiler's log.
    pub(super) fn compile_test(&self, headers: &Path, architecture: u32) -> Result<(), String> {
        const SOURCE: &CStr = c"#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <mma.h>
#include <cuda/barrier>
extern \"C\" __global__ void test(float *values) { values[threadIdx.x] *= 2; }
";
        // As CubeCL calls it.
        let suffix = if architecture >= 90 { "a" } else { "" };
        let options = [
            format!("--gpu-architecture=sm_{architecture}{suffix}"),
            format!("--include-path={}", headers.display()),
            format!("--include-path={}", headers.join("cccl").display()),
        ];
        let options = options.map(|option| CString::new(option).unwrap_or_default());
        let options = [options[0].as_ptr(), options[1].as_ptr(), options[2].as_ptr()];
        let missing = || "the library lacks a function that every NVRTC has".to_owned();
        // SAFETY: the types are those of the NVRTC API, which has not changed since CUDA 8; strings
        // and pointers outlive the calls; the log has the size that NVRTC asks for.
        unsafe {
            let create: Create =
                self.library.function(c"nvrtcCreateProgram").ok_or_else(missing)?;
            let compile: Compile =
                self.library.function(c"nvrtcCompileProgram").ok_or_else(missing)?;
            let log_size: LogSize =
                self.library.function(c"nvrtcGetProgramLogSize").ok_or_else(missing)?;
            let log: Log = self.library.function(c"nvrtcGetProgramLog").ok_or_else(missing)?;
            let destroy: Destroy =
                self.library.function(c"nvrtcDestroyProgram").ok_or_else(missing)?;
            let mut program = null_mut();
            let none = std::ptr::null();
            let created = create(&mut program, SOURCE.as_ptr(), none, 0, null_mut(), null_mut());
            if created != 0 {
                return Err(format!("nvrtcCreateProgram failed with code {created}"));
            }
            let code = compile(program, options.len() as c_int, options.as_ptr());
            let mut size = 0;
            let mut text = Vec::new();
            if code != 0 && log_size(program, &mut size) == 0 {
                text.resize(size + 1, 0);
                log(program, text.as_mut_ptr().cast());
            }
            destroy(&mut program);
            match code {
                0 => Ok(()),
                code => Err(message(code, &text)),
            }
        }
    }
}

/// Returns the first lines of the compiler's log.
fn message(code: c_int, log: &[u8]) -> String {
    let log = String::from_utf8_lossy(log);
    let lines = log.trim_end_matches('\0').lines().map(str::trim).filter(|line| !line.is_empty());
    match lines.take(3).collect::<Vec<_>>().join("; ") {
        lines if lines.is_empty() => format!("nvrtcCompileProgram failed with code {code}"),
        lines => lines,
    }
}
