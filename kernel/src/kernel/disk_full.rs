//! A full disk: cells are compiled in a temporary folder.

use std::path::{Path, PathBuf};

/// Consequence of a full disk for a cell.
pub const CELL_CONSEQUENCE: &str = "the cell did not run, and variables are kept";
/// Consequence of a full disk for the start of the kernel.
pub const STARTUP_CONSEQUENCE: &str = "cells can't be compiled";

/// Returns whether a text of a compiler or of evcxr reports a full disk.
pub fn is_disk_full_message(text: &str) -> bool {
    ["No space left on device", "Disk quota exceeded"].iter().any(|phrase| text.contains(phrase))
}

/// Returns whether a cell did not compile because the disk is full. Errors with a place in the
/// code quote it, so they are not looked at.
pub fn is_disk_full_error(error: &evcxr::Error) -> bool {
    match error {
        evcxr::Error::CompilationErrors(errors) => errors.iter().any(|error| {
            error.primary_spanned_message().is_none() && is_disk_full_message(&error.rendered())
        }),
        evcxr::Error::Message(text) => is_disk_full_message(text),
        _ => false,
    }
}

/// Returns the message about a full disk, with its consequence.
pub fn disk_full_message(consequence: &str) -> String {
    format!(
        "the disk with {} is full: {consequence}\nwhat to do: free some MB there, or set TMPDIR to \
         a folder on another disk and start the kernel again",
        sessions_dir().display()
    )
}

/// Returns the folder of the temporary folders of all sessions.
fn sessions_dir() -> PathBuf {
    let work = std::env::var_os("EVCXR_TMPDIR").map(PathBuf::from);
    let of_all = work.as_deref().and_then(Path::parent).and_then(Path::parent);
    of_all.map_or_else(std::env::temp_dir, Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_reported_with_its_folder_and_advice() {
        let is_disk_full = |text: &str| is_disk_full_error(&evcxr::Error::Message(text.into()));
        let cargo = "Error writing '\"/tmp/x/Cargo.toml\"': No space left on device (os error 28)";
        assert!(is_disk_full(cargo) && !is_disk_full("expected `;`"));
        // What a crashed cell printed is about another disk.
        let crash = evcxr::Error::SubprocessTerminated("No space left on device".into());
        assert!(!is_disk_full_error(&crash));
        let message = disk_full_message(CELL_CONSEQUENCE);
        assert!(
            message.contains("is full: the cell did not run, and variables are kept"),
            "{message}"
        );
        assert!(message.contains("what to do: free some MB there, or set TMPDIR"), "{message}");
    }
}
