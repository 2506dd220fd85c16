//! Variables of earlier cells: the present ones, and the causes of the removal of others.

use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of names that an error lists.
const MAX_LISTED: usize = 12;

/// Cause of the removal of a variable of an earlier cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RemovalCause {
    /// A cell moved the variable, or replaced it by one that was not kept.
    Moved,
    /// The cell process ended.
    ProcessEnded,
    /// The user removed it by `:clear`.
    Cleared,
}

/// Tracker of the variables from cell to cell.
#[derive(Default)]
pub struct VariableTracker {
    present: BTreeSet<String>,
    removed: BTreeMap<String, (u64, RemovalCause)>,
}

impl VariableTracker {
    /// Records the names that exist after cell `count`, and returns those that the cell lost.
    pub fn update(&mut self, now: BTreeSet<String>, count: u64, loss: RemovalCause) -> Vec<String> {
        let lost: Vec<String> = self.present.difference(&now).cloned().collect();
        self.removed.extend(lost.iter().map(|name| (name.clone(), (count, loss))));
        self.removed.retain(|name, _| !now.contains(name));
        self.present = now;
        lost
    }

    /// Returns notes for an error about a name without a value. `module` is whether there is a
    /// module of that name.
    pub fn explain_missing(&self, name: &str, module: bool) -> Vec<String> {
        let again = format!("run the cell that defines `{name}` again");
        let (note, help) = match self.removed.get(name) {
            Some((cell, RemovalCause::Moved)) => (
                Some(format!("cell {cell} moved or redefined the variable `{name}`")),
                format!("{again}; in cell {cell}, `{name}.clone()` or `&{name}` keeps it"),
            ),
            Some((cell, RemovalCause::ProcessEnded)) => {
                let note = format!("`{name}` was lost in cell {cell}, when the cell process ended");
                (Some(note), again)
            }
            Some((cell, RemovalCause::Cleared)) => {
                (Some(format!("`:clear` in cell {cell} forgot `{name}`")), again)
            }
            None if module => (
                Some(format!("`{name}` is defined in a cell that was not run in this session")),
                format!("run the cell that defines it: `let {name} = …`"),
            ),
            None => {
                let help = format!(
                    "if another cell defines `{name}`, run that cell first; after a restart of the \
                     kernel no variable exists"
                );
                (None, help)
            }
        };
        let module = module.then(|| format!("there is also a module `{name}`, which is no value"));
        let notes = note.into_iter().chain(module).map(|note| format!("  = note: {note}"));
        notes.chain([format!("  = help: {help}")]).collect()
    }

    /// Returns lines for the error of a cell that ended early: the variables that it lost and
    /// those that remain.
    pub fn failure_notes(&self, lost: &[String], defines_variables: bool) -> Vec<String> {
        let present: Vec<String> = self.present.iter().cloned().collect();
        let lines = [
            (
                !lost.is_empty(),
                format!("Lost, because the cell moved or redefined them: {}.", join_names(lost)),
            ),
            (defines_variables, "Variables that this cell defines were not kept.".into()),
            (!present.is_empty(), format!("Still there: {}.", join_names(&present))),
        ];
        lines.into_iter().filter(|(applies, _)| *applies).map(|(_, line)| line).collect()
    }
}

/// Formats names for an error, the first twelve of them.
pub fn join_names(names: &[String]) -> String {
    let listed: Vec<String> =
        names.iter().take(MAX_LISTED).map(|name| format!("`{name}`")).collect();
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
        let mut variables = VariableTracker::default();
        variables.update(names("a b"), 1, RemovalCause::Moved);
        assert_eq!(variables.update(names("b"), 2, RemovalCause::Moved), ["a"]);
        assert!(variables.explain_missing("a", false)[0].contains("cell 2 moved"));
        assert_eq!(variables.update(names(""), 3, RemovalCause::ProcessEnded), ["b"]);
        assert!(variables.explain_missing("b", false)[0].contains("lost in cell 3"));
        variables.update(names("c"), 4, RemovalCause::Moved);
        assert_eq!(variables.update(names(""), 5, RemovalCause::Cleared), ["c"]);
        assert!(variables.explain_missing("c", false)[0].contains("`:clear` in cell 5"));
        variables.update(names("a"), 6, RemovalCause::Moved);
        assert!(variables.explain_missing("a", true)[0].contains("was not run"));
    }

    #[test]
    fn lost_and_kept_variables_are_listed_after_a_failure() {
        let mut variables = VariableTracker::default();
        variables.update((0..14).map(|i| format!("v{i:02}")).collect(), 1, RemovalCause::Moved);
        let lines = variables.failure_notes(&["w".into()], true);
        assert!(lines[0].ends_with("`w`.") && lines[2].contains("`v11` and 2 more"), "{lines:?}");
    }
}
