//! Regular expressions that are part of the program.

use std::sync::LazyLock;

use regex::Regex;

/// A regular expression that is compiled when it is first used.
pub type Pattern = LazyLock<Regex>;

/// Returns the regular expression of a text.
///
/// # Panics
/// If `text` is not a valid regular expression; a test uses each pattern.
pub fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a valid pattern")
}
