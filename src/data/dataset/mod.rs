//! Data sets: training part, test part, classes, and the origin that names the ledger. Begin with
//! `Dataset`. `derived` splits, limits and normalizes data sets, `partition` assigns examples to
//! parts, `files` reads features from files, and `hash` hashes the training and the test part.

mod derived;
mod files;
mod hash;
mod partition;

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use super::digest::format_count;
use super::examples::{Examples, format_shape};
use super::origin;
use super::public_data::PublicReason;
use super::table::TableSchema;
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
    pub(super) inner: Arc<Inner>,
}

#[derive(Clone)]
pub(super) struct Inner {
    pub(super) about: DatasetMetadata,
    train: Examples,
    test: Examples,
    /// The vocabulary of the token ids of a text data set.
    vocabulary: Option<Vocabulary>,
    hash: OnceLock<String>,
    test_hash: OnceLock<String>,
    /// The key of the last split or limit; zero if there was none.
    split_key: [u8; 32],
    origin: Origin,
}

/// Properties of a data set that are known without looking at its examples.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct DatasetMetadata {
    name: String,
    source: String,
    class_names: Vec<String>,
    /// The name of each feature, of a table with a header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    column_names: Option<Vec<String>>,
    /// The columns of a table with a header, and how they became features.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    schema: Option<TableSchema>,
    /// What was skipped, ignored or inferred when the data were read, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    notices: Vec<String>,
    /// Reason why no epsilon covers the data, if its preparation used private examples.
    prepared_from_private: Option<String>,
    /// Reason why the data set is public; `None` if it is not.
    pub(super) public: Option<PublicReason>,
    /// Whether the test part was split off the training part.
    test_split_off: bool,
}

/// Everything about a data set except its examples and its vocabulary, as plain data.
#[derive(Serialize, Deserialize)]
pub(super) struct Attributes {
    #[serde(flatten)]
    about: DatasetMetadata,
    hash: String,
    test_hash: String,
    cuts: [u8; 32],
    origin: String,
}

impl Attributes {
    /// Returns the number of classes.
    pub(super) fn classes(&self) -> usize {
        self.about.class_names.len()
    }
}

/// The origin of a data set, a hash that names its ledger, or how it is computed.
#[derive(Clone)]
enum Origin {
    /// Hash of the data set itself.
    OwnHash,
    /// Hash of the features alone, computed on first use.
    Features(OnceLock<String>),
    /// The hash of the raw data, or the origin of the data set that it was derived from.
    Given(String),
}

impl Dataset {
    /// Creates a data set of checked parts, with one name per class.
    pub(super) fn new(
        name: impl Into<String>,
        source: impl Into<String>,
        class_names: Vec<String>,
        train: Examples,
        test: Examples,
    ) -> Self {
        let (name, source) = (name.into(), source.into());
        Self::from_parts(
            DatasetMetadata { name, source, class_names, ..DatasetMetadata::default() },
            train,
            test,
        )
    }

    fn from_parts(metadata: DatasetMetadata, train: Examples, test: Examples) -> Self {
        let (hash, test_hash) = (OnceLock::new(), OnceLock::new());
        let (vocabulary, cuts, origin) = (None, [0; 32], Origin::OwnHash);
        Self {
            inner: Arc::new(Inner {
                about: metadata,
                train,
                test,
                vocabulary,
                hash,
                test_hash,
                split_key: cuts,
                origin,
            }),
        }
    }

    /// Returns the attributes: everything except the examples and the vocabulary.
    pub(super) fn attributes(&self) -> Attributes {
        Attributes {
            about: self.inner.about.clone(),
            hash: self.hash().to_owned(),
            test_hash: self.test_hash().to_owned(),
            cuts: self.inner.split_key,
            origin: self.origin().to_owned(),
        }
    }

