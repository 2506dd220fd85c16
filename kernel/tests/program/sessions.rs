//! Long sessions, with errors, panics, interrupts and crashes in them, and several at once.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::common::processes::{family, memory, state};
use crate::common::{Client, Ran, Start, folder, program, text, turns, wait_until};

/// Memory that the session may grow by, in MiB.
const GROWTH: f64 = 100.0;

/// Cells of each kind.
#[test]
#[ignore = "takes 26 s; .ci/full runs it"]
fn a_session_grows_little_and_replies_to_every_cell_once() {
    a_session(24, 4);
}

/// `EPSILAB_SOAK` sets another number of cells.
#[test]
#[ignore = "takes 400 s; .ci/full runs it"]
fn a_long_session_grows_little_and_replies_to_every_cell_once() {
    let cells = std::env::var("EPSILAB_SOAK").ok().and_then(|n| n.parse().ok()).unwrap_or(500);
    a_session(cells, 50);
}

/// One of 100 cells, with the number `crash`, ends its process.
fn a_session(cells: u32, crash: u32) {
    let mut kernel = Client::start(Start::default());
    kernel.run_ok("use epsilab::prelude::*; let mut n = 0_u64;");
    let mut before = 0.0;
    for i in 1..=cells {
        if i == cells.min(80) / 4 {
            before = memory(&family(kernel.child.id()));
        }
        match i {
            // For 500 cells: 5 crashes, 20 interrupts, 20 panics, 50 errors.
            _ if i % 100 == crash => {
                let ran = kernel.run("std::process::abort();");
                fails(&ran, "Crash");
                kernel.run_ok("let mut n = 0_u64;");
            }
            _ if i % 25 == 3 => {
                let id = kernel.send("println!(\"runs\"); n = 5; loop { n += 1; }");
                let mut outputs = kernel.listen(&id, |kind, _| kind == "stream");
                kernel.control("interrupt_request", json!({}));
                let mut ran = kernel.finish(&id);
                outputs.append(&mut ran.outputs);
                ran.outputs = outputs;
                fails(&ran, "Interrupted");
                assert_eq!(kernel.run_ok("n >= 5").result(), "true");
            }
            _ if i % 25 == 7 => fails(&kernel.run("let v = vec![n]; v[3]"), "Panic"),
            _ if i % 20 == 11 => fails(&kernel.run("let wrong: u8 = \"text\";"), "CompileError"),
            _ if i % 20 == 1 => fails(&kernel.run("Err::<(), String>(\"no\".into())?;"), "Error"),
            _ if i % 10 == 5 => {
                let ran = kernel.run_ok("figures::trade_off(&[Event::gaussian(1.0)])?.show();");
                assert_eq!(ran.of("display_data").count(), 1);
                answers_once(&ran);
            }
            _ => {
                let ran = kernel.run_ok(&format!("println!(\"{{n}}\"); let c{i} = {i}; c{i} + 1"));
                assert_eq!(ran.result(), (i + 1).to_string());
                answers_once(&ran);
            }
        }
    }
    let after = memory(&family(kernel.child.id()));
    eprintln!("{cells} cells: {before:.0} MiB, then {after:.0} MiB");
    assert!(after - before < GROWTH, "{before} MiB, then {after} MiB");
    let is_zombie = |process: &u32| state(*process) == Some('Z');
    wait_until("no zombies", || !family(kernel.child.id()).iter().any(is_zombie));
    kernel.shut_down();
}

#[test]
#[ignore = "takes 27 s; .ci/full runs it"]
fn two_kernels_and_a_run_do_not_disturb_one_another() {
    let _turns = turns(2);
    let folder = folder();
    let home = folder.path().join("home");
    std::fs::create_dir(&home).expect("made");
    let cell = |name: &str| {
        format!(
            "let own = \"{name}\";\nfor i in 0..20 {{ println!(\"{{own}} {{i}}\"); \
             std::thread::sleep(std::time::Duration::from_millis(20)); }}\n\
             epsilab::show::MimeBundle::text(format!(\"shown by {{own}}\")).show();\nown"
        )
    };
    let lines = |name: &str| (0..20).map(|i| format!("{name} {i}\n")).collect::<String>();
    let notebook = json!({
        "nbformat": 4, "nbformat_minor": 5, "metadata": {},
        "cells": [{"cell_type": "code", "id": "a", "metadata": {}, "outputs": [],
                   "execution_count": null, "source": cell("run")}],
    });
    let path = folder.path().join("a.ipynb");
    std::fs::write(&path, notebook.to_string()).expect("written");
    let mut run = program(&home);
    run.arg("run").arg(&path).args(["--no-html", "--profile", "tiny"]);
    let run = run.stderr(Stdio::piped()).spawn().expect("the program starts");
    std::thread::scope(|scope| {
        for name in ["first", "second"] {
            let env = vec![("EPSILAB_HOME", home.display().to_string())];
            let cwd = Some(folder.path().to_owned());
            let code = cell(name);
            scope.spawn(move || {
                let mut kernel = Client::start_beside(Start { env, cwd, ..Start::default() });
                for _ in 0..3 {
                    let ran = kernel.run_ok(&code);
                    assert_eq!(ran.stream("stdout"), lines(name));
                    assert_eq!(ran.result(), format!("{name:?}"));
                    let shown: Vec<_> = ran.of("display_data").collect();
                    assert_eq!(shown[0]["data"]["text/plain"], format!("shown by {name}"));
                    assert_eq!(shown.len(), 1);
                }
                assert_eq!(kernel.run_ok("own").result(), format!("{name:?}"));
                kernel.shut_down();
            });
        }
    });
    let run = run.wait_with_output().expect("it ended");
    assert!(run.status.success(), "{}", text(&run.stderr));
    let executed = std::fs::read_to_string(path.with_extension("executed.ipynb"));
    let executed: Value = serde_json::from_str(&executed.expect("written")).expect("JSON");
    let printed: String = executed["cells"][0]["outputs"][0]["text"]
        .as_array()
        .expect("lines")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(printed, lines("run"));
}

#[track_caller]
fn fails(ran: &Ran, name: &str) {
    assert_eq!(ran.error().0, name, "{:#}", ran.reply);
    assert_eq!(ran.of("error").count(), 1, "{:?}", ran.outputs);
    answers_once(ran);
}

/// One `busy` at the beginning, one `idle` at the end.
#[track_caller]
fn answers_once(ran: &Ran) {
    let states: Vec<&Value> = ran.of("status").map(|content| &content["execution_state"]).collect();
    assert_eq!(states, [&json!("busy"), &json!("idle")], "{:?}", ran.outputs);
    let kinds = |at: Option<&(String, Value)>| at.map(|(kind, _)| kind.clone());
    assert_eq!(kinds(ran.outputs.first()).as_deref(), Some("status"));
    assert_eq!(kinds(ran.outputs.last()).as_deref(), Some("status"));
}
