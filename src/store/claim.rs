//! The epsilon that a stored run may claim.
//!
//! Its record is a text file that anybody can edit and that earlier versions wrote, so the number
//! in it is not believed: the accountant is asked again for what the record says was released.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::Result;
use crate::privacy::digits::Rounded;
use crate::privacy::ledger::export::DELTA;
use crate::privacy::{Accountant, Delta, Event, Headline, Rdp};
use crate::train::RunRecord;

/// What is left between two answers of one accountant after a number went through a file.
const ROUNDING: f64 = 1e-6;

/// Raises the epsilon of a record to what its own releases cost, and says so if the number on
/// record is none that an accountant gives.
///
/// # Guarantee
/// What is claimed is at least what the headline accountant proves for the recorded releases, and
/// at least what was on record: whichever of the two was edited, it can only rise. Where no
/// accountant covers the releases nothing is claimed. Edits that lower both are not found here.
pub(super) fn settle(record: &mut RunRecord) -> Option<String> {
    let stored = record.epsilon?;
    let delta = record.plan.privacy().map_or(DELTA, |privacy| privacy.delta);
    let recomputed = match headline(&record.events, delta) {
        Ok(epsilon) => epsilon,
        Err(error) => {
            (record.epsilon, record.planned_epsilon) = (None, None);
            return Some(format!(
                "The stored epsilon of this run, {}, is not claimed: no accountant covers what \
                 it released ({error}).",
                Rounded(stored)
            ));
        }
    };
    // Also if it is no number at all: then the other one is the larger.
    let claimed = recomputed.max(stored);
    record.epsilon = Some(claimed);
    record.planned_epsilon = record.planned_epsilon.map(|planned| planned.max(claimed));
    let same = |epsilon: f64| (epsilon - stored).abs() <= ROUNDING * epsilon.abs();
    // Before there was a headline accountant, runs were recorded by RDP.
    let by_rdp = || Rdp::default().epsilon(&record.events, delta).is_ok_and(|s| same(s.epsilon));
    if same(recomputed) || by_rdp() {
        return None;
    }
    Some(format!(
        "The stored epsilon of this run, {}, is not what its releases cost by any accountant here: \
         {} at delta {delta}. Its file was edited, or another version wrote it. The larger of the \
         two is claimed.",
        Rounded(stored),
        Rounded(recomputed)
    ))
}

/// The answer of the headline accountant. Many runs of a grid release the same, and asking takes
/// a moment: answers are remembered.
fn headline(events: &[Event], delta: Delta) -> Result<f64> {
    static KNOWN: Mutex<Option<HashMap<String, f64>>> = Mutex::new(None);
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let question = format!("{events:?} {:?}", delta.0);
    if let Some(&epsilon) = known().as_ref().and_then(|known| known.get(&question)) {
        return Ok(epsilon);
    }
    let epsilon = Headline::default().epsilon(events, delta)?.epsilon;
    known().get_or_insert_default().insert(question, epsilon);
    Ok(epsilon)
}
