//! Wrapper around rustc: cargo calls this program to compile cells.
//!
//! evcxr's generated code prints fixed words when a cell panics, returns early or shows a value. A
//! cell could print the same words, so the wrapper replaces them by markers with the kernel's
//! nonce. It changes generated lines only and keeps line numbers.
//!
//! It also brings the lab's printing macros into scope, which keep the order of both streams, asks
//! for line tables, so that a panic in a library can name the line of the cell, and inserts the
//! points at which loops can be stopped. If the cell does not compile with them, it is compiled
//! without, so that the columns of errors are those of the cell.
//!
//! evcxr compiles a cell that ends in a value without `evcxr_display` twice. A trait that gives
//! this method to common types saves the second time.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::markers::{Marker, Markers};
use super::safepoints;

/// Name of the link to this program under which cargo calls it.
pub const WRAPPER_NAME: &str = "epsilab-rustc";

/// evcxr's name for the crate of a cell.
const CELL_CRATE: &str = "ctx";

/// Returns whether this program was called in place of rustc.
pub fn is_invoked() -> bool {
    std::env::args_os().next().is_some_and(|name| is_self(&name))
}

fn is_self(program: &OsStr) -> bool {
    Path::new(program).file_name() == Some(OsStr::new(WRAPPER_NAME))
}

/// Prepares the source of a cell and replaces this process by rustc.
pub fn run() -> ! {
    // cargo calls it as a wrapper around the wrapper of the user's own crates, which is also this.
    let mut args = std::env::args_os().skip(1).skip_while(|arg| is_self(arg));
    let rustc = args.next().unwrap_or_else(|| "rustc".into());
    let mut args: Vec<OsString> = args.collect();
    if let (Some(source), Some(markers)) = (cell_source_path(&args), Markers::from_env()) {
        let links_lab = args.iter().any(|arg| arg.as_encoded_bytes().starts_with(b"epsilab="));
        args.extend(LINE_TABLES.map(OsString::from));
        let compiled = prepare(&source, &markers, links_lab)
            .and_then(|cell| cell.compile_extended(&rustc, &args, &source));
        match compiled {
            Ok(Some(code)) => std::process::exit(code),
            Ok(None) => {}
            Err(error) => {
                eprintln!("error: the cell can't be prepared in {}: {error}", source.display());
                std::process::exit(1);
            }
        }
    }
    let error = Command::new(&rustc).args(args).exec();
    eprintln!("error: {} can't be started: {error}", rustc.to_string_lossy());
    std::process::exit(1);
}

fn cell_source_path(args: &[OsString]) -> Option<PathBuf> {
    let is_cell = args.windows(2).any(|pair| pair[0] == "--crate-name" && pair[1] == CELL_CRATE);
    let source = args.iter().find(|arg| Path::new(arg).ends_with("src/lib.rs"))?;
    is_cell.then(|| source.into())
}

/// Compiler flags that overrule evcxr's profile, which strips all debug information.
const LINE_TABLES: [&str; 2] = ["-Cdebuginfo=line-tables-only", "-Cstrip=none"];

/// Import of the lab's versions of the printing macros. They shadow the standard ones in the whole
/// crate.
const PRINT_MACROS: &str =
    "#[macro_use(print, println, eprint, eprintln, dbg)] extern crate epsilab as _;\n";

/// Macro call that gives common types the method `evcxr_display`.
const DEBUG_DISPLAY_IMPLS: &str = "::epsilab::plain_values!();\n";

/// Name of the file beside this program that exists if values are to be shown in a format of the
/// user's.
pub const CUSTOM_FORMAT_FILE: &str = "own-format";

fn has_custom_format() -> bool {
    let program = std::env::args_os().next().unwrap_or_default();
    Path::new(&program).with_file_name(CUSTOM_FORMAT_FILE).exists()
}

/// Cell that is ready to be compiled.
struct PreparedCell {
    code: String,
    /// Code with safepoints and the display of plain values, if it has either.
    extended: Option<String>,
    has_safepoints: bool,
}

