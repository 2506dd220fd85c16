//! A device that can't compute is refused, before anything is charged or measured.

use crate::machine::{Ended, Machine};

const BENCH: &str = "bench --device cuda --models papernot_cnn --batch 16 --steps 2 --json";
const GRID: &str = "grid --device cuda --model mlp --train 64 --test 16 --batch 16 --steps 2 \
                    --seeds 1 --json";

/// Checks that nothing uses the GPU of this machine, and why.
fn refuses(machine: &Machine, cause: &str) {
    let doctor = machine.run("doctor --json");
    let report: serde_json::Value = serde_json::from_str(&doctor.stdout).expect(&doctor.stderr);
    let cuda = &report["devices"]["cuda"];
    assert_eq!(cuda["works"], false, "{report}");
    assert_eq!(report["devices"]["default"], "cpu", "{report}");
    let error = cuda["error"].as_str().expect("an error");
    assert!(error.contains(cause) && error.contains("what to do"), "{error}");
    for command in [BENCH, &BENCH.replace("--json", "--json --check"), GRID] {
        let Ended { code, stdout, stderr } = machine.run(command);
        assert_eq!(code, Some(1), "{command}: {stderr}");
        assert_eq!(stdout, "", "{command}: no figure");
        assert!(stderr.contains(cause) && stderr.contains("cuda:0 can't be used"), "{stderr}");
        assert!(!stderr.contains("panicked") && !stderr.contains("diverge"), "{stderr}");
    }
    assert!(machine.ledger().is_empty(), "nothing is charged");
}

#[test]
fn a_machine_without_a_kernel_compiler_is_refused() {
    refuses(&Machine::with_driver(), "libnvrtc was not found");
}

#[test]
fn a_compiler_that_is_newer_than_the_driver_is_refused() {
    let machine = Machine::complete().set("STAND_IN_CUDA", 12020);
    refuses(&machine, "NVRTC has CUDA version 12.8, the driver supports up to 12.2");
}

#[test]
fn a_compiler_that_cannot_compile_is_refused() {
    let machine = Machine::complete().set("STAND_IN_FAIL", "compile:1:6");
    refuses(&machine, "NVRTC compiles no kernel: default_program(1): error");
}

#[test]
fn a_device_that_computes_nothing_is_refused_whatever_its_memory_holds() {
    for memory in [0, 255] {
        let machine = Machine::complete().set("STAND_IN_MEMORY", memory);
        refuses(&machine, "does not compute correctly");
    }
}

#[test]
fn a_panic_of_the_thread_that_drives_the_gpu_is_the_cause() {
    // CubeCL catches this panic and continues as if the kernel had run.
    let machine = Machine::with_nvrtc("libnvrtc-incomplete.so");
    refuses(&machine, "Missing symbol nvrtcGetPTXSize");
    // A rehearsal does not compare results, but it does hear of failures.
    refuses(&machine.set("EPSILAB_REHEARSAL", 1), "Missing symbol nvrtcGetPTXSize");
}
