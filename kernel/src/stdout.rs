//! Printing of results to stdout.

use std::io::Write;

use epsilab::{Error, Result};

/// Prints a line to stdout.
///
/// # Errors
/// Kind `Io` if stdout can't be written, such as a closed pipe, which is no panic here.
pub fn print_line(text: &str) -> Result<()> {
    writeln!(std::io::stdout().lock(), "{text}").map_err(|e| Error::io("printing", &e))
}
