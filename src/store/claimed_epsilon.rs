//! The epsilon that a stored run may claim.
//!
//! Its record is a text file that can be edited. So epsilon is computed again from the releases in
//! the record.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::Result;
use crate::privacy::digits::RoundedUp;
use crate::privacy::{Accountant, Delta, Event, NeighbouringRelation, TightestAccountant};
use crate::train::RunRecord;

/// Relative tolerance between an epsilon and the same epsilon after it went through a file.
const ROUNDING: f64 = 1e-6;

/// Raises the epsilon of a record to the cost of its releases. Returns a warning if the recorded
/// epsilon is not the recomputed one.
///
/// # Guarantee
/// The claimed epsilon is at least what the tightest accountant proves for the recorded releases,
/// and at least the recorded value: editing one of them can only raise it. If no accountant covers
/// the releases, no epsilon is claimed. Edits that lower both are found by comparing with the
/// ledger ([`check_releases_match_charge`](super::ledger_check::check_releases_match_charge)).
pub(super) fn reconcile_epsilon(record: &mut RunRecord) -> Option<String> {
    let stored = record.epsilon?;
    let delta = record.plan.privacy().map_or(Delta::DEFAULT, |privacy| privacy.delta);
    let recomputed = match cached_epsilon(record.plan.neighbouring(), &record.events(), delta) {
        Ok(epsilon) => epsilon,
        Err(error) => {
            record.epsilon = None;
            record.planned_epsilon = None;
            return Some(format!(
                "The stored epsilon of this run, {}, is not claimed: no accountant covers its \
                 releases ({error}).",
                RoundedUp(stored)
            ));
        }
    };
    // `max` ignores a recorded NaN.
    let claimed = recomputed.max(stored);
    record.epsilon = Some(claimed);
    record.planned_epsilon = record.planned_epsilon.map(|planned| planned.max(claimed));
    let same = |epsilon: f64| (epsilon - stored).abs() <= ROUNDING * epsilon.abs();
    if same(recomputed) {
        return None;
    }
    Some(format!(
        "The stored epsilon of this run, {}, differs from the cost of its releases: {} at delta \
         {delta}. Its file was edited. The larger of the two is claimed.",
        RoundedUp(stored),
        RoundedUp(recomputed)
    ))
}

/// Computes the epsilon of the events by [`TightestAccountant`]. Results are cached, because many
/// runs of a grid have equal releases.
fn cached_epsilon(
    neighbouring: NeighbouringRelation,
    events: &[Event],
    delta: Delta,
) -> Result<f64> {
    static KNOWN: Mutex<Option<HashMap<String, f64>>> = Mutex::new(None);
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let question = format!("{neighbouring:?} {events:?} {:?}", delta.0);
    if let Some(&epsilon) = known().as_ref().and_then(|known| known.get(&question)) {
        return Ok(epsilon);
    }
    let epsilon =
        TightestAccountant::with_neighbouring(neighbouring).epsilon(events, delta)?.epsilon;
    known().get_or_insert_default().insert(question, epsilon);
    Ok(epsilon)
}
