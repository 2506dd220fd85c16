//! When two data sets count as neighbours.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The neighbouring relation: how far apart two data sets may be and still have to look alike.
///
/// The relation belongs beside every epsilon: the same mechanism has another epsilon under
/// another relation. The noise multiplier in an [`Event`](super::Event) does not depend on it: it
/// is always the standard deviation of the noise on the sum divided by the clip norm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Neighbouring {
    /// One example is added or removed. A sum of vectors clipped to norm C has sensitivity C.
    #[default]
    AddOrRemoveOne,
    /// The contribution of one example is replaced by zeros; the number of examples stays.
    /// A sum of vectors clipped to norm C has sensitivity C.
    ZeroOutOne,
    /// One example is replaced by any other. A sum of vectors clipped to norm C has
    /// sensitivity 2 C.
    ReplaceOne,
}

impl fmt::Display for Neighbouring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Neighbouring::AddOrRemoveOne => "add or remove one",
            Neighbouring::ZeroOutOne => "zero out one",
            Neighbouring::ReplaceOne => "replace one",
        })
    }
}
