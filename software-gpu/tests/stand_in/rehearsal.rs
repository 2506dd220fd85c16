//! A rehearsal runs on the stand-in, and everything that it prints or stores says so.

use std::collections::BTreeSet;

use crate::machine::Machine;

const MARK: &str = "rehearsal: no result";

#[test]
fn every_output_of_a_rehearsal_is_marked() {
    let machine = Machine::complete().set("EPSILAB_REHEARSAL", 1);
    let doctor = machine.run("doctor");
    assert!(doctor.stdout.contains(MARK), "{}", doctor.stdout);
    let bench = "bench --device cuda --models mlp --batch 16 --steps 2 --warmup 0";
    for command in [bench, &format!("{bench} --json")] {
        let ended = machine.run(command);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert!(ended.stdout.contains(MARK), "{}", ended.stdout);
    }
    let grid = "grid --device cuda --model mlp --train 64 --test 16 --batch 16 --steps 2 \
                --seeds 1 --method dp-sgd,non-private";
    for command in [grid, &format!("{grid} --json")] {
        let ended = machine.run(command);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert!(ended.stdout.contains(MARK), "{}", ended.stdout);
    }
    let ledger = machine.ledger();
    let planned: Vec<_> = ledger.iter().filter(|entry| entry["entry"] == "planned").collect();
    assert_eq!(planned.len(), 2, "the second time, the runs are read from the store");
    assert!(planned.iter().all(|entry| entry["note"].as_str().is_some_and(|n| n.contains(MARK))));
}

#[test]
fn every_call_of_the_driver_is_a_known_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("calls");
    let machine = Machine::complete().set("EPSILAB_REHEARSAL", 1);
    let machine = machine.set("STAND_IN_LOG", log.display());
    let ended = machine.run(
        "grid --device cuda --model mlp --train 64 --test 16 --batch 16 --steps 2 --seeds 1 \
         --method dp-ssgd,non-private --drop 0.5 --drop-rule magnitude",
    );
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let known = include_str!("../../../support/cuda-stand-in/calls.txt");
    let known: BTreeSet<&str> = known.lines().collect();
    let calls = std::fs::read_to_string(log).expect("a log");
    let calls: BTreeSet<&str> =
        calls.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let unknown: Vec<_> = calls.difference(&known).collect();
    assert!(unknown.is_empty(), "not in support/cuda-stand-in/calls.txt: {unknown:?}");
    assert!(calls.contains("cuLaunchKernel") && calls.len() > 20, "{calls:?}");
}

#[test]
fn runs_of_a_rehearsal_are_never_shown_as_results() {
    let on = |machine: Machine| {
        let ended = machine.run(
            "grid --device cpu --model mlp --train 64 --test 16 --batch 16 --steps 2 --seeds 1",
        );
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        (machine, ended)
    };
    let (machine, first) = on(Machine::with_driver().set("EPSILAB_REHEARSAL", 1));
    assert!(first.stdout.contains(MARK) && first.stderr.contains("(trained"), "{}", first.stderr);
    let (_, second) = on(machine.set("EPSILAB_REHEARSAL", 0));
    assert!(!second.stdout.contains(MARK), "{}", second.stdout);
    assert!(second.stderr.contains("(trained"), "not read from the store: {}", second.stderr);
}
