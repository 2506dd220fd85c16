//! [`Provenance`]: the data that the parameters of a model depend on.

use serde::{Deserialize, Serialize};

use super::Model;
use crate::data::{Dataset, PublicData};

/// Data that the parameters of a model depend on.
///
/// # Guarantee
/// It decides what a private run that starts from these parameters says about them: nothing for
/// [`Initial`](Self::Initial) and for synthetic data, an assumption for data that were declared
/// public, a wider assumption for [`Unknown`](Self::Unknown). If the parameters were trained
/// without privacy on the data of the run itself, the run is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Provenance {
    /// No data: initial parameters, drawn from a seed.
    Initial {
        /// Whether the user chose the seed; otherwise it is from the operating system.
        seeded: bool,
    },
    /// Public data sets, at least one, and no other data.
    Public(Vec<PublicData>),
    /// Private data, or unnamed data: a file, a user-defined module.
    Unknown {
        /// [Origins](Dataset::origin) of the data sets that the parameters were trained on in this
        /// session without privacy.
        raw: Vec<String>,
    },
}

impl Provenance {
    /// Unknown provenance: no origin of the data is known.
    pub(crate) const UNKNOWN: Self = Self::Unknown { raw: Vec::new() };

    /// Creates the provenance of public data; unknown if there are none.
    pub(crate) fn from_public(all: Vec<PublicData>) -> Self {
        if all.is_empty() { Self::UNKNOWN } else { Self::Public(all) }
    }

    /// Returns the provenance after training without privacy on `data` alone.
    pub(crate) fn after_non_private_training(&self, data: &Dataset) -> Self {
        match data.public() {
            Some(public) => self.with_public_data(public),
            None => {
                let mut raw = self.known_non_private_origins();
                raw.push(data.origin().to_owned());
                Self::Unknown { raw }
            }
        }
    }

    /// Returns the provenance after training that also depends on other private data, or is
    /// counted in the ledger of its data.
    pub(crate) fn after_unattributed_training(&self) -> Self {
        Self::Unknown { raw: self.known_non_private_origins() }
    }

    /// Returns the provenance of parameters that also depend on these public data.
    fn with_public_data(&self, data: PublicData) -> Self {
        let mut all = match self {
            Self::Initial { .. } => Vec::new(),
            Self::Public(before) => before.clone(),
            Self::Unknown { raw } => {
                let origin = data.origin.into_iter();
                return Self::Unknown { raw: raw.iter().cloned().chain(origin).collect() };
            }
        };
        if !all.contains(&data) {
            all.push(data);
        }
        Self::Public(all)
    }

    /// Returns the origins of all data that the parameters were trained on without privacy, as far
    /// as they are known.
    fn known_non_private_origins(&self) -> Vec<String> {
        match self {
            Self::Initial { .. } => Vec::new(),
            Self::Public(all) => all.iter().filter_map(|data| data.origin.clone()).collect(),
            Self::Unknown { raw } => raw.clone(),
        }
    }

    /// Returns whether the parameters were trained on these data, or on parts of the same data,
    /// without privacy, as far as that is known.
    pub(crate) fn was_trained_non_privately_on(&self, data: &Dataset) -> bool {
        self.known_non_private_origins().iter().any(|origin| origin == data.origin())
    }

    /// Returns the public data sets that the parameters depend on; empty for initial ones, `None`
    /// if others may be among them.
    pub fn public_data(&self) -> Option<&[PublicData]> {
        match self {
            Self::Initial { .. } => Some(&[]),
            Self::Public(all) => Some(all),
            Self::Unknown { .. } => None,
        }
    }

    /// Returns whether the parameters are initial, or depend on synthetic data only.
    pub(crate) fn is_data_free(&self) -> bool {
        self.public_data().is_some_and(|all| all.iter().all(|data| data.drawn_by_code))
    }
}

impl Model {
    /// Returns the provenance of the parameters.
    pub fn provenance(&self) -> &Provenance {
        &self.provenance
    }

    /// Declares that the model depends on public data only, for instance a file of weights that
    /// were trained on `"ImageNet-21k"`. The statement of every private run that starts from it
    /// says so. For a user-defined module the declaration is about its constants too.
    ///
    /// Models that were trained here on [public data](Dataset::assumed_public) know it already. For
    /// a model that was trained here on data that were not declared public, nothing changes:
    /// declare the data.
    ///
    /// # Guarantee
    /// None for the examples of that data.
    #[must_use]
    pub fn assumed_public(&self, data: &str) -> Self {
        let data = PublicData::from_name(data);
        let known = match &self.provenance {
            Provenance::Unknown { raw } if raw.is_empty() => Provenance::Public(vec![data]),
            known => known.with_public_data(data),
        };
        self.with_provenance(known)
    }
}
