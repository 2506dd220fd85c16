//! The way of a GPU, on the software GPU: the checks that the lab's own tests run on the CPU.

#[macro_use]
#[path = "../../tests/device/checks.rs"]
mod checks;
// What counts copies to the host is called where they are alone.
#[allow(dead_code)]
#[path = "../../tests/device/data.rs"]
mod data;
#[allow(dead_code)]
#[path = "../../tests/device/executor/mod.rs"]
mod executor;
#[path = "../../tests/device/files.rs"]
mod files;
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
