//! Tests of the command `grid`: run, repeated, stopped and killed.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::common::{self, folder, program, text, wait_until};

/// A plan of a few seconds: a linear model on a part of the glyphs.
const SMALL: [&str; 14] = [
    "--data", "glyphs", "--train", "400", "--test", "100", "--model", "linear", "--batch", "100",
    "--steps", "3", "--seeds", "2",
];

fn lab(home: &Path, args: &[&str]) -> Command {
    let mut command = program(home);
    command.arg("grid").args(args);
    command
}

fn grid(home: &Path, args: &[&str]) -> Output {
    lab(home, &[&SMALL[..], args].concat()).output().expect("the program starts")
}

#[track_caller]
fn list(output: &Output) -> Vec<Value> {
    common::json(output).as_array().expect("a list").clone()
}

/// Names of the finished runs in a store.
fn finished(home: &Path) -> Vec<String> {
    let Ok(runs) = std::fs::read_dir(home.join("runs")) else { return Vec::new() };
    let done = |path: &Path| {
        let text = std::fs::read_to_string(path.join("result.json")).unwrap_or_default();
        path.extension().is_none() && text.contains("\"finished\"")
    };
    let paths = runs.filter_map(|run| Some(run.ok()?.path()));
    paths.filter(|path| done(path)).map(|path| path.display().to_string()).collect()
}

fn ledgers(home: &Path) -> Vec<String> {
    let files = std::fs::read_dir(home.join("ledger")).expect("a ledger");
    files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect()
}

#[test]
fn a_grid_as_json_is_consistent_and_trains_nothing_the_second_time() {
    let (home, out) = (folder(), folder());
    let out_path = out.path().display().to_string();
    let args =
        ["--mask", "random", "--pre-prune", "0,0.5", "--drop", "0,0.9", "--epsilon", "3", "--json"];
    let first = grid(home.path(), &[&args[..], &["--out", &out_path]].concat());
    let cells = list(&first);
    assert_eq!((cells.len(), finished(home.path()).len()), (4, 8));
    for cell in &cells {
        let number = |name: &str| cell[name].as_f64().unwrap_or_else(|| panic!("{name}: {cell}"));
        let accuracies: Vec<f64> =
            cell["accuracies"].as_array().unwrap().iter().map(|a| a.as_f64().unwrap()).collect();
        let [a, b] = accuracies[..] else { panic!("two seeds: {cell}") };
        assert!((number("accuracy_mean") - (a + b) / 2.0).abs() < 1e-12);
        assert!((number("accuracy_std") - (a - b).abs() / 2f64.sqrt()).abs() < 1e-12);
        assert!((0.0..=1.0).contains(&a) && number("epsilon_spent") <= 3.0);
        assert_eq!((number("runs"), number("epsilon"), number("delta")), (2.0, 3.0, 1e-5));
        assert_eq!((&cell["model"], &cell["method"]), (&json!("linear"), &json!("dp-ssgd")));
        assert_eq!(
            cell["mask"],
            if number("pre_prune") > 0.0 { json!("random") } else { json!(null) }
        );
        assert_eq!(
            cell["drop_rule"],
            if number("drop") > 0.0 { json!("random") } else { json!(null) }
        );
        assert_eq!(cell["errors"], json!([]));
    }
    let file = |name: &str| std::fs::read_to_string(out.path().join(name)).expect(name);
    assert_eq!(file("grid.json"), text(&first.stdout));
    assert_eq!(file("grid.csv").lines().count(), 9);
    assert!(file("grid.md").contains("| 0.5 |"));
    // Names of runs are derived from the data: only stderr has them, results have numbers.
    for run in finished(home.path()) {
        let id = Path::new(&run).file_name().unwrap().to_string_lossy().into_owned();
        assert!(text(&first.stderr).contains(&format!("runs/{id}")), "{id}");
        for name in ["grid.json", "grid.csv", "grid.md"] {
            assert!(!file(name).contains(&id), "{id} is in {name}");
        }
    }
    // Their random labels lead to them.
    let mut runs = program(home.path());
    let runs = list(&runs.args(["runs", "--json"]).output().expect("it starts"));
    let label = &cells[3]["run_labels"][1];
    assert!(file("grid.csv").contains(label.as_str().expect("a label")), "{label}");
    assert_eq!(runs.iter().filter(|run| run["label"] == *label).count(), 1, "{runs:?}");

    let before = ledgers(home.path());
    let again = grid(home.path(), &args);
    assert_eq!(again.stdout, first.stdout, "the same bytes");
    assert_eq!(text(&again.stderr).matches("shown again").count(), 8);
    assert_eq!(ledgers(home.path()), before, "nothing was spent");
    // As text: a table, the privacy cost, and how much of the differences is noise.
    let in_words = || grid(home.path(), &[&args[..8], &["--out", &out_path]].concat());
    let words = in_words();
    for part in ["pre-pruned", "Private runs: 8 on", "not covered", "Differences below"] {
        assert!(text(&words.stdout).contains(part), "{part}: {}", text(&words.stdout));
    }
    assert_eq!(ledgers(home.path()), before);
    // Another recorded run appears on stderr; stdout and files stay the same.
    let note = file("grid.md");
    list(&grid(home.path(), &["--drop", "0.5", "--json"]));
    let again = in_words();
    assert_eq!((again.stdout, file("grid.md")), (words.stdout, note));
    assert!(!text(&words.stderr).contains("on record"), "{}", text(&words.stderr));
    let err = text(&again.stderr);
    assert!(err.contains("the 2 other private runs on record"), "{err}");
}

