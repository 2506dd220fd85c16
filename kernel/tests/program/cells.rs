//! Running cells: commands, input, limits of their output, and the stop button.

use serde_json::{Value, json};

use crate::common::processes::{family, name};
use crate::common::{
    self, Client, Gate, Session, Start, folder, is_idle, program, scratch, session, turns,
    wait_until,
};

/// Stops on SIGINT, as training does.
const POLITE: &str = r#"
use std::sync::atomic::{AtomicBool, Ordering};
static STOP: AtomicBool = AtomicBool::new(false);
extern "C" fn stop(_: i32) { STOP.store(true, Ordering::SeqCst); }
unsafe extern "C" { fn signal(number: i32, handler: usize) -> usize; }
fn run_until_stopped() -> u32 {
    unsafe { signal(2, stop as *const () as usize) };
    let mut steps = 0;
    while !STOP.load(Ordering::SeqCst) {
        println!("step");
        std::thread::sleep(std::time::Duration::from_millis(20));
        steps += 1;
    }
    unsafe { signal(2, 1) };
    steps
}
"#;

#[test]
fn commands_of_the_lab_run_and_unknown_ones_have_a_suggestion() {
    let mut kernel = session();
    kernel
        .run_ok("use epsilab::prelude::*;\nlet list = vec![1u8, 2]; let name = \"ä\".to_string();");
    kernel.run_ok("let data = data::glyphs_with(20, 5, 1)?;");
    let stdout = |kernel: &mut Session, code: &str| kernel.run_ok(code).stream("stdout");
    let help = stdout(&mut kernel, ":help");
    assert!(help.contains(":ledger") && help.contains(":dep"), "{help}");
    let vars = stdout(&mut kernel, ":vars");
    let lines: Vec<&str> = vars.lines().collect();
    assert!(lines[0].starts_with("data") && lines[0].contains("20 training"), "{vars}");
    assert!(lines[1].contains("Vec<u8>") && lines[1].ends_with("2 elements, 2 bytes"), "{vars}");
    assert!(lines[2].starts_with("name") && lines[2].ends_with("2 bytes"), "{vars}");
    assert_eq!(kernel.run_ok("list.len()").result(), "2", "variables are kept");
    let timed =
        stdout(&mut kernel, ":time\nstd::thread::sleep(std::time::Duration::from_millis(300));");
    let times: Vec<&str> = timed.split(" s").collect();
    assert!(times[0].starts_with("compiled in ") && times.last() == Some(&"\n"), "{timed}");
    let ran = times[1].strip_prefix(", ran in ").and_then(|ran| ran.parse::<f64>().ok());
    assert!(ran >= Some(0.3), "{timed}");
    assert_eq!(stdout(&mut kernel, ":device"), "cpu\n");
    data_sets_are_listed_with_their_folders(&mut kernel);
    for code in [":ledger", ":runs"] {
        let ran = kernel.run_ok(code);
        assert!(ran.of("display_data").count() + ran.of("execute_result").count() == 1, "{code}");
    }
    let (name, _, traceback) = kernel.run(":ledgr\nlist").error();
    assert!(name == "CompileError" && traceback.contains("did you mean `:ledger`?"), "{traceback}");
    let reply = kernel.ask("complete_request", json!({ "code": ":de", "cursor_pos": 3 }));
    assert_eq!(reply["matches"], json!([":dep", ":device"]));
}

/// With files, which only need names here, and without.
fn data_sets_are_listed_with_their_folders(kernel: &mut Client) {
    let root = folder();
    let mnist = root.path().join("mnist");
    std::fs::create_dir(&mnist).expect("made");
    let mut listed = || {
        let set = format!("unsafe {{ std::env::set_var(\"EPSILAB_DATA\", {:?}); }}", root.path());
        kernel.run_ok(&set);
        let stdout = kernel.run_ok(":data").stream("stdout");
        assert!(stdout.contains("drawn by code"), "{stdout}");
        stdout.lines().find(|line| line.starts_with("MNIST ")).expect("MNIST").to_owned()
    };
    // Some machines have data sets in a folder of the root.
    let elsewhere = root.path().ancestors().any(|above| above.join("datasets/mnist").exists());
    assert!(elsewhere || listed().contains("no files"), "{}", listed());
    for images in ["train-images-idx3-ubyte", "t10k-images-idx3-ubyte.gz"] {
        let labels = images.replace("images-idx3", "labels-idx1");
        for name in [images, &labels] {
            std::fs::write(mnist.join(name), "").expect("written");
        }
    }
    let found = listed();
    assert!(found.ends_with(&mnist.display().to_string()), "{found}");
}

