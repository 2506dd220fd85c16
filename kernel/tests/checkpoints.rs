//! Runs of `train` that are killed or stopped, and go on from their checkpoints.
#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A run of a few seconds with everything that has a state.
const RUN: [&str; 29] = [
    "train",
    "--data",
    "glyphs",
    "--train",
    "3000",
    "--test",
    "300",
    "--model",
    "stevens_mnist_cnn",
    "--method",
    "dp-ssgd",
    "--drop",
    "0.3",
    "--batch-size",
    "300",
    "--steps",
    "60",
    "--noise-multiplier",
    "1.1",
    "--optimizer",
    "adam",
    "--lr-schedule",
    "one-cycle",
    "--average",
    "ema",
    "--seed",
    "3",
    "--json",
    "--checkpoint-every=3",
];
/// How often the process is killed.
const KILLS: usize = 20;

fn program(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_epsilab"));
    command.args(args).env("EPSILAB_HOME", home).env("EPSILAB_DEVICE", "cpu");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn output(home: &Path, args: &[&str]) -> Output {
    program(home, args).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// The parameters of the only stored run that is finished.
fn weights(home: &Path) -> Vec<u8> {
    let runs = json(&output(home, &["runs", "--json"]));
    let runs: Vec<&Value> =
        runs.as_array().unwrap().iter().filter(|run| run["state"] == "finished").collect();
    assert_eq!(runs.len(), 1, "{runs:?}");
    fs::read(home.join("runs").join(runs[0]["id"].as_str().unwrap()).join("model.safetensors"))
        .unwrap()
}

fn json(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The entries of the only ledger: `planned`, `spent`, `resumed`, each with its number of steps.
fn entries(home: &Path) -> Vec<(String, u64)> {
    let ledgers: Vec<PathBuf> = files(&home.join("ledger"))
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
        .collect();
    assert_eq!(ledgers.len(), 1);
    let lines = fs::read_to_string(&ledgers[0]).unwrap();
    let entry = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let steps = line["event"]["steps"].as_u64().unwrap();
        (line["entry"].as_str().unwrap().to_owned(), steps)
    };
    lines.lines().map(entry).collect()
}

fn named(entries: &[(&str, u64)]) -> Vec<(String, u64)> {
    entries.iter().map(|(entry, steps)| (entry.to_string(), *steps)).collect()
}

/// A run that was never killed, and the time that it took.
fn whole() -> (Vec<u8>, Duration) {
    let home = tempfile::tempdir().unwrap();
    let began = Instant::now();
    json(&output(home.path(), &RUN));
    let took = began.elapsed();
    assert_eq!(entries(home.path()), named(&[("planned", 60), ("spent", 60)]));
    (weights(home.path()), took)
}

#[test]
fn a_run_that_is_killed_at_random_moments_ends_as_if_it_had_not_been() {
    let (expected, took) = whole();
    let mut random = 0x2545_f491_4f6c_dd1du64;
    let mut kills = 0;
    // Runs that ended before they were killed, or after.
    let mut home = tempfile::tempdir().unwrap();
    let mut went_on = 0;
    while kills < KILLS || !home.path().join("runs").exists() {
        let mut child = program(home.path(), &RUN).spawn().unwrap();
        if kills < KILLS {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            // Up to two thirds of a whole run.
            std::thread::sleep(took.mul_f64((random >> 11) as f64 / (1u64 << 53) as f64 * 0.66));
            if child.try_wait().unwrap().is_none() {
                child.kill().unwrap();
                child.wait().unwrap();
                kills += 1;
                continue;
            }
        }
        let ended = child.wait_with_output().unwrap();
        went_on += usize::from(text(&ended.stderr).contains("goes on after"));
        json(&ended);
        check_finished(home.path(), &expected);
        if kills < KILLS {
            home = tempfile::tempdir().unwrap();
        }
    }
    assert!(went_on > 0, "no run went on");
}

#[track_caller]
fn check_finished(home: &Path, expected: &[u8]) {
    assert!(weights(home) == expected, "the parameters differ");
    assert_eq!(entries(home), named(&[("planned", 60), ("spent", 60)]));
    assert_eq!(files(&home.join("checkpoints")), Vec::<PathBuf>::new());
}

/// Waits until a run has a checkpoint after its first step.
fn wait_for_checkpoint(home: &Path, child: &mut Child) -> String {
    let began = Instant::now();
    loop {
        let runs = json(&output(home, &["runs", "--json"]));
        let run = runs.as_array().unwrap().iter().find(|run| run["steps"].as_u64() > Some(0));
        if let Some(run) = run {
            assert_eq!(run["state"], "checkpoint");
            return run["id"].as_str().unwrap().to_owned();
        }
        assert!(child.try_wait().unwrap().is_none(), "the run ended too early");
        assert!(began.elapsed() < Duration::from_secs(120), "no checkpoint was written");
    }
}

/// A run that was stopped by Ctrl-C after a checkpoint.
fn stopped(home: &Path) -> (String, u64) {
    let mut child = program(home, &RUN).spawn().unwrap();
    let id = wait_for_checkpoint(home, &mut child);
    let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{}", text(&ended.stderr));
    assert!(text(&ended.stderr).contains("goes on from its checkpoint"));
    let entries = entries(home);
    let (kind, steps) = &entries[1];
    assert_eq!((entries.len(), &**kind), (2, "spent"));
    assert!(*steps < 60, "{steps}");
    (id, *steps)
}

#[test]
fn a_run_that_is_stopped_is_charged_for_its_steps_and_resumed_by_name() {
    let (expected, _) = whole();
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let (id, steps) = stopped(home);
    let list = text(&output(home, &["runs"]).stdout);
    assert!(list.contains(&id) && list.contains(&format!("{steps} of 60")), "{list}");

    let resumed = output(home, &["runs", "resume", &id[..6]]);
    assert!(text(&resumed.stderr).contains(&format!("goes on after {steps} of 60 steps")));
    json(&resumed);
    let all = [("planned", 60), ("spent", steps), ("resumed", 60), ("spent", 60)];
    assert_eq!(entries(home), named(&all));
    assert!(weights(home) == expected, "the parameters differ");
    assert_eq!(files(&home.join("checkpoints")), Vec::<PathBuf>::new());
}

/// Nobody knows how far a killed process came, so a run that is stopped after it was resumed
/// answers for all its steps.
#[test]
fn a_run_that_was_killed_and_then_stopped_stays_charged_in_full() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let mut child = program(home, &RUN).spawn().unwrap();
    let id = wait_for_checkpoint(home, &mut child);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(entries(home), named(&[("planned", 60)]));

    let mut child = program(home, &RUN).spawn().unwrap();
    let at = |home: &Path| json(&output(home, &["runs", "--json"]))[0]["at"].to_string();
    let (began, first) = (Instant::now(), at(home));
    while at(home) == first && began.elapsed() < Duration::from_secs(60) {}
    let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    let ended = child.wait().unwrap();
    assert_eq!(ended.code(), Some(130));
    assert_eq!(entries(home), named(&[("planned", 60), ("spent", 60)]));
    let result = fs::read_to_string(home.join("runs").join(&id).join("result.json")).unwrap();
    let result: Value = serde_json::from_str(&result).unwrap();
    assert!(result["steps"].as_u64() < Some(60), "{result}");
    assert_eq!(result["epsilon"], result["planned_epsilon"]);

    json(&output(home, &["runs", "resume", &id]));
    assert_eq!(entries(home), named(&[("planned", 60), ("spent", 60)]));
}

#[test]
fn a_checkpoint_is_removed_by_name_and_its_charge_stays() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let (id, steps) = stopped(home);
    for wrong in [&["runs", "remove", "zzzz"], &["runs", "resume", "zzzz"]] {
        let refused = output(home, wrong);
        assert_eq!(refused.status.code(), Some(1));
        assert!(text(&refused.stderr).contains("cargo lab runs"), "{}", text(&refused.stderr));
    }
    assert_eq!(output(home, &["runs", "remove", &id]).status.code(), Some(0));
    assert_eq!(files(&home.join("checkpoints")), Vec::<PathBuf>::new());
    assert_eq!(entries(home), named(&[("planned", 60), ("spent", steps)]));
    assert_eq!(output(home, &["runs", "remove", "--stored", &id]).status.code(), Some(0));
    assert_eq!(json(&output(home, &["runs", "--json"])), Value::Array(Vec::new()));
}
