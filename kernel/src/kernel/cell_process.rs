//! The process that runs the cells: this binary started again by evcxr.
//!
//! Its standard output carries both what cells print and evcxr's own lines. A filter in between
//! keeps them apart, whatever the cells print, and adds the lines that evcxr keeps to itself: when
//! the cell began to run, how it ended, and when all of its output has been sent. Standard error
//! only has to be made readable: evcxr stops listening at the first line that is not UTF-8.

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// Begins every line that the filter adds.
pub const MARK: &str = "\u{1e}epsilab:";
/// The cell panicked.
pub const PANIC: &str = "panic";
/// The cell returned early by `?`.
pub const ERROR: &str = "error";
/// The cell is compiled and begins to run; written to standard error.
pub const BEGIN: &str = "begin";
/// Everything the cell wrote to standard error came before this line, which is written there.
pub const SYNC: &str = "sync";
/// What follows was printed without a line break at its end.
pub const PART: &str = "part:";
/// Where the lab's dylib is.
pub const LAB_VARIABLE: &str = "EPSILAB_LAB_LIBRARY";

const FLUSHED: &str = "flushed";
const EVCXR_RUN: &str = "LOAD_AND_RUN ";
const EVCXR_DONE: &str = "EVCXR_EXECUTION_COMPLETE";
const EVCXR_PANIC: &str = "EVCXR_PANIC_NOTIFICATION";
const EVCXR_ERROR: &str = "EVCXR_ERROR_OCCURRED";
const EVCXR_CHANGED: &str = "EVCXR_VARIABLE_CHANGED_TYPE:";
const EVCXR_CONTENT: &str = "EVCXR_BEGIN_CONTENT ";
const EVCXR_CONTENT_END: &str = "EVCXR_END_CONTENT";
/// A line without its end is passed on after this time, so that cells can show progress.
const PART_AFTER_MS: c_int = 50;

static REAL_STDOUT: AtomicI32 = AtomicI32::new(-1);
static DRAINED: AtomicBool = AtomicBool::new(false);

/// Sets up the process; to be called before evcxr takes over and before any other thread exists.
pub fn prepare() {
    // SAFETY: no other thread runs yet, and the calls only touch this process's own settings.
    unsafe {
        #[cfg(target_os = "linux")]
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        // evcxr forces backtraces, of which a cell's author sees nothing but generated code.
        let full = std::env::var_os("EPSILAB_BACKTRACE").is_some();
        std::env::set_var("RUST_BACKTRACE", if full { "1" } else { "0" });
    }
    if let Err(e) = install_mender().and_then(|()| install_filter()).and_then(|()| install_relay())
    {
        eprintln!("the output of cells can't be filtered: {e}");
    }
}

/// Puts a pipe in the place of a standard stream: what was there, and the pipe's other end.
fn replace(fd: c_int, pipe_end: usize) -> std::io::Result<(c_int, c_int)> {
    let mut ends = [0; 2];
    // SAFETY: plain descriptor calls; `ends` is the pair that pipe fills.
    unsafe {
        let real = libc::dup(fd);
        let failed =
            real < 0 || libc::pipe(ends.as_mut_ptr()) < 0 || libc::dup2(ends[pipe_end], fd) < 0;
        if failed {
            return Err(std::io::Error::last_os_error());
        }
        libc::close(ends[pipe_end]);
        for fd in [real, ends[1 - pipe_end]] {
            libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
        }
        Ok((real, ends[1 - pipe_end]))
    }
}

/// Standard error passes through a process of its own: a thread would take the last words of a
/// crash with it.
fn install_mender() -> std::io::Result<()> {
    let (real, read) = replace(2, 1)?;
    // SAFETY: no other thread runs yet. The new process uses nothing but the two descriptors; the
    // standard streams are closed there, so that their other ends hear when the cells are gone.
    unsafe {
        match libc::fork() {
            -1 => {
                let failed = std::io::Error::last_os_error();
                libc::dup2(real, 2);
                libc::close(real);
                libc::close(read);
                return Err(failed);
            }
            0 => {
                for fd in 0..=2 {
                    libc::close(fd);
                }
                mend(read, real);
                libc::_exit(0);
            }
            _ => {
                libc::close(real);
                libc::close(read);
            }
        }
    }
    Ok(())
}

/// Passes on whole lines as UTF-8.
fn mend(read: c_int, real: c_int) {
    let (mut held, mut part) = (Vec::new(), vec![0u8; 1 << 14]);
    loop {
        // SAFETY: a buffer of the length that is given.
        let n = unsafe { libc::read(read, part.as_mut_ptr().cast(), part.len()) };
        if n < 0 && std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted {
            continue;
        }
        let Ok(n @ 1..) = usize::try_from(n) else { break };
        let end = part[..n].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        held.extend_from_slice(&part[..end]);
        if end > 0 {
            write_all(real, String::from_utf8_lossy(&held).as_bytes());
            held.clear();
        }
        held.extend_from_slice(&part[end..n]);
    }
    write_all(real, String::from_utf8_lossy(&held).as_bytes());
}

