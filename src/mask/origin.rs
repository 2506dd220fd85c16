//! Origin of a mask: its method, and the privacy of its choice.

use serde::{Deserialize, Serialize};
use std::fmt;

use crate::privacy::Event;

/// Privacy of a mask (or a saliency): the information that it reveals about a data set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrivacyStatus {
    /// Data-free: made from shapes, randomness, and parameters that are initial or were trained on
    /// synthetic data.
    DataFree,
    /// Noisy release that is charged to a ledger.
    Released {
        /// Event of the release.
        event: Event,
        /// [`origin`](crate::data::Dataset::origin) of the data set that the release was computed
        /// on.
        data: String,
        /// Name of the run in that data set's ledger.
        run: String,
        /// Further assumption, for example that the seed of the noise is secret.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        assumed: Option<String>,
    },
    /// Assumption under which nothing is revealed.
    Assumption(String),
    /// Private examples without noise: no epsilon covers the mask.
    NotPrivate(String),
}

impl PrivacyStatus {
    /// Returns whether the mask reveals nothing beyond releases that are charged to a ledger,
    /// possibly under an assumption.
    pub fn is_covered(&self) -> bool {
        !matches!(self, Self::NotPrivate(_))
    }
}

/// Returns the status of a mask that combines two others: the union of theirs, without duplicates.
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

/// Origin of a mask: its method, and the privacy of its choice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MaskOrigin {
    /// Pruning method, for display: `Synflow, 70 % dropped`.
    ///
    /// Plans contain this text and run ids are hashes of plans, so the texts of existing methods
    /// must not change.
    #[serde(rename = "how")]
    pub method: String,
    /// Privacy of the choice. Several entries if masks were combined.
    #[serde(rename = "covered")]
    pub privacy: Vec<PrivacyStatus>,
}

impl MaskOrigin {
    /// Creates an origin with a single privacy status.
    pub(crate) fn new(method: impl Into<String>, privacy: PrivacyStatus) -> Self {
        Self { method: method.into(), privacy: vec![privacy] }
    }
}

impl fmt::Display for MaskOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let privacy: Vec<String> = self.privacy.iter().map(ToString::to_string).collect();
        write!(f, "{} ({})", self.method, privacy.join("; "))
    }
}
