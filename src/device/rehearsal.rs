//! [`is_rehearsal`]: compilation of kernels on a driver that computes nothing.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Environment variable that requests a rehearsal.
const REHEARSAL_VARIABLE: &str = "EPSILAB_REHEARSAL";

/// The mark of every output of a rehearsal.
#[doc(hidden)]
pub const REHEARSAL_MARK: &str = "rehearsal: no result";

/// Returns whether this process rehearses: the environment variable `EPSILAB_REHEARSAL` is 1.
///
/// A rehearsal runs programs on a CUDA driver that computes nothing, to see which kernels they
/// generate and whether these compile. It skips the comparison with the CPU that a device must pass
/// otherwise. Nothing that it prints or stores is a result: names of data and devices carry
/// [`REHEARSAL_MARK`], and its runs are stored under other names than real ones.
#[doc(hidden)]
pub fn is_rehearsal() -> bool {
    static REHEARSAL: OnceLock<bool> = OnceLock::new();
    *REHEARSAL.get_or_init(|| std::env::var(REHEARSAL_VARIABLE).is_ok_and(|value| value == "1"))
}

/// Whether a device that failed the comparison with the CPU in this process is used nevertheless.
static STUB_DEVICE: AtomicBool = AtomicBool::new(false);

/// Returns whether this process rehearses on a device that was found to compute nothing. Only then
/// are checks of results skipped: on the CPU, and on a device that computes, a rehearsal checks
/// everything.
#[doc(hidden)]
pub fn is_stub_device() -> bool {
    STUB_DEVICE.load(Ordering::SeqCst)
}

/// Notes that a rehearsal continues although the device computes nothing.
pub(super) fn accept_stub_device() {
    STUB_DEVICE.store(true, Ordering::SeqCst);
}

/// Returns a name for display: with [`REHEARSAL_MARK`] in a rehearsal.
#[doc(hidden)]
pub fn with_rehearsal_mark(name: &str) -> String {
    if is_rehearsal() { format!("{name} ({REHEARSAL_MARK})") } else { name.to_owned() }
}
