//! Printing of results to stdout.

use std::io::Write;

use epsilab::{Error, Result};

/// Prints a line to stdout. A closed pipe is an error, not a panic.
pub fn print_line(text: &str) -> Result<()> {
    writeln!(std::io::stdout().lock(), "{text}").map_err(|e| Error::io("printing", &e))
}
