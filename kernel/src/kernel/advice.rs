//! Advice for compiler errors in a notebook: meaning and remedy, one line each.

use super::borrow_advice;
use super::error_location;
use super::errors::CellSource;
use super::lab_names;
use super::rustc_messages::{self, rewrite_message};

/// Advice to print below an error.
#[derive(Default)]
pub struct Advice {
    pub lines: Vec<String>,
    /// Whether the advice replaces the compiler's own help, which would mislead.
    pub replaces_rustc: bool,
}

impl Advice {
    pub fn alongside_rustc(line: &str) -> Self {
        Self { lines: vec![format!("  = help: {line}")], replaces_rustc: false }
    }

    pub fn instead_of_rustc(line: &str) -> Self {
        Self { replaces_rustc: true, ..Self::alongside_rustc(line) }
    }
}

/// Returns advice for an error whose cause lies in the notebook, or that beginners often make.
pub fn for_error(error: &evcxr::CompilationError, source: &CellSource<'_>) -> Advice {
    let message = rustc_messages::error_title(error);
    let name = message.split('`').nth(1).unwrap_or_default();
    if let Some(line) = for_library_item(error, &message, name) {
        return Advice::instead_of_rustc(&line);
    }
    let rustc_knows = error.help().iter().any(|help| help.contains("`?`"));
    let missing = |is_module| Advice {
        lines: source.variables.explain_missing(name, is_module),
        replaces_rustc: is_module,
    };
    match error.code() {
        Some("E0382" | "E0505" | "E0597" | "E0373") => borrow_advice::for_borrow_error(error, name),
        Some("E0423") if message.starts_with("expected value, found module") => missing(true),
        Some("E0425") if message.starts_with("cannot find value") => missing(false),
        Some("E0432" | "E0433") if name == "burn" || name.starts_with("burn::") => {
            Advice::instead_of_rustc("the lab re-exports Burn: write `epsilab::burn::…`")
        }
        Some("E0432" | "E0433") if is_unknown_crate(error) => {
            let name = name.split("::").next().unwrap_or(name);
            let of_lab = format!("`{name}` is a module of the lab");
            Advice::instead_of_rustc(&match name {
                _ if lab_names::PRELUDE_MODULES.contains(&name) => {
                    format!("{of_lab}: `use epsilab::prelude::*;`")
                }
                _ if lab_names::OTHER_MODULES.contains(&name) => {
                    format!("{of_lab}: `use epsilab::{name};`")
                }
                _ => format!("the first line of a cell adds a crate: `:dep {name} = \"*\"`"),
            })
        }
        Some("E0277") if message.starts_with("the `?` operator") && message.contains("Option") => {
            Advice::alongside_rustc("`?` on an `Option`: `.ok_or(\"why it is missing\")?`")
        }
        Some("E0277") if is_mixed_arithmetic(&message) => Advice::alongside_rustc(
            "the numbers have different types: convert one of them, as in `n as f64`",
        ),
        Some("E0308") if is_cell_return(error) => Advice::instead_of_rustc(
            "a cell has no `return` with a value: write the value as its last line, without `;`",
        ),
        Some("E0599" | "E0609") if is_method_on_result(&message) && !rustc_knows => {
            Advice::alongside_rustc(
                "the value is a `Result`: put `?` after the call that returns it, as in `load()?`",
            )
        }
        Some("E0308") if found_result(error) && !rustc_knows => {
            Advice::alongside_rustc("a value is still a `Result`: put `?` after it")
        }
        Some("E0658") if message.starts_with("the `!` type") => {
            let line = error.json["spans"][0]["text"][0]["text"].as_str();
            let name = line.and_then(error_location::stored_variable).unwrap_or("x");
            Advice::instead_of_rustc(&format!(
                "`{name}` would be kept, but its type contains that of code that never returns: \
                 put the code into braces `{{ … }}`, or give it a type (`let {name}: Type = …;`)"
            ))
        }
        Some("E0423") if is_doc_query(source.code) => Advice::alongside_rustc(&format!(
            "a question mark before a name shows its documentation: `?{name}`"
        )),
        None if message.starts_with("there is no variable") => missing(false),
        None if message == "cannot find derive macro `Module` in this scope" => {
            Advice::instead_of_rustc("`use epsilab::burn; use epsilab::burn::module::Module;`")
        }
        None if rustc_messages::borrowing_variable(&error.message()).is_some() => {
            Advice::alongside_rustc(OWNED_VALUE_ADVICE)
        }
        _ => Advice::default(),
    }
}

/// Returns advice for names and values of the lab.
fn for_library_item(error: &evcxr::CompilationError, message: &str, name: &str) -> Option<String> {
    match error.code()? {
        "E0412" | "E0422" | "E0425" | "E0433" => {
            lab_names::import_path(name).map(|path| format!("the library has it: `use {path};`"))
        }
        "E0308" | "E0277" => {
            let labels = error.spanned_messages().iter().map(|span| span.label.clone());
            let mut texts = labels.chain([message.to_owned()]);
            texts
                .find_map(|text| {
                    lab_names::type_mismatch_advice(&rustc_messages::rewrite_message(&text))
                })
                .map(str::to_owned)
        }
        "E0599" => lab_names::unknown_method_advice(message, name).map(str::to_owned),
        _ => None,
    }
}

