//! Commands in cells: lines before the code that begin with a colon. evcxr has its own; those of
//! the lab become code or are answered here.

use super::errors::CellFailure;
use crate::options;

/// Commands of the lab: name, description, and the code that the command stands for, if any.
const LAB_COMMANDS: [(&str, &str, Option<&str>); 7] = [
    (":help", "this list", None),
    (":vars", "variables with their types and sizes", None),
    (":time", "how long the cell takes to compile and to run", None),
    (":ledger", "what was spent on each data set", Some("epsilab::lab::ledger()?.show();")),
    (":runs", "runs that are stored in this project", Some("epsilab::lab::runs()?.show();")),
    (":data", "data sets by name, and where their files are", Some(DATA_COMMAND_CODE)),
    (":device", "where plans train by default", Some("println!(\"{}\", epsilab::lab::device()?);")),
];

const DATA_COMMAND_CODE: &str = "for set in epsilab::data::available() { println!(\"{:<16} {}\", set.name, \
    set.folder.map_or_else(|| format!(\"no files (`{}` says where to put them)\", \
    epsilab::program::command(\"doctor\")), |folder| folder.display().to_string())); } \
    println!(\"{:<16} {}\", \"drawn by code\", \"data::glyphs, patterns, sentences, drawn_digits, dead_leaves: always there\");";

/// evcxr's commands that `:help` lists.
const LISTED_EVCXR_COMMANDS: [(&str, &str); 8] = [
    (":dep NAME = \"VERSION\"", "adds a crate"),
    (":doc NAME", "documentation of a variable, type or module"),
    (":type NAME", "type of a variable"),
    (":clear", "forgets all variables, functions and imports"),
    (":env NAME=VALUE", "sets an environment variable"),
    (":explain", "explains the last compiler error"),
    (":timing", "switches the printing of times on or off"),
    ("!COMMAND", "runs a command of the shell"),
];

/// evcxr's other commands.
const OTHER_EVCXR_COMMANDS: [&str; 24] = [
    ":internal_debug",
    ":load_config",
    ":version",
    ":t",
    ":preserve_vars_on_panic",
    ":restart",
    ":show_deps",
    ":last_compile_dir",
    ":opt",
    ":fmt",
    ":types",
    ":efmt",
    ":toolchain",
    ":offline",
    ":allow_static_linking",
    ":quit",
    ":time_passes",
    ":sccache",
    ":cache",
    ":clear_cache",
    ":linker",
    ":codegen_backend",
    ":build_env",
    ":last_error_json",
];

/// Cell after parsing of the commands of the lab.
#[derive(Debug, PartialEq)]
pub struct ParsedCell {
    /// Code that remains for evcxr; every line keeps its place.
    pub code: String,
    /// Whether the list of commands is to be printed.
    pub help: bool,
    /// Whether the times are to be printed.
    pub time: bool,
}

impl ParsedCell {
    /// Returns whether nothing remains for evcxr.
    pub fn is_fully_handled(&self) -> bool {
        self.code.trim().is_empty()
    }
}

/// Parses the commands at the beginning of a cell. `variables` are names and types.
///
/// # Errors
/// A command that neither the lab nor evcxr has.
pub fn parse_commands(
    code: &str,
    variables: &[(String, String)],
) -> Result<ParsedCell, CellFailure> {
    if let Some(failure) = reject_ipython_syntax(code) {
        return Err(failure);
    }
    let (mut help, mut time) = (false, false);
    let mut lines: Vec<String> = code.lines().map(str::to_owned).collect();
    let mut expanded = String::new();
    let mut last = None;
    for (index, line) in code.lines().enumerate() {
        let text = line.trim();
        if text.is_empty() || text.starts_with("//") || text.starts_with('!') {
            continue;
        }
        let Some(name) = command_name(text) else { break };
        last = Some(index);
        if let Some((_, _, code)) = LAB_COMMANDS.iter().find(|(command, ..)| *command == name) {
            lines[index].clear();
            help |= name == ":help";
            time |= name == ":time";
            expanded.push_str(code.unwrap_or_default());
            if name == ":vars" {
                expanded.push_str(&variables_code(variables));
            }
            if let Some(rest) = text.strip_prefix(":time ") {
                lines[index] = rest.to_owned();
                break;
            }
        } else if !command_names().any(|known| known == name) {
            return Err(unknown_command_error(name));
        }
    }
    // evcxr reads no command after the first code, so the code follows the last command.
    if let Some(last) = last.filter(|_| !expanded.is_empty()) {
        if lines[last].is_empty() {
            lines[last] = expanded
        } else {
            lines.insert(last + 1, expanded)
        }
    }
    let parsed = ParsedCell { code: lines.join("\n"), help, time };
    if time && parsed.is_fully_handled() {
        Err(CellFailure::new("CompileError", TIME_ALONE))
    } else {
        Ok(parsed)
    }
}

