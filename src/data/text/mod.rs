//! Texts: words become token ids, and each text a row of the same length. Begin with `text_csv`,
//! `from_texts` or `ag_news`, which read texts. `TextOptions` has the length of the rows and the
//! vocabulary; `tokenizer` splits a text into words, and `vocabulary` gives words their ids.

mod ag_news;
mod read;
mod tokenizer;
mod vocabulary;

pub use ag_news::{ag_news, ag_news_in};
pub use read::{from_texts, text_csv};
pub use tokenizer::tokenize;
pub(super) use vocabulary::StoredVocabulary;
pub use vocabulary::Vocabulary;

use crate::{Error, Result};

/// Options for the conversion of texts to features: the vocabulary, and the number of words used
/// of each text.
///
/// A text is split into words by [`tokenize`], each word becomes its id in the [`Vocabulary`], and
/// the row is truncated or padded with 0 at the end. Features are these ids as `f32` (exact: they
/// are below 2^24), of shape `[length]`.
///
/// ```
/// use epsilab::data::{TextOptions, Vocabulary};
/// let options = TextOptions::default();            // 8,192 ids by hashing, 64 words per text
/// let short = TextOptions::default().length(32).vocabulary(Vocabulary::hashed(4096)?);
/// # assert_ne!(options.to_string(), short.to_string());
/// # Ok::<(), epsilab::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TextOptions {
    vocabulary: Vocabulary,
    length: usize,
}

impl Default for TextOptions {
    /// Returns the defaults: 8,192 ids by hashing, 64 words per text.
    fn default() -> Self {
        Self { vocabulary: Vocabulary::default(), length: 64 }
    }
}

impl TextOptions {
    /// Sets the vocabulary.
    pub fn vocabulary(self, vocabulary: Vocabulary) -> Self {
        Self { vocabulary, ..self }
    }

    /// Sets the number of words used of each text; shorter texts are padded.
    pub fn length(self, length: usize) -> Self {
        Self { length, ..self }
    }

    pub(super) fn check(&self) -> Result<()> {
        /// Largest number of words per text: with more, a recurrent network would take minutes per
        /// example.
        const LONGEST: usize = 65_536;
        if (1..=LONGEST).contains(&self.length) {
            return Ok(());
        }
        let why = format!("texts are cut or filled up to 1 to {LONGEST} words");
        Err(Error::setting("length", self.length, why).fix("for instance 64"))
    }

    /// Appends the row of one text, given in parts.
    pub(super) fn encode<'a>(&self, text: impl Iterator<Item = &'a str>, into: &mut Vec<f32>) {
        let end = into.len() + self.length;
        let ids = text.flat_map(tokenize).map(|token| self.vocabulary.id_of(&token) as f32);
        into.extend(ids.take(self.length));
        into.resize(end, Vocabulary::PAD as f32);
    }
}

/// Formats the options as `64 words per text, 8,192 token ids by hashing`.
impl std::fmt::Display for TextOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} words per text, {}", self.length, self.vocabulary)
    }
}

#[cfg(test)]
mod tests;
