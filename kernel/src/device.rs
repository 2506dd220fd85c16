//! The device that a command was told to use.

use epsilab::burn::prelude::Device;
use epsilab::device::Place;
use epsilab::{Error, Result};

/// Looks for the device before anything else touches it: without a driver Burn's first use of a
/// card panics on a thread of its own, and what comes back are numbers all the same.
///
/// # Errors
/// Kind `Setting` if there is no such device in this build or this machine.
pub fn find(place: Place) -> Result<Device> {
    let number = match place {
        Place::Cpu => return Ok(Device::flex()),
        Place::Cuda(number) | Place::Wgpu(number) => number,
    };
    let lacking = |why: String| Error::setting("--device", place, why);
    let Some(found) = cards(place) else {
        let name = place.to_string();
        let feature = name.split(':').next().unwrap_or_default();
        return Err(lacking("this program was built without it".into()).fix(format!(
            "use cpu, or build it with: cargo run -p epsilab-kernel --features {feature} --bin \
             epsilab -- …"
        )));
    };
    let count = found.len();
    found.into_iter().nth(number).ok_or_else(|| match count {
        0 => lacking("no such card was found, or no driver for one".into())
            .fix("use cpu; `nvidia-smi` says whether the system sees a card of NVIDIA"),
        _ => lacking(format!("this machine has {count}, counted from 0"))
            .fix("use a smaller number; `doctor` lists them"),
    })
}

/// The cards of the kind that `place` is of; nothing if the program was built without.
pub fn cards(place: Place) -> Option<Vec<Device>> {
    #[cfg(any(feature = "cuda", feature = "wgpu"))]
    use epsilab::burn::tensor::DeviceType;
    match place {
        #[cfg(feature = "cuda")]
        Place::Cuda(_) => Some(Device::enumerate(DeviceType::Cuda).to_vec()),
        #[cfg(feature = "wgpu")]
        Place::Wgpu(_) => Some(Device::enumerate(DeviceType::Wgpu).to_vec()),
        _ => None,
    }
}

/// The device of this name: `cpu`, `cuda`, `cuda:1`, `wgpu`.
///
/// # Errors
/// Kind `Setting` if there is no such name.
pub fn named(name: &str) -> Result<Place> {
    let (kind, number) = name.split_once(':').unwrap_or((name, "0"));
    match (kind, number.parse()) {
        ("cpu", _) if name == "cpu" => Ok(Place::Cpu),
        ("cuda", Ok(number)) => Ok(Place::Cuda(number)),
        ("wgpu", Ok(number)) => Ok(Place::Wgpu(number)),
        _ => {
            Err(Error::setting("--device", format!("{name:?}"), "there is no device of this name")
                .fix("use cpu, cuda, cuda:1 (the second card), or wgpu"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_places_print() {
        for place in [Place::Cpu, Place::Cuda(0), Place::Cuda(3), Place::Wgpu(1)] {
            assert_eq!(named(&place.to_string()).expect("a name"), place);
        }
        assert_eq!(named("cuda").expect("a name"), Place::Cuda(0));
        for wrong in ["", "gpu", "cpu:0", "cuda:", "cuda:x", "cuda:-1", "CUDA"] {
            assert!(named(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_card_that_is_not_there_is_an_error_and_the_cpu_always_is() {
        assert!(find(Place::Cpu).expect("the CPU") == Device::flex());
        let error = find(Place::Cuda(4096)).expect_err("nobody has as many").to_string();
        assert!(error.starts_with("--device = cuda:4096"), "{error}");
    }
}