const TIME_ALONE: &str = "`:time` has no code to measure\n\
                          what to do: write the code below it in the same cell";

/// Returns the failure of a cell in IPython's syntax that Rust does not have.
fn reject_ipython_syntax(code: &str) -> Option<CellFailure> {
    let first = code.lines().map(str::trim).find(|line| !line.is_empty())?;
    let text = match first.split_whitespace().next()? {
        "?" | "??" => {
            format!(
                "`{first}` needs a name\nwhat to do: write the name after it, as in `?Vec::push`"
            )
        }
        magic if magic.starts_with('%') => format!(
            "`{magic}` is a command of IPython\nwhat to do: commands begin with a colon here: \
             `:time` above the code measures it, `:help` lists all commands"
        ),
        _ => return None,
    };
    Some(CellFailure::new("CompileError", &text))
}

/// Returns the command in a line below code, where commands are not recognised.
pub fn misplaced_command(line: &str) -> Option<&'static str> {
    let name = command_name(line.trim())?;
    command_names().find(|known| *known == name)
}

/// Returns the name in a cell that asks for its documentation: `?Vec::push`, as in IPython.
pub fn documentation_query(code: &str) -> Option<&str> {
    let name = code.trim().strip_prefix('?')?.trim_start_matches('?').trim();
    (!name.is_empty() && !name.contains(['\n', ';'])).then_some(name)
}

/// Returns the name of the command in a line.
fn command_name(line: &str) -> Option<&str> {
    let name = line.split_whitespace().next()?;
    (name.starts_with(':') && !name.starts_with("::")).then_some(name)
}

/// Returns the names of all commands that begin with a colon.
pub fn command_names() -> impl Iterator<Item = &'static str> {
    let listed = LISTED_EVCXR_COMMANDS.iter().filter_map(|(usage, _)| command_name(usage));
    LAB_COMMANDS.iter().map(|(name, ..)| *name).chain(listed).chain(OTHER_EVCXR_COMMANDS)
}

fn unknown_command_error(name: &str) -> CellFailure {
    let advice = match options::closest_match(name, command_names()) {
        Some(nearest) => format!("did you mean `{nearest}`? `:help` lists all commands"),
        None => "`:help` lists all commands".to_owned(),
    };
    let text = format!("there is no command `{name}`\nwhat to do: {advice}");
    CellFailure::new("CompileError", &text)
}

/// Returns the text that `:help` prints.
pub fn help_text() -> String {
    let line = |name: &str, what: &str| format!("{name:<24} {what}\n");
    let mut text = "Commands stand before the code of a cell, one per line.\n\n".to_owned();
    text.push_str(&line("?NAME", "documentation of a name, as the only line of a cell"));
    LAB_COMMANDS.iter().for_each(|(name, what, _)| text.push_str(&line(name, what)));
    text.push('\n');
    LISTED_EVCXR_COMMANDS.iter().for_each(|(usage, what)| text.push_str(&line(usage, what)));
    text + "\nTab completes names, Shift+Tab shows their documentation.\n"
}