fn prepare(source: &Path, markers: &Markers, links_lab: bool) -> std::io::Result<PreparedCell> {
    let code = std::fs::read_to_string(source)?;
    // A trait of the user's may have the method, too.
    let has_own_display = code.contains("fn evcxr_display") || has_custom_format();
    let plain = links_lab && code.contains(DISPLAY_CALL) && !has_own_display;
    let mut code = insert_markers(&code, markers, links_lab);
    // Without evcxr's guard, unwinding would end the process.
    let is_guarded = code.contains(&markers.to_literal(Marker::Panic));
    let stoppable = safepoints::insert_safepoints(&code).filter(|_| links_lab && is_guarded);
    let has_stop_points = stoppable.is_some();
    let mut extended = stoppable.or_else(|| plain.then(|| code.clone()));
    if links_lab {
        code.push_str(PRINT_MACROS);
        if let Some(extended) = &mut extended {
            extended.push_str(PRINT_MACROS);
            extended.push_str(if plain { DEBUG_DISPLAY_IMPLS } else { "" });
        }
    }
    std::fs::write(source, &code)?;
    Ok(PreparedCell { code, extended, has_safepoints: has_stop_points })
}

impl PreparedCell {
    /// Compiles the cell with its extensions and returns the exit code of the compiler, or `None`
    /// if it has no extensions. A cell that does not compile with them is compiled without.
    fn compile_extended(
        &self,
        rustc: &OsStr,
        args: &[OsString],
        source: &Path,
    ) -> std::io::Result<Option<i32>> {
        let Some(extended) = &self.extended else { return Ok(None) };
        std::fs::write(source, extended)?;
        let compile = || Command::new(rustc).args(args).output();
        let mut output = compile()?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        // A value without the method: evcxr will show it in another way, whatever else fails.
        let no_display =
            stderr.contains("`evcxr_display`") && !stderr.contains(AMBIGUOUS_METHOD_CODE);
        // Otherwise the trait changes nothing about errors.
        let other = self.has_safepoints || stderr.contains(AMBIGUOUS_METHOD_CODE);
        if !output.status.success() && !no_display && other {
            std::fs::write(source, &self.code)?;
            output = compile()?;
        }
        let stderr = String::from_utf8_lossy(&output.stderr);
        std::io::stdout().write_all(&output.stdout)?;
        std::io::stderr().write_all(drop_move_locations(&stderr).as_bytes())?;
        Ok(Some(output.status.code().unwrap_or(1)))
    }
}

/// Returns the compiler's messages, in which an error about a variable that can't be kept because
/// the cell moved it names no other place. If the value at the end of the cell moved it, evcxr
/// would take that place for a value without `evcxr_display` and show it by `Debug`.
fn drop_move_locations(stderr: &str) -> String {
    let line = |line: &str| {
        let Ok(mut message) = serde_json::from_str::<Value>(line) else { return line.to_owned() };
        let is_kept = |span: &Value| {
            let text = span["text"][0]["text"].as_str().unwrap_or_default();
            span["is_primary"] == true && text.trim_start().starts_with(STORE_CALL)
        };
        let spans = message["spans"].as_array().cloned().unwrap_or_default();
        let kept: Vec<Value> = spans.into_iter().filter(is_kept).collect();
        if message["code"]["code"] != "E0382" || kept.is_empty() {
            return line.to_owned();
        }
        message["spans"] = kept.into();
        message["children"] = Value::Array(Vec::new());
        message.to_string()
    };
    stderr.lines().map(|text| line(text) + "\n").collect()
}

/// Generated call by which evcxr stores a variable for later cells.
const STORE_CALL: &str = "evcxr_variable_store.put_variable";

/// Error code for a method that several traits have.
const AMBIGUOUS_METHOD_CODE: &str = "E0034";

/// Replaces the generated words by markers. Each stands at a known place; user code with the same
/// words comes before or after it.
fn insert_markers(code: &str, markers: &Markers, links_lab: bool) -> String {
    let mut code = code.to_owned();
    insert_panic_marker(&mut code, markers);
    let module = "\nmod evcxr_internal_runtime {\n// Copyright 2020 The Evcxr Authors.\n";
    if let Some(start) = code.rfind(module) {
        for marker in [Marker::Changed, Marker::Error] {
            let of_evcxr = format!("&str = \"{}\";\n", marker.evcxr_keyword().unwrap_or_default());
            let replacement = format!("&str = \"{}\";\n", markers.to_literal(marker));
            replace_first(&mut code, start, &of_evcxr, &replacement);
        }
        // Not the lab's macros, which wait until all before them is published.
        let print_call = "println!(\"{}\", evcxr_internal_runtime::USER_ERROR_OCCURRED);";
        replace_last(&mut code, print_call, &format!("::std::{print_call}"));
        let before = format!("{EARLY_RETURN} ::std::e{print_call}");
        replace_last(&mut code, EARLY_RETURN, &before);
    }
    let (text, end) = (markers.to_literal(Marker::Text), markers.to_literal(Marker::TextEnd));
    if let Some(start) = code.rfind("fn evcxr_send_text_plain(text: &str)") {
        replace_first(&mut code, start, "EVCXR_BEGIN_CONTENT text/plain", &text);
        replace_first(&mut code, start, "EVCXR_END_CONTENT", &end);
    }
    move_value_out_of_macro(&mut code);
    let mut display_code = DISPLAY_CALL.trim_end().to_owned();
    if links_lab {
        display_code += &format!(
            " if let Some(text) = ::epsilab::cell_process::debug_text::take() \
             {{ ::std::println!(\"{text}\\n{{text}}\\n{end}\"); }}"
        );
    }
    display_code += &format!(" ::std::println!(\"{}\");\n", markers.to_literal(Marker::Displayed));
    replace_last(&mut code, DISPLAY_CALL, &format!("\n{}", display_code.trim_start()));
    code
}

