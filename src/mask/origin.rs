//! How a mask was made, and what its choice reveals about a data set.

use serde::{Deserialize, Serialize};
use std::fmt;

use crate::privacy::Event;

/// What a mask (or a saliency) reveals about a data set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrivacyStatus {
    /// Made without any example of people: from shapes, randomness, and parameters that are initial
    /// or were trained on data drawn by code.
    DataFree,
    /// Made from a noisy release that is charged to a ledger.
    Released {
        /// The release.
        event: Event,
        /// The [`origin`](crate::data::Dataset::origin) of the data set it was computed on.
        data: String,
        /// The name of the run in that data set's ledger.
        run: String,
        /// A further assumption, for example that nobody knows the seed of the noise.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        assumed: Option<String>,
    },
    /// Reveals nothing if this assumption holds.
    Assumption(String),
    /// Made from private examples without noise: no epsilon covers it.
    NotPrivate(String),
}

impl PrivacyStatus {
    /// Whether nothing is revealed beyond what is charged to a ledger or assumed.
    pub fn is_private(&self) -> bool {
        !matches!(self, Self::NotPrivate(_))
    }
}

/// The status of a mask that combines two others: the union of theirs, without duplicates.
pub(super) fn combined(a: &[PrivacyStatus], b: &[PrivacyStatus]) -> Vec<PrivacyStatus> {
    let mut all: Vec<PrivacyStatus> = Vec::new();
    for status in a.iter().chain(b).filter(|status| **status != PrivacyStatus::DataFree) {
        if !all.contains(status) {
            all.push(status.clone());
        }
    }
    if all.is_empty() { vec![PrivacyStatus::DataFree] } else { all }
}

impl fmt::Display for PrivacyStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DataFree => f.write_str("data-free: costs nothing"),
            Self::Released { event, assumed: None, .. } => {
                write!(f, "released privately ({event})")
            }
            Self::Released { event, assumed: Some(assumed), .. } => {
                write!(f, "released privately ({event}) if {assumed}")
            }
            Self::Assumption(assumed) => write!(f, "costs nothing if {assumed}"),
            Self::NotPrivate(why) => write!(f, "not private: {why}"),
        }
    }
}

/// How a mask was made, and what that reveals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// The pruning method, for display: `Synflow, 70 % dropped`.
    ///
    /// Plans contain this text and run ids are hashes of plans, so the texts of existing methods
    /// must not change.
    #[serde(rename = "how")]
    pub method: String,
    /// What the choice reveals. Several entries if masks were combined.
    #[serde(rename = "covered")]
    pub privacy: Vec<PrivacyStatus>,
}

impl Origin {
    /// An origin with a single privacy status.
    pub(crate) fn new(method: impl Into<String>, privacy: PrivacyStatus) -> Self {
        Self { method: method.into(), privacy: vec![privacy] }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let privacy: Vec<String> = self.privacy.iter().map(ToString::to_string).collect();
        write!(f, "{} ({})", self.method, privacy.join("; "))
    }
}