#[test]
fn a_run_that_a_cell_has_just_shown_is_not_shown_again_as_its_value() {
    let mut kernel = session();
    kernel.run_ok(
        "use epsilab::prelude::*;\nlet data = data::glyphs_with(40, 5, 1)?;\n\
         let model = models::linear(&data).build()?;\n\
         let method = DpSgd::new().noise_multiplier(1.0).batch_size(20).steps(2);",
    );
    // One live chart, or the figure of the stored run; then the figure at the end of the cell.
    for code in [
        "method.train(&model, &data)?",
        "method.plan(&data)?.train(&model, &data)?",
        "let run = method.train(&model, &data)?;",
        "run",
        "run.show();\nrun",
    ] {
        let ran = kernel.run_ok(code);
        // So short a run also warns that it has learnt nothing.
        let is_warning = |content: &&Value| {
            let text = content["data"]["text/plain"].as_str();
            text.is_some_and(|text| text.starts_with("Warning: "))
        };
        let displayed = ran.of("display_data").filter(|content| !is_warning(content));
        assert_eq!(displayed.count() + ran.of("execute_result").count(), 1, "{code}");
    }
    // Values that look the same are not the same.
    kernel.run_ok("let masks = [1, 2].map(|n| RandomMask::keep(0.5).seed(n).mask(&model));");
    let ran = kernel.run_ok("let [a, b] = masks; let (a, b) = (a?, b?); a.show();\nb");
    assert_eq!(ran.of("display_data").count() + ran.of("execute_result").count(), 2);
    let ran = kernel.run_ok("run.show();\nrun.statement().show();\nrun");
    assert_eq!(ran.of("display_data").count() + ran.of("execute_result").count(), 3);
}

#[test]
fn values_are_shown_as_evcxr_shows_them() {
    let mut kernel = Client::start(Start::default());
    kernel.run_ok(
        "use epsilab::prelude::*; use std::collections::BTreeMap;\n\
         #[derive(Debug)] struct Point { x: i32 }\n\
         pub struct Bare;\n\
         struct Own; impl Own { fn show(&self) -> &str { \"own\" } }",
    );
    for (code, shown) in [
        ("1 + 1", "2"),
        ("0.5", "0.5"),
        ("\"a\\nb\"", "\"a\\nb\""),
        ("String::from(\"EVCXR_END_CONTENT\")", "\"EVCXR_END_CONTENT\""),
        ("vec![Some(1u8), None]", "[Some(1), None]"),
        ("&&[1, 2]", "[1, 2]"),
        ("(1, 'a', true)", "(1, 'a', true)"),
        ("BTreeMap::from([(1, Point { x: 2 })])", "{1: Point { x: 2 }}"),
        ("Ok::<u8, String>(3)", "Ok(3)"),
        ("let n = 4;\nn", "4"),
        ("let mut n = 0;\nfor i in 0..3 { n += i; }\nn", "3"),
        ("Point { x: 1 }", "Point { x: 1 }"),
        ("Box::new(7)", "7"),
        ("Own.show()", "\"own\""),
    ] {
        assert_eq!(kernel.run_ok(code).result(), shown, "{code}");
    }
    let (_, _, traceback) = kernel.run("vec![Bare]").error();
    assert!(traceback.contains("`Bare` has no `Debug` form"), "{traceback}");
    for (code, shown) in [
        ("models::linear(&data::glyphs_with(20, 5, 1)?).build()?.summary()", "linear: "),
        ("epsilab::lab::runs()?", ""),
        // The value at the end moves a variable of the cell.
        ("let e = Event::gaussian(2.0);\nfigures::epsilon_vs_delta(&[e])?", "Epsilon for every"),
        (
            "let e = Event::gaussian(2.0);\nfor _ in 0..2 {}\nfigures::epsilon_vs_delta(&[e])?",
            "Epsilon for every",
        ),
        ("Average::ema().to_string()", "\""),
        // A forgotten `?`.
        ("lab::scaffold(\"dp-sgd\")", "let method = DpSgd::new()"),
        ("lab::scaffold(\"dp-sdg\")", "scaffold \"dp-sdg\": unknown cell"),
        ("models::linear(&data::glyphs_with(20, 5, 1)?)", "linear for examples of 1x28x28"),
        ("models::linear(&data::glyphs_with(20, 5, 1)?).build()?.summary().layers().len()", "2"),
    ] {
        let result = kernel.run_ok(code);
        let data = result.of("display_data").chain(result.of("execute_result")).next().cloned();
        let text = data.expect(code)["data"]["text/plain"].as_str().map(str::to_owned);
        let text = text.expect("a text");
        assert!(text.starts_with(shown) && !text.contains("Summary {"), "{code}: {text}");
    }
    // A value of the lab behind a pointer shows itself, not its `Debug` form.
    let shown = kernel.run_ok("data::glyphs_with(20, 5, 1)?").result();
    assert_eq!(kernel.run_ok("Box::new(data::glyphs_with(20, 5, 1)?)").result(), shown);
    kernel.run_ok(":fmt {:#?}");
    assert_eq!(kernel.run_ok("(1, 2)").result(), "(\n    1,\n    2,\n)");
    kernel.run_ok(":fmt {:?}");
    kernel.run_ok(
        "trait Shown { fn evcxr_display(&self); }\n\
         impl Shown for Vec<u8> { fn evcxr_display(&self) { \
         println!(\"EVCXR_BEGIN_CONTENT text/plain\\nmine\\nEVCXR_END_CONTENT\"); } }",
    );
    assert_eq!(kernel.run_ok("vec![1u8]").result(), "mine");
    kernel.shut_down();
}

