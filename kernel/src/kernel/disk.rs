//! A full disk: cells are compiled in a temporary folder.

use std::path::{Path, PathBuf};

/// What a full disk means for a cell.
pub const OF_A_CELL: &str = "the cell did not run, and variables are kept";
/// What a full disk means for the start of the kernel.
pub const OF_THE_START: &str = "cells can't be compiled";

/// Whether a text of a compiler or of evcxr says that the disk is full.
pub fn is_full(text: &str) -> bool {
    ["No space left on device", "Disk quota exceeded"].iter().any(|said| text.contains(said))
}

/// Whether a cell did not compile because the disk is full. Errors with a place in the code quote
/// it, so they are not looked at.
pub fn is_full_in(error: &evcxr::Error) -> bool {
    match error {
        evcxr::Error::CompilationErrors(errors) => errors
            .iter()
            .any(|error| error.primary_spanned_message().is_none() && is_full(&error.rendered())),
        evcxr::Error::Message(text) => is_full(text),
        _ => false,
    }
}

/// The message about a full disk.
pub fn full(consequence: &str) -> String {
    format!(
        "the disk with {} is full: {consequence}\nwhat to do: free some MB there, or set TMPDIR to \
         a folder on another disk and start the kernel again",
        folder().display()
    )
}

/// The folder with those of all sessions.
fn folder() -> PathBuf {
    let work = std::env::var_os("EVCXR_TMPDIR").map(PathBuf::from);
    let of_all = work.as_deref().and_then(Path::parent).and_then(Path::parent);
    of_all.map_or_else(std::env::temp_dir, Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_said_with_its_folder_and_what_to_do() {
        let of = |text: &str| is_full_in(&evcxr::Error::Message(text.into()));
        let cargo = "Error writing '\"/tmp/x/Cargo.toml\"': No space left on device (os error 28)";
        assert!(of(cargo) && !of("expected `;`"));
        // What a crashed cell printed is about another disk.
        let crash = evcxr::Error::SubprocessTerminated("No space left on device".into());
        assert!(!is_full_in(&crash));
        let said = full(OF_A_CELL);
        assert!(said.contains("is full: the cell did not run, and variables are kept"), "{said}");
        assert!(said.contains("what to do: free some MB there, or set TMPDIR"), "{said}");
    }
}
