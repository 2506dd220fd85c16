//! The page of the book with the options of all commands, from the definitions of the command line.

use std::fmt::Write;
use std::path::PathBuf;

use clap::{Arg, Command};
use epsilab::program;

const HEAD: &str = "\
# Options of commands

All commands with their arguments and options, from the program itself. In a clone the program is
`cargo lab`, installed it is `epsilab`; [commands](commands.md) is an overview.
";

/// Text for a cell of a table: one line, without the sign that ends a cell.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// An argument or option with its value, such as `--epsilon <EPSILON>`.
fn signature(arg: &Arg) -> String {
    let values: Vec<String> =
        arg.get_value_names().unwrap_or_default().iter().map(|name| format!("<{name}>")).collect();
    let takes_values = arg.get_num_args().is_none_or(|number| number.takes_values());
    let values = if takes_values { values.join(" ") } else { String::new() };
    let name = match (arg.get_long(), arg.get_short()) {
        (Some(long), _) => format!("--{long}"),
        (None, Some(short)) => format!("-{short}"),
        (None, None) => String::new(),
    };
    format!("`{}`", cell(&format!("{name} {values}")))
}

fn row(page: &mut String, arg: &Arg) {
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut help = cell(&help);
    let defaults: Vec<_> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let is_switch = arg.get_num_args().is_some_and(|number| !number.takes_values());
    if !defaults.is_empty() && !is_switch {
        write!(help, " \\[default: {}\\]", cell(&defaults.join(" "))).expect("written");
    }
    let aliases = arg.get_visible_aliases().unwrap_or_default();
    if !aliases.is_empty() {
        let aliases: Vec<String> = aliases.iter().map(|alias| format!("`--{alias}`")).collect();
        write!(help, " Also {}.", aliases.join(", ")).expect("written");
    }
    writeln!(page, "| {} | {help} |", signature(arg)).expect("written");
}

/// A command and its subcommands: description, options, and the text below the help as it is.
fn section(page: &mut String, path: &str, command: &Command) {
    let about = command
        .get_long_about()
        .or(command.get_about())
        .map(ToString::to_string)
        .unwrap_or_default();
    write!(page, "\n## {path}\n\n{}\n", about.trim()).expect("written");
    let is_shown =
        |arg: &&Arg| !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str());
    let args: Vec<&Arg> = command.get_arguments().filter(is_shown).collect();
    if !args.is_empty() {
        page.push_str("\n| option | meaning |\n|---|---|\n");
        args.iter().for_each(|arg| row(page, arg));
    }
    if let Some(text) = command.get_after_long_help().or(command.get_after_help()) {
        let text = text.to_string().replace(&*program::name(), "epsilab");
        write!(page, "\n```text\n{}\n```\n", text.trim()).expect("written");
    }
    for subcommand in command.get_subcommands().filter(|one| one.get_name() != "help") {
        section(page, &format!("{path} {}", subcommand.get_name()), subcommand);
    }
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    let mut command = super::build_command();
    command.build();
    let shown =
        command.get_subcommands().filter(|one| one.get_name() != "help" && !one.is_hide_set());
    shown.for_each(|one| section(&mut page, one.get_name(), one));
    page
}

/// `EPSILAB_WRITE_DOCS=1` writes the page.
#[test]
fn the_page_lists_all_commands_and_options() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let path = root.join("book/src/reference/options.md");
    if std::env::var_os("EPSILAB_WRITE_DOCS").is_some() {
        std::fs::write(&path, page()).expect("written");
    }
    let saved = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(saved == page(), "save it again: EPSILAB_WRITE_DOCS=1 cargo test the_page_lists");
}
