//! Names of runs in the ledger: each attempt at the same settings has a name of its own.

use super::Seeds;
use crate::Result;

/// A new ledger name for an attempt at the stored run `id`.
pub(crate) fn new(id: &str) -> Result<String> {
    Ok(format!("{id}-{}", Seeds::nonce()?))
}

/// Whether `name` is the ledger name of an attempt at the stored run `id`.
pub(crate) fn is_attempt_at(name: &str, id: &str) -> bool {
    name.strip_prefix(id).is_some_and(|rest| rest.starts_with('-'))
}

/// The id of the stored run that `name`, a name of the ledger, is an attempt at: what is before its
/// first dash, since ids are hexadecimal. `name` itself if it is no attempt.
pub(crate) fn attempted(name: &str) -> &str {
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
        let (one, two) = (new("00ff").unwrap(), new("00ff").unwrap());
        assert_ne!(one, two);
        assert!(is_attempt_at(&one, "00ff") && is_attempt_at(&two, "00ff"));
        assert_eq!(
            (attempted(&one), attempted("00ff-1-2"), attempted("00ff")),
            ("00ff", "00ff", "00ff")
        );
        assert_eq!((label("00ff-a1b2c3d4"), label(&one).len()), ("a1b2c3d4", 8));
        assert_eq!(label("00ff"), "", "an id is no label");
        assert!(!is_attempt_at(&one, "00f") && !is_attempt_at(&one, "00ff0"));
    }
}
