//! Interrupts: the first one stops a run after its current step and keeps its result. A cell of a
//! notebook listens as a whole, so that its own loops stop too.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

static STOP: AtomicBool = AtomicBool::new(false);
/// Number of listeners: a run of a grid listens within the grid.
static LISTENERS: AtomicUsize = AtomicUsize::new(0);

/// Handles the interrupt signal until it is dropped, then restores the previous handler.
///
/// In a notebook, the cell process ignores the signal outside of cells, so a late interrupt ends
/// nothing.
pub struct Listening {
    #[cfg(unix)]
    previous: libc::sigaction,
}

impl Listening {
    /// Starts listening. An earlier interrupt is forgotten unless another listener exists, which
    /// may have received it.
    pub fn start() -> Self {
        if LISTENERS.fetch_add(1, Ordering::SeqCst) == 0 {
            STOP.store(false, Ordering::SeqCst);
        }
        Self {
            #[cfg(unix)]
            previous: install(),
        }
    }

    /// As [`start`](Self::start), and stops on a request to terminate too, from now on: for a
    /// process that a batch system may end.
    pub(crate) fn start_in_batch() -> Self {
        let listening = Self::start();
        #[cfg(unix)]
        // SAFETY: as in `install`; the handler stays.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(libc::SIGTERM, &action, std::ptr::null_mut());
        }
        listening
    }

    /// Whether the run should stop.
    pub fn stop(&self) -> bool {
        STOP.load(Ordering::SeqCst)
    }
}

/// Whether there was an interrupt and nobody but the cell itself listens. A run within the cell
/// stops by itself, at the end of its step, and must not be unwound.
#[inline]
pub fn ends_cell() -> bool {
    STOP.load(Ordering::Relaxed) && LISTENERS.load(Ordering::SeqCst) == 1
}

#[cfg(unix)]
extern "C" fn on_signal(_signal: libc::c_int) {
    // A second interrupt finds the flag set. The kernel (or SIGQUIT from a shell) ends a process
    // that does not reach its next step.
    STOP.store(true, Ordering::SeqCst);
}

#[cfg(unix)]
fn install() -> libc::sigaction {
    // SAFETY: both structs are plain data that sigaction(2) fills or reads; the handler only
    // stores to an atomic, which is async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let mut previous: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGINT, &action, &mut previous);
        previous
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        LISTENERS.fetch_sub(1, Ordering::SeqCst);
        #[cfg(unix)]
        // SAFETY: restores the action that `install` was given by the system.
        unsafe {
            libc::sigaction(libc::SIGINT, &self.previous, std::ptr::null_mut());
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
        let listening = Listening::start();
        assert!(!listening.stop() && !ends_cell());
        // SAFETY: raises the signal that is being listened for in this very process.
        unsafe { libc::raise(libc::SIGINT) };
        assert!(listening.stop());
        assert!(ends_cell());
        let inner = Listening::start();
        assert!(inner.stop(), "who listens inside hears it too");
        assert!(!ends_cell(), "it stops by itself");
        drop(inner);
        drop(listening);
        assert!(!Listening::start().stop());
    }
}
