//! [`catch_backend_panic`]: panics of Burn's GPU backends as errors.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::DeviceSpec;
use crate::{Error, ErrorKind, Result};

/// Runs `work` on a device and turns a panic of its backend into an error.
///
/// On the CPU nothing is caught: a panic there is a bug of the lab.
///
/// # Errors
/// The errors of `work`; `Device` with the panic message if the backend panicked.
pub fn catch_backend_panic<T>(device: DeviceSpec, work: impl FnOnce() -> Result<T>) -> Result<T> {
    if device == DeviceSpec::Cpu {
        return work();
    }
    // Unwind safe: the state of `work` is dropped, so nothing half-done remains visible.
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(backend_error(device, &panic_message(&*panic))))
}

/// The first lines of a panic message; the rest may be stack frames.
fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("it gave no reason");
    let first: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).take(4).collect();
    first.join(" ").chars().take(400).collect()
}

fn backend_error(device: DeviceSpec, message: &str) -> Error {
    let out_of_memory = ["memory", "OutOf", "OUT_OF"].iter().any(|word| message.contains(word));
    let error = Error::new(
        ErrorKind::Device,
        format!("{device} failed: {message}"),
        if out_of_memory {
            "the GPU ran out of memory"
        } else {
            "the computation in progress is lost; earlier results are kept"
        },
    );
    error.fix(if out_of_memory {
        "set EPSILAB_DEVICE_MEMORY to fewer MiB than the GPU has free, stop other programs on the \
         GPU (`nvidia-smi` lists them), or use a smaller model"
    } else {
        "check the GPU (`cargo lab doctor`, `nvidia-smi`), or use the device \"cpu\""
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_on_a_gpu_but_not_on_the_cpu() {
        let fails = || -> Result<()> { panic!("kernel\n\n went wrong") };
        let error = catch_backend_panic(DeviceSpec::Cuda(0), fails).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Device);
        assert!(error.to_string().contains("cuda:0 failed: kernel  went wrong"), "{error}");
        let out_of_memory = || -> Result<()> { panic!("{} of memory", "ran out") };
        let error = catch_backend_panic(DeviceSpec::Wgpu, out_of_memory).unwrap_err();
        assert!(error.advice().contains("EPSILAB_DEVICE_MEMORY"), "{error}");
        assert!(catch_unwind(|| catch_backend_panic(DeviceSpec::Cpu, fails)).is_err());
        assert_eq!(catch_backend_panic(DeviceSpec::Wgpu, || Ok(7)).unwrap(), 7);
        let refused = || Err::<(), _>(Error::setting("x", 1, "no"));
        assert_eq!(
            catch_backend_panic(DeviceSpec::Wgpu, refused).unwrap_err().kind(),
            ErrorKind::Setting
        );
    }
}
