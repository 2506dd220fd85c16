//! Tests of the kernel over its sockets, with the real binary and real cells.

use std::time::Duration;

use serde_json::json;

use crate::common::processes::{self, memory};
use crate::common::{
    Client, Gate, Ran, Start, connection, folder, message, program, scratch, session, turns,
    wait_for, wait_until,
};

/// A client of the side channel for cells that do not use the library.
const SHOW: &str = r#"
use std::io::{BufRead, BufReader, Write};
fn show(lines: &[&str]) -> Vec<String> {
    let path = std::env::var("EPSILAB_DISPLAY").expect("the kernel sets it");
    let mut stream = std::os::unix::net::UnixStream::connect(path).expect("connected");
    let mut answers = BufReader::new(stream.try_clone().expect("cloned"));
    let mut answer = |line: &str| {
        writeln!(stream, "{line}").expect("sent");
        let mut text = String::new();
        answers.read_line(&mut text).expect("answered");
        text
    };
    lines.iter().map(|line| answer(line)).collect()
}
"#;

/// Variables of the cells of some tests.
const TENSOR: &str = "use epsilab::burn::tensor::{Device, Tensor};\n\
    let device = Device::default().autodiff();\n\
    let tensor_a = Tensor::<1>::from_floats([1.0, 2.0], &device).require_grad();";

#[test]
fn one_session_from_start_to_shutdown() {
    let mut kernel = Client::start(Start::default());
    cells_share_the_library(&mut kernel);
    missing_variables_and_burn_are_explained(&mut kernel);
    for i in 0..3 {
        kernel.run_ok(&format!("let n{i} = tensor_a.clone() * {i}.0;"));
    }
    let kernel_mb = memory(&[kernel.child.id()]);
    assert!(kernel_mb > 0.0 && kernel_mb < 1000.0, "the kernel uses {kernel_mb} MiB");

    // A cell that waits for input ends with the kernel: that is no answer.
    let file = tempfile::NamedTempFile::new().expect("a file");
    let code = super::cells::removes_after_asking(file.path());
    let id = kernel.send_with(&code, json!({ "allow_stdin": true }));
    assert_eq!(kernel.question(), id);
    let cell_processes = processes::children(kernel.child.id());
    kernel.shut_down();
    wait_until("the end of the cell process", || {
        !cell_processes.iter().any(|id| processes::is_alive(*id))
    });
    assert!(file.path().exists());
}

fn cells_share_the_library(kernel: &mut Client) {
    let first = kernel.run_ok(TENSOR);
    assert_eq!(first.reply["execution_count"], 1);
    kernel.run_ok("let tensor_b = Tensor::<1>::from_floats([3.0, 4.0], &device).require_grad();");
    // With a copy of the library in each cell, both gradients come out as [2, 4].
    let ran = kernel.run_ok(
        "let grads = (tensor_a.clone() * tensor_b.clone()).sum().backward();\n\
         println!(\"da={} db={}\", tensor_a.grad(&grads).unwrap().to_data(),\n\
                  tensor_b.grad(&grads).unwrap().to_data());",
    );
    let text = ran.stream("stdout").replace(' ', "");
    assert!(text.contains("da=[3.0,4.0]") && text.contains("db=[1.0,2.0]"), "{text}");
}

#[test]
fn counting_and_silence() {
    let kernel = &mut session();
    let count = kernel.run_ok("1 + 1").reply["execution_count"].as_u64().expect("a count");
    let id = kernel.send_with("println!(\"quiet\"); 5", json!({ "silent": true }));
    let silent = kernel.finish(&id);
    assert!(silent.ok());
    assert!(silent.outputs.iter().all(|(kind, _)| kind == "status"), "{:?}", silent.outputs);
    let id = kernel.send_with("6", json!({ "store_history": false }));
    assert_eq!(kernel.finish(&id).reply["execution_count"], count);
    let ran = kernel.run_ok("println!(\"said\")");
    assert_eq!((ran.stream("stdout").as_str(), ran.of("execute_result").count()), ("said\n", 0));
    let count = count + 1;
    let ran = kernel.run_ok("2 + 40");
    assert_eq!((ran.result().as_str(), &ran.reply["execution_count"]), ("42", &json!(count + 1)));
    let kinds: Vec<_> = ran.outputs.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["status", "execute_input", "execute_result", "status"]);
}

