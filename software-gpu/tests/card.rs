//! The way of a card, on the software GPU: the checks that the lab's own tests run on the CPU.

#[macro_use]
#[path = "../../tests/card/checks.rs"]
mod checks;
// What counts copies to the host is called where they are alone.
#[allow(dead_code)]
#[path = "../../tests/card/data.rs"]
mod data;
#[allow(dead_code)]
#[path = "../../tests/card/executor/mod.rs"]
mod executor;
#[path = "../../tests/card/files.rs"]
mod files;
#[path = "../../tests/card/steps.rs"]
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
