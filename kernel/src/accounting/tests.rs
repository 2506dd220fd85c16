use clap::Parser;
use serde_json::{Value, json};

use super::*;

#[derive(Parser)]
struct EpsilonLine {
    #[command(flatten)]
    args: EpsilonArgs,
}

#[derive(Parser)]
struct SigmaLine {
    #[command(flatten)]
    args: SigmaArgs,
}

fn epsilon_line(line: &str) -> Result<String> {
    let words = std::iter::once("epsilon").chain(line.split_whitespace());
    epsilon_output(&EpsilonLine::try_parse_from(words).expect("valid usage").args)
}

fn sigma_line(line: &str) -> Result<String> {
    let words = std::iter::once("sigma").chain(line.split_whitespace());
    sigma::sigma_output(&SigmaLine::try_parse_from(words).expect("valid usage").args)
}

/// Parses one line of JSON whose keys are in alphabetical order.
#[track_caller]
fn json_of(line: String) -> Value {
    assert!(!line.contains('\n'), "{line}");
    let value: Value = serde_json::from_str(&line).expect("JSON");
    let mut at = 0;
    let mut keys: Vec<&String> = value.as_object().expect("an object").keys().collect();
    keys.sort();
    for key in keys {
        let here = line.find(&format!("\"{key}\":")).expect("the key");
        assert!(here >= at, "{key} is out of order: {line}");
        at = here;
    }
    value
}

#[track_caller]
fn epsilon_json(line: &str) -> Value {
    json_of(epsilon_line(&format!("{line} --json")).unwrap())
}

#[track_caller]
fn sigma_json(line: &str) -> Value {
    json_of(sigma_line(&format!("{line} --json")).unwrap())
}

#[track_caller]
fn refused(result: Result<String>, kind: ErrorKind, words: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(words), "{error}");
}

#[track_caller]
fn assert_close(value: &Value, expected: f64, relative: f64) {
    let number = value.as_f64().unwrap_or_else(|| panic!("not a number: {value}"));
    assert!((number / expected - 1.0).abs() < relative, "{number} is not {expected}");
}

const RUN: &str = "--sampling-rate 0.01 --noise-multiplier 1 --steps 1000 --delta 1e-5";
const TARGET: &str = "--epsilon 3 --delta 1e-5 --sampling-rate 0.034";

/// The keys that are always present.
const KEYS: [&str; 10] = [
    "accountant",
    "approximate",
    "delta",
    "epsilon",
    "gdp",
    "lower",
    "neighbouring",
    "pld",
    "rdp",
    "zcdp",
];