#[test]
fn failures_are_reported() {
    let kernel = &mut session();
    kernel.run_ok("let kept = String::from(\"alive\");");
    kernel.run_ok(TENSOR);

    let (name, value, traceback) = kernel.run("let x: i32 = \"äöü\";\nlet y = 1;").error();
    assert_eq!((name.as_str(), value.as_str()), ("CompileError", "mismatched types"));
    assert!(traceback.contains("line 1") && traceback.contains("^^^^^"), "{traceback}");

    let ran = kernel.run("println!(\"before\");\nlet v: Vec<u8> = Vec::new();\nv[3]");
    let (name, value, traceback) = ran.error();
    assert_eq!(name, "Panic");
    assert!(value.contains("index out of bounds"), "{value}");
    assert!(!traceback.contains("src/lib.rs"), "{traceback}");
    assert_eq!((ran.stream("stdout").as_str(), ran.stream("stderr").as_str()), ("before\n", ""));

    let (name, value, traceback) = kernel.run("let t = tensor_a.clone().reshape([3, 5]);").error();
    assert_eq!(name, "Panic", "{value} {traceback}");

    let ran = kernel.run(
        "eprintln!(\"early\"); std::thread::sleep(std::time::Duration::from_millis(120));\n\
         Err(epsilab::Error::setting(\"epsilon\", 0, \"it must be positive\").fix(\"raise it\"))?;",
    );
    let (name, value, traceback) = ran.error();
    assert_eq!((name.as_str(), value.as_str()), ("Error", "epsilon = 0: it must be positive"));
    assert!(traceback.contains("what to do: raise it"), "{traceback}");
    assert_eq!(ran.stream("stderr"), "early\n");
    assert_eq!(ran.of("error").count(), 1);

    // The error has its text however long the cell takes to end.
    let ran = kernel.run(
        "struct Slow;\nimpl Drop for Slow { fn drop(&mut self) {\n\
         std::thread::sleep(std::time::Duration::from_millis(900)); println!(\"dropped\"); } }\n\
         let slow = Slow; Err(\"why\".to_owned())?;",
    );
    assert_eq!(ran.error().1, "why");
    assert_eq!((ran.stream("stdout").as_str(), ran.stream("stderr").as_str()), ("dropped\n", ""));

    // A panic that the cell catches is not a failure.
    let ran = kernel.run_ok(
        "let caught = std::thread::spawn(|| -> u8 { panic!(\"elsewhere\") }).join().is_err(); caught",
    );
    assert_eq!(ran.result(), "true");
    assert!(ran.stream("stderr").contains("elsewhere"));

    let (name, value, _) = kernel.run(":toolchain nightly").error();
    assert!(name == "CompileError" && value.contains("not for this kernel"), "{value}");
    let (name, value, _) = kernel.run("let f = |x: i32| x;").error();
    assert!(name == "CompileError" && value.contains("closure"), "{value}");
    assert_eq!(kernel.run_ok("kept").result(), "\"alive\"");
}

#[test]
fn printed_text_is_published() {
    let kernel = &mut session();
    let ran = kernel.run_ok(
        "use std::io::Write as _;\nprint!(\"no end\"); std::io::stdout().flush().unwrap();",
    );
    assert_eq!(ran.stream("stdout"), "no end");
    let ran = kernel.run_ok("print!(\"not even flushed\");");
    assert_eq!(ran.stream("stdout"), "not even flushed");
    let ran = kernel.run_ok("for i in 0..20000 { println!(\"line {i}\"); } eprint!(\"err\");");
    assert_eq!(ran.stream("stdout").lines().count(), 20000);
    assert!(ran.stream("stdout").ends_with("line 19999\n"));
    assert_eq!(ran.stream("stderr"), "err");
    let ran = kernel.run_ok("std::io::stdout().write_all(b\"\\xff\\n\").unwrap();");
    assert_eq!(ran.stream("stdout"), "\u{fffd}\n");
    let ran = kernel.run_ok("std::io::stderr().write_all(b\"a\\xffb\\n\").unwrap();");
    assert_eq!(ran.stream("stderr"), "a\u{fffd}b\n");
    assert_eq!(kernel.run_ok("eprintln!(\"still heard\");").stream("stderr"), "still heard\n");
}

