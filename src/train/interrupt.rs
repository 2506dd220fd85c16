//! Interrupts while a run is going: the first stops it at the next step, with everything kept.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

static STOP: AtomicBool = AtomicBool::new(false);
/// How many listen: a run within a grid of runs listens inside its grid.
static LISTENERS: AtomicUsize = AtomicUsize::new(0);

/// Listens for the interrupt signal as long as it lives, then restores what was there before.
///
/// In a notebook the cell process ignores the signal outside of runs, so an interrupt that comes
/// a moment late kills nothing.
pub(crate) struct Listening {
    #[cfg(unix)]
    previous: libc::sigaction,
}

impl Listening {
    /// Starts to listen; an earlier interrupt is forgotten, unless somebody listens already and
    /// has heard it.
    pub(crate) fn start() -> Self {
        if LISTENERS.fetch_add(1, Ordering::SeqCst) == 0 {
            STOP.store(false, Ordering::SeqCst);
        }
        Self {
            #[cfg(unix)]
            previous: install(),
        }
    }

    /// Whether the run should stop.
    pub(crate) fn stop(&self) -> bool {
        STOP.load(Ordering::SeqCst)
    }
}

#[cfg(unix)]
extern "C" fn on_signal(_signal: libc::c_int) {
    // The second interrupt of a run finds the flag set already: nothing more to do here, the
    // kernel (or the shell's own SIGQUIT) ends a process that does not reach its next step.
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

    #[test]
    fn a_signal_sets_the_flag_and_a_new_run_clears_it() {
        let listening = Listening::start();
        assert!(!listening.stop());
        // SAFETY: raises the signal that is being listened for in this very process.
        unsafe { libc::raise(libc::SIGINT) };
        assert!(listening.stop());
        assert!(Listening::start().stop(), "who listens inside hears it too");
        drop(listening);
        assert!(!Listening::start().stop());
    }
}
