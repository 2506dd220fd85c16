//! What a script reads: the answer on stdout, nothing else.

use std::io::Write;

use epsilab::{Error, Result};

/// Prints to stdout; a closed pipe is an error and not a panic.
pub fn print(text: &str) -> Result<()> {
    writeln!(std::io::stdout().lock(), "{text}").map_err(|e| Error::io("printing", &e))
}