/// Kind and text of each output, in order. Messages of one stream in a row are joined.
fn output_sequence(ran: &Ran) -> Vec<(String, String)> {
    let mut sequence: Vec<(String, String)> = Vec::new();
    for (kind, content) in &ran.outputs {
        let (kind, text) = match kind.as_str() {
            "stream" => (content["name"].as_str(), content["text"].as_str()),
            "display_data" | "execute_result" => {
                (Some("shown"), content["data"]["text/plain"].as_str())
            }
            _ => continue,
        };
        let (kind, text) = (kind.unwrap_or_default(), text.unwrap_or_default());
        match sequence.last_mut() {
            Some((last, collected)) if last == kind && kind != "shown" => collected.push_str(text),
            _ => sequence.push((kind.into(), text.into())),
        }
    }
    sequence
}

#[test]
fn output_keeps_the_order_of_the_program() {
    let kernel = &mut session();
    let check_sequence = |kernel: &mut Client, code: &str| -> Vec<(String, String)> {
        output_sequence(&kernel.run_ok(code))
    };
    let expected = |pieces: &[(&str, &str)]| -> Vec<(String, String)> {
        pieces.iter().map(|(kind, text)| ((*kind).to_owned(), (*text).to_owned())).collect()
    };
    for _ in 0..3 {
        assert_eq!(
            check_sequence(
                kernel,
                "println!(\"first\"); epsilab::lab::ledger()?.show(); println!(\"last\"); 7"
            )
            .iter()
            .map(|(kind, _)| kind.as_str())
            .collect::<Vec<_>>(),
            ["stdout", "shown", "stdout", "shown"]
        );
        assert_eq!(
            check_sequence(
                kernel,
                "println!(\"1\"); eprintln!(\"2\"); print!(\"3\"); eprint!(\"4\"); println!(\"5\"); 6"
            ),
            expected(&[
                ("stdout", "1\n"),
                ("stderr", "2\n"),
                ("stdout", "3"),
                ("stderr", "4"),
                ("stdout", "5\n"),
                ("shown", "6"),
            ])
        );
        let ran = kernel.run("eprintln!(\"a\"); println!(\"b\"); Err(\"failed\")?;");
        assert_eq!(output_sequence(&ran), expected(&[("stderr", "a\n"), ("stdout", "b\n")]));
        assert_eq!(ran.error().2, "Error: failed");
    }
    // What is printed without a line break stands before the figure, too.
    let ran = check_sequence(kernel, "print!(\"no end\"); epsilab::lab::device()?");
    assert_eq!(ran[0], ("stdout".into(), "no end".into()));
    assert_eq!(ran[1].0, "shown");
    // `dbg!` keeps temporaries in its argument alive.
    let ran =
        check_sequence(kernel, "let n = dbg!(&String::from(\"ab\")).len(); println!(\"{n}\");");
    assert_eq!((ran[0].0.as_str(), ran[1].1.as_str()), ("stderr", "2\n"));
}

#[test]
fn panics_name_their_line_and_the_variables_they_cost() {
    let kernel = &mut session();
    kernel.run_ok(TENSOR);
    kernel.run_ok("let lent = vec![1]; let given = String::new(); let other = 5;");
    let traceback = kernel
        .run("let new = 1;\nlet moved = given;\nlet fourth = lent[3]; println!(\"{other}\");")
        .error()
        .2;
    for part in [
        "line 3\n3 | let fourth = lent[3]; println!(\"{other}\");\n",
        "Lost, because the cell moved or redefined them: `given`.",
        "Variables that this cell defines were not kept.",
    ] {
        assert!(traceback.contains(part), "{part}: {traceback}");
    }
    let still = traceback.lines().find(|line| line.starts_with("Still there")).expect("listed");
    assert!(still.contains("`lent`") && still.contains("`other`"), "{still}");
    assert!(!still.contains("`given`") && !still.contains("`new`"), "{still}");
    assert_eq!(kernel.run_ok("(lent.len(), other)").result(), "(1, 5)");
    for lost in ["given", "new", "moved"] {
        assert_eq!(kernel.run(lost).error().0, "CompileError", "{lost}");
    }
    let traceback = kernel.run("given").error().2;
    assert!(traceback.contains("moved or redefined the variable `given`"), "{traceback}");

    // In a library: the line of the cell that called it.
    let traceback = kernel.run("let a = 1;\nlet t = tensor_a.clone().reshape([3, 5]);").error().2;
    assert!(
        traceback.contains("line 2\n2 | let t = tensor_a.clone().reshape([3, 5]);\n"),
        "{traceback}"
    );
    // In a function of an earlier cell.
    let count =
        kernel.run_ok("fn third(v: &[i32]) -> i32 {\n    v[2]\n}").reply["execution_count"].clone();
    let traceback = kernel.run("third(&lent)").error().2;
    assert!(
        traceback.contains(&format!(" --> cell {count}, line 2\n2 |     v[2]\n  |     ^\n")),
        "{traceback}"
    );
}

