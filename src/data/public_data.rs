//! Public data sets: those drawn by code, and those that the user declares to be public.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Dataset;

/// A public data set that the parameters of a model depend on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublicData {
    /// Name of the data set, for instance `CIFAR-100`.
    pub name: String,
    /// Whether the data set is synthetic, drawn by code, so that it depends on no person's data;
    /// otherwise it is declared public.
    pub drawn_by_code: bool,
    /// The data set's [`origin`](Dataset::origin), if it was read here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
}

/// Reason why a data set is public.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum PublicReason {
    DrawnByCode,
    Declared,
}

impl Dataset {
    /// Declares that all examples are public. A model that is trained on them without privacy can
    /// be the start of private training on other data: the statement of that run names the data set
    /// and says that it is assumed to be public.
    ///
    /// Data sets that are drawn by code, such as [`glyphs`](super::glyphs), need no declaration.
    ///
    /// # Guarantee
    /// None for the examples of this data set: their influence on a model is not counted where the
    /// model is a starting point. Its own ledger is charged as ever, because data that were called
    /// public once may be private in another project.
    #[must_use]
    pub fn assumed_public(&self) -> Self {
        match self.inner.about.public {
            Some(_) => self.clone(),
            None => {
                self.clone().map_inner(|inner| inner.about.public = Some(PublicReason::Declared))
            }
        }
    }

    /// Returns the same data set, marked as synthetic: it depends on no person's data.
    pub(super) fn mark_synthetic(self) -> Self {
        self.map_inner(|inner| inner.about.public = Some(PublicReason::DrawnByCode))
    }

    /// Describes this data set, if it is public. One that was
    /// [prepared from private examples](Self::prepared_from_private_examples) is not.
    pub fn public(&self) -> Option<PublicData> {
        let public = self.inner.about.public.filter(|_| self.not_covered_reason().is_none())?;
        Some(PublicData {
            drawn_by_code: public == PublicReason::DrawnByCode,
            origin: Some(self.origin().to_owned()),
            ..PublicData::from_name(self.name())
        })
    }
}

/// Longest name of a data set that statements print.
const MAX_NAME_LEN: usize = 100;

impl PublicData {
    /// Returns the entry of a data set that is known by name only, such as that of weights from a
    /// file. The name is one line of at most 100 characters, because statements contain it.
    pub(crate) fn from_name(name: &str) -> Self {
        let words: Vec<&str> = name
            .split(|c: char| c.is_whitespace() || c.is_control())
            .filter(|w| !w.is_empty())
            .collect();
        let name: String = words.join(" ").chars().take(MAX_NAME_LEN).collect();
        let name = if name.is_empty() { "data without a name".to_owned() } else { name };
        Self { name, drawn_by_code: false, origin: None }
    }

    /// Returns the entry as that of a file that anybody may have written: that its data were drawn
    /// by code is not known, but assumed.
    pub(crate) fn into_unverified(self) -> Self {
        let suffix = if self.drawn_by_code { ", drawn by code as the file says" } else { "" };
        let named = Self::from_name(&self.name);
        Self { name: named.name + suffix, origin: self.origin, ..named }
    }
}

impl fmt::Display for PublicData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        f.write_str(if self.drawn_by_code { " (drawn by code)" } else { " (assumed public)" })
    }
}
