//! Numbers for words, without telling anything about the private texts.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use super::tokens;
use crate::data::digest::count;
use crate::{Error, Result};

/// A number for every word: 0 is no word (the filling of short texts). Cheap to clone.
///
/// # Guarantee
/// A model's embedding has an entry for every number, and the vocabulary is published with it: a
/// word list made of private texts says who used rare words, outside every epsilon. [`hashed`]
/// depends on no data at all; [`of_words`] and [`from_public_text`] are as public as what they
/// are given. Only [`from_private_text_not_covered`] is not covered by any guarantee of this lab.
///
/// [`hashed`]: Self::hashed
/// [`of_words`]: Self::of_words
/// [`from_public_text`]: Self::from_public_text
/// [`from_private_text_not_covered`]: Self::from_private_text_not_covered
///
/// A vocabulary knows that it was made from private texts, and so does every data set that is read
/// with it ([`Dataset::not_covered`](crate::data::Dataset::not_covered)): runs on it have no
/// guarantee, and every accountant refuses their events.
#[derive(Clone)]
pub struct Vocabulary {
    kind: Kind,
    from_private_text: bool,
}

#[derive(Clone)]
enum Kind {
    Hashed(u32),
    Listed(Arc<Listed>),
}

struct Listed {
    /// The word of each number, beginning with those of padding and of unknown words.
    words: Vec<String>,
    numbers: HashMap<String, u32>,
}

/// Whole numbers are exact in `f32` up to here, and features are `f32`.
const MOST: usize = 1 << 24;

impl Default for Vocabulary {
    /// [`Vocabulary::hashed`] with 8,192 numbers.
    fn default() -> Self {
        Self::new(Kind::Hashed(8192))
    }
}

impl Vocabulary {
    fn new(kind: Kind) -> Self {
        Self { kind, from_private_text: false }
    }

    /// The number of no word.
    pub const PAD: u32 = 0;
    /// The number of all words that a list does not have.
    pub const UNKNOWN: u32 = 1;

    /// `1 + h(word) mod (size - 1)` with the 64-bit FNV-1a hash `h`: knows every word, needs no
    /// list and no data. Words may share a number; more numbers, fewer such pairs. Feature
    /// hashing: Weinberger et al. 2009, arXiv:0902.2206.
    ///
    /// # Errors
    /// A size outside 2 to 2^24.
    pub fn hashed(size: usize) -> Result<Self> {
        if !(2..=MOST).contains(&size) {
            let why = format!("a vocabulary by hashing has 2 to {} numbers", count(MOST));
            return Err(Error::setting("size", count(size), why).fix("for instance 8192"));
        }
        Ok(Self::new(Kind::Hashed(size as u32)))
    }

    /// A public list of words, numbered from 2 in its order; 1 stands for all other words. Each
    /// entry is brought to [`tokens()`] first; repetitions count once.
    ///
    /// # Errors
    /// No words, or more than features can number.
    pub fn of_words<S: AsRef<str>>(words: impl IntoIterator<Item = S>) -> Result<Self> {
        let mut all = vec!["".to_owned(), "?".to_owned()];
        let mut numbers = HashMap::new();
        for entry in words {
            for word in tokens(entry.as_ref()) {
                if !numbers.contains_key(&word) {
                    numbers.insert(word.clone(), all.len() as u32);
                    all.push(word);
                }
            }
        }
        if !(3..=MOST).contains(&all.len()) {
            let why = format!("a vocabulary has one word at least, {} at most", count(MOST - 2));
            return Err(Error::setting("words", count(all.len() - 2), why)
                .fix("give the words, or use Vocabulary::hashed(8192)"));
        }
        Ok(Self::new(Kind::Listed(Arc::new(Listed { words: all, numbers }))))
    }

