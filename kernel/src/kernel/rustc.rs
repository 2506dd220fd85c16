//! The compiler of the cells: rustc, called by cargo by way of this program.
//!
//! evcxr's generated code prints fixed words when a cell panics, returns early or shows a value.
//! A cell could print them as well, so before the cell's crate is compiled they are replaced by
//! words with the kernel's nonce. Only generated lines are touched, and no line is added, so that
//! places in errors stay right.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::markers::{Markers, Word};

/// The link to this program under which cargo calls it.
pub const NAME: &str = "epsilab-rustc";

/// evcxr's name for the crate of a cell.
const CELL: &str = "ctx";

/// This program was called in rustc's place.
pub fn is_asked() -> bool {
    let name = std::env::args_os().next();
    name.is_some_and(|name| Path::new(&name).file_name() == Some(OsStr::new(NAME)))
}

/// Becomes rustc.
pub fn run() -> ! {
    let mut args = std::env::args_os().skip(1);
    let rustc = args.next().unwrap_or_else(|| "rustc".into());
    let args: Vec<OsString> = args.collect();
    if let (Some(source), Some(markers)) = (source_of_cell(&args), Markers::inherited())
        && let Err(error) = mark_file(&source, &markers)
    {
        eprintln!("error: the cell can't be prepared in {}: {error}", source.display());
        std::process::exit(1);
    }
    let error = Command::new(&rustc).args(args).exec();
    eprintln!("error: {} can't be started: {error}", rustc.to_string_lossy());
    std::process::exit(1);
}

fn source_of_cell(args: &[OsString]) -> Option<PathBuf> {
    let is_cell = args.windows(2).any(|pair| pair[0] == "--crate-name" && pair[1] == CELL);
    let source = args.iter().find(|arg| Path::new(arg).ends_with("src/lib.rs"))?;
    is_cell.then(|| source.into())
}

fn mark_file(source: &Path, markers: &Markers) -> std::io::Result<()> {
    let code = std::fs::read_to_string(source)?;
    std::fs::write(source, mark(&code, markers))
}

/// The generated words with the nonce. Each stands at a known place: user code may well hold the
/// same words, but comes before or after it.
fn mark(code: &str, markers: &Markers) -> String {
    let mut code = code.to_owned();
    mark_panic(&mut code, markers);
    let module = "\nmod evcxr_internal_runtime {\n// Copyright 2020 The Evcxr Authors.\n";
    if let Some(start) = code.rfind(module) {
        for word in [Word::Changed, Word::Error] {
            let of_evcxr = format!("&str = \"{}\";\n", word.of_evcxr().unwrap_or_default());
            let ours = format!("&str = \"{}\";\n", markers.literal(word));
            replace_first(&mut code, start, &of_evcxr, &ours);
        }
    }
    if let Some(start) = code.rfind("fn evcxr_send_text_plain(text: &str)") {
        let text = markers.literal(Word::Text);
        replace_first(&mut code, start, "EVCXR_BEGIN_CONTENT text/plain", &text);
        let end = markers.literal(Word::TextEnd);
        replace_first(&mut code, start, "EVCXR_END_CONTENT", &end);
    }
    let display = "\n).evcxr_display();";
    let displayed = markers.literal(Word::Displayed);
    let said = format!("{display} println!(\"{displayed}\");\n");
    replace_last(&mut code, &format!("{display}\n"), &said);
    code
}

/// The last one is evcxr's if only generated lines follow: cells need not be guarded from panics.
fn mark_panic(code: &mut String, markers: &Markers) {
    let line = |word: &str| format!("\n    println!(\"{word}\");\n");
    let evcxr = line(Word::Panic.of_evcxr().unwrap_or_default());
    let generated =
        |line: &str| matches!(line, "}" | "}}") || line.starts_with("evcxr_variable_store");
    if let Some(start) = code.rfind(&evcxr)
        && code[start + evcxr.len()..].lines().all(generated)
    {
        code.replace_range(start..start + evcxr.len(), &line(&markers.literal(Word::Panic)));
    }
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
    fn generated_words_get_the_nonce_and_the_same_words_of_the_user_stay() {
        let markers = Markers::new();
        let users = "fn f() {\n    println!(\"EVCXR_PANIC_NOTIFICATION\");\n}\n\
                     const A: &str = \"EVCXR_ERROR_OCCURRED\";\n";
        let code = format!("{users}{MODULE}{users}{PANIC}evcxr_variable_store\n}}\n");
        let marked = mark(&code, &markers);
        assert_eq!(marked.matches(users).count(), 2, "{marked}");
        for word in [Word::Panic, Word::Changed, Word::Error] {
            let literal = format!("\"{}\"", markers.literal(word));
            assert_eq!(marked.matches(&literal).count(), 1, "{marked}");
        }
        assert_eq!(marked.lines().count(), code.lines().count());
        let unguarded = format!("{users}evcxr_variable_store\n}}\n");
        assert_eq!(mark(&unguarded, &markers), unguarded);
    }

    #[test]
    fn values_are_shown_by_words_with_the_nonce() {
        let markers = Markers::new();
        let plain = "fn evcxr_send_text_plain(text: &str)\n{\n\
            output.write_all(b\"EVCXR_BEGIN_CONTENT text/plain\\n\")?;\n\
            output.write_all(b\"\\nEVCXR_END_CONTENT\\n\")?;\n}\n";
        let marked = mark(plain, &markers);
        assert!(!marked.contains("EVCXR"), "{marked}");
        let marked = mark("(\nx\n).evcxr_display();\n}\n", &markers);
        let displayed = markers.literal(Word::Displayed);
        assert_eq!(marked, format!("(\nx\n).evcxr_display(); println!(\"{displayed}\");\n}}\n"));
    }

    #[test]
    fn only_the_crate_of_a_cell_is_touched() {
        let args = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let cell = args("--crate-name ctx --edition=2024 src/lib.rs --emit=link");
        assert_eq!(source_of_cell(&cell), Some("src/lib.rs".into()));
        assert_eq!(source_of_cell(&args("--crate-name other src/lib.rs")), None);
        assert_eq!(source_of_cell(&args("-vV")), None);
    }
}
