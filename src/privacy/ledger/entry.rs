//! One line of a ledger.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::Budget;
use crate::privacy::Event;
use crate::{Error, ErrorKind, Result};

/// What an entry says. In a file its fields stand beside those of the [`Entry`], and `entry` says
/// which kind it is: `planned`, `spent` or `budget`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
#[non_exhaustive]
pub enum EntryKind {
    /// The run is about to begin: everything it may release is charged.
    Planned {
        /// The run, by an id that is used once in a ledger.
        run: String,
        /// What it may release.
        event: Event,
    },
    /// The run has ended: only this much of its plan was released.
    Spent {
        /// The run, by the id of its plan.
        run: String,
        /// What it has released.
        event: Event,
    },
    /// From here on this limit holds. Earlier ones stay on record.
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
    /// When the entry was made: UTC, ISO 8601, whole seconds.
    pub at: String,
    /// Free words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// The epsilon that the method's authors claim, where it differs from what can be proved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epsilon_claimed: Option<f64>,
    /// The name of the ledger that it was made in, if it was taken over from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former: Option<String>,
}

impl Entry {
    /// A plan, dated now.
    pub fn planned(run: &str, data_hash: &str, event: &Event) -> Self {
        Self::now(data_hash, EntryKind::Planned { run: run.into(), event: event.clone() })
    }

    /// The correction of a plan, dated now.
    pub fn spent(run: &str, data_hash: &str, event: &Event) -> Self {
        Self::now(data_hash, EntryKind::Spent { run: run.into(), event: event.clone() })
    }

    /// A limit, dated now.
    pub fn budget(data_hash: &str, budget: Budget) -> Self {
        Self::now(data_hash, EntryKind::Budget(budget))
    }

    /// The same entry with free words.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// The same entry with the epsilon that the method's authors claim.
    pub fn epsilon_claimed(mut self, epsilon: f64) -> Self {
        self.epsilon_claimed = Some(epsilon);
        self
    }

    /// The same entry, taken over into the ledger of this name.
    pub(super) fn taken_over(self, data_hash: &str) -> Self {
        let former = Some(self.former.unwrap_or(self.data_hash));
        Self { data_hash: data_hash.to_string(), former, ..self }
    }

    fn now(data_hash: &str, entry: EntryKind) -> Self {
        let (data_hash, at, note) = (data_hash.to_string(), now(), String::new());
        Self { entry, data_hash, at, note, epsilon_claimed: None, former: None }
    }

    /// Refuses numbers out of range, and an entry of another data set's ledger.
    pub(super) fn check(&self, data_hash: &str) -> Result<()> {
        match &self.entry {
            EntryKind::Planned { event, .. } | EntryKind::Spent { event, .. } => {
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
            format!("{} is about the data set {}", self.subject(), self.data_hash),
            format!("this is the ledger of {data_hash}"),
        ))
    }

    /// What the entry is about, for messages.
    pub(super) fn subject(&self) -> String {
        match &self.entry {
            EntryKind::Planned { run, event } | EntryKind::Spent { run, event } => {
                format!("run {run} ({event})")
            }
            EntryKind::Budget(budget) => format!("the budget {budget}"),
        }
    }
}

/// The time now: UTC, ISO 8601, whole seconds.
pub(crate) fn now() -> String {
    iso_utc(SystemTime::now())
}

/// `2026-11-21T05:07:08Z`. Days to date by counting 400-year cycles from 1 March of year 0, so
/// that the leap day is the last day of a year.
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