/// In a kernel of its own: none of its variables has been in the session.
fn missing_variables_and_burn_are_explained(kernel: &mut Client) {
    kernel.run_ok("use epsilab::prelude::*;");
    let traceback = kernel.run("data.show()").error().2;
    for part in ["was not run in this session", "module `data`", "`let data = …`"] {
        assert!(traceback.contains(part), "{part}: {traceback}");
    }
    assert!(!traceback.contains("path separator"), "{traceback}");
    let traceback = kernel.run("made_elsewhere + 1").error().2;
    assert!(traceback.contains("run that cell first"), "{traceback}");
    for code in ["use burn::tensor::Tensor;", "let t = 1;\nlet u = burn::tensor::Shape::new([1]);"]
    {
        let traceback = kernel.run(code).error().2;
        assert!(
            traceback.contains("epsilab::burn") && !traceback.contains("cargo add"),
            "{traceback}"
        );
    }
}

#[test]
fn completions_are_public_names_in_a_useful_order() {
    let kernel = &mut session();
    kernel.run_ok("use epsilab::prelude::*;");
    kernel
        .run_ok("let plan = DpSgd::new(); struct Own { hidden: u8 } let own = Own { hidden: 1 };");
    let mut matches = |code: &str| -> Vec<String> {
        let cursor = code.chars().count();
        let reply = kernel.ask("complete_request", json!({ "code": code, "cursor_pos": cursor }));
        let found = reply["matches"].as_array().cloned().unwrap_or_default();
        found.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
    };
    assert_eq!(matches("plan.epoc"), ["epochs"]);
    let members = matches("plan.");
    let at = |name: &str| members.iter().position(|m| m == name);
    for private in ["settings", "private", "own", "privacy", "plan_with"] {
        assert_eq!(at(private), None, "{members:?}");
    }
    assert!(at("clip") < at("into") && at("preview") < at("into"), "{members:?}");
    assert!(at("clip").is_some() && at("to_owned") > at("clone"), "{members:?}");
    assert!(members.iter().all(|name| !name.contains('(')), "{members:?}");
    let figures = matches("figures::");
    assert!(figures.contains(&"epsilon_over_steps".to_owned()), "{figures:?}");
    // A private module.
    assert!(!figures.iter().any(|name| name.trim_end_matches(':') == "compare"), "{figures:?}");
    assert!(matches("own.").contains(&"hidden".to_owned()));
    let reply = kernel.ask("inspect_request", json!({ "code": "data::csv", "cursor_pos": 9 }));
    let text = reply["data"]["text/plain"].as_str().expect("documentation");
    assert!(text.contains("pub fn csv") && text.chars().count() < 2000, "{text}");
}

#[test]
fn figures_are_updated() {
    let kernel = &mut session();
    kernel.run_ok(SHOW);
    let ran = kernel.run_ok(
        r##"let answers = show(&[
            r#"{"kind":"display","id":"f1","update":false,"data":{"text/plain":"0 %"},"metadata":{}}"#,
            r#"{"kind":"display","id":"f1","update":true,"data":{"text/plain":"50 %"},"metadata":{}}"#,
            r#"{"kind":"stream","name":"stdout","text":"raw"}"#,
            r#"{"kind":"nonsense"}"#,
        ]); answers"##,
    );
    assert_eq!(ran.result(), r#"["ok\n", "ok\n", "ok\n", "not understood\n"]"#);
    let shown = ran.of("display_data").next().expect("shown");
    assert_eq!(shown["transient"]["display_id"], "f1");
    let update = ran.of("update_display_data").next().expect("updated");
    assert_eq!(update["data"]["text/plain"], "50 %");
    assert_eq!(ran.stream("stdout"), "raw");
}

