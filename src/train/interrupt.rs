//! Requests to stop: the first one stops a run after its current step and keeps its result. A cell
//! of a notebook listens as a whole, so that its own loops stop too.
//!
//! A cell process listens to interrupts. A program also listens to requests to terminate, which
//! schedulers and `kill` send, and to the end of its terminal.

#[cfg(unix)]
use std::sync::atomic::AtomicI64;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

static STOP: AtomicBool = AtomicBool::new(false);
/// Number of listeners: a run of a grid listens within the grid.
static LISTENERS: AtomicUsize = AtomicUsize::new(0);
/// Whether this process is a program, which stops on more signals than a cell.
static IN_PROGRAM: AtomicBool = AtomicBool::new(false);
/// The first signal that was received.
static FIRST: AtomicI32 = AtomicI32::new(0);
/// Time of the first signal, in milliseconds of a clock that never goes back.
#[cfg(unix)]
static FIRST_AT: AtomicI64 = AtomicI64::new(0);

/// Makes runs also stop on a request to terminate and at the end of the terminal, unless these are
/// ignored, as `nohup` does; and a second request ends the process at once. For programs only: the
/// kernel ends the process of a cell.
pub fn in_program() {
    IN_PROGRAM.store(true, Ordering::SeqCst);
}

/// Returns the exit code of a program that was asked to stop: 128 and the number of the signal, as
/// shells have it. 130, that of an interrupt, if no signal was received.
pub fn exit_code() -> u8 {
    const INTERRUPT: i32 = 2;
    let signal = match FIRST.load(Ordering::SeqCst) {
        0 => INTERRUPT,
        signal => signal,
    };
    128 + signal as u8
}

/// Records a signal that was received by other means than by [`InterruptGuard`].
pub fn received(signal: i32) {
    let _ = FIRST.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
}

/// Returns whether the process ignores a signal.
#[cfg(unix)]
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: the struct is plain data that sigaction(2) fills; no new action is given.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}

/// Guard that handles the signals that ask to stop until it is dropped, then restores the previous
/// handlers.
///
/// In a notebook, the cell process ignores the signal outside of cells, so a late interrupt ends
/// nothing.
pub struct InterruptGuard {
    #[cfg(unix)]
    previous: Vec<(libc::c_int, libc::sigaction)>,
}

impl InterruptGuard {
    /// Starts listening. An earlier request is forgotten unless another listener exists, which may
    /// have received it.
    pub fn start() -> Self {
        if LISTENERS.fetch_add(1, Ordering::SeqCst) == 0 {
            STOP.store(false, Ordering::SeqCst);
        }
        Self {
            #[cfg(unix)]
            previous: signals().map(|signal| (signal, install(signal))).collect(),
        }
    }

    /// Returns whether the run should stop.
    pub(crate) fn should_stop(&self) -> bool {
        STOP.load(Ordering::SeqCst)
    }
}

/// Returns the signals that ask to stop. Those that were ignored when the program was started stay
/// so; an interrupt that is ignored is that of a cell process between its cells.
#[cfg(unix)]
fn signals() -> impl Iterator<Item = libc::c_int> {
    let more = IN_PROGRAM.load(Ordering::SeqCst);
    let others = [libc::SIGTERM, libc::SIGHUP].into_iter();
    let others = others.filter(move |signal| more && !is_ignored(*signal));
    std::iter::once(libc::SIGINT).chain(others)
}

/// Returns whether there was an interrupt and nobody but the cell itself listens. A run within the
/// cell stops by itself, at the end of its step, and must not be unwound.
#[inline]
pub fn should_unwind_cell() -> bool {
    STOP.load(Ordering::Relaxed) && LISTENERS.load(Ordering::SeqCst) == 1
}

/// Milliseconds within which a request that follows the first is the same one: at the end of a
/// terminal, both the shell and the system send one, and systemd sends two different signals.
#[cfg(unix)]
const SAME_MILLISECONDS: i64 = 500;

