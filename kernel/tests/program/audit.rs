//! Tests of the command `audit`: its JSON, its words and every exit code.

use std::process::Output;

use serde_json::Value;

use crate::common::{run, scratch, text};

fn audit(args: &[&str]) -> Output {
    run(scratch(), &[&["audit"], args].concat())
}

/// An audit of a second or less.
fn small(args: &[&str]) -> Output {
    audit(&[args, &["--trials", "1000", "--dimension", "8"]].concat())
}

/// Asserts the exit code and one line of JSON on stdout with nothing on stderr.
#[track_caller]
fn verdict(output: &Output, code: i32, verdict: &str) -> Value {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{out}{err}");
    assert!(out.lines().count() == 1 && err.is_empty(), "{out}{err}");
    let json: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(json["verdict"], verdict, "{out}");
    json
}

#[test]
fn exit_codes_are_verdicts() {
    let json = verdict(&small(&["dp-sgd", "--json"]), 0, "consistent");
    assert_eq!((&json["method"], &json["trials"]), (&"dp-sgd".into(), &1000.into()));
    let number = |key: &str| json[key].as_f64().unwrap_or_else(|| panic!("{key} in {json}"));
    assert!((number("claimed_epsilon") - 4.3772).abs() < 1e-3 && json["why"].is_null());
    assert!(number("lower_bound") > 0.3 && number("lower_bound") < 4.3);
    assert!(number("mu_lower_bound") > 0.5 && number("mu_lower_bound") < 1.0);
    assert_eq!((number("confidence"), &json["statistic"]), (0.95, &"projection".into()));
    for key in ["false_positive_rate", "true_positive_rate", "seconds", "sampling_rate", "delta"] {
        assert!(number(key) >= 0.0);
    }
    let wrong = verdict(&small(&["half-noise", "--json", "--seed", "3"]), 1, "refuted");
    assert_eq!(wrong["refuted_by"][0], "projection");
    let rare = ["dp-sgd", "--sampling-rate", "0.02", "--steps", "3", "--json"];
    let rare = verdict(&small(&rare), 2, "inconclusive");
    assert!((rare["sampling_rate"].as_f64().expect("a rate") - 0.02).abs() < 1e-9);
}

#[test]
fn the_text_has_what_was_tested_and_the_meaning_of_the_verdict() {
    let output = small(&["no-clip"]);
    let words = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{words}");
    for part in ["no-clip: refuted", "1,000 trials", "epsilon 4.378", "more often than any"] {
        assert!(words.contains(part), "{part}: {words}");
    }
    let words = text(&small(&["per-layer"]).stdout);
    assert!(words.contains("This does not prove that the method is private"), "{words}");
}

#[test]
fn misuse_exits_with_64_and_help_with_0() {
    for args in [
        &["dp-sdg"][..],
        &[],
        &["dp-sgd", "--nothing"],
        &["dp-sgd", "--trials", "many"],
        &["dp-sgd", "--trials", "-5"],
        &["dp-sgd", "--trials", "5"],
        &["dp-sgd", "--sampling-rate", "1.5"],
        &["dp-sgd", "--noise-multiplier", "0"],
        &["dp-sgd", "--steps", "0"],
        &["dp-sgd", "--dimension", "7"],
        &["dp-sgd", "--canary-norm", "-1"],
        &["dp-sgd", "--delta", "2"],
    ] {
        let output = audit(args);
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{args:?}: {err}");
        assert!(output.stdout.is_empty() && err.starts_with("error: "), "{args:?}: {err}");
    }
    let help = audit(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    let help = text(&help.stdout);
    assert!(help.contains("mask-from-gradients") && help.contains("64"), "{help}");
}