/// Runs that take a moment each, so that they can be stopped.
const SLOW: [&str; 20] = [
    "--data",
    "glyphs",
    "--train",
    "2000",
    "--test",
    "100",
    "--model",
    "papernot_cnn",
    "--batch",
    "250",
    "--steps",
    "30",
    "--seeds",
    "2",
    "--mask",
    "random",
    "--pre-prune",
    "0,0.5",
    "--drop",
    "0,0.5",
];

#[cfg(unix)]
#[test]
#[ignore = "takes 18 s; .ci/full runs it"]
fn a_killed_grid_and_a_stopped_one_continue_to_the_same_result() {
    continued_after([(libc::SIGKILL, "2"), (libc::SIGINT, "1")]);
}

#[cfg(unix)]
#[test]
#[ignore = "takes 60 s; .ci/full runs it"]
fn stopped_and_killed_grids_continue_to_the_same_result() {
    let (kill, interrupt) = (libc::SIGKILL, libc::SIGINT);
    continued_after([(kill, "1"), (interrupt, "1"), (kill, "2"), (interrupt, "2")]);
}

/// The list without the random labels of runs.
#[cfg(unix)]
fn unlabelled(output: &Output) -> Vec<Value> {
    let mut cells = list(output);
    cells.iter_mut().for_each(|cell| drop(cell.as_object_mut().unwrap().remove("run_labels")));
    cells
}