#[cfg(unix)]
extern "C" fn on_signal(signal: libc::c_int) {
    let now = milliseconds();
    if STOP.swap(true, Ordering::SeqCst) {
        // A second interrupt of a cell finds the flag set. The kernel ends a process that does not
        // reach its next step.
        let is_another = now - FIRST_AT.load(Ordering::SeqCst) > SAME_MILLISECONDS;
        if IN_PROGRAM.load(Ordering::SeqCst) && is_another {
            // SAFETY: both calls are async-signal-safe. The signal is delivered when this handler
            // returns, and ends the process.
            unsafe {
                libc::signal(signal, libc::SIG_DFL);
                libc::raise(signal);
            }
        }
        return;
    }
    FIRST_AT.store(now, Ordering::SeqCst);
    received(signal);
}

/// Returns the time of a clock that never goes back.
#[cfg(unix)]
// The types differ between systems.
#[allow(clippy::unnecessary_cast)]
fn milliseconds() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills the struct; async-signal-safe.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as i64 * 1000 + now.tv_nsec as i64 / 1_000_000
}

#[cfg(unix)]
fn install(signal: libc::c_int) -> libc::sigaction {
    // SAFETY: both structs are plain data that sigaction(2) fills or reads; the handler calls
    // async-signal-safe functions only.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let mut previous: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(signal, &action, &mut previous);
        previous
    }
}

impl Drop for InterruptGuard {
    fn drop(&mut self) {
        LISTENERS.fetch_sub(1, Ordering::SeqCst);
        #[cfg(unix)]
        for (signal, previous) in &self.previous {
            // SAFETY: restores the action that `install` was given by the system.
            unsafe {
                libc::sigaction(*signal, previous, std::ptr::null_mut());
            }
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::support::process;

    /// In a process of its own: the signal would interrupt the runs of other tests.
    #[test]
    fn a_signal_sets_the_flag_and_a_new_run_clears_it() {
        if process::alone(this_test!()) {
            return;
        }
        let guard = InterruptGuard::start();
        assert!(!guard.should_stop() && !should_unwind_cell());
        // SAFETY: raises the signal that is being listened for in this very process.
        unsafe { libc::raise(libc::SIGINT) };
        assert!(guard.should_stop());
        assert!(should_unwind_cell());
        let inner = InterruptGuard::start();
        assert!(inner.should_stop(), "who listens inside hears it too");
        assert!(!should_unwind_cell(), "the loop stops by itself");
        drop(inner);
        drop(guard);
        assert!(!InterruptGuard::start().should_stop());
    }

    /// In a process of its own, which is a program.
    #[test]
    fn a_program_stops_on_requests_to_terminate_unless_they_are_ignored() {
        if process::alone(this_test!()) {
            return;
        }
        in_program();
        assert_eq!(exit_code(), 130);
        // SAFETY: as `nohup` does.
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
        let guard = InterruptGuard::start();
        assert!(is_ignored(libc::SIGHUP) && !is_ignored(libc::SIGTERM));
        // SAFETY: raises signals that are being listened for or ignored in this very process.
        unsafe { libc::raise(libc::SIGHUP) };
        assert!(!guard.should_stop());
        unsafe { libc::raise(libc::SIGTERM) };
        assert!(guard.should_stop());
        assert_eq!(exit_code(), 143);
        // The same request again.
        unsafe { libc::raise(libc::SIGINT) };
        assert_eq!(exit_code(), 143);
        drop(guard);

        // A second request, a while after the first, ends the process at once.
        // SAFETY: no other thread of this process works.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let _guard = InterruptGuard::start();
            for _ in 0..2 {
                // SAFETY: as above; the process ends without running anything else of it.
                unsafe { libc::raise(libc::SIGTERM) };
                std::thread::sleep(std::time::Duration::from_millis(600));
            }
            unsafe { libc::_exit(0) };
        }
        let mut status = 0;
        // SAFETY: waits for the child and fills the number.
        unsafe { libc::waitpid(child, &mut status, 0) };
        assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGTERM, "{status}");
    }
}
