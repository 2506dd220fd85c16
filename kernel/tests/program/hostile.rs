//! Cells that print control words, crash, or close streams. Each gets a clear error, and the next
//! cell runs normally.

use serde_json::json;

use crate::common::{Client, Gate, Ran, folder, session};

/// Asserts that the cell printed exactly this and showed nothing, and that the next cell has only
/// its own output.
fn prints_only(kernel: &mut Client, code: &str, text: &str) {
    let ran = kernel.run_ok(code);
    assert_eq!(ran.stream("stdout"), text, "{code}");
    assert_eq!(ran.of("execute_result").count(), 0, "{code}");
    let ran = kernel.run_ok("println!(\"mine\"); 7");
    assert_eq!((ran.stream("stdout").as_str(), ran.result().as_str()), ("mine\n", "7"), "{code}");
}

#[test]
fn printed_text_is_never_a_control_word() {
    let kernel = &mut session();
    let begin = "EVCXR_BEGIN_CONTENT text/html";
    let lines = |lines: &[&str]| {
        let print = lines.iter().map(|line| format!("println!({line:?});")).collect::<String>();
        (print, lines.iter().map(|line| format!("{line}\n")).collect::<String>())
    };
    for printed in [
        &[begin, "x"][..],
        &[begin, "<b>x</b>", "EVCXR_END_CONTENT"],
        &["\u{1e}epsilab:flushed"],
        &["EVCXR_EXECUTION_COMPLETE", "more"],
        &["EVCXR_PANIC_NOTIFICATION"],
        &["EVCXR_ERROR_OCCURRED"],
        &["EVCXR_VARIABLE_CHANGED_TYPE:x", "EVCXR_INPUT_REQUEST:name"],
    ] {
        let (code, text) = lines(printed);
        prints_only(kernel, &code, &text);
    }
    // Also as the last expression, whose value is `()`.
    prints_only(
        kernel,
        &format!("println!(\"{begin}\\n1\\nEVCXR_END_CONTENT\")"),
        &format!("{begin}\n1\nEVCXR_END_CONTENT\n"),
    );
    let ran = kernel.run_ok("eprintln!(\"\\u{1e}epsilab:sync\"); eprintln!(\"late\"); 1");
    assert_eq!(ran.stream("stderr"), "\u{1e}epsilab:sync\nlate\n");
    // evcxr still notices a variable that changes its type, and `?` ends only its cell.
    kernel.run_ok("let kept = 1; struct Old; let old = Old;");
    assert_eq!(kernel.run("let kept_not = 2; \"x\".parse::<u8>()?;").error().0, "Error");
    assert_eq!(kernel.run_ok("kept").result(), "1");
}

#[test]
fn values_display_themselves_as_in_evcxr() {
    let kernel = &mut session();
    kernel.run_ok(
        "pub struct Html(&'static str);\n\
         impl Html { pub fn evcxr_display(&self) {\n\
             println!(\"EVCXR_BEGIN_CONTENT text/html\\n{}\\nEVCXR_END_CONTENT\", self.0);\n\
         } }\n\
         pub struct Broken;\n\
         impl Broken { pub fn evcxr_display(&self) {\n\
             println!(\"EVCXR_BEGIN_CONTENT text/html\\nno end\");\n\
         } }\n\
         pub struct Panics;\n\
         impl Panics { pub fn evcxr_display(&self) {\n\
             println!(\"EVCXR_BEGIN_CONTENT text/html\\n<b>\"); panic!(\"no picture\");\n\
         } }\n\
         pub struct Liar;\n\
         impl std::fmt::Debug for Liar { fn fmt(&self, f: &mut std::fmt::Formatter) -> \
             std::fmt::Result { f.write_str(\"a\\nEVCXR_END_CONTENT\\nb\") } }",
    );
    let html = |ran: &Ran| ran.of("execute_result").next().map(|c| c["data"].clone());
    let ran = kernel.run_ok("println!(\"before\"); Html(\"<b>x</b>\")");
    assert_eq!(html(&ran), Some(json!({ "text/html": "<b>x</b>" })));
    assert_eq!(ran.stream("stdout"), "before\n");
    // Called by the code of the cell.
    let ran = kernel.run_ok("Html(\"<i>y</i>\").evcxr_display(); println!(\"after\");");
    assert_eq!(html(&ran), Some(json!({ "text/html": "<i>y</i>" })));
    assert_eq!(ran.stream("stdout"), "after\n");
    prints_only(kernel, "Broken", "EVCXR_BEGIN_CONTENT text/html\nno end\n");
    assert_eq!(kernel.run_ok("Liar").result(), "a\nEVCXR_END_CONTENT\nb");

    let ran = kernel.run("Panics");
    assert_eq!((ran.error().0.as_str(), ran.error().1.as_str()), ("Panic", "no picture"));
    assert_eq!(kernel.run_ok("5").result(), "5");
}