/// Returns whether the code is a path and `?`, as one asks for documentation in IPython.
fn is_doc_query(code: &str) -> bool {
    let of_path = |c: char| c.is_alphanumeric() || "_:".contains(c);
    code.trim().strip_suffix('?').is_some_and(|path| path.chars().all(of_path))
}

/// Returns whether rustc reports an unlinked crate; it advises to change a `Cargo.toml`, which a
/// notebook does not have.
fn is_unknown_crate(error: &evcxr::CompilationError) -> bool {
    let mentions = |text: &str| text.contains("unlinked crate");
    mentions(&error.message())
        || error.spanned_messages().iter().any(|message| mentions(&message.label))
}

/// Returns whether the message is about two numeric types, as in ``cannot add `{float}` to `usize`
/// ``.
fn is_mixed_arithmetic(message: &str) -> bool {
    let types: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    ["add", "subtract", "multiply", "divide"]
        .iter()
        .any(|verb| message.split(' ').nth(1) == Some(verb))
        && types.len() == 2
        && types.iter().all(|name| is_number(name.trim_start_matches('&')))
}

/// Returns whether a type is one of Rust's numbers, such as `u8`, `isize` or `{float}`.
fn is_number(name: &str) -> bool {
    let width = name.strip_prefix(['u', 'i', 'f']).unwrap_or_default();
    matches!(name, "{float}" | "{integer}") || width == "size" || width.parse::<u8>().is_ok()
}

/// Returns whether the error is about `return` in a cell, which evcxr makes the body of a closure.
fn is_cell_return(error: &evcxr::CompilationError) -> bool {
    let of_cell = "expected `Result<(), EvcxrUserCodeError>`, found";
    error.spanned_messages().iter().any(|message| message.label.starts_with(of_cell))
}

/// Returns whether the message is about a `Result`, as in ``no method named `len` found for enum
/// `Result<…>` ``.
fn is_method_on_result(message: &str) -> bool {
    let receiver = message.rsplit("found for").next().unwrap_or(message);
    ["`Result<", "`std::result::Result<"].iter().any(|name| receiver.contains(name))
        || message.contains("on type `Result<")
}

fn found_result(error: &evcxr::CompilationError) -> bool {
    error.spanned_messages().iter().any(|message| {
        let found = message.label.split("found").nth(1).unwrap_or_default();
        found.contains("`Result<") || found.contains("`std::result::Result<")
    })
}

const OWNED_VALUE_ADVICE: &str = "keep an owned value, with `.clone()`, `.to_owned()` or \
                                  `.collect::<Vec<_>>()`; or put the code into braces `{ … }` if \
                                  no later cell needs the variable";

/// Returns evcxr's message about a variable that can't be kept, with advice. Other messages stay.
pub fn explain_unkept_variable(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let (name, kind) = (quoted.next().unwrap_or_default(), quoted.next().unwrap_or_default());
    let starts_with = |rest: String| message.starts_with(&format!("The variable `{name}` {rest}"));
    if message.starts_with("Couldn't automatically determine type of variable `") {
        format!(
            "the type of `{name}` can't be found\nwhat to do: give it one without `_` \
             (`let {name}: Type = …;`)"
        )
    } else if starts_with("is a closure".into()) {
        format!(
            "`{name}` is a closure, which can't be kept for later cells\nwhat to do: write a \
             function (`fn {name}(…) -> …`), or box it (`let {name}: Box<dyn Fn(…) -> …> = \
             Box::new(…);`); or put the code into braces `{{ … }}` if no later cell needs it"
        )
    } else if starts_with(format!("has type `{kind}` which cannot")) {
        format!(
            "`{name}` has the type `{}`, which can't be kept for later cells\nwhat to do: \
             {OWNED_VALUE_ADVICE}",
            rewrite_message(kind)
        )
    } else {
        message.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_can_not_be_kept_are_explained() {
        let text = explain_unkept_variable(
            "The variable `f` is a closure, which cannot be persisted.\nMore",
        );
        assert!(text.starts_with("`f` is a closure") && text.contains("fn f(…)"), "{text}");
        let text = explain_unkept_variable(
            "The variable `x` has type `Map<'_>` which cannot be persisted.\n",
        );
        assert!(text.contains("`Map<'_>`, which can't") && text.contains(".collect"), "{text}");
        let text = explain_unkept_variable(
            "Couldn't automatically determine type of variable `n`.\nPlease",
        );
        assert!(text.contains("`let n: Type = …;`"), "{text}");
        assert_eq!(explain_unkept_variable("anything else"), "anything else");
        let text =
            rewrite_message("The variable `r` contains a reference with a non-static\nlifetime");
        assert!(text.starts_with("`r` borrows"), "{text}");
    }

    #[test]
    fn results_are_recognised_in_messages() {
        assert!(is_method_on_result("no method named `len` found for enum `Result<T, E>` in the"));
        assert!(is_method_on_result("no field `a` on type `Result<u8, E>`"));
        assert!(!is_method_on_result("no method named `Result<` found for struct `A` in the"));
    }

    #[test]
    fn only_numbers_of_two_types_are_to_be_converted() {
        assert!(is_mixed_arithmetic("cannot add `{float}` to `usize`"));
        assert!(is_mixed_arithmetic("cannot multiply `&f64` by `i32`"));
        assert!(!is_mixed_arithmetic("cannot add `String` to `usize`"));
        assert!(!is_mixed_arithmetic("cannot find `f64` in `u8`"));
    }
}
