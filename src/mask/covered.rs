//! Where a mask comes from, and what its choice has cost.

use serde::{Deserialize, Serialize};
use std::fmt;

use crate::privacy::Event;

/// Whether looking at a mask (or at saliencies) reveals anything about a data set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Covered {
    /// Made without any example: from shapes, randomness and initial parameters.
    DataFree,
    /// Made through a noisy release that a ledger has charged.
    Released {
        /// The release.
        event: Event,
        /// The [`origin`](crate::data::Dataset::origin) of the data it is about.
        data: String,
        /// Its name in that data's ledger.
        run: String,
        /// What has to hold beside: nobody knows the seed of its noise, say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        assumed: Option<String>,
    },
    /// Nothing is revealed if this holds.
    Assumption(String),
    /// Made from private examples without noise: not covered by any epsilon.
    NotPrivate(String),
}

impl Covered {
    /// Whether nothing is revealed beyond what is charged (or assumed).
    pub fn is_covered(&self) -> bool {
        !matches!(self, Self::NotPrivate(_))
    }
}

/// What a mask reveals that is made of two others: what each of them does.
pub(super) fn both(a: &[Covered], b: &[Covered]) -> Vec<Covered> {
    let mut all: Vec<Covered> = Vec::new();
    for part in a.iter().chain(b).filter(|part| **part != Covered::DataFree) {
        if !all.contains(part) {
            all.push(part.clone());
        }
    }
    if all.is_empty() { vec![Covered::DataFree] } else { all }
}

impl fmt::Display for Covered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DataFree => f.write_str("data-free: costs nothing"),
            Self::Released { event, assumed: None, .. } => {
                write!(f, "released privately ({event})")
            }
            Self::Released { event, assumed: Some(what), .. } => {
                write!(f, "released privately ({event}) if {what}")
            }
            Self::Assumption(what) => write!(f, "costs nothing if {what}"),
            Self::NotPrivate(why) => write!(f, "not private: {why}"),
        }
    }
}

/// How a mask was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// In words: `Synflow, 70 % dropped`.
    pub how: String,
    /// What the choice reveals; several where masks were combined.
    pub covered: Vec<Covered>,
}

impl Origin {
    /// An origin with one cover.
    pub fn new(how: impl Into<String>, covered: Covered) -> Self {
        Self { how: how.into(), covered: vec![covered] }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let covered: Vec<String> = self.covered.iter().map(ToString::to_string).collect();
        write!(f, "{} ({})", self.how, covered.join("; "))
    }
}
