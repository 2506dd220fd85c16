//! What helps to write cells: errors with advice, completion and documentation.

use serde_json::json;

use crate::common::session;

#[test]
fn errors_name_the_line_and_what_to_do() {
    let mut kernel = session();
    kernel.run_ok("let keep = vec![1, 2, 3]; let text = String::from(\"a\");");
    let mut explained = |code: &str, parts: &[&str], absent: &[&str]| {
        let (_, _, traceback) = kernel.run(code).error();
        for part in parts {
            assert!(
                traceback.contains(part),
                "{part:?} is not in the error of {code}\n{traceback}"
            );
        }
        for part in [absent, &["Evcxr", "_::", "cargo add"]].concat() {
            assert!(!traceback.contains(part), "{part:?} is in the error of {code}\n{traceback}");
        }
    };
    explained("let t = text; println!(\"{text}\");", &["`text.clone()`", "`&text`"], &[]);
    explained(
        "fn eat(v: Vec<i32>) {}\neat(keep);\nprintln!(\"{}\", keep.len());",
        &["`keep.clone()`", "line 3"],
        &[],
    );
    explained("for x in keep {}\nprintln!(\"{:?}\", keep);", &["`for … in &keep`"], &[]);
    let thread = "let h = std::thread::spawn(|| { println!(\"{}\", keep.len()); });\n\
                  h.join().unwrap();";
    explained(thread, &["`move ||`", "`let keep = keep.clone();`"], &["E0505"]);
    let commented = format!("let keep = vec![1];\n{thread}");
    explained(&commented, &["E0373", "`move ||`"], &[]);
    explained("use rand::Rng;", &["line 1", "1 | use rand::Rng;", "`:dep rand = \"*\"`"], &[]);
    explained("let g = grid::Grid::new();", &["`use epsilab::grid;`"], &[":dep"]);
    explained("if keep.len() = 1 {}", &["`==`"], &[]);
    explained("keep.len() + 1.5", &["`n as f64`"], &["other types"]);
    explained("return 5;", &["as its last line"], &[]);
    explained("keep.get(0)?", &["`.ok_or(\"why it is missing\")?`"], &["closure"]);
    explained(
        "#[derive(Module, Debug)] struct A;",
        &["`use epsilab::burn; use epsilab::burn::module::Module;`"],
        &[],
    );
    explained("let a = 1;\nprintln!(\"{}\", n", &["line 2", "`(` is never closed"], &[]);
    explained(
        "let one = 1;\nlet h = std::thread::spawn(|| { loop { std::hint::black_box(1); } });",
        &["line 2", "let h: Type"],
        &[],
    );
    explained("let z = 0; 1/z", &["line 1", "  |            ^^^"], &[]);
    explained("let v: Vec<u8> = Vec::with_capacity(usize::MAX);", &["capacity"], &["/rustc/"]);
    explained("println!(\"a\");\n:time\n1 + 1", &["move `:time` to the top", "line 2"], &[]);
    explained("1 + 1\n:vars", &["move `:vars` to the top", "line 2"], &["importing"]);
    explained(":type x", &["there is no variable `x`"], &[]);
    explained("use epsilab::prelude::*;\nDpSgd::new().target(3.0, 1e-5)", &["`Epsilon(3.0)`"], &[]);
    kernel.run_ok("use epsilab::prelude::*;");
    let (_, _, traceback) = kernel.run("DpSgd?").error();
    assert!(traceback.contains("`?DpSgd`"), "{traceback}");
    let ran = kernel.run_ok("std::thread::spawn(|| panic!(\"boom\")).join().is_err()");
    assert!(ran.stream("stderr").contains("boom") && !ran.stream("stderr").contains("lib.rs"));
    kernel.run_ok("let gone = 1;");
    kernel.run_ok(":clear");
    let (_, _, traceback) = kernel.run("gone").error();
    assert!(traceback.contains("`:clear` in cell") && !traceback.contains("moved"), "{traceback}");
    let (_, value, traceback) = kernel
        .run(
            "struct D; impl Drop for D { fn drop(&mut self) { panic!(\"in drop\"); } }\n\
             let d = D; panic!(\"first\");",
        )
        .error();
    assert!(value.contains("a destructor") && !traceback.contains("lib.rs"), "{traceback}");
}

