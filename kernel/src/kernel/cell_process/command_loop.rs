//! Commands of evcxr: one line per cell, with a library and the name of the function to call in
//! it.

use std::error::Error as _;
use std::ffi::{CStr, c_int, c_void};
use std::fs::File;
use std::io::{BufRead, BufReader, Result, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL};
use rustix::io::fcntl_dupfd_cloexec;

use super::LIBRARY_ENV_VAR;
use super::cell_stdin::CellStdin;
use crate::kernel::markers::{Marker, Markers};

const RUN_COMMAND: &str = "LOAD_AND_RUN ";
/// Name of the library of evcxr's own first cell. Its output is read by nobody until it has ended.
const FIRST_CELL_LIBRARY: &str = "libcode_1";

/// Lowest number for our own descriptors, out of the way of cells that expect small ones.
const MIN_OWN_FD: c_int = 200;

/// Function of a cell: takes and returns the store of variables.
type CellFunction = extern "C" fn(*mut c_void) -> *mut c_void;

/// Loop that reads evcxr's commands and runs cells.
pub struct CommandLoop {
    markers: Markers,
    lines: BufReader<File>,
    input: CellStdin,
    /// Own copies of the pipes to the relays.
    out: File,
    err: File,
    variables: *mut c_void,
    hooks: Option<LibraryHooks>,
}

impl CommandLoop {
    /// Creates a loop that reads commands from standard input; cells get another standard input.
    ///
    /// # Errors
    /// The system refuses a descriptor or a thread.
    pub fn new(markers: Markers) -> Result<Self> {
        let lines = BufReader::new(duplicate_fd(std::io::stdin())?);
        let (out, err) = (duplicate_fd(std::io::stdout())?, duplicate_fd(std::io::stderr())?);
        let input = CellStdin::install()?;
        let variables = std::ptr::null_mut();
        Ok(Self { markers, lines, input, out, err, variables, hooks: None })
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
            .strip_prefix(RUN_COMMAND)
            .and_then(|rest| rest.rsplit_once(' '))
            .ok_or_else(|| format!("unknown command of evcxr: `{command}`"))?;
        let cell = load_cell(library, function)?;
        let mark = |mut stream: &File, marker| {
            let line = format!("{}\n", self.markers.text(marker));
            let written = stream.write_all(line.as_bytes());
            written.map_err(|e| format!("the output can't be written ({e})"))
        };
        if Path::new(library).file_stem() == Some(FIRST_CELL_LIBRARY.as_ref()) {
            mark(&self.out, Marker::Discard)?;
        }
        mark(&self.out, Marker::Begin)?;
        mark(&self.err, Marker::Begin)?;
        if let Some(lab) = &self.hooks {
            (lab.begin_cell)();
        }
        self.input.begin_cell();
        self.variables = cell(self.variables);
        if let Some(lab) = &self.hooks {
            (lab.end_cell)();
        }
        self.hooks = self.hooks.or_else(LibraryHooks::install);
        if let Some(lab) = &self.hooks {
            (lab.flush_stdout)();
        }
        mark(&self.out, Marker::Done)?;
        mark(&self.err, Marker::Done)?;
        self.reopen_streams();
        self.input.end_cell();
        Ok(())
    }

    /// Reopens standard streams that the cell closed.
    fn reopen_streams(&self) {
        for (fd, stream) in [(1, &self.out), (2, &self.err)] {
            // SAFETY: plain descriptor calls.
            unsafe {
                if libc::fcntl(fd, libc::F_GETFD) < 0 {
                    libc::dup2(stream.as_raw_fd(), fd);
                }
            }
        }
    }
}

/// Returns a copy of the descriptor that programs started by cells don't inherit.
fn duplicate_fd(stream: impl AsFd) -> Result<File> {
    let copy =
        fcntl_dupfd_cloexec(&stream, MIN_OWN_FD).or_else(|_| fcntl_dupfd_cloexec(&stream, 3))?;
    Ok(copy.into())
}

/// Loads the function of a cell. The library is never unloaded: variables may point into it.
fn load_cell(library: &str, function: &str) -> std::result::Result<CellFunction, String> {
    // The system's message about what it did not load.
    let to_message = |error: libloading::Error| {
        error.source().map_or_else(|| error.to_string(), ToString::to_string)
    };
    // SAFETY: evcxr generates the function with this type.
    unsafe {
        let library = Library::open(Some(library), RTLD_LAZY | RTLD_LOCAL).map_err(to_message)?;
        let library = ManuallyDrop::new(library);
        library.get::<CellFunction>(function).map(|found| *found).map_err(to_message)
    }
}

/// Hooks in the lab's dylib. Cells and the lab share a copy of the standard library that this
/// binary does not have.
#[derive(Clone, Copy)]
struct LibraryHooks {
    begin_cell: extern "C" fn(),
    end_cell: extern "C" fn(),
    flush_stdout: extern "C" fn(),
}

impl LibraryHooks {
    /// Loads the lab and sets its panic hook.
    fn install() -> Option<Self> {
        let path = std::env::var_os(LIBRARY_ENV_VAR)?;
        // SAFETY: the lab's initialisers are those of Rust's standard library.
        let lab = ManuallyDrop::new(unsafe { Library::open(Some(path), RTLD_LAZY) }.ok()?);
        // SAFETY: these functions have this type in the lab, which is never unloaded.
        let find =
            |name: &CStr| unsafe { lab.get::<extern "C" fn()>(name) }.ok().map(|found| *found);
        find(c"epsilab_set_panic_hook")?();
        Some(Self {
            begin_cell: find(c"epsilab_begin_cell")?,
            end_cell: find(c"epsilab_end_cell")?,
            flush_stdout: find(c"epsilab_flush_stdout")?,
        })
    }
}
