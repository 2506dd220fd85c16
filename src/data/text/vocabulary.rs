//! Vocabularies: ids for words, without using the private texts.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::tokenize;
use crate::data::digest::format_count;
use crate::{Error, Result};

/// An id for every word; 0 is padding. Cheap to clone.
///
/// # Guarantee
/// An embedding has an entry for every id, and the vocabulary is published with the model. A word
/// list made from private texts reveals rare words, and no epsilon covers that. [`hashed`] depends
/// on no data; [`from_words`] and [`from_public_text`] are as public as their arguments. Only
/// [`from_private_text_not_covered`] is covered by no guarantee.
///
/// [`hashed`]: Self::hashed
/// [`from_words`]: Self::from_words
/// [`from_public_text`]: Self::from_public_text
/// [`from_private_text_not_covered`]: Self::from_private_text_not_covered
///
/// A vocabulary made from private texts is marked, and so is every data set that is read with it
/// ([`Dataset::not_covered_reason`](crate::data::Dataset::not_covered_reason)): runs on it have no
/// guarantee, and every accountant refuses their events.
#[derive(Clone)]
pub struct Vocabulary {
    kind: Kind,
    from_private_text: bool,
}

#[derive(Clone, PartialEq)]
enum Kind {
    Hashed(u32),
    Listed(Arc<WordTable>),
}

/// A vocabulary as plain data.
#[derive(Serialize, Deserialize)]
pub(in crate::data) struct StoredVocabulary {
    /// Number of ids, if they are hashes.
    hashed: Option<usize>,
    /// Words from id 2 on, if the ids are not hashes.
    #[serde(default)]
    words: Vec<String>,
    from_private_text: bool,
}

impl StoredVocabulary {
    pub(in crate::data) fn from_vocabulary(vocabulary: &Vocabulary) -> Self {
        let (hashed, words) = match &vocabulary.kind {
            Kind::Hashed(size) => (Some(*size as usize), Vec::new()),
            Kind::Listed(listed) => (None, listed.words[2..].to_vec()),
        };
        Self { hashed, words, from_private_text: vocabulary.from_private_text }
    }

    pub(in crate::data) fn into_vocabulary(self) -> Result<Vocabulary> {
        let kind = match self.hashed {
            Some(size) => Vocabulary::hashed(size)?.kind,
            None => Vocabulary::from_words(self.words)?.kind,
        };
        Ok(Vocabulary { kind, from_private_text: self.from_private_text })
    }
}

#[derive(PartialEq)]
struct WordTable {
    /// The word of each id, beginning with padding and the unknown word.
    words: Vec<String>,
    numbers: HashMap<String, u32>,
}

/// Vocabularies are equal if they give equal ids to all words.
impl PartialEq for Vocabulary {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

/// Largest number of ids: whole numbers are exact in `f32` up to here, and features are `f32`.
const MOST: usize = 1 << 24;

impl Default for Vocabulary {
    /// Returns [`Vocabulary::hashed`] with 8,192 ids.
    fn default() -> Self {
        Self::new(Kind::Hashed(8192))
    }
}

impl Vocabulary {
    fn new(kind: Kind) -> Self {
        Self { kind, from_private_text: false }
    }

    /// The id of padding.
    pub const PAD: u32 = 0;
    /// The id of all words that are not in a list.
    pub const UNKNOWN: u32 = 1;

    /// Creates a vocabulary by feature hashing: the id is `1 + h(word) mod (size - 1)` with the
    /// 64-bit FNV-1a hash `h`. It needs no list and no data. Different words may have the same id,
    /// less often the larger `size` is (Weinberger et al. 2009, arXiv:0902.2206).
    ///
    /// # Errors
    /// A size outside 2 to 2^24.
    pub fn hashed(size: usize) -> Result<Self> {
        if !(2..=MOST).contains(&size) {
            let why = format!("a vocabulary by hashing has 2 to {} ids", format_count(MOST));
            return Err(Error::setting("size", format_count(size), why).fix("for instance 8192"));
        }
        Ok(Self::new(Kind::Hashed(size as u32)))
    }

    /// Creates a vocabulary from a public list of words with ids from 2 in this order; 1 is the id
    /// of all other words. Each entry is first split into words by [`tokenize`](super::tokenize);
    /// duplicates are dropped.
    ///
    /// # Errors
    /// No words, or more than features can hold.
    pub fn from_words<S: AsRef<str>>(words: impl IntoIterator<Item = S>) -> Result<Self> {
        let mut all = vec!["".to_owned(), "?".to_owned()];
        let mut numbers = HashMap::new();
        for entry in words {
            for word in tokenize(entry.as_ref()) {
                if !numbers.contains_key(&word) {
                    numbers.insert(word.clone(), all.len() as u32);
                    all.push(word);
                }
            }
        }
        if !(3..=MOST).contains(&all.len()) {
            let why = format!("a vocabulary has 1 to {} words", format_count(MOST - 2));
            return Err(Error::setting("words", format_count(all.len() - 2), why)
                .fix("give the words, or use Vocabulary::hashed(8192)"));
        }
        Ok(Self::new(Kind::Listed(Arc::new(WordTable { words: all, numbers }))))
    }

