//! Runs of `train` that are killed or stopped, and resume from their checkpoints.

#[cfg(target_os = "linux")]
mod endings;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

use crate::common::{self, folder, json, text, wait_for, wait_until};

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

/// The same run with another number of steps.
fn run_with_steps(steps: &'static str) -> Vec<&'static str> {
    RUN.iter().map(|arg| if *arg == "60" { steps } else { *arg }).collect()
}

fn program(home: &Path, args: &[&str]) -> Command {
    let mut command = common::program(home);
    command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn output(home: &Path, args: &[&str]) -> Output {
    program(home, args).output().expect("the program starts")
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

/// The parameters of a run that was never killed.
fn uninterrupted_weights() -> &'static [u8] {
    static WHOLE: OnceLock<Vec<u8>> = OnceLock::new();
    WHOLE.get_or_init(|| {
        let home = folder();
        json(&output(home.path(), &RUN));
        assert_eq!(entries(home.path()), named(&[("planned", 60), ("spent", 60)]));
        weights(home.path())
    })
}

#[test]
fn a_run_that_is_killed_goes_on_and_ends_as_if_it_had_not_been() {
    let home = folder();
    let home = home.path();
    let mut child = program(home, &RUN).spawn().unwrap();
    wait_for_checkpoint(home, &mut child);
    child.kill().unwrap();
    child.wait().unwrap();
    let ended = output(home, &RUN);
    assert!(text(&ended.stderr).contains("resumes after"), "{}", text(&ended.stderr));
    json(&ended);
    check_finished(home, uninterrupted_weights());
}

#[track_caller]
fn check_finished(home: &Path, expected: &[u8]) {
    assert!(weights(home) == expected, "the parameters differ");
    assert_eq!(entries(home), named(&[("planned", 60), ("spent", 60)]));
    assert_eq!(files(&home.join("checkpoints")), Vec::<PathBuf>::new());
}

/// Waits until a run has a checkpoint after its first step.
fn wait_for_checkpoint(home: &Path, child: &mut Child) -> String {
    wait_for("a checkpoint", || {
        assert!(child.try_wait().unwrap().is_none(), "the run ended too early");
        // Asking the program takes longer than looking.
        if files(&home.join("checkpoints")).is_empty() {
            return None;
        }
        let runs = json(&output(home, &["runs", "--json"]));
        let run = runs.as_array().unwrap().iter().find(|run| run["steps"].as_u64() > Some(0))?;
        assert_eq!(run["state"], "checkpoint");
        Some(run["id"].as_str().unwrap().to_owned())
    })
}

/// What Ctrl-C does.
fn interrupt(child: &Child) {
    send(child, libc::SIGINT);
}

fn send(child: &Child, signal: i32) {
    // SAFETY: a signal to a child that nobody has waited for.
    assert_eq!(unsafe { libc::kill(child.id().cast_signed(), signal) }, 0);
}

/// A run that would take an hour, without checkpoints, after it was charged. `on_hangup` is what it
/// does at the end of its terminal.
fn long_run(home: &Path, on_hangup: libc::sighandler_t) -> Child {
    use std::os::unix::process::CommandExt;
    let mut args = run_with_steps("1000000");
    args.pop();
    let mut command = program(home, &args);
    let set = move || {
        // SAFETY: async-signal-safe, between fork and exec.
        unsafe { libc::signal(libc::SIGHUP, on_hangup) };
        Ok(())
    };
    // SAFETY: as above.
    let child = unsafe { command.pre_exec(set) }.spawn().unwrap();
    wait_for("the charge", || {
        let ledgers = files(&home.join("ledger"));
        let mut ledgers =
            ledgers.iter().filter(|path| path.extension().is_some_and(|e| e == "jsonl"));
        ledgers.any(|path| fs::read_to_string(path).is_ok_and(|t| t.ends_with('\n'))).then_some(())
    });
    child
}

/// Schedulers, `kill` and closed terminals stop a run as Ctrl-C does.
#[test]
fn a_request_to_terminate_keeps_the_run_and_charges_the_steps_that_were_taken() {
    for (signal, code) in [(libc::SIGTERM, 143), (libc::SIGHUP, 129)] {
        let home = folder();
        let child = long_run(home.path(), libc::SIG_DFL);
        send(&child, signal);
        let ended = child.wait_with_output().unwrap();
        let stderr = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(code), "{stderr}");
        assert!(stderr.contains("interrupted:"), "{stderr}");
        let entries = entries(home.path());
        assert_eq!((entries.len(), &*entries[1].0), (2, "spent"));
        assert!(entries[1].1 < 1_000_000, "{entries:?}");
    }
}

/// As `nohup` starts it: the end of the terminal ends nothing.
#[test]
fn a_run_that_ignores_the_end_of_the_terminal_goes_on() {
    let home = folder();
    let mut child = long_run(home.path(), libc::SIG_IGN);
    send(&child, libc::SIGHUP);
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert!(child.try_wait().unwrap().is_none(), "it was ended");
    send(&child, libc::SIGTERM);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(143));
}

