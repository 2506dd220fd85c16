//! `train` on tables as people bring them: forms of files, kinds of columns, labels, warnings.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::common::{folder, run, text};

/// Rows of two features whose sum decides the class.
fn rows() -> Vec<(f64, f64, u8)> {
    let at = |i: u32, step: u32| f64::from(i * step % 101) / 50.0 - 1.0;
    (0..400).map(|i| (at(i, 37), at(i, 59))).map(|(a, b)| (a, b, u8::from(a + b > 0.0))).collect()
}

/// The rows in a CSV file with this header, each line made by `line`.
fn table(header: &str, line: impl Fn(usize, f64, f64, u8) -> String) -> String {
    let rows = rows();
    let lines = rows.iter().enumerate().map(|(i, (a, b, label))| line(i, *a, *b, *label) + "\n");
    format!("{header}\n{}", lines.collect::<String>())
}

/// The usual options and their values.
const USUAL: [[&str; 2]; 6] = [
    ["--split", "0.7"],
    ["--model", "linear"],
    ["--method", "non-private"],
    ["--seed", "1"],
    ["--learning-rate", "1"],
    ["--epochs", "20"],
];

/// `train` on a table, without privacy unless `args` say so, in a second.
fn train(home: &Path, name: &str, content: &str, args: &[&str]) -> Output {
    let path = home.join(name);
    std::fs::write(&path, content).expect("written");
    let path = path.to_str().expect("UTF-8").to_owned();
    let usual = USUAL.iter().filter(|[option, _]| !args.contains(option)).flatten().copied();
    let usual: Vec<&str> = usual.collect();
    run(home, &[&["train", "--data", &path, "--json"], &usual[..], args].concat())
}

#[track_caller]
fn accuracy(output: &Output) -> f64 {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let json: Value = serde_json::from_str(&text(&output.stdout)).expect("JSON");
    json["accuracy"].as_f64().expect("a number")
}

#[track_caller]
fn refused(output: &Output, words: &[&str]) {
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    words.iter().for_each(|word| assert!(err.contains(word), "no `{word}` in: {err}"));
}

#[test]
fn every_form_of_a_table_learns_the_same() {
    let home = folder();
    let plain = table("a,b,label", |_, a, b, label| format!("{a},{b},{label}"));
    let first = accuracy(&train(home.path(), "plain.csv", &plain, &[]));
    assert!(first > 0.95, "{first}");
    let forms = [
        ("semicolons.CSV", plain.replace(',', ";")),
        ("tabs.tsv", plain.replace(',', "\t")),
        ("bars.txt", plain.replace(',', "|")),
        ("windows.csv", format!("\u{feff}{}", plain.replace('\n', "\r\n"))),
        ("decimal.csv", plain.replace(',', ";").replace('.', ",")),
        ("index.csv", table(",a,b,label", |i, a, b, label| format!("{i},{a},{b},{label}"))),
    ];
    for (name, content) in &forms {
        let output = train(home.path(), name, content, &[]);
        assert_eq!(accuracy(&output), first, "{name}");
        let notice = text(&output.stderr).contains("counts the rows");
        assert_eq!(notice, *name == "index.csv", "{}", text(&output.stderr));
    }
}

#[test]
fn labels_and_columns_that_can_not_be_used_are_refused_before_any_charge() {
    let home = folder();
    let prices = table("a,b,price", |i, a, b, _| format!("{a},{b},{}", 3 * i));
    let label = ["--label", "price"];
    refused(&train(home.path(), "p.csv", &prices, &label), &["is a quantity", "--as-classes"]);
    let wrong = ["--label", "Price"];
    refused(&train(home.path(), "p.csv", &prices, &wrong), &["did you mean `price`?"]);
    let typo = table("a,b,label", |i, a, b, label| {
        if i == 2 { format!("oops,{b},{label}") } else { format!("{a},{b},{label}") }
    });
    refused(&train(home.path(), "t.csv", &typo, &[]), &["line 4, column `a`", "`oops`"]);
    refused(&train(home.path(), "x.parquet", "PAR1", &[]), &["Parquet"]);
    refused(&train(home.path(), "t.csv", &typo, &["--scale", "b"]), &["--scale", "age=0..100"]);
    refused(&run(home.path(), &["train", "--ignore", "a"]), &["--ignore", "a table"]);
    assert!(!home.path().join("ledger").exists(), "nothing is charged");
}

#[test]
fn categories_of_a_public_list_keep_the_guarantee_and_others_void_it() {
    let home = folder();
    let text = table("side,b,label", |i, _, b, _| {
        let side = if i % 2 == 0 { "left" } else { "right" };
        format!("{side},{b},{}", i % 2)
    });
    let badge = |args: &[&str]| {
        let private = ["--method", "dp-sgd", "--epsilon", "3", "--epochs", "2"];
        let output = train(home.path(), "sides.csv", &text, &[&private[..], args].concat());
        let report = crate::common::text(&output.stdout);
        let json: Value = serde_json::from_str(&report).unwrap_or_else(|_| {
            panic!("{}", crate::common::text(&output.stderr));
        });
        (json["badge"].clone(), json["why"].to_string())
    };
    let (read, why) = badge(&[]);
    assert_eq!(read, "none");
    assert!(why.contains("categories of `side`"), "{why}");
    let (declared, why) = badge(&["--category", "side=left,right"]);
    assert_eq!(declared, "assumption", "a seed: {why}");
    assert!(!why.contains("categories"), "{why}");
    let ledgers = std::fs::read_dir(home.path().join("ledger")).expect("ledgers");
    let ledgers = ledgers.filter(|file| {
        let path = file.as_ref().expect("a file").path();
        path.extension().is_some_and(|ending| ending == "jsonl")
    });
    assert_eq!(ledgers.count(), 1, "the people are the same");
}

#[test]
fn a_run_that_has_learnt_nothing_has_warnings() {
    let home = folder();
    let salaries =
        table("a,salary,label", |_, a, b, label| format!("{a},{},{label}", 50_000.0 * (b + 2.0)));
    let kinds = |args: &[&str]| {
        let output = train(home.path(), "s.csv", &salaries, args);
        let json: Value = serde_json::from_str(&text(&output.stdout)).expect("JSON");
        let found = json["warnings"].as_array().cloned().unwrap_or_default();
        assert!(found.iter().all(|warning| warning["text"].is_string()), "{json}");
        let kinds = found.iter().map(|warning| warning["kind"].as_str().map(str::to_owned));
        (kinds.map(|kind| kind.expect("a kind")).collect::<Vec<_>>(), json)
    };
    let (raw, json) = kinds(&[]);
    assert!(raw.contains(&"feature-span".to_owned()), "{json}");
    let (scaled, json) = kinds(&["--scale", "salary=0..200000"]);
    assert!(!scaled.contains(&"feature-span".to_owned()), "{json}");
    let noise = ["--method", "dp-sgd", "--noise-multiplier", "1000", "--scale", "salary=0..200000"];
    let (noisy, json) = kinds(&noise);
    assert!(noisy.contains(&"low-signal".to_owned()), "{json}");
    let plain = table("a,b,label", |_, a, b, label| format!("{a},{b},{label}"));
    let good = train(home.path(), "plain.csv", &plain, &[]);
    let json: Value = serde_json::from_str(&text(&good.stdout)).expect("JSON");
    assert!(json.get("warnings").is_none(), "{json}");
}