/// Returns code that prints the variables.
fn variables_code(variables: &[(String, String)]) -> String {
    if variables.is_empty() {
        return "println!(\"no variables\");".into();
    }
    let width = |text: fn(&(String, String)) -> &String| {
        variables.iter().map(|entry| text(entry).chars().count()).max().unwrap_or(0)
    };
    let (names, types) = (width(|(name, _)| name), width(|(_, kind)| kind).min(60));
    let print = |(name, kind): &(String, String)| {
        format!(
            "println!(\"{{:<{names}}}  {{:<{types}}}  {{}}\", {name:?}, {kind:?}, {{ use \
             epsilab::cell_process::sizes::*; (&SizeOf(&{name})).size() }});"
        )
    };
    variables.iter().map(print).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_code(code: &str) -> ParsedCell {
        parse_commands(code, &[]).unwrap()
    }

    #[test]
    fn commands_become_code_in_their_lines() {
        let cell = read_code("// ledger\n:ledger\nlet a = 1;\n:runs");
        assert_eq!(cell.code, "// ledger\nepsilab::lab::ledger()?.show();\nlet a = 1;\n:runs");
        let cell = read_code(":ledger\n:dep a = \"1\"\n:device\nx()");
        let lines: Vec<&str> = cell.code.lines().collect();
        assert_eq!((lines[0], lines[1], lines[3]), ("", ":dep a = \"1\"", "x()"));
        assert!(lines[2].contains("ledger") && lines[2].contains("device"), "{}", lines[2]);
        // evcxr's own command stays last.
        let cell = read_code(":ledger\n:show_deps");
        assert_eq!(cell.code, "\n:show_deps\nepsilab::lab::ledger()?.show();");
        let untouched = "let a = b\n    :c;\n::std::f();";
        assert_eq!(read_code(untouched).code, untouched);
    }

    #[test]
    fn help_and_times_leave_the_code_as_it_is() {
        let cell = read_code(":help");
        assert!(cell.help && cell.is_fully_handled());
        let cell = read_code(":time\nwork();\n:help");
        assert_eq!((cell.time, cell.help, cell.code.as_str()), (true, false, "\nwork();\n:help"));
        assert_eq!(read_code(":time work();").code, "work();");
        assert_eq!(documentation_query(" ?Vec::push\n"), Some("Vec::push"));
        assert_eq!((documentation_query("x?"), documentation_query("?a\nb")), (None, None));
        let text = help_text();
        assert!(text.contains(":ledger") && text.contains(":dep NAME"), "{text}");
    }

    #[test]
    fn unknown_commands_are_errors_with_the_nearest_name() {
        let text = |code: &str| parse_commands(code, &[]).unwrap_err().traceback.join("\n");
        assert!(text(":ledgr").contains("did you mean `:ledger`?"), "{}", text(":ledgr"));
        assert!(text(":HELP").contains("did you mean `:help`?"), "{}", text(":HELP"));
        assert!(text(":qqq\n1").contains("`:help` lists all"), "{}", text(":qqq\n1"));
    }

    #[test]
    fn misplaced_and_foreign_commands_are_explained() {
        let text = |code: &str| parse_commands(code, &[]).unwrap_err().traceback.join("\n");
        assert!(text(":time").contains("no code to measure") && text(":time\n").contains("below"));
        assert!(text("%%timeit\nf()").contains("`%%timeit` is a command of IPython"));
        assert!(documentation_query("?").is_none() && text(" ?").contains("needs a name"));
        assert_eq!(
            (misplaced_command("  :vars"), misplaced_command(":x"), misplaced_command("a")),
            (Some(":vars"), None, None)
        );
    }

    #[test]
    fn variables_are_listed_with_types_and_sizes() {
        let variables = [("a".to_owned(), "u8".to_owned()), ("names".into(), "Vec<String>".into())];
        let cell = parse_commands(":vars", &variables).unwrap();
        assert!(cell.code.contains("{:<5}  {:<11}  {}") && cell.code.contains("SizeOf(&names)"));
        assert!(read_code(":vars").code.contains("no variables"));
    }
}
