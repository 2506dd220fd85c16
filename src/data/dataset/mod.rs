//! A data set: training part, test part, classes, and the name of the people in it.

mod cut;
mod hash;
mod parts;

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::digest::count;
use super::examples::{Examples, shape_text};
use super::origin;
use super::text::Vocabulary;

/// A labelled data set for classification, cheap to clone.
///
/// ```
/// let data = epsilab::data::glyphs_with(100, 10, 1)?;
/// let data = data.split(0.5, 7)?;
/// assert_eq!(data.train().len() + data.test().len(), 100);
/// # Ok::<(), epsilab::Error>(())
/// ```
#[derive(Clone)]
pub struct Dataset {
    inner: Arc<Inner>,
}

#[derive(Clone)]
struct Inner {
    name: String,
    source: String,
    class_names: Vec<String>,
    train: Examples,
    test: Examples,
    /// What the token ids of a text data set mean.
    vocabulary: Option<Vocabulary>,
    /// Why no epsilon covers the data, if its preparation used private examples.
    prepared_from_private: Option<String>,
    /// The test part was split off the training part.
    test_split_off: bool,
    hash: OnceLock<String>,
    /// How it was cut from another one: the key of the last cut.
    cuts: [u8; 32],
    name_of_people: Name,
    /// Names that earlier versions gave to these people, beside the own hash.
    former: Vec<String>,
    /// Earlier versions named them by the data set's own hash.
    formerly_by_hash: bool,
}

/// What the ledger knows the people in a data set by.
#[derive(Clone)]
enum Name {
    /// The data set's own hash.
    OwnHash,
    /// The hash of its features alone, once it is asked for.
    Features(OnceLock<String>),
    /// The hash of the raw data it was read from, or the name of the data set it was cut from.
    Given(String),
}

