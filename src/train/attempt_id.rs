//! Names of runs in the ledger: each attempt at the same settings has a name of its own.

use super::Seeds;
use crate::Result;

/// Returns a new ledger name for an attempt at the stored run `id`.
pub(crate) fn new_attempt_id(id: &str) -> Result<String> {
    Ok(format!("{id}-{}", Seeds::nonce()?))
}

/// Returns whether `name` is the ledger name of an attempt at the stored run `id`.
pub(crate) fn is_attempt_of(name: &str, id: &str) -> bool {
    name.strip_prefix(id).is_some_and(|rest| rest.starts_with('-'))
}

/// Returns the id of the stored run that `name`, a name of the ledger, is an attempt at: what is
/// before its first dash, since ids are hexadecimal. `name` itself if it is no attempt.
pub(crate) fn run_id_of_attempt(name: &str) -> &str {
    name.split_once('-').map_or(name, |(id, _)| id)
}

/// Returns the random part of `name`, the ledger name of an attempt. It is no hash of data, so it
/// may name the run elsewhere. Empty if `name` is no attempt.
pub(crate) fn label(name: &str) -> &str {
    name.split_once('-').map_or("", |(_, nonce)| nonce)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_known_by_the_run_that_it_is_at() {
        let (one, two) = (new_attempt_id("00ff").unwrap(), new_attempt_id("00ff").unwrap());
        assert_ne!(one, two);
        assert!(is_attempt_of(&one, "00ff") && is_attempt_of(&two, "00ff"));
        assert_eq!(
            (run_id_of_attempt(&one), run_id_of_attempt("00ff-1-2"), run_id_of_attempt("00ff")),
            ("00ff", "00ff", "00ff")
        );
        assert_eq!((label("00ff-a1b2c3d4"), label(&one).len()), ("a1b2c3d4", 8));
        assert_eq!(label("00ff"), "", "an id is no label");
        assert!(!is_attempt_of(&one, "00f") && !is_attempt_of(&one, "00ff0"));
    }
}
