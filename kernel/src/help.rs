//! Text below the options of a command in its help: examples, and paragraphs about it.

use epsilab::program;

/// Examples of a command, and the paragraphs below them, which may be empty. Examples are what
/// users type after the name of the program, one command per line; a backslash continues the
/// command in the next line.
pub struct Help(pub &'static str, pub &'static str);

impl Help {
    /// Returns the text, with commands of the program that is running.
    pub fn text(&self) -> String {
        self.render(&program::name())
    }

    fn render(&self, program: &str) -> String {
        let mut text = "Examples:\n".to_owned();
        let mut goes_on = false;
        for line in self.0.lines() {
            text.push_str(&match (goes_on, line.is_empty()) {
                (true, _) => format!("  {:width$} {line}\n", "", width = program.len()),
                (false, true) => "\n".to_owned(),
                (false, false) => format!("  {program} {line}\n"),
            });
            goes_on = line.ends_with('\\');
        }
        format!("{text}\n{}", self.1).trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_example_is_a_command_of_the_program() {
        let help = Help("      open\n\nrun A \\\n    --fast", "`run` runs.");
        let expected = "Examples:\n  epsilab       open\n\n  epsilab run A \\\n              --fast\n\n\
                        `run` runs.";
        assert_eq!(help.render("epsilab"), expected);
        assert_eq!(Help("list", "").render("cargo lab"), "Examples:\n  cargo lab list");
    }
}