/// Code of evcxr for an error that a cell returns by `?`, before the error is printed.
const EARLY_RETURN: &str = "fn from(error: T) -> Self {";

/// Code by which evcxr shows the value of a cell, behind the value.
const DISPLAY_CALL: &str = "\n).evcxr_display();\n";

/// Replaces the last word for a panic by a marker if only generated lines follow it. Otherwise the
/// word is the user's: evcxr compiles some cells without catching panics.
fn insert_panic_marker(code: &mut String, markers: &Markers) {
    let evcxr =
        format!("\n    println!(\"{}\");\n", Marker::Panic.evcxr_keyword().unwrap_or_default());
    let replacement =
        format!("\n    ::std::println!(\"{}\");\n", markers.to_literal(Marker::Panic));
    let generated =
        |line: &str| matches!(line, "}" | "}}") || line.starts_with("evcxr_variable_store");
    if let Some(start) = code.rfind(&evcxr)
        && code[start + evcxr.len()..].lines().all(generated)
    {
        code.replace_range(start..start + evcxr.len(), &replacement);
    }
}

/// Moves the value of a cell that has no display method out of the argument of a macro. Outside of
/// it its loops are found, and the compiler names the columns of its errors.
fn move_value_out_of_macro(code: &mut String) {
    const SHOW: &str = "evcxr_send_text_plain(&format!(";
    let Some(start) = code.rfind(&format!("\n{SHOW}")).map(|at| at + 1) else { return };
    let line = code[start..].lines().next().unwrap_or_default();
    let Some(format) = line.strip_prefix(SHOW).and_then(|rest| rest.strip_suffix(",&(")) else {
        return;
    };
    let shown = format!("\n) {{ value => {SHOW}{format}, value)) }};\n");
    let head = start..start + line.len();
    let Some(end) = code.rfind("\n)));\n").filter(|end| *end > head.end) else { return };
    code.replace_range(end..end + "\n)));\n".len(), &shown);
    code.replace_range(head, "match &(");
}

fn replace_last(code: &mut String, old: &str, new: &str) {
    if let Some(start) = code.rfind(old) {
        code.replace_range(start..start + old.len(), new);
    }
}

