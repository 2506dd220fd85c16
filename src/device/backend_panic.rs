//! Burn's backends for GPUs panic where the lab gives errors.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::DeviceSpec;
use crate::{Error, ErrorKind, Result};

/// Does `work` on a device; a panic of its backend becomes an error that says where it happened.
/// On the CPU nothing is caught: a panic there is a mistake of the lab.
///
/// # Errors
/// Those of `work`; `Device` if the backend panicked: what it said, and what to do.
pub fn catch_backend_panic<T>(place: DeviceSpec, work: impl FnOnce() -> Result<T>) -> Result<T> {
    if place == DeviceSpec::Cpu {
        return work();
    }
    // What was under way is given up as a whole: nobody sees it half done.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(broken(place, &said(&*panic))))
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("it gave no reason");
    // The rest of a long text is a list of stack frames.
    let first: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).take(4).collect();
    first.join(" ").chars().take(400).collect()
}

fn broken(place: DeviceSpec, said: &str) -> Error {
    let full = ["memory", "OutOf", "OUT_OF"].iter().any(|word| said.contains(word));
    let error = Error::new(
        ErrorKind::Device,
        format!("{place} failed: {said}"),
        if full {
            "there was not enough memory on the GPU"
        } else {
            "what it was computing is lost; earlier results are kept"
        },
    );
    error.fix(if full {
        "set EPSILAB_DEVICE_MEMORY to fewer MiB than the gpu has free, free the gpu \
         (`nvidia-smi` lists who uses it), or take a smaller model"
    } else {
        "look at the GPU (`cargo lab doctor`, `nvidia-smi`), or use the device \"cpu\""
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_on_a_gpu_is_an_error_and_on_the_cpu_a_mistake() {
        let fails = || -> Result<()> { panic!("kernel\n\n went wrong") };
        let error = catch_backend_panic(DeviceSpec::Cuda(0), fails).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Device);
        assert!(error.to_string().contains("cuda:0 failed: kernel  went wrong"), "{error}");
        let full = || -> Result<()> { panic!("{} of memory", "ran out") };
        let error = catch_backend_panic(DeviceSpec::Wgpu, full).unwrap_err();
        assert!(error.advice().contains("EPSILAB_DEVICE_MEMORY"), "{error}");
        assert!(catch_unwind(|| catch_backend_panic(DeviceSpec::Cpu, fails)).is_err());
        assert_eq!(catch_backend_panic(DeviceSpec::Wgpu, || Ok(7)).unwrap(), 7);
        let own = || Err::<(), _>(Error::setting("x", 1, "no"));
        assert_eq!(
            catch_backend_panic(DeviceSpec::Wgpu, own).unwrap_err().kind(),
            ErrorKind::Setting
        );
    }
}