#[test]
fn a_run_that_cannot_be_stored_fails_and_names_what_stays_charged() {
    let home = folder();
    let home = home.path();
    let child = long_run(home, libc::SIG_DFL);
    fs::remove_dir_all(home.join("runs")).unwrap();
    fs::write(home.join("runs"), "no folder").unwrap();
    send(&child, libc::SIGTERM);
    let ended = child.wait_with_output().unwrap();
    let stderr = text(&ended.stderr);
    assert_eq!((ended.status.code(), &*text(&ended.stdout)), (Some(1), ""), "{stderr}");
    for words in ["the run is not stored", "free space", "stay charged", "--out DIR"] {
        assert!(stderr.contains(words), "{words}: {stderr}");
    }
    for words in ["stored in runs", "kept"] {
        assert!(!stderr.contains(words), "{words}: {stderr}");
    }
    assert_eq!(entries(home)[1].0, "spent");
}

/// A run that was stopped by Ctrl-C after a checkpoint.
fn stopped(home: &Path, run: &[&str]) -> (String, u64) {
    let mut child = program(home, run).spawn().unwrap();
    let id = wait_for_checkpoint(home, &mut child);
    interrupt(&child);
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{}", text(&ended.stderr));
    assert!(text(&ended.stderr).contains("resumes from its checkpoint"));
    let entries = entries(home);
    let (kind, steps) = &entries[1];
    assert_eq!((entries.len(), &**kind), (2, "spent"));
    assert!(*steps < entries[0].1, "{steps}");
    (id, *steps)
}

#[test]
fn a_run_that_is_stopped_is_charged_for_its_steps_and_resumed_by_name() {
    let expected = uninterrupted_weights();
    let home = folder();
    let home = home.path();
    let (id, steps) = stopped(home, &RUN);
    let list = text(&output(home, &["runs"]).stdout);
    assert!(list.contains(&id) && list.contains(&format!("{steps} of 60")), "{list}");

    let resumed = output(home, &["runs", "resume", &id[..6]]);
    assert!(text(&resumed.stderr).contains(&format!("resumes after {steps} of 60 steps")));
    json(&resumed);
    let all = [("planned", 60), ("spent", steps), ("resumed", 60), ("spent", 60)];
    assert_eq!(entries(home), named(&all));
    assert!(weights(home) == expected, "the parameters differ");
    assert_eq!(files(&home.join("checkpoints")), Vec::<PathBuf>::new());
}

