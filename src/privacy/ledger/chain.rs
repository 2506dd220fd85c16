//! The chain through a ledger's lines: each line vouches for all lines before it.
//!
//! A line of format 2 ends in `,"chain":"<link>"}`. With everything before that comma as its
//! body, byte for byte,
//!
//! ```text
//! link(line) = hex SHA-256( link(line before) + "\n" + body )
//! ```
//!
//! and the first such line follows on hex SHA-256( data hash + "\n" + all older text ), the text
//! of format 1 above it with its line ends, if there is any. Hashing the text as it stands, and
//! not what it means, leaves no question of how a number is written.

use sha2::{Digest, Sha256};

const KEY: &str = ",\"chain\":\"";
const END: &str = "\"}";

/// A chain, ready for its next line.
#[derive(Clone)]
pub(super) enum Chain {
    /// No line of format 2 yet: the hash of the data hash and the older text so far.
    Unlinked(Sha256),
    /// The link of the last line.
    Linked(String),
}

impl Chain {
    /// The chain of a ledger without lines.
    pub(super) fn new(data_hash: &str) -> Self {
        Self::Unlinked(Sha256::new_with_prefix(data_hash).chain_update("\n"))
    }

    /// Takes in a line of format 1, which has no link, with its line end. `false`, and nothing
    /// taken in, after a line of format 2: there it would go unnoticed if it were changed.
    pub(super) fn absorb_unlinked(&mut self, line: &str) -> bool {
        match self {
            Self::Unlinked(hash) => {
                hash.update(line);
                true
            }
            Self::Linked(_) => false,
        }
    }

    /// Goes on to `line`, without its line end; `false` if it does not follow.
    pub(super) fn advance(&mut self, line: &str) -> bool {
        let parts = line.strip_suffix(END).and_then(|line| line.rsplit_once(KEY));
        match parts {
            Some((body, link)) if link == self.link_of(body) => {
                *self = Self::Linked(link.to_string());
                true
            }
            _ => false,
        }
    }

    /// A JSON object on one line, with the link that makes it the next line of this chain.
    pub(super) fn with_link(&self, object: &str) -> String {
        let body = object.strip_suffix('}').unwrap_or(object);
        format!("{body}{KEY}{}{END}", self.link_of(body))
    }

    /// What the next line follows on.
    pub(super) fn last(&self) -> String {
        match self {
            Self::Unlinked(hash) => hex(hash.clone()),
            Self::Linked(link) => link.clone(),
        }
    }

    fn link_of(&self, body: &str) -> String {
        hex(Sha256::new_with_prefix(self.last()).chain_update("\n").chain_update(body))
    }
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
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
    fn a_line_follows_only_on_its_own_past() {
        let mut chain = Chain::new("abc");
        let one = chain.with_link(r#"{"n":1}"#);
        assert!(chain.advance(&one));
        let two = chain.with_link(r#"{"n":2}"#);
        assert!(!Chain::new("abc").advance(&two), "not without the first line");
        assert!(!Chain::new("abd").advance(&one), "not in another ledger");
        assert!(!chain.clone().advance(&two.replace("\"n\":2", "\"n\":3")));
        assert!(!chain.clone().advance(&one), "not the first line again");
        assert!(!chain.clone().advance(r#"{"n":2}"#), "not without a link");
        assert!(!chain.absorb_unlinked("{}\n"), "no line without a link after one with");
        assert!(chain.advance(&two));
    }

    #[test]
    fn older_text_is_vouched_for_by_the_first_link() {
        let sealed = |older: &str| {
            let mut chain = Chain::new("abc");
            assert!(chain.absorb_unlinked(older));
            chain.with_link(r#"{"n":1}"#)
        };
        assert_ne!(sealed("{\"steps\":10}\n"), sealed("{\"steps\":11}\n"));
        assert_eq!(sealed("{\"steps\":10}\n"), sealed("{\"steps\":10}\n"));
    }
}