/// evcxr's orders pass through here, so that the kernel learns when a cell begins to run.
fn install_relay() -> std::io::Result<()> {
    let (real, write) = replace(0, 0)?;
    std::thread::spawn(move || {
        let mut part = vec![0u8; 1 << 12];
        loop {
            // SAFETY: a buffer of the length that is given.
            let n = unsafe { libc::read(real, part.as_mut_ptr().cast(), part.len()) };
            if n < 0 && std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted {
                continue;
            }
            let Ok(n @ 1..) = usize::try_from(n) else { break };
            if part[..n].starts_with(EVCXR_RUN.as_bytes()) {
                write_all(2, format!("{MARK}{BEGIN}\n").as_bytes());
            }
            write_all(write, &part[..n]);
        }
        // SAFETY: our end of the pipe; the process ends when it reads the end of its orders.
        unsafe { libc::close(write) };
    });
    Ok(())
}

fn install_filter() -> std::io::Result<()> {
    let (real, read) = replace(1, 1)?;
    // SAFETY: registers a function without arguments.
    unsafe { libc::atexit(drain_at_exit) };
    REAL_STDOUT.store(real, Ordering::SeqCst);
    let (ask, asked) = channel::<()>();
    // Flushing may block while the pipe is full, so the thread that empties it must not do it.
    std::thread::spawn(move || {
        let mut flush = None;
        while asked.recv().is_ok() {
            flush = flush.or_else(find_flush);
            if let Some(flush) = flush {
                flush();
            }
            write_all(1, format!("{MARK}{FLUSHED}\n").as_bytes());
        }
    });
    std::thread::spawn(move || {
        run_filter(read, real, &ask);
        DRAINED.store(true, Ordering::SeqCst);
    });
    Ok(())
}

