//! What a GPU does, tried on the CPU: the checks take the device, so that the same text runs on
//! others too (`software-gpu/tests/GPU.rs`).

#[macro_use]
mod checks;
// What counts copies to the host is called where they are alone.
#[allow(dead_code)]
mod data;
#[allow(dead_code)]
mod executor;
mod files;
mod steps;

use epsilab::burn::prelude::Device;

macro_rules! on_the_cpu {
    ($($name:ident: $check:path,)*) => {
        $(#[test]
        fn $name() -> impl std::process::Termination {
            $check(&Device::flex())
        })*
    };
}

all_checks!(on_the_cpu);