impl Dataset {
    /// A data set of parts that were checked before; one name for each class.
    pub(super) fn new(
        name: impl Into<String>,
        source: impl Into<String>,
        class_names: Vec<String>,
        train: Examples,
        test: Examples,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                name: name.into(),
                source: source.into(),
                class_names,
                train,
                test,
                vocabulary: None,
                prepared_from_private: None,
                test_split_off: false,
                hash: OnceLock::new(),
                cuts: [0; 32],
                name_of_people: Name::OwnHash,
                former: Vec::new(),
                formerly_by_hash: false,
            }),
        }
    }

    /// The same data set whose ledger is named by the raw data, not by what was made of it.
    pub(super) fn with_origin(self, origin: String) -> Self {
        self.changed(|inner| inner.name_of_people = Name::Given(origin))
    }

    /// The same data set whose ledger is named by its features alone; earlier versions named it by
    /// its hash.
    pub(super) fn named_by_features(self) -> Self {
        let named = self.changed(|inner| inner.name_of_people = Name::Features(OnceLock::new()));
        named.formerly_by_hash()
    }

    /// The same data set, whose ledger earlier versions named by its own hash.
    pub(super) fn formerly_by_hash(self) -> Self {
        self.changed(|inner| inner.formerly_by_hash = true)
    }

    /// The same data set, whose ledger earlier versions named so.
    pub(super) fn formerly(self, name: String) -> Self {
        self.changed(|inner| inner.former.push(name))
    }

    /// The same data set, its features being token ids of this vocabulary.
    pub(super) fn with_vocabulary(self, vocabulary: Vocabulary) -> Self {
        self.changed(|inner| inner.vocabulary = Some(vocabulary))
    }

    /// The same data set under the hash it had when its numbers lay elsewhere.
    fn with_hash(self, hash: String) -> Self {
        self.changed(|inner| inner.hash = OnceLock::from(hash))
    }

    /// The same data set, as cut from another one by this key.
    fn cut_by(self, key: [u8; 32]) -> Self {
        self.changed(|inner| inner.cuts = key)
    }

    fn changed(mut self, change: impl FnOnce(&mut Inner)) -> Self {
        change(Arc::make_mut(&mut self.inner));
        self
    }

    /// Its name, for instance `MNIST`.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// One sentence: where the numbers came from.
    pub fn source(&self) -> &str {
        &self.inner.source
    }

    /// The shape of one example, for instance `[1, 28, 28]` (channels, height, width).
    pub fn shape(&self) -> &[usize] {
        self.train().shape()
    }

    /// How many classes there are; labels are below this number.
    pub fn classes(&self) -> usize {
        self.inner.class_names.len()
    }

    /// A name for each class, in the order of the labels.
    pub fn class_names(&self) -> &[String] {
        &self.inner.class_names
    }

    /// The training part: what a private method protects. Its length is the public size of the
    /// data set.
    pub fn train(&self) -> &Examples {
        &self.inner.train
    }

    /// The test part; may be empty.
    pub fn test(&self) -> &Examples {
        &self.inner.test
    }

    /// What the token ids of a text data set mean, and how many there are; `None` for all others.
    ///
    /// An embedding layer for this data needs `data.vocabulary()` entries: see
    /// [`Vocabulary::len`].
    pub fn vocabulary(&self) -> Option<&Vocabulary> {
        self.inner.vocabulary.as_ref()
    }

    /// Whether the test part holds other examples than those that training protects: it was read
    /// from files of its own, not made by [`split`](Self::split).
    pub fn has_public_test(&self) -> bool {
        !self.inner.test_split_off
    }

    /// Declares that the data was prepared with something computed from its private examples: a
    /// mean and a standard deviation, a selection of columns, a list of classes. `what` is told in
    /// the statement of every run: `"features were scaled by the largest value"`.
    ///
    /// # Guarantee
    /// None: such a statistic is a release that no accountant sees. Plans on the returned data set,
    /// and on whatever is cut from it, have the badge `none`. Without such a call the lab assumes
    /// that everything the data was prepared with is public.
    #[must_use]
    pub fn prepared_from_private_examples(&self, what: impl Into<String>) -> Self {
        let why = format!("the data was prepared from private examples: {}", what.into());
        self.clone().changed(|inner| inner.prepared_from_private = Some(why))
    }

    /// Why no epsilon covers anything that is computed from this data set, as a phrase: its private
    /// examples were used to prepare it, without noise. `None` if an epsilon can cover it.
    pub fn not_covered(&self) -> Option<&str> {
        let declared = self.inner.prepared_from_private.as_deref();
        declared.or_else(|| self.vocabulary().and_then(Vocabulary::not_covered))
    }

    /// SHA-256 (hexadecimal) of the training part: shape, classes, bits of the features, labels.
    /// For images in files: shape, scaling, classes, SHA-256 of each file's content, labels; they
    /// keep it when [`in_memory`](Self::in_memory) brings them there.
    ///
    /// Stored runs are found by it, so it must never change its meaning: the encoding starts with
    /// its version. Computed once, on first use.
    pub fn hash(&self) -> &str {
        self.inner.hash.get_or_init(|| hash::of(self.classes(), self.train()))
    }

    /// The name of the people in this data: a hash of what was read, whatever was made of it. Of
    /// tables and texts it takes in all cells below the header, of IDX files the images, of folders
    /// all training files, of vectors the features. A data set that was made from another one by
    /// [`split`](Self::split), [`limit`](Self::limit), [`normalized`](Self::normalized) or
    /// [`in_memory`](Self::in_memory) has the name of that. Data drawn by code, and CIFAR, which
    /// can be read in one way only, go by their own [`hash`](Self::hash).
    ///
    /// # Guarantee
    /// The privacy ledger is kept by this name: what is spent on parts of a data set adds up with
    /// what is spent on the whole, for the same people are in them; and so does what is spent on
    /// the same files read in another way, with other labels, or packed.
    pub fn origin(&self) -> &str {
        match &self.inner.name_of_people {
            Name::OwnHash => self.hash(),
            Name::Features(name) => {
                name.get_or_init(|| origin::of_features(self.train().features_flat()))
            }
            Name::Given(name) => name,
        }
    }

    /// What earlier versions took for the [`origin`](Self::origin) of this data: ledgers of these
    /// names are its own too.
    pub fn former_origins(&self) -> Vec<&str> {
        let hash = self.inner.formerly_by_hash.then(|| self.hash());
        hash.into_iter().chain(self.inner.former.iter().map(String::as_str)).collect()
    }

    /// Whether this is the data's [`origin`](Self::origin), or was in earlier versions.
    pub fn is_known_as(&self, origin: &str) -> bool {
        origin == self.origin() || self.former_origins().contains(&origin)
    }

    fn with_parts(&self, source: String, train: Examples, test: Examples) -> Self {
        let origin = self.origin().to_owned();
        let former = self.former_origins().into_iter().map(String::from).collect();
        self.clone().changed(|inner| {
            (inner.source, inner.train, inner.test) = (source, train, test);
            inner.hash = OnceLock::new();
            (inner.name_of_people, inner.former) = (Name::Given(origin), former);
            inner.formerly_by_hash = false;
        })
    }
}

/// `MNIST: 60,000 training and 10,000 test examples of shape 1x28x28, 10 classes`; texts say what
/// their numbers are: `…, 8,192 word numbers by hashing`.
impl fmt::Display for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} training and {} test examples of shape {}, {} classes",
            self.name(),
            count(self.train().len()),
            if self.test().is_empty() { "no".into() } else { count(self.test().len()) },
            shape_text(self.shape()),
            self.classes()
        )?;
        self.vocabulary().map_or(Ok(()), |vocabulary| write!(f, ", {vocabulary}"))
    }
}

/// The same text as `Display`: a cell that ends in a data set shows this.
impl fmt::Debug for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests;
