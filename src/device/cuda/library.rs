//! [`Library`]: a dynamic library that is opened at run time.

use std::ffi::{CStr, CString, OsStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A dynamic library. It stays open until the program ends or it is [closed](Self::close).
pub(super) struct Library(*mut c_void);

impl Library {
    /// Opens a library by its path, or by a name that the loader looks for.
    pub(super) fn open(name: impl AsRef<OsStr>) -> Option<Self> {
        let name = CString::new(name.as_ref().as_bytes()).ok()?;
        // SAFETY: the name is a C string; opening CUDA's libraries runs only their initialisers.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        (!handle.is_null()).then_some(Self(handle))
    }

    /// Closes the library, if nothing else uses it.
    pub(super) fn close(self) {
        // SAFETY: the handle is that of an open library, and no function of it is kept.
        unsafe { libc::dlclose(self.0) };
    }

    /// Returns the file of the library, by the address of one of its functions.
    pub(super) fn path(&self, function: &CStr) -> Option<PathBuf> {
        // SAFETY: the handle is that of an open library; `info` is written before it is read, and
        // its name lives as long as the library is open.
        unsafe {
            let address = libc::dlsym(self.0, function.as_ptr());
            let mut info = std::mem::zeroed::<libc::Dl_info>();
            if address.is_null() || libc::dladdr(address, &mut info) == 0 {
                return None;
            }
            let name = CStr::from_ptr(info.dli_fname);
            Path::new(OsStr::from_bytes(name.to_bytes())).canonicalize().ok()
        }
    }

    /// Returns the function of this name, if the library has it.
    ///
    /// # Safety
    /// `F` must be the type of the function.
    pub(super) unsafe fn function<F: Copy>(&self, name: &CStr) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>(), "F is a function pointer") };
        // SAFETY: the handle is that of an open library.
        let function = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        // SAFETY: the caller guarantees the type; data and function pointers have the same size.
        (!function.is_null()).then(|| unsafe { std::mem::transmute_copy(&function) })
    }
}