fn keys_of(answer: &Value) -> Vec<&str> {
    answer.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn the_headline_has_one_key_per_accountant_and_none_proves_less() {
    let answer = epsilon_json(RUN);
    assert_eq!(keys_of(&answer), KEYS);
    assert_close(&answer["rdp"], 2.1014, 1e-3);
    assert!(answer["epsilon"].as_f64() <= answer["rdp"].as_f64(), "{answer}");
    assert_eq!(answer["epsilon"], answer[answer["accountant"].as_str().unwrap()]);
    assert_eq!(answer["delta"], 1e-5);
    assert!(answer["zcdp"].is_null(), "sampling is not for zcdp: {answer}");
    // An approximation is labelled, and listed only with a value.
    let labelled = !answer["approximate"].as_array().unwrap().is_empty();
    assert_eq!(labelled, answer["gdp"].is_number(), "{answer}");
}

#[test]
fn a_named_accountant_is_used_alone() {
    let answer = epsilon_json(&format!("{RUN} --accountant rdp"));
    assert_eq!(answer["accountant"], "rdp");
    assert_eq!(answer["epsilon"], answer["rdp"]);
    assert_eq!(answer["approximate"], json!([]));
    assert!(answer["lower"].is_null() && answer["pld"].is_null(), "{answer}");
    assert_eq!(
        (keys_of(&answer), &answer["neighbouring"]),
        (KEYS.into(), &json!("add_or_remove_one"))
    );
    let refuses = epsilon_json(&format!("{RUN} --accountant zcdp"));
    assert!(refuses["epsilon"].is_null() && refuses["zcdp"].is_null(), "{refuses}");
    assert!(refuses["why"].as_str().unwrap().contains("zcdp does not support"), "{refuses}");
    assert_eq!(keys_of(&refuses).iter().filter(|key| **key != "why").count(), KEYS.len());
    refused(epsilon_line(&format!("{RUN} --accountant zcdp")), ErrorKind::Accounting, "zcdp");
}

#[test]
fn a_list_of_orders_belongs_to_rdp() {
    let line = "--sampling-rate 0.01 --noise-multiplier 3.5 --steps 10000 --delta 1e-5";
    let answer = epsilon_json(&format!("{line} --orders opacus_default"));
    assert_eq!(answer["accountant"], "rdp");
    assert_close(&answer["epsilon"], 1.205_139, 1e-5);
    let words = epsilon_line(&format!("{line} --orders tf_legacy --accountant rdp")).unwrap();
    assert!(words.contains("tf_legacy (72 orders, 1.25 to 512)"), "{words}");
    for other in ["pld", "gdp", "zcdp", "headline"] {
        let line = format!("{line} --orders tf_legacy --accountant {other}");
        refused(epsilon_line(&line), ErrorKind::Setting, "only the accountant rdp takes");
    }
    for bad in ["no_such_list", "1.0"] {
        assert!(epsilon_line(&format!("{line} --orders {bad}")).is_err());
    }
    let replace = format!("{line} --orders 2,3 --neighbouring replace-one");
    refused(epsilon_line(&replace), ErrorKind::Setting, "add-or-remove");
}

#[test]
fn an_infinite_epsilon_is_null_with_a_reason() {
    let line = "--sampling-rate 0.01 --noise-multiplier 1e-200 --steps 10 --delta 1e-5";
    for accountant in ["headline", "rdp"] {
        let answer = epsilon_json(&format!("{line} --accountant {accountant}"));
        assert!(answer["epsilon"].is_null() && answer["rdp"].is_null(), "{answer}");
        assert!(answer["why"].is_string() && answer["accountant"] == accountant, "{answer}");
    }
}

#[test]
fn bad_numbers_are_errors() {
    for (q, sigma, delta) in [
        ("0", "1", "1e-5"),
        ("1.1", "1", "1e-5"),
        ("NaN", "1", "1e-5"),
        ("0.1", "0", "1e-5"),
        ("0.1", "inf", "1e-5"),
        ("0.1", "1", "0"),
        ("0.1", "1", "1"),
        ("0.1", "1", "NaN"),
    ] {
        for length in ["--steps 10", "--epochs 2", "--epochs 2 --schedule exp:0.1"] {
            let line =
                format!("--sampling-rate {q} --noise-multiplier {sigma} --delta {delta} {length}");
            refused(epsilon_line(&format!("{line} --json")), ErrorKind::Setting, "");
        }
    }
}

#[test]
fn epochs_are_steps_of_one_over_the_rate() {
    let line = "--sampling-rate 0.0042666666666666667 --noise-multiplier 1.1 --delta 1e-5 \
                --accountant rdp";
    let epochs = epsilon_json(&format!("{line} --epochs 15"));
    assert_eq!(epochs, epsilon_json(&format!("{line} --steps 3516")));
    assert_close(&epochs["epsilon"], 1.281_300_02, 1e-4);
}

/// Checks against values for 938 steps in each of 100 epochs: 4.120142 and 1.930276. A run of 100
/// epochs has 93,750 steps, 0.05 % fewer.
#[test]
fn a_schedule_composes_every_step_of_the_run() {
    let line = "--sampling-rate 0.0010666666666666667 --noise-multiplier 1 --delta 1e-5 \
                --accountant rdp";
    for (schedule, expected) in [("linear:0.99", 4.120_142), ("step:0.99:10", 1.930_276)] {
        let epsilon =
            |length: &str| epsilon_json(&format!("{line} --schedule {schedule} {length}"));
        let epochs = epsilon("--epochs 100");
        assert_close(&epochs["epsilon"], expected, 5e-4);
        assert!(epochs["epsilon"].as_f64().unwrap() < expected, "{epochs}");
        assert_eq!(epochs, epsilon("--steps 93750"));
    }
    let words = epsilon_line(&format!("{line} --epochs 100 --schedule linear:0.99")).unwrap();
    assert!(words.contains("93750 steps with Gaussian noise"), "{words}");
    assert!(words.contains("from 1.0000 to 0.6081 (schedule linear:0.99)"), "{words}");
    // The sampler of a plan takes 469 steps, not 8 times ceil(60,000 / 1024) = 472.
    let line = "--sampling-rate 0.017066666666666667 --noise-multiplier 1 --delta 1e-5";
    let words = epsilon_line(&format!("{line} --epochs 8 --schedule exp:0.1")).unwrap();
    assert!(words.contains("469 steps"), "{words}");
}

#[test]
fn a_decay_ends_at_its_ratio_and_a_length_needs_no_whole_epochs() {
    let line = "--sampling-rate 0.02 --noise-multiplier 2 --delta 1e-5 --accountant rdp";
    let words = epsilon_line(&format!("{line} --epochs 2.5 --schedule decay:0.5")).unwrap();
    assert!(words.contains("125 steps") && words.contains("from 2.0000 to 1.0056"), "{words}");
    let decay = epsilon_json(&format!("{line} --steps 125 --schedule decay:0.5"));
    let constant = |noise: &str| {
        let line = line.replace("multiplier 2", &format!("multiplier {noise}"));
        epsilon_json(&format!("{line} --steps 125"))["epsilon"].as_f64().unwrap()
    };
    let epsilon = decay["epsilon"].as_f64().unwrap();
    assert!(constant("2") < epsilon && epsilon < constant("1"), "{decay}");
}

#[test]
fn a_length_that_is_contradictory_or_open_is_refused_with_the_reason() {
    let line = "--sampling-rate 0.01 --noise-multiplier 1 --delta 1e-5";
    for (length, words) in [
        ("", "neither --steps nor --epochs"),
        ("--steps 10 --epochs 1", "may disagree"),
        ("--schedule linear:0.9", "neither --steps nor --epochs"),
        ("--steps 10 --epochs 1 --schedule linear:0.9", "may disagree"),
        ("--steps 0 --schedule linear:0", "above 0"),
        ("--epochs 1e300 --schedule linear:0.9", "steps"),
        ("--epochs 1e9 --schedule linear:0.999999999", "changes more than"),
        ("--epochs 1e9 --schedule linear:0.9", "in epoch"),
        ("--steps 200000 --schedule decay:0.9", "changes more than"),
        ("--epochs 2 --schedule cosine:1", "step:0.99:10"),
        ("--epochs -1", "above 0"),
        ("--epochs NaN", "above 0"),
        ("--epochs 1e30", "steps"),
    ] {
        refused(epsilon_line(&format!("{line} {length}")), ErrorKind::Setting, words);
        refused(sigma_line(&format!("{TARGET} {length}")), ErrorKind::Setting, words);
    }
}

#[test]
fn the_relation_is_shown_beside_the_epsilon() {
    let words = epsilon_line(RUN).unwrap();
    assert!(words.contains("at delta = 1e-5"), "{words}");
    assert!(words.contains("add or remove one training example"), "{words}");
    assert!(words.contains("rdp   epsilon 2.102 (proved at order 7.8)"), "{words}");
    assert!(words.contains("zcdp  refuses: zcdp does not support 1000 steps"), "{words}");
    let words = epsilon_line(&format!("{RUN} --neighbouring zero-out")).unwrap();
    assert!(words.contains("zero out one training example"), "{words}");
    let answer = epsilon_json(&format!("{RUN} --neighbouring zero-out"));
    assert_eq!(answer["neighbouring"], "zero_out_one");
}

#[test]
fn a_curve_falls_with_delta_and_holds_the_epsilon_itself() {
    for accountant in ["headline", "rdp"] {
        let line = format!("{RUN} --accountant {accountant} --curve");
        let answer = epsilon_json(&line);
        let curve = answer["curve"].as_array().unwrap();
        let points: Vec<(f64, f64)> =
            curve.iter().map(|p| (p[0].as_f64().unwrap(), p[1].as_f64().unwrap())).collect();
        assert_eq!((points[0].0, points[points.len() - 1].0), (1e-10, 1e-2));
        assert!(points.windows(2).all(|p| p[0].0 < p[1].0 && p[0].1 > p[1].1), "{points:?}");
        let here = points.iter().find(|(delta, _)| *delta == 1e-5).unwrap().1;
        assert_close(&answer["epsilon"], here, 5e-3);
        let table = epsilon_line(&line).unwrap();
        assert!(table.contains("delta    epsilon") && table.contains("1e-10"), "{table}");
    }
    let refuses = epsilon_json(&format!("{RUN} --accountant zcdp --curve"));
    assert_eq!(refuses["curve"][0], json!([1e-10, null]));
}

#[test]
fn sigma_finds_the_noise_and_epsilon_agrees_with_it() {
    let line = "--epsilon 3 --delta 1e-5 --sampling-rate 0.034133333333333335 --steps 879";
    let found = sigma_json(&format!("{line} --accountant rdp"));
    assert_eq!(
        keys_of(&found),
        ["accountant", "delta", "epsilon", "neighbouring", "noise_multiplier"]
    );
    assert_eq!(found["accountant"], "rdp");
    assert_close(&found["noise_multiplier"], 1.72, 0.006);
    let noise = &found["noise_multiplier"];
    let back = epsilon_json(&format!(
        "--sampling-rate 0.034133333333333335 --steps 879 --delta 1e-5 --noise-multiplier {noise} \
         --accountant rdp"
    ));
    assert_eq!(back["epsilon"], found["epsilon"]);
    assert!((2.999..=3.0).contains(&found["epsilon"].as_f64().unwrap()), "{found}");
    let headline = sigma_json(line);
    assert_eq!(headline["accountant"], "headline");
    let no_more = noise.as_f64().unwrap() * (1.0 + 1e-5);
    assert!(headline["noise_multiplier"].as_f64().unwrap() <= no_more, "{headline}");
    let orders = sigma_json(&format!("{line} --orders 8,9"));
    assert!(orders["accountant"] == "rdp" && orders["noise_multiplier"] != *noise, "{orders}");
}

#[test]
fn sigma_of_a_schedule_is_the_one_it_begins_with() {
    let line = format!("{TARGET} --epochs 20 --accountant rdp");
    let constant = sigma_json(&line)["noise_multiplier"].as_f64().unwrap();
    let found = sigma_json(&format!("{line} --schedule exp:0.05"));
    assert_eq!(found["schedule"], "exp:0.05");
    assert!(found["noise_multiplier"].as_f64().unwrap() > constant, "{found}");
    let words = sigma_line(&format!("{line} --schedule exp:0.05")).unwrap();
    assert!(words.starts_with("initial noise multiplier "), "{words}");
    assert!(words.contains("589 steps with Gaussian noise of that multiplier"), "{words}");
    assert!(words.contains("in the last step (schedule exp:0.05)"), "{words}");
}

#[test]
fn the_noise_multiplier_that_was_found_is_printed_once() {
    for line in ["--steps 879", "--epochs 20 --schedule constant"] {
        let words = sigma_line(&format!("{TARGET} {line} --accountant rdp")).unwrap();
        let found = words.split("noise multiplier ").nth(1).unwrap();
        let found = found.split(' ').next().unwrap();
        assert_eq!(words.matches("noise multiplier").count(), 1, "{words}");
        assert!(words.contains("Gaussian noise of that multiplier"), "{words}");
        // With no other number of digits either.
        assert_eq!(words.matches(&found[..3]).count(), 1, "{words}");
    }
}

#[test]
fn an_invalid_number_of_steps_has_an_error_of_the_lab() {
    for steps in ["-1", "2.5"] {
        let line = format!("epsilon {RUN}").replace("1000", steps);
        let error = EpsilonLine::try_parse_from(line.split_whitespace()).err().unwrap();
        assert!(error.to_string().contains("a whole number, 0 or more"), "{error}");
    }
}

#[test]
fn an_estimate_is_labelled_as_one_and_huge_numbers_are_short() {
    let words = epsilon_line(RUN).unwrap();
    let gdp = words.lines().find(|line| line.starts_with("  gdp")).unwrap();
    assert!(gdp.contains("about 1.6"), "{gdp}");
    assert!(gdp.ends_with("approximate (central limit theorem): may be below or above"), "{gdp}");
    let huge = RUN.replace("multiplier 1", "multiplier 0.15");
    let words = epsilon_line(&format!("{huge} --accountant gdp")).unwrap();
    assert!(words.contains("about 1.002e18 at delta = 1e-5"), "{words}");
}

#[test]
fn an_approximation_sets_no_noise() {
    let line = format!("{TARGET} --steps 1000 --accountant gdp");
    refused(sigma_line(&line), ErrorKind::Accounting, "must not set the noise");
    // A number out of range is an error with every accountant.
    refused(sigma_line(&line.replace("0.034", "2")), ErrorKind::Setting, "sampling_rate = 2");
    refused(sigma_line(&format!("{TARGET} --steps 0")), ErrorKind::Setting, "steps = 0");
}

const GAUSSIAN: &str = r#"{"kind":"gaussian","noise_multiplier":8.0,"count":4}"#;

fn file(text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.json");
    std::fs::write(&path, text).unwrap();
    let line = format!("--event-file {} --delta 1e-5 --accountant rdp", path.display());
    (folder, line)
}

#[test]
fn events_may_come_from_a_file_in_four_forms() {
    let whole = epsilon_json(
        "--sampling-rate 1 --noise-multiplier 8 --steps 4 --delta 1e-5 --accountant rdp",
    );
    let half = GAUSSIAN.replace('4', "2");
    for text in [
        GAUSSIAN.to_string(),
        format!("[{half}, {half}]"),
        format!(r#"{{"events":[{GAUSSIAN}], "delta": 1e-5}}"#),
        format!(r#"{{"kind":"composed","events":[{GAUSSIAN}]}}"#),
        format!(r#"{{"data_sets":[{{"events":[{GAUSSIAN}]}}]}}"#),
    ] {
        let (_folder, line) = file(&text);
        assert_eq!(epsilon_json(&line)["epsilon"], whole["epsilon"], "{text}");
    }
    let (_folder, line) = file("[]");
    assert_eq!(epsilon_json(&line)["epsilon"], 0.0);
    assert!(epsilon_line(&line).unwrap().contains("nothing"));
}

#[test]
fn of_several_data_sets_one_is_chosen_by_its_number() {
    let ledger = format!(
        r#"{{"data_sets":[{{"name":"digits","events":[]}},{{"data_hash":"0123456789abcdef0123456789abcdef","events":[{GAUSSIAN}]}}]}}"#
    );
    let (_folder, line) = file(&ledger);
    let words = "is about 2 data sets: 1 (digits), 2 (0123456789abcdef01234567)";
    refused(epsilon_line(&line), ErrorKind::Setting, words);
    assert_eq!(epsilon_json(&format!("{line} --data-set 1"))["epsilon"], 0.0);
    assert!(epsilon_json(&format!("{line} --data-set 2"))["epsilon"].as_f64().unwrap() > 0.5);
    for number in [0, 3] {
        let line = format!("{line} --data-set {number}");
        refused(epsilon_line(&line), ErrorKind::Setting, "2 (0123");
    }
    let (_folder, line) = file(GAUSSIAN);
    refused(epsilon_line(&format!("{line} --data-set 1")), ErrorKind::Setting, "one data set");
}

#[test]
fn the_relation_of_a_file_holds_unless_the_command_line_contradicts_it() {
    let document = |relation: &str| {
        let event = GAUSSIAN.replace("8.0", "2.0").replace("4}", "1}");
        format!(r#"{{"format":1,"data_sets":[{{{relation}"events":[{event}]}}]}}"#)
    };
    let replace = document(r#""neighbouring":"replace_one","#);
    let (_folder, line) = file(&replace);
    let answer = epsilon_json(&line);
    assert_eq!(answer["neighbouring"], "replace_one");
    let (_plain, plain) = file(&document(""));
    assert_eq!(answer, epsilon_json(&format!("{plain} --neighbouring replace-one")));
    assert!(answer["epsilon"].as_f64() > epsilon_json(&plain)["epsilon"].as_f64());
    assert_eq!(answer, epsilon_json(&format!("{line} --neighbouring replace-one")));
    let other = format!("{line} --neighbouring add-or-remove");
    refused(epsilon_line(&other), ErrorKind::Setting, "the file states \"replace one\"");
    refused(epsilon_line(&format!("{line} --orders 2,3")), ErrorKind::Setting, "add-or-remove");
    // Also beside a list of events and above the data sets.
    for text in [
        format!(r#"{{"neighbouring":"zero_out_one","events":[{GAUSSIAN}]}}"#),
        format!(r#"{{"neighbouring":"zero_out_one","data_sets":[{{"events":[{GAUSSIAN}]}}]}}"#),
    ] {
        let (_folder, line) = file(&text);
        assert_eq!(epsilon_json(&line)["neighbouring"], "zero_out_one");
    }
}

#[test]
fn a_ledger_itself_is_not_an_exported_one() {
    let entry = format!(r#"{{"format":2,"entry":"planned","run":"1","event":{GAUSSIAN}}}"#);
    for text in [format!("{entry}\n"), format!("{entry}\n{entry}\n")] {
        let (_folder, line) = file(&text);
        let error = epsilon_line(&line).unwrap_err().to_string();
        assert!(error.contains("export it first") && error.contains(".export("), "{error}");
    }
}

#[test]
fn a_file_that_holds_no_events_is_refused_with_the_reason() {
    for (text, words) in [
        ("", "not a file of events"),
        ("17", "no list of events"),
        ("{}", "no list of events"),
        (r#"{"data_sets":{}}"#, "not a list"),
        (r#"{"data_sets":[]}"#, "empty"),
        (r#"{"data_sets":[{}]}"#, "no list of events"),
        (r#"[{"kind":"laplace","scale":1.0}]"#, "laplace"),
        (r#"[{"kind":"gaussian","noise_multiplier":1.0}]"#, "event 1"),
        (
            r#"{"kind":"gaussian","noise_multiplier":1.0,"count":1,"sampling_rate":0.1}"#,
            "unknown field `sampling_rate`",
        ),
        (r#"{"format":2,"data_sets":[]}"#, "not format 2"),
        (r#"{"format":"1","events":[]}"#, "not format \"1\""),
        (r#"{"neighbouring":"twins","events":[]}"#, "twins"),
    ] {
        let (_folder, line) = file(text);
        refused(epsilon_line(&line), ErrorKind::CorruptData, words);
    }
    let (_folder, line) = file(&GAUSSIAN.replace("8.0", "-8.0"));
    refused(epsilon_line(&line), ErrorKind::Setting, "noise_multiplier = -8");
    let (_folder, line) = file(r#"{"kind":"unaccountable","why":"raw gradients"}"#);
    assert!(epsilon_json(&line)["why"].as_str().unwrap().contains("raw gradients"));
    let gone = "--event-file /nowhere/events.json --delta 1e-5";
    refused(epsilon_line(gone), ErrorKind::Io, "/nowhere/events.json");
    for no_file in [gone, "--event-file / --delta 1e-5"] {
        refused(epsilon_line(no_file), ErrorKind::Io, "give the path of a JSON file");
    }
    let (_folder, line) = file(GAUSSIAN);
    let both = format!("{line} --sampling-rate 0.1 --steps 3");
    refused(epsilon_line(&both), ErrorKind::Setting, "--event-file with --sampling-rate, --steps");
}
