//! One line of a ledger.

use serde::{Deserialize, Serialize};

use super::Budget;
use crate::{Error, ErrorKind, Event, NeighbouringRelation, Result};

/// The content of an entry. In a file its fields are next to those of the [`Entry`]; the field
/// `entry` names the variant: `planned`, `spent`, `resumed` or `budget`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
#[non_exhaustive]
pub enum EntryContent {
    /// Plan of a run that is about to start: everything it may release is charged.
    Planned {
        /// The id of the run, unique in a ledger.
        run: String,
        /// The event that the run may release.
        event: Event,
    },
    /// Correction of a run that has ended: only this part of its plan was released.
    Spent {
        /// The id of the run.
        run: String,
        /// The event that was released.
        event: Event,
    },
    /// Resumption of a run that was stopped: everything that it may release in all is charged
    /// again, in place of what it had released. No later correction charges less than that.
    Resumed {
        /// The id of the run.
        run: String,
        /// The event that the whole run may release.
        event: Event,
    },
    /// A new budget. Earlier ones stay on record.
    Budget(Budget),
}

/// One line of a ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// A plan, its correction, its resumption, or a budget.
    #[serde(flatten)]
    pub content: EntryContent,
    /// Content hash of the data set.
    pub data_hash: String,
    /// Time of the entry: UTC, ISO 8601, whole seconds. Filled in by the [`Book`](super::Book) that
    /// keeps it; empty before, and in books without a clock.
    #[serde(rename = "at")]
    pub recorded_at: String,
    /// Free text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// The epsilon claimed by the method's authors, where it differs from the proved one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epsilon_claimed: Option<f64>,
    /// The relation for which the guarantee of the run is stated, where that is stricter than the
    /// one that its event is [covered](crate::TightestAccountant::for_events) by: one example
    /// replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbouring: Option<NeighbouringRelation>,
}

impl Entry {
    /// Returns the entry of a plan.
    pub fn planned(run: &str, data_hash: &str, event: &Event) -> Self {
        Self::new(data_hash, EntryContent::Planned { run: run.into(), event: event.clone() })
    }

    /// Returns the correction of a plan.
    pub fn spent(run: &str, data_hash: &str, event: &Event) -> Self {
        Self::new(data_hash, EntryContent::Spent { run: run.into(), event: event.clone() })
    }

    /// Returns the entry of a stopped run that resumes.
    pub fn resumed(run: &str, data_hash: &str, event: &Event) -> Self {
        Self::new(data_hash, EntryContent::Resumed { run: run.into(), event: event.clone() })
    }

    /// Returns the entry of a budget.
    pub(crate) fn budget(data_hash: &str, budget: Budget) -> Self {
        Self::new(data_hash, EntryContent::Budget(budget))
    }

    /// Returns this entry with a note.
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// Returns this entry with the epsilon claimed by the method's authors.
    pub fn with_claimed_epsilon(mut self, epsilon: f64) -> Self {
        self.epsilon_claimed = Some(epsilon);
        self
    }

    /// Returns this entry with the relation for which the guarantee of its run is stated. Only
    /// replace-one is recorded: the events decide between the two others.
    pub fn with_neighbouring(mut self, relation: NeighbouringRelation) -> Self {
        self.neighbouring = stated(relation);
        self
    }

    fn new(data_hash: &str, content: EntryContent) -> Self {
        Self {
            content,
            data_hash: data_hash.to_owned(),
            recorded_at: String::new(),
            note: String::new(),
            epsilon_claimed: None,
            neighbouring: None,
        }
    }

    /// Returns the event of the entry, planned or released; `None` for a budget.
    pub fn event(&self) -> Option<&Event> {
        match &self.content {
            EntryContent::Planned { event, .. }
            | EntryContent::Spent { event, .. }
            | EntryContent::Resumed { event, .. } => Some(event),
            EntryContent::Budget(_) => None,
        }
    }

    /// Checks that all numbers are in range and that the entry belongs to this data set.
    ///
    /// # Errors
    /// Kind `Setting` for a number out of range, kind `Ledger` for another data set.
    pub fn check(&self, data_hash: &str) -> Result<()> {
        if let Some(event) = self.event() {
            event.check()?;
        }
        if let EntryContent::Budget(budget) = &self.content {
            budget.check()?;
        }
        if self.data_hash == data_hash {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Ledger,
            format!("{} belongs to the data set {}", self.subject(), self.data_hash),
            format!("this is the ledger of {data_hash}"),
        ))
    }

    /// Returns a description of the entry, for error messages.
    pub fn subject(&self) -> String {
        match &self.content {
            EntryContent::Planned { run, event }
            | EntryContent::Spent { run, event }
            | EntryContent::Resumed { run, event } => {
                format!("run {run} ({event})")
            }
            EntryContent::Budget(budget) => format!("the budget {budget}"),
        }
    }
}

/// Returns the relation that an entry names for a run whose guarantee is stated for `relation`.
pub(super) fn stated(relation: NeighbouringRelation) -> Option<NeighbouringRelation> {
    Some(relation).filter(|relation| *relation == NeighbouringRelation::ReplaceOne)
}