    /// The `most` most frequent words of PUBLIC texts (the alphabet decides ties), as [`of_words`].
    ///
    /// The texts must be public: a dictionary, a published corpus, other people's open data; never
    /// the texts that are trained on privately.
    ///
    /// # Errors
    /// As [`of_words`].
    ///
    /// [`of_words`]: Self::of_words
    pub fn from_public_text<S: AsRef<str>>(
        texts: impl IntoIterator<Item = S>,
        most: usize,
    ) -> Result<Self> {
        let mut counts: HashMap<String, usize> = HashMap::new();
        for text in texts {
            tokens(text.as_ref()).for_each(|word| *counts.entry(word).or_default() += 1);
        }
        let mut words: Vec<(String, usize)> = counts.into_iter().collect();
        words.sort_by(|(a, n), (b, m)| m.cmp(n).then_with(|| a.cmp(b)));
        Self::of_words(words.into_iter().take(most).map(|(word, _)| word))
    }

    /// The most frequent words of the private texts themselves.
    ///
    /// # Guarantee
    /// NONE. The list is a release of private data that no accountant sees and no ledger holds:
    /// whoever gets the model learns which words were frequent, and a person can be found by a
    /// rare one. Every run on data read with it has the badge `none`. Only for non-private baselines and for comparing with papers that do this
    /// silently.
    ///
    /// # Errors
    /// As [`of_words`](Self::of_words).
    pub fn from_private_text_not_covered<S: AsRef<str>>(
        texts: impl IntoIterator<Item = S>,
        most: usize,
    ) -> Result<Self> {
        Ok(Self { from_private_text: true, ..Self::from_public_text(texts, most)? })
    }

    /// Why no epsilon covers a model that uses this vocabulary, as a phrase; `None` if one can.
    pub fn not_covered(&self) -> Option<&'static str> {
        const WHY: &str = "the vocabulary was made from private texts: one text can change every \
                           token id";
        self.from_private_text.then_some(WHY)
    }

    /// How many numbers there are, those of padding and unknown words included: the entries an
    /// embedding needs.
    #[allow(clippy::len_without_is_empty)] // There is always a word.
    pub fn len(&self) -> usize {
        match &self.kind {
            Kind::Hashed(size) => *size as usize,
            Kind::Listed(list) => list.words.len(),
        }
    }

    /// The numbers of the words of a text, neither cut nor filled up.
    pub fn ids(&self, text: &str) -> Vec<u32> {
        tokens(text).map(|word| self.id_of(&word)).collect()
    }

    /// The word with this number, if it is a number of a list.
    pub fn word(&self, id: u32) -> Option<&str> {
        match &self.kind {
            Kind::Hashed(_) => None,
            Kind::Listed(list) => list.words.get(id as usize).map(String::as_str),
        }
    }

    /// Features back to words, for looking at examples: `?` for unknown ones, `#17` where there is
    /// no list. What was lost on the way in (case, marks, the end of long texts) stays lost.
    pub fn text(&self, features: &[f32]) -> String {
        let ids = features.iter().map(|&x| x as u32).filter(|&id| id != Self::PAD);
        let word = |id| self.word(id).map_or_else(|| format!("#{id}"), str::to_owned);
        ids.map(word).collect::<Vec<_>>().join(" ")
    }

    /// The number of one word in lower case.
    pub(super) fn id_of(&self, word: &str) -> u32 {
        match &self.kind {
            Kind::Hashed(size) => 1 + (fnv1a(word.as_bytes()) % u64::from(size - 1)) as u32,
            Kind::Listed(list) => list.numbers.get(word).copied().unwrap_or(Self::UNKNOWN),
        }
    }
}

/// The hash of Fowler, Noll and Vo, variant 1a, 64 bits: fixed for ever, the same everywhere.
fn fnv1a(bytes: &[u8]) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    bytes.iter().fold(BASIS, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

/// `8,192 word numbers by hashing`, `a list of 400 words`.
impl fmt::Display for Vocabulary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Hashed(size) => write!(f, "{} word numbers by hashing", count(*size as usize)),
            Kind::Listed(list) => write!(f, "a list of {} words", count(list.words.len() - 2)),
        }
    }
}

/// The same text as `Display`.
impl fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
