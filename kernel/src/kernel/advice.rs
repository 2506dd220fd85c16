//! What errors of the compiler mean in a notebook, and what to do about them, in a line each.

use super::errors::CellSource;

/// Lines below an error.
#[derive(Default)]
pub struct Advice {
    pub lines: Vec<String>,
    /// The compiler's own help would mislead.
    pub replaces_rustc: bool,
}

impl Advice {
    fn beside_rustc(line: &str) -> Self {
        Self { lines: vec![format!("  = help: {line}")], replaces_rustc: false }
    }
}

/// Advice for an error whose cause lies in the notebook, or that beginners often make.
pub fn of_error(error: &evcxr::CompilationError, source: &CellSource<'_>) -> Advice {
    let message = error.message();
    let name = message.split('`').nth(1).unwrap_or_default();
    let rustc_knows = error.help().iter().any(|help| help.contains("`?`"));
    match error.code() {
        Some("E0423") if message.starts_with("expected value, found module") => {
            Advice { lines: source.variables.explain_missing(name, true), replaces_rustc: true }
        }
        Some("E0425") if message.starts_with("cannot find value") => {
            Advice { lines: source.variables.explain_missing(name, false), replaces_rustc: false }
        }
        Some("E0432" | "E0433") if name == "burn" || name.starts_with("burn::") => {
            let line = source.code.lines().position(|line| line.contains("burn::"));
            let mut lines: Vec<String> = line
                .map(|at| format!(" --> cell {}, line {}", source.count, at + 1))
                .into_iter()
                .collect();
            lines.push("  = help: the lab re-exports Burn: write `epsilab::burn::…`".into());
            Advice { lines, replaces_rustc: true }
        }
        Some("E0599" | "E0609") if is_of_result(&message) && !rustc_knows => Advice::beside_rustc(
            "the value is a `Result`: put `?` behind the call that makes it, as in `load()?`",
        ),
        Some("E0308") if has_result(error) && !rustc_knows => {
            Advice::beside_rustc("a value is still a `Result`: put `?` behind it")
        }
        None => match reference(&message) {
            Some(_) => Advice::beside_rustc(OWNED),
            None => Advice::default(),
        },
        _ => Advice::default(),
    }
}

/// `no method named `len` found for enum `Result<…>``
fn is_of_result(message: &str) -> bool {
    let of = message.rsplit("found for").next().unwrap_or(message);
    ["`Result<", "`std::result::Result<"].iter().any(|name| of.contains(name))
        || message.contains("on type `Result<")
}

fn has_result(error: &evcxr::CompilationError) -> bool {
    error.spanned_messages().iter().any(|message| {
        let found = message.label.split("found").nth(1).unwrap_or_default();
        found.contains("`Result<") || found.contains("`std::result::Result<")
    })
}

const OWNED: &str = "keep a value of its own, by `.clone()`, `.to_owned()` or \
                     `.collect::<Vec<_>>()`; or put the code into braces `{ … }` if no later cell \
                     needs the variable";

/// The variable of evcxr's message about a reference.
fn reference(message: &str) -> Option<&str> {
    let rest = message.strip_prefix("The variable `")?;
    let (name, rest) = rest.split_once('`')?;
    rest.starts_with(" contains a reference").then_some(name)
}

/// evcxr's message about a variable that can't be kept, with advice. Other messages stay.
pub fn of_variable(message: &str) -> String {
    if let Some(rest) = message.strip_prefix("Couldn't automatically determine type of variable `")
    {
        let name = rest.split('`').next().unwrap_or_default();
        return format!(
            "the type of `{name}` can't be found\nwhat to do: give it one (`let {name}: Type = …;`)"
        );
    }
    let Some((name, rest)) =
        message.strip_prefix("The variable `").and_then(|rest| rest.split_once('`'))
    else {
        return message.to_owned();
    };
    if rest.starts_with(" is a closure") {
        return format!(
            "`{name}` is a closure, which can't be kept for later cells\nwhat to do: write a \
             function (`fn {name}(…) -> …`), or box it (`let {name}: Box<dyn Fn(…) -> …> = \
             Box::new(…);`); or put the code into braces `{{ … }}` if no later cell needs it"
        );
    }
    match rest.strip_prefix(" has type `").and_then(|rest| rest.split_once("` which cannot")) {
        Some((kind, _)) => format!(
            "`{name}` has the type `{}`, which can't be kept for later cells\nwhat to do: {OWNED}",
            readable(kind)
        ),
        None => message.to_owned(),
    }
}

/// A message of the compiler with the name of the lab's crate, which it does not know, and without
/// evcxr's way of putting things.
pub fn readable(message: &str) -> String {
    if let Some(name) = reference(message) {
        return format!("`{name}` borrows from another variable, so it can't be kept");
    }
    let mut out = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(at) = rest.find("_::") {
        out.push_str(&rest[..at]);
        let is_part = out.ends_with(|c: char| c == '_' || c.is_alphanumeric());
        out.push_str(if is_part { "_::" } else { "epsilab::" });
        rest = &rest[at + "_::".len()..];
    }
    out + rest
}

/// The compiler's help: a sentence, and the code that it suggests.
pub fn help(text: &str) -> String {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let sentence = readable(lines.next().unwrap_or_default());
    let code: Vec<&str> = lines.collect();
    let code = code.join(" ");
    match code.is_empty() || sentence.contains(&format!("`{code}`")) {
        true => sentence,
        false => format!("{sentence}: `{}`", code.trim_start_matches(": ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crate_of_the_lab_has_its_name() {
        assert_eq!(readable("found `Result<_::Model, _>`"), "found `Result<epsilab::Model, _>`");
        assert_eq!(readable("`a_::b` and `&_::c`"), "`a_::b` and `&epsilab::c`");
    }

    #[test]
    fn help_shows_code_as_code_and_once() {
        assert_eq!(help("add `;` here\n;"), "add `;` here");
        assert_eq!(help("use a float literal\n.0"), "use a float literal: `.0`");
        assert_eq!(help("give `q` a type\n: Vec<T>"), "give `q` a type: `Vec<T>`");
        assert_eq!(help("remove the argument"), "remove the argument");
    }

    #[test]
    fn variables_that_can_not_be_kept_are_explained() {
        let said = of_variable("The variable `f` is a closure, which cannot be persisted.\nMore");
        assert!(said.starts_with("`f` is a closure") && said.contains("fn f(…)"), "{said}");
        let said = of_variable("The variable `x` has type `Map<'_>` which cannot be persisted.\n");
        assert!(said.contains("`Map<'_>`, which can't") && said.contains(".collect"), "{said}");
        let said = of_variable("Couldn't automatically determine type of variable `n`.\nPlease");
        assert!(said.contains("`let n: Type = …;`"), "{said}");
        assert_eq!(of_variable("anything else"), "anything else");
        let said = readable("The variable `r` contains a reference with a non-static\nlifetime");
        assert!(said.starts_with("`r` borrows"), "{said}");
    }

    #[test]
    fn results_are_recognised_in_messages() {
        assert!(is_of_result("no method named `len` found for enum `Result<T, E>` in the"));
        assert!(is_of_result("no field `a` on type `Result<u8, E>`"));
        assert!(!is_of_result("no method named `Result<` found for struct `A` in the"));
    }
}
