//! The neighbouring relation of data sets.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The neighbouring relation: by how much two neighbouring data sets may differ.
///
/// An epsilon holds under one relation only: the same mechanism has a different epsilon under
/// another. The noise multiplier of an [`Event`](super::Event) does not depend on the relation: it
/// is always the standard deviation of the noise on the sum divided by the clip norm.
///
/// ```
/// use epsilab_accounting::{Accountant, Delta, Event, Gdp, NeighbouringRelation};
/// let release = [Event::gaussian(4.0)];
/// let epsilon = |relation| Gdp::with_neighbouring(relation).epsilon(&release, Delta(1e-5));
/// let added = epsilon(NeighbouringRelation::AddOrRemoveOne)?.epsilon;
/// let replaced = epsilon(NeighbouringRelation::ReplaceOne)?.epsilon;
/// assert!(added < replaced);
/// # Ok::<(), epsilab_accounting::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NeighbouringRelation {
    /// One example is added or removed. A sum of vectors clipped to norm C has sensitivity C.
    #[default]
    AddOrRemoveOne,
    /// The contribution of one example is replaced by zeros; the number of examples stays the same.
    /// A sum of vectors clipped to norm C has sensitivity C.
    ZeroOutOne,
    /// One example is replaced by any other. A sum of vectors clipped to norm C has sensitivity
    /// 2C.
    ReplaceOne,
}

impl fmt::Display for NeighbouringRelation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NeighbouringRelation::AddOrRemoveOne => "add or remove one",
            NeighbouringRelation::ZeroOutOne => "zero out one",
            NeighbouringRelation::ReplaceOne => "replace one",
        })
    }
}