    /// Returns the data set of these attributes and checked parts.
    pub(super) fn from_attributes(
        attributes: Attributes,
        train: Examples,
        test: Examples,
        vocabulary: Option<Vocabulary>,
    ) -> Self {
        Self::from_parts(attributes.about, train, test).map_inner(|inner| {
            inner.vocabulary = vocabulary;
            inner.hash = OnceLock::from(attributes.hash);
            inner.split_key = attributes.cuts;
            inner.test_hash = OnceLock::from(attributes.test_hash);
            inner.origin = Origin::Given(attributes.origin);
        })
    }

    /// Returns the same data set with this origin.
    pub(super) fn with_origin(self, origin: String) -> Self {
        self.map_inner(|inner| inner.origin = Origin::Given(origin))
    }

    /// Returns the same data set whose origin is the hash of its features alone.
    pub(super) fn with_feature_origin(self) -> Self {
        self.map_inner(|inner| inner.origin = Origin::Features(OnceLock::new()))
    }

    /// Returns the same data set, whose features are token ids of this vocabulary.
    pub(super) fn with_vocabulary(self, vocabulary: Vocabulary) -> Self {
        self.map_inner(|inner| inner.vocabulary = Some(vocabulary))
    }

    /// Returns the same data set, whose features were made of the columns of this schema.
    pub(super) fn with_schema(self, schema: TableSchema) -> Self {
        self.map_inner(|inner| {
            inner.about.column_names = Some(schema.feature_names());
            inner.about.schema = Some(schema);
        })
    }

    /// Returns the same data set with these notices of its reader.
    pub(super) fn with_notices(self, notices: Vec<String>) -> Self {
        self.map_inner(|inner| inner.about.notices = notices)
    }

    pub(super) fn map_inner(mut self, change: impl FnOnce(&mut Inner)) -> Self {
        change(Arc::make_mut(&mut self.inner));
        self
    }

    /// Returns the name, for instance `MNIST`.
    pub fn name(&self) -> &str {
        &self.inner.about.name
    }

    /// Returns where the data came from and how they were prepared, in words.
    pub fn source(&self) -> &str {
        &self.inner.about.source
    }

    /// Returns the shape of one example, for instance `[1, 28, 28]` (channels, height, width).
    pub fn shape(&self) -> &[usize] {
        self.train().shape()
    }

    /// Returns the number of classes; labels are below it.
    pub fn classes(&self) -> usize {
        self.inner.about.class_names.len()
    }

    /// Returns a name for each class, in the order of the labels.
    pub fn class_names(&self) -> &[String] {
        &self.inner.about.class_names
    }

    /// Returns what was skipped, ignored or inferred when the data were read, a sentence each;
    /// often empty. The command line prints it.
    pub fn notices(&self) -> &[String] {
        &self.inner.about.notices
    }

    /// Returns the name of each feature, of data read by [`table`](super::table()); `None` for all
    /// others.
    pub fn column_names(&self) -> Option<&[String]> {
        self.inner.about.column_names.as_deref()
    }

    /// Returns the columns of a table and how they became features; `None` for all other data.
    pub fn schema(&self) -> Option<&TableSchema> {
        self.inner.about.schema.as_ref()
    }

    /// Returns the training part, which private methods protect. Its length is the public size of
    /// the data set.
    pub fn train(&self) -> &Examples {
        &self.inner.train
    }

    /// Returns the test part; may be empty.
    pub fn test(&self) -> &Examples {
        &self.inner.test
    }

    /// Returns the vocabulary of a text data set; `None` for all others. Its [`Vocabulary::len`]
    /// is the number of entries that an embedding layer needs.
    pub fn vocabulary(&self) -> Option<&Vocabulary> {
        self.inner.vocabulary.as_ref()
    }

    /// Returns whether the test part counts as public: it was not split off the training part by
    /// [`split`](Self::split). That no private example is in it is assumed, not checked.
    pub fn has_separate_test(&self) -> bool {
        !self.inner.about.test_split_off
    }

