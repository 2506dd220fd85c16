//! [`with_failure_detection`]: detection of every failure of a GPU during some work, whether or
//! not its results show it.

use burn::prelude::Device;
#[cfg(feature = "gpu")]
use cubecl::server::ProfileError;

/// Runs `work` and reports a failure of any operation that it starts on this device. On the CPU,
/// and on a GPU that can't profile, it only runs `work`.
///
/// Reading a result reports only failures that are marked on it, and CubeCL 0.11 loses some marks:
/// where kernels add to their output by atomic operations (sums of all values, scattered
/// additions), and where a later kernel writes another part of the same output (concatenations).
/// Profiling windows hear of every failure, marked or not, so one is open during `work`.
///
/// Candidates of autotuning may fail, which is no failure of the work: run everything once before,
/// so that nothing is left to tune. A window costs two events on the GPU, and the host waits for
/// the thread that drives the GPU, so this is not for every step.
///
/// # Errors
/// The message of the failure.
pub(crate) fn with_failure_detection<T>(
    device: &Device,
    work: impl FnOnce() -> T,
) -> Result<T, String> {
    #[cfg(feature = "gpu")]
    if let Some(window) = Window::open(device) {
        let result = work();
        return window.close().map(|()| result);
    }
    let _ = device;
    Ok(work())
}

/// Profiling window, open until it is closed.
#[cfg(feature = "gpu")]
struct Window {
    client: cubecl::client::Client,
    /// Window of CubeCL; `None` once it is closed.
    window: Option<cubecl::client::ProfileWindow>,
}

#[cfg(feature = "gpu")]
impl Window {
    /// Opens a window; `None` on the CPU, and on GPUs that can't profile.
    fn open(device: &Device) -> Option<Self> {
        use burn::prelude::Tensor;
        use burn_cubecl::CubeBackend;
        let tensor = Tensor::<1>::zeros([1], device).try_into_primitive::<CubeBackend>().ok()?;
        let client = tensor.client;
        let window = client.profile_start().ok()?;
        Some(Self { client, window: Some(window) })
    }

    fn close(mut self) -> Result<(), String> {
        match self.window.take().map(|window| self.client.profile_end(window)) {
            Some(Err(error @ (ProfileError::Launch(_) | ProfileError::Server(_)))) => {
                Err(error.to_string())
            }
            // The other errors are about the measurement, such as a window without any work.
            _ => Ok(()),
        }
    }
}

/// After a panic of the work the window is dropped unread.
#[cfg(feature = "gpu")]
impl Drop for Window {
    fn drop(&mut self) {
        if let Some(window) = self.window.take() {
            self.client.profile_abandon(window);
        }
    }
}