/// rust-analyzer reads only a part of the standard library's sources.
#[test]
fn types_of_the_standard_library_are_found() {
    let mut kernel = session();
    let found = [
        ("std::collections::HashMap::from([(\"a\", 1u8)])", "HashMap<&str, u8>"),
        ("(0..3).map(|i| f64::from(i) / 2.0).collect::<Vec<_>>()", "Vec<f64>"),
        ("[1u8, 2].iter().map(|i| i.pow(2)).max()", "Option<u8>"),
        ("std::time::Instant::now().elapsed().as_secs_f64()", "f64"),
        ("std::sync::Arc::new(std::sync::Mutex::new(Vec::<String>::new()))", "Mutex<Vec<String>>"),
        ("std::thread::spawn(|| 3i64)", "JoinHandle<i64>"),
        ("String::from_utf8_lossy(b\"a\").split(' ').map(str::len).sum::<usize>()", "usize"),
        ("\"1.5\".parse::<f32>().map_err(|e| e.to_string())", "Result<f32, "),
        ("std::env::current_dir()?.join(\"x\")", "PathBuf"),
        ("7u32.checked_sub(8).is_none()", "bool"),
        ("1u32.to_le_bytes()", "[u8; 4]"),
        (
            "vec![1].iter().map(|a| (*a, 1.5)).collect::<std::collections::HashMap<_, _>>()",
            "HashMap<i32, f64>",
        ),
        ("(1.5f64.sqrt().max(0.0), i128::MAX.leading_zeros())", "(f64, u32)"),
    ];
    let lets = found.iter().enumerate().map(|(i, (code, _))| format!("let found{i} = {code};\n"));
    kernel.run_ok(&lets.collect::<String>());
    let stdout = kernel.run_ok(":vars").stream("stdout");
    for (i, (code, kind)) in found.iter().enumerate() {
        let name = format!("found{i} ");
        let line = stdout.lines().find(|line| line.starts_with(&name)).expect(code);
        assert!(line.contains(kind), "{code}: {stdout}");
    }
    let hover = json!({ "code": "Vec::<u8>::new().push", "cursor_pos": 21, "detail_level": 0 });
    let stdout = kernel.ask("inspect_request", hover).to_string();
    assert!(stdout.contains("Appends an element"), "{stdout}");
}