#[test]
fn questions_about_code() {
    let kernel = &mut session();
    kernel.run_ok("let kept = String::from(\"alive\");");
    // The accent is a separate code point: positions are neither bytes nor graphemes.
    let code = "let e\u{301} = 1; kept.to_upp";
    let cursor = code.chars().count();
    let reply = kernel.ask("complete_request", json!({ "code": code, "cursor_pos": cursor }));
    let matches = reply["matches"].to_string();
    assert!(matches.contains("to_uppercase"), "{reply}");
    assert_eq!(reply["cursor_start"], cursor - "to_upp".len());
    assert_eq!(reply["cursor_end"], cursor);
    let reply = kernel.ask(
        "inspect_request",
        json!({ "code": "let z = kept.len();", "cursor_pos": 14, "detail_level": 0 }),
    );
    assert_eq!(reply["found"], true, "{reply}");
    assert!(reply["data"]["text/plain"].as_str().expect("text").contains("fn len"), "{reply}");
    for (code, status) in [("fn f() {", "incomplete"), ("1 + 1", "complete"), (")", "invalid")] {
        let reply = kernel.ask("is_complete_request", json!({ "code": code }));
        assert_eq!(reply["status"], status, "{code}");
    }
    assert_eq!(kernel.ask("comm_info_request", json!({}))["comms"], json!({}));
    // Unknown requests are declined, so that no client waits.
    let comm = json!({ "comm_id": "c1", "target_name": "widget", "data": {} });
    let messages = kernel.tell("comm_open", comm);
    let closed = messages.iter().find(|(kind, _)| kind == "comm_close").expect("closed");
    assert_eq!(closed.1["comm_id"], "c1");
    assert_eq!(kernel.tell("debug_request", json!({})).len(), 2, "busy and idle");
}

#[test]
fn defaults_and_history() {
    let kernel = &mut session();
    kernel.run_ok("let kept = String::from(\"alive\");");
    let count = kernel.run_ok("6 * 7").reply["execution_count"].as_u64().expect("a count");
    // Only the required fields.
    let reply = kernel.ask("execute_request", json!({ "code": "kept.len()" }));
    assert_eq!((&reply["status"], &reply["execution_count"]), (&json!("ok"), &json!(count + 1)));
    let reply = kernel.ask("history_request", json!({ "hist_access_type": "tail" }));
    let all = reply["history"].as_array().expect("a list").len();
    assert_eq!(u64::try_from(all).expect("few"), count + 1);
    let tail = json!({ "hist_access_type": "tail", "n": 2, "raw": true, "output": true });
    let reply = kernel.ask("history_request", tail);
    let expected = json!([[1, count, ["6 * 7", "42"]], [1, count + 1, ["kept.len()", "5"]]]);
    assert_eq!(reply["history"], expected);
    let range = json!({ "hist_access_type": "range", "session": 0, "start": count, "raw": true });
    let reply = kernel.ask("history_request", range);
    assert_eq!(reply["history"][0], json!([1, count, "6 * 7"]));
    let search =
        json!({ "hist_access_type": "search", "pattern": "6 ?*7", "n": 9, "unique": true });
    let reply = kernel.ask("history_request", search);
    assert_eq!(reply["history"], json!([[1, count, "6 * 7"]]));
    let reply = kernel.ask("complete_request", json!({ "code": "kept.to_upp", "cursor_pos": -1 }));
    assert!(reply["matches"].to_string().contains("to_uppercase"), "{reply}");

    // A request that can't be parsed gets an error reply.
    for (kind, content) in [
        ("execute_request", json!({ "silent": false })),
        ("complete_request", json!({ "code": 5 })),
        ("history_request", json!({ "hist_access_type": "all" })),
        ("inspect_request", json!({})),
    ] {
        let messages = kernel.tell(kind, content.clone());
        assert_eq!(messages.len(), 2, "busy and idle: {messages:?}");
        let reply = kernel.ask(kind, content);
        assert_eq!(reply["status"], "error", "{kind}: {reply}");
        assert!(reply["evalue"].as_str().is_some_and(|text| text.contains(kind)), "{reply}");
    }
}

