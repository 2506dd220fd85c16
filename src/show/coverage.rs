//! What an output reveals of private data.

use crate::nn::Provenance;
use serde_json::{Value, json};

/// What an output reveals of private data, from least to most.
///
/// A saved notebook is a release: everything in it is published with it. Each output that the
/// library shows carries its coverage in the metadata, so that what no epsilon covers can be
/// removed before the notebook is shared. Of several values together, the largest coverage holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Coverage {
    /// Settings, code and public data only.
    Public,
    /// Releases that the ledger accounts for, and what follows from them.
    Covered,
    /// As [`Covered`](Self::Covered), with an evaluation on a test part that was split off the
    /// private data. The guarantee of a run protects the training part; the test part is read
    /// without noise.
    TestPart,
    /// Not stated, such as what the user's own code prints.
    #[default]
    Unmarked,
    /// Private data, outside the ledger.
    NotCovered,
}

impl Coverage {
    /// All of them, in order.
    pub const ALL: [Self; 5] =
        [Self::Public, Self::Covered, Self::TestPart, Self::Unmarked, Self::NotCovered];

    /// [`NotCovered`](Self::NotCovered) if the data are `private`, otherwise
    /// [`Public`](Self::Public).
    pub(crate) fn without_noise(private: bool) -> Self {
        if private { Self::NotCovered } else { Self::Public }
    }

    /// What the parameters of a model with this provenance reveal. Parameters that may depend on
    /// private data are [`Unmarked`](Self::Unmarked) unless they are known to be trained without
    /// privacy: a private run is one way in which they can come about.
    pub fn of_parameters(provenance: &Provenance) -> Self {
        match provenance {
            Provenance::Initial { .. } | Provenance::Public(_) => Self::Public,
            Provenance::Unknown { raw } if raw.is_empty() => Self::Unmarked,
            Provenance::Unknown { .. } => Self::NotCovered,
        }
    }

    /// The name in the metadata of an output: `public`, `covered`, `test_part`, `unmarked` or
    /// `not_covered`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Covered => "covered",
            Self::TestPart => "test_part",
            Self::Unmarked => "unmarked",
            Self::NotCovered => "not_covered",
        }
    }

    /// The coverage that the metadata of an output states; [`Unmarked`](Self::Unmarked) if they
    /// state none.
    pub fn of_metadata(metadata: &Value) -> Self {
        let name = metadata["epsilab"]["coverage"].as_str();
        Self::ALL.into_iter().find(|coverage| name == Some(coverage.name())).unwrap_or_default()
    }

    /// The entry `epsilab` of an output's metadata.
    pub(super) fn metadata(self) -> Value {
        json!({ "coverage": self.name() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_state_the_coverage_and_whatever_else_is_unmarked() {
        for coverage in Coverage::ALL {
            let metadata = json!({ "epsilab": coverage.metadata() });
            assert_eq!(Coverage::of_metadata(&metadata), coverage);
        }
        let others =
            [json!({}), json!(null), json!({"epsilab": {"coverage": "Public "}}), json!(3)];
        for other in others {
            assert_eq!(Coverage::of_metadata(&other), Coverage::Unmarked, "{other}");
        }
    }

    #[test]
    fn of_several_values_the_least_protected_decides() {
        assert!(Coverage::ALL.is_sorted());
        assert_eq!(Coverage::Public.max(Coverage::NotCovered), Coverage::NotCovered);
        assert_eq!(Coverage::Unmarked.max(Coverage::TestPart), Coverage::Unmarked);
    }
}
