//! Where the parameters of a model come from.

use serde::{Deserialize, Serialize};

use super::Model;
use crate::data::{Dataset, PublicData};

/// The data that the parameters of a model depend on.
///
/// # Guarantee
/// It decides what a private run that starts from these parameters says about them: nothing for
/// [`Initial`](Self::Initial) and for data drawn by code, an assumption for data that were declared
/// public, a wider assumption for [`Unknown`](Self::Unknown).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    /// No data: they were drawn from a seed.
    Initial {
        /// The user chose the seed; otherwise it is from the operating system.
        seeded: bool,
    },
    /// These data sets, which are all public.
    Public(Vec<PublicData>),
    /// Private data, or data that nobody named: a file, a user-defined module.
    Unknown,
}

impl Provenance {
    /// The provenance of parameters after more training on `data`. A private run is counted in the
    /// ledger of its data and needs no declaration, so it makes nothing public.
    pub(crate) fn after(&self, data: &Dataset, private: bool) -> Self {
        match data.public() {
            Some(data) if !private => self.and(data),
            _ => Self::Unknown,
        }
    }

    /// The provenance of parameters that also depend on these public data.
    fn and(&self, data: PublicData) -> Self {
        let mut all = match self {
            Self::Initial { .. } => Vec::new(),
            Self::Public(before) => before.clone(),
            Self::Unknown => return Self::Unknown,
        };
        if !all.contains(&data) {
            all.push(data);
        }
        Self::Public(all)
    }

    /// The public data sets that the parameters depend on; empty for initial ones, `None` if others
    /// may be among them.
    pub fn public_data(&self) -> Option<&[PublicData]> {
        match self {
            Self::Initial { .. } => Some(&[]),
            Self::Public(all) => Some(all),
            Self::Unknown => None,
        }
    }

    /// Whether the parameters depend on nobody: initial ones, and those trained on data drawn by
    /// code.
    pub(crate) fn is_data_free(&self) -> bool {
        self.public_data().is_some_and(|all| all.iter().all(|data| data.drawn_by_code))
    }
}

impl Model {
    /// Where the parameters come from.
    pub fn provenance(&self) -> &Provenance {
        &self.provenance
    }

    /// Declares that the parameters depend on public data only, for instance weights from a file:
    /// `"ImageNet-21k"`. The statement of every private run that starts from them says so.
    ///
    /// Models that were trained here on [public data](Dataset::assumed_public) know it already.
    ///
    /// # Guarantee
    /// None for the examples of that data.
    #[must_use]
    pub fn assumed_public(&self, data: impl Into<String>) -> Self {
        let data = PublicData::named(data);
        let known = match &self.provenance {
            Provenance::Unknown => Provenance::Public(vec![data]),
            known => known.and(data),
        };
        self.with_provenance(known)
    }
}
