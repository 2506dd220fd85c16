//! Saved answers of commands: ids of runs, entries of ledgers, plans, results.
//!
//! The files in `pins/` change only on purpose. `EPSILAB_SAVE_PINS=1 cargo test --workspace --test
//! program pins` writes them anew; look at the difference.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::common::{folder, program, text};

/// Options of all runs: little data, few steps.
const SMALL: &str = "--data glyphs --train 200 --test 50 --batch-size 50 --steps 4 --seed 1";
/// Runs of `train`, by name.
const RUNS: [(&str, &str); 30] = [
    ("dp_sgd", "--model linear --noise-multiplier 1.1"),
    ("target", "--model linear --epsilon 3"),
    ("dp_ssgd", "--model linear --noise-multiplier 1.1 --method dp-ssgd --drop 0.3"),
    (
        "dp_ssgd_masked",
        "--model mlp --noise-multiplier 1.1 --method dp-ssgd --mask random --pre-prune 0.5 \
         --drop 0.25 --drop-rule magnitude",
    ),
    (
        "synflow",
        "--model mlp --noise-multiplier 1.1 --method dp-ssgd --mask synflow --pre-prune 0.7",
    ),
    ("dp_snip", "--model mlp --epsilon 3 --method dp-ssgd --mask dp-snip --pre-prune 0.5"),
    ("adaptive", "--model linear --noise-multiplier 1.1 --method adaptive-dp-sgd --decay 0.9"),
    ("dynamic", "--model linear --epsilon 2 --method dynamic-dp-sgd --noise-ratio 0.6"),
    ("quantile", "--model linear --noise-multiplier 1.1 --method quantile --count-noise 5"),
    ("auto_dp_sgd", "--model linear --noise-multiplier 1.1 --method auto-dp-sgd"),
    ("backprop", "--model mlp --noise-multiplier 1.1 --method backprop-clipping"),
    ("non_private", "--model linear --method non-private"),
    ("auto_s", "--model linear --noise-multiplier 1.1 --clip-rule auto-s"),
    ("normalised", "--model linear --noise-multiplier 1.1 --clip-rule normalised"),
    ("per_layer", "--model mlp --noise-multiplier 1.1 --clip-rule per-layer"),
    ("clip_schedule", "--model linear --noise-multiplier 1.1 --clip-schedule linear:0.99"),
    ("noise_schedule", "--model linear --epsilon 3 --noise-schedule step:0.9:1"),
    (
        "adam",
        "--model linear --noise-multiplier 1.1 --optimizer adam --lr-schedule cosine --warm-up 1",
    ),
    (
        "adamw",
        "--model linear --noise-multiplier 1.1 --optimizer adamw --weight-decay 0.02 \
         --learning-rate 0.003",
    ),
    ("dp_adam_bc", "--model linear --noise-multiplier 1.1 --optimizer dp-adam-bc"),
    ("average", "--model linear --noise-multiplier 1.1 --average ema:0.9"),
    ("zero_out", "--model linear --noise-multiplier 1.1 --disjoint-batches zero-out"),
    ("replace", "--model linear --noise-multiplier 1.1 --disjoint-batches replace-one"),
    ("frozen", "--model linear --noise-multiplier 1.1 --freeze *.bias"),
    ("augmented", "--model linear --noise-multiplier 1.1 --augment"),
    ("selection", "--model linear --noise-multiplier 1.1 --best-of 2 --learning-rates 0.5,1"),
    ("drawn_prior", "--model papernot_cnn --epsilon 3 --prior drawn --pretrain-epochs 1"),
    ("papernot_cnn", "--model papernot_cnn --epsilon 8 --activation relu"),
    (
        "no_guarantee",
        "--model linear --noise-multiplier 1.1 --lr-schedule plateau:0.1:10 --accept-no-guarantee",
    ),
    ("delta", "--model linear --epsilon 1 --delta 1e-7 --learning-rate 0.5 --clip 0.5"),
];

/// Other commands, by name.
const OTHERS: [(&str, &str); 6] = [
    ("epsilon", "epsilon --sampling-rate 0.01 --noise-multiplier 1.1 --steps 1000 --delta 1e-5"),
    ("sigma", "sigma --sampling-rate 0.01 --epsilon 2 --steps 1000 --delta 1e-5"),
    (
        "grid",
        "grid --data glyphs --train 200 --test 50 --model linear --method dp-ssgd,dp-sgd \
         --mask random --pre-prune 0,0.5 --drop 0,0.3 --epsilon 2 --seeds 2 --steps 3 --batch 50",
    ),
    (
        "grid_methods",
        "grid --data glyphs --train 200 --test 50 --model linear \
         --method non-private,quantile,backprop-clipping --epsilon 1,4 --seeds 1 --steps 3 \
         --batch 50",
    ),
    ("ledger", "ledger"),
    ("runs", "runs"),
];