fn replace_first(code: &mut String, from: usize, old: &str, new: &str) {
    if let Some(start) = code[from..].find(old).map(|at| from + at) {
        code.replace_range(start..start + old.len(), new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = "mod evcxr_internal_runtime {\n// Copyright 2020 The Evcxr Authors.\n\
        pub const VARIABLE_CHANGED_TYPE: &str = \"EVCXR_VARIABLE_CHANGED_TYPE:\";\n\
        pub const USER_ERROR_OCCURRED: &str = \"EVCXR_ERROR_OCCURRED\";\n}\n";
    const PANIC: &str = "  Err(_) => {\n    println!(\"EVCXR_PANIC_NOTIFICATION\");\n}}\n";

    #[test]
    fn generated_words_become_markers_and_the_same_words_of_the_user_stay() {
        let markers = Markers::new();
        let users = "fn f() {\n    println!(\"EVCXR_PANIC_NOTIFICATION\");\n}\n\
                     const A: &str = \"EVCXR_ERROR_OCCURRED\";\n";
        let code = format!("{users}{MODULE}{users}{PANIC}evcxr_variable_store\n}}\n");
        let marked = insert_markers(&code, &markers, false);
        assert_eq!(marked.matches(users).count(), 2, "{marked}");
        for marker in [Marker::Panic, Marker::Changed, Marker::Error] {
            let literal = format!("\"{}\"", markers.to_literal(marker));
            assert_eq!(marked.matches(&literal).count(), 1, "{marked}");
        }
        assert_eq!(marked.lines().count(), code.lines().count());
        let unguarded = format!("{users}evcxr_variable_store\n}}\n");
        assert_eq!(insert_markers(&unguarded, &markers, false), unguarded);
    }

    #[test]
    fn a_moved_variable_that_is_kept_names_no_other_place() {
        let span = |text: &str, primary: bool| serde_json::json!({ "is_primary": primary, "text": [{ "text": text }] });
        let message = |code: &str, first: &str| {
            serde_json::json!({ "code": { "code": code }, "message": "borrow of moved value: `e`",
                "spans": [span(first, true), span("(figures::f(&[e])", false)],
                "children": [{ "message": "clone it", "spans": [span("(e", true)] }] })
        };
        let spans = |message: &Value| {
            let output = drop_move_locations(&format!("{message}\nwarning: 1\n"));
            let (first, rest) = output.split_once('\n').expect("two lines");
            assert_eq!(rest, "warning: 1\n");
            let after: Value = serde_json::from_str(first).expect("JSON");
            let length = |part: &str| after[part].as_array().map_or(0, Vec::len);
            (length("spans"), length("children"))
        };
        let keep = "evcxr_variable_store.put_variable::<Event>(stringify!(e), e);";
        assert_eq!(spans(&message("E0382", keep)), (1, 0));
        // A mistake of the user's keeps all places, and so do other errors.
        assert_eq!(spans(&message("E0382", "e.show();")), (2, 1));
        assert_eq!(spans(&message("E0505", keep)), (2, 1));
    }

    #[test]
    fn an_early_return_is_marked_before_the_error_is_printed() {
        let says = "println!(\"{}\", evcxr_internal_runtime::USER_ERROR_OCCURRED);";
        let code =
            format!("fn from(error: T) -> Self {{\n eprintln!(\"{{}}\", error);\n {says}\n}}\n");
        let marked = insert_markers(&format!("{code}{MODULE}"), &Markers::new(), true);
        let at = |text: &str| marked.find(text).expect(text);
        assert!(at(&format!("::std::e{says}")) < at(" eprintln!"), "{marked}");
        assert!(at(" eprintln!") < at(&format!(" ::std::{says}")), "{marked}");
        assert_eq!(marked.lines().count(), (code + MODULE + PRINT_MACROS).lines().count() - 1);
    }

    #[test]
    fn values_are_shown_between_markers() {
        let markers = Markers::new();
        let plain = "fn evcxr_send_text_plain(text: &str)\n{\n\
            output.write_all(b\"EVCXR_BEGIN_CONTENT text/plain\\n\")?;\n\
            output.write_all(b\"\\nEVCXR_END_CONTENT\\n\")?;\n}\n";
        let marked = insert_markers(plain, &markers, false);
        assert!(!marked.contains("EVCXR"), "{marked}");
        let marked = insert_markers("(\nx\n).evcxr_display();\n}\n", &markers, false);
        let displayed = markers.to_literal(Marker::Displayed);
        assert_eq!(
            marked,
            format!("(\nx\n).evcxr_display(); ::std::println!(\"{displayed}\");\n}}\n")
        );
    }

    #[test]
    fn a_value_is_moved_out_of_the_argument_of_a_macro() {
        let code =
            "f();\nevcxr_send_text_plain(&format!(\"{:#?}\",&(\n  loop { g(\n)))\n; }\n)));\nOk";
        let expected = "f();\nmatch &(\n  loop { g(\n)))\n; }\n) { value => \
            evcxr_send_text_plain(&format!(\"{:#?}\", value)) };\nOk";
        let mut moved = code.to_owned();
        move_value_out_of_macro(&mut moved);
        assert_eq!(moved, expected);
        let users = "evcxr_send_text_plain(&format!(\"a\"));\n";
        let mut kept = users.to_owned();
        move_value_out_of_macro(&mut kept);
        assert_eq!(kept, users);
    }

    #[test]
    fn only_the_crate_of_a_cell_is_changed() {
        let args = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let cell = args("--crate-name ctx --edition=2024 src/lib.rs --emit=link");
        assert_eq!(cell_source_path(&cell), Some("src/lib.rs".into()));
        assert_eq!(cell_source_path(&args("--crate-name other src/lib.rs")), None);
        assert_eq!(cell_source_path(&args("-vV")), None);
    }
}
