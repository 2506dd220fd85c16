//! Coverage of outputs: what they reveal of private data.

use crate::nn::Provenance;
use serde_json::{Value, json};

/// Coverage of an output: what it reveals of private data, from least to most.
///
/// A saved notebook is a release: everything in it is published with it. Each output that the
/// library shows carries its coverage in the metadata, so that what no epsilon covers can be
/// removed before the notebook is shared. Of several values together, the largest coverage holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Coverage {
    /// Disclosure of settings, code and public data only.
    Public,
    /// Disclosure of releases that the ledger accounts for, and of their consequences.
    Covered,
    /// Disclosure as of [`Covered`](Self::Covered), with an evaluation on a test part that was
    /// split off the private data. The guarantee of a run protects the training part; the test
    /// part is read without noise.
    TestPart,
    /// Disclosure that is not stated, such as that of output by the user's own code.
    #[default]
    Unmarked,
    /// Disclosure of private data outside the ledger.
    NotCovered,
}

impl Coverage {
    /// All coverages, in order.
    pub const ALL: [Self; 5] =
        [Self::Public, Self::Covered, Self::TestPart, Self::Unmarked, Self::NotCovered];

    /// Returns [`NotCovered`](Self::NotCovered) if the data are `private`, otherwise
    /// [`Public`](Self::Public).
    pub(crate) fn for_raw_data(private: bool) -> Self {
        if private { Self::NotCovered } else { Self::Public }
    }

    /// Returns the coverage of the parameters of a model with this provenance.
    pub fn for_parameters(provenance: &Provenance) -> Self {
        match provenance {
            Provenance::Initial { .. } | Provenance::Public(_) => Self::Public,
            Provenance::Unknown { raw } if raw.is_empty() => Self::Unmarked,
            Provenance::Unknown { .. } => Self::NotCovered,
        }
    }

    /// Returns the name in the metadata of an output: `public`, `covered`, `test_part`, `unmarked`
    /// or `not_covered`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Covered => "covered",
            Self::TestPart => "test_part",
            Self::Unmarked => "unmarked",
            Self::NotCovered => "not_covered",
        }
    }

    /// Returns the coverage that the metadata of an output states; [`Unmarked`](Self::Unmarked) if
    /// they state none.
    pub fn from_metadata(metadata: &Value) -> Self {
        let name = metadata["epsilab"]["coverage"].as_str();
        Self::ALL.into_iter().find(|coverage| name == Some(coverage.name())).unwrap_or_default()
    }

    /// Returns the entry `epsilab` of an output's metadata.
    pub(super) fn to_metadata(self) -> Value {
        json!({ "coverage": self.name() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_state_the_coverage_and_whatever_else_is_unmarked() {
        for coverage in Coverage::ALL {
            let metadata = json!({ "epsilab": coverage.to_metadata() });
            assert_eq!(Coverage::from_metadata(&metadata), coverage);
        }
        let others =
            [json!({}), json!(null), json!({"epsilab": {"coverage": "Public "}}), json!(3)];
        for other in others {
            assert_eq!(Coverage::from_metadata(&other), Coverage::Unmarked, "{other}");
        }
    }

    #[test]
    fn of_several_values_the_least_protected_decides() {
        assert!(Coverage::ALL.is_sorted());
        assert_eq!(Coverage::Public.max(Coverage::NotCovered), Coverage::NotCovered);
        assert_eq!(Coverage::Unmarked.max(Coverage::TestPart), Coverage::Unmarked);
    }
}
