//! The checks of `tests/device`, which the lab runs on the CPU, run on the software GPU.

#[macro_use]
#[path = "../../tests/device/checks.rs"]
mod checks;
// The checks that count host syncs run in `waiting.rs`, in a process of their own.
#[allow(dead_code)]
#[path = "../../tests/device/data.rs"]
mod data;
#[allow(dead_code)]
#[path = "../../tests/device/executor/mod.rs"]
mod executor;
#[path = "../../tests/device/files.rs"]
mod files;
#[path = "../../tests/device/optimizers.rs"]
mod optimizers;
#[path = "../../tests/device/steps.rs"]
mod steps;

macro_rules! on_the_gpu {
    ($($name:ident: $check:path,)*) => {
        $(#[test]
        fn $name() -> impl std::process::Termination {
            $check(&epsilab_software_gpu::gpu())
        })*
    };
}

all_checks!(on_the_gpu);
