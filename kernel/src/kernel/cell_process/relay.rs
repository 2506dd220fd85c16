//! Relay processes: one for each stream that cells print to.
//!
//! A relay reads what cells print, filters it and passes it on to evcxr. It is a process and not a
//! thread, so that a crash of the cell process does not lose its last output. A relay ends soon
//! after the cell process, even if a program started by a cell keeps the stream open.

use std::ffi::{CString, c_int};
use std::io::{Error, ErrorKind, Result, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::stream::{Encoder, Passed};
use super::{CHANNEL, pipe_path};

/// Bytes read after the end of the cell process: more than the pipe can have held at that time.
const MAX_TRAILING: usize = 1 << 20;

/// How often to check for the end of the cell process where the system can't wait for it.
const CHECK_EVERY_MS: c_int = 200;

/// Replaces the standard stream `fd` by a named pipe in `folder`, and starts a relay from the pipe
/// to where the stream led before. The pipe has a name so that the kernel can write markers into
/// it. No other thread may run yet.
///
/// # Errors
/// The system refuses a pipe or a process.
pub fn install(fd: c_int, folder: &Path, filter: Encoder) -> Result<()> {
    // SAFETY: plain descriptor calls. The new process uses nothing of this one but two descriptors.
    // It closes the standard streams, so that their readers notice the end of the cell process.
    unsafe {
        let cell_process = libc::getpid();
        let (read, write) = named_pipe(&pipe_path(folder, cell_process, fd))?;
        let real = libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3);
        if real < 0 {
            return Err(Error::last_os_error());
        }
        match libc::fork() {
            -1 => return Err(Error::last_os_error()),
            0 => {
                for fd in (0..=2).chain([write]) {
                    libc::close(fd);
                }
                forward(read, real, cell_process, filter);
                libc::_exit(0);
            }
            _ => {}
        }
        if libc::dup2(write, fd) < 0 {
            return Err(Error::last_os_error());
        }
        for fd in [real, read, write] {
            libc::close(fd);
        }
    }
    Ok(())
}

/// Creates a named pipe and opens both ends.
fn named_pipe(path: &Path) -> Result<(c_int, c_int)> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path ends in a zero byte; the other arguments are plain numbers.
    unsafe {
        if libc::mkfifo(path.as_ptr(), 0o600) < 0 {
            return Err(Error::last_os_error());
        }
        // Without O_NONBLOCK this would wait for a writer.
        let read = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_NONBLOCK);
        let write = libc::open(path.as_ptr(), libc::O_WRONLY);
        if read < 0 || write < 0 || libc::fcntl(read, libc::F_SETFL, libc::O_RDONLY) < 0 {
            return Err(Error::last_os_error());
        }
        Ok((read, write))
    }
}

fn forward(read: c_int, real: c_int, cell_process: libc::pid_t, mut filter: Encoder) {
    let watch = watch(cell_process);
    let wait = if watch < 0 { CHECK_EVERY_MS } else { -1 };
    let (mut part, mut out) = (vec![0u8; 1 << 16], Passed::default());
    let mut late = Late::NotOpened;
    let mut left = MAX_TRAILING;
    loop {
        let poll = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut polled = [poll(read), poll(watch)];
        // SAFETY: two pollfds; those with a negative descriptor are ignored.
        unsafe { libc::poll(polled.as_mut_ptr(), 2, wait) };
        // SAFETY: a query without arguments.
        let gone = polled[1].revents != 0 || unsafe { libc::getppid() } != cell_process;
        if polled[0].revents != 0 {
            // SAFETY: the buffer has the length that is given.
            let n = unsafe { libc::read(read, part.as_mut_ptr().cast(), part.len()) };
            if n < 0 && Error::last_os_error().kind() == ErrorKind::Interrupted {
                continue;
            }
            let Ok(n @ 1..) = usize::try_from(n) else { break };
            filter.push(&part[..n], &mut out);
            if write_all(real, &out.lines).is_err() {
                return;
            }
            late.send(&out.late);
            out.lines.clear();
            out.late.clear();
            left = if gone { left.saturating_sub(n) } else { left };
        }
        if gone && (polled[0].revents == 0 || left == 0) {
            break;
        }
    }
    filter.finish(&mut out);
    let _ = write_all(real, &out.lines);
    late.send(&out.late);
}

/// The way of text that is printed between cells: the side channel.
enum Late {
    NotOpened,
    Open(UnixStream),
    Broken,
}

impl Late {
    fn send(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if matches!(self, Self::NotOpened) {
            let path = std::env::var_os(CHANNEL).unwrap_or_default();
            *self = UnixStream::connect(path).map_or(Self::Broken, Self::Open);
        }
        let line = format!("{}\n", serde_json::json!({ "kind": "late", "text": text }));
        if let Self::Open(stream) = self
            && stream.write_all(line.as_bytes()).is_err()
        {
            *self = Self::Broken;
        }
    }
}

/// A descriptor that becomes readable when the process ends; negative where the system has none.
fn watch(process: libc::pid_t) -> c_int {
    #[cfg(target_os = "linux")]
    // SAFETY: a system call with two numbers.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) };
    #[cfg(not(target_os = "linux"))]
    let (descriptor, _) = (-1, process);
    c_int::try_from(descriptor).unwrap_or(-1)
}

/// Writes all bytes.
///
/// # Errors
/// The descriptor is closed, or nobody reads it.
pub fn write_all(fd: c_int, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        // SAFETY: the slice is valid for its length.
        let n = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
        match usize::try_from(n) {
            Ok(n) => bytes = &bytes[n..],
            Err(_) => {
                let error = Error::last_os_error();
                if error.kind() != ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}
