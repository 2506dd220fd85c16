//! Tests of the command `sweep`: its rows, what it refuses, and the experiments of the project.

use std::path::{Path, PathBuf};
use std::process::Output;

use epsilab::privacy::{Accountant, Delta, Event, OrderList, Rdp, TightestAccountant};
use serde_json::Value;

use crate::common::{folder, run, text};

fn sweep(home: &Path, args: &[&str]) -> Output {
    run(home, &[&["sweep"], args].concat())
}

/// A file of experiments whose runs take a second each.
fn file(folder: &Path, experiments: &str) -> String {
    let path = folder.join("experiments.json");
    std::fs::write(&path, format!(r#"{{"experiments": [{experiments}]}}"#)).expect("written");
    path.display().to_string()
}

const CLIPS: &str = r#"{"name": "clips", "title": "Accuracy over clip norm", "seeds": 2,
    "options": {"data": "glyphs", "train": 400, "test": 100, "model": "linear", "batch-size": 100,
                "steps": 3},
    "cases": [{"clip": [0.1, 1], "noise-multiplier": 1.1},
              {"method": "auto-dp-sgd", "gradient-scale": [1, 0.5], "noise-multiplier": 1.5}]}"#;

#[test]
fn every_case_is_trained_with_every_seed_once() {
    let home = folder();
    let experiments = file(home.path(), CLIPS);
    let out = home.path().join("out").display().to_string();
    let first = sweep(home.path(), &[&experiments, "--json", "--out", &out]);
    assert_eq!(first.status.code(), Some(0), "{}", text(&first.stderr));
    let rows: Vec<Value> = serde_json::from_slice(&first.stdout).expect("JSON");
    assert_eq!(rows.len(), 4);
    for row in &rows {
        assert_eq!((&row["runs"], &row["experiment"]), (&2.into(), &"clips".into()));
        assert_eq!(row["accuracies"].as_array().map(Vec::len), Some(2));
        let accuracy = |seed: usize| row["accuracies"][seed].as_f64().expect("a number");
        let mean = row["accuracy_mean"].as_f64().expect("a number");
        assert!((mean - (accuracy(0) + accuracy(1)) / 2.0).abs() < 1e-12, "{row}");
        let std = row["accuracy_std"].as_f64().expect("a number");
        assert!((std - (accuracy(0) - accuracy(1)).abs() / 2f64.sqrt()).abs() < 1e-12, "{row}");
    }
    // A seed is known, so the guarantee has an assumption. Auto DP-SGD has only its claim, which
    // falls with the scale.
    assert_eq!(
        (&rows[0]["badge"], &rows[0]["options"]["clip"]),
        (&"assumption".into(), &0.1.into())
    );
    assert!(rows[0]["epsilon_spent"].as_f64() > Some(0.0) && rows[0]["claimed_epsilon"].is_null());
    assert_eq!((&rows[2]["badge"], &rows[2]["epsilon_spent"]), (&"none".into(), &Value::Null));
    assert!(rows[2]["claimed_epsilon"].as_f64() > rows[3]["claimed_epsilon"].as_f64());

    let ledgers = || -> Vec<u64> {
        let files = std::fs::read_dir(home.path().join("ledger")).expect("a folder");
        files.map(|file| file.unwrap().metadata().unwrap().len()).collect()
    };
    let (charged, again) = (ledgers(), sweep(home.path(), &[&experiments, "--baseline", "2"]));
    assert_eq!(ledgers(), charged, "nothing is trained twice");
    let words = text(&again.stdout);
    assert!(
        words.contains("clips: Accuracy over clip norm") && words.contains("auto-dp-sgd  "),
        "{words}"
    );
    let head = words.lines().find(|line| line.starts_with("method")).expect("a table");
    assert!(head.contains("minus dp-sgd, clip 1"), "{words}");
    for rest in [&[][..], &["--preview"]] {
        let wrong = sweep(home.path(), &[&[&experiments, "--baseline", "5"], rest].concat());
        assert_eq!(wrong.status.code(), Some(1), "{}", text(&wrong.stderr));
        assert!(text(&wrong.stderr).contains("numbered from 1 to 4"), "{}", text(&wrong.stderr));
    }
    assert!(!head.contains("steps"), "equal options are no column: {words}");
    // As below a grid: what the four private runs cost together, and the noise of the seeds.
    assert!(words.contains("Private runs: 4 on") && words.contains("within seed noise"), "{words}");
    let markdown = std::fs::read_to_string(Path::new(&out).join("sweep.md")).expect("written");
    assert!(
        markdown.contains("| method | clip | noise-multiplier | gradient-scale |")
            && markdown.contains("| none |")
            && markdown.contains("| assumption |"),
        "{markdown}"
    );
    let stored = std::fs::read(Path::new(&out).join("sweep.json")).expect("written");
    assert_eq!(stored, first.stdout);
    let csv = std::fs::read_to_string(Path::new(&out).join("clips.csv")).expect("written");
    assert_eq!(csv.lines().count(), 9, "{csv}");
    // Names of runs are derived from the data.
    assert!(!markdown.contains("runs/") && !text(&first.stdout).contains("\"run\""));
}

#[test]
fn a_case_that_cannot_be_trained_leaves_the_others() {
    let home = folder();
    let both = r#""model": ["bilstm", "linear"], "noise-multiplier": 1.1"#;
    let experiments = CLIPS.replace(r#""clip": [0.1, 1], "noise-multiplier": 1.1"#, both);
    let experiments = file(home.path(), &experiments);
    let done = sweep(home.path(), &[&experiments, "--json", "--seeds", "1"]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let rows: Vec<Value> = serde_json::from_slice(&done.stdout).expect("JSON");
    assert_eq!((&rows[0]["runs"], &rows[0]["accuracy_mean"]), (&0.into(), &Value::Null));
    let error = rows[0]["errors"][0].as_str().expect("an error");
    assert!(error.contains("texts"), "{error}");
    let stderr = text(&done.stderr);
    assert!(stderr.contains("not trained: clips, model bilstm"), "{stderr}");
    assert_eq!((&rows[0]["model"], &rows[0]["method"]), (&"bilstm".into(), &"dp-sgd".into()));
    let words = text(&sweep(home.path(), &[&experiments, "--seeds", "1"]).stdout);
    assert!(words.contains("Not trained: clips, model bilstm"), "{words}");
    assert_eq!((&rows[1]["runs"], &rows[1]["errors"]), (&1.into(), &Value::Array(Vec::new())));
    // So are data that can't be read.
    let missing = file(home.path(), &CLIPS.replace(r#""glyphs""#, r#"["nothing", "glyphs"]"#));
    let done = sweep(home.path(), &[&missing, "--json", "--seeds", "1"]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let rows: Vec<Value> = serde_json::from_slice(&done.stdout).expect("JSON");
    let runs: Vec<u64> = rows.iter().map(|row| row["runs"].as_u64().expect("a count")).collect();
    assert_eq!(runs, [0, 0, 1, 1, 0, 0, 1, 1], "{rows:?}");
    let experiments = file(home.path(), &CLIPS.replace(r#""clip": [0.1, 1]"#, r#""clip": 1"#));
    let none = sweep(home.path(), &[&experiments, "--seeds", "1", "--model", "bilstm"]);
    assert_eq!(none.status.code(), Some(1), "{}", text(&none.stdout));
}

#[test]
fn wrong_files_are_refused_before_anything_is_trained() {
    let home = folder();
    let wrong = |experiments: &str, args: &[&str], words: &str| {
        let experiments = file(home.path(), experiments);
        let output = sweep(home.path(), &[&[experiments.as_str()], args].concat());
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{err}");
        assert!(err.starts_with("error: ") && err.contains(words), "{words}: {err}");
    };
    wrong(&CLIPS.replace("\"clip\"", "\"clips\""), &[], "--clips");
    wrong(&CLIPS.replace("auto-dp-sgd", "auto"), &[], "choose from dp-sgd");
    wrong(CLIPS, &["--only", "clip"], "choose from clips");
    wrong(CLIPS, &["--seeds", "0"], "seeds");
    assert!(!home.path().join("ledger").exists());
    let missing = sweep(home.path(), &["nothing.json"]);
    assert!(text(&missing.stderr).contains("nothing.json"));
}

#[test]
fn the_experiments_of_the_auto_dp_sgd_paper_are_complete_and_can_be_trained() {
    let home = folder();
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let plan = root.join("book/src/evidence/auto-dp-sgd.plan.json").display().to_string();
    let list = sweep(home.path(), &[&plan, "--list"]);
    assert_eq!(list.status.code(), Some(0), "{}", text(&list.stderr));
    let list = text(&list.stdout);
    for table in 3..=16 {
        assert!(list.lines().any(|line| line.starts_with(&format!("table-{table} "))), "{list}");
    }
    // One of them on built-in data, for a moment.
    let quick = "--data glyphs --train 100 --test 50 --model linear --steps 1 --batch-size 20";
    let quick: Vec<&str> = quick.split(' ').collect();
    let args = [&[plan.as_str(), "--only", "table-10", "--json"], &quick[..]].concat();
    let done = sweep(home.path(), &args);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let rows: Vec<Value> = serde_json::from_slice(&done.stdout).expect("JSON");
    assert!(rows.len() >= 14 && rows.iter().all(|row| row["runs"] == 1), "{rows:?}");
}

#[test]
fn a_preview_reads_no_data_and_spends_nothing() {
    let home = folder();
    let costs = r#"{"name": "costs", "title": "What it costs",
        "options": {"data": "nowhere", "pretrained": "nothing", "batch-size": 600, "epochs": 10},
        "paper": {"examples": 60000, "orders": "tf_legacy"},
        "cases": [{"noise-multiplier": [1, 2], "learning-rate": [0.1, 1], "paper": {"epsilon": 4.5}},
                  {"epsilon": 3}, {"method": "non-private"}, {"mask": "snip", "pre-prune": 0.5,
                  "method": "dp-ssgd"}]}"#;
    let experiments = file(home.path(), costs);
    let done = sweep(home.path(), &[&experiments, "--preview", "--json"]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    assert!(text(&done.stderr).contains("not planned: costs, method dp-ssgd"), "{:?}", done.stderr);
    let rows: Vec<Value> = serde_json::from_slice(&done.stdout).expect("JSON");
    assert_eq!(rows.len(), 4, "{rows:?}");
    let (rate, delta) = (0.01, Delta(1e-5));
    for (row, sigma) in rows.iter().zip([1.0, 2.0]) {
        let event = Event::poisson(rate, sigma, 1000);
        let rdp = Rdp::default().with_orders(OrderList::tf_legacy());
        let number = |key: &str| row[key].as_f64().expect(key);
        let expected = rdp.epsilon(std::slice::from_ref(&event), delta).expect("RDP").epsilon;
        let reported = TightestAccountant::new().epsilon(&[event], delta).expect("PLD").epsilon;
        // JSON is read up to the last bit.
        let same = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-12;
        assert!(
            same(number("epsilon_rdp"), expected) && same(number("epsilon"), reported),
            "{row}"
        );
        assert_eq!(number("steps"), 1000.0);
        assert!((number("epsilon") < expected) && row["paper"]["epsilon"] == 4.5, "{row}");
    }
    let (noise, by_rdp) = (&rows[2]["noise_multiplier"], &rows[2]["noise_multiplier_rdp"]);
    assert!(noise.as_f64() < by_rdp.as_f64() && rows[2]["target"] == 3.0, "{}", rows[2]);
    assert!(rows[3]["epsilon"].is_null() && rows[3]["steps"] == 1000, "{}", rows[3]);

    let out = home.path().join("out").display().to_string();
    let words = text(&sweep(home.path(), &[&experiments, "--preview", "--out", &out]).stdout);
    assert!(words.contains("paper's epsilon") && words.contains("not planned"), "{words}");
    let markdown = std::fs::read_to_string(Path::new(&out).join("preview.md")).expect("written");
    assert!(markdown.contains("| 1,000 |"), "{markdown}");
    assert!(!home.path().join("ledger").exists() && !home.path().join("runs").exists());

    // Data that the command names are read.
    let overrides = ["--only", "costs", "--preview", "--json", "--data", "glyphs", "--epochs", "1"];
    let done = sweep(home.path(), &[&[experiments.as_str()], &overrides[..]].concat());
    let rows: Vec<Value> = serde_json::from_slice(&done.stdout).expect("JSON");
    assert_eq!(
        (&rows[0]["examples"], &rows[0]["paper"]["epsilon"]),
        (&12_000.into(), &Value::Null)
    );
    let missing = ["--preview", "--data", "nowhere"];
    let done = sweep(home.path(), &[&[experiments.as_str()], &missing[..]].concat());
    assert_eq!(done.status.code(), Some(1), "{}", text(&done.stdout));
}

#[test]
fn the_results_of_a_paper_stand_beside_those_of_the_same_work() {
    let home = folder();
    let paper = r#""noise-multiplier": 1.1, "paper": {"accuracy %": 47.9, "s per epoch": 2.5}"#;
    let experiments = CLIPS.replace(r#""noise-multiplier": 1.1"#, paper);
    let experiments = file(home.path(), &experiments);
    let columns = |args: &[&str]| {
        let done = sweep(home.path(), &[&[experiments.as_str(), "--seeds", "1"], args].concat());
        assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
        let words = text(&done.stdout);
        ["paper's accuracy %", "47.9", "paper's s per epoch", "2.5"]
            .map(|word| words.contains(word))
    };
    assert_eq!(columns(&[]), [true; 4]);
    assert_eq!(columns(&["--steps", "2"])[..3], [false; 3]);
    let other_data = CLIPS.replace(r#""noise-multiplier": 1.1"#, paper);
    let other_data = other_data.replace(r#""seeds": 2"#, r#""seeds": 1, "paper": {"examples": 5}"#);
    let rows = sweep(home.path(), &[&file(home.path(), &other_data), "--json"]);
    let rows: Vec<Value> = serde_json::from_slice(&rows.stdout).expect("JSON");
    assert!(rows.iter().all(|row| row.get("paper").is_none()), "{rows:?}");
    assert!(rows[0]["seconds_per_epoch"].as_f64() > Some(0.0));
}

#[test]
fn the_experiments_of_the_imagenet_paper_can_be_listed_and_their_costs_are_those_of_the_page() {
    let home = folder();
    let docs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../book/src/evidence");
    let page = std::fs::read_to_string(docs.join("imagenet-scaling.md")).expect("the page");
    // Solving the noise of figure 1 takes too long here.
    let previewed = [
        "figure-2",
        "table-4",
        "table-5",
        "table-6",
        "table-7",
        "table-9",
        "table-11",
        "appendix-h",
    ];
    let others = ["figure-1-table-8", "table-2", "table-3", "table-10-appendix-f", "table-12"];
    for name in previewed.iter().chain(&others) {
        let file = docs.join(format!("imagenet/{name}.experiments.json")).display().to_string();
        let list = sweep(home.path(), &[&file, "--list"]);
        assert_eq!(list.status.code(), Some(0), "{name}: {}", text(&list.stderr));
        assert!(page.contains(&format!("imagenet/{name}.experiments.json")), "{name}");
        if previewed.contains(name) {
            let out = home.path().join(name).display().to_string();
            let done = sweep(home.path(), &[&file, "--preview", "--out", &out]);
            assert_eq!(done.status.code(), Some(0), "{name}: {}", text(&done.stderr));
            let made =
                std::fs::read_to_string(Path::new(&out).join("preview.md")).expect("written");
            let is_row = |line: &&str| line.starts_with('|') && !line.starts_with("| --");
            for line in made.lines().filter(is_row) {
                let line = line.replace('\\', "");
                assert!(page.contains(&line), "{name}: not in imagenet-scaling.md:\n{line}");
            }
        }
    }
    for (at, _) in page.match_indices("imagenet/") {
        let name = page[at + "imagenet/".len()..].split(".experiments.json").next();
        let name = name.filter(|name| !name.contains(|c: char| c.is_whitespace() || c == '/'));
        let known = |name: &&str| previewed.contains(name) || others.contains(name);
        assert!(name.is_none_or(|name| known(&name)), "{name:?}: every file is checked");
    }
}
