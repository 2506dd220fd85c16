//! evcxr's orders: one line for each cell, which names a library and the function to call in it.

use std::ffi::{CStr, CString, c_int, c_void};
use std::fs::File;
use std::io::{BufRead, BufReader, Error, Result};
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::Path;

use super::LAB_VARIABLE;
use super::relay::write_all;
use crate::kernel::markers::{Markers, Word};

const RUN: &str = "LOAD_AND_RUN ";
/// evcxr's very first cell: it waits for its output to be read, but hands it out only later.
const FIRST: &str = "libcode_1";

/// Descriptors of our own have high numbers: cells that count on small ones don't meet them.
const HIGH: c_int = 200;

/// The variables of the cells, handed from one to the next.
type CellFunction = extern "C" fn(*mut c_void) -> *mut c_void;

/// Takes orders and runs cells.
pub struct Orders {
    markers: Markers,
    lines: BufReader<File>,
    /// Our own copies of the standard streams: an input at its end, and the ways to the relays.
    input: c_int,
    out: c_int,
    err: c_int,
    variables: *mut c_void,
    flush: Option<extern "C" fn()>,
}

impl Orders {
    /// Takes the standard input for orders and leaves the cells one that is at its end.
    ///
    /// # Errors
    /// The system refuses a descriptor.
    pub fn take_over(markers: Markers) -> Result<Self> {
        let empty = File::open("/dev/null")?;
        let (lines, input, out, err) = (own(0)?, own(empty.as_raw_fd())?, own(1)?, own(2)?);
        // SAFETY: a plain descriptor call.
        if unsafe { libc::dup2(input, 0) } < 0 {
            return Err(Error::last_os_error());
        }
        // SAFETY: the descriptor was made just now and belongs to nobody else.
        let lines = BufReader::new(unsafe { File::from_raw_fd(lines) });
        let variables = std::ptr::null_mut();
        Ok(Self { markers, lines, input, out, err, variables, flush: None })
    }

    /// Runs cells until there are no more orders.
    pub fn follow(mut self) -> ! {
        let mut line = String::new();
        while self.lines.read_line(&mut line).is_ok_and(|n| n > 0) {
            if let Err(why) = self.run(line.trim_end()) {
                eprintln!("the cell can't be run: {why}");
                std::process::exit(99);
            }
            line.clear();
        }
        std::process::exit(0);
    }

    fn run(&mut self, order: &str) -> std::result::Result<(), String> {
        let (library, function) = order
            .strip_prefix(RUN)
            .and_then(|rest| rest.rsplit_once(' '))
            .ok_or_else(|| format!("evcxr gave the unknown order `{order}`"))?;
        let cell = load(library, function)?;
        let say = |fd, word| {
            let line = format!("{}\n", self.markers.word(word));
            write_all(fd, line.as_bytes()).map_err(|e| format!("its output is cut off ({e})"))
        };
        if Path::new(library).file_stem() == Some(FIRST.as_ref()) {
            say(self.out, Word::Unheard)?;
        }
        say(self.err, Word::Begin)?;
        self.variables = cell(self.variables);
        self.flush = self.flush.or_else(find_flush);
        if let Some(flush) = self.flush {
            flush();
        }
        say(self.out, Word::Done)?;
        say(self.err, Word::Done)?;
        self.open_what_was_closed();
        Ok(())
    }

    /// A cell that closed a standard stream did it for itself alone.
    fn open_what_was_closed(&self) {
        for (fd, own) in [(0, self.input), (1, self.out), (2, self.err)] {
            // SAFETY: plain descriptor calls.
            unsafe {
                if libc::fcntl(fd, libc::F_GETFD) < 0 {
                    libc::dup2(own, fd);
                }
            }
        }
    }
}

/// A copy of the descriptor that programs started by cells don't get.
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

/// The function of a cell. Its library stays loaded: variables may point into it.
fn load(library: &str, function: &str) -> std::result::Result<CellFunction, String> {
    let no_zero = |text: &str| CString::new(text).map_err(|_| format!("{text:?} holds a zero"));
    let (path, name) = (no_zero(library)?, no_zero(function)?);
    // SAFETY: both names end in a zero; evcxr made the function with this type.
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

/// What the system says of the library that it did not load.
fn loader_error() -> String {
    // SAFETY: the text belongs to this thread until its next call of the loader.
    unsafe {
        let text = libc::dlerror();
        match text.is_null() {
            true => "the system does not say why".into(),
            false => CStr::from_ptr(text).to_string_lossy().into_owned(),
        }
    }
}

/// The lab's function that flushes the standard output of the cells: they have another copy of
/// the standard library than this binary.
fn find_flush() -> Option<extern "C" fn()> {
    let path = CString::new(std::env::var(LAB_VARIABLE).ok()?).ok()?;
    // SAFETY: the path and the name end in a zero; the function has this type in the lab.
    unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_LAZY);
        if library.is_null() {
            return None;
        }
        let symbol = libc::dlsym(library, c"epsilab_flush_stdout".as_ptr());
        (!symbol.is_null()).then(|| std::mem::transmute::<*mut c_void, extern "C" fn()>(symbol))
    }
}