    /// Creates a vocabulary of the `most` most frequent words of PUBLIC texts (ties in
    /// alphabetical order), as [`from_words`].
    ///
    /// The texts must be public: a dictionary, a published corpus or open data, never the texts of
    /// private training.
    ///
    /// # Errors
    /// No words, or more than features can hold.
    ///
    /// [`from_words`]: Self::from_words
    pub fn from_public_text<S: AsRef<str>>(
        texts: impl IntoIterator<Item = S>,
        most: usize,
    ) -> Result<Self> {
        let mut counts: HashMap<String, usize> = HashMap::new();
        for text in texts {
            tokenize(text.as_ref()).for_each(|word| *counts.entry(word).or_default() += 1);
        }
        let mut words: Vec<(String, usize)> = counts.into_iter().collect();
        words.sort_by(|(a, n), (b, m)| m.cmp(n).then_with(|| a.cmp(b)));
        Self::from_words(words.into_iter().take(most).map(|(word, _)| word))
    }

    /// Creates a vocabulary of the most frequent words of the private texts themselves.
    ///
    /// # Guarantee
    /// None. The list is a release of private data that no accountant and no ledger counts: whoever
    /// has the model learns which words were frequent, and a rare word can identify a person. Every
    /// run on data read with it has the badge `none`. It is for non-private baselines and for
    /// comparisons with papers that do the same without saying so.
    ///
    /// # Errors
    /// No words, or more than features can hold.
    pub fn from_private_text_not_covered<S: AsRef<str>>(
        texts: impl IntoIterator<Item = S>,
        most: usize,
    ) -> Result<Self> {
        Ok(Self { from_private_text: true, ..Self::from_public_text(texts, most)? })
    }

    /// Returns the reason why no epsilon covers a model that uses this vocabulary, as a phrase;
    /// `None` if one can.
    pub(crate) fn not_covered_reason(&self) -> Option<&'static str> {
        const WHY: &str = "the vocabulary was made from private texts: one text can change every \
                           token id";
        self.from_private_text.then_some(WHY)
    }

    /// Returns the number of ids, including padding and unknown words: the number of entries that
    /// an embedding needs.
    #[allow(clippy::len_without_is_empty)] // There is always a word.
    pub fn len(&self) -> usize {
        match &self.kind {
            Kind::Hashed(size) => *size as usize,
            Kind::Listed(list) => list.words.len(),
        }
    }

    /// Returns the ids of the words of a text, neither truncated nor padded.
    pub fn ids(&self, text: &str) -> Vec<u32> {
        tokenize(text).map(|word| self.id_of(&word)).collect()
    }

    /// Returns the word with this id, if the vocabulary is a list.
    pub fn word(&self, id: u32) -> Option<&str> {
        match &self.kind {
            Kind::Hashed(_) => None,
            Kind::Listed(list) => list.words.get(id as usize).map(String::as_str),
        }
    }

    /// Converts features back to words, to look at examples: `?` for unknown words, `#17` without a
    /// list. Case, punctuation and the end of long texts can't be restored.
    pub fn text(&self, features: &[f32]) -> String {
        let ids = features.iter().map(|&x| x as u32).filter(|&id| id != Self::PAD);
        let word = |id| self.word(id).map_or_else(|| format!("#{id}"), str::to_owned);
        ids.map(word).collect::<Vec<_>>().join(" ")
    }

    /// Returns the id of a word in lower case.
    pub(super) fn id_of(&self, word: &str) -> u32 {
        match &self.kind {
            Kind::Hashed(size) => 1 + (fnv1a(word.as_bytes()) % u64::from(size - 1)) as u32,
            Kind::Listed(list) => list.numbers.get(word).copied().unwrap_or(Self::UNKNOWN),
        }
    }
}

/// Returns the 64-bit FNV-1a hash (Fowler, Noll, Vo). It must never change.
fn fnv1a(bytes: &[u8]) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    bytes.iter().fold(BASIS, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

/// Formats the vocabulary as `8,192 token ids by hashing`, `a list of 400 words`.
impl fmt::Display for Vocabulary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Hashed(size) => {
                write!(f, "{} token ids by hashing", format_count(*size as usize))
            }
            Kind::Listed(list) => {
                write!(f, "a list of {} words", format_count(list.words.len() - 2))
            }
        }
    }
}

/// The same text as `Display`.
impl fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
