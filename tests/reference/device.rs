//! The device path, tested on the CPU, against reference values from PyTorch.

#[macro_use]
#[path = "../library/device/checks.rs"]
mod checks;
#[path = "../library/device/executor/mod.rs"]
#[allow(dead_code)] // Its other checks run in the program `library`.
mod executor;

use epsilab::burn::prelude::Device;

macro_rules! on_the_cpu {
    ($($name:ident: $check:path,)*) => {
        $(pub fn $name() {
            $check(&Device::flex());
        })*
    };
}

golden_checks!(on_the_cpu);
