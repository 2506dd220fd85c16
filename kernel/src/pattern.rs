//! Regular expressions that are part of the program.

use std::sync::LazyLock;

use regex::Regex;

/// A regular expression that is compiled when it is first used.
pub type Pattern = LazyLock<Regex>;

/// Returns the regular expression of a text.
///
/// # Panics
/// The text is none, which the tests of its user show.
pub fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a valid pattern")
}
