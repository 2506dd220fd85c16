//! The device path, tested on the CPU. The checks take the device as an argument, so that
//! `software-gpu/tests/device.rs` runs them on a GPU too. `tests/reference/device.rs` runs those
//! that compare with PyTorch.

#[macro_use]
mod checks;
// The checks that count host syncs run in `software-gpu/tests/waiting.rs`.
#[allow(dead_code)]
mod data;
#[allow(dead_code)]
mod executor;
mod files;
mod optimizers;
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

independent_checks!(on_the_cpu);