#[test]
fn wrong_keys_are_ignored() {
    let kernel = &mut session();
    let mut other = kernel.info.clone();
    other.key = "another key".into();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("tokio");
    let mut shell = runtime.block_on(async {
        let id = jupyter_zmq_client::peer_identity_for_session("intruder").expect("an identity");
        let mut shell = jupyter_zmq_client::create_client_shell_connection_with_identity(
            &other, "intruder", id,
        )
        .await
        .expect("connected");
        shell.send(message("kernel_info_request", json!({}))).await.expect("sent");
        shell
    });
    // The kernel reads from all clients in turn.
    for _ in 0..3 {
        kernel.ask("kernel_info_request", json!({}));
    }
    runtime.block_on(async {
        let answer = tokio::time::timeout(Duration::from_millis(300), shell.read()).await;
        assert!(answer.is_err(), "a message with a wrong signature was answered");
    });
    assert_eq!(kernel.run_ok("7").result(), "7");
}

#[test]
fn errors_abort_the_queue() {
    let kernel = &mut session();
    let gate = Gate::new();
    let first = kernel.send(&format!("{} Err(\"failed\")?;", gate.code()));
    let second = kernel.send("1");
    // Messages of one socket keep their order, so both have arrived once this is answered.
    kernel.ask("kernel_info_request", json!({}));
    gate.open();
    assert_eq!(kernel.finish(&first).reply["status"], "error");
    assert_eq!(kernel.finish(&second).reply["status"], "aborted");
    assert_eq!(kernel.run_ok("2").result(), "2");
}

#[test]
#[ignore = "takes 13 s; .ci/full runs it"]
fn the_kernel_runs_in_a_bare_environment_and_with_a_foreign_toolchain() {
    let _turns = turns(2);
    let parent = folder();
    let dir = parent.path().join("a b");
    std::fs::create_dir(&dir).expect("made");
    // All of these would break evcxr if the kernel did not override them.
    std::fs::write(dir.join("rust-toolchain.toml"), "[toolchain]\nchannel = \"1.0.0\"\n")
        .expect("written");
    std::fs::write(dir.join("evcxr.toml"), "[evcxr]\nopt_level = \"nonsense\"\n").expect("written");
    let cwd = Some(dir.clone());
    let temp = ("TMPDIR", dir.to_string_lossy().into_owned());
    let env = vec![temp.clone()];
    let start = Start { bare: true, env, cwd: cwd.clone(), ..Start::default() };
    let mut bare = Client::start_beside(start);
    let env = vec![
        temp,
        ("RUSTUP_TOOLCHAIN", "nightly-of-another-day".to_owned()),
        ("RUSTFLAGS", "-Cpanic=abort".to_owned()),
        ("CARGO_BUILD_TARGET", "wasm32-unknown-unknown".to_owned()),
    ];
    let mut foreign = Client::start_beside(Start { env, cwd, ..Start::default() });
    // Both at the same time, each with its own variables.
    let ids = (bare.send("let mine = 1;"), foreign.send("let mine = 2;"));
    assert!(bare.finish(&ids.0).ok());
    assert!(foreign.finish(&ids.1).ok());
    for (kernel, expected) in [(&mut bare, "(1, true)"), (&mut foreign, "(2, true)")] {
        let ran = kernel.run_ok(
            "let here = std::env::current_dir().unwrap().join(\"evcxr.toml\").exists(); (mine, here)",
        );
        assert_eq!(ran.result(), expected);
        let output =
            kernel.run_ok("epsilab::Error::setting(\"clip\", 0, \"positive\").to_string()");
        assert_eq!(output.result(), "\"clip = 0: positive\"");
    }
    bare.shut_down();
    foreign.shut_down();
}

#[test]
fn a_busy_port_and_a_bad_connection_file_are_clear_errors() {
    let dir = folder();
    let (info, path, held) = wait_for("a free port", || {
        let (info, path) = connection(dir.path());
        let held = std::net::TcpListener::bind(("127.0.0.1", info.control_port)).ok()?;
        Some((info, path, held))
    });
    let run = || {
        let mut kernel = program(scratch());
        let out = kernel.args(["kernel", "-f"]).arg(&path).output().expect("it runs");
        (out.status.success(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    let (success, stderr) = run();
    assert!(
        !success && stderr.contains(&format!("control port = {}", info.control_port)),
        "{stderr}"
    );
    drop(held);
    std::fs::write(&path, "{}").expect("written");
    let (success, stderr) = run();
    assert!(!success && stderr.contains("connection.json"), "{stderr}");
}
