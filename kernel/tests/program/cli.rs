//! Tests of the command line.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::common::{self, binary, folder, run, scratch, text, turns};

fn lab(args: &[&str]) -> Command {
    let mut command = common::program(scratch());
    command.args(args);
    command
}

fn output(args: &[&str]) -> Output {
    run(scratch(), args)
}

/// Parses stdout, which must be one line of JSON.
#[track_caller]
fn one_line(output: &Output) -> Value {
    let out = text(&output.stdout);
    assert_eq!(out.lines().count(), 1, "{out}{}", text(&output.stderr));
    serde_json::from_str(&out).expect("JSON")
}

/// Asserts exit code 1, one error on stderr that contains `words`, and nothing on stdout.
#[track_caller]
fn refused(args: &[&str], words: &str) {
    let output = output(args);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{args:?}: {err}");
    assert!(err.starts_with("error: ") && err.contains(words), "{args:?}: {err}");
    assert!(!err.contains("panicked"), "{err}");
    assert!(output.stdout.is_empty());
}

fn notebook(folder: &Path, name: &str, metadata: &Value, cells: &[(&str, &[&str])]) -> PathBuf {
    let cells: Vec<Value> = cells
        .iter()
        .map(|(source, tags)| {
            let kind = if source.starts_with('#') { "markdown" } else { "code" };
            json!({"cell_type": kind, "source": source, "metadata": {"tags": tags}})
        })
        .collect();
    let json = json!({"nbformat": 4, "nbformat_minor": 4, "metadata": metadata, "cells": cells});
    let path = folder.join(name);
    std::fs::write(&path, json.to_string()).expect("written");
    path
}

#[test]
fn epsilon_and_sigma_print_one_line_of_json() {
    let epsilon = output(&[
        "epsilon",
        "--sampling-rate",
        "0.01",
        "--noise-multiplier",
        "1.1",
        "--steps",
        "10000",
        "--delta",
        "1e-5",
        "--json",
    ]);
    let json = one_line(&epsilon);
    assert!(epsilon.status.success());
    let value = json["epsilon"].as_f64().expect("a number");
    assert!((5.0..7.0).contains(&value), "{json}");
    assert_eq!(json["delta"], 1e-5);
    assert!(value <= json["rdp"].as_f64().expect("a number"), "{json}");

    let sigma = output(&[
        "sigma",
        "--epsilon",
        "3",
        "--delta",
        "1e-5",
        "--sampling-rate",
        "0.01",
        "--steps",
        "1000",
        "--json",
    ]);
    let json = one_line(&sigma);
    assert!(json["noise_multiplier"].as_f64().expect("a number") > 0.5, "{json}");
    assert!(json["epsilon"].as_f64().expect("a number") <= 3.0, "{json}");
    assert_eq!(json["accountant"], "headline");
}

