//! Failures of single calls of the driver or the compiler, at random places of a training run.

use std::sync::atomic::{AtomicUsize, Ordering};

use rand::{RngExt, SeedableRng};

use crate::machine::{Ended, Machine};

/// Kinds of calls, and the codes they fail with: memory ran out, once; an illegal address and a
/// failed launch, after which every call fails; one kernel that can't be loaded, launched or
/// compiled.
const FAILURES: [(&str, &[i32]); 5] = [
    ("alloc", &[2]),
    ("copy", &[700]),
    ("load", &[200, 218]),
    ("launch", &[701, 719]),
    ("compile", &[6]),
];
const CASES: usize = 100;
const STEPS: u64 = 3;

#[test]
fn every_failure_ends_in_a_typed_error_and_the_right_charge() {
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(16);
    let cases: Vec<String> = (0..CASES)
        .map(|i| {
            let (kind, codes) = FAILURES[i % FAILURES.len()];
            let code = codes[random.random_range(0..codes.len())];
            format!("{kind}:{}:{code}", random.random_range(1..=200))
        })
        .collect();
    let (next, fired) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    fired.fetch_add(usize::from(check(case)), Ordering::Relaxed);
                }
            });
        }
    });
    let fired = fired.into_inner();
    assert!(fired > CASES / 2, "{fired} of {CASES} cases failed somewhere: too few");
}

/// Trains with one failure. Returns whether the run came to the call that fails.
fn check(case: &str) -> bool {
    let machine = Machine::complete().set("EPSILAB_REHEARSAL", 1).set("STAND_IN_FAIL", case);
    let ended = machine.run_for(
        30,
        "grid --device cuda --model mlp --train 64 --test 16 --batch 16 --steps 3 --seeds 1 \
         --method dp-ssgd --mask random --pre-prune 0.5 --drop 0.5 --drop-rule magnitude --json",
    );
    let Ended { code, stdout, stderr } = &ended;
    let context = format!("{case}: exit code {code:?}\n{stdout}\n{stderr}");
    assert!(code.is_some(), "hangs: {context}");
    assert!(!stderr.contains("panicked at") && !stderr.contains("diverge"), "{context}");
    // The steps that stay charged, unless nothing was charged.
    let ledger = machine.ledger();
    let planned = ledger.iter().filter(|entry| entry["entry"] == "planned").count();
    let spent = ledger.iter().filter(|entry| entry["entry"] == "spent");
    let spent: Vec<_> = spent.map(|entry| entry["event"]["steps"].as_u64()).collect();
    assert_eq!(planned, spent.len(), "closed: {context}");
    let succeeded = *code == Some(0);
    if succeeded {
        // Memory that ran out was found elsewhere.
        assert!(!ended.failed_as_told() || case.starts_with("alloc"), "unnoticed: {context}");
        assert_eq!(spent, [Some(STEPS)], "{context}");
        return ended.failed_as_told();
    }
    assert!(ended.failed_as_told(), "{context}");
    assert_eq!(*code, Some(1), "{context}");
    let named =
        ["cuda:0 can't be used: ", "cuda:0 failed: ", "the GPU failed: ", "the device failed: "];
    assert!(named.iter().any(|name| stderr.contains(name)), "{context}");
    assert!(!stdout.contains("accuracy_mean") || stdout.contains("\"accuracies\":[]"), "{context}");
    // Nothing is charged for a run that released nothing; the whole plan for one that had begun to.
    let right = spent.iter().all(|steps| [Some(0), Some(STEPS)].contains(steps));
    assert!(right && spent.len() <= 1, "{context}\n{spent:?}");
    true
}