#[test]
fn tensors_and_modules_of_burn_are_used_directly() {
    let mut kernel = session();
    kernel.run_ok(
        "use epsilab::burn;\nuse burn::module::Module;\nuse burn::nn::{Linear, LinearConfig};\n\
         use burn::tensor::Tensor;\n\
         #[derive(Module, Debug)]\nstruct Net { a: Linear, b: Linear }\n\
         impl Net { fn forward(&self, x: Tensor<2>) -> Tensor<2> { \
         self.b.forward(self.a.forward(x)) } }",
    );
    // No type is given: those of Burn's derived constructors are found, too.
    kernel.run_ok(
        "let device = Default::default();\nlet config = LinearConfig::new(3, 4).with_bias(false);\n\
         let net = Net { a: config.init(&device), b: LinearConfig::new(4, 2).init(&device) };\n\
         let out = net.forward(Tensor::ones([5, 3], &device));\nlet again = net.a.clone();",
    );
    kernel.run_ok("let sum = out.clone().sum().into_scalar::<f32>();\nlet shape = out.dims();");
    assert_eq!(kernel.run_ok("shape").result(), "[5, 2]");
    assert_eq!(kernel.run_ok("sum.is_finite()").result(), "true");
    assert_eq!(kernel.run_ok("net.num_params()").result(), "22");
    let (_, value, traceback) = kernel.run("let n = net.num_params();").error();
    assert!(
        value.contains("type of `n`") && traceback.contains("let n: Type"),
        "{value}\n{traceback}"
    );
}

#[test]
fn common_mistakes_are_explained_in_a_line() {
    let mut kernel = session();
    let mut explained = |code: &str, help: &str| {
        let (_, _, traceback) = kernel.run(code).error();
        assert!(traceback.contains(help), "{code}\n{traceback}");
        assert!(!traceback.contains("evcxr") && !traceback.contains("_::"), "{traceback}");
    };
    explained("let v = vec![1]; let w = v; v.len()", "`v.clone()`");
    explained(
        "let data = epsilab::data::glyphs();\nlet n = data.size();",
        "put `?` after the call",
    );
    explained("let n: u32 = \"3\".parse::<u32>();", "`?`");
    explained("let q = Vec::new();", "`q: Vec<T>`");
    explained("let s = String::new(); let r = &s;", "`r` borrows from another variable");
    explained("let f = |x: i32| x + 1;", "Box<dyn Fn(…) -> …>");
    explained("let lens = vec![\"a\"].into_iter().map(|x| x.len());", "`.collect::<Vec<_>>()`");
    // What does not matter in a notebook is not said.
    let quiet = "let unused = 5; use std::collections::HashMap; fn never() {} let mut z = 3; \
                 Ok::<i32, String>(3);";
    let ran = kernel.run_ok(quiet);
    assert_eq!((ran.stream("stdout"), ran.stream("stderr")), Default::default());

    // Documentation in the pager, and cells that remove what they showed.
    let ran = kernel.run_ok("?Vec::push");
    let page = &ran.reply["payload"][0];
    assert_eq!(page["source"], "page");
    assert!(page["data"]["text/plain"].as_str().is_some_and(|text| text.contains("fn push")));
    let (_, value, _) = kernel.run("?no_such_name").error();
    assert!(value.contains("no documentation of `no_such_name`"), "{value}");
    let ran = kernel.run_ok("println!(\"old\"); epsilab::show::clear_output(false); 7");
    assert_eq!((ran.stream("stdout").as_str(), ran.result().as_str()), ("", "7"));
}

#[test]
fn output_beyond_the_limit_is_kept_in_a_file() {
    let mut kernel = session();
    let ran = kernel.run_ok("for i in 0..3_000_000 { println!(\"line {i}\"); }\n7");
    assert_eq!(ran.result(), "7");
    let shown = ran.stream("stdout");
    assert!(shown.len() <= 1 << 20 && shown.len() > (1 << 20) - 64, "{}", shown.len());
    let stderr = ran.stream("stderr");
    let path = stderr.trim().trim_end_matches(']').rsplit_once(" in ").expect("a path").1;
    let all = shown + &std::fs::read_to_string(path).expect("kept");
    assert_eq!(all.lines().count(), 3_000_000);
    assert!(all.ends_with("line 2999998\nline 2999999\n"));
    // The next cell begins anew.
    assert_eq!(kernel.run_ok("println!(\"short\");").stream("stdout"), "short\n");
}

