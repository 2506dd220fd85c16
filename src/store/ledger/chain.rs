//! Hash chain over the lines of a ledger. Each line authenticates all lines before it.
//!
//! A line ends in `,"chain":"<link>"}`. Its body is everything before that comma, byte for byte:
//!
//! ```text
//! link(line) = hex SHA-256( link(line before) + "\n" + body )
//! ```
//!
//! The first line uses, in place of the previous link, hex SHA-256( data hash + "\n" ). The hash
//! covers the text itself, so it does not depend on how numbers are formatted.

use sha2::{Digest, Sha256};

use crate::data::digest::hex;

const LINK_PREFIX: &str = ",\"chain\":\"";
const LINK_SUFFIX: &str = "\"}";

/// State of the chain before its next line: the link of the last line.
#[derive(Clone)]
pub(super) struct Chain(String);

impl Chain {
    /// Creates the chain of an empty ledger.
    pub(super) fn new(data_hash: &str) -> Self {
        Self(hex(&Sha256::new_with_prefix(data_hash).chain_update("\n").finalize()))
    }

    /// Checks that `line`, without its line end, is the next line, and advances to it. Returns
    /// `false` if it is not.
    pub(super) fn advance(&mut self, line: &str) -> bool {
        let parts = line.strip_suffix(LINK_SUFFIX).and_then(|line| line.rsplit_once(LINK_PREFIX));
        match parts {
            Some((body, link)) if link == self.link_of(body) => {
                self.0 = link.to_owned();
                true
            }
            _ => false,
        }
    }

    /// Adds the link to a JSON object, which becomes the next line of this chain.
    pub(super) fn with_link(&self, object: &str) -> String {
        let body = object.strip_suffix('}').unwrap_or(object);
        format!("{body}{LINK_PREFIX}{}{LINK_SUFFIX}", self.link_of(body))
    }

    /// Returns the link of the last line, which the next line continues.
    pub(super) fn last(&self) -> &str {
        &self.0
    }

    fn link_of(&self, body: &str) -> String {
        let hash = Sha256::new_with_prefix(&self.0).chain_update("\n").chain_update(body);
        hex(&hash.finalize())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_is_the_documented_hash() {
        // printf 'abc\n' | sha256sum; then printf '%s\n{"a":1' $that | sha256sum
        let chain = Chain::new("abc");
        let first = "edeaaff3f1774ad2888673770c6d64097e391bc362d7d6fb34982ddf0efd18cb";
        assert_eq!(chain.last(), first);
        let second = "66ff382e0e523a4aa0eee9fdf4a32ae05229a2717fe0ff440e1aaf9bed8d8f86";
        assert_eq!(chain.with_link(r#"{"a":1}"#), format!(r#"{{"a":1,"chain":"{second}"}}"#));
    }

    #[test]
    fn a_line_follows_only_the_lines_it_was_linked_to() {
        let mut chain = Chain::new("abc");
        let one = chain.with_link(r#"{"n":1}"#);
        assert!(chain.advance(&one));
        let two = chain.with_link(r#"{"n":2}"#);
        assert!(!Chain::new("abc").advance(&two), "not without the first line");
        assert!(!Chain::new("abd").advance(&one), "not in another ledger");
        assert!(!chain.clone().advance(&two.replace("\"n\":2", "\"n\":3")));
        assert!(!chain.clone().advance(&one), "not the first line again");
        assert!(!chain.clone().advance(r#"{"n":2}"#), "not without a link");
        assert!(chain.advance(&two));
    }
}
