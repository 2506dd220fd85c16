//! A process beside that of the cells for each stream they print to. A thread would take the last
//! words of a crash with it; and these live only as long as there is something to pass on, even if
//! what a cell has started keeps the streams open.

use std::ffi::c_int;
use std::io::{Error, ErrorKind, Result};

use super::stream::Passage;

/// After the end of the cells, what processes they left behind print is only heard so far: more
/// than the pipe can have held when the cells ended.
const LAST_WORDS: usize = 1 << 20;

/// Where the end of the cells can't be waited for, it is looked for after this time.
const LOOK_EVERY_MS: c_int = 200;

/// Puts a pipe in the place of the standard stream `fd`, and a process at the pipe's other end
/// that passes on what comes to where the stream led before. No other thread may run yet.
///
/// # Errors
/// The system refuses a pipe or a process.
pub fn install(fd: c_int, passage: impl Passage) -> Result<()> {
    let mut ends = [0; 2];
    // SAFETY: plain descriptor calls; `ends` is the pair that pipe fills. The new process uses
    // nothing of this one but two descriptors; it closes the standard streams, so that their other
    // ends hear when the cells are gone.
    unsafe {
        let cells = libc::getpid();
        let real = libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3);
        if real < 0 || libc::pipe(ends.as_mut_ptr()) < 0 {
            return Err(Error::last_os_error());
        }
        match libc::fork() {
            -1 => return Err(Error::last_os_error()),
            0 => {
                for fd in (0..=2).chain([ends[1]]) {
                    libc::close(fd);
                }
                pass_on(ends[0], real, cells, passage);
                libc::_exit(0);
            }
            _ => {}
        }
        if libc::dup2(ends[1], fd) < 0 {
            return Err(Error::last_os_error());
        }
        for fd in [real, ends[0], ends[1]] {
            libc::close(fd);
        }
    }
    Ok(())
}

fn pass_on(read: c_int, real: c_int, cells: libc::pid_t, mut passage: impl Passage) {
    let watch = watch(cells);
    let wait = if watch < 0 { LOOK_EVERY_MS } else { -1 };
    let (mut part, mut out) = (vec![0u8; 1 << 16], Vec::new());
    let mut left = LAST_WORDS;
    loop {
        let poll = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut polled = [poll(read), poll(watch)];
        // SAFETY: two pollfds, of which those with a negative descriptor are passed over.
        unsafe { libc::poll(polled.as_mut_ptr(), 2, wait) };
        // SAFETY: a question without arguments.
        let gone = polled[1].revents != 0 || unsafe { libc::getppid() } != cells;
        if polled[0].revents != 0 {
            // SAFETY: a buffer of the length that is given.
            let n = unsafe { libc::read(read, part.as_mut_ptr().cast(), part.len()) };
            if n < 0 && Error::last_os_error().kind() == ErrorKind::Interrupted {
                continue;
            }
            let Ok(n @ 1..) = usize::try_from(n) else { break };
            passage.take(&part[..n], &mut out);
            if write_all(real, &out).is_err() {
                return;
            }
            out.clear();
            left = if gone { left.saturating_sub(n) } else { left };
        }
        if gone && (polled[0].revents == 0 || left == 0) {
            break;
        }
    }
    passage.end(&mut out);
    let _ = write_all(real, &out);
}

/// A descriptor that can be read when the process has ended; negative where there is none.
fn watch(process: libc::pid_t) -> c_int {
    #[cfg(target_os = "linux")]
    // SAFETY: a system call with two numbers.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) };
    #[cfg(not(target_os = "linux"))]
    let (descriptor, _) = (-1, process);
    c_int::try_from(descriptor).unwrap_or(-1)
}

/// Writes everything.
///
/// # Errors
/// The descriptor is closed, or nobody reads it any more.
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
