//! SHA-256 as text, and numbers as people write them.

use sha2::{Digest, Sha256};

/// The SHA-256 of some bytes, in lower-case hexadecimal.
pub(super) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Bytes in lower-case hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |d: u8| char::from(DIGITS[usize::from(d)]);
    bytes.iter().flat_map(|&b| [digit(b >> 4), digit(b & 15)]).collect()
}

/// A count with thousands separated: `60,000`.
pub(super) fn count(n: usize) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sha256_of_abc_is_the_published_one() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(b"abc"), expected);
    }

    #[test]
    fn counts_are_grouped_by_thousands() {
        let seen: Vec<String> = [0, 999, 1_000, 60_000, 1_281_167].map(count).into();
        assert_eq!(seen, ["0", "999", "1,000", "60,000", "1,281,167"]);
    }
}
