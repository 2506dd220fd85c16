//! [`DeviceGuard`]: failures of a GPU backend as errors.
//!
//! CubeCL drives each GPU from a thread of its own. An operation that fails there marks its
//! outputs, and reading a marked output reports the failure. A *panic* of that thread marks
//! nothing: CubeCL logs it and continues, the outputs keep what their memory held before, and
//! reading them succeeds. A guard hears such panics by a panic hook, so that no result follows from
//! them.

use std::any::Any;
use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Once, PoisonError};

use super::DeviceSpec;
use crate::{Error, ErrorKind, Result, program};

/// Guard that turns every failure of a device into an error: errors of its operations, panics of
/// the calling thread, and panics of the backend's own threads, which no operation reports.
///
/// The guard covers all work on the device from its creation on. Work is asynchronous, so a failure
/// is certain to be seen only by a [`run`](Self::run) that copies a result to the host.
///
/// On the CPU nothing is caught: a panic there is a bug of the lab.
#[derive(Debug)]
pub struct DeviceGuard {
    device: DeviceSpec,
    /// The number of panics of backend threads before the guard.
    panics_before: usize,
}

impl DeviceGuard {
    /// Creates a guard of the work on this device from now on.
    pub fn new(device: DeviceSpec) -> Self {
        if device != DeviceSpec::Cpu {
            install_panic_hook();
            ACTIVE_GUARDS.fetch_add(1, Ordering::SeqCst);
        }
        Self { device, panics_before: last_number(&backend_panics()) }
    }

    /// Runs `work` on the device. Its result counts only if the device has not failed.
    ///
    /// # Errors
    /// `Device` if a thread of the backend has panicked since the guard was made, with the first
    /// cause, or if `work` panics; otherwise the errors of `work`.
    pub fn run<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.device == DeviceSpec::Cpu {
            return work();
        }
        // Unwind safe: the state of `work` is dropped, so nothing half-done remains visible.
        let outcome = with_silenced_panics(|| catch_unwind(AssertUnwindSafe(work)));
        self.check()?;
        outcome.unwrap_or_else(|panic| {
            Err(device_error(&self.device, panic_text(&*panic).unwrap_or(NO_REASON)))
        })
    }

    /// Checks that no thread of the backend has panicked since the guard was made.
    ///
    /// # Errors
    /// `Device` with the message of the first panic.
    pub(crate) fn check(&self) -> Result<()> {
        let new = |panic: &&BackendPanic| panic.number > self.panics_before;
        let is_own = |panic: &&BackendPanic| is_thread_of_device(&panic.thread, self.device);
        match backend_panics().iter().filter(new).find(is_own) {
            Some(panic) => Err(device_error(&self.device, &panic.message)),
            None => Ok(()),
        }
    }
}

