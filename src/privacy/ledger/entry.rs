//! One line of a ledger.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::Budget;
use crate::privacy::{Event, Neighbouring};
use crate::{Error, ErrorKind, Result};

/// The content of an entry. In a file its fields are next to those of the [`Entry`]; the field
/// `entry` names the variant: `planned`, `spent`, `resumed` or `budget`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
#[non_exhaustive]
pub enum EntryKind {
    /// A run is about to start: everything it may release is charged.
    Planned {
        /// The id of the run, unique in a ledger.
        run: String,
        /// The event that the run may release.
        event: Event,
    },
    /// A run has ended: only this part of its plan was released.
    Spent {
        /// The id of the run.
        run: String,
        /// The event that was released.
        event: Event,
    },
    /// A run that was stopped goes on from where it was: everything that it may release in all is
    /// charged again, in place of what it had released. No later correction charges less than that.
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
    /// A plan, its correction, or a budget.
    #[serde(flatten)]
    pub entry: EntryKind,
    /// Content hash of the data set.
    pub data_hash: String,
    /// Time of the entry: UTC, ISO 8601, whole seconds.
    pub at: String,
    /// Free text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// The epsilon claimed by the method's authors, where it differs from the proved one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epsilon_claimed: Option<f64>,
    /// The relation for which the guarantee of the run is stated, where that is stricter than the
    /// one that its event is [covered](crate::privacy::Headline::covering) by: one example
    /// replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbouring: Option<Neighbouring>,
}

impl Entry {
    /// A plan, with the current time.
    pub fn planned(run: &str, data_hash: &str, event: &Event) -> Self {
        Self::now(data_hash, EntryKind::Planned { run: run.into(), event: event.clone() })
    }

    /// The correction of a plan, with the current time.
    pub fn spent(run: &str, data_hash: &str, event: &Event) -> Self {
        Self::now(data_hash, EntryKind::Spent { run: run.into(), event: event.clone() })
    }

    /// A stopped run that goes on, with the current time.
    pub fn resumed(run: &str, data_hash: &str, event: &Event) -> Self {
        Self::now(data_hash, EntryKind::Resumed { run: run.into(), event: event.clone() })
    }

    /// A budget, with the current time.
    pub fn budget(data_hash: &str, budget: Budget) -> Self {
        Self::now(data_hash, EntryKind::Budget(budget))
    }

    /// This entry with a note.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// This entry with the epsilon claimed by the method's authors.
    pub fn epsilon_claimed(mut self, epsilon: f64) -> Self {
        self.epsilon_claimed = Some(epsilon);
        self
    }

    /// This entry of a run whose guarantee is stated for a relation.
    pub fn neighbouring(mut self, relation: Neighbouring) -> Self {
        self.neighbouring = stated(relation);
        self
    }

    fn now(data_hash: &str, entry: EntryKind) -> Self {
        let (data_hash, at, note) = (data_hash.to_string(), now(), String::new());
        Self { entry, data_hash, at, note, epsilon_claimed: None, neighbouring: None }
    }

    /// Checks that all numbers are in range and that the entry belongs to this data set.
    pub(super) fn check(&self, data_hash: &str) -> Result<()> {
        match &self.entry {
            EntryKind::Planned { event, .. }
            | EntryKind::Spent { event, .. }
            | EntryKind::Resumed { event, .. } => {
                event.check()?;
            }
            EntryKind::Budget(budget) => {
                budget.check()?;
            }
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

    /// Description of the entry, for error messages.
    pub(super) fn subject(&self) -> String {
        match &self.entry {
            EntryKind::Planned { run, event }
            | EntryKind::Spent { run, event }
            | EntryKind::Resumed { run, event } => {
                format!("run {run} ({event})")
            }
            EntryKind::Budget(budget) => format!("the budget {budget}"),
        }
    }
}

/// Returns the relation that an entry names for a run whose guarantee is stated for `relation`.
pub(super) fn stated(relation: Neighbouring) -> Option<Neighbouring> {
    Some(relation).filter(|relation| *relation == Neighbouring::ReplaceOne)
}

/// The time now: UTC, ISO 8601, whole seconds.
pub(crate) fn now() -> String {
    iso_utc(SystemTime::now())
}

/// `2026-11-21T05:07:08Z`. The date is computed in 400-year cycles from 1 March of year 0, so that
/// the leap day is the last day of a year.
fn iso_utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let days = days + 719_468; // 1970-01-01 counted from 0000-03-01
    let (cycle, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153; // from March; 153 days are five months
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let (month, january_on) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!(
        "{:04}-{month:02}-{day_of_month:02}T{:02}:{:02}:{:02}Z",
        cycle * 400 + year + january_on,
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn seconds_become_a_date() {
        let at = |seconds| iso_utc(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(at(951_868_800), "2000-03-01T00:00:00Z");
        assert_eq!(at(1_735_689_599), "2024-12-31T23:59:59Z");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00Z");
    }
}