#[test]
fn accountants_schedules_and_files_of_events_are_reached_from_the_command_line() {
    let run = ["--sampling-rate", "0.01", "--noise-multiplier", "1", "--delta", "1e-5"];
    let epsilon = |more: &[&'static str]| [&["epsilon"], &run[..], more].concat();
    let rdp = one_line(&output(&epsilon(&["--steps", "1000", "--accountant", "rdp", "--json"])));
    assert!((rdp["epsilon"].as_f64().expect("a number") - 2.1014).abs() < 1e-3, "{rdp}");
    let falling = ["--epochs", "10", "--schedule", "linear:0.9", "--curve", "--json"];
    let falling = one_line(&output(&epsilon(&falling)));
    assert!(falling["epsilon"].as_f64() > rdp["epsilon"].as_f64(), "{falling}");
    assert_eq!(falling["curve"][0][0], 1e-10);
    let decay = ["--steps", "9", "--schedule", "decay:0.5", "--json"];
    assert!(one_line(&output(&epsilon(&decay)))["epsilon"].as_f64() > Some(0.0));
    refused(&epsilon(&["--schedule", "linear:0.9"]), "neither --steps nor --epochs");
    assert_eq!(output(&epsilon(&["--steps", "9", "--accountant", "mine"])).status.code(), Some(2));

    let folder = folder();
    let path = folder.path().join("ledger.json");
    let event = json!({"kind": "gaussian", "noise_multiplier": 8.0, "count": 1});
    let ledger = json!({"data_sets": [{"name": "a", "events": [event]}, {"events": []}]});
    std::fs::write(&path, ledger.to_string()).expect("written");
    let path = path.to_string_lossy();
    let from_file = ["epsilon", "--event-file", &path, "--delta", "1e-5", "--json"];
    refused(&from_file, "1 (a), 2");
    let first = one_line(&output(&[&from_file[..], &["--data-set", "1"]].concat()));
    assert!((0.3..0.7).contains(&first["epsilon"].as_f64().expect("a number")), "{first}");
}

#[test]
fn a_bundle_for_an_older_glibc_names_what_links_it() {
    let dir = folder();
    let bundle = lab(&["bundle", "--glibc", "2.5"]).arg(dir.path()).env("PATH", "").output();
    let bundle = bundle.expect("the program starts");
    let err = text(&bundle.stderr);
    assert_eq!(bundle.status.code(), Some(1), "{err}");
    assert!(err.contains("pip install cargo-zigbuild"), "{err}");
    let wrong = output(&["bundle", "--glibc", "new", "x"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("two numbers"), "{}", text(&wrong.stderr));
}

#[test]
fn numbers_out_of_range_are_errors_and_wrong_usage_exits_with_2() {
    let good = ["0.01", "1.1", "100", "1e-5"];
    for (at, bad) in [(0, "1.5"), (0, "0"), (1, "-1"), (3, "0"), (3, "1"), (3, "NaN")] {
        let mut values = good;
        values[at] = bad;
        let [rate, noise, steps, delta] = values;
        refused(
            &[
                "epsilon",
                "--sampling-rate",
                rate,
                "--noise-multiplier",
                noise,
                "--steps",
                steps,
                "--delta",
                delta,
                "--json",
            ],
            bad.trim_start_matches('-'),
        );
    }
    for usage in [&["epsilon"][..], &["fly"], &["run"], &["run", "a.ipynb", "--profile", "huge"]] {
        assert_eq!(output(usage).status.code(), Some(2), "{usage:?}");
    }
    assert!(output(&["--help"]).status.success());
}

#[test]
fn notebooks_that_cannot_be_run_are_refused_with_the_reason() {
    let _turn = turns(1);
    let folder = folder();
    let at = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    refused(&["run", &at("gone.ipynb")], "no notebook");
    refused(&["run", &at("")], "is a folder");
    std::fs::write(at("text.ipynb"), "not json").expect("written");
    refused(&["run", &at("text.ipynb")], "not JSON");
    std::fs::write(at("old.ipynb"), "{\"nbformat\": 3, \"worksheets\": []}").expect("written");
    refused(&["run", &at("old.ipynb")], "format 3");
    let path = notebook(folder.path(), "fine.ipynb", &json!({}), &[("1 + 1", &[])]);
    let run = lab(&["run", &path.to_string_lossy()]).env("EPSILAB_PROFILE", "tyni").output();
    let run = run.expect("the program starts");
    let err = text(&run.stderr);
    assert!(run.status.code() == Some(1) && err.contains("tyni") && err.contains("tiny"), "{err}");
    let python = json!({"kernelspec": {"name": "python3", "language": "python"}});
    let path = notebook(folder.path(), "python.ipynb", &python, &[("1 + 1", &[])]);
    refused(&["run", &path.to_string_lossy()], "python3");
    let path = notebook(folder.path(), "own.ipynb", &json!({}), &[("1 + 1", &[])]);
    let own_folder = folder.path().to_string_lossy();
    refused(&["run", &path.to_string_lossy(), "--out", &own_folder], "over its source");
    refused(&["run", &path.to_string_lossy(), "--params", "epochs=3"], "tag `parameters`");
    refused(&["run", &path.to_string_lossy(), &path.to_string_lossy()], "would be written to");
    refused(&["run", &path.to_string_lossy(), "--compare"], "no outputs saved with --inplace");
    let unchanged = std::fs::read_to_string(&path).expect("still there");
    assert!(unchanged.contains("1 + 1"));
}

#[test]
fn a_kernelspec_is_installed_listed_and_removed() {
    let _turn = turns(1);
    let folder = folder();
    let prefix = folder.path().to_string_lossy();
    for name in ["a b", "../up", "rust"] {
        refused(&["install", "--prefix", &prefix, "--name", name], "--name");
    }
    let install = output(&["install", "--prefix", &prefix, "--name", "Epsilab-Test"]);
    assert!(install.status.success(), "{}", text(&install.stderr));
    let dir = folder.path().join("share/jupyter/kernels/epsilab-test");
    let spec = std::fs::read_to_string(dir.join("kernel.json")).expect("kernel.json");
    let spec: Value = serde_json::from_str(&spec).expect("JSON");
    let named = Path::new(spec["argv"][0].as_str().expect("a path"));
    assert_eq!(named.canonicalize().expect("there"), binary().canonicalize().expect("there"));
    assert_eq!(spec["interrupt_mode"], "message");
    assert_eq!(spec["language"], "rust");

    let listed = one_line(&output(&["list", "--json", "--prefix", &prefix]));
    let ours = listed.as_array().into_iter().flatten().find(|s| s["name"] == "epsilab-test");
    assert_eq!(ours.expect("listed")["binary_exists"], true);

    let foreign = folder.path().join("share/jupyter/kernels/stranger");
    std::fs::create_dir_all(&foreign).expect("made");
    std::fs::write(foreign.join("kernel.json"), "{\"argv\": [\"x\"]}").expect("written");
    refused(&["uninstall", "--prefix", &prefix, "--name", "stranger"], "not a kernel of Epsilab");
    refused(&["install", "--prefix", &prefix, "--name", "stranger"], "another kernel");
    assert!(foreign.join("kernel.json").is_file());

    let remove = output(&["uninstall", "--prefix", &prefix, "--name", "epsilab-test"]);
    assert!(remove.status.success() && !dir.exists(), "{}", text(&remove.stderr));
    refused(&["uninstall", "--prefix", &prefix, "--name", "epsilab-test"], "nothing to remove");
}

#[test]
fn doctor_reports_a_broken_kernelspec() {
    let doctor = output(&["doctor", "--json"]);
    let report = one_line(&doctor);
    for key in ["toolchain", "rust_src", "lab", "kernelspecs", "jupyter", "data", "devices"] {
        let status = report[key]["status"].as_str().unwrap_or_default();
        assert!(["ok", "note", "action"].contains(&status), "{key}: {report}");
    }
    assert_eq!(report["ok"], doctor.status.success());

    let folder = folder();
    let dir = folder.path().join("kernels/broken");
    std::fs::create_dir_all(&dir).expect("made");
    let spec = json!({"argv": ["/gone/epsilab"], "metadata": {"epsilab": {"version": "0.0.1"}}});
    std::fs::write(dir.join("kernel.json"), spec.to_string()).expect("written");
    let broken = lab(&["doctor", "--json"]).env("JUPYTER_PATH", folder.path()).output();
    let broken = broken.expect("the program starts");
    assert_eq!(broken.status.code(), Some(1));
    assert_eq!(one_line(&broken)["kernelspecs"]["status"], "action");
}

/// A folder whose file system does not allow programs, if this machine has one.
fn without_programs() -> Option<String> {
    let mounts = std::fs::read_to_string("/proc/mounts").ok()?;
    let folders = mounts.lines().filter_map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        words.get(3)?.split(',').any(|option| option == "noexec").then(|| words[1].to_owned())
    });
    folders.into_iter().find(|folder| Path::new(folder).is_dir())
}

