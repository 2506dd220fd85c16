//! The ledgers that can be seen from here, and data sets that have more than one.
//!
//! Each store counts the privacy cost of its own runs only. Two ledgers of one data set therefore
//! mean that neither shows the total.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use epsilab::lab;
use epsilab::show::format::pluralise;
use serde_json::json;

use super::{Check, CheckStatus};
use crate::folder::entries;

/// A store: a folder with `ledger/`.
struct LedgerStore {
    path: PathBuf,
    /// Names of the ledger files, one per data set.
    ledger_names: BTreeSet<String>,
    used_here: bool,
}

/// Lists the store in use, and others above the current folder and in the clone. The ledgers of the
/// store in use are verified.
pub fn check() -> Check {
    let current_dir = std::env::current_dir().unwrap_or_default();
    let check = to_check(&find_stores(&lab::home(), &current_dir, Path::new(epsilab::SOURCE_DIR)));
    match lab::verify_ledgers() {
        Ok(()) => check,
        Err(error) => {
            let what = format!("{}\n{error}", check.summary);
            Check::new("ledgers", CheckStatus::Action, what).with_details(check.details)
        }
    }
}

fn find_stores(home: &Path, current_dir: &Path, clone: &Path) -> Vec<LedgerStore> {
    let home = current_dir.join(home);
    let folders = current_dir.ancestors().map(Path::to_owned).chain([clone.to_owned()]);
    let folders = folders.chain(entries(clone));
    let mut seen = BTreeSet::new();
    std::iter::once(home.clone())
        .chain(folders.map(|folder| folder.join(".epsilab")))
        .filter(|path| seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone())))
        .map(|path| LedgerStore {
            used_here: path == home,
            ledger_names: ledger_names(&path),
            path,
        })
        .filter(|store| store.used_here || !store.ledger_names.is_empty())
        .collect()
}

fn ledger_names(store: &Path) -> BTreeSet<String> {
    entries(&store.join("ledger"))
        .filter(|path| path.extension().is_some_and(|e| e == "jsonl"))
        .filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
        .collect()
}

fn to_check(stores: &[LedgerStore]) -> Check {
    let used_store = stores.iter().find(|store| store.used_here);
    let shared = |store: &LedgerStore| match used_store {
        Some(used_store) if !store.used_here => {
            used_store.ledger_names.intersection(&store.ledger_names).count()
        }
        _ => 0,
    };
    let lines: Vec<String> = stores
        .iter()
        .map(|store| {
            let used = if store.used_here { "used here: " } else { "another store: " };
            let shared = match shared(store) {
                0 => String::new(),
                n => format!(", {} also in the store used here", pluralise(n, "data set")),
            };
            let ledgers = pluralise(store.ledger_names.len(), "ledger");
            format!("{used}{} ({ledgers}{shared})", store.path.display())
        })
        .collect();
    let facts: Vec<_> = stores
        .iter()
        .map(|store| {
            json!({"path": store.path, "used_here": store.used_here,
                "ledgers": store.ledger_names.len(), "data_sets_in_common": shared(store)})
        })
        .collect();
    let check = match stores.iter().map(shared).sum::<usize>() {
        0 => Check::new("ledgers", CheckStatus::Ok, lines.join("\n")),
        _ => Check::new("ledgers", CheckStatus::Note, lines.join("\n")).with_advice(
            "each store counts its own runs only: set EPSILAB_HOME to one folder for all work on \
             the same data",
        ),
    };
    check.with_details(json!({"stores": facts}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_above_and_in_the_clone_are_listed_and_common_data_is_noted() {
        let root = tempfile::tempdir().expect("temp");
        let ledger = |folder: &str, name: &str| {
            let folder = root.path().join(folder).join("ledger");
            std::fs::create_dir_all(&folder).expect("made");
            std::fs::write(folder.join(format!("{name}.jsonl")), "").expect("written");
        };
        ledger("clone/.epsilab", "a");
        ledger("clone/notebooks/.epsilab", "a");
        ledger("clone/notebooks/.epsilab", "b");
        ledger("elsewhere", "c");
        let clone = root.path().join("clone");
        let here = clone.join("notebooks/week");
        let found = find_stores(&clone.join(".epsilab"), &here, &clone);
        let check = to_check(&found);
        assert_eq!((found.len(), check.state), (2, CheckStatus::Note));
        let used_here = format!("used here: {} (1 ledger)", clone.join(".epsilab").display());
        assert!(check.summary.starts_with(&used_here), "{}", check.summary);
        assert!(check.summary.contains("(2 ledgers, 1 data set also in"), "{}", check.summary);
        assert!(check.advice.contains("EPSILAB_HOME"));

        let found =
            find_stores(&root.path().join("elsewhere"), root.path(), &root.path().join("none"));
        let check = to_check(&found);
        assert_eq!((found.len(), check.state), (1, CheckStatus::Ok));
    }
}
