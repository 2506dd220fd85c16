//! evcxr's commands: one line per cell, with a library and the name of the function to call in it.

use std::ffi::{CStr, CString, c_int, c_void};
use std::fs::File;
use std::io::{BufRead, BufReader, Error, Result};
use std::os::fd::FromRawFd;
use std::path::Path;

use super::LAB_VARIABLE;
use super::input::Input;
use super::relay::write_all;
use crate::kernel::markers::{Marker, Markers};

const RUN: &str = "LOAD_AND_RUN ";
/// evcxr's own first cell. Its output is read by nobody until it has ended.
const FIRST: &str = "libcode_1";

/// Lowest number for our own descriptors, out of the way of cells that expect small ones.
const HIGH: c_int = 200;

/// The function of a cell: takes and returns the store of variables.
type CellFunction = extern "C" fn(*mut c_void) -> *mut c_void;

/// Reads commands and runs cells.
pub struct CommandLoop {
    markers: Markers,
    lines: BufReader<File>,
    input: Input,
    /// Our own copies of the pipes to the relays.
    out: c_int,
    err: c_int,
    variables: *mut c_void,
    lab: Option<LabHooks>,
}

impl CommandLoop {
    /// Reads commands from standard input from now on; cells get another one.
    ///
    /// # Errors
    /// The system refuses a descriptor or a thread.
    pub fn new(markers: Markers) -> Result<Self> {
        let (lines, out, err) = (own(0)?, own(1)?, own(2)?);
        let input = Input::install()?;
        // SAFETY: the descriptor is new and has no other owner.
        let lines = BufReader::new(unsafe { File::from_raw_fd(lines) });
        let variables = std::ptr::null_mut();
        Ok(Self { markers, lines, input, out, err, variables, lab: None })
    }

    /// Runs cells until the last command.
    pub fn run(mut self) -> ! {
        let mut line = String::new();
        while self.lines.read_line(&mut line).is_ok_and(|n| n > 0) {
            if let Err(why) = self.execute(line.trim_end()) {
                eprintln!("the cell can't be run: {why}");
                std::process::exit(99);
            }
            line.clear();
        }
        std::process::exit(0);
    }

    fn execute(&mut self, command: &str) -> std::result::Result<(), String> {
        let (library, function) = command
            .strip_prefix(RUN)
            .and_then(|rest| rest.rsplit_once(' '))
            .ok_or_else(|| format!("unknown command of evcxr: `{command}`"))?;
        let cell = load(library, function)?;
        let mark = |fd, marker| {
            let line = format!("{}\n", self.markers.text(marker));
            write_all(fd, line.as_bytes()).map_err(|e| format!("its output can't be written ({e})"))
        };
        if Path::new(library).file_stem() == Some(FIRST.as_ref()) {
            mark(self.out, Marker::Discard)?;
        }
        mark(self.out, Marker::Begin)?;
        mark(self.err, Marker::Begin)?;
        if let Some(lab) = &self.lab {
            (lab.begin_cell)();
        }
        self.input.begin();
        self.variables = cell(self.variables);
        if let Some(lab) = &self.lab {
            (lab.end_cell)();
        }
        self.lab = self.lab.or_else(LabHooks::install);
        if let Some(lab) = &self.lab {
            (lab.flush_stdout)();
        }
        mark(self.out, Marker::Done)?;
        mark(self.err, Marker::Done)?;
        self.reopen_streams();
        self.input.end();
        Ok(())
    }

    /// Reopens standard streams that the cell closed.
    fn reopen_streams(&self) {
        for (fd, own) in [(1, self.out), (2, self.err)] {
            // SAFETY: plain descriptor calls.
            unsafe {
                if libc::fcntl(fd, libc::F_GETFD) < 0 {
                    libc::dup2(own, fd);
                }
            }
        }
    }
}

/// A copy of the descriptor that programs started by cells don't inherit.
fn own(fd: c_int) -> Result<c_int> {
    for at_least in [HIGH, 3] {
        // SAFETY: a plain descriptor call.
        let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, at_least) };
        if copy >= 0 {
            return Ok(copy);
        }
    }
    Err(Error::last_os_error())
}

/// Loads the function of a cell. The library is never unloaded: variables may point into it.
fn load(library: &str, function: &str) -> std::result::Result<CellFunction, String> {
    let no_zero =
        |text: &str| CString::new(text).map_err(|_| format!("{text:?} contains a zero byte"));
    let (path, name) = (no_zero(library)?, no_zero(function)?);
    // SAFETY: both names end in a zero byte; evcxr generates the function with this type.
    unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL);
        if library.is_null() {
            return Err(loader_error());
        }
        let function = libc::dlsym(library, name.as_ptr());
        if function.is_null() {
            return Err(loader_error());
        }
        Ok(std::mem::transmute::<*mut c_void, CellFunction>(function))
    }
}

/// The system's message about the library that it did not load.
fn loader_error() -> String {
    // SAFETY: the text stays valid until the next loader call of this thread.
    unsafe {
        let text = libc::dlerror();
        if text.is_null() {
            "no reason given".into()
        } else {
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    }
}

/// Functions of the lab's dylib. Cells and the lab share a copy of the standard library that this
/// binary does not have.
#[derive(Clone, Copy)]
struct LabHooks {
    begin_cell: extern "C" fn(),
    end_cell: extern "C" fn(),
    flush_stdout: extern "C" fn(),
}

impl LabHooks {
    /// Loads the lab and sets its panic hook.
    fn install() -> Option<Self> {
        let path = CString::new(std::env::var(LAB_VARIABLE).ok()?).ok()?;
        // SAFETY: the path ends in a zero byte.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY) };
        if library.is_null() {
            return None;
        }
        let find = |name: &CStr| {
            // SAFETY: the library is loaded; these functions have this type in the lab.
            unsafe {
                let symbol = libc::dlsym(library, name.as_ptr());
                (!symbol.is_null())
                    .then(|| std::mem::transmute::<*mut c_void, extern "C" fn()>(symbol))
            }
        };
        find(c"epsilab_set_panic_hook")?();
        Some(Self {
            begin_cell: find(c"epsilab_begin_cell")?,
            end_cell: find(c"epsilab_end_cell")?,
            flush_stdout: find(c"epsilab_flush_stdout")?,
        })
    }
}