#[test]
fn doctor_reports_a_temporary_folder_that_forbids_execution() {
    let Some(folder) = without_programs() else {
        println!("skipped: no file system of this machine forbids programs");
        return;
    };
    let doctor = lab(&["doctor", "--json"]).env("TMPDIR", &folder).output().expect("started");
    let check = one_line(&doctor)["temporary"].clone();
    let what = check["what"].as_str().unwrap_or_default();
    assert_eq!((doctor.status.code(), &check["status"]), (Some(1), &json!("action")), "{check}");
    assert!(what.contains("noexec") && what.contains("set TMPDIR"), "{check}");
}

#[test]
fn notebooks_run_headless_and_report_the_failing_cell() {
    let _turn = turns(1);
    let folder = folder();
    let out = folder.path().join("out");
    let good = notebook(
        folder.path(),
        "good.ipynb",
        &json!({}),
        &[
            ("# A title", &[]),
            ("let x = 1 + 1;\nx", &[]),
            ("let wrong: i32 = \"text\";", &["raises-exception"]),
            ("println!(\"x is {x}, {}\", std::env::var(\"EPSILAB_PROFILE\").unwrap());", &[]),
        ],
    );
    let run = lab(&["run", "good.ipynb", "--profile", "tiny", "--out", "out"])
        .current_dir(folder.path())
        .output()
        .expect("the program starts");
    assert!(run.status.success(), "{}", text(&run.stderr));
    assert!(text(&run.stderr).contains("[3/3]"), "{}", text(&run.stderr));
    let first = text(&run.stderr).lines().next().unwrap_or_default().to_owned();
    assert!(first.starts_with("profile: tiny, device: "), "{first}");
    let missing = lab(&["run", "good.ipynb", "--device", "cuda:4711"])
        .current_dir(folder.path())
        .output()
        .expect("the program starts");
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("cuda:4711 can't be used"), "{}", text(&missing.stderr));
    let executed = std::fs::read_to_string(out.join("good.ipynb")).expect("written");
    let executed: Value = serde_json::from_str(&executed).expect("JSON");
    assert_eq!(executed["nbformat_minor"], 5);
    assert_eq!(executed["metadata"]["kernelspec"]["name"], "epsilab");
    let cells = &executed["cells"];
    assert_eq!(cells[1]["outputs"][0]["data"]["text/plain"], json!(["2"]));
    assert!(cells[1]["execution_count"].is_u64());
    assert_eq!(cells[2]["outputs"][0]["output_type"], "error");
    assert_eq!(cells[3]["outputs"][0]["text"], json!(["x is 2, tiny\n"]));
    let page = std::fs::read_to_string(out.join("good.html")).expect("written");
    assert!(page.contains("<title>A title</title>") && page.contains("x is 2, tiny"));
    assert!(!std::fs::read_to_string(&good).expect("the source").contains("x is 2, tiny\\n"));

    let bad = notebook(
        folder.path(),
        "bad.ipynb",
        &json!({}),
        &[
            ("println!(\"before\");", &[]),
            ("let y = unknown_name;", &[]),
            ("println!(\"after\");", &[]),
        ],
    );
    let run = output(&["run", &bad.to_string_lossy()]);
    let err = text(&run.stderr);
    assert_eq!(run.status.code(), Some(1), "{err}");
    assert!(err.contains("error: code cell 2 of 3 failed"), "{err}");
    assert!(err.contains("    let y = unknown_name;"), "{err}");
    assert!(err.contains("cannot find value `unknown_name`"), "{err}");
    let executed = std::fs::read_to_string(folder.path().join("bad.executed.ipynb"));
    let executed: Value = serde_json::from_str(&executed.expect("written")).expect("JSON");
    assert_eq!(executed["cells"][0]["outputs"][0]["text"], json!(["before\n"]));
    assert_eq!(executed["cells"][1]["outputs"][0]["output_type"], "error");
    assert_eq!(executed["cells"][2]["outputs"], json!([]));
    assert!(folder.path().join("bad.html").is_file());
}