#[test]
#[ignore = "takes 7 s; .ci/full runs it"]
fn output_before_a_crash_is_kept() {
    let kernel = &mut session();
    for i in 0..6 {
        let code = format!(
            "for i in 0..200 {{ println!(\"line {{i}}\"); }} println!(\"last {i}\"); \
             std::process::abort();"
        );
        let ran = kernel.run(&code);
        let stdout = ran.stream("stdout");
        assert!(stdout.ends_with(&format!("line 199\nlast {i}\n")), "{stdout}");
        assert_eq!(ran.error().0, "Crash");
    }
    // A program started by a cell may keep the streams open after the cell process has ended.
    let ran = kernel.run(
        "let asleep = std::process::Command::new(\"sleep\").arg(\"3600\").spawn().unwrap();\n\
         println!(\"{}\", asleep.id()); println!(\"gone\"); std::process::abort();",
    );
    let stdout = ran.stream("stdout");
    let id = stdout.strip_suffix("\ngone\n").and_then(|id| id.parse().ok()).expect("an id");
    // SAFETY: a signal to a program that a cell has started. It fails if the program has ended.
    assert_eq!(unsafe { libc::kill(id, libc::SIGKILL) }, 0, "the crash is reported before it ends");
    assert_eq!(ran.error().0, "Crash");
    assert_eq!(kernel.run_ok("2").result(), "2");
}

#[test]
#[ignore = "takes 10 s; .ci/full runs it"]
fn crashes_are_described_in_one_line() {
    let kernel = &mut session();
    let mut crash = |code: &str, expected: &str| {
        kernel.run_ok("let kept_until_now = 1;");
        let (name, value, traceback) = kernel.run(code).error();
        assert!(name == "Crash" && value.contains(expected), "{name}: {value}\n{traceback}");
        assert!(
            traceback.contains("Lost: `kept_until_now`.") && traceback.contains("again"),
            "{traceback}"
        );
        assert!(traceback.contains("Kept: ") && traceback.contains("ledgers"), "{traceback}");
        assert!(traceback.lines().count() <= 3, "{traceback}");
        for internal in ["backtrace", "epsilab::kernel", "SIGABRT", "core dumped", "fatal"] {
            assert!(!traceback.contains(internal), "{traceback}");
        }
    };
    crash(
        "fn deeper(n: u64) -> u64 {\n\
             let a = [n; 64]; std::hint::black_box(&a); deeper(n + 1) + a[3]\n\
         }\ndeeper(0)",
        "stack",
    );
    crash("unsafe { *std::ptr::null_mut::<u8>().wrapping_add(8) = 1; }", "memory");
    crash("println!(\"bye\"); std::process::exit(3);", "exit(3)");
    crash("std::process::abort();", "abort");
    crash("std::hint::black_box(Vec::<u8>::with_capacity(1 << 55)).len()", "memory ran out");
}