/// Stops grids with a number of jobs by a signal and compares their results with an undisturbed
/// one.
#[cfg(unix)]
fn continued_after<const N: usize>(stops: [(i32, &str); N]) {
    let slow = [&SLOW[..], &["--json"]].concat();
    let undisturbed = folder();
    let whole = lab(undisturbed.path(), &slow).output().expect("it starts");
    assert_eq!(list(&whole).len(), 4);
    for (signal, jobs) in stops {
        let home = folder();
        let mut child = lab(home.path(), &[&slow[..], &["--jobs", jobs]].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        wait_until("a finished run", || {
            assert!(child.try_wait().unwrap().is_none(), "it ended before anybody stopped it");
            !finished(home.path()).is_empty()
        });
        // SAFETY: a signal to the child that was started above and not waited for yet.
        unsafe { libc::kill(child.id() as i32, signal) };
        let stopped = child.wait_with_output().expect("its end");
        let kept = finished(home.path());
        assert!(!kept.is_empty() && kept.len() < 8, "stopped in the middle: {}", kept.len());
        assert!(stopped.stdout.is_empty(), "half a list is no list");
        if signal == libc::SIGINT {
            assert_eq!(stopped.status.code(), Some(130));
        }
        let stamp = |run: &String| std::fs::metadata(run).unwrap().modified().unwrap();
        let before: Vec<_> = kept.iter().map(stamp).collect();
        let rest = lab(home.path(), &slow).output().expect("it starts");
        assert_eq!(unlabelled(&rest), unlabelled(&whole), "bit for bit");
        assert_eq!(before, kept.iter().map(stamp).collect::<Vec<_>>(), "kept as they were");
        let err = text(&rest.stderr);
        assert_eq!(err.matches("shown again").count(), kept.len(), "{err}");
    }
}

#[cfg(unix)]
#[test]
fn child_processes_train_the_same_runs_and_are_charged_once() {
    let (here, elsewhere) = (folder(), folder());
    let local = grid(here.path(), &["--epsilon", "3", "--json"]);
    let args = ["--epsilon", "3", "--json", "--engine", "processes", "--jobs", "2"];
    let others = grid(elsewhere.path(), &args);
    assert_eq!(unlabelled(&others), unlabelled(&local), "bit for bit");
    let before = ledgers(elsewhere.path());
    assert_eq!(before[0].lines().count(), ledgers(here.path())[0].lines().count());
    let again = grid(elsewhere.path(), &args);
    assert_eq!((again.stdout, ledgers(elsewhere.path())), (others.stdout, before));
    let refused = grid(elsewhere.path(), &[&args[..], &["--partition", "main"]].concat());
    assert!(text(&refused.stderr).contains("jobs on a cluster"), "{refused:?}");
}

/// Parts of what is done on a cluster are done for every model.
#[test]
fn a_dry_run_shows_the_script_of_each_model() {
    let home = folder();
    let args = [&SMALL[..6], &["--model", "linear,mlp", "--batch", "100", "--steps", "3"]].concat();
    let mut command = lab(home.path(), &[&args[..], &["--engine", "slurm", "--dry-run"]].concat());
    let shown = command.output().expect("it starts");
    assert_eq!(text(&shown.stdout).matches("#!/bin/bash").count(), 2, "{shown:?}");
    assert_eq!(text(&shown.stderr).matches("3 runs would be submitted").count(), 2, "{shown:?}");
}

#[test]
fn a_private_selection_in_a_grid_is_the_run_of_train_and_shows_no_time() {
    let home = folder();
    let selection = ["--best-of", "3", "--learning-rates", "0.5,1", "--epsilon", "2"];
    // The last two are the number of seeds: a selection is one run.
    let args = [&SMALL[..12], &selection[..], &["--json"]].concat();
    let output = lab(home.path(), &args).output().expect("it starts");
    let cells = list(&output);
    assert_eq!((cells.len(), &cells[0]["runs"], finished(home.path()).len()), (1, &json!(1), 1));
    let err = text(&output.stderr);
    assert!(err.contains("1 of 1 run;") && err.contains("(trained);"), "{err}");
    let before = ledgers(home.path());
    let mut train = program(home.path());
    let words = [&["train"], &SMALL[..12], &selection[..], &["--seed", "0", "--json"]].concat();
    let run = train.args(words).output().expect("it starts");
    assert_eq!(common::json(&run)["accuracy"], cells[0]["accuracy_mean"], "{run:?}");
    assert_eq!(ledgers(home.path()), before, "nothing is charged twice");
    let out = folder();
    let with_files = [&args[..], &["--out", out.path().to_str().expect("a path")]].concat();
    lab(home.path(), &with_files).output().expect("it starts");
    let csv = std::fs::read_to_string(out.path().join("grid.csv")).expect("written");
    let line = csv.lines().nth(1).expect("a run");
    assert_eq!(line.split(',').nth(11), Some(""), "no seconds: {line}");
    let several = [&args[..], &["--seeds", "2"]].concat();
    let refused = text(&lab(home.path(), &several).output().expect("it starts").stderr);
    assert!(refused.contains("seeds = 2"), "{refused}");
}

#[test]
fn a_rate_of_zero_is_one_cell_whatever_the_kind_of_mask() {
    let home = folder();
    let args = ["--mask", "random,synflow", "--pre-prune", "0,0.5", "--json"];
    let cells = list(&grid(home.path(), &args));
    let masks: Vec<&Value> = cells.iter().map(|cell| &cell["mask"]).collect();
    assert_eq!(masks.len(), 3, "{cells:?}");
    assert_eq!(masks.iter().filter(|mask| mask.is_null()).count(), 1, "{cells:?}");
}

#[test]
fn an_invalid_plan_is_refused_before_training() {
    let home = folder();
    for (args, words) in [
        (&["--pre-prune", "0,1.0"][..], "pre_prune = 1"),
        (&["--pre-prune", "-0.5,0"], "pre_prune = -0.5"),
        (&["--drop", "NaN"], "drop_gradients = NaN"),
        (&["--drop", "0.5,0.5"], "twice"),
        (&["--epsilon", "0"], "epsilon = 0"),
        (&["--epsilon", "1e-6", "--delta", "1e-30"], "no noise multiplier meets"),
        (&["--delta", "1"], "delta = 1"),
        (&["--mask", "snap"], "synflow"),
        (&["--drop-rule", "all"], "magnitude"),
        (&["--method", "sgd"], "dp-ssgd"),
        (&["--method", "dp-sgd", "--drop", "0.5"], "the option --drop"),
        (&["--method", "dp-sgd", "--gradient-scale", "1,2"], "the option --gradient-scale"),
        (&["--epochs", "1"], "--epochs and --steps"),
        (&["--optimizer", "lion"], "adam"),
        (&["--activation", "gelu"], "relu"),
        (&["--device", "cuda:4096"], "cuda:4096 can't be used"),
        (&["--clip", "-1"], "clip = -1"),
        (&["--plan", "/no/such/plan.json"], "--plan FILE"),
        (&["--plan", "/"], "--plan FILE"),
        (&["--out", "/dev/null/folder"], "--out DIR"),
    ] {
        let output = grid(home.path(), args);
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {err}");
        assert!(err.starts_with("error: ") && err.contains(words), "{args:?}: {err}");
        assert!(!err.contains("panicked") && output.stdout.is_empty(), "{args:?}: {err}");
    }
    for (args, words) in [
        (&["--data", "glyph"][..], "glyphs, patterns"),
        (&["--model", "alexnet"], "papernot_cnn"),
        (&["--model", "mlp,mlp"], "twice"),
        (&["--model", "bilstm"], "sentences"),
        (&["--data", "sentences", "--model", "mlp"], "bilstm"),
        (&["--seeds", "0"], "seeds = 0"),
        (&["--batch", "-5"], "--batch-size = -5"),
        (&["--steps", "-1"], "--steps = -1"),
        (&["--seeds", "-1"], "--seeds = -1"),
        (&["--train", "-400"], "--train = -400"),
        (&["--test", "-1"], "--test = -1"),
        (&["--train", "50", "--batch", "1024"], "1024"),
        (&["--data", "glyphs,sentences", "--model", "mlp"], "bilstm"),
    ] {
        let output = lab(home.path(), args).output().expect("it starts");
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {err}");
        assert!(err.starts_with("error: ") && err.contains(words), "{args:?}: {err}");
    }
    assert!(finished(home.path()).is_empty() && !home.path().join("ledger").exists());
    let help = text(&lab(home.path(), &["--help"]).output().expect("help").stdout);
    for part in ["--pre-prune", "\"pre_prune\": [0, 0.5, 0.9]", "accuracy_std", "130"] {
        assert!(help.contains(part), "{part}: {help}");
    }
}

#[test]
fn a_plan_file_equals_options_and_options_replace_its_keys() {
    let home = folder();
    let path = home.path().join("plan.json");
    let plan = json!({
        "data": "glyphs", "train": 400, "test": 100, "model": ["linear", "mlp"], "batch": 100,
        "steps": 3, "seeds": 2, "drop": [0, 0.5], "drop-rule": "magnitude", "epsilon": 3,
        "method": ["dp-ssgd", "non-private"],
    });
    let write = |plan: &Value| std::fs::write(&path, plan.to_string()).expect("written");
    write(&plan);
    let file = path.display().to_string();
    let run = |more: &[&str]| {
        let output = lab(home.path(), &[&["--plan", &file, "--json"], more].concat()).output();
        list(&output.expect("it starts"))
    };
    let cells = run(&[]);
    assert_eq!(cells.len(), 8);
    let names: Vec<&str> = cells.iter().map(|cell| cell["method"].as_str().unwrap()).collect();
    assert_eq!(names[..4], ["dp-ssgd", "dp-ssgd", "non-private", "non-private"]);
    assert!(cells[2]["epsilon"].is_null() && cells[2]["epsilon_spent"].is_null());
    assert_eq!((&cells[1]["drop_rule"], &cells[4]["model"]), (&json!("magnitude"), &json!("mlp")));
    // Equal options give the same runs, and options replace keys of the file.
    let same = grid(home.path(), &["--drop", "0,0.5", "--drop-rule", "magnitude", "--json"]);
    assert_eq!(list(&same)[..], cells[..2]);
    let one = run(&["--model", "linear", "--method", "non-private", "--seeds", "1", "--drop", "0"]);
    assert_eq!(one.len(), 1);
    assert!(one[0]["accuracy_std"].is_null() && one[0]["runs"] == 1, "{}", one[0]);
    assert_eq!(one[0]["accuracies"][0], cells[2]["accuracies"][0]);

    for (plan, words) in [(json!({"prune": [0.5]}), "`prune`"), (json!([]), "expected an object")] {
        write(&plan);
        let output = lab(home.path(), &["--plan", &file]).output().expect("it starts");
        let err = text(&output.stderr);
        assert!(output.status.code() == Some(1) && err.contains(words), "{err}");
    }
}

#[test]
fn a_failed_cell_is_reported_and_the_others_are_trained() {
    let home = folder();
    let output = grid(home.path(), &["--epsilon", "1e-6,3", "--delta", "1e-30", "--json"]);
    let cells = list(&output);
    assert_eq!((&cells[0]["runs"], &cells[1]["runs"]), (&json!(0), &json!(2)));
    assert!(cells[0]["accuracy_mean"].is_null());
    assert_eq!(cells[0]["errors"].as_array().map(Vec::len), Some(1), "{}", cells[0]);
    assert!(text(&output.stderr).contains("not trained: "));
}