#[test]
#[ignore = "takes 23 s; .ci/full runs it"]
fn parameters_reach_every_notebook_and_a_failure_does_not_stop_the_others() {
    let _turn = turns(1);
    let folder = folder();
    let defaults = "let epochs: usize = 5;\nlet data = \"glyphs\";\nlet rates = vec![0.5];";
    let shown = "println!(\"{epochs} {data} {rates:?}\");\nassert!(epochs < 4);";
    let cells = [(defaults, &["parameters"][..]), (shown, &[])];
    let none = json!({});
    notebook(folder.path(), "a.ipynb", &none, &[cells[0], ("assert!(epochs > 4);", &[])]);
    notebook(folder.path(), "b.ipynb", &none, &cells);
    let run = lab(&["run", "a.ipynb", "b.ipynb", "--no-html", "--out", "out"])
        .args(["-p", "epochs=3", "-p", "data=mnist", "-p", "rates=[0.1, 2]"])
        .current_dir(folder.path())
        .output()
        .expect("the program starts");
    let err = text(&run.stderr);
    assert_eq!(run.status.code(), Some(1), "{err}");
    assert!(err.contains("1 of 2 notebooks succeeded"), "{err}");
    assert!(err.contains("failed: a.ipynb (code cell 3)"), "{err}");
    let executed = std::fs::read_to_string(folder.path().join("out/b.ipynb")).expect("written");
    let executed: Value = serde_json::from_str(&executed).expect("JSON");
    let inserted = &executed["cells"][1];
    assert_eq!(inserted["metadata"]["tags"], json!(["injected-parameters"]));
    assert_eq!(executed["cells"][2]["outputs"][0]["text"], json!(["3 mnist [0.1, 2.0]\n"]));
    assert!(!folder.path().join("out/b.html").exists());
}