/// A run is resumed or refused: with other data the command would train, and charge, another one.
#[test]
fn a_run_whose_data_have_changed_is_not_resumed_and_nothing_is_charged() {
    let home = folder();
    let (home, table) = (home.path(), home.path().join("t.csv"));
    let rows = |n: usize| {
        let row = |i: usize| format!("{}.{},{},{}\n", i % 7, i, i % 5, i % 2);
        format!("a,b,label\n{}", (0..n).map(row).collect::<String>())
    };
    fs::write(&table, rows(2000)).unwrap();
    let args = [
        "train",
        "--data",
        table.to_str().unwrap(),
        "--label",
        "label",
        "--method",
        "dp-sgd",
        "--noise-multiplier",
        "2",
        "--batch-size",
        "100",
        "--steps",
        "100000",
        "--checkpoint-every",
        "50",
    ];
    let mut child = program(home, &args).spawn().unwrap();
    let id = wait_for_checkpoint(home, &mut child);
    interrupt(&child);
    child.wait().unwrap();
    let charged = entries(home);
    let stored = files(&home.join("runs"));

    fs::write(&table, rows(2001)).unwrap();
    let refused = output(home, &["runs", "resume", &id]);
    let stderr = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("have changed") && stderr.contains("restore the file"), "{stderr}");
    assert_eq!(entries(home), charged, "the only ledger is as before");
    assert_eq!(files(&home.join("runs")), stored, "nothing is stored");

    fs::write(&table, rows(2000)).unwrap();
    let mut child = program(home, &["runs", "resume", &id]).spawn().unwrap();
    wait_for("the run to resume", || (entries(home).len() == charged.len() + 1).then_some(()));
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// Resumes a run that is stopped after another checkpoint.
fn resume_and_stop(home: &Path, run: &[&str]) {
    let steps = || json(&output(home, &["runs", "--json"]))[0]["steps"].as_u64().unwrap();
    let first = steps();
    let child = program(home, run).spawn().unwrap();
    wait_until("another checkpoint", || steps() > first);
    interrupt(&child);
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{}", text(&ended.stderr));
}

fn result(home: &Path, id: &str) -> Value {
    let result = fs::read_to_string(home.join("runs").join(id).join("result.json")).unwrap();
    serde_json::from_str(&result).unwrap()
}

/// Nobody knows how far a killed process came, so a run that is stopped after it was resumed
/// answers for all its steps.
#[test]
fn a_run_that_was_killed_and_then_stopped_stays_charged_in_full() {
    let home = folder();
    let home = home.path();
    let run = run_with_steps("2000");
    let mut child = program(home, &run).spawn().unwrap();
    let id = wait_for_checkpoint(home, &mut child);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(entries(home), named(&[("planned", 2000)]));

    resume_and_stop(home, &run);
    assert_eq!(entries(home), named(&[("planned", 2000), ("spent", 2000)]));
    let result = result(home, &id);
    assert!(result["steps"].as_u64() < Some(2000), "{result}");
    assert_eq!(result["epsilon"], result["planned_epsilon"]);

    resume_and_stop(home, &["runs", "resume", &id]);
    assert_eq!(entries(home), named(&[("planned", 2000), ("spent", 2000)]));
}

/// A checkpoint from before steps that were charged, as from a backup, is that of a killed run.
#[test]
fn a_run_whose_checkpoint_was_put_back_is_charged_for_all_steps() {
    let home = folder();
    let home = home.path();
    let run = run_with_steps("2000");
    let charged = || entries(home).pop().unwrap().1;
    let (id, steps) = stopped(home, &run);
    let [path] = &files(&home.join("checkpoints"))[..] else { panic!("one checkpoint") };
    let copy = fs::read(path).unwrap();
    resume_and_stop(home, &run);
    assert!(steps < charged() && charged() < 2000, "{steps} {}", charged());
    fs::write(path, copy).unwrap();
    resume_and_stop(home, &run);
    assert_eq!(charged(), 2000);
    let result = result(home, &id);
    let resumed = &result["checkpoints"]["resumed"];
    assert_eq!((&resumed[0]["step"], &resumed[0]["repeated"]), (&steps.into(), &true.into()));
    assert_eq!(result["epsilon"], result["planned_epsilon"]);
}

#[test]
fn a_checkpoint_is_removed_by_name_and_its_charge_stays() {
    let home = folder();
    let home = home.path();
    let (id, steps) = stopped(home, &RUN);
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
