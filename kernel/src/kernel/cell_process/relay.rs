//! Relay processes: one for each stream that cells print to.
//!
//! A relay reads what cells print, filters it and passes it on to evcxr. It is a process and not a
//! thread, so that a crash of the cell process does not lose its last output. A relay ends soon
//! after the cell process, even if a program started by a cell keeps the stream open.

use std::ffi::{CString, c_int};
use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::fs::OFlags;

use super::stream_codec::{EncodedOutput, StreamEncoder};
use super::{CHANNEL_ENV_VAR, pipe_path};

/// Bytes read after the end of the cell process: more than the pipe can have held at that time.
const MAX_TRAILING: usize = 1 << 20;

/// Interval at which the end of the cell process is checked where the system can't wait for it.
const POLL_INTERVAL_MS: c_int = 200;

/// Replaces the standard stream `fd` by a named pipe in `folder`, and starts a relay from the pipe
/// to where the stream led before. The pipe has a name so that the kernel can write markers into
/// it. No other thread may run yet.
///
/// # Errors
/// The system refuses a pipe or a process.
pub fn install(fd: c_int, folder: &Path, filter: StreamEncoder) -> Result<()> {
    let cell_process = std::process::id().cast_signed();
    let (read, write) = named_pipe(&pipe_path(folder, cell_process, fd))?;
    // SAFETY: the standard streams are open, and the calls are about descriptors and this process.
    // The new process uses nothing of this one but two files. It closes the standard streams, so
    // that their readers notice the end of the cell process.
    unsafe {
        let real = File::from(BorrowedFd::borrow_raw(fd).try_clone_to_owned()?);
        match libc::fork() {
            -1 => return Err(Error::last_os_error()),
            0 => {
                drop(write);
                for fd in 0..=2 {
                    libc::close(fd);
                }
                forward(&read, &real, cell_process, filter);
                libc::_exit(0);
            }
            _ => {}
        }
        match libc::dup2(write.as_raw_fd(), fd) {
            -1 => Err(Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

/// Creates a named pipe and opens both ends.
fn named_pipe(path: &Path) -> Result<(File, File)> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path ends in a zero byte.
    if unsafe { libc::mkfifo(name.as_ptr(), 0o600) } < 0 {
        return Err(Error::last_os_error());
    }
    // Otherwise this would wait for a writer.
    let read = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let write = File::options().write(true).open(path)?;
    rustix::fs::fcntl_setfl(&read, OFlags::empty())?;
    Ok((read, write))
}

fn forward(mut read: &File, mut real: &File, cell_process: libc::pid_t, mut filter: StreamEncoder) {
    let watch = open_pidfd(cell_process);
    let wait = if watch < 0 { POLL_INTERVAL_MS } else { -1 };
    let (mut part, mut out) = (vec![0u8; 1 << 16], EncodedOutput::default());
    let mut late = None;
    let mut left = MAX_TRAILING;
    loop {
        let poll = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut polled = [poll(read.as_raw_fd()), poll(watch)];
        // SAFETY: two pollfds; those with a negative descriptor are ignored.
        unsafe { libc::poll(polled.as_mut_ptr(), 2, wait) };
        // SAFETY: a query without arguments.
        let is_orphaned = polled[1].revents != 0 || unsafe { libc::getppid() } != cell_process;
        if polled[0].revents != 0 {
            let n = match read.read(&mut part) {
                Ok(n @ 1..) => n,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                _ => break,
            };
            filter.push(&part[..n], &mut out);
            if real.write_all(&out.lines).is_err() {
                return;
            }
            send_late(&mut late, &out.late);
            out.lines.clear();
            out.late.clear();
            left = if is_orphaned { left.saturating_sub(n) } else { left };
        }
        if is_orphaned && (polled[0].revents == 0 || left == 0) {
            break;
        }
    }
    filter.finish(&mut out);
    let _ = real.write_all(&out.lines);
    send_late(&mut late, &out.late);
}

/// Sends text that is printed between cells over the side channel, which is opened on first use.
fn send_late(channel: &mut Option<UnixStream>, text: &str) {
    if text.is_empty() {
        return;
    }
    let line = format!("{}\n", serde_json::json!({ "kind": "late", "text": text }));
    let open = || UnixStream::connect(std::env::var_os(CHANNEL_ENV_VAR)?).ok();
    let stream = channel.take().or_else(open);
    *channel = stream.filter(|mut stream| stream.write_all(line.as_bytes()).is_ok());
}

/// Returns a descriptor that becomes readable when the process ends; negative where the system has
/// none.
fn open_pidfd(process: libc::pid_t) -> c_int {
    #[cfg(target_os = "linux")]
    // SAFETY: a system call with two numbers.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) };
    #[cfg(not(target_os = "linux"))]
    let (descriptor, _) = (-1, process);
    c_int::try_from(descriptor).unwrap_or(-1)
}
