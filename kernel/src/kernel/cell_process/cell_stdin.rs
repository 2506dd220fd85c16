//! Standard input of cells: a read by a cell asks the front end.
//!
//! Input comes over a socket pair. Nothing tells the other end that somebody waits, so a thread
//! looks while a cell runs whether a thread of this process, or a program that the cell started,
//! reads descriptor 0. Linux says so in `/proc`; on other systems the input is empty.

use std::io::{BufRead, BufReader, Result, Write};
use std::os::fd::{IntoRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::CHANNEL_ENV_VAR;
use crate::kernel::input_requests::InputReply;

/// Interval at which the thread looks for a waiting read.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Standard input of the cells of this process.
#[derive(Clone, Default)]
pub struct CellStdin {
    running: Arc<AtomicBool>,
    /// End of the socket that answers are written to; `None` after the end of the input.
    writer: Arc<Mutex<Option<UnixStream>>>,
}

impl CellStdin {
    /// Replaces standard input, and starts the thread that looks for readers.
    ///
    /// # Errors
    /// The system refuses a socket.
    pub fn install() -> Result<Self> {
        let input = Self::default();
        input.replace_stdin()?;
        let watcher = input.clone();
        std::thread::Builder::new().name("input".into()).spawn(move || watcher.watch())?;
        Ok(input)
    }

    /// Marks the beginning of a cell.
    pub fn begin_cell(&self) {
        self.running.store(true, Ordering::SeqCst);
    }

    /// Marks the end of a cell, when the other standard streams are open. Renews the standard
    /// input if the cell closed it or the input has ended, so that the next cell has an input
    /// again.
    pub fn end_cell(&self) {
        self.running.store(false, Ordering::SeqCst);
        // SAFETY: a plain descriptor call.
        let closed = unsafe { libc::fcntl(0, libc::F_GETFD) } < 0;
        if closed || self.writer.lock().is_none() {
            let _ = self.replace_stdin();
        }
    }

    fn replace_stdin(&self) -> Result<()> {
        let (reader, writer) = UnixStream::pair()?;
        let reader = reader.into_raw_fd();
        // SAFETY: plain descriptor calls; the descriptor has no other owner. If the cell closed 0,
        // it is the reader already. Programs that cells start inherit it.
        unsafe {
            if libc::dup2(reader, 0) < 0 || libc::fcntl(0, libc::F_SETFD, 0) < 0 {
                return Err(std::io::Error::last_os_error());
            }
            if reader != 0 {
                libc::close(reader);
            }
        }
        *self.writer.lock() = Some(writer).filter(|_| cfg!(target_os = "linux"));
        Ok(())
    }

    fn watch(&self) {
        block_signals();
        loop {
            std::thread::sleep(POLL_INTERVAL);
            if !self.running.load(Ordering::SeqCst) || !is_read(0) {
                continue;
            }
            let reply = request_line();
            let mut writer = self.writer.lock();
            let written = match (&mut *writer, reply) {
                (Some(writer), InputReply::Line(text)) => {
                    writer.write_all(format!("{text}\n").as_bytes())
                }
                (_, reply) => {
                    if reply == InputReply::Failed {
                        fail_pending_read();
                    }
                    Err(std::io::ErrorKind::UnexpectedEof.into())
                }
            };
            if written.is_err() {
                *writer = None;
            }
        }
    }
}

/// Blocks all signals in this thread: signals of the process are for the thread that runs cells.
fn block_signals() {
    // SAFETY: plain calls; the set is initialised before it is used.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, std::ptr::null_mut());
    }
}

/// Makes the waiting read fail when the other end is closed, in place of finding the end of the
/// input: a socket is reset if it is closed before all that was sent to it is read.
fn fail_pending_read() {
    // SAFETY: the text is valid for its length. A standard input that is no socket sends nothing.
    unsafe { libc::send(0, c"?".as_ptr().cast(), 1, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) };
}

/// Asks the kernel for a line. Without a kernel the process ends: after a shutdown or a restart,
/// the cell must not continue as if it had been answered.
fn request_line() -> InputReply {
    // SAFETY: ends the process without running anything of it.
    try_request_line().unwrap_or_else(|| unsafe { libc::_exit(1) })
}

fn try_request_line() -> Option<InputReply> {
    let mut stream = UnixStream::connect(std::env::var_os(CHANNEL_ENV_VAR)?).ok()?;
    stream.write_all(b"{\"kind\":\"input\"}\n").ok()?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).ok()?;
    serde_json::from_str(&line).ok()
}

/// Returns `false`: only Linux shows which threads wait in a read.
#[cfg(not(target_os = "linux"))]
fn is_read(_: RawFd) -> bool {
    false
}

/// Returns whether a thread of this process, or of a process that it started, waits in a read of
/// this descriptor.
#[cfg(target_os = "linux")]
fn is_read(fd: RawFd) -> bool {
    let link = |process: &str| std::fs::read_link(format!("/proc/{process}/fd/{fd}")).ok();
    let own_stream = link("self");
    let mut open = vec!["self".to_owned()];
    while let Some(process) = open.pop() {
        for task in crate::folder::entries(format!("/proc/{process}/task").as_ref()) {
            let file = |name: &str| std::fs::read_to_string(task.join(name));
            let reads = file("syscall").is_ok_and(|call| is_read_call(&call, fd));
            if reads && link(&process) == own_stream {
                return true;
            }
            let children = file("children").unwrap_or_default();
            open.extend(children.split_whitespace().map(str::to_owned));
        }
    }
    false
}

/// Returns whether the text of `/proc/…/syscall` is a read of this descriptor.
#[cfg(target_os = "linux")]
fn is_read_call(call: &str, fd: RawFd) -> bool {
    let mut fields = call.split(' ');
    let number = fields.next().and_then(|word| word.parse().ok());
    let reads = [libc::SYS_read, libc::SYS_readv];
    number.is_some_and(|number| reads.contains(&number))
        && fields.next() == Some(&format!("{fd:#x}"))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_reads_of_the_descriptor_count() {
        let call = |number: libc::c_long, fd: &str| format!("{number} {fd} 0x7ffc 0x10 0x0 0x0\n");
        assert!(is_read_call(&call(libc::SYS_read, "0x0"), 0));
        assert!(is_read_call(&call(libc::SYS_readv, "0x0"), 0));
        assert!(!is_read_call(&call(libc::SYS_read, "0x5"), 0));
        assert!(!is_read_call(&call(libc::SYS_write, "0x0"), 0));
        assert!(!is_read_call("running", 0));
    }

    #[test]
    fn a_waiting_thread_is_found() {
        use std::io::Read;
        use std::os::fd::AsRawFd;
        let (reader, mut writer) = UnixStream::pair().unwrap();
        // As standard input is read: a read, not a receive.
        let mut reader = std::fs::File::from(std::os::fd::OwnedFd::from(reader));
        let fd = reader.as_raw_fd();
        assert!(!is_read(fd));
        let thread = std::thread::spawn(move || reader.read(&mut [0; 4]).unwrap());
        let until = std::time::Instant::now() + Duration::from_secs(600);
        while !is_read(fd) {
            assert!(std::time::Instant::now() < until, "the reader is not found");
            std::thread::sleep(Duration::from_millis(5));
        }
        writer.write_all(b"ab").unwrap();
        assert_eq!(thread.join().unwrap(), 2);
    }
}
