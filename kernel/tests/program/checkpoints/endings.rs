//! Runs that are stopped, killed or short of disk space at random moments, several times in a row:
//! ledger, store, exit code and messages must agree.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::time::{Duration, Instant};

use super::*;

const STEPS: u64 = 60;
/// Cases in every run of the tests, and in the long one.
const CASES: (u64, u64) = (6, 60);
/// The code of a program that failed.
const FAILED: i32 = 1;

#[derive(Clone, Copy, Debug)]
enum Event {
    Signal(i32),
    Kill,
    /// From then on no file grows beyond so many bytes.
    FullDisk(u64),
}

/// Random numbers that are the same in every run of the test.
struct Random(u64);

impl Random {
    /// A number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }

    fn event(&mut self) -> Event {
        match self.below(8) {
            0 => Event::Signal(libc::SIGINT),
            1 => Event::Signal(libc::SIGTERM),
            2 => Event::Signal(libc::SIGHUP),
            3 | 4 => Event::Kill,
            _ => Event::FullDisk([0, 200, 2_000, 20_000, 200_000][self.below(5) as usize]),
        }
    }
}

/// Returns the planned and the charged steps of each attempt in the ledgers.
fn charges(home: &Path) -> Vec<(u64, u64)> {
    if files(&home.join("ledger")).is_empty() {
        return Vec::new();
    }
    let ledger = output(home, &["ledger", "--json"]);
    assert_eq!(ledger.status.code(), Some(0), "the chain is whole: {}", text(&ledger.stderr));
    let mut charges: Vec<(String, u64, u64)> = Vec::new();
    for path in files(&home.join("ledger")) {
        if path.extension().is_none_or(|end| end != "jsonl") {
            continue;
        }
        for line in fs::read_to_string(&path).unwrap().lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            let (run, steps) =
                (line["run"].as_str().unwrap(), line["event"]["steps"].as_u64().unwrap());
            match charges.iter_mut().find(|(known, ..)| known == run) {
                Some((.., charged)) => *charged = steps,
                None => charges.push((run.to_owned(), steps, steps)),
            }
        }
    }
    charges.into_iter().map(|(_, planned, charged)| (planned, charged)).collect()
}

/// State and steps of each stored run and checkpoint.
fn stored(home: &Path) -> Vec<(String, u64)> {
    let runs = json(&output(home, &["runs", "--json"]));
    let run =
        |run: &Value| (run["state"].as_str().unwrap().to_owned(), run["steps"].as_u64().unwrap());
    runs.as_array().unwrap().iter().map(run).collect()
}

/// Starts the command, whose files may have `most` bytes. A write that exceeds this fails, as on a
/// full disk, instead of ending the process.
fn start(home: &Path, args: &[&str], most: u64) -> Child {
    let mut command = program(home, args);
    let ready = move || {
        let most = libc::rlimit { rlim_cur: most, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: async-signal-safe, between fork and exec.
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            libc::setrlimit(libc::RLIMIT_FSIZE, &most);
        }
        Ok(())
    };
    // SAFETY: as above.
    unsafe { command.pre_exec(ready) }.spawn().unwrap()
}

fn cause(event: Event, child: &Child) {
    match event {
        Event::Signal(signal) => send(child, signal),
        Event::Kill => send(child, libc::SIGKILL),
        Event::FullDisk(bytes) => {
            let most = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
            let process = child.id().cast_signed();
            // SAFETY: a limit of a child that nobody has waited for.
            let set =
                unsafe { libc::prlimit(process, libc::RLIMIT_FSIZE, &most, std::ptr::null_mut()) };
            assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
        }
    }
}

/// Checks one end of the command against ledger and store.
fn check(home: &Path, event: Event, before: &[(u64, u64)], ended: &Output) {
    let (stderr, printed) = (text(&ended.stderr), text(&ended.stdout));
    let (charges, stored) = (charges(home), stored(home));
    let all = format!("{event:?}, {}, {charges:?}, {stored:?}: {stderr}", ended.status);
    for (planned, charged) in &charges {
        assert!(charged <= planned && *planned == STEPS, "charged at most the plan: {all}");
    }
    let released = stored.iter().map(|(_, steps)| *steps).max().unwrap_or(0);
    let charged = charges.iter().map(|(_, charged)| *charged).max().unwrap_or(0);
    assert!(charged >= released, "charged at least what is stored: {all}");
    let is_new = charges != before;
    match ended.status.code() {
        Some(0) => {
            let shown: Value = serde_json::from_str(&printed).expect(&all);
            assert_eq!(shown["steps"], STEPS, "{all}");
            assert!(stored.contains(&("finished".to_owned(), STEPS)), "{all}");
        }
        Some(FAILED) => {
            assert_eq!(printed, "", "{all}");
            assert!(matches!(event, Event::FullDisk(_)), "{all}");
            assert!(stderr.contains("what to do: "), "{all}");
            for words in ["stored in runs", "is kept"] {
                assert!(!stderr.contains(words), "{words}: {all}");
            }
            let is_told = stderr.contains("charged");
            assert!(is_told || !is_new, "what is charged is said: {all}");
        }
        Some(code) => {
            let Event::Signal(signal) = event else { panic!("{all}") };
            assert_eq!((code, &*printed), (128 + signal, ""), "{all}");
            assert!(stderr.contains("interrupted"), "{all}");
            if is_new && charged > 0 {
                assert!(stored.iter().any(|(_, steps)| *steps <= charged), "it is kept: {all}");
            }
        }
        // Nobody listens before the run begins and after it has ended.
        None => match (event, ended.status.signal()) {
            (Event::Kill, Some(libc::SIGKILL)) => {}
            (Event::Signal(sent), Some(ended)) => {
                assert_eq!(sent, ended, "{all}");
                assert!(!is_new || stored.contains(&("finished".to_owned(), STEPS)), "{all}");
            }
            _ => panic!("{all}"),
        },
    }
}