#[test]
fn progress_lines_are_shown_while_they_are_printed() {
    let mut kernel = session();
    let gate = Gate::new();
    // Each line is heard before the next one is printed.
    let code = format!(
        "for i in 1..=4 {{ eprint!(\"\\r{{i}} of 4\"); {} }}\neprintln!(\" done\");",
        gate.code()
    );
    let id = kernel.send(&code);
    let mut text = String::new();
    for i in 1..=4 {
        let line = format!("\r{i} of 4");
        kernel.listen(&id, |kind, content| {
            text.push_str(content["text"].as_str().filter(|_| kind == "stream").unwrap_or(""));
            text.ends_with(&line)
        });
        gate.open();
    }
    let ran = kernel.finish(&id);
    assert!(ran.ok(), "{:#}", ran.reply);
    assert_eq!(text + &ran.stream("stderr"), "\r1 of 4\r2 of 4\r3 of 4\r4 of 4 done\n");
    // A line that is overwritten soon is not sent.
    let ran = kernel.run_ok(
        "for i in 1..=400 {
            eprint!(\"\\r{i} of 400\");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        eprintln!(\" done\");",
    );
    let text = ran.stream("stderr");
    assert!(text.starts_with('\r') && text.ends_with("\r400 of 400 done\n"), "{text:?}");
    assert!(text.matches('\r').count() < 200 && ran.of("stream").count() < 200, "{text:?}");
    // Nothing of a panic message in pieces is taken for text.
    let (name, value, traceback) = kernel.run("eprint!(\"half\"); panic!(\"whole\")").error();
    assert_eq!((name.as_str(), value.as_str()), ("Panic", "whole"), "{traceback}");
    let quick = kernel.run_ok(
        "use std::io::Write;
        for i in 1..=100_000 { print!(\"\\r{i:6} of 100000\"); std::io::stdout().flush()?; }
        7",
    );
    assert_eq!(quick.result(), "7");
    let text = quick.stream("stdout");
    assert!(text.ends_with("\r100000 of 100000"), "{:?}", text.lines().last());
    assert!(text.len() < 100_000, "{} bytes", text.len());
}

/// Quarto and MyST ask for inline values of a text so.
#[test]
fn expressions_beside_a_cell_have_their_values_or_errors() {
    let mut kernel = session();
    let wanted = json!({ "half": "x / 2.0", "missing": "no_such_name", "text": "\"a\".repeat(2)" });
    let id = kernel.send_with("let x = 1.94_f64;", json!({ "user_expressions": wanted.clone() }));
    let ran = kernel.finish(&id);
    assert!(ran.ok(), "{:#}", ran.reply);
    let values = &ran.reply["user_expressions"];
    let half = json!({ "status": "ok", "data": { "text/plain": "0.97" }, "metadata": {} });
    assert_eq!(values["half"], half);
    assert_eq!(values["text"]["data"]["text/plain"], "\"aa\"");
    let missing = &values["missing"];
    assert_eq!(missing["status"], "error");
    assert!(
        missing["evalue"].as_str().is_some_and(|why| why.contains("no_such_name")),
        "{missing}"
    );
    assert!(missing["ename"].is_string() && missing["traceback"].is_array(), "{missing}");
    // Not after a cell that failed.
    let id = kernel.send_with("let y: u8 = \"a\";", json!({ "user_expressions": wanted }));
    let ran = kernel.finish(&id);
    let values = ran.reply["user_expressions"].as_object();
    assert!(!ran.ok() && values.is_none_or(|values| values.is_empty()), "{:#}", ran.reply);
    assert_eq!(kernel.run_ok("x").result(), "1.94");
}

/// A cell that removes a file after any answer.
pub fn removes_after_asking(file: &std::path::Path) -> String {
    format!(
        "let mut answer = String::new();\nstd::io::stdin().read_line(&mut answer)?;\n\
         std::fs::remove_file({file:?})?;"
    )
}

#[test]
fn a_cell_that_reads_input_requests_it_from_the_front_end() {
    let mut kernel = session();
    kernel.run_ok(
        "fn read() -> String { let mut line = String::new(); \
         std::io::stdin().read_line(&mut line).unwrap(); line }\nlet kept = 5;",
    );
    let asks = json!({ "allow_stdin": true });
    let id = kernel.send_with("print!(\"name? \"); let name = read();", asks.clone());
    assert_eq!(kernel.question(), id);
    // The prompt comes first.
    let messages = kernel.listen(&id, |kind, _| kind == "stream");
    assert_eq!(messages.last().unwrap().1["text"], "name? ");
    kernel.answer("Zoë");
    assert!(kernel.finish(&id).ok());
    assert_eq!(kernel.run_ok("name").result(), "\"Zoë\\n\"");

    // Two lines, one of them read by a program.
    let code = "let first = read();\nlet out = std::process::Command::new(\"head\").arg(\"-n1\")\
                .stdin(std::process::Stdio::inherit()).output().unwrap();\n\
                println!(\"{first}{}\", String::from_utf8_lossy(&out.stdout));";
    let id = kernel.send_with(code, asks.clone());
    for line in ["one", "two"] {
        assert_eq!(kernel.question(), id);
        kernel.answer(line);
    }
    assert_eq!(kernel.finish(&id).stream("stdout"), "one\ntwo\n\n");

    // A stop makes the read fail, as where nobody can be asked: it is no empty answer.
    let file = tempfile::NamedTempFile::new().expect("a file");
    for code in ["read()", &removes_after_asking(file.path())] {
        let id = kernel.send_with(code, asks.clone());
        assert_eq!(kernel.question(), id);
        kernel.control("interrupt_request", json!({}));
        let (name, value, _) = kernel.finish(&id).error();
        assert!(name == "Interrupted" && value.contains("waited for input"), "{name}: {value}");
    }
    assert!(file.path().exists());
    for code in [
        "read()",
        // Asks until the answer is right, and ignores errors.
        "loop { let mut s = String::new(); let _ = std::io::stdin().read_line(&mut s); \
         if s.trim() == \"y\" { break; } }",
    ] {
        let (name, _, traceback) = kernel.run(code).error();
        assert!(name == "InputError" && traceback.contains("what to do"), "{name}: {traceback}");
    }
    let output = kernel.run("print!(\"{}\", std::io::stdin().lines().next().unwrap().is_err());");
    assert_eq!(output.stream("stdout"), "true");

    // The next cell can ask again; Ctrl+D is the end of the input.
    let id = kernel.send_with("read()", asks);
    assert_eq!(kernel.question(), id);
    kernel.answer("\u{4}");
    assert_eq!(kernel.finish(&id).result(), "\"\"");
    kernel.answer("nobody asked");
    assert_eq!(kernel.run_ok("kept").result(), "5");
}

/// Has no loop of its own in which it could be stopped.
const ENDLESS: &str =
    "println!(\"waiting\"); std::thread::sleep(std::time::Duration::from_secs(3600));";

#[test]
fn a_loop_of_a_cell_can_be_stopped_and_variables_are_kept() {
    let mut kernel = session();
    kernel
        .run_ok("let mut n = 0u64; let mut list = vec![1u64]; let text = String::from(\"kept\");");
    let mut stopped = |code: &str| {
        let id = kernel.send(code);
        kernel.listen(&id, |kind, _| kind == "stream");
        // One interrupt ends a loop that would never end.
        kernel.control("interrupt_request", json!({}));
        let (name, value, traceback) = kernel.finish(&id).error();
        assert!(name == "Interrupted" && value.contains("stopped in a loop"), "{name}: {value}");
        traceback
    };
    let traceback = stopped("loop { n += 1; if n == 2000 { println!(\"1\"); } }");
    assert!(traceback.contains("Still there: `list`, `n`, `text`"), "{traceback}");
    let traceback =
        stopped("let new = 3;\nfor i in 0u64.. { list[0] = i; if i == 2000 { println!(\"2\"); } }");
    assert!(traceback.contains("this cell defines were not kept"), "{traceback}");
    stopped("fn wait() { while std::hint::black_box(true) { } }\nprintln!(\"3\"); wait();");
    stopped(
        "println!(\"4\"); std::thread::spawn(|| { let mut n = 0u32; loop { n = n.wrapping_add(1); } \
         }).join().unwrap();",
    );
    stopped("println!(\"5\"); (0u64..).for_each(|i| { std::hint::black_box(i); });");
    stopped(
        "fn fib(n: u64) -> u64 { if n < 2 { n } else { fib(n - 1) + fib(n - 2) } }\n\
         println!(\"6\"); fib(99);",
    );
    let output = kernel.run_ok("println!(\"{} {} {text}\", n > 1000, list[0] > 1000);");
    assert_eq!(output.stream("stdout"), "true true kept\n");
    // The interrupt ends with its cell.
    assert_eq!(kernel.run_ok("let mut sum = 0; for i in 0..5 { sum += i; }\nsum").result(), "10");
    // A panic in a loop of one line names its column.
    let (_, value, traceback) = kernel.run("for i in 0..3 { list[7 + i] = 1; }").error();
    assert!(value.contains("out of bounds"), "{value}");
    assert!(
        traceback.contains("1 | for i in 0..3 { list[7 + i] = 1; }\n  |                     ^"),
        "{traceback}"
    );
    // Errors of the compiler have the columns of the cell, and code that the compiler itself runs
    // has no stop points.
    let (_, _, traceback) = kernel.run("for i in 0..3 { let x: u8 = \"a\"; }").error();
    assert!(traceback.contains("  |                             ^^^"), "{traceback}");
    let code = "const fn sum() -> u32 { let mut n = 0; while n < 9 { n += 1; } n }\n\
                const SUM: u32 = sum();\nSUM";
    assert_eq!(kernel.run_ok(code).result(), "9");
}

#[test]
fn interrupts_stop_a_cell_first_by_signal_then_by_force() {
    let mut kernel = Client::start(Start::default());

    kernel.run_ok(&format!("{POLITE}\nlet kept = 5;"));
    let id = kernel.send("let steps = run_until_stopped();");
    let waiting = kernel.send("println!(\"not run\");");
    kernel.listen(&id, |kind, _| kind == "stream");
    kernel.control("interrupt_request", json!({}));
    let ran = kernel.finish(&id);
    assert!(ran.ok(), "{:#}", ran.reply);
    assert_eq!(kernel.finish(&waiting).reply["status"], "aborted");
    assert_eq!(kernel.run_ok("steps > 0 && kept == 5").result(), "true");

    // While a cell is compiled, an interrupt kills the compiler.
    let functions: String = (0..600).map(|i| format!("fn f{i}(x: f64) -> String {{ format!(\"{{x:?}} {{:?}}\", vec![x; {i}].iter().map(|y| y.sqrt()).collect::<Vec<_>>()) }}\n")).collect();
    let calls: String = (0..600).map(|i| format!("f{i}(1.0).len() + ")).collect();
    let id = kernel.send(&format!("{functions} let total = {calls} 0;"));
    kernel.listen(&id, |kind, _| kind == "execute_input");
    let is_compiler = |process: u32| name(process).is_some_and(|name| name == "rustc");
    wait_until("a compiler", || {
        !cfg!(target_os = "linux") || family(kernel.child.id()).into_iter().any(is_compiler)
    });
    kernel.control("interrupt_request", json!({}));
    let ran = kernel.finish(&id);
    let (name, value, _) = ran.error();
    assert!(name == "Interrupted" && value.contains("compiled"), "{name}: {value}");
    assert_eq!(kernel.run_ok("kept").result(), "5");

    // A cell that can't stop continues, says so, and loses its process by the second interrupt
    // only.
    let gate = Gate::new();
    let id = kernel.send(&gate.code());
    kernel.listen(&id, |kind, _| kind == "execute_input");
    let mut cell = gate.reached();
    kernel.control("interrupt_request", json!({}));
    kernel.listen(&id, |kind, content| {
        let text = content["text"].as_str().filter(|_| kind == "stream");
        text.is_some_and(|text| text.contains("second interrupt"))
    });
    cell.go_on();
    let ran = kernel.finish(&id);
    assert!(ran.ok(), "{:#}", ran.reply);
    assert_eq!(kernel.run_ok("kept").result(), "5");
    let id = kernel.send(ENDLESS);
    kernel.listen(&id, |kind, _| kind == "stream");
    kernel.control("interrupt_request", json!({}));
    kernel.listen(&id, |kind, content| kind == "stream" && content["name"] == "stderr");
    kernel.control("interrupt_request", json!({}));
    let (name, value, _) = kernel.finish(&id).error();
    assert!(name == "Interrupted" && value.contains("lost"), "{name}: {value}");
    let (name, value, _) = kernel.run("kept").error();
    assert!(name == "CompileError" && value.contains("kept"), "{name}: {value}");

    // The second interrupt may follow at once.
    let id = kernel.send(ENDLESS);
    kernel.listen(&id, |kind, _| kind == "stream");
    kernel.control("interrupt_request", json!({}));
    kernel.control("interrupt_request", json!({}));
    assert_eq!(kernel.finish(&id).error().0, "Interrupted");

    // A crash is reported, and the kernel continues.
    let ran = kernel.run("println!(\"last words\"); eprintln!(\"why\"); std::process::abort();");
    let (name, value, traceback) = ran.error();
    assert!(name == "Crash" && value.contains("lost"), "{name}: {value}");
    // Either in the error or above it, but never lost.
    assert_eq!(ran.stream("stdout"), "last words\n");
    let seen = traceback + &ran.stream("stderr");
    assert_eq!(seen.matches("why").count(), 1, "{seen}");
    let output = kernel.run_ok("epsilab::Error::setting(\"a\", 1, \"b\").to_string()");
    assert_eq!(output.result(), "\"a = 1: b\"");

    // Everything is forgotten except the lab, which stays loaded.
    kernel.run_ok("let gone = 1;");
    kernel.run_ok(":clear");
    assert_eq!(kernel.run_ok("let there = 1;").result(), "", "no value of the kernel's own cell");
    assert_eq!(kernel.run("gone").error().0, "CompileError");
    let output = kernel.run_ok("epsilab::Error::setting(\"a\", 1, \"b\").to_string()");
    assert_eq!(output.result(), "\"a = 1: b\"");
}

#[test]
fn a_cell_sent_at_once_waits_for_the_lab_and_can_be_interrupted() {
    let mut kernel = Client::start(Start::default());
    let id = kernel.send("1");
    // Messages of one socket keep their order, so the cell has arrived once this is answered.
    kernel.ask("kernel_info_request", json!({}));
    kernel.control("interrupt_request", json!({}));
    let messages = kernel.listen(&id, is_idle);
    let notice_at = messages.iter().position(|(kind, content)| {
        kind == "stream" && content["text"].as_str().is_some_and(|text| text.contains("starts"))
    });
    let cleared = messages.iter().position(|(kind, _)| kind == "clear_output");
    assert!(notice_at.is_some() && notice_at < cleared, "{messages:?}");
    let busy = |(_, content): &&(String, Value)| content["execution_state"] == "busy";
    assert_eq!(messages.iter().filter(busy).count(), 1, "{messages:?}");
    let error = messages.iter().find(|(kind, _)| kind == "error").expect("an error");
    assert_eq!(error.1["ename"], "Interrupted");
    assert_eq!(kernel.run_ok("3").result(), "3");
    kernel.shut_down();
}

#[test]
fn the_benchmark_of_the_kernel_prints_one_json_object() {
    let _turn = turns(1);
    let mut command = program(scratch());
    let ran = command.args(["bench", "kernel", "--json", "--cells", "1"]).output().expect("runs");
    let found = common::json(&ran);
    let seconds = |name: &str| found[name].as_f64().expect(name);
    assert!(seconds("kernel_info_s") > 0.0 && seconds("kernel_info_s") < seconds("first_cell_s"));
    assert!(seconds("cell_median_s") > 0.0 && seconds("lab_cell_median_s") > 0.0);
    assert!(!cfg!(target_os = "linux") || seconds("rss_mb") > 50.0);
}
