//! The checks of `tests/library/device`, which the lab runs on the CPU, run on the software GPU.

#[macro_use]
#[path = "../../tests/library/device/checks.rs"]
mod checks;
// The checks that count host syncs run in `waiting.rs`, in a process of their own.
#[allow(dead_code)]
#[path = "../../tests/library/device/data.rs"]
mod data;
#[allow(dead_code)]
#[path = "../../tests/library/device/executor/mod.rs"]
mod executor;
#[path = "../../tests/library/device/files.rs"]
mod files;
#[path = "../../tests/library/device/optimizers.rs"]
mod optimizers;
#[path = "../../tests/library/device/steps.rs"]
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