#[test]
#[ignore = "takes 35 s; .ci/full runs it"]
fn saved_outputs_are_small_and_compared_with_a_fresh_run() {
    let _turn = turns(1);
    let folder = folder();
    let cells: [(&str, &[&str]); 4] = [
        ("# Prose", &[]),
        ("use epsilab::prelude::*;", &[]),
        ("figures::epsilon_vs_delta(&[Event::poisson(0.01, 1.0, 100)])?", &[]),
        ("println!(\"at {:?}\", std::time::SystemTime::now());", &["ignore-output"]),
    ];
    let path = notebook(folder.path(), "saved.ipynb", &json!({}), &cells);
    let ran = |options: &[&str]| {
        let mut args = vec!["run".to_owned(), path.to_string_lossy().into_owned()];
        args.extend(options.iter().map(|option| (*option).to_owned()));
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let run = output(&args);
        (run.status.code(), text(&run.stderr))
    };
    let (code, err) = ran(&["--inplace", "--profile", "tiny"]);
    assert!(code == Some(0) && err.contains("wrote") && !err.contains(".html"), "{err}");
    let saved = std::fs::read_to_string(&path).expect("saved");
    let json: Value = serde_json::from_str(&saved).expect("JSON");
    let data = json["cells"][2]["outputs"][0]["data"].as_object().expect("a figure");
    let forms: Vec<&String> = data.keys().collect();
    assert_eq!(forms, ["image/png", "text/plain"]);
    assert!(json["cells"][0].get("outputs").is_none());
    let (code, err) = ran(&["--compare", "--profile", "tiny"]);
    assert!(code == Some(0) && err.contains("are the saved ones"), "{err}");
    let (code, err) = ran(&["--compare", "--profile", "default"]);
    assert!(code == Some(0) && err.contains("of the profile tiny"), "{err}");
    assert_eq!(std::fs::read_to_string(&path).expect("there"), saved, "comparing writes nothing");
    std::fs::write(&path, saved.replace("accountant", "accuser")).expect("written");
    let (code, err) = ran(&["--compare", "--profile", "tiny"]);
    assert!(
        code == Some(1) && err.contains("cell 2 (figures::") && err.contains("accuser"),
        "{err}"
    );
    // A cell that fails leaves the saved outputs alone.
    let broken = saved.replace("Event::poisson(0.01,", "Event::poison(0.01,");
    std::fs::write(&path, &broken).expect("written");
    let (code, err) = ran(&["--inplace", "--profile", "tiny"]);
    assert!(code == Some(1) && err.contains("is unchanged"), "{err}");
    assert_eq!(std::fs::read_to_string(&path).expect("there"), broken);
}

#[test]
fn results_of_an_earlier_run_survive_a_stop_before_the_first_cell() {
    let _turn = turns(1);
    let folder = folder();
    let path = notebook(folder.path(), "early.ipynb", &json!({}), &[("1 + 1", &[])]);
    let before = ["early.executed.ipynb", "early.html"].map(|name| folder.path().join(name));
    for path in &before {
        std::fs::write(path, "good results").expect("written");
    }
    let mut run = lab(&["run", &path.to_string_lossy()]);
    let mut run = run.stderr(Stdio::piped()).spawn().expect("the program starts");
    let (mut output, mut stderr) = (Vec::new(), run.stderr.take().expect("piped"));
    while !text(&output).contains("starting the kernel") {
        let mut byte = [0];
        assert_eq!(stderr.read(&mut byte).expect("read"), 1, "{}", text(&output));
        output.extend_from_slice(&byte);
    }
    // SAFETY: a signal to a child of this process.
    unsafe { libc::kill(run.id().cast_signed(), libc::SIGINT) };
    stderr.read_to_end(&mut output).expect("read");
    assert_eq!(run.wait().expect("it ended").code(), Some(130), "{}", text(&output));
    assert!(text(&output).contains("nothing was written"), "{}", text(&output));
    for path in &before {
        assert_eq!(std::fs::read_to_string(path).expect("there"), "good results");
    }
}