/// `exit` in a cell must not lose what the filter still holds.
extern "C" fn drain_at_exit() {
    // SAFETY: the descriptor was duplicated above; closing the pipe's end lets the filter finish.
    unsafe { libc::dup2(REAL_STDOUT.load(Ordering::SeqCst), 1) };
    for _ in 0..100 {
        if DRAINED.load(Ordering::SeqCst) {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The lab's function that flushes the standard output of the cells: they have another copy of
/// the standard library than this binary.
fn find_flush() -> Option<extern "C" fn()> {
    let path = CString::new(std::env::var(LAB_VARIABLE).ok()?).ok()?;
    const NAME: *const c_char = c"epsilab_flush_stdout".as_ptr();
    // SAFETY: the path and the name end in a zero; the function has this type in the lab.
    unsafe {
        let library: *mut c_void = libc::dlopen(path.as_ptr(), libc::RTLD_LAZY);
        if library.is_null() {
            return None;
        }
        let symbol = libc::dlsym(library, NAME);
        (!symbol.is_null()).then(|| std::mem::transmute::<*mut c_void, extern "C" fn()>(symbol))
    }
}

fn run_filter(read: c_int, real: c_int, ask_flush: &Sender<()>) {
    let mut filter = Filter::default();
    let mut part = vec![0u8; 1 << 16];
    loop {
        let wait = if filter.has_part() { PART_AFTER_MS } else { -1 };
        let mut poll = libc::pollfd { fd: read, events: libc::POLLIN, revents: 0 };
        // SAFETY: one pollfd, and a buffer of the length that is given.
        let ready = unsafe { libc::poll(&mut poll, 1, wait) };
        let mut out = Vec::new();
        if ready == 0 {
            filter.pass_part(&mut out);
        } else {
            // SAFETY: as above.
            let n = unsafe { libc::read(read, part.as_mut_ptr().cast(), part.len()) };
            if n < 0 && std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted {
                continue;
            }
            if n <= 0 {
                filter.pass_part(&mut out);
                write_all(real, &out);
                return;
            }
            let asked = filter.take(&part[..n as usize], &mut out);
            if asked {
                let _ = ask_flush.send(());
            }
            if std::mem::take(&mut filter.sync) {
                write_all(2, format!("{MARK}{SYNC}\n").as_bytes());
            }
        }
        write_all(real, &out);
    }
}

fn write_all(fd: c_int, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        // SAFETY: the slice is valid for its length.
        let n = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
        if n < 0 {
            if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted {
                continue;
            }
            return;
        }
        bytes = &bytes[n as usize..];
    }
}

/// The text of the filter, without descriptors.
#[derive(Default)]
struct Filter {
    held: Vec<u8>,
    in_content: bool,
    /// The cell's output is complete, which is still to be said on standard error.
    sync: bool,
}

impl Filter {
    fn has_part(&self) -> bool {
        !self.held.is_empty() && !self.in_content
    }

    /// Takes what was read; true when the cell is done and its buffers should be flushed.
    fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> bool {
        let mut held = std::mem::take(&mut self.held);
        // What was held before has no line break.
        let (mut start, mut seen) = (0, held.len());
        held.extend_from_slice(bytes);
        let mut done = false;
        while let Some(at) = held[seen..].iter().position(|byte| *byte == b'\n') {
            // evcxr stops reading at the first byte that is not UTF-8.
            let line = String::from_utf8_lossy(&held[start..seen + at]).into_owned();
            done |= self.line(&line, out);
            (start, seen) = (seen + at + 1, seen + at + 1);
        }
        held.drain(..start);
        self.held = held;
        done
    }

    fn line(&mut self, line: &str, out: &mut Vec<u8>) -> bool {
        let mut put = |text: &str| {
            out.extend_from_slice(text.as_bytes());
            out.push(b'\n');
        };
        let flushed = format!("{MARK}{FLUSHED}");
        for marker in [EVCXR_DONE, EVCXR_PANIC, EVCXR_ERROR, flushed.as_str()] {
            let Some(before) = line.strip_suffix(marker) else { continue };
            if !before.is_empty() {
                put(&format!("{MARK}{PART}{before}"));
            }
            match marker {
                EVCXR_DONE => return true,
                EVCXR_PANIC => {
                    self.in_content = false;
                    put(&format!("{MARK}{PANIC}"));
                    put(EVCXR_PANIC);
                }
                EVCXR_ERROR => {
                    put(&format!("{MARK}{ERROR}"));
                    put(EVCXR_ERROR);
                }
                _ => {
                    // Nothing is added to standard output here: while evcxr starts, nobody reads it.
                    self.sync = true;
                    put(EVCXR_DONE);
                }
            }
            return false;
        }
        if self.in_content {
            self.in_content = line != EVCXR_CONTENT_END;
            put(line);
            return false;
        }
        let mut rest = line;
        for marker in [EVCXR_CONTENT, EVCXR_CHANGED] {
            if let Some(at) = rest.find(marker) {
                if at > 0 {
                    put(&format!("{MARK}{PART}{}", &rest[..at]));
                }
                rest = &rest[at..];
                self.in_content = marker == EVCXR_CONTENT;
                break;
            }
        }
        put(rest);
        false
    }

    /// Passes on what has no line break yet, unless it may become one of evcxr's lines.
    fn pass_part(&mut self, out: &mut Vec<u8>) {
        let Ok(text) = std::str::from_utf8(&self.held) else { return };
        let tail = text.rfind("EVCXR").or_else(|| text.rfind('\u{1e}'));
        if text.is_empty() || tail.is_some() {
            return;
        }
        out.extend_from_slice(format!("{MARK}{PART}{text}\n").as_bytes());
        self.held.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filtered(parts: &[&str]) -> (String, bool) {
        let (mut filter, mut out, mut done) = (Filter::default(), Vec::new(), false);
        for part in parts {
            done |= filter.take(part.as_bytes(), &mut out);
        }
        filter.pass_part(&mut out);
        (String::from_utf8(out).expect("text"), done)
    }

    #[test]
    fn a_line_without_its_end_is_parted_from_the_end_of_the_cell() {
        let (text, done) = filtered(&["half", "EVCXR_EXECUTION_COMPLETE\n"]);
        assert_eq!(text, "\u{1e}epsilab:part:half\n");
        assert!(done);
        let (text, done) = filtered(&["late\u{1e}epsilab:flushed\n"]);
        assert_eq!(text, "\u{1e}epsilab:part:late\nEVCXR_EXECUTION_COMPLETE\n");
        assert!(!done);
    }

    #[test]
    fn panics_and_early_returns_are_said_aloud() {
        let (text, _) = filtered(&["EVCXR_PANIC_NOTIFICATION\nEVCXR_ERROR_OCCURRED\n"]);
        assert_eq!(
            text,
            "\u{1e}epsilab:panic\nEVCXR_PANIC_NOTIFICATION\n\
             \u{1e}epsilab:error\nEVCXR_ERROR_OCCURRED\n"
        );
    }

    #[test]
    fn rich_content_keeps_its_lines_and_the_text_before_it() {
        let (text, _) = filtered(&["x=EVCXR_BEGIN_CONTENT text/html\n<p>", "\n</p>\n"]);
        assert_eq!(text, "\u{1e}epsilab:part:x=\nEVCXR_BEGIN_CONTENT text/html\n<p>\n</p>\n");
        let (text, _) = filtered(&["plain\n", "EVCXR_EXEC"]);
        assert_eq!(text, "plain\n", "the beginning of a marker waits for its end");
    }
}