/// Up to three events, then the command once more: it ends as if nothing had happened. Returns what
/// happened, and whether the last process resumed from a checkpoint.
fn run_case(random: &mut Random, took: Duration) -> (String, bool) {
    let home = folder();
    let home = home.path();
    let args = if random.below(2) == 0 { &RUN[..] } else { &RUN[..RUN.len() - 1] };
    let mut log = format!("checkpoints: {}", args.len() == RUN.len());
    for _ in 0..1 + random.below(3) {
        let before = charges(home);
        let (event, at) = (random.event(), random.below(1000) as f64 / 1000.0);
        let mut child = start(home, args, libc::RLIM_INFINITY);
        std::thread::sleep(took.mul_f64(at));
        // The run may have ended before.
        if child.try_wait().unwrap().is_none() {
            cause(event, &child);
        }
        let ended = child.wait_with_output().unwrap();
        log += &format!("; {event:?} at {at}: {}", ended.status);
        check(home, event, &before, &ended);
    }
    let ended = output(home, args);
    assert_eq!(ended.status.code(), Some(0), "{log}: {}", text(&ended.stderr));
    assert!(weights(home) == uninterrupted_weights(), "other parameters: {log}");
    assert_eq!(charges(home).last(), Some(&(STEPS, STEPS)), "{log}");
    assert_eq!(files(&home.join("checkpoints")), Vec::<PathBuf>::new(), "{log}");
    (log, text(&ended.stderr).contains("resumes after"))
}

fn run_cases(seed: u64, cases: u64) {
    uninterrupted_weights();
    let (began, home) = (Instant::now(), folder());
    json(&output(home.path(), &RUN));
    // Events are spread over the length of a run, whatever that is here.
    let took = began.elapsed();
    let mut random = Random(seed);
    let mut went_on = 0;
    for case in 0..cases {
        let (log, goes_on) = run_case(&mut random, took);
        println!("{case}: {log}");
        went_on += usize::from(goes_on);
    }
    assert!(went_on > 0 || cases < CASES.1, "no run resumed from a checkpoint");
}

#[test]
fn charge_store_and_exit_code_agree_however_a_run_ends() {
    run_cases(0x2545_f491_4f6c_dd1d, CASES.0);
}

#[test]
#[ignore = "takes minutes; .ci/full runs it"]
fn charge_store_and_exit_code_agree_in_many_cases() {
    run_cases(0x9e37_79b9_7f4a_7c15, CASES.1);
}

/// Files of more than 100 KB can't be written, as on a disk that is nearly full.
#[test]
fn a_run_without_disk_space_for_its_results_is_refused_before_it_computes_or_charges() {
    let home = folder();
    let home = home.path();
    let notebook = r#"{"cells": [{"cell_type": "code", "source": "1 + 1"}], "nbformat": 4}"#;
    fs::write(home.join("n.ipynb"), notebook).unwrap();
    let train = &RUN[..RUN.len() - 1];
    let grid = ["grid", "--data", "glyphs", "--model", "linear", "--out", "results"];
    let to_folder = [train, &["--out", "results"]].concat();
    for args in [train, &to_folder, &grid, &["run", "n.ipynb"]] {
        let refused = start(home, args, 100 << 10).wait_with_output().unwrap();
        let stderr = text(&refused.stderr);
        assert_eq!(
            (refused.status.code(), &*text(&refused.stdout)),
            (Some(FAILED), ""),
            "{stderr}"
        );
        assert!(stderr.contains("free space"), "{args:?}: {stderr}");
        assert_eq!(charges(home), [], "{args:?}");
        assert!(stored(home).is_empty() && !home.join("n.executed.ipynb").exists(), "{args:?}");
    }
    let refused = start(home, train, 100 << 10).wait_with_output().unwrap();
    assert!(text(&refused.stderr).contains("nothing was trained or charged"));
}