/// Parts of answers that chance, the clock or the rounding of a processor decides.
const LEFT_OUT: [&str; 12] = [
    "at",
    "exported_at",
    "chain",
    "seconds",
    "accuracy",
    "accuracies",
    "accuracy_mean",
    "accuracy_std",
    "wait_share",
    "label",
    "run_labels",
    "warnings",
];
/// The C library that computed the saved values. Another one may round the last bit of a calibrated
/// noise multiplier otherwise, and the id of a run depends on every bit.
const C_LIBRARY: &str = "glibc 2.36";

/// Removes what is left out, and the number of an attempt behind the id of its run.
fn pinned(value: Value) -> Value {
    match value {
        Value::Object(map) => map
            .into_iter()
            .filter(|(key, _)| !LEFT_OUT.contains(&key.as_str()))
            .map(|(key, value)| (key, pinned(value)))
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(list) => list.into_iter().map(pinned).collect(),
        Value::String(text) => json!(id_in(&text).unwrap_or(&text)),
        other => other,
    }
}

/// The id of a run, alone or before the number of an attempt.
fn id_in(text: &str) -> Option<&str> {
    let (id, attempt) = text.split_once('-').unwrap_or((text, "00000000"));
    let is_hex = |text: &str| text.bytes().all(|b| b.is_ascii_hexdigit());
    (id.len() == 16 && is_hex(id) && attempt.len() == 8 && is_hex(attempt)).then_some(id)
}

/// The entries of all ledgers of a project, in the order of their data sets.
fn ledger(home: &Path) -> Value {
    let Ok(all) = fs::read_dir(home.join("ledger")) else { return json!([]) };
    let mut files: Vec<PathBuf> = all.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "jsonl"));
    files.sort();
    let lines = files.iter().flat_map(|path| {
        let text = fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
    });
    pinned(lines.collect())
}

fn call(home: &Path, line: &str) -> Value {
    let ended = program(home).args(line.split_whitespace()).output().unwrap();
    assert!(ended.status.success(), "{line}: {}", text(&ended.stderr));
    pinned(serde_json::from_slice(&ended.stdout).unwrap())
}

fn run(options: &str) -> Value {
    let home = folder();
    let home = home.path();
    let mut result = call(home, &format!("train {SMALL} {options} --save-plan plan.json --json"));
    // A random label; the ledger has the id.
    result.as_object_mut().unwrap().remove("run");
    let plan: Value = serde_json::from_slice(&fs::read(home.join("plan.json")).unwrap()).unwrap();
    let mut ledger = ledger(home);
    if options.contains("--prior") {
        // Its start is trained, so its id depends on how a processor rounds.
        let entries = ledger.as_array_mut().unwrap().iter_mut();
        entries.for_each(|entry| drop(entry.as_object_mut().unwrap().remove("run")));
    }
    json!({ "result": result, "plan": pinned(plan), "ledger": ledger })
}

fn other(line: &str) -> Value {
    let home = folder();
    let home = home.path();
    if matches!(line, "ledger" | "runs") {
        call(home, &format!("train {SMALL} {} --json", RUNS[0].1));
    }
    let result = call(home, &format!("{line} --json"));
    json!({ "result": result, "ledger": ledger(home) })
}

/// Equal, but for the last digits of numbers, and for ids with another C library.
fn is_equal(found: &Value, saved: &Value) -> bool {
    match (found, saved) {
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, value)| b.get(key).is_some_and(|b| is_equal(value, b)))
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_equal(a, b))
        }
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            (a - b).abs() <= 1e-9 * b.abs()
        }
        (Value::String(a), Value::String(b)) if a != b && id_in(b).is_some() => {
            id_in(a).is_some() && !epsilab::program::software_versions().ends_with(C_LIBRARY)
        }
        _ => found == saved,
    }
}

/// Compares what is found with the file of this name, or writes it.
fn compare(file: &str, found: &Map<String, Value>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program/pins").join(file);
    if std::env::var_os("EPSILAB_SAVE_PINS").is_some() {
        let text = serde_json::to_string_pretty(found).unwrap();
        fs::write(&path, text + "\n").unwrap();
        return;
    }
    let saved: Map<String, Value> = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!(saved.keys().collect::<Vec<_>>(), found.keys().collect::<Vec<_>>());
    let changed = found.iter().filter(|(name, value)| !is_equal(value, &saved[*name]));
    let changed: Vec<String> = changed
        .map(|(name, value)| format!("{name}:\n  found {value}\n  saved {}", saved[name]))
        .collect();
    assert!(changed.is_empty(), "{} changed:\n{}", path.display(), changed.join("\n"));
}

#[test]
fn runs_have_the_saved_ids_plans_charges_and_results() {
    let found = RUNS.map(|(name, options)| (name.to_owned(), run(options)));
    compare("runs.json", &found.into_iter().collect());
}

#[test]
fn other_commands_have_the_saved_results() {
    let found = OTHERS.map(|(name, line)| (name.to_owned(), other(line)));
    compare("others.json", &found.into_iter().collect());
}
