//! Temporary folders and environment of one kernel. The environment makes evcxr, cargo, rustc and
//! rust-analyzer use the toolchain that built the lab.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use epsilab::{Error, ErrorKind, Result};
use parking_lot::Mutex;

use super::cell_process::{LIBRARY_ENV_VAR, PIPES_ENV_VAR};
use super::markers::{self, Markers};
use super::rustc_wrapper;
use super::std_sources;
use crate::prebuilt::{PrebuiltLibrary, Toolchain, environment};
use crate::temp::TempFolder;

/// Returns the folder for temporary files of kernels. The path of a socket is limited to about 100
/// bytes, and evcxr separates the words of its commands by spaces.
fn temporary_folder() -> PathBuf {
    let folder = std::env::temp_dir();
    let bytes = folder.as_os_str().as_encoded_bytes();
    if bytes.len() > 60 || bytes.iter().any(u8::is_ascii_whitespace) {
        "/tmp".into()
    } else {
        folder
    }
}

/// Checks that cells, which are compiled there, may be loaded from the folder for temporary files.
///
/// # Errors
/// `Io` if its file system does not allow programs.
pub fn check_temporary_folder() -> Result<()> {
    let folder = temporary_folder();
    if forbids_programs(&folder) {
        Err(Error::new(
            ErrorKind::Io,
            format!("the folder for temporary files, {}", folder.display()),
            "the file system does not allow programs (noexec), but cells are compiled to programs",
        )
        .fix("set TMPDIR to a folder on another file system, for instance one in your home"))
    } else {
        Ok(())
    }
}

#[cfg(target_os = "linux")]
fn forbids_programs(folder: &Path) -> bool {
    let flag = rustix::fs::StatVfsMountFlags::NOEXEC;
    rustix::fs::statvfs(folder).is_ok_and(|found| found.f_flag.contains(flag))
}

#[cfg(not(target_os = "linux"))]
fn forbids_programs(_: &Path) -> bool {
    false
}

/// Folders and environment of this kernel.
pub struct KernelWorkspace {
    dir: Mutex<Option<TempFolder>>,
    /// The folder of the kernel, with the named pipes that cells print to.
    pub root: PathBuf,
    /// The working directory of the notebook.
    pub working_dir: PathBuf,
    library_path: Option<OsString>,
    pub markers: Markers,
}

impl KernelWorkspace {
    /// Creates the folders and sets the environment. No other thread may run yet.
    ///
    /// # Errors
    /// The temporary folder can't be written.
    pub fn new() -> Result<Self> {
        let base = temporary_folder();
        let io = |e: std::io::Error| Error::io(format!("writing in {}", base.display()), &e);
        let dir = TempFolder::new(&base, "kernel").map_err(io)?;
        let root = dir.path().to_owned();
        for folder in ["work", "config"] {
            std::fs::create_dir(root.join(folder)).map_err(io)?;
        }
        let exe = std::env::current_exe().map_err(|e| Error::io("finding this binary", &e))?;
        std::os::unix::fs::symlink(exe, root.join(rustc_wrapper::WRAPPER_NAME)).map_err(io)?;
        let home = std::env::current_dir().unwrap_or_else(|_| "/".into());
        let search_path = std::env::var_os("LD_LIBRARY_PATH");
        let markers = Markers::new();
        set_environment(&root, &markers);
        Ok(Self {
            dir: Mutex::new(Some(dir)),
            root,
            working_dir: home,
            library_path: search_path,
            markers,
        })
    }

    /// Returns the folder in which evcxr compiles cells.
    pub fn work_dir(&self) -> PathBuf {
        self.root.join("work")
    }

    /// Returns the folder for compiling before the first cell.
    pub fn warm_up_dir(&self) -> PathBuf {
        self.root.join("warm-up")
    }

    /// Returns the path of the socket of the side channel.
    pub fn display_socket(&self) -> PathBuf {
        self.root.join("display.sock")
    }

    /// Returns a folder without an `evcxr.toml`.
    pub fn config_dir(&self) -> PathBuf {
        self.root.join("config")
    }

    /// Returns the command with which evcxr starts the cell process.
    ///
    /// # Errors
    /// This binary can't find itself.
    pub fn cell_process_command(&self, lab: &PrebuiltLibrary) -> Result<Command> {
        let exe = std::env::current_exe().map_err(|e| Error::io("finding this binary", &e))?;
        let mut command = Command::new(exe);
        if let Ok(search) = lab.search_path(self.library_path.as_deref()) {
            command.env("LD_LIBRARY_PATH", search);
        }
        command
            .current_dir(&self.working_dir)
            .env("EPSILAB_DISPLAY", self.display_socket())
            .env(LIBRARY_ENV_VAR, &lab.dylib)
            .env(PIPES_ENV_VAR, &self.root);
        // SAFETY: the call changes only the new process, and is allowed between fork and exec.
        // An idle cell process ignores SIGINT from the start; training installs its own handler.
        unsafe {
            std::os::unix::process::CommandExt::pre_exec(&mut command, || {
                libc::signal(libc::SIGINT, libc::SIG_IGN);
                Ok(())
            });
        }
        for name in TOOL_ENV_VARS {
            command.env_remove(name);
        }
        Ok(command)
    }

    /// Makes cells show values as evcxr's commands specify, from now on.
    pub fn use_custom_format(&self) {
        let _ = std::fs::write(self.root.join(rustc_wrapper::CUSTOM_FORMAT_FILE), "");
    }

    /// Removes the folders.
    pub fn clean_up(&self) {
        self.dir.lock().take();
    }
}

/// Variables for rust-analyzer and cargo in the kernel, not for programs that cells start.
const TOOL_ENV_VARS: [&str; 6] = [
    "RUSTFLAGS",
    "RUSTC",
    "CARGO",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    std_sources::STD_SOURCES_ENV_VAR,
];

fn set_environment(root: &Path, markers: &Markers) {
    let mut set: Vec<(&str, OsString)> = vec![
        ("EVCXR_CONFIG_DIR", root.join("config").into()),
        ("EVCXR_TMPDIR", root.join("work").into()),
        // Both, which overrules wrappers in the user's cargo configuration. Neither may be empty,
        // or cargo asks rustc for its version and target again in every cell, which takes 0.1 s.
        ("RUSTC_WRAPPER", root.join(rustc_wrapper::WRAPPER_NAME).into()),
        ("RUSTC_WORKSPACE_WRAPPER", root.join(rustc_wrapper::WRAPPER_NAME).into()),
        (std_sources::STD_SOURCES_ENV_VAR, root.join(std_sources::DIR_NAME).into()),
        (markers::NONCE_ENV_VAR, markers.nonce().into()),
        (environment::RUST_ANALYZER_FLAGS.0, environment::RUST_ANALYZER_FLAGS.1.into()),
    ];
    if let Ok(toolchain) = Toolchain::find() {
        set.extend(environment::toolchain_variables(&toolchain));
    }
    // SAFETY: called before the kernel starts its first thread.
    unsafe {
        for name in environment::variables_to_remove() {
            std::env::remove_var(name);
        }
        for (name, value) in set {
            std::env::set_var(name, value);
        }
    }
}
