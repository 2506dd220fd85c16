//! Which variables of earlier cells exist, and what became of the others.

use std::collections::{BTreeMap, BTreeSet};

/// How many names an error lists.
const LISTED: usize = 12;

/// Why a variable of an earlier cell is gone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loss {
    /// A cell moved it, or replaced it by one that was not kept.
    Moved,
    /// It went down with the cell process.
    ProcessEnded,
    /// The user asked to forget it, by `:clear`.
    Cleared,
}

/// Follows the variables from cell to cell.
#[derive(Default)]
pub struct Variables {
    present: BTreeSet<String>,
    lost: BTreeMap<String, (u64, Loss)>,
}

impl Variables {
    /// Takes the names that exist after cell `count`; returns those that the cell lost.
    pub fn update(&mut self, now: BTreeSet<String>, count: u64, loss: Loss) -> Vec<String> {
        let lost: Vec<String> = self.present.difference(&now).cloned().collect();
        self.lost.extend(lost.iter().map(|name| (name.clone(), (count, loss))));
        self.lost.retain(|name, _| !now.contains(name));
        self.present = now;
        lost
    }

    /// Notes for an error about a name without a value. `module`: there is a module of that name.
    pub fn explain_missing(&self, name: &str, module: bool) -> Vec<String> {
        let again = format!("run the cell that makes `{name}` again");
        let (note, help) = match self.lost.get(name) {
            Some((cell, Loss::Moved)) => (
                Some(format!("cell {cell} moved or redefined the variable `{name}`")),
                format!("{again}; in cell {cell}, `{name}.clone()` or `&{name}` keeps it"),
            ),
            Some((cell, Loss::ProcessEnded)) => {
                let note = format!("`{name}` was lost in cell {cell}, when the cell process ended");
                (Some(note), again)
            }
            Some((cell, Loss::Cleared)) => {
                (Some(format!("`:clear` in cell {cell} forgot `{name}`")), again)
            }
            None if module => (
                Some(format!("`{name}` is a variable of a cell that was not run in this session")),
                format!("run the cell that makes it: `let {name} = …`"),
            ),
            None => {
                let help = format!(
                    "if another cell makes `{name}`, run that cell first; after a restart of the \
                     kernel no variable exists"
                );
                (None, help)
            }
        };
        let module = module.then(|| format!("there is also a module `{name}`, which is no value"));
        let notes = note.into_iter().chain(module).map(|note| format!("  = note: {note}"));
        notes.chain([format!("  = help: {help}")]).collect()
    }

    /// Lines for the error of a cell that ended early: which variables it lost and which remain.
    pub fn after_failure(&self, lost: &[String], defines_variables: bool) -> Vec<String> {
        let present: Vec<String> = self.present.iter().cloned().collect();
        let lines = [
            (
                !lost.is_empty(),
                format!("Lost, because the cell moved or redefined them: {}.", list(lost)),
            ),
            (defines_variables, "Variables that this cell defines were not kept.".into()),
            (!present.is_empty(), format!("Still there: {}.", list(&present))),
        ];
        lines.into_iter().filter(|(applies, _)| *applies).map(|(_, line)| line).collect()
    }
}

/// Names for an error, the first twelve of them.
pub fn list(names: &[String]) -> String {
    let listed: Vec<String> = names.iter().take(LISTED).map(|name| format!("`{name}`")).collect();
    match names.len() - listed.len() {
        0 => listed.join(", "),
        more => format!("{} and {more} more", listed.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> BTreeSet<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn losses_are_explained_until_the_variable_exists_again() {
        let mut variables = Variables::default();
        variables.update(names("a b"), 1, Loss::Moved);
        assert_eq!(variables.update(names("b"), 2, Loss::Moved), ["a"]);
        assert!(variables.explain_missing("a", false)[0].contains("cell 2 moved"));
        assert_eq!(variables.update(names(""), 3, Loss::ProcessEnded), ["b"]);
        assert!(variables.explain_missing("b", false)[0].contains("lost in cell 3"));
        variables.update(names("c"), 4, Loss::Moved);
        assert_eq!(variables.update(names(""), 5, Loss::Cleared), ["c"]);
        assert!(variables.explain_missing("c", false)[0].contains("`:clear` in cell 5"));
        variables.update(names("a"), 6, Loss::Moved);
        assert!(variables.explain_missing("a", true)[0].contains("was not run"));
    }

    #[test]
    fn what_a_failure_lost_and_kept_is_listed() {
        let mut variables = Variables::default();
        variables.update((0..14).map(|i| format!("v{i:02}")).collect(), 1, Loss::Moved);
        let lines = variables.after_failure(&["w".into()], true);
        assert!(lines[0].ends_with("`w`.") && lines[2].contains("`v11` and 2 more"), "{lines:?}");
    }
}