#[test]
fn wrong_names_of_the_lab_are_explained_with_the_right_ones() {
    let mut kernel = session();
    kernel.run_ok("use epsilab::prelude::*;");
    for (code, advice) in [
        ("let conv = Conv2dSpec::new(3, 16, 3);", "`use epsilab::nn::Conv2dSpec;`"),
        ("let layers = layers![Linear::new(4, 2)];", "`use epsilab::nn::LinearSpec;`"),
        ("let layers = layers![Flatten];", "`use epsilab::nn::Flatten;`"),
        ("DpSgd::new().epochs(\"6\")", "without quotes"),
        ("DpSgd::new().optimizer(\"adam\")", "`Optimizer::adam()`"),
        ("DpSgd::new().mask(1)", "`.pre_prune(&mask)`"),
        ("DpSgd::new().max_grad_norm(1.0)", "`.clip(0.1)`"),
        ("data::image_folder(\"pets\", 24)?", "`&ImageOptions::size(24)`"),
        ("let x = 1\nfn f() {}", "found the end of the cell"),
    ] {
        let (_, _, traceback) = kernel.run(code).error();
        assert!(traceback.contains(advice), "{code}: {traceback}");
    }
}

#[test]
fn completions_follow_closures_and_hide_what_is_private() {
    let mut kernel = session();
    kernel.run_ok(
        "use epsilab::prelude::*;\nlet keep = vec![1, 2, 3]; let text = String::from(\"a\");\n\
         struct Own { f: fn() -> u8, n: u8 }\nlet own = Own { f: || 1, n: 2 };",
    );
    let mut offered = |code: &str| -> Vec<String> {
        let cursor = code.chars().count();
        let reply = kernel.ask("complete_request", json!({ "code": code, "cursor_pos": cursor }));
        let matches = reply["matches"].as_array().expect("a list");
        matches.iter().map(|name| name.as_str().expect("text").to_owned()).collect()
    };
    for code in [
        "keep.iter().map(|a| a + 1).",
        "let w = keep.iter().map(|a| a + 1); w.",
        "(0..3).map(i64::from).",
        "keep.iter().filter(|a| **a > 1).",
        "std::iter::repeat_with(|| 1).ta",
    ] {
        let names = offered(code);
        assert!(names.iter().any(|name| name == "take"), "{code}: {names:?}");
        assert!(!names.iter().any(|name| name == "f"), "{code}: {names:?}");
    }
    assert_eq!(offered("own.")[0], "f");
    for (code, hidden) in [("text.", "vec"), ("keep.", "buf"), ("String::new().", "vec")] {
        let names = offered(code);
        assert!(names.iter().any(|name| name == "len"), "{names:?}");
        assert!(!names.iter().any(|name| name == hidden), "{code}: {names:?}");
    }
    assert_eq!(offered("lab::exercise(\"03."), ["03.1", "03.2"]);
    let mut described = |code: &str| {
        let hover = json!({ "code": code, "cursor_pos": code.chars().count(), "detail_level": 0 });
        kernel.ask("inspect_request", hover)["data"]["text/plain"].as_str().map(str::to_owned)
    };
    let text = described("DpSgd").expect("documentation");
    assert!(text.contains("Abadi et al., 2016"), "{text}");
    let text = described("Grid").expect("documentation");
    assert!(text.contains("private fields") && !text.contains("rule:"), "{text}");
    let text = described("let d = data::glyphs()?").expect("documentation");
    assert!(text.contains("fn glyphs") && !text.contains("branch"), "{text}");
}
