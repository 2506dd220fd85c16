//! Removes hashes of the data from what a grid writes for others.
//!
//! The id of a run is a hash of its settings and of the data's hash, so someone who has all other
//! examples could use it to test for one. In files for others, runs have their random labels.

/// Returns a message without ids of runs and hashes of data: words of 16 or more hexadecimal digits
/// are replaced by `(name kept back)`, except for the decimals of a number.
pub fn redact_hashes(text: &str) -> String {
    let is_hash = |word: &str| word.len() >= 16 && word.bytes().all(|b| b.is_ascii_hexdigit());
    let mut out = String::with_capacity(text.len());
    for part in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let word = part.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        // The digits of a fraction are kept.
        let fraction = out.ends_with('.') && word.bytes().all(|b| b.is_ascii_digit());
        if is_hash(word) && !fraction {
            out.push_str("(name kept back)");
            out.push_str(&part[word.len()..]);
        } else {
            out.push_str(part);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_back_and_numbers_are_not() {
        let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let text = format!(
            "the run /home/me/runs/00ff00ff00ff00ff is not in {hash}.jsonl, nor \
             ba7816bf8f01cfea-0a1b2c3d; pre_prune = 0.3333333333333333"
        );
        assert_eq!(
            redact_hashes(&text),
            "the run /home/me/runs/(name kept back) is not in (name kept back).jsonl, nor (name \
             kept back)-0a1b2c3d; pre_prune = 0.3333333333333333"
        );
        assert_eq!(redact_hashes("é 1234567890123456"), "é (name kept back)");
    }
}