impl Drop for DeviceGuard {
    fn drop(&mut self) {
        if self.device != DeviceSpec::Cpu {
            ACTIVE_GUARDS.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Returns the error for a failure that `device` reported with this message.
pub(crate) fn device_error(device: &impl std::fmt::Display, message: &str) -> Error {
    let what = format!("{device} failed: {}", summarise_failure(message));
    if is_out_of_memory(message) {
        return Error::new(ErrorKind::Device, what, "the GPU ran out of memory").fix(
            "set EPSILAB_DEVICE_MEMORY to fewer MiB than the GPU has free, stop other programs \
             on the GPU (`nvidia-smi` lists them), or use a smaller model",
        );
    }
    let why = "the computation in progress is lost; earlier results are kept";
    let doctor = program::command("doctor");
    Error::new(ErrorKind::Device, what, why)
        .fix(format!("check the GPU (`{doctor}`, `nvidia-smi`), or use the device \"cpu\""))
}

/// Returns whether a failure with this message means that memory ran out. The patterns are those
/// of CubeCL 0.11.3, to which the crate is pinned, and of the GPU drivers.
pub(crate) fn is_out_of_memory(message: &str) -> bool {
    const PATTERNS: [&str; 5] = [
        "out of device memory",
        "out-of-memory",
        "can't allocate",
        "out of memory",
        "out_of_memory",
    ];
    let lower = message.to_lowercase();
    PATTERNS.iter().any(|pattern| lower.contains(pattern))
}

/// Returns the causes in a message, without the source of the kernel that failed and without the
/// layers of the backend that passed it on. The last cause is the root.
fn summarise_failure(message: &str) -> String {
    const WRAPPER_PREFIXES: [&str; 14] = [
        "Error while reading data",
        "Caused by",
        "An error happened during execution",
        "Several failures at once",
        "The bytes were never written",
        "A launch error happened",
        "A compilation error happened",
        "An error caused the compilation to fail",
        "[Compilation Error]",
        "Backtrace:",
        "No backtrace available",
        "Asked at:",
        "skipped `",
        "(",
    ];
    const LINES: usize = 4;
    const CHARACTERS: usize = 400;
    let causes = message.split("[Source]").next().unwrap_or_default();
    // Where a failure passed through several hands, each has named the device.
    let lines = causes.lines().map(|line| line.trim().trim_start_matches("the device failed: "));
    let lines = lines.filter(|line| !line.is_empty());
    let mut lines: Vec<&str> = lines
        .filter(|line| !WRAPPER_PREFIXES.iter().any(|layer| line.starts_with(layer)))
        .collect();
    lines.dedup();
    let roots = &lines[lines.len().saturating_sub(LINES)..];
    if roots.is_empty() {
        message.trim().chars().take(CHARACTERS).collect()
    } else {
        roots.join("; ").chars().take(CHARACTERS).collect()
    }
}

/// Returns the text of a panic, if it has one.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> Option<&str> {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied())
}

const NO_REASON: &str = "no reason was given";

/// Number of guards that exist. While there are any, panics of backend threads are not printed.
static ACTIVE_GUARDS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Whether a panic of this thread is caught and reported as an error.
    static SILENCES_PANICS: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` without printing a panic of this thread.
fn with_silenced_panics<T>(work: impl FnOnce() -> T) -> T {
    let before = SILENCES_PANICS.replace(true);
    let result = work();
    SILENCES_PANICS.set(before);
    result
}

/// A panic of a backend thread.
struct BackendPanic {
    /// Number of the panic in this process, from 1.
    number: usize,
    thread: String,
    message: String,
}

const KEPT_PANICS: usize = 16;

/// Returns the latest panics of backend threads in this process, the oldest first.
fn backend_panics() -> std::sync::MutexGuard<'static, VecDeque<BackendPanic>> {
    static PANICS: Mutex<VecDeque<BackendPanic>> = Mutex::new(VecDeque::new());
    // Every change is complete in itself, so a poisoned lock is harmless.
    PANICS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the number of the last panic; 0 if there was none.
fn last_number(panics: &VecDeque<BackendPanic>) -> usize {
    panics.back().map_or(0, |panic| panic.number)
}

/// Installs the panic hook, once per process.
fn install_panic_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let next = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let thread = std::thread::current();
            let thread = thread.name().unwrap_or_default();
            let backend = is_backend_thread(thread);
            if backend && !is_reported_by_backend(info.location()) {
                let message = info.payload_as_str().unwrap_or(NO_REASON);
                let mut panics = backend_panics();
                let (number, thread) = (last_number(&panics) + 1, thread.to_owned());
                panics.push_back(BackendPanic { number, thread, message: message.to_owned() });
                if panics.len() > KEPT_PANICS {
                    panics.pop_front();
                }
            }
            let reported = if backend {
                ACTIVE_GUARDS.load(Ordering::SeqCst) > 0
            } else {
                SILENCES_PANICS.get()
            };
            if !reported {
                next(info);
            }
        }));
    });
}

/// Returns whether CubeCL drives a device from a thread of this name: `DSU-0-0`, `DSD-0-0` with
/// stage, type and number of the device.
fn is_backend_thread(name: &str) -> bool {
    name.starts_with("DSU-") || name.starts_with("DSD-")
}

/// Returns whether the thread of this name, one of the backend, drives this device. Always true for
/// WGPU, whose thread names vary with the type of the device.
fn is_thread_of_device(thread: &str, device: DeviceSpec) -> bool {
    match device {
        DeviceSpec::Cpu => false,
        DeviceSpec::Cuda(number) => thread.ends_with(&format!("-0-{number}")),
        DeviceSpec::Wgpu => true,
    }
}

/// Returns whether a panic of a backend thread is reported by CubeCL itself. While it expands a
/// kernel it catches panics and reports them like errors of a compiler: autotuning then drops the
/// candidate, and any other operation marks its outputs. The code that runs during an expansion is
/// that of kernels and of the language they are written in.
fn is_reported_by_backend(location: Option<&Location<'_>>) -> bool {
    const EXPANDED: [&str; 6] = [
        "/cubecl-core-",
        "/cubecl-std-",
        "/cubecl-ir-",
        "/cubek-",
        "/burn-cubecl-",
        "kernels/cube",
    ];
    location.is_some_and(|location| EXPANDED.iter().any(|part| location.file().contains(part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_on_a_gpu_but_not_on_the_cpu() {
        let fails = || -> Result<()> { panic!("kernel\n\n went wrong") };
        let run = |device| DeviceGuard::new(device).run(fails);
        let error = run(DeviceSpec::Cuda(0)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Device);
        assert!(error.to_string().contains("cuda:0 failed: kernel; went wrong"), "{error}");
        let out_of_memory = || -> Result<()> { panic!("ran {} of memory", "out") };
        let error = DeviceGuard::new(DeviceSpec::Cuda(0)).run(out_of_memory).unwrap_err();
        assert!(error.advice().contains("EPSILAB_DEVICE_MEMORY"), "{error}");
        assert!(catch_unwind(|| run(DeviceSpec::Cpu)).is_err());
        let guard = DeviceGuard::new(DeviceSpec::Cuda(0));
        assert_eq!(guard.run(|| Ok(7)).unwrap(), 7);
        let refused = || Err::<(), _>(Error::setting("x", 1, "no"));
        assert_eq!(guard.run(refused).unwrap_err().kind(), ErrorKind::Setting);
    }

    #[test]
    fn a_panic_of_a_backend_thread_ends_the_work_with_its_message() {
        // CubeCL catches it there, so nothing else would report it.
        let backend_thread = |name: &str, work: fn()| {
            let thread = std::thread::Builder::new().name(name.into());
            thread.spawn(move || drop(catch_unwind(work))).unwrap().join().unwrap();
        };
        let guard = DeviceGuard::new(DeviceSpec::Cuda(7));
        let error = guard.run(|| {
            backend_thread("DSD-0-7", || panic!("Unable to dynamically load \"nvrtc\""));
            backend_thread("DSD-0-7", || panic!("a later one"));
            Ok(0.0)
        });
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Device);
        assert!(error.to_string().contains("cuda:7 failed: Unable to dynamically load"), "{error}");
        assert!(guard.run(|| Ok(())).is_err(), "the guard remembers");
        // Panics of other devices and threads are not its own, and a new guard starts anew.
        let guard = DeviceGuard::new(DeviceSpec::Cuda(7));
        backend_thread("DSD-0-8", || panic!("of another GPU"));
        backend_thread("a thread of the user", || panic!("in a test, on purpose"));
        assert!(guard.run(|| Ok(())).is_ok());
    }

    #[test]
    fn a_message_is_reduced_to_its_cause() {
        let message = "a computation failed: An error happened during execution\nCaused by:\n  \
                       Several failures at once\nCaused by:\n  The bytes were never written\n\
                       Caused by:\n  [Compilation Error] \n    nvrtc: error: failed to open \
                       libnvrtc-builtins.so.13.2.\n      Make sure it is installed.\n\
                       [Source]  \ntypedef unsigned int uint32_t;";
        assert_eq!(
            summarise_failure(message),
            "a computation failed: An error happened during execution; nvrtc: error: failed to \
             open libnvrtc-builtins.so.13.2.; Make sure it is installed."
        );
        assert_eq!(summarise_failure("Caused by:"), "Caused by:");
        assert!(!is_out_of_memory("an illegal memory access was encountered"));
    }
}