#[test]
fn output_of_threads_between_cells_appears_at_once() {
    let kernel = &mut session();
    let gate = Gate::new();
    let (wait, done) = (gate.statements(), folder());
    let file = done.path().join("go on").display().to_string();
    // Runs a cell to its end. Only then its thread prints, and no other cell runs in the meantime.
    let mut later = |code: &str, go_on: &dyn Fn(), last: &str| {
        let id = kernel.send(code);
        assert!(kernel.finish(&id).ok());
        go_on();
        let mut text = String::new();
        kernel.listen(&id, |kind, content| {
            text.push_str(content["text"].as_str().filter(|_| kind == "stream").unwrap_or(""));
            text.contains(last)
        });
        text
    };
    let open = || drop(gate.open());
    let half =
        format!("std::thread::spawn(|| {{ {wait} println!(\"late\"); print!(\"half\"); }});");
    assert_eq!(later(&half, &open, "half"), "late\nhalf");
    // More than any pipe holds: who prints must not wait for the next cell.
    let many = format!(
        "std::thread::spawn(|| {{ {wait} for i in 0..30000 {{ println!(\"line {{i}}\"); }} }});"
    );
    assert_eq!(later(&many, &open, "line 29999\n").lines().count(), 30000);
    let child = format!(
        "std::process::Command::new(\"sh\").args([\"-c\", \"(until [ -e \\\"$0\\\" ]; do sleep 0.05; \
         done; echo child) &\", {file:?}]).spawn().unwrap().wait().unwrap();"
    );
    assert_eq!(later(&child, &|| std::fs::write(&file, "").expect("written"), "child"), "child\n");
    assert_eq!(kernel.run_ok("println!(\"mine\");").stream("stdout"), "mine\n");
}

#[test]
fn a_crash_between_cells_is_not_blamed_on_the_next() {
    let kernel = &mut session();
    let gate = Gate::new();
    let wait = gate.statements();
    kernel.run_ok(&format!(
        "let precious = 1; std::thread::spawn(|| {{ {wait} std::process::abort(); }});"
    ));
    gate.open().wait_for_end();
    let (name, value, traceback) = kernel.run("precious").error();
    assert!(name == "Crash" && value.contains("a thread that it started"), "{name}: {value}");
    assert!(
        traceback.contains("This cell did not run") && traceback.contains("`precious`"),
        "{traceback}"
    );
    // A panic hook of the user's ends with its cell.
    kernel.run_ok("std::panic::set_hook(Box::new(|_| {}));");
    assert_eq!(kernel.run("panic!(\"said\");").error().1, "said");
}

#[test]
fn closed_streams_and_missing_input_don_t_hang() {
    let kernel = &mut session();
    let close = "unsafe extern \"C\" { fn close(fd: i32) -> i32; }\n";
    kernel.run_ok(&format!(
        "{close}println!(\"before\"); unsafe {{ close(1); close(2); close(0); }}"
    ));
    let ran = kernel.run_ok("println!(\"after\"); eprintln!(\"too\"); 3");
    assert_eq!(
        (ran.stream("stdout").as_str(), ran.stream("stderr").as_str()),
        ("after\n", "too\n")
    );
    assert_eq!(ran.result(), "3");

    // These include the descriptors for commands, so the cell process ends.
    let all = "for fd in 3..1024 { unsafe { close(fd); } }";
    let (name, value, _) = kernel.run(all).error();
    assert!(name == "Crash" && value.contains("lost"), "{name}: {value}");

    let read =
        "let mut line = String::new();\nlet n = std::io::stdin().read_line(&mut line).unwrap(); n";
    let (name, _, traceback) = kernel.run(read).error();
    assert!(name == "InputError" && traceback.contains("read a file"), "{name}: {traceback}");

    for code in ["/* never", "let open = 1; /* never /* closed */", "4 // fine\n/* never\nend"] {
        let (name, value, _) = kernel.run(code).error();
        assert!(name == "CompileError" && value.contains("comment"), "{code}: {name} {value}");
        let reply = kernel.ask("is_complete_request", json!({ "code": code }));
        assert_eq!(reply["status"], "incomplete", "{code}");
    }
    assert_eq!(kernel.run_ok("\"/* \" /* closed */ // /*").result(), "\"/* \"");
}
