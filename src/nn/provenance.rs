//! Where the parameters of a model come from.

use serde::{Deserialize, Serialize};

use super::Model;
use crate::data::{Dataset, PublicData};

/// The data that the parameters of a model depend on.
///
/// # Guarantee
/// It decides what a private run that starts from these parameters says about them: nothing for
/// [`Initial`](Self::Initial) and for data drawn by code, an assumption for data that were declared
/// public, a wider assumption for [`Unknown`](Self::Unknown). If the parameters were trained
/// without privacy on the data of the run itself, the run is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Provenance {
    /// No data: they were drawn from a seed.
    Initial {
        /// The user chose the seed; otherwise it is from the operating system.
        seeded: bool,
    },
    /// These data sets, at least one, which are all public.
    Public(Vec<PublicData>),
    /// Private data, or data that nobody named: a file, a user-defined module.
    Unknown {
        /// The [origins](Dataset::origin) of data sets that they were trained on in this session
        /// without counting the cost.
        raw: Vec<String>,
    },
}

impl Provenance {
    /// Nothing is known.
    pub(crate) const UNKNOWN: Self = Self::Unknown { raw: Vec::new() };

    /// Public data; unknown if there are none.
    pub(crate) fn of_public(all: Vec<PublicData>) -> Self {
        if all.is_empty() { Self::UNKNOWN } else { Self::Public(all) }
    }

    /// The provenance after training without privacy on `data` alone.
    pub(crate) fn after_raw_training(&self, data: &Dataset) -> Self {
        match data.public() {
            Some(public) => self.and(public),
            None => {
                let mut raw = self.raw_origins();
                raw.push(data.origin().to_owned());
                Self::Unknown { raw }
            }
        }
    }

    /// The provenance after training that also depends on other private data, or is counted in the
    /// ledger of its data.
    pub(crate) fn after_other_training(&self) -> Self {
        Self::Unknown { raw: self.raw_origins() }
    }

    /// The provenance of parameters that also depend on these public data.
    fn and(&self, data: PublicData) -> Self {
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

    /// The origins of all data that they were trained on without counting the cost, as far as they
    /// are known.
    fn raw_origins(&self) -> Vec<String> {
        match self {
            Self::Initial { .. } => Vec::new(),
            Self::Public(all) => all.iter().filter_map(|data| data.origin.clone()).collect(),
            Self::Unknown { raw } => raw.clone(),
        }
    }

    /// Whether they were trained on these data, or on parts of the same data, without counting the
    /// cost, as far as that is known.
    pub(crate) fn is_raw_on(&self, data: &Dataset) -> bool {
        self.raw_origins().iter().any(|origin| origin == data.origin())
    }

    /// The public data sets that the parameters depend on; empty for initial ones, `None` if others
    /// may be among them.
    pub fn public_data(&self) -> Option<&[PublicData]> {
        match self {
            Self::Initial { .. } => Some(&[]),
            Self::Public(all) => Some(all),
            Self::Unknown { .. } => None,
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
        let data = PublicData::named(data);
        let known = match &self.provenance {
            Provenance::Unknown { raw } if raw.is_empty() => Provenance::Public(vec![data]),
            known => known.and(data),
        };
        self.with_provenance(known)
    }
}
