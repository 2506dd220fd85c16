//! Splits texts into words.

/// Returns the words of a text: maximal runs of alphanumeric characters (as defined by Unicode),
/// in lower case. All other characters separate words.
///
/// ```
/// let words: Vec<String> = epsilab::data::tokenize("It's 3.5%, NOT Ω!").collect();
/// assert_eq!(words, ["it", "s", "3", "5", "not", "ω"]);
/// ```
pub fn tokenize(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
}