    /// Declares that the data was prepared with something computed from its private examples: a
    /// mean and a standard deviation, a selection of columns, a list of classes. The statement of
    /// every run says `what`: `"features were scaled by the largest value"`.
    ///
    /// # Guarantee
    /// None: such a statistic is a release that no accountant counts. Plans on the returned data
    /// set, and on data sets derived from it, have the badge `none`. Without this call, everything
    /// that the data was prepared with is assumed to be public.
    #[must_use]
    pub fn prepared_from_private_examples(&self, what: impl Into<String>) -> Self {
        let why = format!("the data was prepared from private examples: {}", what.into());
        self.clone().map_inner(|inner| inner.about.prepared_from_private = Some(why))
    }

    /// Returns the reason why no epsilon covers anything that is computed from this data set, as a
    /// phrase: its private examples were used to prepare it, without noise. `None` if an epsilon
    /// can cover it.
    pub fn not_covered_reason(&self) -> Option<&str> {
        let declared = self.inner.about.prepared_from_private.as_deref();
        declared.or_else(|| self.vocabulary().and_then(Vocabulary::not_covered_reason))
    }

    /// Returns the SHA-256 (hexadecimal) of the training part: shape, classes, bits of the
    /// features, labels. For images in files: shape, scaling, classes, SHA-256 of each file,
    /// labels; [`in_memory`](Self::in_memory) keeps it.
    ///
    /// Stored runs are found by it, so its encoding must never change; it starts with a version.
    /// Computed once, on first use.
    pub fn hash(&self) -> &str {
        self.inner.hash.get_or_init(|| hash::hash_part(self.classes(), self.train()))
    }

    /// Returns the [`hash`](Self::hash) of the test part. An evaluation of a stored run is shown
    /// only for the test part that it was made on.
    pub(crate) fn test_hash(&self) -> &str {
        self.inner.test_hash.get_or_init(|| hash::hash_part(self.classes(), self.test()))
    }

    /// Returns a hash of the raw data, which names the privacy ledger of the people in it: of all
    /// cells below the header (tables and texts), the images (IDX files), all training images
    /// (image folders and tar shards), the features (vectors). A data set made by
    /// [`split`](Self::split), [`limit`](Self::limit), [`normalized`](Self::normalized) or
    /// [`in_memory`](Self::in_memory) has the origin of the data set it was made from. Synthetic
    /// data and CIFAR use their own [`hash`](Self::hash).
    ///
    /// # Guarantee
    /// Data sets with one origin share a ledger. So the cost of runs on parts of a data set, or on
    /// the same files read with other labels or settings, is added up: the same people are in them.
    pub fn origin(&self) -> &str {
        match &self.inner.origin {
            Origin::OwnHash => self.hash(),
            Origin::Features(name) => {
                name.get_or_init(|| origin::feature_origin(self.train().features_flat()))
            }
            Origin::Given(name) => name,
        }
    }

    /// Returns the same data set with another test part.
    #[cfg(test)]
    pub(crate) fn with_test(&self, test: Examples) -> Self {
        self.with_parts(self.source().to_owned(), self.train().clone(), test)
    }

    fn with_parts(&self, source: String, train: Examples, test: Examples) -> Self {
        let origin = self.origin().to_owned();
        self.clone().map_inner(|inner| {
            inner.about.source = source;
            inner.train = train;
            inner.test = test;
            (inner.hash, inner.test_hash) = Default::default();
            inner.origin = Origin::Given(origin);
        })
    }
}

/// Formats the data set as
/// `MNIST: 60,000 training and 10,000 test examples of shape 1x28x28, 10 classes`; for texts with
/// the vocabulary: `…, 8,192 token ids by hashing`.
impl fmt::Display for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} training and {} test examples of shape {}, {} classes",
            self.name(),
            format_count(self.train().len()),
            if self.test().is_empty() { "no".into() } else { format_count(self.test().len()) },
            format_shape(self.shape()),
            self.classes()
        )?;
        self.vocabulary().map_or(Ok(()), |vocabulary| write!(f, ", {vocabulary}"))
    }
}

/// The same text as `Display`.
impl fmt::Debug for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests;
